"""The questions about tables that are understood: a strict grammar, from words to one plan.

A rule must take every word; a word that no rule takes refuses the question, and so do two meanings. The
forms, with names of columns and tables in capitals:

    how many TABLE | rows are in TABLE | different COLUMN | UNITS    count, distinct count, sum
    total | average | median | highest | lowest MEASURE              one figure; `by COLUMN`: one for each
    which [N] COLUMN sold most [MEASURE] | has the highest [total | average] MEASURE | has the most TABLE
    top N COLUMN by [total | average] MEASURE
    how did MEASURE change from PERIOD to PERIOD; what changed from PERIOD to PERIOD (of the question before)

with at most one filter: `in PERIOD`, `in VALUE`, `where COLUMN is VALUE`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from typing import Any, Literal, TypeVar

from artelier.errors import OfflineCannot
from artelier_offline.tables import MONEY, QUANTITY, Column, Profile, Table, names_of
from artelier_offline.words import Word, code, escaped, name_words, tokens

Aggregate = Literal["count", "distinct", "sum", "mean", "median", "min", "max"]
_T = TypeVar("_T")

WORDS_MAX = 60
NAME_WORDS_MAX = 5
CELL_WORDS_MAX = 4
CANDIDATES_MAX = 120
TOP_MAX = 50

_ARTICLES = frozenset("the a an our my".split())
_LEADS = "please|can you tell me|could you tell me|tell me|show me|give me|show|list|say|find out"
_NUMBERS = {
    word: at for at, word in enumerate("zero one two three four five six seven eight nine ten".split())
}
_AGGREGATES: dict[Aggregate, str] = {
    "sum": "total|sum of|sum|overall",
    "mean": "average|mean",
    "median": "median",
    "max": "highest|largest|maximum",
    "min": "lowest|smallest|minimum",
}
_DOWN = "highest|largest|biggest|greatest|most"
_UP = "lowest|smallest|least|fewest"
_THERE = "are there in total|are there|were there|is there|was there|do we have|did we have|exist|are in here"
_SOLD = "were sold|was sold|have been sold|did we sell|have we sold"
_IN = "in|for|during|of|from|at|on"
_UNITS = frozenset("eur usd gbp chf euro dollar kwh kg km".split())
_MONTHS = "january february march april may june july august september october november december".split()
_ORDINALS = ("first", "second", "third", "fourth")
_PARTS = (("quarter", 4), ("half", 2))


@dataclass(frozen=True, slots=True, kw_only=True)
class Period:
    """Days of a calendar, without a year if `year` is 0."""

    name: str
    month: int
    months: int
    year: int = 0

    @property
    def start(self) -> date:
        return date(self.year, self.month, 1)

    @property
    def end(self) -> date:
        """The first day after it."""
        after = self.month - 1 + self.months
        return date(self.year + after // 12, after % 12 + 1, 1)

    @property
    def label(self) -> str:
        return self.name if str(self.year) in self.name else f"{self.name} {self.year}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A computation over one table, or two that are joined."""

    kind: Literal["figure", "rank", "change"]
    aggregate: Aggregate
    table: Table
    measure: Column | None = None
    second: Column | None = None
    """Another measure that the word `sold` may mean."""
    group: Column | None = None
    cell: tuple[Column, str] | None = None
    dates: Column | None = None
    periods: tuple[Period, ...] = ()
    """One that filters, or the two of a change."""
    join: tuple[Column, Column] | None = None
    """The key in `table`, and the equally named one of the other table."""
    limit: int = 1
    is_down: bool = True
    is_literal: bool = False
    """True if rows are asked for as they stand in the file."""
    is_sold: bool = False

    @property
    def columns(self) -> list[Column]:
        """The columns that it reads, but for that of its periods."""
        of_rows = (self.group, self.cell and self.cell[0], *(self.join or ()))
        return [one for one in (*of_rows, self.measure, self.second) if one is not None]


