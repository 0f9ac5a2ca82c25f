"""The reading of a question: plain values, complete enough to be turned into SQL and words."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Final, Literal, TypeAlias

from artelier.models.offline.periods import Period
from artelier.models.offline.schema import Column, Table

Aggregate = Literal["count", "distinct", "sum", "avg", "median", "max", "min", "only"]
"""`only` is the one value that all matching rows share; the plan refuses if they differ."""
Comparison = Literal[">", ">=", "<", "<=", "=", "!=", "between"]
PeriodOp = Literal["in", "since", "before", "after", "until", "between"]
Kind = Literal["aggregate", "rank", "change", "missing", "list", "groups"]


AGGREGATE_OF: Final[dict[str, Aggregate]] = {
    "sum": "sum",
    "avg": "avg",
    "median": "median",
    "max": "max",
    "min": "min",
}
"""From the operators of `lexicon.py`."""


SPOKEN: Final[dict[Aggregate, str]] = {
    "sum": "total",
    "avg": "average",
    "median": "median",
    "max": "maximum",
    "min": "minimum",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Join:
    """Two columns that say the same thing in two tables."""

    left: Column
    right: Column


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """One table, or two with the columns that join them."""

    tables: tuple[Table, ...]
    join: Join | None = None
    problem: str = ""
    """Why two tables cannot be joined, if they cannot."""

    def table(self, name: str) -> Table:
        return next(table for table in self.tables if table.name == name)

    def columns(self) -> Iterator[Column]:
        for table in self.tables:
            yield from table.columns

    def is_joined_on(self, column: Column) -> bool:
        return self.join is not None and column in (self.join.left, self.join.right)


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """The time of a table: one date column, or columns for parts of a date."""

    date: Column | None = None
    year: Column | None = None
    quarter: Column | None = None
    month: Column | None = None

    @property
    def table(self) -> str:
        column = self.date or self.year or self.quarter or self.month
        return column.table if column else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """The measure to compute. `column` is None for a count of rows."""

    aggregate: Aggregate
    table: str
    column: Column | None = None
    why: str = ""
    """Said in the report if the column was chosen by a rule rather than named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """The grouping of rows: a column with columns that label it, or a grain of time."""

    columns: tuple[Column, ...] = ()
    grain: str = ""
    axis: Axis | None = None
    entity: str = ""
    """The table whose rows the groups are, if they are the rows of a table."""
    plural: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Compare:
    column: Column
    op: Comparison
    low: Decimal
    high: Decimal | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OneOf:
    column: Column
    values: tuple[str, ...]
    negated: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Missing:
    column: Column
    negated: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Truth:
    column: Column
    value: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Lacks:
    """Rows of `key`'s table that have no row in the table of `other`."""

    key: Column
    other: Column


@dataclass(frozen=True, slots=True, kw_only=True)
class During:
    """A condition on time; several `periods` with `in` mean any of them, two with `between` a range."""

    op: PeriodOp
    periods: tuple[Period, ...]
    hint: Column | None = None
    """The date column that the question named."""
    axis: Axis | None = None
    """Filled in once the table is known."""


Condition: TypeAlias = Compare | OneOf | Missing | Truth | Lacks | During


@dataclass(frozen=True, slots=True, kw_only=True)
class Having:
    """A condition on a group's own figure."""

    measure: Measure
    op: Comparison
    low: Decimal
    high: Decimal | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """The change from `before` to `after`; each is one period, or values of a text column of periods."""

    before: During | OneOf
    after: During | OneOf


@dataclass(frozen=True, slots=True, kw_only=True)
class Rank:
    descending: bool
    top: int | None = None
    """How many were asked for; None lists all, best first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One clause, understood."""

    kind: Kind
    scope: Scope
    measures: tuple[Measure, ...] = ()
    groups: tuple[Group, ...] = ()
    conditions: tuple[Condition, ...] = ()
    having: tuple[Having, ...] = ()
    rank: Rank | None = None
    change: Change | None = None
    listed: Group | None = None
    columns: tuple[Column, ...] = ()
    """Of a question for missing values: the columns asked about; empty means all."""
    rival: Measure | None = None
    """Another measure that the question may mean; shown beside the first one."""
    strict: bool = False
    """Whether the rival must give the same ranking, else the question is ambiguous."""
    reasons: tuple[str, ...] = ()
    """Rules that were applied to read the question, as sentences for the report."""
    inherited: tuple[Condition, ...] = ()
    """Conditions taken over from the clause before."""
    score: int = 0


class Unreadable(Exception):
    """A clause does not fit a scope: `reason` for the reader, `weight` grows with how much was understood."""

    def __init__(self, reason: str, *, weight: int = 0) -> None:
        super().__init__(reason)
        self.reason = reason
        self.weight = weight
