"""The source of rows: one table, or two whose join keeps every measured row exactly once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from artelier.errors import OfflineCannot
from artelier.models.offline import sql
from artelier.models.offline.conversation import Desk
from artelier.models.offline.datelike import COARSE, as_date
from artelier.models.offline.reading import (
    Compare,
    Condition,
    During,
    Group,
    Having,
    Lacks,
    Measure,
    Missing,
    OneOf,
    Reading,
    Truth,
)
from artelier.models.offline.schema import Column, Table
from artelier.models.offline.spans import Ref, during_sql, full_ref, short_ref


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """The FROM and WHERE of a query, and how measures are written over it."""

    text: str
    """After FROM."""
    where: tuple[str, ...]
    tables: tuple[Table, ...]
    distinct_keys: dict[str, Column]
    """By table whose rows the join repeats: the key that counts them once."""
    ref: Ref = full_ref

    def where_sql(self, *more: str) -> str:
        conditions = [*self.where, *more]
        return "\nWHERE " + "\n  AND ".join(conditions) if conditions else ""


def source_of(reading: Reading, desk: Desk, *, keep_empty: bool = False) -> Source:
    """The source of a reading whose periods have years; `keep_empty` keeps groups without rows.

    Errors: `OfflineCannot` if the tables join many to many, or a measure would be counted twice.
    """
    scope = reading.scope
    ref = short_ref if scope.join is None else full_ref
    conditions = [condition_sql(one, ref) for one in reading.conditions]
    if scope.join is None:
        table = scope.tables[0]
        return Source(
            text=sql.identifier(table.name),
            where=tuple(conditions),
            tables=scope.tables,
            distinct_keys={},
            ref=ref,
        )
    lacks = [one for one in reading.conditions if isinstance(one, Lacks)]
    if lacks:
        return _lacking(reading, lacks[0], conditions)
    one, many = _roles(scope.join.left, scope.join.right, desk)
    if many is None:
        return _joined(reading, scope.join.left, scope.join.right, conditions, repeats=False)
    if keep_empty:
        return _keeping_empty(reading, one, many)
    on_one = [measure for measure in reading.measures if measure.table == one.table]
    on_many = [measure for measure in reading.measures if measure.table == many.table]
    added = [one for one in on_one if one.aggregate in ("sum", "avg", "median") and one.column]
    if added and added[0].column is not None:
        name = added[0].column.name
        raise OfflineCannot(
            f"`{one.table}.{name}` belongs to the rows of `{one.table}`, of which one may fit several"
            f" rows of `{many.table}`: it is not clear whether `{name}` counts once or every time",
            hint=f"Ask for `{name}` by columns of `{one.table}` alone.",
        )
    if on_one and not on_many and not _needs_rows_of(reading, many.table):
        return _semi_joined(reading, one, many)
    bad = [measure for measure in on_one if measure.aggregate not in ("count", "distinct")]
    if bad:
        column = bad[0].column.name if bad[0].column else ""
        raise OfflineCannot(
            f"`{one.table}.{column}` would be counted once for every row of `{many.table}`",
            hint=f"Ask for `{column}` by a column of `{one.table}`.",
        )
    return _joined(reading, many, one, conditions, repeats=True)


def _roles(left: Column, right: Column, desk: Desk) -> tuple[Column, Column | None]:
    """The side whose values are unique and the other one; None if both are unique.

    Errors: `OfflineCannot` if neither is.
    """
    answers = desk.query(*(_unique_sql(column) for column in (left, right)))
    unique = [bool(rows.rows) and rows.rows[0][0] == rows.rows[0][1] for rows in answers]
    if all(unique):
        return left, None
    if not any(unique):
        raise OfflineCannot(
            f"`{left.table}` and `{right.table}` share `{left.name}`, but its values repeat in both,"
            " so a join would count rows twice",
            hint="Ask about one of the tables alone.",
        )
    return (left, right) if unique[0] else (right, left)


def _unique_sql(column: Column) -> str:
    name = sql.identifier(column.name)
    return (
        f'SELECT count({name}) AS "filled", count(DISTINCT {name}) AS "different"'
        f" FROM {sql.identifier(column.table)}"
    )


def _joined(
    reading: Reading, base: Column, other: Column, conditions: Sequence[str], *, repeats: bool
) -> Source:
    """Every row of the base table, with its partner where there is one."""
    kind = "LEFT JOIN"
    if reading.kind in ("list", "groups") or any(one.table == other.table for one in reading.measures):
        kind = "JOIN"
    text = (
        f"{sql.identifier(base.table)}\n{kind} {sql.identifier(other.table)}"
        f" ON {full_ref(base)} = {full_ref(other)}"
    )
    keys = {other.table: other} if repeats else {}
    return Source(text=text, where=tuple(conditions), tables=reading.scope.tables, distinct_keys=keys)


def _semi_joined(reading: Reading, one: Column, many: Column) -> Source:
    """Rows of the one side that have a matching row on the many side."""
    inner = [
        condition_sql(condition, full_ref)
        for condition in reading.conditions
        if condition_table(condition) == many.table
    ]
    outer = [
        condition_sql(condition, full_ref)
        for condition in reading.conditions
        if condition_table(condition) != many.table
    ]
    where = " AND ".join([f"{full_ref(many)} IS NOT NULL", *inner])
    inside = f"SELECT {full_ref(many)} FROM {sql.identifier(many.table)} WHERE {where}"
    exists = f"{full_ref(one)} IN (\n    {inside})"
    return Source(
        text=sql.identifier(one.table), where=(*outer, exists), tables=reading.scope.tables, distinct_keys={}
    )


def _keeping_empty(reading: Reading, one: Column, many: Column) -> Source:
    """Every row of the one side, also those without a partner."""
    inner = [
        condition_sql(condition, full_ref)
        for condition in reading.conditions
        if condition_table(condition) == many.table
    ]
    outer = [
        condition_sql(condition, full_ref)
        for condition in reading.conditions
        if condition_table(condition) != many.table
    ]
    name = sql.identifier(many.table)
    right = f"(SELECT * FROM {name} WHERE {' AND '.join(inner)}) AS {name}" if inner else name
    text = f"{sql.identifier(one.table)}\nLEFT JOIN {right} ON {full_ref(one)} = {full_ref(many)}"
    return Source(text=text, where=tuple(outer), tables=reading.scope.tables, distinct_keys={"": many})


def _lacking(reading: Reading, lacks: Lacks, conditions: Sequence[str]) -> Source:
    return Source(
        text=sql.identifier(lacks.key.table),
        where=tuple(conditions),
        tables=reading.scope.tables,
        distinct_keys={},
    )


def _needs_rows_of(reading: Reading, table: str) -> bool:
    """Return True if groups or changes are read from this table's rows."""
    for group in reading.groups:
        if any(column.table == table for column in group.columns):
            return True
        if group.axis is not None and group.axis.table == table:
            return True
    if reading.change is not None:
        return condition_table(reading.change.before) == table
    return bool(reading.having)