@dataclass(slots=True, kw_only=True)
class _Draft:
    """The words of a question by their role, before it is known which table each means."""

    kind: Literal["figure", "rank", "change"] = "figure"
    aggregate: Aggregate | None = None
    tables: Sequence[Table] = ()
    """That are counted."""
    measures: Sequence[Column] = ()
    groups: Sequence[Column] = ()
    cells: Sequence[tuple[Column, str]] = ()
    periods: tuple[Period, ...] = ()
    limit: int = 1
    is_down: bool = True
    is_literal: bool = False
    is_sold: bool = False
    base: Plan | None = None
    """The plan of the question before, of which a change is asked."""


class _No(Exception):
    """A rule does not fit the words."""


def parse(text: str, profile: Profile, before: Plan | None = None) -> Plan:
    """Return the one plan that a question means. `before`: that of the question before it.

    Errors: `OfflineCannot` for a word that is not understood, or a question with several meanings.
    """
    words = [one for one in tokens(text) if one.lower not in _ARTICLES]
    while words and words[-1].text in (".", "?", "!"):
        words.pop()
    if not words or len(words) > WORDS_MAX:
        raise OfflineCannot("this is no question that can be read")
    reader = _Reader(words, profile, before)
    plans: list[Plan] = []
    for rule in (reader.count, reader.figure, reader.breakdown, reader.rank, reader.top, reader.change):
        try:
            plan = _Resolver(profile, reader.whole(rule)).plan()
        except _No:
            continue
        if plan not in plans:
            plans.append(plan)
    if len(plans) != 1:
        many = "the question can be read in several ways"
        raise OfflineCannot(many if plans else reader.stuck)
    return plans[0]


def candidates(text: str) -> list[str]:
    """Return the runs of words that may be cells, folded."""
    words = tokens(text)[:WORDS_MAX]
    sizes = range(1, CELL_WORDS_MAX + 1)
    runs = [words[at : at + size] for size in sizes for at in range(len(words) - size + 1)]
    found = [" ".join(one.lower for one in run) for run in runs if all(one.kind != "mark" for one in run)]
    return list(dict.fromkeys(found))[:CANDIDATES_MAX]


