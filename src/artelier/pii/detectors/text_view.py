"""A text as the shipped detectors see it: folded once, its shape and its digit runs computed once for all.

The shape has one byte for each character: `0` for a digit, `a` for a Latin letter, the character itself for
other ASCII, `?` for the rest. Most texts are dismissed by a search for a few bytes in it.
"""

from __future__ import annotations

import re
import unicodedata
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

from artelier.pii.detectors.number_forms import NEAR_CHARS_MAX, names_a_number, words_before
from artelier.ports.pii import DetectedValue

# --------------------------------------------------------------------------- unicode normalisation
# One spelling for characters that look alike: full-width digits, odd spaces and hyphens, invisible marks.
# Places stay right: a character is replaced by exactly one, and where invisible ones are left out, a
# table leads from each place in the folded text to its place in the original.


_SPACES = "\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000"
_HYPHENS = "\u2010\u2011\u2012\u2013\u2014\u2015\u2212\ufe58\ufe63"
_DOTS = "\u2024\u3002\uff61"
_INVISIBLE = frozenset(
    map(
        chr,
        (
            0xAD,
            0x34F,
            0x61C,
            0x180E,
            *range(0x200B, 0x2010),
            *range(0x202A, 0x202F),
            *range(0x2060, 0x2065),
            *range(0x2066, 0x206A),
            *range(0xFE00, 0xFE10),
            0xFEFF,
        ),
    )
)


def _alike() -> dict[str, str]:
    table = {chr(code): chr(code - 0xFEE0) for code in range(0xFF01, 0xFF5F)}
    table |= dict.fromkeys(_SPACES, " ") | dict.fromkeys(_HYPHENS, "-") | dict.fromkeys(_DOTS, ".")
    for code in (*range(0x0600, 0x1100), *range(0x1D7CE, 0x1D800)):
        value = unicodedata.decimal(chr(code), None)
        if value is not None:
            table[chr(code)] = str(value)
    return table


_ALIKE = _alike()
_ODD = _INVISIBLE | _ALIKE.keys()


def fold(text: str) -> tuple[str, Sequence[int] | None]:
    """The text with one spelling of each character, and the original place of each, or None if unmoved.

    Cost: nothing for ASCII, else one pass over the text, and one for each odd character that it holds.
    """
    if text.isascii() or _ODD.isdisjoint(text):
        return text, None
    odd = _ODD.intersection(text)
    places: list[int] | None = None
    unseen = odd & _INVISIBLE
    if unseen:
        places = [place for place, sign in enumerate(text) if sign not in unseen]
        text = "".join(sign for sign in text if sign not in unseen)
    for sign in odd - unseen:
        text = text.replace(sign, _ALIKE[sign])
    return text, places


# --------------------------------------------------------------------------- text view


RUN_DIGITS_MIN = 7
"""Shorter runs of digits are no value that any detector knows."""

BARE_DIGITS_MIN = 14
"""A number without separators, words and signs before it may be a card's from here on."""

_SHAPES = bytes(
    ord("0") if chr(code).isdigit() else ord("a") if chr(code).isalpha() else code for code in range(128)
) + bytes([ord("?")] * 128)

_PARTS = bytes(code if chr(code) in "a0_" else ord(" ") for code in range(256))

_TABLE_DIGITS_PART = 3
"""Where one character of so many is a digit, lines are looked at one by one."""

_LINES_TRIED = 50
"""If the last of so many lines is no line of figures alone, none is looked for further on."""

_REF = re.compile(r"b:[A-Za-z0-9_-]{43}(?![A-Za-z0-9_-])")
# Starts at a digit so that the search can jump to it. A plain decimal and a plain date are passed over here,
# because tables are full of them.
_RUN = re.compile(rb"0(?<![0a]0)(?:(?<=\+0)|(?!0*\.0+(?![0 .\-/()]))(?!000-00-00(?![0\-])))[0 .\-/()]{5,}0")
_LONG_RUN = rb"[0-9][0-9 .\-/()]{5,}[0-9]"
# For lines without a word or a plus: what stands before the next run goes by in one step, with bare numbers,
# which nothing there can give a meaning.
_DULL_RUN = re.compile(
    rb"(?:[^0-9]++|(?!00)[0-9]{1,13}+(?! {0,3}[0-9.\-/()])|[0-9]++\.[0-9]++(?![0-9 .\-/()])"
    rb"|[0-9]{4}-[0-9]{2}-[0-9]{2}(?![0-9\-])|(?!%b)[0-9]++)*+(%b)" % (_LONG_RUN, _LONG_RUN)
)
_DATE = re.compile(
    r"(?<![0-9])(?:(?:19|20)[0-9]{2}([-./])[01]?[0-9]\1[0-3]?[0-9]"
    r"|[0-3]?[0-9]([-./])[0-3]?[0-9]\2(?:19|20)[0-9]{2})(?![0-9])"
)
_PART = re.compile(r"[0-9]+(?:(?:\.|[ \-/()]{1,3})[0-9]+)*")
_DIGITS = re.compile(r"[0-9]+")


