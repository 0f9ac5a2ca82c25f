"""The last step of reading: what the clause before supplies, which time is meant, and what contradicts."""

from __future__ import annotations

from dataclasses import replace

from artelier.models.offline import lexicon
from artelier.models.offline.draft import Draft, some
from artelier.models.offline.reading import (
    Aggregate,
    Axis,
    Change,
    Compare,
    Condition,
    During,
    Group,
    Kind,
    Lacks,
    Measure,
    OneOf,
    Reading,
    Unreadable,
)
from artelier.models.offline.schema import Table
from artelier.models.offline.times import default_axis

ELLIPSIS_BONUS = 10
"""A clause that names no measure of its own goes on with that of the clause before."""

CHANGED_MAX = 6
"""Measures shown when the question only asks what changed."""


def finish(draft: Draft) -> Reading:
    """The reading of a draft whose chunks are all accounted for.

    Errors: `Unreadable` if something is missing or could mean two things.
    """
    inherited = _inherit(draft)
    _check_pronouns(draft)
    _check_means_of_amounts(draft)
    _measure_everything(draft)
    _drop_day_of_date(draft)
    _drop_rows_as_groups(draft)
    base = _base(draft)
    rival, strict = _rival(draft)
    _single_values(draft)
    reading = Reading(
        kind=_kind(draft),
        scope=draft.scope,
        measures=tuple(draft.measures),
        groups=tuple(_with_axis(draft, group, base) for group in draft.groups),
        conditions=tuple(_on_axis(draft, one, base) for one in draft.conditions),
        having=tuple(draft.having),
        rank=draft.rank,
        change=_change(draft, base),
        listed=draft.lists,
        columns=draft.missing or (),
        rival=rival,
        strict=strict,
        inherited=tuple(_on_axis(draft, one, base) for one in inherited),
    )
    _check_tables(draft, reading)
    _check_rows(draft, reading)
    return replace(reading, reasons=tuple(draft.reasons))


def _kind(draft: Draft) -> Kind:
    if draft.missing is not None:
        return "missing"
    if draft.change is not None:
        if draft.rank is not None:
            raise Unreadable("a ranking of a change is not supported", weight=draft.weight() + 5)
        return "change"
    if draft.rank is not None:
        return "rank"
    if draft.lists is not None and not draft.measures:
        return "list"
    if draft.having and draft.measures and not draft.groups:
        return "groups"
    if not draft.measures:
        raise Unreadable("it is not clear what should be computed", weight=draft.weight())
    return "aggregate"


def _inherit(draft: Draft) -> list[Condition]:
    """Take from the clause before what this one leaves out; returns the conditions taken over."""
    context = draft.context
    if context is None or not set(context.scope.tables) <= set(draft.scope.tables):
        return []
    elliptic = not draft.measures and draft.lists is None and draft.missing is None
    if elliptic:
        if not (draft.change or draft.groups or draft.conditions):
            return []
        draft.bonus += ELLIPSIS_BONUS
        draft.measures.extend(context.measures)
        if not draft.groups:
            draft.groups.extend(context.groups)
            if draft.change is None:
                draft.rank = draft.rank or context.rank
                draft.rival = context.rival
    if not (elliptic or draft.joined):
        return []
    own_time = draft.change is not None or any(isinstance(one, During) for one in draft.conditions)
    independent = not elliptic and any(not isinstance(one, During) for one in draft.conditions)
    kept: list[Condition] = []
    for one in context.conditions:
        if isinstance(one, During):
            if draft.change is not None:
                _give_year(draft, one)
            elif not own_time:
                kept.append(one)
        elif not independent and not _constrains(draft, one):
            kept.append(one)
    if isinstance(context.change, Change) and elliptic and draft.change is None:
        draft.change = context.change
    draft.conditions.extend(kept)
    return kept


def _check_pronouns(draft: Draft) -> None:
    """`Which city has most customers, and what is its total?` would need the first answer."""
    context = draft.context
    if context is None or draft.change is not None or context.kind not in ("rank", "list"):
        return
    pronouns = [chunk.text for chunk in draft.chunks if chunk.text in lexicon.PRONOUNS]
    if pronouns:
        raise Unreadable(
            f'"{pronouns[0]}" points at the result of the part before; name what is meant',
            weight=draft.weight() + 10,
        )


