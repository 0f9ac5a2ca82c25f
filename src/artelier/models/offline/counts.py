"""Counts: `how many orders`, `number of different products`, `how many units`."""

from __future__ import annotations

from artelier.models.offline import lexicon
from artelier.models.offline.columns import CORE, HEAD, STRONG
from artelier.models.offline.draft import Draft
from artelier.models.offline.reading import AGGREGATE_OF, Measure, Unreadable
from artelier.models.offline.schema import Column, Table
from artelier.models.offline.words import lemma

_STOPS = ("per", "which", "what", "who", "when", "count", "versus", "change")


def count_column(draft: Draft, place: int | None) -> Column | None:
    """A numeric column that is itself called `count`, where the question says that word."""
    if place is None or not draft.is_op(place, "count"):
        return None
    word = lemma(draft.chunks[place].text.split()[0])
    numbers = [column for column in draft.scope.columns() if column.type == "number"]
    return next((column for column in numbers if column.words == (word,)), None)


def check_count(draft: Draft, place: int) -> None:
    """Errors: `Unreadable` if `count` may be the number of rows or a column of that name."""
    column = count_column(draft, place)
    if column is not None:
        raise Unreadable(
            f'"{draft.chunks[place].text}" may be the number of rows of `{column.table}` or its column'
            f" `{column.name}`; say `number of rows`, `total {column.name}` or `average {column.name}`",
            weight=draft.weight() + 15,
        )


def bind_count(draft: Draft, place: int) -> None:
    check_count(draft, place)
    distinct = False
    at = _target(draft, place)
    for between in range(place + 1, at if at is not None else len(draft)):
        if draft.is_op(between, "distinct"):
            distinct = True
            draft.take(between)
        elif draft.is_op(between, *AGGREGATE_OF) and at is not None:
            if draft.chunks[between].noun is None:
                at = None
                break
    if at is None:
        rows = next(draft.ops("rows", "values"), None)
        if rows is not None:
            draft.take(rows)
        draft.take(place)
        if not draft.conditions and rows is None and draft.context is not None:
            return  # and how many in Berlin: the context says of what
        draft.measures.append(Measure(aggregate="count", table=_only_table(draft)))
        return
    draft.take(place)
    draft.measures.append(count_at(draft, at, distinct=distinct))


def _only_table(draft: Draft) -> str:
    if len(draft.scope.tables) == 1:
        return draft.scope.tables[0].name
    if draft.context is not None and draft.context.measures:
        return draft.context.measures[0].table
    raise Unreadable("it is not clear the rows of which table should be counted", weight=draft.weight())


def _target(draft: Draft, place: int) -> int | None:
    """The next unread noun that a count or an aggregate may be about."""
    at = place + 1
    while at < len(draft):
        chunk = draft.chunks[at]
        if chunk.kind == "op" and not draft.used[at]:
            if chunk.op == "values" or chunk.op in _STOPS:
                return None
            if chunk.noun is not None and chunk.noun.level >= CORE:
                return at
            if chunk.op in ("and", "or", "how", "rows"):
                return None
        elif chunk.kind == "noun" and not draft.used[at] and not chunk.optional:
            return at if names_something(draft, at) else None
        at += 1
    return None


def names_something(draft: Draft, place: int) -> bool:
    noun = draft.chunks[place].noun
    return noun is not None and bool(noun.tables or noun.columns or noun.grain or noun.verb)


