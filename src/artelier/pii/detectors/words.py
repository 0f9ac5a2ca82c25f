"""Whether a word that says what follows stands near before a number."""

from __future__ import annotations

import re

NEAR_CHARS_MAX = 40
"""How far before a value a word may end. A guess: four words and a colon."""

# What names a figure: behind such a word the number is not what the word before it promised.
_FIGURES = re.compile(
    r"(?i)(?<![a-z])(?:revenue|sales|sold|total|sum|units?|amount|qty|quantity|price|cost|orders?|invoice|count"
    r"|sku|ean|gtin|upc|isbn|barcode|volume|budget|stock|usd|eur|gbp|transactions?|timestamp|version"
    r"|umsatz|menge|betrag|rechnung|bestellung)(?![a-z])"
)


def words(*stems: str) -> re.Pattern[str]:
    """A pattern for `near`: any of these stems at the start of a word, whatever the word's end."""
    return re.compile(r"(?i)(?<![a-z])(?:" + "|".join(stems) + ")")


def near(text: str, start: int, pattern: re.Pattern[str]) -> bool:
    """Whether one of the words stands before `start` on the same line, with no name of a figure between."""
    before = text[max(0, start - NEAR_CHARS_MAX) : start]
    before = before[before.rfind("\n") + 1 :]
    last: re.Match[str] | None = None
    for last in pattern.finditer(before):  # noqa: B007 - only the last one counts
        pass
    return last is not None and _FIGURES.search(before, last.end()) is None


def adjoins(text: str, start: int, pattern: re.Pattern[str]) -> bool:
    """Whether one of the words stands right before `start`: only its own end and signs are between."""
    before = text[max(0, start - NEAR_CHARS_MAX) : start]
    before = before[before.rfind("\n") + 1 :]
    return any(
        re.fullmatch(r"(?i)[a-z]{0,10}(?:[ _.]?(?:no|nr|num|number|nummer))?[^a-z0-9]{0,6}",
                     before[match.end() :])
        for match in pattern.finditer(before)
    )  # fmt: skip
