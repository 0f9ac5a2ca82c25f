"""Bank accounts: an IBAN of the length its country has, whose remainder by 97 is 1 (ISO 13616)."""

from __future__ import annotations

import re
from collections.abc import Iterator

from artelier.pii.detectors.text_view import Shipped, TextReading, joins
from artelier.ports.pii import Found

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

    def read(self, reading: TextReading) -> Iterator[Found]:
        for head in _HEADS:
            last = 0
            start = reading.parts.find(head)
            while start >= 0:
                end = _end(reading, start) if start >= last else None
                if end is not None:
                    normal = "".join(_SIGNS.findall(reading.text[start:end])).upper()
                    if remainder_fits(normal):
                        yield reading.found(start, end, self.kind, normal)
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
