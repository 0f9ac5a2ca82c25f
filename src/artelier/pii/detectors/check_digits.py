"""Numbers proved by check digits: payment cards, bank accounts, and numbers that states give to people."""

from __future__ import annotations

import re
from collections.abc import Iterator

from artelier.pii.detectors.number_forms import (
    BY_SHAPE,
    CARD,
    FREE_SHAPES,
    ONE_WORD,
    SEVERAL_WORDS,
    SIZES_BY_FIRST,
    NumberForm,
    is_valid,
    names_a_number,
)
from artelier.pii.detectors.text_view import DigitRun, Shipped, TextReading, joins
from artelier.ports.pii import DetectedValue

# --------------------------------------------------------------------------- payment
# Payment cards and bank accounts: digits of a known issuer or country whose check digits fit.

_ANY = range(16, 20)
_ISSUERS: tuple[tuple[int, int, tuple[int, ...] | range], ...] = (
    (4, 4, (13, 16, 19)),  # Visa
    (51, 55, (16,)),
    (2221, 2720, (16,)),  # Mastercard
    (34, 34, (15,)),
    (37, 37, (15,)),  # American Express
    (300, 305, (14, 16)),
    (3095, 3095, (14, 16)),
    (36, 36, (14, 16)),
    (38, 39, (14, 16)),  # Diners Club
    (6011, 6011, _ANY),
    (644, 649, _ANY),
    (65, 65, _ANY),  # Discover
    (3528, 3589, _ANY),  # JCB
    (62, 62, _ANY),
    (81, 82, (16,)),  # UnionPay, RuPay
    (60, 60, (16,)),
    (508, 508, (16,)),  # RuPay
    (2200, 2204, _ANY),  # Mir
    (9792, 9792, (16,)),  # Troy
    (506099, 506198, (16, 19)),
    (650002, 650027, (16, 19)),  # Verve
    (5018, 5020, range(13, 20)),
    (5038, 5038, range(13, 20)),
    (5893, 5893, range(13, 20)),  # Maestro
    (6304, 6304, range(13, 20)),
    (6759, 6763, range(13, 20)),
    (636297, 636297, (16,)),
    (438935, 438935, (16,)),
    (504175, 504175, (16,)),  # Elo
)
"""First digits, from and to, and the lengths: ISO/IEC 7812 ranges as the schemes publish them."""

_BY_FIRST: dict[str, list[tuple[int, int, int, tuple[int, ...] | range]]] = {}
for _low, _high, _sizes in _ISSUERS:
    for _digit in range(int(str(_low)[0]), int(str(_high)[0]) + 1):
        _BY_FIRST.setdefault(str(_digit), []).append((_low, _high, len(str(_low)), _sizes))

_GROUPINGS = frozenset(
    ((4, 4, 4, 4), (4, 4, 4, 4, 3), (4, 6, 5), (4, 6, 4), (6, 13), (4, 4, 5), (4, 3, 3, 3), (4, 4, 4, 3))
)
"""How digits are grouped on cards. Other groups of numbers are figures that happen to stand together."""

_BARE_LENGTHS = (14, 15, 16)
"""Lengths that are enough without groups or a word; 62 with 19 digits is too (UnionPay)."""


def is_issued(digits: str) -> bool:
    """Return True if a scheme issues cards that begin so and are as long."""
    length = len(digits)
    return any(
        length in lengths and low <= int(digits[:size]) <= high
        for low, high, size, lengths in _BY_FIRST.get(digits[:1], ())
    )


_DOUBLED = (0, 2, 4, 6, 8, 1, 3, 5, 7, 9)


def luhn_fits(digits: str) -> bool:
    """The check of ISO/IEC 7812-1, annex B."""
    values = [int(digit) for digit in reversed(digits)]
    return (sum(values[0::2]) + sum(_DOUBLED[value] for value in values[1::2])) % 10 == 0


def _gtin_fits(digits: str) -> bool:
    values = [int(digit) for digit in reversed(digits)]
    return (sum(values[0::2]) + 3 * sum(values[1::2])) % 10 == 0


class Cards(Shipped):
    """`CARD`; normal: the digits."""

    def __init__(self) -> None:
        super().__init__("CARD")

    def read(self, reading: TextReading) -> Iterator[DetectedValue]:
        for run in reading.runs:
            at = 0
            while at < len(run.groups):
                size = _window(reading, run, at)
                if size:
                    digits = "".join(run.groups[at : at + size])
                    end = run.ends_at(at + size - 1)
                    yield reading.make_found(run.starts[at], end, self.kind, digits)
                at += size or 1


def _window(reading: TextReading, run: DigitRun, at: int) -> int:
    """Return how many groups from `at` on are a card; 0 for none."""
    if run.groups[at][0] not in _BY_FIRST:
        return 0
    length = len(run.groups[at])
    if length >= 13:
        return int(_bare(reading, run, at))
    if length not in (4, 6):
        return 0
    for size in (5, 4, 3, 2):
        groups = run.groups[at : at + size]
        if len(groups) == size and tuple(map(len, groups)) in _GROUPINGS:
            digits = "".join(groups)
            if is_issued(digits) and luhn_fits(digits) and _is_grouped(reading, run, at, size):
                return size
    return 0


