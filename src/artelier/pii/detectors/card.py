"""Payment cards: digits of a known issuer and length whose check digit fits."""

from __future__ import annotations

from collections.abc import Iterator

from artelier.pii.detectors.context_words import CARD
from artelier.pii.detectors.text_view import DigitRun, Shipped, TextReading, joins
from artelier.ports.pii import Found

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
for _low, _high, _lengths in _ISSUERS:
    for _digit in range(int(str(_low)[0]), int(str(_high)[0]) + 1):
        _BY_FIRST.setdefault(str(_digit), []).append((_low, _high, len(str(_low)), _lengths))

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

    def read(self, reading: TextReading) -> Iterator[Found]:
        for run in reading.runs:
            at = 0
            while at < len(run.groups):
                size = _window(reading, run, at)
                if size:
                    digits = "".join(run.groups[at : at + size])
                    end = run.ends_at(at + size - 1)
                    yield reading.found(run.starts[at], end, self.kind, digits)
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
