"""The check for a word that says what follows and stands near before a number."""

from __future__ import annotations

import re
from functools import lru_cache

NEAR_CHARS_MAX = 40
"""How far before a value a word may end. A guess: four words and a colon."""

# What names a figure: behind such a word the number is not what the word before it promised.
_NAMES_OF_FIGURES = (
    r"(?<![a-z])(?:revenue|sales|sold|total|sum|units?|amount|qty|quantity|price|cost|orders?|invoice|count"
    r"|sku|ean|gtin|upc|isbn|barcode|volume|budget|stock|usd|eur|gbp|transactions?|timestamp|version"
    r"|umsatz|menge|betrag|rechnung|bestellung)(?![a-z])"
)
_FIGURES = re.compile(_NAMES_OF_FIGURES)
_FIGURE_ADJOINS = re.compile(_NAMES_OF_FIGURES + r"(?:[ _-]?(?:no|nr|id|number))?[^a-z0-9\n]{0,4}\Z")
_DIGITS = re.compile("[0-9]+")
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")
_LETTER = re.compile(r"[^\W\d_]")


def words(*stems: str) -> re.Pattern[str]:
    """A pattern of lower case for `words_before`: any of these stems at the start of a word."""
    return re.compile("(?<![a-z])(?:" + "|".join(stems) + ")")


def words_before(text: str, start: int) -> str:
    """Return what is said right before a place: of its line, in lower case, from the last name of a figure
    on.

    Empty if no letter is in it; a number in it is `0`. Names such as `homePhone` are there twice, the second
    time taken apart.
    """
    before = text[max(0, start - NEAR_CHARS_MAX) : start]
    before = before[before.rfind("\n") + 1 :]
    if _LETTER.search(before) is None:
        return ""
    return _phrase_of(_DIGITS.sub("0", before))


@lru_cache(maxsize=4_096)
def _phrase_of(before: str) -> str:
    """Rows of a table say the same again and again, but for their figures."""
    plain, split = before.lower(), _CAMEL.sub("_", before).lower()
    return _behind_figures(plain) if plain == split else f"{_behind_figures(plain)}\n{_behind_figures(split)}"


def _behind_figures(before: str) -> str:
    last = 0
    for figure in _FIGURES.finditer(before):
        last = figure.end()
    return before[last:]


def is_figure(text: str, start: int) -> bool:
    """Return True if the name of a figure stands right before a place."""
    return _FIGURE_ADJOINS.search(text[max(0, start - NEAR_CHARS_MAX) : start].lower()) is not None


def adjoins(text: str, start: int, pattern: re.Pattern[str]) -> bool:
    """Return True if one of the words stands right before `start`: only its own end and signs are between."""
    before = words_before(text, start)
    return any(
        re.fullmatch(
            r"(?i)[a-z]{0,10}(?:[ _.]?(?:no|nr|num|number|nummer))?[^a-z0-9]{0,6}", before[match.end() :]
        )
        for match in pattern.finditer(before)
    )
