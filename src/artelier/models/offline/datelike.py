"""Dates kept as text: columns whose every value is a month `2024-03`, a quarter `2024-Q1` or a written day.

Files often hold them; the tools rightly leave them as text. One query finds out which columns are of one
form throughout; these count as dates from then on.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from artelier.models.offline import sql
from artelier.models.offline.rows import Rows
from artelier.models.offline.schema import Column, Table
from artelier.models.offline.words import name_words

COLUMNS_MAX = 40
_NAMES = frozenset(
    "date day month quarter period time on at when since start end born dob birthday qtr yearmonth".split()
)
FORMS = {
    "month": r"\d{4}-(0[1-9]|1[0-2])",
    "quarter": r"\d{4}[- ]?[Qq][1-4]",
    "dots": r"\d{1,2}\.\d{1,2}\.\d{4}",
    "slashes": r"\d{4}/\d{1,2}/\d{1,2}",
}
_AS_DATE = {
    "month": "CAST({0} || '-01' AS DATE)",
    "quarter": "make_date(CAST(left({0}, 4) AS INTEGER), 3 * CAST(right({0}, 1) AS INTEGER) - 2, 1)",
    "dots": "CAST(strptime({0}, '%d.%m.%Y') AS DATE)",
    "slashes": "CAST(strptime({0}, '%Y/%m/%d') AS DATE)",
}
COARSE = {"month": ("day", "week"), "quarter": ("day", "week", "month")}
"""What is finer than the values and cannot be asked of them."""


def as_date(column: Column, name: str) -> str:
    """A date column as an expression of type DATE or TIMESTAMP; `name` is how the query writes it."""
    return _AS_DATE[column.dated].format(f"trim({name})") if column.dated else name


def candidates(tables: Iterable[Table]) -> list[Column]:
    """Text columns whose name speaks of time."""
    return [
        column
        for table in tables
        for column in table.columns
        if column.type == "text" and _speaks_of_time(column)
    ][:COLUMNS_MAX]


def _speaks_of_time(column: Column) -> bool:
    """`Start date`, `hired`, `returned`: a word for time, or what happened then."""
    words = name_words(column.name)
    return bool(set(words) & _NAMES) or any(word.endswith("ed") for word in words)


def probe(columns: Sequence[Column]) -> str:
    """Build the SQL that counts, for each column, its values and how many of them have each form."""
    parts: list[str] = []
    for place, column in enumerate(columns):
        name = sql.identifier(column.name)
        forms = ", ".join(
            f"count(*) FILTER (WHERE regexp_full_match(trim({name}), {sql.literal(form)}))"
            f" AS {sql.identifier(kind)}"
            for kind, form in FORMS.items()
        )
        parts.append(
            f'SELECT {place} AS "place", count({name}) AS "filled", {forms}'
            f" FROM {sql.identifier(column.table)}"
        )
    return "\nUNION ALL ".join(parts) + '\nORDER BY "place"'


def with_dates(tables: Sequence[Table], columns: Sequence[Column], found: Rows) -> tuple[Table, ...]:
    """The tables with those columns as dates whose values all have one form."""
    dated: dict[Column, Column] = {}
    for place, filled, *counts in found.rows:
        for kind, count in zip(FORMS, counts, strict=False):
            if isinstance(place, int) and filled and count == filled and place < len(columns):
                dated[columns[place]] = replace(columns[place], dated=kind)
    if not dated:
        return tuple(tables)
    return tuple(
        replace(table, columns=tuple(dated.get(column, column) for column in table.columns))
        for table in tables
    )
