"""Joins: which two tables share a column, judged by names; the data is asked later if it really is a key."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations

from artelier.models.offline.reading import Join, Scope
from artelier.models.offline.schema import Column, Table

PAIRS_MAX = 60
_LOOSE = frozenset(
    tuple(name.split("_"))
    for name in (
        "id name title date note description comment type status created_at updated_at year month day time"
    ).split()
)
"""Names that two tables may share without meaning the same thing."""


def joined_scopes(tables: Sequence[Table], mentioned: Iterable[str]) -> list[Scope]:
    """Every pair of mentioned tables that can be joined, in the order of the tables."""
    wanted = set(mentioned)
    candidates = [table for table in tables if table.name in wanted]
    scopes = [
        scope for first, second in combinations(candidates, 2) if (scope := joined(first, second)) is not None
    ]
    return scopes[:PAIRS_MAX]


def joined(first: Table, second: Table) -> Scope | None:
    """The pair with its join, None if nothing joins it; several possible joins are a `problem`."""
    pairs = _foreign_keys(first, second) or _shared(first, second)
    if not pairs:
        return None
    if len(pairs) == 1:
        return Scope(tables=(first, second), join=Join(left=pairs[0][0], right=pairs[0][1]))
    names = ", ".join(f"`{left.name}`" for left, _ in pairs)
    return Scope(
        tables=(first, second),
        join=Join(left=pairs[0][0], right=pairs[0][1]),
        problem=(
            f"`{first.name}` and `{second.name}` share several columns ({names}); it is not clear which one"
            " joins them"
        ),
    )


def _shared(first: Table, second: Table) -> list[tuple[Column, Column]]:
    """Equally named columns; keys win over others, those named after a table over the rest."""
    by_name = {column.words: column for column in second.columns}
    pairs = [
        (column, by_name[column.words])
        for column in first.columns
        if column.words in by_name and column.words not in _LOOSE and column.words
        if column.type == by_name[column.words].type and column.type in ("text", "number")
        if not column.is_measure
    ]
    keys = [pair for pair in pairs if pair[0].is_id]
    named = [pair for pair in pairs if pair[0].words[-1:] in (first.words[-1:], second.words[-1:])]
    for better in (keys, named):
        if better:
            pairs = better
            break
    if len(pairs) > 1:
        things = [pair for pair in pairs if _is_thing_of(pair[0], first, second)]
        pairs = things if len(things) == 1 else pairs
    return pairs


def _is_thing_of(column: Column, first: Table, second: Table) -> bool:
    return column.thing[-1:] in (first.words[-1:], second.words[-1:])


def _foreign_keys(first: Table, second: Table) -> list[tuple[Column, Column]]:
    """`orders.customer_id` with `customers.id`."""
    pairs: list[tuple[Column, Column]] = []
    for one, other, flipped in ((first, second, False), (second, first, True)):
        key = next((column for column in other.columns if column.words == ("id",)), None)
        if key is None:
            continue
        for column in one.columns:
            if column.is_id and column.thing and column.thing == other.words[-len(column.thing) :]:
                if column.type == key.type:
                    pairs.append((key, column) if flipped else (column, key))
    return pairs