def _bare(reading: TextReading, run: DigitRun, at: int) -> bool:
    digits = run.groups[at]
    if not (is_issued(digits) and luhn_fits(digits)):
        return False
    start, end = run.starts[at], run.ends_at(at)
    if reading.says(start, CARD):
        return not (joins(reading.before(start)) or joins(reading.after(end)))
    usual = len(digits) in _BARE_LENGTHS or (len(digits) == 19 and digits.startswith("62"))
    if len(digits) == 14 and _gtin_fits(digits):
        usual = False
    return usual and reading.stands_alone(start, end)


def _is_card(run: DigitRun, at: int, size: int) -> bool:
    digits = "".join(run.groups[at : at + size]) if at >= 0 else ""
    return is_issued(digits) and luhn_fits(digits)


def _is_grouped(reading: TextReading, run: DigitRun, at: int, size: int) -> bool:
    gaps = run.gaps[at : at + size - 1]
    if len(set(gaps)) != 1 or gaps[0] not in (" ", "-", ".", " - ", "  "):
        return False
    start, end = run.starts[at], run.ends_at(at + size - 1)
    if joins(reading.before(start)) or joins(reading.after(end)):
        return False
    if reading.says(start, CARD):
        return True
    if reading.in_account(start):
        return False
    # A further group of four makes it a row of figures, unless a card stands there too.
    for gap_at, group_at, next_at in ((at - 1, at - 1, at - size), (at + size - 1, at + size, at + size)):
        if not 0 <= gap_at < len(run.gaps) or run.gaps[gap_at] != gaps[0]:
            continue
        if len(run.groups[group_at]) == 4 and not _is_card(run, next_at, size):
            return False
    return gaps[0] == " " or reading.stands_alone(start, end)


# --------------------------------------------------------------------------- iban
# Bank accounts: an IBAN of the length its country has, whose remainder by 97 is 1 (ISO 13616).


_LENGTHS_TEXT = """
15 NO  16 BE  18 DK FI FK FO GL NL SD  19 MK SI  20 AT BA EE KZ LT LU MN XK  21 CH HR LI LV  22 BG
BH CR DE GB GE IE ME RS VA  23 AE GI IL IQ OM SO TL  24 AD CZ ES MD PK RO SA SE SK TN VG  25 AO CV
LY MZ PT ST  26 DZ IR IS TR  27 BI CF CG CM DJ FR GA GQ GR IT KM MC MG MR SM TD  28 AL AZ BF BJ BY
CI CY DO GT HN HU LB MA ML NE NI PL SN SV TG  29 BR EG PS QA UA  30 JO KW MU YE  31 MT SC  32 LC  33
RU
"""
"""Release 101 of the registry of SWIFT, and countries that use the form without an entry there."""


def _lengths() -> dict[str, int]:
    table: dict[str, int] = {}
    length = 0
    for word in _LENGTHS_TEXT.split():
        if word.isdigit():
            length = int(word)
        else:
            table[word] = length
    return table


LENGTHS = _lengths()
"""Characters of an IBAN by country."""

_HEADS = (b" aa00", b" aa 00 0000 ")
"""Country and check digits in `Reading.parts`; apart from each other only before four digits, for prose has
`of 12`."""

_SIGNS = re.compile(r"[A-Za-z0-9]")


class Ibans(Shipped):
    """`IBAN`; normal: upper case without separators."""

    def __init__(self) -> None:
        super().__init__("IBAN")

    def read(self, reading: TextReading) -> Iterator[DetectedValue]:
        for head in _HEADS:
            last = 0
            start = reading.parts.find(head)
            while start >= 0:
                end = _end(reading, start) if start >= last else None
                if end is not None:
                    normal = "".join(_SIGNS.findall(reading.text[start:end])).upper()
                    if remainder_fits(normal):
                        yield reading.make_found(start, end, self.kind, normal)
                        last = end
                start = reading.parts.find(head, start + 1)


def _end(reading: TextReading, start: int) -> int | None:
    """The place behind as many letters and digits as the country has, parted by single signs or none."""
    text, at = reading.text, start
    left = LENGTHS.get(text[start : start + 2].upper(), 0)
    if not left or joins(reading.before(start)):
        return None
    parted = False
    while left:
        sign = text[at : at + 1]
        if sign.isascii() and sign.isalnum():
            left -= 1
            parted = False
        elif parted or sign not in (" ", "-"):
            return None
        else:
            parted = True
        at += 1
    return None if joins(reading.after(at)) else at


def remainder_fits(iban: str) -> bool:
    """Return True if the check digits of a compact, upper-case IBAN are right."""
    return int("".join(str(int(sign, 36)) for sign in iban[4:] + iban[:4])) % 97 == 1


# --------------------------------------------------------------------------- national ids
# Numbers that states give to people: found by their shape, proved by their check digits.
#
# What is bare digits, or a shape without a check, counts only behind a word that names it.

_SIGN_RUNS = re.compile("[A-Za-z0-9]+")


class NationalIds(Shipped):
    """`NATIONAL_ID`; normal: letters and digits alone, in upper case."""

    def __init__(self) -> None:
        super().__init__("NATIONAL_ID")

    def read(self, reading: TextReading) -> Iterator[DetectedValue]:
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

    def _make_found(self, reading: TextReading, start: int, end: int) -> DetectedValue:
        normal = "".join(_SIGN_RUNS.findall(reading.text[start:end])).upper()
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
    compact = "".join(_SIGN_RUNS.findall(written)).upper()
    if not is_valid(form.check, compact, written):
        return False
    return not form.doubtful(written) or reading.says(start, form.words)