def _check_means_of_amounts(draft: Draft) -> None:
    """`Average rain per month`: the mean of the months' totals, or of the rows of each month?"""
    for measure in draft.measures:
        column = measure.column
        mean = measure.aggregate in ("avg", "median")
        if draft.per_time and mean and column is not None and column.nature == "additive":
            raise Unreadable(
                f"an average of `{column.name}` per {draft.per_time} may be that of its rows or of the"
                f" totals of each {draft.per_time}; say `average {column.name} by {draft.per_time}` or"
                f" `total {column.name} by {draft.per_time}`",
                weight=draft.weight() + 10,
            )


def _measure_everything(draft: Draft) -> None:
    """`What changed from Q2 to Q3?` without a measure asks for the rows and for every amount."""
    tables = [table for table in draft.scope.tables if table.dates]
    if len(draft.scope.tables) == 1:
        tables = list(draft.scope.tables)
    if draft.change is None or draft.measures or len(tables) != 1:
        return
    amounts = [column for column in tables[0].measures if column.nature == "additive"]
    if len(amounts) > CHANGED_MAX:
        names = some(f"`{column.name}`" for column in amounts)
        raise Unreadable(f"too many columns may have changed ({names}); name one", weight=20)
    draft.measures.append(Measure(aggregate="count", table=tables[0].name))
    draft.measures += [Measure(aggregate="sum", table=tables[0].name, column=column) for column in amounts]


def _drop_day_of_date(draft: Draft) -> None:
    """`When was the last order?` asks for a date, not for the day with the latest date."""
    if draft.rank is None or not draft.measures or not draft.groups or not draft.groups[-1].grain:
        return
    column = draft.measures[-1].column
    if column is not None and column.type == "date":
        draft.rank = None
        draft.groups.pop()


def _drop_rows_as_groups(draft: Draft) -> None:
    """`average goals per match` where every row is a match is a plain average."""
    if draft.rank is not None or len(draft.groups) != 1 or len(draft.measures) != 1:
        return
    measure, group = draft.measures[0], draft.groups[0]
    if measure.aggregate in ("avg", "median") and group.entity == measure.table:
        draft.groups.clear()


def _constrains(draft: Draft, condition: Condition) -> bool:
    """Return True if the clause has its own condition on the same column."""
    column = getattr(condition, "column", None)
    return any(getattr(one, "column", None) == column for one in draft.conditions)


def _give_year(draft: Draft, during: During) -> None:
    """`... in 2024, and what changed from Q2 to Q3`: the quarters are of 2024."""
    period = during.periods[0]
    change = draft.change
    if change is None or during.op != "in" or len(during.periods) != 1 or period.grain != "year":
        return
    sides = [change.before, change.after]
    for at, side in enumerate(sides):
        if isinstance(side, During) and side.periods[0].year is None and period.year is not None:
            sides[at] = replace(side, periods=(side.periods[0].in_year(period.year),))
    draft.change = Change(before=sides[0], after=sides[1])


def _base(draft: Draft) -> str:
    """The table whose rows are measured."""
    if draft.measures:
        return draft.measures[0].table
    if draft.lists is not None and draft.lists.columns:
        return draft.lists.columns[0].table
    return draft.scope.tables[0].name


def _axis(draft: Draft, base: str, hint: object = None) -> Axis:
    """The time of the base table, or of the other one if the base has none.

    Errors: `Unreadable` if no table has one or several may be meant.
    """
    tables = sorted(draft.scope.tables, key=lambda table: table.name != base)
    if draft.time_hint is not None:
        return Axis(date=draft.time_hint)
    for table in tables:
        try:
            axis = default_axis(table)
        except Unreadable as failure:
            raise Unreadable(failure.reason, weight=failure.weight + draft.weight()) from None
        if axis is not None:
            _explain(draft, table, axis)
            return axis
    raise Unreadable(f"`{base}` has no date column, so a period cannot be applied", weight=draft.weight())


def _explain(draft: Draft, table: Table, axis: Axis) -> None:
    """Say which date was taken if there were several."""
    if axis.date is not None and len(table.dates) > 1:
        reason = f"time is that of `{axis.date.name}`, the date of the rows of `{table.name}`"
        if reason not in draft.reasons:
            draft.reasons.append(reason)


