"""One spelling for characters that look alike: full-width digits, odd spaces and hyphens, invisible marks.

Places stay right: a character is replaced by exactly one, and where invisible ones are left out, a table
leads from each place in the folded text to its place in the original.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

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
