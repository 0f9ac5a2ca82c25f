"""One spelling for characters that look alike: full-width digits, odd spaces and hyphens, invisible marks.

Places stay right: a character is replaced by exactly one, and where invisible ones are left out, a table
leads from each place in the folded text to its place in the original.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

_SPACES = "\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000"
_HYPHENS = "\u2010\u2011\u2012\u2013\u2014\u2015\u2212\ufe58\ufe63"
_DOTS = "\u2024\u3002\uff61"
_INVISIBLE = "\u00ad\u034f\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufe00-\ufe0f\ufeff"


def _alike() -> dict[str, str]:
    table = {chr(code): chr(code - 0xFEE0) for code in range(0xFF01, 0xFF5F)}
    table |= dict.fromkeys(_SPACES, " ") | dict.fromkeys(_HYPHENS, "-") | dict.fromkeys(_DOTS, ".")
    for code in (*range(0x0600, 0x1100), *range(0x1D7CE, 0x1D800)):
        value = unicodedata.decimal(chr(code), None)
        if value is not None:
            table[chr(code)] = str(value)
    return table


_ALIKE = _alike()
_ODD = re.compile("[" + re.escape("".join(_ALIKE)) + "]")
_UNSEEN = re.compile(f"[{_INVISIBLE}]+")


def fold(text: str) -> tuple[str, Sequence[int] | None]:
    """The text with one spelling of each character, and the original place of each, or None if unmoved.

    Cost: nothing for ASCII, else one search for each of the two sorts of characters.
    """
    if text.isascii():
        return text, None
    places: list[int] | None = None
    if _UNSEEN.search(text):
        kept: list[str] = []
        places = []
        last = 0
        for unseen in _UNSEEN.finditer(text):
            kept.append(text[last : unseen.start()])
            places.extend(range(last, unseen.start()))
            last = unseen.end()
        kept.append(text[last:])
        places.extend(range(last, len(text)))
        text = "".join(kept)
    return _ODD.sub(lambda match: _ALIKE[match[0]], text), places
