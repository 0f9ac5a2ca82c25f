"""The name that models use for a skill: its own, or with its source's name where two have the same."""

from __future__ import annotations

import re
from hashlib import sha256

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")

NAME_CHARS_MAX = 64


class SkillNames:
    """Names that are given once and stay: a name that became free is not given to another skill."""

    def __init__(self, taken: SkillNames | None = None) -> None:
        self._given: dict[tuple[str, str], str] = {}
        self._taken: set[str] = set()
        self._above = taken

    def give(self, source: str, name: str, *, hide: bool = False) -> str:
        """The name of a skill. `hide`: do not show its own, which would be read by a model."""
        key = (source, name)
        above = self._above
        if key not in self._given or (above is not None and above.has(self._given[key])):
            chosen = self._choose(source, name, hide=hide)
            self._given[key] = chosen
            self._taken.add(chosen)
        return self._given[key]

    def has(self, name: str) -> bool:
        """Return True if this name is given to some skill."""
        return name in self._taken

    def _choose(self, source: str, name: str, *, hide: bool) -> str:
        mark = sha256(f"{source}\n{name}".encode("utf-8", "surrogatepass")).hexdigest()[:8]
        if hide or not _NAME.fullmatch(name):
            return f"unnamed-{mark}"
        if not self._is_taken(name):
            return name
        prefix = re.sub(r"[^A-Za-z0-9]+", "_", source.rpartition("/")[2].rpartition(":")[2])
        longer = f"{prefix.strip('_')[:20] or 'other'}__{name}"[:NAME_CHARS_MAX]
        return longer if not self._is_taken(longer) else f"{name[:54]}__{mark}"

    def _is_taken(self, name: str) -> bool:
        return self.has(name) or (self._above is not None and self._above.has(name))
