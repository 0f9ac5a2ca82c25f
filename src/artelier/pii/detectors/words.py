"""Whether a word that says what follows stands near before a number."""

from __future__ import annotations

import re

NEAR_CHARS_MAX = 40
"""How far before a value a word may end. A guess: four words and a colon."""

# What names a figure: behind such a word the number is not what the word before it promised.
_FIGURES = re.compile(
    r"(?<![a-z])(?:revenue|sales|sold|total|sum|units?|amount|qty|quantity|price|cost|orders?|invoice|count"
    r"|sku|ean|gtin|upc|isbn|barcode|volume|budget|stock|usd|eur|gbp|transactions?|timestamp|version"
    r"|umsatz|menge|betrag|rechnung|bestellung)(?![a-z])"
)
_LETTER = re.compile(r"[^\W\d_]")


def words(*stems: str) -> re.Pattern[str]:
    """A pattern of lower case for `words_before`: any of these stems at the start of a word."""
    return re.compile("(?<![a-z])(?:" + "|".join(stems) + ")")


def words_before(text: str, start: int) -> str:
    """What is said right before a place: of its line, in lower case, from the last name of a figure on.

    Empty if no letter is in it.
    """
    before = text[max(0, start - NEAR_CHARS_MAX) : start]
    before = before[before.rfind("\n") + 1 :]
    if _LETTER.search(before) is None:
        return ""
    before = before.lower()
    last = 0
    for figure in _FIGURES.finditer(before):
        last = figure.end()
    return before[last:]


def adjoins(text: str, start: int, pattern: re.Pattern[str]) -> bool:
    """Whether one of the words stands right before `start`: only its own end and signs are between."""
    before = words_before(text, start)
    return any(
        re.fullmatch(r"(?i)[a-z]{0,10}(?:[ _.]?(?:no|nr|num|number|nummer))?[^a-z0-9]{0,6}",
                     before[match.end() :])
        for match in pattern.finditer(before)
    )  # fmt: skip
