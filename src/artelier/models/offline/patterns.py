"""A text that fits a regular expression, for output that must have a form and has no fact to hold.

Understood are literals, classes, groups, alternatives and counts; a pattern with more (look-around,
back references) gives nothing. What comes out is checked against the pattern by the caller.
"""

from __future__ import annotations

REPEATS_MAX = 200
LENGTH_MAX = 2_000
DEPTH_MAX = 20
_CLASSES = {"d": "0", "w": "x", "s": " ", "D": "x", "W": "-", "S": "x"}
_CONTROLS = {"n": "\n", "t": "\t", "r": "\r"}


class _Unclear(Exception):
    """The pattern uses what is not understood."""


def text_for(pattern: str) -> str | None:
    """A short text that the pattern should match, or None."""
    try:
        reader = _Reader(pattern[:LENGTH_MAX])
        text = reader.alternatives(0)
        return text if reader.at == len(reader.pattern) and len(text) <= LENGTH_MAX else None
    except (_Unclear, IndexError, ValueError):
        return None


class _Reader:
    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.at = 0

    def alternatives(self, depth: int) -> str:
        """The first alternative; the others are only read over."""
        if depth > DEPTH_MAX:
            raise _Unclear
        first = self._sequence(depth)
        while self._next() == "|":
            self.at += 1
            self._sequence(depth)
        return first

    def _next(self) -> str:
        return self.pattern[self.at : self.at + 1]

    def _sequence(self, depth: int) -> str:
        parts: list[str] = []
        while (character := self._next()) and character not in "|)":
            piece = self._piece(depth)
            low = self._count()
            parts.append(piece * low)
            if sum(map(len, parts)) > LENGTH_MAX:
                raise _Unclear
        return "".join(parts)

    def _piece(self, depth: int) -> str:
        character = self._next()
        self.at += 1
        if character in "^$":
            return ""
        if character == ".":
            return "x"
        if character == "(":
            return self._group(depth)
        if character == "[":
            return self._class()
        if character == "\\":
            return self._escape()
        return character

    def _group(self, depth: int) -> str:
        if self.pattern.startswith("?:", self.at):
            self.at += 2
        elif self.pattern.startswith("?P<", self.at) or self.pattern.startswith("?<", self.at):
            if self.pattern[self.at + 2 : self.at + 3] in ("=", "!"):
                raise _Unclear
            self.at = self.pattern.index(">", self.at) + 1
        elif self._next() == "?":
            raise _Unclear
        text = self.alternatives(depth + 1)
        if self._next() != ")":
            raise _Unclear
        self.at += 1
        return text

    def _escape(self) -> str:
        character = self.pattern[self.at]
        self.at += 1
        if character in "bBAZz":
            return ""
        if character in "123456789pPkuxN":
            raise _Unclear
        return _CLASSES.get(character, _CONTROLS.get(character, character))

    def _class(self) -> str:
        """The first member; of an inverted class a character that is none of them."""
        inverted = self._next() == "^"
        self.at += inverted
        members: list[tuple[str, str]] = []
        while self._next() != "]" or not members:
            low = self._member()
            high = low
            if self._next() == "-" and self.pattern[self.at + 1 : self.at + 2] not in ("]", ""):
                self.at += 1
                high = self._member()
            members.append((low, high))
        self.at += 1
        if not inverted:
            return members[0][0]
        for character in "x0-_ A~":
            if not any(low <= character <= high for low, high in members):
                return character
        raise _Unclear

    def _member(self) -> str:
        character = self.pattern[self.at]
        self.at += 1
        if character == "\\":
            return self._escape() or "x"
        return character

    def _count(self) -> int:
        """The least number of repeats of what stands before."""
        character = self._next()
        low = 1
        if character and character in "*?":
            low, self.at = 0, self.at + 1
        elif character == "+":
            self.at += 1
        elif character == "{":
            end = self.pattern.index("}", self.at)
            low = int(self.pattern[self.at + 1 : end].partition(",")[0] or 0)
            self.at = end + 1
            if low > REPEATS_MAX:
                raise _Unclear
        else:
            return 1
        if self._next() in ("?", "+") and self._next():
            self.at += 1
        return low
