"""A reply while it is written, as it may be shown: what may still become a value is held back.

A value can come in pieces, and so can a placeholder. Text goes on as soon as enough follows behind it that
nothing which began in it is still open; the recorded whole is scrubbed on its own.
"""

from __future__ import annotations

from collections.abc import Callable

from artelier.pii.scrubber import Scrubber

BEHIND_CHARS = 80
"""What must stand behind a piece of text before it is shown: longer than any value with a space in it."""

BEFORE_CHARS = 80
"""Text before, which says what a number is."""

WORD_CHARS_MAX = 20_000
"""Of text without a space. A longer one, such as JSON, is parted at signs that stand in no value."""

_SIGNS = "\"',;|(){}[]>"


class LiveText:
    """Turns the pieces of one reply into pieces that hold no value."""

    def __init__(self, scrubber: Scrubber, knows: Callable[[str], bool]) -> None:
        """`knows` says which placeholders are real ones."""
        self._scrubber = scrubber
        self._knows = knows
        self._before = ""
        self._held = ""

    def add(self, piece: str) -> str:
        """Return what may be shown now; often nothing. Errors: those of the detectors."""
        self._held += piece
        most = len(self._held) - BEHIND_CHARS
        if most <= 0 or not (most > WORD_CHARS_MAX or any(sign.isspace() for sign in piece)):
            return ""
        at = self._part(most)
        text = self._before + self._held
        for start, end in self._scrubber.spans(text):
            start, end = start - len(self._before), end - len(self._before)
            if start < at < end:
                at = start
        return self._take_until(at) if at > 0 else ""

    def _part(self, most: int) -> int:
        """Up to where words are whole; 0 where the first one goes on."""
        held = self._held
        at = next((at for at in range(most, 0, -1) if held[at - 1].isspace()), 0)
        if at or most <= WORD_CHARS_MAX:
            return at
        at = max(held.rfind("<", 0, most), *(held.rfind(sign, 0, most) + 1 for sign in _SIGNS))
        return at if at > 0 else most

    def rest(self) -> str:
        """Return what is left at the end of the reply."""
        return self._take_until(len(self._held))

    def _take_until(self, end: int) -> str:
        text, self._held = self._held[:end], self._held[end:]
        done = self._scrubber.escaped(text, self._knows)
        done = self._scrubber.text_behind(self._before, done)
        self._before = (self._before + text)[-BEFORE_CHARS:]
        return done
