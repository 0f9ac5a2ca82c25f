"""Reads of the entries of memory stores."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from artelier.log import Store

ALIKE_MAX = 8
"""Newest entries that say the same and are looked at (a guess)."""


class StoreEntry(NamedTuple):
    """One entry, its text, tags and vector behind references."""

    n: int
    """Seq of its event; entries are in this order. One that no event has made yet is newer than all."""
    id: str
    tick: int
    text: str
    tags: str | None
    importance: int
    vector: str
    embedder: str
    mark: str


class EntryCounts(NamedTuple):
    """The seed of the world, and how many entries a store has had and has."""

    seed: int
    added: int
    entries: int


async def _entries(store: Store, key: tuple[str, str, str], more: str, *values: Any) -> list[StoreEntry]:
    rows = await store.query(
        "SELECT n, entry, tick, text, tags, importance, vector, embedder, mark FROM store_entries"
        f" WHERE tenant = ? AND space = ? AND store = ?{more}",
        (*key, *values),
    )
    return [StoreEntry(*row) for row in rows]


async def oldest_entries(store: Store, key: tuple[str, str, str], *, limit: int) -> list[StoreEntry]:
    """Return entries of a memory store, the oldest first. Shapes: `key` is tenant, space and store."""
    return await _entries(store, key, " ORDER BY n LIMIT ?", limit)


async def least_entries(store: Store, key: tuple[str, str, str], *, limit: int) -> list[StoreEntry]:
    """Return the least important entries, of equal ones the oldest first."""
    return await _entries(store, key, " ORDER BY importance, n LIMIT ?", limit)


async def find_entry(store: Store, key: tuple[str, str, str], entry: str) -> StoreEntry | None:
    """Return an entry; None if there is none."""
    found = await _entries(store, key, " AND entry = ?", entry)
    return found[0] if found else None


async def entries_marked(store: Store, key: tuple[str, str, str], mark: str) -> list[StoreEntry]:
    """Return the newest entries of a mark, the newest first."""
    return await _entries(store, key, " AND mark = ? ORDER BY n DESC LIMIT ?", mark, ALIKE_MAX)


async def entries_between(
    store: Store, key: tuple[str, str, str], *, after: int, upto: int, limit: int
) -> list[StoreEntry]:
    """Return entries with `after < n <= upto`, the oldest first."""
    return await _entries(store, key, " AND n > ? AND n <= ? ORDER BY n LIMIT ?", after, upto, limit)


async def removed_between(store: Store, key: tuple[str, str, str], *, after: int, upto: int) -> list[str]:
    """Return the ids of entries that were removed by events with `after < seq <= upto`."""
    rows = await store.query(
        "SELECT entry FROM store_removals WHERE tenant = ? AND space = ? AND store = ? AND n > ? AND n <= ?",
        (*key, after, upto),
    )
    return [entry for (entry,) in rows]


async def changed_at(store: Store, key: tuple[str, str, str]) -> int:
    """Return the seq of the newest change of a memory store; 0 if it never had an entry."""
    rows = await store.query(
        "SELECT changed FROM store_counts WHERE tenant = ? AND space = ? AND store = ?", key
    )
    return rows[0][0] if rows else 0


async def entry_counts(store: Store, key: tuple[str, str, str], *, world: str) -> EntryCounts:
    """Return the counts of a memory store; zeros outside of a world."""
    tenant, space, name = key
    rows: Sequence[tuple[Any, ...]] = await store.query(
        "SELECT w.seed, COALESCE(c.added, 0), COALESCE(c.entries, 0) FROM worlds w"
        " LEFT JOIN store_counts c ON c.tenant = w.tenant AND c.space = ? AND c.store = ?"
        " WHERE w.tenant = ? AND w.id = ?",
        (space, name, tenant, world),
    )
    return EntryCounts(*rows[0]) if rows else EntryCounts(0, 0, 0)
