"""A plan as one query, and its answer in words: every figure comes from a result, and every row left out is
named.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from artelier.errors import OfflineCannot
from artelier_offline.conversation import Desk
from artelier_offline.grammar import Period, Plan
from artelier_offline.tables import Column, Profile, literal, quoted, rows_of
from artelier_offline.words import code, escaped, exact, listed, number_from, rounded

GROUPS_MAX = 200
GAP_DAYS = 7
"""Days at an end of a period that may be without rows before an answer says that the data may cover a part
only.
"""
_NAMES = {"sum": "total", "mean": "average", "median": "median", "min": "lowest", "max": "highest"}
_FUNCTIONS = {"mean": "avg", "distinct": "count"}
"""Of SQL, where an aggregate is not called as it is here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """A table of an answer."""

    headings: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """The answer to one question."""

    title: str
    sentences: tuple[str, ...]
    grids: tuple[Grid, ...] = ()
    quotes: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    queries: tuple[str, ...] = ()
    figures: tuple[tuple[str, Any], ...] = ()
    """Single figures by their name, for structured output."""
    names: tuple[str, ...] = ()
    """What a ranking names, the first one first."""


def check(plan: Plan, profile: Profile) -> list[str]:
    """Return notes on the data of a plan. Errors: `OfflineCannot` if the data forbids an answer."""
    notes = profile.check_rows(plan.table, plan.columns, literal=plan.is_literal)
    if plan.join is not None:
        joined = profile.table(plan.join[1].table)
        profile.check_rows(joined, [one for one in plan.columns if one.table == joined.name], literal=True)
    if plan.group is not None and profile.facts[plan.group].distinct > GROUPS_MAX:
        raise OfflineCannot(f"{code(plan.group.name)} has more than {GROUPS_MAX} values")
    return notes


def answer(plan: Plan, profile: Profile, desk: Desk) -> Part:
    """Return the answer to a plan.

    Errors: `Wanted` until the query was answered; `OfflineCannot` if the data forbids an answer, or no row
    is meant.
    """
    notes = check(plan, profile)
    statement, width = sql(plan)
    rows = rows_of(desk.ask("query_sql", sql=statement, max_rows=GROUPS_MAX + 5), width=width)
    make = _breakdown if plan.kind == "figure" and plan.group is not None else _FORMS[plan.kind]
    sources = [plan.table.source, *([profile.table(plan.join[1].table).source] if plan.join else [])]
    part = make(plan, rows)
    notes = [*part.notes, *notes, *_span_notes(plan, profile), *_file_notes(plan), *profile.skipped]
    return replace(part, notes=tuple(notes), sources=tuple(dict.fromkeys(sources)), queries=(statement,))


# The query


def sql(plan: Plan) -> tuple[str, int]:
    """Return the query of a plan, and how many columns its rows have."""
    source = f"{quoted(plan.table.name)} AS t"
    if plan.join is not None:
        key, other = plan.join
        source += f" LEFT JOIN {quoted(other.table)} AS j ON t.{quoted(key.name)} = j.{quoted(other.name)}"
    where: list[str] = []
    if plan.cell is not None:
        column, value = plan.cell
        where.append(f"lower(trim({_ref(column, plan)}::VARCHAR)) = {literal(value.strip().lower())}")
    if plan.kind == "change":
        return _change_sql(plan, source, where)
    where += [_within(plan, one) for one in plan.periods]
    lines = [f"FROM {source}", *([f"WHERE {' AND '.join(where)}"] if where else [])]
    fields = [_value(plan), "count(*) AS row_count", f"count({_measure(plan)}) AS used"]
    if plan.group is not None:  # the sums over all groups are said, so they must be in the result
        sums = [f"sum(count({one})) OVER ()" for one in ("*", _measure(plan))]
        fields = [_grouped(plan), *fields[:2], f"{sums[0]} AS all_rows", f"{sums[1]} AS all_used"]
        lines.append(f"GROUP BY 1\nORDER BY 2 {'DESC' if plan.is_down else 'ASC'} NULLS LAST, 1")
    if plan.second is not None:
        fields.append(f"sum(t.{quoted(plan.second.name)}) AS {quoted('total ' + plan.second.name)}")
    return "\n".join([f"SELECT {', '.join(fields)}", *lines]), len(fields)