def condition_table(condition: Condition) -> str:
    if isinstance(condition, During):
        return condition.axis.table if condition.axis else ""
    if isinstance(condition, Lacks):
        return condition.key.table
    return condition.column.table


def condition_sql(condition: Condition, ref: Ref) -> str:
    """A condition as a SQL expression in brackets where it needs them."""
    if isinstance(condition, During):
        text = during_sql(condition, ref)
        return f"({text})" if " OR " in text else text
    if isinstance(condition, Compare):
        return compare_sql(ref(condition.column), condition)
    if isinstance(condition, OneOf):
        values = ", ".join(sql.literal(value) for value in condition.values)
        return f"{ref(condition.column)} {'NOT ' if condition.negated else ''}IN ({values})"
    if isinstance(condition, Missing):
        return missing_sql(condition.column, ref, negated=condition.negated)
    if isinstance(condition, Truth):
        return f"{ref(condition.column)} IS {'TRUE' if condition.value else 'FALSE'}"
    other = condition.other
    return (
        f"{ref(condition.key)} NOT IN (\n    SELECT {ref(other)} FROM {sql.identifier(other.table)}"
        f" WHERE {ref(other)} IS NOT NULL)"
    )


def compare_sql(left: str, condition: Compare | Having) -> str:
    low = sql.number(condition.low)
    if condition.high is not None:
        return f"{left} BETWEEN {low} AND {sql.number(condition.high)}"
    return f"{left} {'<>' if condition.op == '!=' else condition.op} {low}"


