"""Periods against data: which year `March` is, and what a period is in SQL."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import date, timedelta
from typing import Literal

from artelier.errors import OfflineCannot
from artelier.models.offline import lexicon, sql
from artelier.models.offline.conversation import Desk
from artelier.models.offline.datelike import COARSE, as_date
from artelier.models.offline.periods import Period
from artelier.models.offline.reading import Axis, During, OneOf
from artelier.models.offline.rows import Rows
from artelier.models.offline.schema import Column

RIM_SHARE = 0.05
"""The part of a period that may be without rows at either rim and still count as covered."""

Cover = Literal["none", "part", "whole"]
Ref = Callable[[Column], str]
"""How a query writes a column: with its table if there are two."""


def full_ref(column: Column) -> str:
    return f"{sql.identifier(column.table)}.{sql.identifier(column.name)}"


def short_ref(column: Column) -> str:
    return sql.identifier(column.name)


def resolved(during: During, desk: Desk) -> During:
    """The same condition with a year in every period.

    Errors: `OfflineCannot` if the data holds the period in several years; `Wanted` for the data.
    """
    if during.axis is None or not years_asked(during):
        return during
    return replace(during, periods=tuple(_with_year(one, during.axis, desk) for one in during.periods))


def years_asked(during: During) -> list[str]:
    """The queries for the years of its periods; none where the table has no years or all are named."""
    axis = during.axis
    if axis is None or (axis.date is None and axis.year is None):
        return []
    return [years_sql(period, axis) for period in during.periods if period.year is None]


def _with_year(period: Period, axis: Axis, desk: Desk) -> Period:
    if period.year is not None:
        return period
    (rows,) = desk.query(years_sql(period, axis))
    years = [(int(year), int(hits)) for year, hits in rows.rows if year is not None]
    held = [year for year, hits in years if hits] or [year for year, _ in years]
    if len(held) == 1:
        return period.in_year(held[0])
    if not held:
        raise OfflineCannot(f"the data has no dates, so {period.label} cannot be found")
    listed = ", ".join(str(year) for year in held[:12])
    raise OfflineCannot(
        f"{period.label} is ambiguous: the data covers it in {listed}"
        if any(hits for _, hits in years)
        else f"the data holds no {period.label}; its years are {listed}",
        hint=f"Name the year, for example `{period.label} {held[-1]}`.",
    )


def years_sql(period: Period, axis: Axis) -> str:
    """The years of the data, each with the number of rows that fall in the period."""
    if axis.date is not None:
        column = as_date(axis.date, sql.identifier(axis.date.name))
        table = sql.identifier(axis.date.table)
        year = f"year({column})"
        inside = _in_any_year(period, column)
    else:
        assert axis.year is not None
        table, year = sql.identifier(axis.year.table), sql.identifier(axis.year.name)
        inside = _parts(period, axis, short_ref)
    return (
        f'SELECT {year} AS "year", count(*) FILTER (WHERE {inside}) AS "hits"\n'
        f"FROM {table} WHERE {year} IS NOT NULL GROUP BY 1 ORDER BY 1"
    )


def _in_any_year(period: Period, column: str) -> str:
    if period.grain == "quarter":
        return f"quarter({column}) = {period.number}"
    if period.grain == "half":
        return f"month({column}) BETWEEN {period.number * 6 - 5} AND {period.number * 6}"
    month = f"month({column}) = {period.number}"
    return month if period.grain == "month" else f"{month} AND day({column}) = {period.day}"


def during_sql(during: During, ref: Ref) -> str:
    """A condition on time. Errors: `OfflineCannot` if columns of parts cannot say it."""
    axis = during.axis
    assert axis is not None
    if axis.date is None:
        return _parts_condition(during, axis, ref)
    column = as_date(axis.date, ref(axis.date))
    too_fine = COARSE.get(axis.date.dated, ())
    if any(period.grain in too_fine for period in during.periods):
        raise OfflineCannot(
            f"`{axis.date.name}` holds a {axis.date.dated} per row, so"
            f" {during.periods[0].label} cannot be found"
        )
    if during.op == "in":
        ranges = [_range(column, period) for period in during.periods]
        return ranges[0] if len(ranges) == 1 else " OR ".join(f"({one})" for one in ranges)
    first = _bounds(during.periods[0])
    if during.op == "since":
        return f"{column} >= DATE '{first[0]}'"
    if during.op == "before":
        return f"{column} < DATE '{first[0]}'"
    if during.op == "after":
        return f"{column} >= DATE '{first[1]}'"
    if during.op == "until":
        return f"{column} < DATE '{first[1]}'"
    last = _bounds(during.periods[-1])
    if last[1] <= first[0]:
        raise OfflineCannot(
            f"{during.periods[-1].label} ends before {during.periods[0].label} starts",
            hint="Name the earlier period first.",
        )
    return f"{column} >= DATE '{first[0]}' AND {column} < DATE '{last[1]}'"


def _range(column: str, period: Period) -> str:
    start, end = _bounds(period)
    return f"{column} >= DATE '{start}' AND {column} < DATE '{end}'"


def _bounds(period: Period) -> tuple[str, str]:
    assert period.year is not None
    start, end = period.bounds(period.year)
    return start.isoformat(), end.isoformat()


def _parts_condition(during: During, axis: Axis, ref: Ref) -> str:
    if during.op == "in":
        return " OR ".join(f"({_parts(period, axis, ref)})" for period in during.periods)
    first, last = during.periods[0], during.periods[-1]
    if axis.year is not None and first.grain == "year" and last.grain == "year":
        year = ref(axis.year)
        bounds = {
            "since": f"{year} >= {first.year}",
            "after": f"{year} > {first.year}",
            "before": f"{year} < {first.year}",
            "until": f"{year} <= {first.year}",
            "between": f"{year} BETWEEN {first.year} AND {last.year}",
        }
        return bounds[during.op]
    part = axis.month if first.grain == "month" else axis.quarter
    same_year = first.year == last.year
    if part is not None and part.type == "number" and during.op == "between" and same_year:
        condition = f"{ref(part)} BETWEEN {first.number} AND {last.number}"
        if first.year is None:
            return condition
        if axis.year is not None:
            return f"{ref(axis.year)} = {first.year} AND {condition}"
    raise OfflineCannot(
        f"the columns for parts of a date cannot say `{during.op} {first.label}`",
        hint="Ask for single years, quarters or months.",
    )


def _parts(period: Period, axis: Axis, ref: Ref) -> str:
    conditions: list[str] = []
    if period.year is not None:
        if axis.year is None:
            raise OfflineCannot(f"the data has no year, so {period.label} cannot be found")
        conditions.append(f"{ref(axis.year)} = {period.year}")
    if period.grain == "quarter" and axis.quarter is not None:
        conditions.append(_part(ref(axis.quarter), axis.quarter, period))
    elif period.grain == "month" and axis.month is not None:
        conditions.append(_part(ref(axis.month), axis.month, period))
    elif period.grain in ("quarter", "half") and axis.month and axis.month.type == "number":
        span = 3 if period.grain == "quarter" else 6
        last = period.number * span
        conditions.append(f"{ref(axis.month)} BETWEEN {last - span + 1} AND {last}")
    elif period.grain != "year":
        raise OfflineCannot(f"the data has no column that could say {period.label}")
    return " AND ".join(conditions)


def _part(column: str, part: Column, period: Period) -> str:
    if part.type == "number":
        return f"{column} = {period.number}"
    if period.grain == "quarter":
        forms = [f"q{period.number}", str(period.number), f"{period.number}q"]
    else:
        named = [name for name, number in lexicon.MONTHS.items() if number == period.number]
        forms = [*named, str(period.number), f"{period.number:02d}"]
    listed = ", ".join(sql.literal(form) for form in forms)
    return f"lower(trim({column})) IN ({listed})"


def coverage_sql(side: During | OneOf) -> str | None:
    """The first and the last date of the table that holds the time of a side."""
    if not isinstance(side, During) or side.axis is None or side.axis.date is None:
        return None
    kept = side.axis.date
    column = as_date(kept, sql.identifier(kept.name))
    return (
        f'SELECT CAST(min({column}) AS DATE) AS "first", CAST(max({column}) AS DATE) AS "last"'
        f" FROM {sql.identifier(kept.table)}"
    )


def coverage_of(side: During, found: Rows) -> Cover:
    """Return how far the dates of a table reach into a period; a small gap at its rim is no gap."""
    row = found.rows[0] if len(found.rows) == 1 else []
    try:
        first, last = (date.fromisoformat(str(value)[:10]) for value in row)
    except ValueError:
        return "whole"
    period = side.periods[0]
    assert period.year is not None
    start, end = period.bounds(period.year)
    if last < start or first >= end:
        return "none"
    slack = (end - start) * RIM_SHARE
    inside = first <= start + slack and last >= end - timedelta(days=1) - slack
    return "whole" if inside else "part"


def side_sql(side: During | OneOf, ref: Ref) -> str:
    """One side of a change."""
    if isinstance(side, During):
        return during_sql(side, ref)
    values = ", ".join(sql.literal(value) for value in side.values)
    return f"{ref(side.column)} IN ({values})"


def side_label(side: During | OneOf) -> str:
    return side.periods[0].label if isinstance(side, During) else " or ".join(side.values)