def _change_sql(plan: Plan, source: str, where: Sequence[str]) -> tuple[str, int]:
    """One row for each group, and one for all; changes are worked out by the query, so that it gives them."""
    fields: list[str] = []
    if plan.group is not None:
        fields += [f"grouping({_ref(plan.group, plan)}) AS is_all", _grouped(plan)]
    for at, period in enumerate(plan.periods, start=1):
        within = f"FILTER (WHERE {_within(plan, period)})"
        fields += [_value(plan, within, period.label), f"count(*) {within} AS rows_{at}"]
        fields.append(f"count({_measure(plan)}) {within} AS used_{at}")
    lines = [f"SELECT {', '.join(fields)}", f"FROM {source}"]
    lines += [f"WHERE {' AND '.join(where)}"] if where else []
    if plan.group is not None:
        lines.append(f"GROUP BY GROUPING SETS ((), ({_ref(plan.group, plan)}))\nORDER BY 1 DESC, 2")
    old, new = (quoted(one.label) for one in plan.periods)
    share = f"CASE WHEN {old} > 0 THEN 100.0 * ({new} - {old}) / {old} END"
    inner = "\n".join(lines)
    return f'SELECT *, {new} - {old} AS "change", {share} AS "change %"\nFROM (\n{inner}\n)', len(fields) + 2


def _grouped(plan: Plan) -> str:
    assert plan.group is not None
    return f"{_ref(plan.group, plan)} AS {quoted(plan.group.name)}"


def _ref(column: Column, plan: Plan) -> str:
    return f"{'t' if column.table == plan.table.name else 'j'}.{quoted(column.name)}"


def _measure(plan: Plan) -> str:
    return f"t.{quoted(plan.measure.name)}" if plan.measure is not None else "*"


def _value(plan: Plan, within: str = "", name: str = "") -> str:
    distinct = "DISTINCT " if plan.aggregate == "distinct" else ""
    made = f"{_FUNCTIONS.get(plan.aggregate, plan.aggregate)}({distinct}{_measure(plan)})"
    return f"{made}{' ' + within if within else ''} AS {quoted(name or _bare(plan))}"


def _within(plan: Plan, period: Period) -> str:
    assert plan.dates is not None
    day = f"t.{quoted(plan.dates.name)}"
    return f"{day} >= DATE '{period.start}' AND {day} < DATE '{period.end}'"


# Words


def _bare(plan: Plan, marked: Callable[[str], str] = str) -> str:
    """Return the computed measure: `total revenue`."""
    if plan.measure is None:
        return "rows"
    name = marked(plan.measure.name)
    if plan.aggregate == "distinct":
        return f"different values of {name}"
    # The highest of a ranking is the value of one row, and no total of several.
    return name if plan.kind == "rank" and plan.aggregate == "max" else f"{_NAMES[plan.aggregate]} {name}"


def _said(plan: Plan) -> str:
    """Return the computed measure for a sentence: `total `revenue``."""
    if plan.measure is None:
        return f"number of rows in {code(plan.table.name)}"
    return f"{'number of ' if plan.aggregate == 'distinct' else ''}{_bare(plan, code)}"


def _title(plan: Plan, first: Callable[[str], str] = str.upper) -> str:
    """Return the computed measure with its filter, for a heading."""
    text = _said(plan).replace("`", "")
    return f"{first(text[:1])}{text[1:]}{_filter(plan).replace('`', '')}"


def _filter(plan: Plan) -> str:
    parts = [f" in {one.label}" for one in plan.periods if plan.kind != "change"]
    if plan.cell is not None:
        parts.append(f" where {code(plan.cell[0].name)} is {code(plan.cell[1])}")
    return "".join(parts)


def _used(plan: Plan, rows: int, used: int) -> list[str]:
    if plan.measure is None or rows == used or plan.aggregate == "distinct":
        return []
    lack = "has" if rows - used == 1 else "have"
    return [f"{used} of {rows} rows were used: {rows - used} {lack} no {code(plan.measure.name)}."]