def missing_sql(column: Column, ref: Ref, *, negated: bool = False) -> str:
    """A cell is missing if it is NULL, and a text also if it is blank."""
    name = ref(column)
    if column.type != "text":
        return f"{name} IS {'NOT ' if negated else ''}NULL"
    if negated:
        return f"trim({name}) <> ''"
    return f"({name} IS NULL OR trim({name}) = '')"


def group_sql(group: Group, ref: Ref) -> list[tuple[str, str]]:
    """The expressions of a group with the heading of each.

    Errors: `OfflineCannot` if the time columns cannot give this grain.
    """
    if not group.grain:
        return [(ref(column), column.name) for column in group.columns]
    axis = group.axis
    assert axis is not None
    if axis.date is None:
        return _parts_group(group, ref)
    if group.grain in COARSE.get(axis.date.dated, ()):
        raise OfflineCannot(
            f"`{axis.date.name}` holds a {axis.date.dated} per row, so there is no {group.grain}"
        )
    column = as_date(axis.date, ref(axis.date))
    forms = {
        "day": f"CAST({column} AS DATE)",
        "week": f"strftime({column}, '%G-W%V')",
        "month": f"strftime({column}, '%Y-%m')",
        "quarter": f"year({column}) || '-Q' || quarter({column})",
        "year": f"year({column})",
    }
    return [(forms[group.grain], group.grain)]


def _parts_group(group: Group, ref: Ref) -> list[tuple[str, str]]:
    axis = group.axis
    assert axis is not None
    finest = {"year": axis.year, "quarter": axis.quarter, "month": axis.month}.get(group.grain)
    if finest is None:
        raise OfflineCannot(f"the data has no column for every {group.grain}")
    parts = [finest] if group.grain == "year" else [axis.year, finest]
    return [(ref(column), column.name) for column in parts if column is not None]


def measure_sql(measure: Measure, source: Source) -> str:
    """The aggregate; rows that a join repeats are counted by their key."""
    ref = source.ref
    if measure.aggregate == "count":
        key = source.distinct_keys.get(measure.table)
        if key is not None:
            return f"count(DISTINCT {ref(key)})"
        empty = source.distinct_keys.get("")
        if empty is not None and empty.table == measure.table:
            return f"count({ref(empty)})"
        return "count(*)"
    assert measure.column is not None
    column = ref(measure.column)
    if measure.aggregate == "only":
        return f"CASE WHEN count(DISTINCT {column}) = 1 THEN min({column}) END"
    if measure.aggregate == "distinct":
        if measure.column.type == "date":
            column = f"CAST({as_date(measure.column, column)} AS DATE)"
        return f"count(DISTINCT {column})"
    return f"{measure.aggregate}({column})"


def measure_label(measure: Measure) -> str:
    """Return how the figure is called in headings and sentences."""
    if measure.column is None:
        return f"number of {measure.table}"
    if measure.aggregate == "only":
        return measure.column.name
    names = {
        "sum": "total",
        "avg": "average",
        "median": "median",
        "max": "highest",
        "min": "lowest",
        "distinct": "different",
    }
    if measure.column.type == "date" and measure.aggregate in ("max", "min"):
        return f"{'latest' if measure.aggregate == 'max' else 'earliest'} {measure.column.name}"
    return f"{names[measure.aggregate]} {measure.column.name}"