_ACCOUNT = re.compile(r"[A-Z]{2}[0-9]{2}(?:[ -][A-Za-z0-9]{4}){0,8}[ -]\Z")
_ACCOUNT_CHARS_MAX = 45

CJK_FIRST = "\u2e80"
"""From here on scripts write no spaces between words, so that a letter before a number joins nothing."""


def joins(sign: str) -> bool:
    """Return True if a character beside a value makes it a part of a longer word or number."""
    return sign == "_" or (sign.isalnum() and sign < CJK_FIRST)


class DigitRun(NamedTuple):
    """Groups of digits with at most three separators between two: a number as people write it."""

    starts: tuple[int, ...]
    """Where each group begins."""

    groups: tuple[str, ...]
    gaps: tuple[str, ...]
    """What stands between one group and the next: one fewer than groups."""

    @property
    def end(self) -> int:
        return self.starts[-1] + len(self.groups[-1])

    def ends_at(self, index: int) -> int:
        """The place behind a group."""
        return self.starts[index] + len(self.groups[index])


class TextReading:
    """One text during one search. Places are those of the folded text; `found` leads back to the original."""

    def __init__(self, text: str) -> None:
        folded, self._places = fold(text)
        if "b:" in folded:
            folded = _REF.sub(lambda ref: "\0" * len(ref[0]), folded)
        self.text = folded
        self.bytes = folded.encode("ascii", "replace")
        self.shape = self.bytes.translate(_SHAPES)
        self._said: dict[int, str] = {}

    @cached_property
    def lower(self) -> bytes:
        """The ASCII of the text in lower case, for searches of words."""
        return self.bytes.lower()

    @cached_property
    def parts(self) -> bytes:
        """The shape with spaces for all that parts words, and one more before and behind.

        A search for ` aa00 ` in it finds whole words only, at the place of their first letter.
        """
        return b" " + self.shape.translate(_PARTS) + b" "

    @cached_property
    def runs(self) -> tuple[DigitRun, ...]:
        """All digit runs of at least `RUN_DIGITS_MIN` digits; dates are cut out of them."""
        return tuple(self._runs())

    def _runs(self) -> Iterator[DigitRun]:
        text, shape = self.text, self.shape
        for start, end in self._candidates():
            if shape.count(b"0", start, end) == end - start:
                if end - start >= BARE_DIGITS_MIN or not self._is_idle(start):
                    yield DigitRun((start,), (text[start:end],), ())
                continue
            written = _DATE.sub(lambda date: "\0" * len(date[0]), text[start:end])
            for part in _PART.finditer(written):
                groups = list(_DIGITS.finditer(part[0]))
                if sum(len(group[0]) for group in groups) < RUN_DIGITS_MIN:
                    continue
                base = start + part.start()
                ends = [group.end() for group in groups]
                yield DigitRun(
                    tuple(base + group.start() for group in groups),
                    tuple(group[0] for group in groups),
                    tuple(part[0][ends[at] : groups[at + 1].start()] for at in range(len(groups) - 1)),
                )

    def _candidates(self) -> Iterator[tuple[int, int]]:
        """Places where a run may stand."""
        at = 0
        for start, end in self._dull_lines():
            for match in _RUN.finditer(self.shape, at, start):
                yield match.span()
            at = start
            while match := _DULL_RUN.match(self.bytes, at, end):
                yield match.span(1)
                at = match.end()
            at = end
        for match in _RUN.finditer(self.shape, at):
            yield match.span()

    def _dull_lines(self) -> Iterator[tuple[int, int]]:
        """Yield the ranges in which lines are figures alone; none for a text that is no table."""
        shape = self.shape
        if shape.count(b"0") * _TABLE_DIGITS_PART < len(shape):
            return
        if not (b"a" in shape or b"+" in shape or b"?" in shape):
            yield 0, len(shape)
            return
        start = at = 0
        for number, line in enumerate(shape.splitlines(keepends=True)):
            if number == _LINES_TRIED and start == at:
                return  # each line has its words
            end = at + len(line)
            if b"a" in line or b"+" in line or b"?" in line:
                if at > start:
                    yield start, at
                start = end
            at = end
        if at > start:
            yield start, at

    def _is_idle(self, start: int) -> bool:
        """Return True if nothing before a bare number can give it a meaning: no word, no plus, no two
        zeros.
        """
        if self.text.startswith("00", start) or "+" in self.text[max(0, start - 3) : start]:
            return False
        return not names_a_number(self.words(start))

    def says(self, start: int, pattern: re.Pattern[str]) -> bool:
        """Return True if a word of the pattern stands before a place."""
        said = self.words(start)
        return bool(said) and pattern.search(said) is not None

    def words(self, start: int) -> str:
        """Return what is said before a place; several detectors ask for the same."""
        said = self._said.get(start)
        if said is None:
            line = self.shape[max(0, start - NEAR_CHARS_MAX) : start]
            line = line[line.rfind(b"\n") + 1 :]
            said = words_before(self.text, start) if b"a" in line or b"?" in line else ""
            self._said[start] = said
        return said

    def in_account(self, start: int) -> bool:
        """Return True if groups of four from the head of an IBAN on, right or wrong, lead to this place."""
        return _ACCOUNT.search(self.text, max(0, start - _ACCOUNT_CHARS_MAX), start) is not None

    def before(self, start: int) -> str:
        """The character before a place; nothing at the beginning."""
        return self.text[start - 1] if start else ""

    def after(self, end: int) -> str:
        """The character at a place behind a value; nothing at the end."""
        return self.text[end] if end < len(self.text) else ""

    def stands_alone(self, start: int, end: int) -> bool:
        """Return True if no letter, digit or part of a decimal or an identifier touches the span.

        A comma parts fields of a table, so it is no part of a number here.
        """
        text = self.text
        before, after = self.before(start), self.after(end)
        if joins(before) or joins(after):
            return False
        if before == "." and not text[max(0, start - 2) : start - 1].isalpha():
            return text[max(0, start - 2) : start - 1] == "."
        if before and before in "-." and start > 1 and joins(text[start - 2]):
            return before == "." and not text[start - 2].isdigit()
        return not (after and after in "-." and end + 1 < len(text) and joins(text[end + 1]))

    def make_found(self, start: int, end: int, kind: str, normal: str) -> DetectedValue:
        """The value at a place of the folded text, with its place in the original."""
        if self._places is None:
            return DetectedValue(start, end, kind, normal)
        return DetectedValue(self._places[start], self._places[end - 1] + 1, kind, normal)


