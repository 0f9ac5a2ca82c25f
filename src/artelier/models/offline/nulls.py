"""Missing values: as a condition (`orders without a price`) and as the question itself."""

from __future__ import annotations

from artelier.models.offline.draft import Draft
from artelier.models.offline.reading import Lacks, Missing, Unreadable
from artelier.models.offline.schema import Column

_IN = ("in", "for", "of", "from", "the", "a", "an", "any", "their", "its", "is", "are", "on", "there")
_IS = (
    "ever",
    "any",
    "is",
    "are",
    "was",
    "were",
    "the",
    "be",
    "been",
    "has",
    "have",
    "a",
    "an",
    "with",
    "does",
    "do",
)


def bind_nulls(draft: Draft) -> None:
    for place in list(draft.ops("missing")):
        if not draft.used[place]:
            _bind_missing(draft, place, negated=False)
    for place in list(draft.ops("complete")):
        _bind_missing(draft, place, negated=True)
    for place in list(draft.ops("lacking")):
        _bind_lacking(draft, place)
    for place in list(draft.ops("not")):
        following = draft.after(place)
        if following is not None and draft.fillers_before(following) & {"has", "have", "had"}:
            _bind_lacking(draft, place)  # orders that do not have a date


def _bind_missing(draft: Draft, place: int, *, negated: bool) -> None:
    if _bind_profile(draft, place):
        return
    found = _columns(draft, place)
    if not found:
        raise Unreadable("values are missing, but it is not clear of which column", weight=draft.weight() + 3)
    draft.take(place)
    lead = draft.before(place)
    if draft.is_op(lead, "not") and lead is not None:
        draft.take(lead)
        negated = True
    for at, column in found:
        draft.take_column(at, column)
    _take_values(draft)
    if len(found) > 1:
        draft.missing = tuple(column for _, column in found)
    else:
        draft.conditions.append(Missing(column=found[0][1], negated=negated))


def _bind_profile(draft: Draft, place: int) -> bool:
    """`Which columns have missing values?`, `How many missing values are there?`"""
    columns = list(draft.ops("columns"))
    nouns = [at for at in draft.nouns() if draft.chunks[at].noun]
    named = [at for at in nouns if not _is_only_table(draft, at) and not _optional(draft, at)]
    values = draft.after(place)
    if columns and not named:
        draft.take(place, *columns)
    elif not named and (draft.is_op(values, "values") or draft.has("values")):
        draft.take(place)
    else:
        return False
    for at in nouns:
        noun = draft.chunks[at].noun
        if noun is not None and noun.table is not None:
            draft.take_table(at, noun.table)
    _take_values(draft)
    draft.take(*draft.ops("which", "what", "count", "rows", "how"))
    for at in draft.ops("per"):
        draft.take(at)
    draft.missing = ()
    return True


def _optional(draft: Draft, place: int) -> bool:
    return draft.chunks[place].optional


def _is_only_table(draft: Draft, place: int) -> bool:
    noun = draft.chunks[place].noun
    columns = noun.columns[0][0] if noun and noun.columns else 0
    return bool(noun and noun.table and noun.tables[0][0] > columns)


def _take_values(draft: Draft) -> None:
    """`values`, `data` beside a missing column carry no meaning of their own."""
    draft.take(*draft.ops("values"))


def _columns(draft: Draft, place: int) -> list[tuple[int, Column]]:
    """The columns right of `missing`, with those joined to them, else the one left of it."""
    at = draft.after(place, over=_IN)
    while draft.is_op(at, "values", "from", "columns") and at is not None:
        if draft.chunks[at].op in ("from", "columns"):
            draft.take(at)
        at = draft.after(at, over=_IN)
    found = _listed(draft, at)
    if found:
        _take_column_word(draft, found[-1][0])
        return found
    left = draft.before(place, over=_IS)
    while draft.is_op(left, "values", "columns") and left is not None:
        left = draft.before(left, over=_IS)
    column = _column(draft, left)
    return [(left, column)] if column is not None and left is not None else []


def _take_column_word(draft: Draft, place: int) -> None:
    """`the price column`."""
    following = draft.after(place)
    if draft.is_op(following, "columns") and following is not None:
        draft.take(following)


def _listed(draft: Draft, at: int | None) -> list[tuple[int, Column]]:
    found: list[tuple[int, Column]] = []
    while at is not None and (column := _column(draft, at)) is not None:
        found.append((at, column))
        joint = draft.after(at)
        while joint is not None and (draft.is_op(joint, "and", "or") or draft.chunks[joint].text == ","):
            at = joint
            joint = draft.after(joint)
        if joint is None or joint == draft.after(found[-1][0]):
            break
        if _column(draft, joint) is None:
            break
        for between in range(found[-1][0] + 1, joint):
            if draft.is_op(between, "and", "or"):
                draft.take(between)
        at = joint
    return found


def _column(draft: Draft, place: int | None) -> Column | None:
    if place is None or draft.chunks[place].kind not in ("noun", "op"):
        return None
    noun = draft.chunks[place].noun
    if noun is None or (noun.table and noun.level > max((lv for lv, _ in noun.columns), default=0)):
        return None
    return draft.column_at(place, draft.scope.columns(), least=9)


def _bind_lacking(draft: Draft, place: int) -> None:
    """`without a return date`, `customers with no orders`."""
    following = draft.after(place)
    if following is None or draft.used[following]:
        return
    noun = draft.chunks[following].noun
    if noun is None:
        return
    join = draft.scope.join
    if noun.table is not None and noun.tables[0][0] > (noun.columns[0][0] if noun.columns else 0):
        if join is None:
            return
        other, key = (join.right, join.left)
        if noun.table.name != other.table:
            other, key = key, other
        draft.take_table(following, noun.table)
        draft.take(place)
        draft.conditions.append(Lacks(key=key, other=other))
        return
    column = draft.column_at(following, draft.scope.columns(), least=9)
    if column is None:
        return
    if column.is_measure:
        raise Unreadable(
            f'"{draft.chunks[place].text} {draft.chunks[following].text}" may mean that'
            f" `{column.name}` is missing or that it is 0; say `missing {column.name}` or"
            f" `{column.name} equal to 0`",
            weight=draft.weight() + 5,
        )
    draft.take(place)
    draft.take_column(following, column)
    draft.conditions.append(Missing(column=column))
