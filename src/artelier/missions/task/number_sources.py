"""Figures of a text: whether each of them stands in what the text was made from.

A figure counts as found if it is a source's, to as many places as it shows, or if a reader can work it out
from two found ones beside it: their sum, difference, product, share or change in percent.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Sequence
from decimal import Decimal, InvalidOperation
from itertools import islice, permutations
from typing import NamedTuple

SMALL_MAX = 12
"""Whole numbers up to here count things, and number lists."""

FIGURES_MAX = 20_000
"""Of all sources; more are not looked at."""

BESIDE_MAX = 16
"""Found figures of one paragraph from which others are worked out; of more, only those of the same line."""

CHARS_MAX = 400_000
DIGITS_MAX = 40
"""Of a number; longer runs of digits are names."""

WORKED_OUT_MAX = 500
"""Figures of one text for which it is tried; a text with more of its own brings its own evidence."""

VALUES_MAX = 100_000
"""Worked out for one text; for what is beyond them, its evidence must stand in the sources."""

_SCALES = frozenset(
    Decimal(scale) for scale in (24, 52, 60, 100, 365, 366, 1_000, 3_600, 10_000, 1_000_000, 10**9)
)
"""To which units are converted."""

_NUMBER = re.compile(
    r"(?<![\w.,#@/-])[-+\u2212]?\$?(?P<digits>\d{1,3}(?:[,\u202f\u00a0' ]\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?)"
    r"(?P<exponent>[eE][-+]?\d{1,3})?"
    r"(?P<unit> ?(?:%|per ?cent\b|thousand\b|million\b|billion\b|[kKmM]n?\b|bn\b))?(?![\w@])"
)
"""A number that stands by itself: not within a name, a ref, a date or a version."""
_LOOSE = re.compile(r"\d+(?:\.\d+)?(?:[eE][-+]?\d{1,3})?")
"""Any run of digits: sources are read with good will."""
_GROUPED = re.compile(r"\d{1,3}(?:[,\u202f\u00a0' ]\d{3})+(?:\.\d+)?")
_EUROPEAN = re.compile(
    r"\d{1,3}(?:\.\d{3})+(?:,\d+)?(?![\d.])|\d+,\d{1,2}(?=[\u00a0 ]?(?:€|%|eur|euros?\b))", re.I
)
"""A source's `41.000,00` is an answer's 41,000.00; a bare `3,14` is as often two numbers of a list."""
_DATE = re.compile(
    r"\b\d{4}-\d{2}(?:-\d{2})?(?:[T ]\d{2}:\d{2}(?::\d{2})?)?\b|\b\d{1,2}:\d{2}\b"
    r"|\b\d{1,2}[./]\d{1,2}[./]\d{2,4}\b"
)
_ITEM = re.compile(r"^[^\S\n]*(?:#+[^\S\n]*)?\d{1,3}[.)](?=\s)", re.MULTILINE)
"""Never past the end of its line: over blank lines that would cost their square."""
_UNITS = {"k": 1_000, "t": 1_000, "m": 1_000_000, "b": 1_000_000_000}


class Figure(NamedTuple):
    """A number of a text."""

    text: str
    value: Decimal
    """Without its sign: which way it goes is said in words as often."""
    places: int
    """Decimal places as it is shown; negative for `1.2 million`."""

    @property
    def is_percent(self) -> bool:
        return self.text.endswith(("%", "cent"))


class ToolStatement(NamedTuple):
    """The result of a tool, and its arguments."""

    text: str
    given: str
    """The arguments: what stands in them is no finding, though the tool says it again."""
    computes: bool = False
    """Whether it knows nothing but its arguments, as a calculator does."""


class SourceFigures:
    """The figures of all sources, ready to be looked up."""

    def __init__(self, texts: Iterable[str], told: Iterable[ToolStatement] = ()) -> None:
        """`told`: in the order of the calls; a figure of an earlier one may be used in a later one."""
        values: set[Decimal] = set()
        for text in texts:
            _add(values, text)
        for one in told:
            made_up = set(_loose(one.given[:CHARS_MAX])) - values
            if one.computes and not _are_known(made_up, sorted(values)):
                continue  # what is worked out from figures of nowhere is from nowhere
            _add(values, one.text, but=made_up)
        self._values = sorted(values)

    def has(self, figure: Figure) -> bool:
        """Return True if some source figure is this one, to the places that it shows."""
        half = Decimal(1).scaleb(-figure.places) / 2
        if _is_near(self._values, figure.value, half):
            return True
        # A share of 0.125 that is shown as 12.5 %.
        return figure.is_percent and _is_near(self._values, figure.value / 100, half / 100)


def _add(values: set[Decimal], text: str, *, but: Collection[Decimal] = ()) -> None:
    for value in _loose(text[:CHARS_MAX]):
        if value not in but:
            values.add(value)
        if len(values) >= FIGURES_MAX:
            break


def _are_known(figures: Collection[Decimal], values: Sequence[Decimal]) -> bool:
    """Return True if those of a calculation are of some sorted values, to their places, or count or scale."""
    for figure in figures:
        exponent = figure.as_tuple().exponent
        half = Decimal(1).scaleb(min(exponent, 0) if isinstance(exponent, int) else 0) / 2
        is_own = figure > SMALL_MAX and figure not in _SCALES
        if is_own and not _is_near(values, figure, half):
            return False
    return True


def _is_near(values: Sequence[Decimal], value: Decimal, half: Decimal) -> bool:
    """Return True if one of some sorted values is this one, give or take."""
    at = bisect_left(values, value - half)
    return at < len(values) and values[at] <= value + half


def find_unfounded(text: str, found: SourceFigures) -> list[str]:
    """The figures of a text that are in no source and cannot be worked out from those that are."""
    missing: list[str] = []
    derived = _Derived()
    text = _ITEM.sub(lambda match: " " * len(match[0]), text[:CHARS_MAX])
    for paragraph in re.split(r"\n\s*\n", text):
        dates = _DATE.findall(paragraph)
        missing += [date for date in dates if not all(map(found.has, _whole(date)))]
        lines = [list(_figures(_DATE.sub(" ", line))) for line in paragraph.splitlines()]
        good = [[_counts(one) or found.has(one) for one in line] for line in lines]
        known = [
            [one for one, is_good in zip(line, marks, strict=True) if is_good and not _counts(one)]
            for line, marks in zip(lines, good, strict=True)
        ]
        beside = [one for line in known for one in line]
        for line, marks, own in zip(lines, good, known, strict=True):
            near = tuple((beside if len(beside) <= BESIDE_MAX else own)[:BESIDE_MAX])
            missing += [
                one.text
                for one, is_good in zip(line, marks, strict=True)
                if not is_good and not derived.has(one, near)
            ]
    return list(dict.fromkeys(missing))


class _Derived:
    """The figures that a reader works out from figures beside each other, for one text."""

    def __init__(self) -> None:
        self._tries = WORKED_OUT_MAX
        self._left = VALUES_MAX
        self._near: tuple[Figure, ...] = ()
        self._values: list[Decimal] = []

    def has(self, figure: Figure, near: tuple[Figure, ...]) -> bool:
        """Return True if a reader gets this figure from all of those near it, or from two of them."""
        self._tries -= 1
        if self._tries < 0:
            return False
        if near != self._near:
            self._near = near
            self._values = sorted(islice(_worked_out(near), self._left))
            self._left -= len(self._values)
        half = Decimal(1).scaleb(-figure.places) / 2
        at = bisect_left(self._values, figure.value - half)
        return at < len(self._values) and self._values[at] <= figure.value + half


def _counts(figure: Figure) -> bool:
    whole = figure.places <= 0 and not figure.is_percent
    return whole and figure.value <= SMALL_MAX


def _worked_out(near: tuple[Figure, ...]) -> Iterator[Decimal]:
    """The sum of all, and what any two give; without signs, as figures are."""
    if len(near) > 2:
        yield sum((one.value for one in near), Decimal(0))
    for first, second in permutations(near, 2):
        a, b = first.value, second.value
        yield from (abs(a - b), a + b, a * b)
        if b:
            yield from (a / b, 100 * a / b, abs(100 * (a - b) / b))
        if a + b:
            yield 100 * a / (a + b)


def _figures(line: str) -> Iterator[Figure]:
    for match in _NUMBER.finditer(line):
        figure = _figure(match["digits"], match["exponent"] or "", (match["unit"] or "").strip())
        if figure is not None:
            yield figure._replace(text=match[0].strip())


def _figure(digits: str, exponent: str, unit: str) -> Figure | None:
    plain = re.sub(r"[,\u202f\u00a0' ]", "", digits)
    if len(plain) > DIGITS_MAX:
        return None
    places = len(plain.partition(".")[2])
    try:
        value = Decimal(plain + exponent)
    except InvalidOperation:
        return None
    if exponent:
        places -= int(exponent[1:])
    if unit and unit[0] not in "%p":
        factor = _UNITS[unit[0].lower()]
        value, places = value * factor, places - len(str(factor)) + 1
    return Figure(text=digits, value=value, places=places)


def _whole(date: str) -> list[Figure]:
    """The numbers of a date, one by one."""
    return [Figure(text=part, value=Decimal(part), places=0) for part in re.findall(r"\d+", date)]


def _loose(text: str) -> Iterator[Decimal]:
    for pattern in (_LOOSE, _GROUPED):
        for match in pattern.finditer(text):
            digits = re.sub(r"[,\u202f\u00a0' ]", "", match[0])
            if len(digits) <= DIGITS_MAX:
                yield Decimal(digits)
    for match in _EUROPEAN.finditer(text):
        if len(match[0]) <= DIGITS_MAX:
            yield Decimal(match[0].replace(".", "").replace(",", "."))