def _sold_notes(plan: Plan) -> list[str]:
    if not plan.is_sold or plan.measure is None:
        return []
    what = "amount of money" if plan.second is not None else "figure of what is sold"
    only = f"which is the only {what} in {code(plan.table.name)}"
    return [f'"sold" is measured by {code(plan.measure.name)}, {only}.']


def _span_notes(plan: Plan, profile: Profile) -> list[str]:
    """Notes on periods that the data covers only in part."""
    notes: list[str] = []
    if plan.dates is None:
        return notes
    fact = profile.facts[plan.dates]
    low, high, gap = fact.low, fact.high, timedelta(days=GAP_DAYS)
    for period in plan.periods:
        if low and high and (low > period.start + gap or high < period.end - gap):
            span = f"{code(plan.table.name)} goes from {low} to {high}"
            notes.append(f"{span}: of {period.label} that may be a part only.")
    rows = profile.rows[plan.table.name]
    if fact.filled < rows:
        notes.append(f"{fact.filled} of {rows} rows have a {code(plan.dates.name)}; the others are left out.")
    return notes


def _file_notes(plan: Plan) -> list[str]:
    """Notes on how the table, and the columns that were used, stand in the file."""
    used = [*plan.columns, *([plan.dates] if plan.dates is not None else [])]
    noted = {one.name: one.note for one in (plan.table, *used)}
    return [f"{code(name)}: {escaped(note)}." for name, note in noted.items() if note]


def _nothing(plan: Plan) -> OfflineCannot:
    return OfflineCannot(
        f"{code(plan.table.name)} has no row{_filter(plan) or ''} with a value to compute with"
    )


# The forms of an answer


def _figure(plan: Plan, rows: Sequence[Sequence[Any]]) -> Part:
    value, count, used = rows[0][:3]
    if value is None or (not count and (plan.periods or plan.cell)):
        raise _nothing(plan)
    said = f"The {_said(plan)}{_filter(plan)} is **{rounded(value)}**."
    if plan.aggregate == "count":
        said = f"{code(plan.table.name)} has **{value}** rows{_filter(plan)}."
    notes, figures = tuple(_used(plan, count, used)), ((_bare(plan), value),)
    return Part(title=_title(plan), sentences=(said,), notes=notes, figures=figures)


def _groups(plan: Plan, rows: Sequence[Sequence[Any]]) -> tuple[list[Sequence[Any]], list[str]]:
    """Return the rows that have a group and a value, and notes on the others."""
    assert plan.group is not None
    without = sum(row[2] for row in rows if row[0] is None)
    notes = [f"{without} rows without {code(plan.group.name)} are left out."] if without else []
    notes += _used(plan, int(rows[0][3]), int(rows[0][4])) if rows else []
    kept = [row for row in rows if row[0] is not None and row[1] is not None]
    if not kept:
        raise _nothing(plan)
    return kept, notes


def _grid(plan: Plan, rows: Sequence[Sequence[Any]]) -> Grid:
    assert plan.group is not None
    second = [f"total {plan.second.name}"] if plan.second is not None else []
    headings = (plan.group.name, _bare(plan), *second)
    return Grid(headings=headings, rows=tuple((row[0], row[1], *row[5:]) for row in rows))


def _breakdown(plan: Plan, rows: Sequence[Sequence[Any]]) -> Part:
    assert plan.group is not None
    kept, notes = _groups(plan, rows)
    values = [row[1] for row in kept]
    low, high = min(kept, key=lambda row: row[1]), max(kept, key=lambda row: row[1])
    said = f"The {_said(plan)}{_filter(plan)} by {code(plan.group.name)}"
    if all(sum(_is_same(one, value) for value in values) == 1 for one in (low[1], high[1])) and len(kept) > 1:
        said += f": **{exact(high[0])}** has the highest ({rounded(high[1])})"
        said += f", **{exact(low[0])}** the lowest ({rounded(low[1])})."
    else:
        said += f", for {len(kept)} of its values."
    title = f"{_title(plan)} by {plan.group.name}"
    return Part(title=title, sentences=(said,), grids=(_grid(plan, kept),), notes=tuple(notes))


