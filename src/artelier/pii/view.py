"""Text as a person would read it, with the way back: escapes of JSON and code must hide no value.

`ana\\u0040example.org` is an address, and the `n` of a line's end is no letter of the next one. Detectors
read the view; what they find is replaced in the text itself, so that nothing else of it changes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

LEVELS_MAX = 3
"""JSON within JSON within JSON."""

_ESCAPE = re.compile(r'\\(?:u([0-9a-fA-F]{4})|(["\\/bfnrt]))')
_PLAIN = {'"': '"', "\\": "\\", "/": "/", "b": " ", "f": " ", "n": "\n", "r": "\r", "t": "\t"}
_DATA = re.compile(r"[A-Za-z0-9+/_=-]{1000,}")
"""A picture or a file in some encoding: no words, and long enough to look like anything somewhere."""


class View(NamedTuple):
    """What detectors read."""

    text: str
    places: Sequence[int] | None
    """Where in the original each character begins, and one more for the end; None: at the same place."""

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Where a part of the view stands in the original."""
        return (start, end) if self.places is None else (self.places[start], self.places[end])


def view_of(text: str) -> View:
    """Cost: O(length); nothing is copied where nothing is escaped."""
    view = View(_without_data(text), None)
    for _ in range(LEVELS_MAX):
        if "\\" not in view.text:
            break
        further = _read(view)
        if further is view:
            break
        view = further
    return view


def _without_data(text: str) -> str:
    if len(text) < 1000:
        return text
    return _DATA.sub(lambda found: " " * len(found[0]), text)


def _read(view: View) -> View:
    """One level of escapes less; the same view if there is none."""
    pieces: list[str] = []
    places: list[int] = []
    at, text = 0, view.text
    before = range(len(text) + 1) if view.places is None else view.places
    for found in _ESCAPE.finditer(text):
        char = chr(int(found[1], 16)) if found[1] else _PLAIN[found[2]]
        pieces += (text[at : found.start()], char)
        places.extend(before[at : found.start() + 1])
        at = found.end()
    if not pieces:
        return view
    pieces.append(text[at:])
    places.extend(before[at:])
    return View("".join(pieces), places)
