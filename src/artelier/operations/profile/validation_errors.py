"""Everything that is wrong with a profile at once: where, which rule, in words."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import TypedDict

from artelier.errors import InvalidConfig

MISTAKES_MAX = 1_000
"""Beyond these one line says that there are more."""
SHOWN_MAX = 5
"""In the message of the error."""
MESSAGE_CHARS_MAX = 400
KEY_CHARS_MAX = 64

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")

Step = str | int


class ProfileMistake(TypedDict):
    """One mistake: `path` such as `operations[3].params.effects[0].tag`, a stable `code`, a sentence."""

    path: str
    code: str
    message: str


class InvalidProfile(InvalidConfig):
    """A profile is against the rules. `errors` has all mistakes, in the order of the profile."""

    code = "invalid_profile"

    def __init__(self, errors: Sequence[ProfileMistake]) -> None:
        self.errors: tuple[ProfileMistake, ...] = tuple(errors)
        count = len(self.errors)
        said = "; ".join(_format_mistake(one) for one in self.errors[:SHOWN_MAX])
        lead = "a mistake in the profile" if count == 1 else f"{count} mistakes in the profile"
        more = f"The first {SHOWN_MAX} are shown; `errors` and `artelier profile validate` have all."
        super().__init__(f"{lead}: {said}", hint=more if count > SHOWN_MAX else None)


class Mistakes:
    """Collects what is found; the same mistake at the same place counts once."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str, str], tuple[tuple[Step, ...], ProfileMistake]] = {}

    def add(self, steps: Sequence[Step], code: str, message: str) -> None:
        if len(self._found) > MISTAKES_MAX:
            return
        path = path_of(steps)
        if len(self._found) == MISTAKES_MAX:
            code, message = "too_many_mistakes", "there are more than can be listed"
        made: ProfileMistake = {"path": path, "code": code, "message": _limit_message(message)}
        self._found.setdefault((path, code, made["message"]), (tuple(steps), made))

    def places(self) -> frozenset[str]:
        """Paths at which something is wrong."""
        return frozenset(path for path, _, _ in self._found)

    def __bool__(self) -> bool:
        return bool(self._found)

    def in_order(self) -> list[ProfileMistake]:
        """Return the mistakes by place, those of one place in the order in which they were found."""

        def place(found: tuple[tuple[Step, ...], ProfileMistake]) -> list[tuple[int, str]]:
            return [(one, "") if isinstance(one, int) else (-1, one) for one in found[0]]

        return [mistake for _, mistake in sorted(self._found.values(), key=place)]


def path_of(steps: Sequence[Step]) -> str:
    """`operations[3].params["odd key"]`; empty for the whole."""
    path = ""
    for step in steps:
        if isinstance(step, int):
            path += f"[{step}]"
        elif _NAME.fullmatch(step):
            path += f".{step}" if path else step
        else:
            path += f"[{json.dumps(step[:KEY_CHARS_MAX], ensure_ascii=True)}]"
    return path


def steps_of(path: str) -> tuple[Step, ...]:
    """The steps of a path as kinds write it: `prompt`, `output.schema`, `steps[0].path`."""
    parts = (part for part in re.split(r"[.\[\]]+", path) if part)
    return tuple(int(part) if part.isdecimal() and part.isascii() else part for part in parts)


def quote_text(value: object) -> str:
    """A text of the profile in a message, short and in ASCII quotes."""
    text = value if isinstance(value, str) else type(value).__name__
    return json.dumps(text[:KEY_CHARS_MAX], ensure_ascii=True)


def _limit_message(message: str) -> str:
    plain = "".join(one if one.isprintable() else " " for one in message[:MESSAGE_CHARS_MAX])
    return plain if len(message) <= MESSAGE_CHARS_MAX else plain + "…"


def _format_mistake(mistake: ProfileMistake) -> str:
    return f"{mistake['path']}: {mistake['message']}" if mistake["path"] else mistake["message"]