def _is_same(one: Any, other: Any) -> bool:
    """Return True for equal figures; sums of decimals differ in their last digits."""
    figures = number_from(one), number_from(other)
    return one == other if None in figures else math.isclose(*figures, rel_tol=1e-12)  # pyright: ignore[reportArgumentType] - none is None


def _rank(plan: Plan, rows: Sequence[Sequence[Any]]) -> Part:
    """The first groups; those that are equal to the last one of them too."""
    assert plan.group is not None
    kept, notes = _groups(plan, rows)
    chosen = [
        row for at, row in enumerate(kept) if at < plan.limit or _is_same(row[1], kept[plan.limit - 1][1])
    ]
    named = listed([f"**{exact(row[0])}** ({rounded(row[1])})" for row in chosen])
    which, name = "highest" if plan.is_down else "lowest", code(plan.group.name)
    who = f"The {name}" if len(chosen) == 1 else f"The {len(chosen)} {name} values"
    is_ = "is" if len(chosen) == 1 else "are"
    if len(chosen) > plan.limit:
        notes.append(f"{len(chosen)} are named instead of {plan.limit}, since the last of them are equal.")
    elif len(chosen) < plan.limit:
        notes.append(f"There are no more than {len(chosen)} values.")
    if plan.second is not None:
        order = sorted(kept, key=lambda row: number_from(row[5]) or 0, reverse=plan.is_down)[: plan.limit]
        same = [row[0] for row in order] == [row[0] for row in chosen]
        shown = "the order is the same" if same else f"it is {listed([exact(row[0]) for row in order])}"
        notes.append(f"Ranked by the total {code(plan.second.name)} {shown}.")
    return Part(
        title=f"{which.capitalize()} {_title(plan, str.lower)} by {plan.group.name}",
        sentences=(f"{who} with the {which} {_said(plan)}{_filter(plan)} {is_} {named}.",),
        grids=(_grid(plan, chosen if plan.limit > 1 else kept),),
        notes=(*notes, *_sold_notes(plan)),
        names=tuple(str(row[0]) for row in chosen),
        figures=((_bare(plan), chosen[0][1]),) if len(chosen) == 1 else (),
    )


def _change(plan: Plan, rows: Sequence[Sequence[Any]]) -> Part:
    lead = 2 if plan.group is not None else 0
    whole = next(row for row in rows if not lead or row[0] == 1)
    first, second = plan.periods
    old, old_rows, old_used, new, new_rows, new_used, moved, percent = whole[lead:]
    for value, count, period in ((old, old_rows, first), (new, new_rows, second)):
        if value is None or not count:
            raise OfflineCannot(f"{code(plan.table.name)} has no figure of {period.label}")
    share = f" ({float(percent):+.1f} %)" if percent is not None else ""
    way = "rose" if moved > 0 else "fell"
    verb = f"**{way} by {rounded(abs(moved))}{share}**" if moved else "did not change"
    said = f"The {_said(plan)}{_filter(plan)} {verb} from {first.label} to {second.label}:"
    headings = (first.label, second.label, "change", "change %")
    grids = [Grid(headings=headings, rows=((old, new, moved, percent),))]
    notes = [
        f"{period.label} has {count} rows; {count - used} of them have no value and are left out."
        for period, count, used in ((first, old_rows, old_used), (second, new_rows, new_used))
        if count != used and plan.aggregate not in ("count", "distinct")
    ]
    by = ""
    if plan.group is not None:
        named = [row for row in rows if row[0] == 0 and row[1] is not None]
        shown = [(row[1], row[2], row[5], *row[8:10]) for row in named if (row[2], row[5]) != (None, None)]
        shown.sort(key=lambda row: -(row[3] or 0))
        grids.append(Grid(headings=(plan.group.name, *headings), rows=tuple(shown)))
        by = f" by {plan.group.name}"
    return Part(
        title=f"Change of {_title(plan, str.lower)} from {first.label} to {second.label}{by}",
        sentences=(f"{said} {rounded(old)} to {rounded(new)}.",),
        grids=tuple(grids),
        notes=(*notes, *_sold_notes(plan)),
        figures=(("change", moved), (first.label, old), (second.label, new)),
    )


_FORMS = {"figure": _figure, "rank": _rank, "change": _change}
