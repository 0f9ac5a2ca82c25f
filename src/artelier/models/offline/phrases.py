"""A reading in words: measures, groups and conditions as they are named in sentences and titles."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from artelier.models.offline import sql
from artelier.models.offline.figures import code, escaped
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
from artelier.models.offline.source import measure_label
from artelier.models.offline.spans import side_label

_COMPARED = {
    ">": "over",
    ">=": "at least",
    "<": "under",
    "<=": "at most",
    "=": "equal to",
    "!=": "other than",
}


def measure_phrase(measure: Measure) -> str:
    """`the total` with its column as code."""
    if measure.column is None:
        return f"the number of rows in {code(measure.table)}"
    if measure.aggregate == "distinct":
        return f"the number of different values of {code(measure.column.name)}"
    if measure.aggregate == "only":
        return f"the {code(measure.column.name)}"
    word = measure_label(measure).removesuffix(f" {measure.column.name}")
    return f"the {word} {code(measure.column.name)}"


def group_phrase(group: Group) -> str:
    if group.entity:
        return f"{code(group.entity)} row"
    return group.grain if group.grain else code(group.columns[0].name)


def conditions_phrase(conditions: Iterable[Condition]) -> str:
    """All conditions in one phrase, without a leading `where`."""
    return " and ".join(condition_phrase(one) for one in conditions)


def condition_phrase(condition: Condition) -> str:
    if isinstance(condition, During):
        return _during(condition)
    if isinstance(condition, Lacks):
        return f"no row in {code(condition.other.table)} belongs to them"
    name = code(condition.column.name)
    if isinstance(condition, Compare):
        return f"{name} is {_compared(condition)}"
    if isinstance(condition, OneOf):
        values = " or ".join(escaped(value) for value in condition.values)
        return f"{name} is {'not ' if condition.negated else ''}{values}"
    if isinstance(condition, Missing):
        return f"{name} is {'not ' if condition.negated else ''}missing"
    assert isinstance(condition, Truth)
    return f"{name} is {'true' if condition.value else 'false'}"


def _compared(condition: Compare | Having) -> str:
    low = sql.number(condition.low)
    if condition.high is not None:
        return f"between {low} and {sql.number(condition.high)}"
    return f"{_COMPARED[condition.op]} {low}"


def having_phrase(having: Having) -> str:
    return f"{measure_phrase(having.measure)} is {_compared(having)}"


def _during(during: During) -> str:
    axis = during.axis
    parts = [axis.date] if axis and axis.date else [axis.year, axis.quarter, axis.month] if axis else []
    name = " and ".join(code(part.name) for part in parts if part is not None) or "the time"
    labels = [period.label for period in during.periods]
    if during.op == "between":
        return f"{name} is from {labels[0]} to {labels[-1]}"
    if during.op == "in":
        on = "on" if all(period.grain == "day" for period in during.periods) else "in"
        return f"{name} is {on} {' or '.join(labels)}"
    words = {"since": "in or after", "before": "before", "after": "after", "until": "in or before"}
    return f"{name} is {words[during.op]} {labels[0]}"


def title(reading: Reading) -> str:
    """A short heading with a capital letter."""
    text = _title(reading)
    return text[:1].upper() + text[1:]


def _title(reading: Reading) -> str:
    measures = " and ".join(_bare(measure) for measure in reading.measures)
    if reading.kind == "missing":
        return f"missing values in {reading.scope.tables[0].name}"
    if reading.kind == "list" and reading.listed is not None:
        return f"{_bare_group(reading.listed)} found"
    groups = " and ".join(_bare_group(group) for group in reading.groups)
    if reading.kind == "change" and reading.change is not None:
        change = reading.change
        period = f"from {side_label(change.before)} to {side_label(change.after)}"
        return f"change of {measures} {period}" + (f" by {groups}" if groups else "")
    if reading.kind == "rank" and reading.rank is not None:
        order = "highest" if reading.rank.descending else "lowest"
        figure = _bare(reading.measures[0])
        top = reading.rank.top or 0
        if top > 1:
            return f"{'top' if reading.rank.descending else 'bottom'} {top} {groups} by {figure}"
        extreme = reading.measures[0].aggregate in ("max", "min")
        return f"{groups} by {figure}" if extreme else f"{groups} with the {order} {figure}"
    return f"{measures} by {groups}" if groups else measures


def _bare(measure: Measure) -> str:
    if measure.aggregate == "distinct" and measure.column is not None:
        return f"number of different {measure.column.name} values"
    return measure_label(measure)


def _bare_group(group: Group) -> str:
    return group.grain or group.entity or group.columns[0].name


def listed(items: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    if len(items) < 2:
        return "".join(items)
    return f"{', '.join(items[:-1])} and {items[-1]}"
