"""Text as a person would read it, with the way back: escapes of JSON, code and markup must hide no value.

`ana\\u0040example.org`, `ana\\@example.org` and `ana&#64;example.org` are addresses, and the `n` of a line's
end is no letter of the next one. Detectors read the view; what they find is replaced in the text itself, so
that nothing else of it changes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

RULES = 2
"""How values are looked for. 1: as they are written, behind up to three levels of escapes; 2: also where they
are encoded, spaced or parted (`hidden_values.py`). A run keeps those it was started under."""

LEVELS_MAX = 3
"""JSON within JSON within JSON."""

_ENTITY_LEVELS = 2
"""HTML in a feed, whose own signs are escaped."""

_ESCAPE = re.compile(r'\\(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|(["\\/bfnrt@._+-]))')
_ENTITY = re.compile(
    r"&(?:#0{0,9}([0-9]{1,7})|#[xX]0{0,9}([0-9a-fA-F]{1,6})"
    r"|(commat|period|nbsp|amp|quot|apos|plus|ndash|hyphen|lpar|rpar|colon|sol|lowbar)(?=;));?"
)
_NAMED = {
    "commat": "@",
    "period": ".",
    "nbsp": " ",
    "amp": "&",
    "quot": '"',
    "apos": "'",
    "plus": "+",
    "ndash": "-",
    "hyphen": "-",
    "lpar": "(",
    "rpar": ")",
    "colon": ":",
    "sol": "/",
    "lowbar": "_",
}
_PLAIN = {"b": " ", "f": " ", "n": "\n", "r": "\r", "t": "\t"}
_DATA = re.compile(r"[A-Za-z0-9+/_=-]{1000,}")
"""A picture or a file in some encoding: no words, and long enough to look like anything somewhere."""


class ValuePlace(NamedTuple):
    """A value in a text as it was written, escapes and all."""

    start: int
    end: int
    kind: str
    normal: str
    shown: str
    """The value as a person reads it."""


class DecodedView(NamedTuple):
    """The text that detectors read."""

    text: str
    places: Sequence[int] | None
    """Where in the original each character begins, and one more for the end; None: at the same place."""

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Return where a part of the view stands in the original."""
        return (start, end) if self.places is None else (self.places[start], self.places[end])


def view_of(text: str) -> DecodedView:
    """Cost: O(length); nothing is copied where nothing is escaped."""
    view = DecodedView(_without_data(text), None)
    for _ in range(LEVELS_MAX):
        if "\\" not in view.text:
            break
        further = _read(view, _ESCAPE, _unescape_match)
        if further is view:
            break
        view = further
    for _ in range(_ENTITY_LEVELS):
        if "&" not in view.text:
            break
        further = _read(view, _ENTITY, _entity)
        if further is view:
            break
        view = further
    return view


DEEPER_LEVELS_MAX = 16
"""Of escapes within escapes, for `unescape`: each level of JSON doubles its backslashes."""

_HIGH = "%[89AaBb][0-9A-Fa-f]"
_PERCENT = re.compile(
    rf"%[2-7][0-9A-Fa-f]|%[C-Dc-d][0-9A-Fa-f]{_HIGH}|%[Ee][0-9A-Fa-f](?:{_HIGH}){{2}}|%[Ff][0-4](?:{_HIGH}){{3}}"
)
"""One character of UTF-8."""


def unescape(view: DecodedView, *, percent: bool = False) -> DecodedView:
    """Return a view with further levels of escapes taken away, or percent signs read; itself without any.

    Cost: O(length) for each level, of which a text of n characters has at most log2(n).
    """
    if percent:
        return _read(view, _PERCENT, _percent)
    for _ in range(DEEPER_LEVELS_MAX):
        if "\\" not in view.text:
            break
        further = _read(view, _ESCAPE, _unescape_match)
        if further is view:
            break
        view = further
    return view


def _percent(found: re.Match[str]) -> str:
    return bytes.fromhex(found[0].replace("%", "")).decode(errors="replace")[:1]


def _unescape_match(found: re.Match[str]) -> str:
    code = found[1] or found[2]
    return chr(int(code, 16)) if code else _PLAIN.get(found[3], found[3])


def _entity(found: re.Match[str]) -> str:
    if found[3]:
        return _NAMED[found[3]]
    code = int(found[1]) if found[1] else int(found[2], 16)
    return chr(code) if code < 0x110000 else "?"


def _without_data(text: str) -> str:
    if len(text) < 1000:
        return text
    return _DATA.sub(lambda found: " " * len(found[0]), text)


def _read(
    view: DecodedView, pattern: re.Pattern[str], char_of: Callable[[re.Match[str]], str]
) -> DecodedView:
    """One level of escapes less; the same view if there is none."""
    pieces: list[str] = []
    places: list[int] = []
    at, text = 0, view.text
    before = range(len(text) + 1) if view.places is None else view.places
    for found in pattern.finditer(text):
        pieces += (text[at : found.start()], char_of(found))
        places.extend(before[at : found.start() + 1])
        at = found.end()
    if not pieces:
        return view
    pieces.append(text[at:])
    places.extend(before[at:])
    return DecodedView("".join(pieces), places)
