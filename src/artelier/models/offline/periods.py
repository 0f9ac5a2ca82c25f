"""Periods as people write them: a day, a month, a quarter, a half, a year, with or without its year.

A period without a year is not a mistake yet: the data may hold only one such year. Phrases that count
from today (`last month`) are refused, since the model has no clock.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from typing import Literal

from artelier.errors import OfflineCannot
from artelier.models.offline import lexicon
from artelier.models.offline.words import Word

Grain = Literal["day", "month", "quarter", "half", "year"]

YEAR_MIN, YEAR_MAX = 1900, 2100
"""A bare four-digit number in this range may be a year; others never are."""

_QUARTER = re.compile(r"(?:q([1-4])|([1-4])q)", re.IGNORECASE)
_HALF = re.compile(r"h([12])", re.IGNORECASE)
_GLUED = re.compile(r"(?:(?P<year>\d{4})(?P<what>[qh])(?P<number>[1-4]))", re.IGNORECASE)  # 2024Q3


@dataclass(frozen=True, slots=True, kw_only=True)
class Period:
    """A stretch of the calendar; `number` counts the month, quarter or half from 1."""

    grain: Grain
    year: int | None = None
    number: int = 1
    day: int = 1

    def bounds(self, year: int) -> tuple[date, date]:
        """The first day and the day after the last.

        Errors: `OfflineCannot` for a day that this year does not have.
        """
        if self.grain == "year":
            return date(year, 1, 1), date(year + 1, 1, 1)
        if self.grain == "day":
            try:
                start = date(year, self.number, self.day)
            except ValueError:
                raise OfflineCannot(f"{self.day}/{self.number}/{year} is no day") from None
            return start, start + timedelta(days=1)
        months = {"month": 1, "quarter": 3, "half": 6}[self.grain]
        first = (self.number - 1) * months
        after = first + months
        return date(year, first + 1, 1), date(year + after // 12, after % 12 + 1, 1)

    def in_year(self, year: int) -> Period:
        return replace(self, year=year)

    @property
    def label(self) -> str:
        year = "" if self.year is None else f" {self.year}"
        if self.grain == "year":
            return str(self.year)
        if self.grain == "quarter":
            return f"Q{self.number}{year}"
        if self.grain == "half":
            return f"H{self.number}{year}"
        month = _MONTH_NAMES[self.number - 1]
        if self.grain == "month":
            return f"{month}{year}"
        if self.year is None:
            return f"{self.day} {month}"
        return date(self.year, self.number, self.day).isoformat()


_MONTH_NAMES = "January February March April May June July August September October November December".split()


def year_of(word: Word) -> int | None:
    """The year that a bare number may be."""
    if word.kind == "number" and re.fullmatch(r"\d{4}", word.text):
        year = int(word.text)
        return year if YEAR_MIN <= year <= YEAR_MAX else None
    return None


def period_at(words: Sequence[Word], at: int) -> tuple[Period, int] | None:
    """The period that starts at a place, and how many words it takes; bare years are not taken here."""
    found = _core(words, at)
    if found is None:
        return None
    period, taken = found
    if period.year is not None:
        return period, taken
    year, more = _year_after(words, at + taken)
    return (period.in_year(year), taken + more) if year is not None else (period, taken)


def _core(words: Sequence[Word], at: int) -> tuple[Period, int] | None:
    word = words[at]
    if word.kind == "day" and word.day is not None:
        day = word.day
        return Period(grain="day", year=day.year, number=day.month, day=day.day), 1
    if word.kind == "month" and word.day is not None:
        return Period(grain="month", year=word.day.year, number=word.day.month), 1
    return _quarter(words, at) or _half(words, at) or _day_month(words, at) or _month_day(words, at)


def _quarter(words: Sequence[Word], at: int) -> tuple[Period, int] | None:
    word = words[at]
    if match := _GLUED.fullmatch(word.text):
        grain: Grain = "quarter" if match["what"].lower() == "q" else "half"
        if grain == "half" and int(match["number"]) > 2:
            return None
        return Period(grain=grain, year=int(match["year"]), number=int(match["number"])), 1
    if match := _QUARTER.fullmatch(word.text):
        return Period(grain="quarter", number=int(match[1] or match[2])), 1
    year = year_of(word)
    if year is not None and at + 1 < len(words):  # 2024 Q3, 2024-Q3
        after = at + 2 if words[at + 1].text in "-/" and at + 2 < len(words) else at + 1
        if match := _QUARTER.fullmatch(words[after].text):
            period = Period(grain="quarter", year=year, number=int(match[1] or match[2]))
            return period, after + 1 - at
    number = lexicon.ORDINALS.get(word.lower)
    if number and _lower(words, at + 1) == "quarter":
        return Period(grain="quarter", number=number), 2
    if word.lower == "quarter" and (following := _small(words, at + 1, 4)):
        return Period(grain="quarter", number=following), 2
    return None


def _half(words: Sequence[Word], at: int) -> tuple[Period, int] | None:
    word = words[at]
    if match := _HALF.fullmatch(word.text):
        return Period(grain="half", number=int(match[1])), 1
    number = lexicon.ORDINALS.get(word.lower)
    if number in (1, 2) and _lower(words, at + 1) == "half":
        return Period(grain="half", number=number), 2
    return None


def _month_day(words: Sequence[Word], at: int) -> tuple[Period, int] | None:
    """March, March 5, March 5th; May only with a capital, since it is a verb too."""
    word = words[at]
    month = lexicon.MONTHS.get(word.lower)
    if month is None or word.kind != "word":
        return None
    if len(word.lower) <= 4 and not word.text[:1].isupper():
        return None
    after = at + 1
    if _lower(words, after) == "." and len(word.lower) <= 4:
        after += 1  # Sept.
    skipped = after + 1 if _lower(words, after) == "the" else after
    day = _small(words, skipped, 31)
    if day and not _counts_something(words, skipped + 1):
        return Period(grain="day", number=month, day=day), skipped + 1 - at
    return Period(grain="month", number=month), 1


def _day_month(words: Sequence[Word], at: int) -> tuple[Period, int] | None:
    """5 March, 5th of March."""
    day = _small(words, at, 31)
    if not day or words[at].kind != "number":
        return None
    after = at + 2 if _lower(words, at + 1) == "of" else at + 1
    if after < len(words) and (month := lexicon.MONTHS.get(words[after].lower)):
        if words[after].text[:1].isupper():
            return Period(grain="day", number=month, day=day), after + 1 - at
    return None


def _counts_something(words: Sequence[Word], at: int) -> bool:
    """Return True if the number before this place counts things rather than days: `In March 5 orders`."""
    if at >= len(words) or words[at].kind != "word":
        return False
    return words[at].lower not in lexicon.FUNCTION_WORDS and year_of(words[at]) is None


def _year_after(words: Sequence[Word], at: int) -> tuple[int | None, int]:
    """A year after a period: `2024`, `of 2024`, `in 2024`, `, 2024`, `-2024`."""
    if at < len(words) and (year := year_of(words[at])) is not None:
        return year, 1
    if _lower(words, at) in ("of", "in", ",", "-", "/") and at + 1 < len(words):
        if (year := year_of(words[at + 1])) is not None:
            return year, 2
        if _lower(words, at + 1) in ("the", "year") and at + 2 < len(words):
            last = at + 3 if _lower(words, at + 2) == "year" else at + 2
            if last < len(words) and (year := year_of(words[last])) is not None:
                return year, last + 1 - at
    return None, 0


def _small(words: Sequence[Word], at: int, most: int) -> int | None:
    if at < len(words) and words[at].kind == "number" and words[at].number is not None:
        match = re.fullmatch(r"(\d{1,2})(?:st|nd|rd|th)?", words[at].lower)
        if match and 1 <= int(match[1]) <= most:
            return int(match[1])
    return None


def _lower(words: Sequence[Word], at: int) -> str:
    return words[at].lower if at < len(words) else ""