def _on_axis(draft: Draft, condition: Condition, base: str) -> Condition:
    if not isinstance(condition, During) or condition.axis is not None:
        return condition
    axis = Axis(date=condition.hint) if condition.hint else _axis(draft, base)
    return replace(condition, axis=axis)


def _with_axis(draft: Draft, group: Group, base: str) -> Group:
    if not group.grain or group.axis is not None:
        return group
    hints = [one.hint for one in draft.conditions if isinstance(one, During) and one.hint]
    axis = Axis(date=hints[0]) if len(set(hints)) == 1 else _axis(draft, base)
    return replace(group, axis=axis)


def _change(draft: Draft, base: str) -> Change | None:
    if draft.change is None:
        return None
    sides = (draft.change.before, draft.change.after)
    before, after = (_on_axis(draft, side, base) for side in sides)
    assert isinstance(before, During | OneOf) and isinstance(after, During | OneOf)
    return Change(before=before, after=after)


def _rival(draft: Draft) -> tuple[Measure | None, bool]:
    """A second measure that the words may mean, and whether it must agree with the first."""
    if draft.rank is None or not draft.measures:
        return None, False
    measure = draft.measures[-1]
    if measure.why != "either":
        return draft.rival, False
    extreme: Aggregate = "max" if draft.rank.descending else "min"
    draft.measures[-1] = replace(measure, why="")
    if draft.groups[-1].entity == measure.table:  # one row each: sum and mean are the value
        draft.measures[-1] = replace(measure, aggregate=extreme, why="")
        return None, False
    other = extreme
    if measure.aggregate == extreme:
        intensive = measure.column is not None and measure.column.nature == "intensive"
        other = "avg" if intensive else "sum"
    return replace(measure, aggregate=other, why=""), True


def _single_values(draft: Draft) -> None:
    """Use the value itself instead of a total where every group is one row: they are equal."""
    if draft.rank is None or not draft.measures or not draft.groups:
        return
    measure = draft.measures[-1]
    group = draft.groups[-1]
    key = draft.scope.table(measure.table).key
    single = group.entity == measure.table or (bool(group.columns) and group.columns[0] == key)
    if measure.aggregate == "sum" and single:
        word = "max" if draft.rank.descending else "min"
        draft.measures[-1] = replace(measure, aggregate=word)


def _check_tables(draft: Draft, reading: Reading) -> None:
    """A joined pair must be needed: something has to come from each of the two tables."""
    if len(reading.scope.tables) == 1:
        return
    used = set(draft.mentioned)
    used |= {measure.table for measure in reading.measures}
    used |= {column.table for group in reading.groups for column in group.columns}
    for one in reading.conditions:
        if isinstance(one, During):
            used |= {one.axis.table} if one.axis else set()
        elif isinstance(one, Lacks):
            used |= {one.key.table, one.other.table}
        else:
            used.add(one.column.table)
    idle = [table.name for table in reading.scope.tables if table.name not in used]
    if idle:
        raise Unreadable(f"`{idle[0]}` is not needed", weight=0)


def _keyed_tables(reading: Reading) -> set[str]:
    """Return the tables of a joined pair whose rows the join column names; each has one row per value."""
    join = reading.scope.join
    if join is None:
        return set()
    sides = (join.left, join.right)
    return {side.table for side in sides if reading.scope.table(side.table).key == side}


def _check_rows(draft: Draft, reading: Reading) -> None:
    """`Which products sold over 100 units?`: a row's units or the product's? Refused, not guessed."""
    things = reading.kind == "list" and not (
        reading.listed is not None and reading.listed.entity and len(reading.scope.tables) == 1
    )
    counted = any(measure.aggregate == "distinct" for measure in reading.measures)
    keyed = _keyed_tables(reading)
    for one in reading.conditions:
        if isinstance(one, Compare) and one.column.nature == "additive":
            across = one.column.table not in keyed and any(
                measure.aggregate == "count" and measure.table in keyed for measure in reading.measures
            )
            if one.column.table not in keyed and (things or counted or across):
                raise Unreadable(
                    f"it is not clear whether `{one.column.name}` means single rows or a total per"
                    f" group; say `with a total {one.column.name} over ...`",
                    weight=draft.weight() + 10,
                )
    if reading.having and reading.kind not in ("list", "groups", "aggregate"):
        raise Unreadable("a condition on totals does not fit here", weight=draft.weight())