class Shipped(ABC):
    """A detector that can share the reading of a text with others."""

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def find(self, text: str, /) -> list[DetectedValue]:
        """Values of this kind in the text."""
        return list(self.read(TextReading(text)))

    @abstractmethod
    def read(self, reading: TextReading) -> Iterator[DetectedValue]:
        """The same for a reading that may be shared."""


# --------------------------------------------------------------------------- decoded view
# Text as a person would read it, with the way back: escapes of JSON, code and markup must hide no value.
#
# `ana\u0040example.org`, `ana\@example.org` and `ana&#64;example.org` are addresses, and the `n` of a line's
# end is no letter of the next one. Detectors read the view; what they find is replaced in the text itself,
# so that nothing else of it changes.

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
_DATA = re.compile(r"(?<![A-Za-z0-9+/_=-])[A-Za-z0-9+/_=-]{1000,}")
"""A picture or a file in some encoding: no words, and long enough to look like anything somewhere. Looked for
where a word begins: at each character of long words it takes a hundred times as long."""


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
    view = _read_levels(view, "\\", _ESCAPE, _unescape_match, levels_max=LEVELS_MAX)
    return _read_levels(view, "&", _ENTITY, _entity, levels_max=_ENTITY_LEVELS)


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
    return _read_levels(view, "\\", _ESCAPE, _unescape_match, levels_max=DEEPER_LEVELS_MAX)


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


def _read_levels(
    view: DecodedView,
    mark: str,
    pattern: re.Pattern[str],
    char_of: Callable[[re.Match[str]], str],
    *,
    levels_max: int,
) -> DecodedView:
    """Levels of escapes less, of which each has `mark`; the same view if there is none."""
    for _ in range(levels_max):
        if mark not in view.text:
            break
        further = _read(view, pattern, char_of)
        if further is view:
            break
        view = further
    return view


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