class _Reader:
    """A cursor over the words of a question; each rule takes words or raises `_No`."""

    def __init__(self, words: Sequence[Word], profile: Profile, before: Plan | None) -> None:
        self._words, self._profile, self._before = words, profile, before
        self._at: int = 0
        self._furthest: int = 0

    @property
    def stuck(self) -> str:
        """The first word that no rule has taken, in a sentence."""
        self._at = min(self._furthest, len(self._words) - 1)
        word = self._words[self._at].text
        found = [one for one in self._columns() if one.type == "text"]
        if len(found) == 1:
            note = found[0].note.removeprefix("text; ")
            return f"{code(found[0].name)} holds no figures{': ' if note else ''}{escaped(note)}"
        return f'"{word}" is not understood here'

    def whole(self, rule: Callable[[], _Draft]) -> _Draft:
        """Return the draft of a rule that takes all words."""
        self._at = 0
        while self._take(_LEADS):
            pass
        draft = rule()
        while self._at < len(self._words):
            self._modifier(draft)
        return draft

    # Words

    def _lower(self) -> str:
        return self._words[self._at].lower if self._at < len(self._words) else ""

    def _take(self, phrases: str) -> str:
        """Take the longest of some phrases; return it, or nothing."""
        for phrase in sorted(phrases.split("|"), key=lambda one: -len(one.split())):
            said = phrase.split()
            run = self._words[self._at : self._at + len(said)]
            if [one.lower for one in run] == said and all(one.kind != "quoted" for one in run):
                self._move(len(said))
                return phrase
        return ""

    def _need(self, phrases: str) -> str:
        return self._take(phrases) or self._fail()

    def _fail(self) -> Any:
        self._furthest = max(self._furthest, self._at)
        raise _No

    def _move(self, count: int) -> None:
        self._at += count
        self._furthest = max(self._furthest, self._at)

    def _longest(self, most: int, find: Callable[[Sequence[Word]], list[_T] | None]) -> list[_T]:
        """Take the longest run of words for which something is found; return that."""
        rest = self._words[self._at : self._at + most]
        for size in range(len(rest), 0, -1):
            if all(one.kind != "mark" for one in rest[:size]) and (found := find(rest[:size])):
                self._move(size)
                return found
        return []

    def _named(self, things: Iterable[_T], names: Callable[[_T], Collection[tuple[str, ...]]]) -> list[_T]:
        """Take the longest name of some things; return those of that name."""

        def find(run: Sequence[Word]) -> list[_T]:
            said = tuple(part for one in run for part in name_words(one.text))
            return [one for one in things if said and said in names(one)]

        return self._longest(NAME_WORDS_MAX, find)

    def _columns(self, *, measures: bool = False) -> list[Column]:
        """Take the name of a column of numbers, or of one that groups rows; return those of that name."""
        columns = [
            one
            for table in self._profile.tables
            for one in table.columns
            if (one.type == "number" if measures else one.type == "text" or one.is_identifier)
        ]
        bare = {one: one.words[:-1] for one in columns if one.words and one.words[-1] in _UNITS}
        return self._named(columns, lambda one: (one.words, bare.get(one, ())))

    def _tables(self) -> list[Table]:
        return self._named(self._profile.tables, lambda one: (one.words, name_words(one.name)))

    def _cells(self) -> list[tuple[Column, str]]:
        """Take a value that stands in a column, in quotes or not."""
        cells = self._profile.cells
        return self._longest(
            CELL_WORDS_MAX, lambda run: cells.get(" ".join(one.lower.strip() for one in run))
        )

    def _number(self) -> int:
        """Take a number of things; 1 without one."""
        word = self._lower()
        number = _NUMBERS.get(word) or (int(word) if re.fullmatch(r"\d{1,2}", word) else 0)
        if not 1 <= number <= TOP_MAX:
            return 1
        self._move(1)
        return number

    def _aggregate(self, words: str = "total|average|mean|median") -> Aggregate | None:
        said = self._take(words)
        return next(
            (name for name, phrases in _AGGREGATES.items() if said and said in phrases.split("|")), None
        )

    def _period(self) -> Period | None:
        """Take a period: `May 2025`, `Q2`, `first half of 2024`, `2025`."""
        start, word = self._at, self._lower()
        found: Period | None = None
        if match := re.fullmatch(r"((?:19|20)\d\d)(?:-(0[1-9]|1[0-2]))?", word):
            month = int(match[2] or 1)
            name = f"{_MONTHS[month - 1].capitalize()} {match[1]}" if match[2] else word
            found = Period(name=name, month=month, months=1 if match[2] else 12, year=int(match[1]))
            self._move(1)
        elif word in _MONTHS:
            found = Period(name=word.capitalize(), month=_MONTHS.index(word) + 1, months=1)
            self._move(1)
        elif re.fullmatch(r"q[1-4]|h[12]", word):
            found = _part_of_year(word[0], int(word[1]))
            self._move(1)
        elif said := self._take(
            "|".join(f"{one} {size}" for size, most in _PARTS for one in _ORDINALS[:most])
        ):
            ordinal, size = said.split()
            found = _part_of_year(size[0], _ORDINALS.index(ordinal) + 1)
        if found is None:
            return None
        here = self._at
        if not found.year:
            self._take("of|in")
            if re.fullmatch(r"(?:19|20)\d\d", self._lower()):
                found = replace(found, name=f"{found.name} {self._lower()}", year=int(self._lower()))
                self._move(1)
            else:
                self._at = here
        said = " ".join(one.lower for one in self._words[start : self._at])
        if cells := self._profile.cells.get(said):
            raise OfflineCannot(f'"{said}" is a period and a value of {names_of(one for one, _ in cells)}')
        return found

    # Rules

    def count(self) -> _Draft:
        self._need(
            "how many|count of|count|number of|what is number of|what was number of|what is total number of"
        )
        is_distinct = bool(self._take("different|distinct|unique"))
        if not is_distinct and self._take("rows|records|entries|lines"):
            self._take("are in|are there in|does|has|of|in|are there")
            tables = self._tables() or (
                list(self._profile.tables) if len(self._profile.tables) == 1 else self._fail()
            )
            self._take("have|has")
            return _Draft(aggregate="count", tables=tables, is_literal=True)
        if not is_distinct and (tables := self._tables()):
            self._take(_THERE)
            return _Draft(aggregate="count", tables=tables)
        here = self._at
        measures = [] if is_distinct else self._columns(measures=True)
        if any(set(one.words) & QUANTITY and one.is_additive for one in measures):
            self._take(f"{_SOLD}|{_THERE}")
            return _Draft(aggregate="sum", measures=measures)
        self._at = here
        columns = self._columns() or self._fail()
        self._take(_THERE)
        return _Draft(aggregate="distinct", measures=columns)

    def figure(self) -> _Draft:
        self._take("what is|what was|what are|what were|calculate|compute|how high is|how high was")
        if self._take("how much"):
            measures = self._columns(measures=True) or self._fail()
            self._take(f"{_THERE}|did we make|was made")
            return _Draft(measures=measures)
        aggregate = self._aggregate("|".join(_AGGREGATES.values())) or self._fail()
        self._take("of")
        return _Draft(aggregate=aggregate, measures=self._columns(measures=True) or self._fail())

    def breakdown(self) -> _Draft:
        """`Revenue by region`: rows are counted, or figures added up, for each group."""
        self._take("what is|what was")
        tables = self._tables()
        measures = [] if tables else self._columns(measures=True)
        if self._lower() not in ("by", "per") or not (tables or measures):
            self._fail()
        return _Draft(aggregate="count" if tables else None, tables=tables, measures=measures)

    def rank(self) -> _Draft:
        self._need("which|what")
        draft = _Draft(kind="rank", limit=self._number(), groups=self._columns() or self._fail())
        if self._take("sold|has sold|have sold"):
            said = self._need("most|best|least|worst|fewest")
            draft.is_down, draft.aggregate = said in ("most", "best"), "sum"
            draft.measures = self._columns(measures=True) if said not in ("best", "worst") else []
            draft.is_sold = not draft.measures
            return draft
        self._need("has|have|had|with")
        said = self._need(f"{_DOWN}|{_UP}")
        draft.is_down = said in _DOWN.split("|")
        return self._measured(draft, counts=said in ("most", "fewest", "least"))

    def top(self) -> _Draft:
        is_down = self._need("top|bottom") == "top"
        draft = _Draft(kind="rank", is_down=is_down, limit=self._number())
        draft.groups = self._columns() or self._fail()
        self._need("by")
        return self._measured(draft, counts=bool(self._take("number of")))

    def _measured(self, draft: _Draft, *, counts: bool) -> _Draft:
        """Take what is ranked by: rows of a table if it `counts`, or a figure."""
        if counts and (tables := self._tables()):
            draft.aggregate, draft.tables = "count", tables
            return draft
        draft.aggregate = self._aggregate()
        draft.measures = self._columns(measures=True) or self._fail()
        return draft

    def change(self) -> _Draft:
        draft = _Draft(kind="change")
        if self._take("what changed|what has changed"):
            draft.base = self._before or self._fail()
        elif self._take("how did|how has|how have"):
            self._changed(draft)
            self._need("change|changed|develop|developed")
        else:
            self._need("compare|what is change in|what was change in|what is change of|change in|change of")
            self._changed(draft)
        self._need("from|between|of|in|for")
        first = self._period() or self._fail()
        self._need("to|and|with|versus")
        second = self._period() or self._fail()
        if not first.year and second.year:
            first = replace(first, name=f"{first.name} {second.year}", year=second.year)
        draft.periods = (first, second)
        return draft

    def _changed(self, draft: _Draft) -> None:
        if not self._take("number of"):
            draft.aggregate = self._aggregate("|".join(_AGGREGATES.values()))
        if draft.aggregate is None and (tables := self._tables()):
            draft.aggregate, draft.tables = "count", tables
            return
        draft.measures = self._columns(measures=True) or self._fail()

    def _modifier(self, draft: _Draft) -> None:
        """Take a group or a filter."""
        if self._take("by|per|for each|in each|of each"):
            draft.groups = self._fail() if draft.groups else self._columns() or self._fail()
            return
        here = self._at
        said = self._need(f"{_IN}|where|with|whose")
        if draft.cells or (draft.periods and draft.kind != "change"):
            self._at = here
            self._fail()
        if said in _IN.split("|") and draft.kind != "change" and (period := self._period()):
            draft.periods = (period,)
            return
        place = self._at
        named = self._columns()
        if named:
            self._take("is|was|=|equals")
        cells = self._cells()
        if not cells and named:  # `in the region` of `in the region North` may be a value itself
            self._at, named = place, []
            cells = self._cells()
        if cells and not named:
            place = self._at
            named = [one for one in self._columns() if any(one == column for column, _ in cells)]
            self._at = self._at if named else place
        draft.cells = [one for one in cells if not named or one[0] in named] or self._fail()


