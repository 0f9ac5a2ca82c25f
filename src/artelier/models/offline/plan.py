"""Plans: the queries that answer a reading, and the rows they returned.

Nothing is computed here that a query could compute; the report only quotes what came back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from artelier.errors import OfflineCannot
from artelier.models.offline import sql
from artelier.models.offline.conversation import Desk
from artelier.models.offline.reading import Change, Condition, During, Group, OneOf, Reading
from artelier.models.offline.rows import Rows
from artelier.models.offline.schema import Column, Table
from artelier.models.offline.source import (
    Source,
    compare_sql,
    group_sql,
    measure_label,
    measure_sql,
    missing_sql,
    source_of,
)
from artelier.models.offline.spans import coverage_sql, resolved, side_label, side_sql, years_asked

LISTED_MAX = 10
"""How many places a ranking without a number shows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """A query with what it returned."""

    sql: str
    rows: Rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A reading with its queries: `main` holds the figures, `basis` the rows they rest on."""

    reading: Reading
    main: Query
    basis: Query | None = None
    overall: Query | None = None
    """The change without groups, or a total split by the values that were asked for."""
    coverage: Query | None = None
    """Of a change: the first and the last date of the whole table."""

    @property
    def tables(self) -> tuple[Table, ...]:
        return self.reading.scope.tables


def answer(reading: Reading, desk: Desk) -> Answer:
    """Ask for everything that a reading needs.

    Errors: `Wanted` until all answers are there; `OfflineCannot` if the data makes the reading ambiguous.
    """
    reading = _dated(reading, desk)
    if reading.kind == "missing":
        return _missing(reading, desk)
    if reading.kind == "change":
        return _change(reading, desk)
    if reading.kind == "list":
        return _list(reading, desk)
    if reading.kind == "groups":
        return _groups(reading, desk)
    if reading.kind == "rank":
        return _rank(reading, desk)
    return _aggregate(reading, desk)


def _dated(reading: Reading, desk: Desk) -> Reading:
    """Periods with their years; all that must be asked for is asked at once."""
    sides = (reading.change.before, reading.change.after) if reading.change else ()
    spans = [one for one in (*reading.conditions, *sides) if isinstance(one, During)]
    asked = [statement for span in spans for statement in years_asked(span)]
    desk.query(*dict.fromkeys(asked))

    def dated(condition: Condition) -> Condition:
        return resolved(condition, desk) if isinstance(condition, During) else condition

    change = reading.change
    if change is not None:
        sides = [
            resolved(side, desk) if isinstance(side, During) else side
            for side in (change.before, change.after)
        ]
        change = Change(before=sides[0], after=sides[1])
    return replace(
        reading,
        conditions=tuple(dated(one) for one in reading.conditions),
        inherited=tuple(dated(one) for one in reading.inherited),
        change=change,
    )


def _queries(desk: Desk, *statements: str) -> list[Query]:
    rows = desk.query(*statements)
    return [Query(sql=one, rows=found) for one, found in zip(statements, rows, strict=True)]


def _named(expression: str, heading: str) -> str:
    """An expression with its heading, which a bare column of that name has already."""
    if expression == sql.identifier(heading):
        return expression
    return f"{expression} AS {sql.identifier(heading)}"


def _unique(headings: Sequence[str]) -> list[str]:
    """Headings that repeat get a number, so that every column of a result has its own name."""
    seen: dict[str, int] = {}
    found: list[str] = []
    for heading in headings:
        seen[heading] = seen.get(heading, 0) + 1
        found.append(heading if seen[heading] == 1 else f"{heading} {seen[heading]}")
    return found


def _select(expressions: Sequence[tuple[str, str]]) -> str:
    headings = _unique([heading for _, heading in expressions])
    named = [_named(one, heading) for (one, _), heading in zip(expressions, headings, strict=True)]
    return "SELECT " + ",\n       ".join(named)


def _basis(reading: Reading, source: Source) -> list[tuple[str, str]]:
    """Counts of rows, of rows with the measured and grouped columns, and the dates covered."""
    columns: list[Column] = []
    for measure in (*reading.measures, *(one.measure for one in reading.having)):
        if measure.column is not None and measure.column not in columns:
            columns.append(measure.column)
    for group in reading.groups:
        grouped = list(group.columns[:1]) if not group.entity else []
        if group.axis is not None and group.axis.date is not None:
            grouped = [group.axis.date]
        columns += [column for column in grouped if column not in columns]
    found = [("count(*)", "rows")]
    found += [(f"count({source.ref(column)})", f"with {column.name}") for column in columns]
    return found


def _aggregate(reading: Reading, desk: Desk) -> Answer:
    source = source_of(reading, desk)
    measures = [(measure_sql(one, source), measure_label(one)) for one in reading.measures]
    basis = _basis(reading, source)
    if not reading.groups:
        statement = f"{_select([*measures, *basis])}\nFROM {source.text}{source.where_sql()}"
        split = _split(reading, source)
        queries = _queries(desk, statement, *split)
        _check_only(reading, queries[0])
        return Answer(reading=reading, main=queries[0], overall=queries[1] if split else None)
    groups = [pair for group in reading.groups for pair in group_sql(group, source.ref)]
    count = len(groups)
    by_time = any(group.grain for group in reading.groups)
    order = ", ".join(
        [str(at) for at in range(1, count + 1)]
        if by_time or len(reading.groups) > 1
        else [f"{count + 1} DESC NULLS LAST", "1"]
    )
    statement = (
        f"{_select([*groups, *measures])}\nFROM {source.text}{source.where_sql()}\n"
        f"GROUP BY {_places(count)}{_having(reading, source)}\nORDER BY {order}"
    )
    overall = f"{_select([*measures, *basis])}\nFROM {source.text}{source.where_sql()}"
    queries = _queries(desk, statement, overall)
    return Answer(reading=reading, main=queries[0], basis=queries[1])


def _check_only(reading: Reading, query: Query) -> None:
    """Errors: `OfflineCannot` if a looked-up value differs between the rows that match."""
    row = dict(zip(query.rows.columns, query.rows.rows[0], strict=True)) if query.rows.rows else {}
    for measure in reading.measures:
        if measure.aggregate == "only" and measure.column is not None:
            name = measure.column.name
            if row.get(name) is None and row.get(f"with {name}"):
                raise OfflineCannot(
                    f"the {row[f'with {name}']} rows that match differ in `{name}`",
                    hint="Say `total`, `average`, `highest` or `lowest`.",
                )


def _split(reading: Reading, source: Source) -> list[str]:
    """A total over several named values is also shown for each of them."""
    several = [
        one
        for one in reading.conditions
        if isinstance(one, OneOf) and len(one.values) > 1 and not one.negated
    ]
    measures = [(measure_sql(one, source), measure_label(one)) for one in reading.measures]
    spans = [one for one in reading.conditions if isinstance(one, During) and len(one.periods) > 1]
    if len(several) == 1:
        column = several[0].column
        groups = [(source.ref(column), column.name)]
    elif not several and len(spans) == 1 and spans[0].op == "in":
        groups = _spans_apart(spans[0], source)
    else:
        return []
    if not groups:
        return []
    return [
        f"{_select([*groups, *measures])}\nFROM {source.text}{source.where_sql()}\n"
        f"GROUP BY {_places(len(groups))}\nORDER BY {_places(len(groups))}"
    ]


def _spans_apart(during: During, source: Source) -> list[tuple[str, str]]:
    """The grain that tells several periods of one kind apart."""
    grains = {period.grain for period in during.periods}
    grain = grains.pop() if len(grains) == 1 else "half"
    if grain == "half" or during.axis is None or during.axis.date is None:
        return []
    return group_sql(Group(grain=grain, axis=during.axis), source.ref)


def _places(count: int) -> str:
    return ", ".join(str(at) for at in range(1, count + 1))


def _having(reading: Reading, source: Source) -> str:
    if not reading.having:
        return ""
    conditions = [compare_sql(measure_sql(one.measure, source), one) for one in reading.having]
    return "\nHAVING " + " AND ".join(conditions)


def _rank(reading: Reading, desk: Desk) -> Answer:
    rank, target = reading.rank, reading.groups[-1]
    assert rank is not None
    if len(reading.groups) > 1:
        raise OfflineCannot(
            "a ranking inside every group is not supported",
            hint="Ask for the ranking with a condition, for example `in 2024` or `in one group`.",
        )
    empty = bool(
        not rank.descending
        and target.entity
        and reading.measures[0].aggregate == "count"
        and reading.measures[0].table != target.entity
    )
    source = source_of(reading, desk, keep_empty=empty)
    groups = group_sql(target, source.ref)
    measures = [*reading.measures, *([reading.rival] if reading.rival else [])]
    figures = [(measure_sql(one, source), measure_label(one)) for one in measures]
    order = "DESC" if rank.descending else "ASC"
    top = rank.top or LISTED_MAX
    qualify = " OR ".join(
        f"rank() OVER (ORDER BY {figure} {order} NULLS LAST) <= {top}" for figure, _ in figures
    )
    known = f"{groups[0][0]} IS NOT NULL"
    has = [] if empty else [f"{figures[0][0]} IS NOT NULL"]
    having = f"\nHAVING {' AND '.join(has)}" if has and reading.measures[0].column else ""
    statement = (
        f"{_select([*groups, *figures])}\nFROM {source.text}{source.where_sql(known)}\n"
        f"GROUP BY {_places(len(groups))}{having}\nQUALIFY {qualify}\n"
        f"ORDER BY {len(groups) + 1} {order} NULLS LAST, {_places(len(groups))}"
    )
    spelled = _spellings(target, source)
    overall = f"{_select(_basis(reading, source) + spelled)}\nFROM {source.text}{source.where_sql()}"
    queries = _queries(desk, statement, overall)
    found = Answer(reading=reading, main=queries[0], basis=queries[1])
    _check_rival(found)
    return found


def _spellings(group: Group, source: Source) -> list[tuple[str, str]]:
    """Return how many ranked texts are another one but for case or spaces."""
    if group.grain or group.entity or not group.columns or group.columns[0].type != "text":
        return []
    name = source.ref(group.columns[0])
    figure = f"count(DISTINCT {name}) - count(DISTINCT lower(trim({name})))"
    return [(figure, f"spellings of {group.columns[0].name}")]


def _check_rival(found: Answer) -> None:
    """Errors: `OfflineCannot` if the two ways to measure rank differently and neither was said."""
    reading = found.reading
    if not reading.strict or reading.rival is None or reading.rank is None:
        return
    top = reading.rank.top or LISTED_MAX
    by_first, by_second = ranked_twice(found)
    if [row[0] for row in by_first[:top]] != [row[0] for row in by_second[:top]]:
        first, second = measure_label(reading.measures[0]), measure_label(reading.rival)
        raise OfflineCannot(
            f"the ranking by {first} differs from that by {second}, and the question does not say which",
            hint=f"Say `{first}` or `{second.replace('highest', 'highest single')}`.",
        )


def ranked_twice(found: Answer) -> tuple[list[list[Any]], list[list[Any]]]:
    """The rows in the order of the measure and in that of the rival."""
    rank = found.reading.rank
    assert rank is not None
    rows = found.main.rows.rows
    filled = [row for row in rows if row[-1] is not None]
    second = sorted(filled, key=lambda row: number_of(row[-1]), reverse=rank.descending)
    return rows, second


def number_of(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        return 0.0


def _change(reading: Reading, desk: Desk) -> Answer:
    change = reading.change
    assert change is not None
    source = source_of(reading, desk)
    sides = [side_sql(change.before, source.ref), side_sql(change.after, source.ref)]
    labels = [side_label(change.before), side_label(change.after)]
    if sides[0] == sides[1]:
        raise OfflineCannot(f"nothing changes from {labels[0]} to {labels[1]}: it is one period")
    overall = _change_sql(reading, source, sides, labels, groups=())
    statements = [overall]
    if reading.groups:
        statements.append(_change_sql(reading, source, sides, labels, groups=reading.groups))
    covered = coverage_sql(change.before)
    queries = _queries(desk, *statements, *([covered] if covered else []))
    return Answer(
        reading=reading,
        main=queries[len(statements) - 1],
        overall=queries[0],
        coverage=queries[-1] if covered else None,
    )


def _change_sql(
    reading: Reading, source: Source, sides: Sequence[str], labels: Sequence[str], *, groups: Sequence[Group]
) -> str:
    """Both periods side by side, their difference, and the difference in percent of the first."""
    columns = [pair for group in groups for pair in group_sql(group, source.ref)]
    inner: list[tuple[str, str]] = list(columns)
    outer = [(sql.identifier(heading), heading) for _, heading in columns]
    several = len(reading.measures) > 1
    for measure in reading.measures:
        figure = measure_sql(measure, source)
        parts = [f"{figure} FILTER (WHERE {side})" for side in sides]
        if measure.aggregate in ("sum", "count", "distinct") and columns:
            parts = [f"coalesce({part}, 0)" for part in parts]
        suffix = f" ({measure_label(measure)})" if several else ""
        names = [f"{label}{suffix}" for label in labels]
        inner += list(zip(parts, names, strict=True))
        before, after = (sql.identifier(name) for name in names)
        difference = f"{after} - {before}"
        percent = f"CASE WHEN {before} <> 0 THEN 100.0 * ({difference}) / abs({before}) END"
        outer += [(before, names[0]), (after, names[1])]
        outer += [(difference, f"change{suffix}"), (percent, f"change %{suffix}")]
    if not columns:
        inner += _change_basis(reading, source, sides, labels)
        outer += [(sql.identifier(heading), heading) for _, heading in inner[-len(sides) * 2 :]]
    group_by = f"\nGROUP BY {_places(len(columns))}" if columns else ""
    either = f"({sides[0]} OR {sides[1]})"
    body = f"{_select(inner)}\nFROM {source.text}{source.where_sql(either)}"
    order = f"\nORDER BY {len(columns) + 3} DESC NULLS LAST, {_places(len(columns))}" if columns else ""
    return f"{_select(outer)}\nFROM (\n{body}{group_by}\n){order}"


def _change_basis(
    reading: Reading, source: Source, sides: Sequence[str], labels: Sequence[str]
) -> list[tuple[str, str]]:
    """Per period the number of rows, and of rows without the first measured column."""
    column = reading.measures[0].column
    found: list[tuple[str, str]] = []
    for side, label in zip(sides, labels, strict=True):
        found.append((f"count(*) FILTER (WHERE {side})", f"rows in {label}"))
        empty = f"({side}) AND {source.ref(column)} IS NULL" if column else "false"
        found.append((f"count(*) FILTER (WHERE {empty})", f"skipped in {label}"))
    return found


def _missing(reading: Reading, desk: Desk) -> Answer:
    table = reading.scope.tables[0]
    columns = reading.columns or table.columns
    if any(column.table != table.name for column in columns):
        raise OfflineCannot("missing values are counted in one table at a time", hint="Name the table.")
    source = source_of(reading, desk)
    figures = [
        (f"count(*) FILTER (WHERE {missing_sql(column, source.ref)})", column.name) for column in columns
    ]
    statement = f"{_select([*figures, ('count(*)', 'all rows')])}\nFROM {source.text}{source.where_sql()}"
    (query,) = _queries(desk, statement)
    return Answer(reading=reading, main=query)


def _list(reading: Reading, desk: Desk) -> Answer:
    group = reading.listed
    assert group is not None
    source = _group_source(reading, group, desk)
    groups = group_sql(group, source.ref)
    known = f"{groups[0][0]} IS NOT NULL"
    having = _having(reading, source)
    shown = [*groups]
    if reading.having:
        shown += [(measure_sql(one.measure, source), measure_label(one.measure)) for one in reading.having]
    places = _places(len(groups))
    grouped = f"{_select(shown)}\nFROM {source.text}{source.where_sql(known)}\nGROUP BY {places}{having}"
    counted = f'SELECT count(*) AS "found"\nFROM (\n{grouped}\n)'
    queries = _queries(desk, f"{grouped}\nORDER BY {places}", counted)
    return Answer(reading=reading, main=queries[0], basis=queries[1])


def _group_source(reading: Reading, group: Group, desk: Desk) -> Source:
    """Groups with few or no rows of another table are only found if those without any are kept."""
    low = any(one.op in ("<", "<=", "=", "!=") for one in reading.having)
    other = bool(reading.having) and reading.having[0].measure.table != group.entity
    return source_of(reading, desk, keep_empty=bool(low and other and group.entity))


def _groups(reading: Reading, desk: Desk) -> Answer:
    """`How many customers placed more than 3 orders?`: the groups themselves are counted."""
    measure = reading.measures[0]
    table = reading.scope.table(measure.table)
    if measure.aggregate == "distinct" and measure.column is not None:
        group = Group(columns=(measure.column,))
    else:
        key = table.key
        if key is None and reading.scope.join is not None:
            join = reading.scope.join
            key = join.left if join.left.table == table.name else join.right
        if key is None:
            raise OfflineCannot(f"no column names the rows of `{table.name}`, so they cannot be grouped")
        group = Group(columns=(key,), entity=table.name)
    source = _group_source(reading, group, desk)
    ((expression, heading),) = group_sql(group, source.ref)
    where = source.where_sql(f"{expression} IS NOT NULL")
    inner = (
        f"{_select([(expression, heading)])}\nFROM {source.text}{where}\nGROUP BY 1{_having(reading, source)}"
    )
    statement = f"SELECT count(*) AS {sql.identifier(measure_label(measure))}\nFROM (\n{inner}\n)"
    (query,) = _queries(desk, statement)
    return Answer(reading=reading, main=query)
