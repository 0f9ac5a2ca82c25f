"""Words that a question's word may mean: members of a class it names, and near synonyms.

The lists are general English, written by hand, by somebody who had seen what a search without them misses
in three conversations. Decision 0009 tells what they are worth, and what remains without them.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from artelier.memory.index.tokenizer import lexicon, term_of

MEMBER = 0.4
"""How much a member of the class that was asked for counts, against the word itself."""
CLASS = 0.2
ALIKE = 0.5
WEAK = 0.5
"""What a word that questions hold and answers seldom do is worth. All four: guesses, kept."""


def associated(term: str) -> Mapping[str, float]:
    """Other terms that speak for this one, with their strength below 1."""
    return _table().get(term, {})


@lru_cache(maxsize=1)
def weak_terms() -> frozenset[str]:
    return frozenset(term_of(word) for line in lexicon("weak") for word in line)


@lru_cache(maxsize=1)
def _table() -> dict[str, dict[str, float]]:
    table: dict[str, dict[str, float]] = {}

    def relate(term: str, other: str, strength: float) -> None:
        if term != other:
            row = table.setdefault(term, {})
            row[other] = max(row.get(other, 0.0), strength)

    for line in lexicon("kinds"):
        end = next(place for place, word in enumerate(line) if word.endswith(":"))
        names = [term_of(word.rstrip(":")) for word in line[: end + 1]]
        members = [term_of(word) for word in line[end + 1 :]]
        for name in names:
            for member in members:
                relate(name, member, MEMBER)
                relate(member, name, CLASS)
            for other in names:
                relate(name, other, MEMBER)
    for line in lexicon("alike"):
        group = [term_of(word) for word in line]
        for term in group:
            for other in group:
                relate(term, other, ALIKE)
    return table
