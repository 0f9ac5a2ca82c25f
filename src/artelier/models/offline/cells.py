"""Values of the data as conditions: `in Berlin`, `cancelled orders`, `not returned`, `active members`."""

from __future__ import annotations

from itertools import pairwise

from artelier.models.offline import lexicon
from artelier.models.offline.columns import CORE
from artelier.models.offline.draft import Draft, some
from artelier.models.offline.reading import Change, Missing, OneOf, Truth, Unreadable
from artelier.models.offline.schema import Column
from artelier.models.offline.times import default_axis

_HINT_PASS = (
    "is are was were the a an in of be been being = called named equal to as marked set has have with"
).split()
_TRUE, _FALSE = frozenset(("true", "yes", "y")), frozenset(("false", "no", "n"))


def bind_values(draft: Draft) -> None:
    """Read every noun that names a cell of the data as a condition on its column."""
    found: dict[int, Column] = {}
    for place in range(len(draft)):
        if draft.used[place] or not _may_be_value(draft, place):
            continue
        column = _column_of(draft, place)
        if column is not None:
            found[place] = column
            draft.take_column(place, column)
    for column in dict.fromkeys(found.values()):
        _condition(draft, column, [place for place, one in found.items() if one == column])


def _may_be_value(draft: Draft, place: int) -> bool:
    """Return True if the chunk is better read as a value than as a name."""
    chunk = draft.chunks[place]
    noun = chunk.noun
    if noun is None or not _values(draft, place):
        return False
    if chunk.kind in ("op", "number", "filler"):
        return _hint(draft, place, _values(draft, place)) is not None
    if chunk.kind == "period":
        return True
    names = [level for level, _ in (*noun.tables[:1], *noun.columns[:1])]
    return noun.values_level >= max(names, default=0) or (
        _hint(draft, place, _values(draft, place)) is not None
    )


def _values(draft: Draft, place: int) -> dict[Column, tuple[str, ...]]:
    noun = draft.chunks[place].noun
    columns = set(draft.scope.columns())
    return {column: found for column, found in noun.values.items() if column in columns} if noun else {}


def _column_of(draft: Draft, place: int) -> Column | None:
    """The column whose value is meant: the one named beside it, or the only one that has it.

    Errors: `Unreadable` if several columns hold the value.
    """
    values = _values(draft, place)
    hint = _hint(draft, place, values)
    if hint is not None:
        at, column = hint
        draft.take_column(at, column)
        for between in range(min(at, place) + 1, max(at, place)):
            if draft.is_op(between, "=", "values"):
                draft.take(between)
        return column
    chunk = draft.chunks[place]
    columns = _by_direction(draft, place, draft.one_of_joined(list(values)))
    if len(columns) > 1 and draft.scope.join is not None:
        labels = [column for column in columns if not draft.scope.is_joined_on(column)]
        columns = labels if len(labels) == 1 else columns
    if len(columns) > 1:
        names = some(f"`{column.table}.{column.name}`" for column in columns)
        raise Unreadable(
            f'"{chunk.text}" is a value of {names}; name the column beside it', weight=draft.weight() + 20
        )
    if chunk.text in lexicon.FILLERS and chunk.text not in {v for vs in values.values() for v in vs}:
        raise Unreadable(
            f'"{chunk.text}" is a value of `{columns[0].name}` and a common word; write'
            f' `{columns[0].name} is "{chunk.text}"` if the value is meant',
            weight=draft.weight() + 20,
        )
    return columns[0]


def _by_direction(draft: Draft, place: int, columns: list[Column]) -> list[Column]:
    """`from Oslo`, `to Rome`: of several columns the one for that direction."""
    lead = draft.before(place)
    family = frozenset[str]()
    if draft.is_op(lead, "from"):
        family = lexicon.ORIGINS
    elif draft.is_op(lead, "to"):
        family = lexicon.GOALS
    found = [column for column in columns if set(column.stems) & family]
    return found if len(found) == 1 else columns


def _hint(draft: Draft, place: int, values: dict[Column, tuple[str, ...]]) -> tuple[int, Column] | None:
    """A column with this value that is named right before or right after it."""
    before = draft.before(place, over=_HINT_PASS)
    while before is not None and draft.is_op(before, "=", "not", "values", "!="):
        before = draft.before(before, over=_HINT_PASS)
    after = draft.after(place, over=())
    for at in (before, after):
        if at is None or draft.used[at] or draft.chunks[at].kind not in ("noun", "op"):
            continue
        noun = draft.chunks[at].noun
        found = noun.best(values, least=9) if noun else []
        found = draft.one_of_joined(found)
        if len(found) == 1 and not _is_group(draft, at):
            return at, found[0]
    return None


def _is_group(draft: Draft, place: int) -> bool:
    """`by city Berlin` reads oddly; a column after `by` is left to the grouping."""
    return draft.is_op(draft.before(place), "per")


def _condition(draft: Draft, column: Column, places: list[int]) -> None:
    values: list[str] = []
    for place in places:
        values += [value for value in _values(draft, place)[column] if value not in values]
    negated = _take_negation(draft, places[0])
    if len(places) > 1 and not _joined(draft, places, column):
        raise Unreadable(
            f"the values of `{column.name}` in the question do not fit together", weight=draft.weight()
        )
    compared = len(places) == 2 and _bind_change(draft, column, places)
    if not compared:
        draft.conditions.append(OneOf(column=column, values=tuple(values), negated=negated))
    _take_lead(draft, places[0])