def _part_of_year(size: str, number: int) -> Period:
    months = 3 if size == "q" else 6
    return Period(name=f"{size.upper()}{number}", month=(number - 1) * months + 1, months=months)


class _Resolver:
    """The tables and columns that the words of a draft mean, all of them checked."""

    def __init__(self, profile: Profile, draft: _Draft) -> None:
        self._profile, self._draft = profile, draft
        self._other: Table | None = None

    def plan(self) -> Plan:
        """Errors: `OfflineCannot` if they are ambiguous, or the figure would mean nothing."""
        draft = self._draft
        if draft.base is not None:
            if draft.base.periods or draft.base.cell or draft.cells or draft.groups:
                raise OfflineCannot("a change is asked for together with another filter")
            return self._dated(replace(draft.base, kind="change", periods=draft.periods, limit=1))
        second: Column | None = None
        if draft.is_sold:
            measure, second = self._sold()
        else:
            measure = self._one(draft.measures) if draft.measures else None
        counted = {one.name: one for one in draft.tables}
        if measure is None and len(counted) != 1:
            raise OfflineCannot("it is open which table is meant", got=", ".join(counted))
        for one in counted.values():
            money = [column for column in one.columns if column.is_additive and set(column.words) & MONEY]
            if set(one.words) & MONEY and money and not draft.is_literal:
                either = f"rows of {code(one.name)} or {names_of(money)}"
                raise OfflineCannot(f"it is open whether {either} are meant")
        table = self._profile.table(measure.table) if measure is not None else next(iter(counted.values()))
        group = self._reached(draft.groups, table) if draft.groups else None
        cell: tuple[Column, str] | None = None
        if draft.cells:
            column = self._reached([one for one, _ in draft.cells], table)
            cell = next((column, value) for one, value in draft.cells if one == column)
        plan = Plan(
            kind=draft.kind,
            aggregate=self._aggregate(measure, group),
            table=table,
            measure=measure,
            second=second,
            group=group,
            cell=cell,
            periods=draft.periods,
            join=self._key(table, self._other) if self._other is not None else None,
            limit=draft.limit,
            is_down=draft.is_down,
            is_literal=draft.is_literal,
            is_sold=draft.is_sold,
        )
        return self._dated(plan) if plan.periods else plan

    def _sold(self) -> tuple[Column, Column | None]:
        columns = [one for table in self._profile.tables for one in table.columns if one.is_additive]
        money = [one for one in columns if set(one.words) & MONEY]
        units = [one for one in columns if set(one.words) & QUANTITY]
        if len(money) > 1 or (not money and len(units) != 1):
            which = f": {names_of(money or units)}" if money or units else ""
            raise OfflineCannot(f'it is open by which column "sold" is measured{which}')
        second = units[0] if money and len(units) == 1 and units[0].table == money[0].table else None
        return (money or units)[0], second

    def _one(self, columns: Sequence[Column]) -> Column:
        if len(columns) == 1:
            return columns[0]
        groups = {one.table for one in self._draft.groups}
        near = [one for one in columns if one.table in groups] if self._draft.aggregate != "distinct" else []
        if len(near) == 1 and len(groups) == 1:
            return near[0]
        raise OfflineCannot(f"it is open which column is meant: {names_of(columns)}")

    def _aggregate(self, measure: Column | None, group: Column | None) -> Aggregate:
        aggregate = self._draft.aggregate
        if measure is None or aggregate in ("count", "distinct"):
            return aggregate or "count"
        name = code(measure.name)
        if not measure.is_measure:
            raise OfflineCannot(f"{name} names or numbers things, so it is no figure to compute with")
        is_own = group is not None and group.table == measure.table and self._profile.is_unique(group)
        if self._draft.kind == "rank" and is_own:
            return aggregate or "max"
        if aggregate is None and not measure.is_additive:
            raise OfflineCannot(f"it is open whether the total or the average of {name} is meant")
        if aggregate in (None, "sum") and measure.is_intensive:
            raise OfflineCannot(f"values of {name} cannot be added up")
        return aggregate or "sum"

    def _reached(self, columns: Sequence[Column], table: Table) -> Column:
        """Return the one column among these in the table, or else in one that can be joined."""
        here = [one for one in columns if one.table == table.name]
        found = here or [one for one in columns if self._key(table, self._profile.table(one.table))]
        if len(found) != 1:
            raise OfflineCannot(f"it is open which column is meant: {names_of(columns)}")
        if not here:
            other = self._profile.table(found[0].table)
            if self._other not in (None, other):
                raise OfflineCannot("more than two tables would be needed")
            self._other = other
        return found[0]

    def _key(self, table: Table, other: Table) -> tuple[Column, Column] | None:
        """Return the only equally named columns of two tables, if they are a key of the other one."""
        if table == other:
            return None
        pairs = [
            (one, two)
            for one in table.columns
            for two in other.columns
            if one.words == two.words and one.type == two.type
        ]
        return pairs[0] if len(pairs) == 1 and self._profile.is_unique(pairs[0][1]) else None

    def _dated(self, plan: Plan) -> Plan:
        """Return the plan with the years and the column of its periods. Errors: `OfflineCannot`."""
        dates = plan.table.of_type("date")
        name = code(plan.table.name)
        if len(dates) != 1:
            why = f"has several columns of dates, {names_of(dates)}" if dates else "has no column of dates"
            raise OfflineCannot(f"{name} {why}, so it is open what is in {plan.periods[0].name}")
        fact = self._profile.facts[dates[0]]
        if fact.low is None or fact.high is None:
            raise OfflineCannot(f"{code(dates[0].name)} holds no date")
        span = f"{name} goes from {fact.low} to {fact.high}"
        periods: list[Period] = []
        for period in plan.periods:
            if not period.year:
                if fact.low.year != fact.high.year:
                    raise OfflineCannot(f"{span}, and {period.name} has no year")
                period = replace(period, year=fact.low.year)
            if period.start > fact.high or period.end - timedelta(days=1) < fact.low:
                raise OfflineCannot(f"{span} and has nothing of {period.label}")
            periods.append(period)
        if len(set(periods)) < len(periods):
            raise OfflineCannot("the two periods are the same")
        return replace(plan, dates=dates[0], periods=tuple(periods))
