"""A query as the index reads it: its terms, whom and when it names, and what kind of answer it wants."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache

from artelier.memory.index.tokenizer import WEAK, stop_words, term_of, weak_terms, words

# --------------------------------------------------------------------------- dates
# Days as numbers: when an entry was said, and which days a question asks about.


MONTHS = {
    name: number
    for number, names in enumerate(
        (
            "january jan",
            "february feb",
            "march mar",
            "april apr",
            "may",
            "june jun",
            "july jul",
            "august aug",
            "september sep sept",
            "october oct",
            "november nov",
            "december dec",
        ),
        1,
    )
    for name in names.split()
}

_MONTH = "|".join(sorted(MONTHS, key=len, reverse=True))
_ISO = re.compile(r"\b(\d{4})-(\d{2})-(\d{2})(?!\d)")
_DAY_MONTH = re.compile(rf"\b(\d{{1,2}})(?:st|nd|rd|th)?(?: of)? ({_MONTH})\b\.?,?(?: (\d{{4}}))?", re.I)
_MONTH_DAY = re.compile(rf"\b({_MONTH})\.? (\d{{1,2}})(?:st|nd|rd|th)?\b(?:,? (\d{{4}}))?", re.I)
_MONTH_ONLY = re.compile(rf"\b({_MONTH})\b\.?,?(?: (?:of )?(\d{{4}}))?", re.I)
_HINT = re.compile(rf"\d|\b(?:{_MONTH})\b", re.I)
"""Without a figure and a month no date is named."""
_YEAR = re.compile(r"\b(?:19|20)\d\d\b")
_AGO = re.compile(r"\b(\d{1,3}|a|an|one|two|three|four|five|six) (day|week|month)s? ago\b", re.I)
_COUNTS = {"a": 1, "an": 1, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6}
_DAYS = {"day": 1, "week": 7, "month": 30}
_SAID = (
    ("today", 0, 0),
    ("yesterday", 1, 1),
    ("this week", 6, 0),
    ("last week", 13, 5),
    ("this month", 30, 0),
    ("last month", 61, 28),
    ("last year", 730, 300),
)
"""Phrases, and the days before now that they mean: from, to. Generous, as people are."""

MICROSECONDS_SINCE = 10**14
"""A tick above this is taken for microseconds of the clock; it would be in 1973."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedDays:
    """The days that a question names, both ends included; months without a year fit every year."""

    first: int = 0
    last: int = -1
    month: int = 0
    exact: bool = False
    """A day was named: what was said a few days later may tell about it."""

    def __bool__(self) -> bool:
        return self.last >= self.first or self.month > 0


NO_DAYS = AskedDays()


@lru_cache(maxsize=4_096)
def day_of(text: str) -> int:
    """The day that a date in words or in ISO 8601 names, counted from the year 1; 0 if there is none."""
    for pattern, order in ((_ISO, (1, 2, 3)), (_DAY_MONTH, (3, 2, 1)), (_MONTH_DAY, (3, 1, 2))):
        if found := pattern.search(text):
            year, month, day = (found[place] for place in order)
            if year is not None:
                return _ordinal(int(year), _number(month), int(day))
    return 0


def asked_days(question: str, *, newest: int = 0, now: int | None = None) -> AskedDays:
    """The days a question asks about.

    `newest`: day of the newest entry, which gives a day without a year its year. `now`: a tick; relative
    words ("last week") mean something only if it is in microseconds of the clock.
    """
    if not _HINT.search(question):
        return _relative(question.lower(), now)
    if found := _ISO.search(question):
        day = _ordinal(int(found[1]), int(found[2]), int(found[3]))
        return AskedDays(first=day, last=day, exact=True) if day else NO_DAYS
    for pattern, month_place, day_place in ((_DAY_MONTH, 2, 1), (_MONTH_DAY, 1, 2)):
        if found := pattern.search(question):
            month, day = _number(found[month_place]), int(found[day_place])
            year = int(found[3] or _year_in(question) or 0)
            return _one_day(year, month, day, newest)
    if (found := _MONTH_ONLY.search(question)) and not _is_verb(found[1]):
        month, year = _number(found[1]), found[2] or _year_in(question)
        if not year:
            return AskedDays(month=month)
        first = _ordinal(int(year), month, 1)
        return AskedDays(first=first, last=first + 30, month=month) if first else NO_DAYS
    relative = _relative(question.lower(), now)
    if not relative and (year := _year_in(question)):
        return AskedDays(first=_ordinal(int(year), 1, 1), last=_ordinal(int(year), 12, 31))
    return relative


def _one_day(year: int, month: int, day: int, newest: int) -> AskedDays:
    if not year:
        if not newest:
            return AskedDays(month=month)
        year = date.fromordinal(newest).year
        if _ordinal(year, month, day) > newest + 31:
            year -= 1
    found = _ordinal(year, month, day)
    return AskedDays(first=found, last=found, month=month, exact=True) if found else NO_DAYS


def _relative(question: str, now: int | None) -> AskedDays:
    if now is None or now < MICROSECONDS_SINCE:
        return NO_DAYS
    today = (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=now)).toordinal()
    if found := _AGO.search(question):
        count = _COUNTS.get(found[1]) or int(found[1])
        size = _DAYS[found[2]]
        middle = today - count * size
        return AskedDays(first=middle - size // 2, last=middle + size // 2)
    for phrase, start, end in _SAID:
        if re.search(rf"\b{phrase}\b", question):
            return AskedDays(first=today - start, last=today - end)
    return NO_DAYS


def _is_verb(word: str) -> bool:
    """`may`, `march` and `mar` in small letters are no months."""
    return word in ("may", "march", "mar", "jan", "sep", "dec")


def _number(month: str) -> int:
    return MONTHS.get(month.lower()) or int(month)


def _year_in(question: str) -> str | None:
    found = _YEAR.search(question)
    return found.group() if found else None


def _ordinal(year: int, month: int, day: int) -> int:
    """0 for what is no day of the calendar."""
    try:
        return date(year, month, day).toordinal()
    except ValueError:
        return 0


def month_of(day: int) -> int:
    """The month of a day, 1 to 12; 0 if the day is not known."""
    return date.fromordinal(day).month if day else 0


# --------------------------------------------------------------------------- query parser


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