def count_at(draft: Draft, place: int, *, distinct: bool) -> Measure:
    """The count of what a noun names: rows of a table, distinct cells of a column, or units.

    Errors: `Unreadable` if counting and adding up are both possible.
    """
    chunk = draft.chunks[place]
    noun = chunk.noun
    assert noun is not None
    table = table_in_scope(draft, place)
    table_level = noun.tables[0][0] if noun.tables else 0
    columns = [column for column in draft.scope.columns() if column.type != "other"]
    best = draft.one_of_joined(noun.best(columns, least=6))
    level = next((level for level, one in noun.columns if best and one == best[0]), 0)
    if table is not None and table_level >= level:
        rival = [column for column in best if column.nature == "additive" and level >= CORE]
        same = bool(rival) and table_level - level < 5 and rival[0].words == table.words
        if same and "INT" in rival[0].type_name.upper():
            draft.take_column(place, rival[0])
            return _units(draft, rival[0])
        if same:
            raise Unreadable(
                f'"how many {chunk.text}" may count the rows of `{table.name}` or add up'
                f" `{rival[0].name}`; say `how many rows` or `total {rival[0].name}`",
                weight=draft.weight() + 10,
            )
        draft.take_table(place, table)
        if len(draft.scope.tables) > 1:
            _check_event(draft, place, set(table.stems), distinct=distinct)
        return Measure(aggregate="count", table=table.name)
    if noun.grain == "day" and level < STRONG:
        return _days(draft, place)
    column = _single(draft, chunk.text, best)
    if column is None:
        if table is not None or (noun.tables and not best):
            return _weak_table(draft, place)
        raise Unreadable(f'nothing here can be counted as "{chunk.text}"', weight=draft.weight())
    draft.take_column(place, column)
    if column.type == "number" and column.is_measure and not distinct:
        return _units(draft, column)
    if draft.scope.table(column.table).key == column and column.is_id:
        return Measure(aggregate="count", table=column.table)
    _check_event(draft, place, set(column.stems), distinct=distinct)
    return Measure(aggregate="distinct", table=column.table, column=column)


IRREGULAR_PARTICIPLES = frozenset(
    "sold bought lent read sent made taken given paid eaten driven flown rented worn hit held".split()
)


def _check_event(draft: Draft, place: int, stems: set[str], *, distinct: bool) -> None:
    """`How many books were borrowed?` may mean events or different books; persons are meant as such.

    Errors: `Unreadable` unless `different` was said.
    """
    if distinct or stems & lexicon.PERSONS:
        return
    following = place + 1
    passive = False
    while following < len(draft) and draft.chunks[following].kind == "filler":
        passive = passive or draft.chunks[following].text in ("was", "were", "been", "got", "get")
        following += 1
    if not passive or following >= len(draft):
        return
    text = draft.chunks[following].text
    if text.endswith("ed") or text in IRREGULAR_PARTICIPLES:
        noun = draft.chunks[place].text
        raise Unreadable(
            f'"how many {noun} were {text}" may count every time or each of the {noun} once; say'
            f" `how many different {noun}`, or count the rows of the table that records it",
            weight=draft.weight() + 10,
        )


def _weak_table(draft: Draft, place: int) -> Measure:
    noun = draft.chunks[place].noun
    assert noun is not None
    names = {table.name for table in draft.scope.tables}
    found = [table for _, table in noun.tables if table.name in names]
    if len(found) != 1:
        raise Unreadable(f'"{draft.chunks[place].text}" fits several tables', weight=draft.weight())
    draft.take_table(place, found[0])
    return Measure(aggregate="count", table=found[0].name)


def table_in_scope(draft: Draft, place: int) -> Table | None:
    noun = draft.chunks[place].noun
    table = noun.table if noun else None
    return table if table in draft.scope.tables else None


def _days(draft: Draft, place: int) -> Measure:
    dates = [column for table in draft.scope.tables for column in table.dates]
    if len(dates) != 1:
        raise Unreadable(
            "it is not clear the days of which date column should be counted", weight=draft.weight()
        )
    draft.take(place, level=HEAD)
    return Measure(aggregate="distinct", table=dates[0].table, column=dates[0])


def _single(draft: Draft, text: str, found: list[Column]) -> Column | None:
    if len(found) == 2 and found[0].table == found[1].table:
        keyed = [column for column in found if column.is_id]
        if len(keyed) == 1 and found[0].thing == found[1].thing:
            return keyed[0]
    if len(found) > 1:
        texts = [column for column in found if column.type in ("text", "truth")]
        if len(texts) == 1:
            return texts[0]
        raise draft.ambiguous(text, found)
    return found[0] if found else None


def _units(draft: Draft, column: Column) -> Measure:
    """`how many units`: the numbers are counts themselves and are added up."""
    if column.nature == "additive":
        why = f"`{column.name}` holds counts, so they are added up"
        return Measure(aggregate="sum", table=column.table, column=column, why=why)
    raise Unreadable(
        f"counting `{column.name}` may mean its rows, its distinct values or its total; say"
        f" `how many rows`, `how many different {column.name}` or `total {column.name}`",
        weight=draft.weight() + 10,
    )
