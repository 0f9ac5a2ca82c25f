"""Numbers that states give to people: found by their shape, proved by their check digits.

What is bare digits, or a shape without a check, counts only behind a word that names it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from artelier.pii.detectors.number_forms import (
    BY_SHAPE,
    FREE_SHAPES,
    ONE_WORD,
    SEVERAL_WORDS,
    SIZES_BY_FIRST,
    NumberForm,
    is_valid,
    names_a_number,
)
from artelier.pii.detectors.text_view import DigitRun, Shipped, TextReading, joins
from artelier.ports.pii import Found

_SIGNS = re.compile("[A-Za-z0-9]+")


class NationalIds(Shipped):
    """`NATIONAL_ID`; normal: letters and digits alone, in upper case."""

    def __init__(self) -> None:
        super().__init__("NATIONAL_ID")

    def read(self, reading: TextReading) -> Iterator[Found]:
        for run in reading.runs:
            at = 0
            while at < len(run.groups):
                size = _groups_of_id(reading, run, at)
                if size:
                    yield self._make_found(reading, run.starts[at], run.ends_at(at + size - 1))
                at += size or 1
        for start, shapes in _find_lettered(reading):
            for shape in shapes:
                end = start + len(shape)
                if (
                    reading.shape.startswith(shape, start)
                    and _stands_free(reading, start, end)
                    and _fits(reading, shape, start, end)
                ):
                    yield self._make_found(reading, start, end)

    def _make_found(self, reading: TextReading, start: int, end: int) -> Found:
        normal = "".join(_SIGNS.findall(reading.text[start:end])).upper()
        return reading.make_found(start, end, self.kind, normal)


def _find_lettered(reading: TextReading) -> Iterator[tuple[int, tuple[bytes, ...]]]:
    """Places where a shape with letters may stand, and which ones."""
    parts = reading.parts
    for sign, several in SEVERAL_WORDS.items():
        if sign not in parts:
            continue
        for words, shapes in several.items():
            start = parts.find(words)
            while start >= 0:
                yield start, shapes
                start = parts.find(words, start + 1)
    for sign in (b"a0", b"0a"):
        at = parts.find(sign)
        while at >= 0:
            start, end = parts.rfind(b" ", 0, at) + 1, parts.find(b" ", at)
            shapes = ONE_WORD.get(parts[start:end])
            if shapes is not None:
                yield start - 1, shapes
            at = parts.find(sign, end)


def _groups_of_id(reading: TextReading, run: DigitRun, at: int) -> int:
    start = run.starts[at]
    left = len(run.groups) - at
    for size in SIZES_BY_FIRST.get(len(run.groups[at]), ()):
        if size > left:
            continue
        end = run.ends_at(at + size - 1)
        shape = reading.shape[start:end]
        if shape not in BY_SHAPE or not (shape in FREE_SHAPES or names_a_number(reading.words(start))):
            continue
        if not _is_parted(run, at, size):
            continue
        if size > 1 and reading.in_account(start):
            continue
        if _stands_free(reading, start, end) and _fits(reading, shape, start, end):
            return size
    return 0


def _is_parted(run: DigitRun, at: int, size: int) -> bool:
    """Return True if the groups around are no more of the same row: parted otherwise, or of another
    length.
    """
    inner = run.gaps[at : at + size - 1]
    before = run.gaps[at - 1] if at else None
    behind = run.gaps[at + size - 1] if at + size < len(run.groups) else None
    if size == 1:
        return all(gap is None or gap.isspace() for gap in (before, behind))
    first, last = len(run.groups[at]), len(run.groups[at + size - 1])
    return not (
        (before in inner and (before != " " or len(run.groups[at - 1]) == first))
        or (behind in inner and (behind != " " or len(run.groups[at + size]) == last))
    )


def _stands_free(reading: TextReading, start: int, end: int) -> bool:
    before, after = reading.before(start), reading.after(end)
    if joins(before) or joins(after) or before == "+":
        return False
    if before and before in "-./" and start > 1 and joins(reading.text[start - 2]):
        return False
    return not (after and after in "-./" and joins(reading.text[end + 1 : end + 2]))


def _fits(reading: TextReading, shape: bytes, start: int, end: int) -> bool:
    written = reading.text[start:end]
    return any(_is(form, reading, written, start) for form in BY_SHAPE[shape])


def _is(form: NumberForm, reading: TextReading, written: str, start: int) -> bool:
    if form.word_needed and not reading.says(start, form.words):
        return False
    compact = "".join(_SIGNS.findall(written)).upper()
    if not is_valid(form.check, compact, written):
        return False
    return not form.doubtful(written) or reading.says(start, form.words)
