"""The remarks of the loader about a file, each with its place, so that nothing is dropped silently."""

from __future__ import annotations

from typing import Literal

import msgspec

NOTES_MAX = 200
"""Of one agent; more would not be read."""

What = Literal["failed", "unused", "kept", "changed", "skipped"]
"""`failed`: the agent is not written. `unused`: left out. `kept`: stands in the metadata of the agent's
artifact and nothing acts on it here. `changed`: works in another way than before."""


class Note(msgspec.Struct, frozen=True, kw_only=True):
    """One remark."""

    what: What
    file: str
    """Below the folder that was read."""
    line: int = 0
    """From 1; 0 if it is about the whole file or folder."""
    key: str = ""
    """Path of the key, such as `workflow.steps[2].code`."""
    text: str = ""

    @property
    def place(self) -> str:
        """Such as `alice/agent.yaml:12`."""
        return f"{self.file}:{self.line}" if self.line else self.file


class Notes:
    """The remarks about one file, in the order in which they came up."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._found: list[Note] = []
        self.failed = False

    def add(self, what: What, text: str, *, line: int = 0, key: str = "") -> None:
        """Write one down. Beyond `NOTES_MAX` only failures are."""
        self.failed = self.failed or what == "failed"
        note = Note(what=what, file=self._file, line=line, key=key, text=text)
        if note not in self._found and (len(self._found) < NOTES_MAX or what == "failed"):
            self._found.append(note)

    @property
    def found(self) -> tuple[Note, ...]:
        """The remarks, sorted by line."""
        return tuple(sorted(self._found, key=lambda note: note.line))
