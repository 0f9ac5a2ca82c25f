"""Text of a server as people and models may see it: what nobody can see is taken out."""

from __future__ import annotations

import unicodedata

_KEPT = frozenset("\n\t")
_BLANK = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
"""Characters that are letters or symbols by category and show nothing."""


def is_hidden(char: str) -> bool:
    """Return True if a character shows nothing: controls, formats, variation selectors, private ones,
    fillers.
    """
    if char.isascii():
        return char not in _KEPT and not char.isprintable()
    if char in _BLANK or 0xFE00 <= ord(char) <= 0xFE0F or 0xE0000 <= ord(char) <= 0xE0FFF:
        return True
    return unicodedata.category(char) in ("Cc", "Cf", "Co", "Cs", "Cn", "Zl", "Zp")


def has_hidden(text: str) -> bool:
    """Return True if any of it shows nothing."""
    return any(map(is_hidden, text))


def visible(text: str, *, chars_max: int) -> str:
    """The text without hidden characters, cut to a length; what was cut is said by `…`."""
    # Cut first, generously: cleaning megabytes to keep a line of them would be work for nothing.
    shown = "".join(char for char in text[: chars_max * 4] if not is_hidden(char)).strip()
    return shown if len(shown) <= chars_max else shown[: chars_max - 1] + "…"