def _bind_change(draft: Draft, column: Column, places: list[int]) -> bool:
    """Periods kept as text: from `Q2` to `Q3` of a column of quarters."""
    if any(draft.chunks[place].kind != "period" for place in places):
        return False
    if not draft.has("change", "versus"):
        return False
    before, after = (OneOf(column=column, values=_values(draft, place)[column]) for place in places)
    draft.take(*draft.ops("change", "versus", "from", "to", "between", "how", "much"))
    draft.change = Change(before=before, after=after)
    return True


def _joined(draft: Draft, places: list[int], column: Column) -> bool:
    """Takes the conjunctions between the values; false if anything else stands between them."""
    for first, second in pairwise(places):
        for at in range(first + 1, second):
            chunk = draft.chunks[at]
            if draft.used[at] or chunk.kind in ("filler", "mark"):
                continue
            if chunk.kind == "op" and chunk.op in ("and", "or", "not", "to", "versus"):
                draft.take(at) if chunk.op in ("and", "or", "not") else None
                continue
            return False
    return True


def _take_negation(draft: Draft, place: int) -> bool:
    at = draft.before(place)
    while at is not None and (draft.used[at] or draft.is_op(at, "=")):
        if draft.is_op(at, "=") or draft.chunks[at].kind == "noun":
            at = draft.before(at)
        else:
            break
    if at is not None and draft.is_op(at, "not", "!=") and not draft.used[at]:
        draft.take(at)
        return True
    return False


def _take_lead(draft: Draft, place: int) -> None:
    """`sold by Ann`, `from Berlin`, `across the coast`: a preposition that became an operator."""
    at = draft.before(place)
    while at is not None and draft.used[at]:
        at = draft.before(at)
    if at is None:
        return
    if draft.is_op(at, "from", "to", "="):
        draft.take(at)
    elif draft.is_op(at, "per") and draft.chunks[at].text in ("by", "by the", "across"):
        draft.take(at)


def bind_truths(draft: Draft) -> None:
    """Read a column of true and false that is used as an adjective: `active members`, `was returned`."""
    words = _yes_no_columns(draft)
    truths = [column for column in draft.scope.columns() if column.type == "truth"] + list(words)
    for place in list(draft.nouns()):
        noun = draft.chunks[place].noun
        if noun is None or noun.table is not None:
            continue
        column = draft.column_at(place, truths, least=9)
        others = [level for level, one in noun.columns if one != column]
        level = max((level for level, one in noun.columns if one == column), default=0)
        if column is None or max(others, default=0) > level or _is_group(draft, place):
            continue
        if draft.is_op(draft.before(place), "which", "what") and level < CORE:
            continue
        value = _truth(draft, place, column)
        if column in words:
            draft.conditions.append(OneOf(column=column, values=words[column][value]))
        else:
            draft.conditions.append(Truth(column=column, value=value))


def _yes_no_columns(draft: Draft) -> dict[Column, dict[bool, tuple[str, ...]]]:
    """Text columns that hold both a word for yes and a word for no, with these words."""
    found: dict[Column, dict[bool, tuple[str, ...]]] = {}
    for column in draft.scope.columns():
        words = {
            truth: tuple(value for form in sorted(forms) for value in draft.cells(form, column))
            for truth, forms in ((True, _TRUE), (False, _FALSE))
        }
        if column.type == "text" and all(words.values()):
            found[column] = words
    return found


def bind_events(draft: Draft) -> None:
    """`were returned`, `not yet shipped`: a date column that is filled once it has happened."""
    dates = [column for column in draft.scope.columns() if column.type == "date"]
    for place in list(draft.nouns()):
        noun = draft.chunks[place].noun
        text = draft.chunks[place].text
        happened = text.endswith("ed") or text in _IRREGULAR
        if noun is None or noun.table is not None or not happened:
            continue
        column = draft.column_at(place, dates, least=9)
        if column is None or noun.columns[0][1] != column:
            continue
        if _is_default(draft, column):
            draft.take_column(place, column)
            continue
        before = draft.before(place)
        negated = draft.is_op(before, "not", "lacking") and before is not None
        if not negated and _asks_when(draft):
            draft.take_column(place, column)
            draft.time_hint = column
            continue
        if negated and before is not None:
            draft.take(before)
        draft.take_column(place, column)
        draft.reasons.append(f'"{text}" means that `{column.name}` is filled')
        draft.conditions.append(Missing(column=column, negated=not negated))


def _asks_when(draft: Draft) -> bool:
    """Return True if the clause groups by time, so that the date says when rather than whether."""
    return any(chunk.noun is not None and chunk.noun.grain for chunk in draft.chunks) or draft.has("when")


_IRREGULAR = frozenset(("sent", "paid", "sold", "left", "closed", "begun"))


def _is_default(draft: Draft, column: Column) -> bool:
    try:
        axis = default_axis(draft.scope.table(column.table))
    except Unreadable:
        return False
    return axis is not None and axis.date == column and len(draft.scope.table(column.table).dates) > 1


def _truth(draft: Draft, place: int, column: Column) -> bool:
    """Return which truth is asked for."""
    value = True
    following = draft.after(place, over=("is", "are", "was", "were", "set", "=", "equal", "to"))
    if following is not None and draft.is_op(following, "="):
        draft.take(following)
        following = draft.after(following)
    if following is not None and draft.chunks[following].text in _TRUE | _FALSE:
        value = draft.chunks[following].text in _TRUE
        draft.take(following)
    before = draft.before(place)
    if draft.is_op(before, "not", "lacking") and before is not None and not draft.used[before]:
        value = not value
        draft.take(before)
    draft.take_column(place, column)
    return value
