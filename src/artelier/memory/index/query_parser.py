"""A query as the index reads it: its terms, whom and when it names, and what kind of answer it wants."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from artelier.memory.index.dates import MONTHS, NO_DAYS, AskedDays, asked_days
from artelier.memory.index.synonyms import WEAK, weak_terms
from artelier.memory.index.tokenizer import stop_words, term_of, words

CHARS_MAX = 4_000
TERMS_MAX = 32
"""Beyond these a query is cut; they bound the cost of one search."""

TIME_WORDS = frozenset(
    "yesterday today tomorrow tonight week weekend month year ago last next day days since recently"
    " monday tuesday wednesday thursday friday saturday sunday morning evening".split()
) | {month for month in MONTHS if len(month) > 3 or month == "may"}
NUMBER_WORDS = frozenset(
    "one two three four five six seven eight nine ten twice once couple several dozen hundred".split()
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedQuery:
    """The query of a memory search."""

    terms: Mapping[str, float] = field(default_factory=dict[str, float])
    """Each term once, with what it is worth."""
    speaker: int | None = None
    """The one speaker who is named."""
    asked: AskedDays = NO_DAYS
    wants_time: bool = False
    wants_number: bool = False


def read_question(
    query: str, speakers: Mapping[str, int], *, newest: int = 0, now: int | None = None
) -> ParsedQuery:
    """Understand a query. `speakers`: words of speakers' names, lower case, to the speaker's number.

    Names of speakers are a field of the entries, so they are no terms, unless nothing else is left.
    """
    query = query[:CHARS_MAX]
    said = words(query)
    found = {speakers[word] for word in said if word in speakers}
    kept = [word for word in said if word not in speakers and word not in stop_words()]
    terms = dict.fromkeys(
        term_of(word) for word in kept or [word for word in said if word not in stop_words()] or said
    )
    weak = weak_terms()
    return ParsedQuery(
        terms={term: WEAK if term in weak else 1.0 for term in list(terms)[:TERMS_MAX]},
        speaker=found.pop() if len(found) == 1 else None,
        asked=asked_days(query, newest=newest, now=now),
        wants_time="when" in said or ("how" in said and "long" in said),
        wants_number="many" in said or "much" in said or "often" in said,
    )


def without_names(query: str, speakers: Mapping[str, int]) -> str:
    """The query without names of speakers; all of it if no other word is left."""
    bare = re.sub(
        r"[^\W_]+(?:['’]s\b)?",
        lambda found: " " if re.split("['’]", found[0])[0].lower() in speakers else found[0],
        query,
    )
    bare = " ".join(bare.split())
    return bare if words(bare) else query
