"""The view of memories: entries, marks, blocks, and every change with the key that it was made under.

A key, an id or a text that is there already refuses the batch: what happens once is decided here, in the
transaction of the event, and nowhere else. Nothing here reads a blob or calls an embedder.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import cast

from artelier.errors import Conflict, NotFound
from artelier.log import Applied, Tx, View, blob_name
from artelier.memory import events as ev

memory_view = View(
    name="memory",
    version=1,
    tables=("memory_stores", "memory_entries", "memory_blocks", "memory_changes"),
    schema=(
        # `id` is the position of the event that opened it; `changed` that of its newest change.
        """CREATE TABLE memory_stores(
            id INTEGER PRIMARY KEY, tenant TEXT NOT NULL, space TEXT NOT NULL, artifact TEXT NOT NULL,
            agent TEXT NOT NULL, entries INTEGER NOT NULL, added INTEGER NOT NULL,
            changed INTEGER NOT NULL, UNIQUE(tenant, space, artifact)) STRICT""",
        # `moved` is the position of the event that added, removed, restored or weighed it last.
        """CREATE TABLE memory_entries(
            store INTEGER NOT NULL, id TEXT NOT NULL, content BLOB NOT NULL, vector BLOB,
            embedder TEXT NOT NULL, mark INTEGER NOT NULL, importance INTEGER NOT NULL,
            trust TEXT NOT NULL, run TEXT, at_us INTEGER NOT NULL, position INTEGER NOT NULL,
            gone TEXT NOT NULL, moved INTEGER NOT NULL,
            PRIMARY KEY(store, id)) STRICT, WITHOUT ROWID""",
        "CREATE INDEX memory_entries_by_age ON memory_entries(store, position) WHERE gone = ''",
        "CREATE INDEX memory_entries_by_weight ON memory_entries(store, importance, position)"
        " WHERE gone = ''",
        "CREATE INDEX memory_entries_by_mark ON memory_entries(mark) WHERE gone = ''",
        "CREATE INDEX memory_entries_by_move ON memory_entries(store, moved) WHERE moved <> position",
        """CREATE TABLE memory_blocks(
            store INTEGER NOT NULL, label TEXT NOT NULL, artifact TEXT NOT NULL,
            limit_chars INTEGER NOT NULL, position INTEGER NOT NULL,
            PRIMARY KEY(store, label)) STRICT, WITHOUT ROWID""",
        """CREATE TABLE memory_changes(
            store INTEGER NOT NULL, seq INTEGER NOT NULL, stream INTEGER NOT NULL,
            kind TEXT NOT NULL, key TEXT, at_us INTEGER NOT NULL, actor TEXT NOT NULL,
            run TEXT, undone INTEGER,
            PRIMARY KEY(store, seq)) STRICT, WITHOUT ROWID""",
        "CREATE UNIQUE INDEX memory_changes_by_key ON memory_changes(store, key) WHERE key IS NOT NULL",
        "CREATE INDEX memory_changes_by_undo ON memory_changes(store, undone) WHERE undone IS NOT NULL",
    ),
)


class KeyApplied(Conflict):
    """This key was applied to this memory before."""

    code = "key_applied"


class IdTaken(Conflict):
    """Another entry has this id."""

    code = "id_taken"


class TextKnown(Conflict):
    """A living entry says the same: fact `id`."""

    code = "text_known"


def _store_of(event: Applied, tx: Tx) -> int:
    data = cast(ev.Keyed, event.data)
    row = tx.one(
        "SELECT id FROM memory_stores WHERE tenant = ? AND space = ? AND artifact = ?",
        (event.stream.tenant, event.stream.space, data.store),
    )
    if row is None:
        raise NotFound(f"no memory {data.store} was opened")
    return row[0]


def _apply_change(event: Applied, tx: Tx, store: int, *, entries: int = 0, added: int = 0) -> None:
    """Count, and record the change under its key."""
    data = cast(ev.Keyed, event.data)
    tx.execute(
        "UPDATE memory_stores SET changed = ?, entries = entries + ?, added = added + ? WHERE id = ?",
        (event.position, entries, added, store),
    )
    done = tx.execute(
        "INSERT INTO memory_changes VALUES (?, ?, ?, ?, ?, ?, ?, ?, NULL) ON CONFLICT DO NOTHING",
        (store, event.seq, event.stream_id, data.KIND, data.key, event.at_us, event.actor, data.run_id),
    )
    if done.rowcount != 1:
        raise KeyApplied(f"this key was applied to {data.store} before", got=data.key)


def _take_back(event: Applied, tx: Tx, store: int, change: int) -> None:
    """Mark a change as undone; what it had itself undone counts again."""
    done = tx.execute(
        "UPDATE memory_changes SET undone = ? WHERE store = ? AND seq = ? AND undone IS NULL",
        (event.seq, store, change),
    )
    if done.rowcount != 1:
        raise Conflict(f"change {change} cannot be undone", got="it was undone already")
    tx.execute("UPDATE memory_changes SET undone = NULL WHERE store = ? AND undone = ?", (store, change))


def _remove(event: Applied, tx: Tx, store: int, ids: Iterable[str], why: str) -> int:
    """Return how many of them were there."""
    return sum(
        tx.execute(
            "UPDATE memory_entries SET gone = ?, moved = ? WHERE store = ? AND id = ? AND gone = ''",
            (why, event.position, store, id_),
        ).rowcount
        for id_ in ids
    )


def _restore(event: Applied, tx: Tx, store: int, ids: Iterable[str]) -> int:
    return sum(
        tx.execute(
            "UPDATE memory_entries SET gone = '', moved = ? WHERE store = ? AND id = ? AND gone <> ''",
            (event.position, store, id_),
        ).rowcount
        for id_ in ids
    )


def _weigh(event: Applied, tx: Tx, store: int, raised: Sequence[ev.Raised]) -> None:
    for one in raised:
        tx.execute(
            "UPDATE memory_entries SET importance = ?, moved = ? WHERE store = ? AND id = ?",
            (one.after, event.position, store, one.id),
        )


@memory_view.on(ev.MemoryOpened)
def _apply_opened(event: Applied, tx: Tx) -> None:
    data = cast(ev.MemoryOpened, event.data)
    tenant, space, _ = event.stream
    tx.execute(
        "INSERT INTO memory_stores VALUES (?, ?, ?, ?, ?, 0, 0, ?)",
        (event.position, tenant, space, data.store, data.agent, event.position),
    )


@memory_view.on(ev.MemoryAdded)
def _apply_added(event: Applied, tx: Tx) -> None:
    data, store = cast(ev.MemoryAdded, event.data), _store_of(event, tx)
    if data.within:
        tx.execute(
            "UPDATE memory_stores SET changed = ?, entries = entries + 1, added = added + 1 WHERE id = ?",
            (event.position, store),
        )
    else:
        _apply_change(event, tx, store, entries=1, added=1)
    known = (
        None
        if data.beside
        else tx.one(
            # `+` keeps SQLite from walking through the whole store along its primary key.
            "SELECT id FROM memory_entries WHERE mark = ? AND +store = ? AND gone = '' LIMIT 1",
            (data.mark, store),
        )
    )
    if known is not None:
        raise TextKnown(f"entry {known[0]} says the same", id=known[0])
    vector = None if data.vector is None else blob_name(data.vector)
    done = tx.execute(
        "INSERT INTO memory_entries VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, '', ?) ON CONFLICT DO NOTHING",
        (
            store,
            data.id,
            blob_name(data.content),
            vector,
            data.embedder,
            data.mark,
            data.importance,
            data.trust,
            data.run_id,
            event.at_us,
            event.position,
            event.position,
        ),
    )
    if done.rowcount != 1:
        raise IdTaken(f"another entry is called {data.id}")


@memory_view.on(ev.MemoryRemoved)
def _apply_removed(event: Applied, tx: Tx) -> None:
    data, store = cast(ev.MemoryRemoved, event.data), _store_of(event, tx)
    gone = _remove(event, tx, store, data.ids, "removed")
    if gone != len(data.ids):
        raise NotFound("an entry was forgotten already", got=", ".join(data.ids)[:200])
    _apply_change(event, tx, store, entries=-gone)


@memory_view.on(ev.MemoryPruned)
def _apply_pruned(event: Applied, tx: Tx) -> None:
    data, store = cast(ev.MemoryPruned, event.data), _store_of(event, tx)
    # Two that add at once may choose the same entries: each goes once.
    _apply_change(event, tx, store, entries=-_remove(event, tx, store, data.ids, "pruned"))


@memory_view.on(ev.MemoryConsolidated)
def _apply_consolidated(event: Applied, tx: Tx) -> None:
    data, store = cast(ev.MemoryConsolidated, event.data), _store_of(event, tx)
    wanted = [id_ for merged in data.merged for id_ in merged.removed]
    gone = _remove(event, tx, store, wanted, "merged")
    gone += _remove(event, tx, store, data.aged, "aged")
    gone += _remove(event, tx, store, data.boot, "boot")
    if gone != len(wanted) + len(data.aged) + len(data.boot):
        raise Conflict("the memory changed while it was consolidated", hint="Consolidate again.")
    _weigh(event, tx, store, data.raised)
    _apply_change(event, tx, store, entries=-gone)


@memory_view.on(ev.MemoryRestored)
def _apply_restored(event: Applied, tx: Tx) -> None:
    data, store = cast(ev.MemoryRestored, event.data), _store_of(event, tx)
    _take_back(event, tx, store, data.change)
    gone = _remove(event, tx, store, data.removed, "undone")
    back = _restore(event, tx, store, data.restored)
    _weigh(event, tx, store, data.raised)
    _apply_change(event, tx, store, entries=back - gone)


@memory_view.on(ev.BlockWritten)
def _block_written(event: Applied, tx: Tx) -> None:
    data, store = cast(ev.BlockWritten, event.data), _store_of(event, tx)
    if data.change is not None:
        _take_back(event, tx, store, data.change)
    _apply_change(event, tx, store)


@memory_view.on(ev.BlockAttached)
def _block_attached(event: Applied, tx: Tx) -> None:
    data, store = cast(ev.BlockAttached, event.data), _store_of(event, tx)
    if data.change is not None:
        _take_back(event, tx, store, data.change)
    tx.execute(
        "INSERT INTO memory_blocks VALUES (?, ?, ?, ?, ?) ON CONFLICT(store, label) DO UPDATE SET"
        " artifact = excluded.artifact, limit_chars = excluded.limit_chars",
        (store, data.label, data.artifact, data.limit_chars, event.position),
    )
    _apply_change(event, tx, store)


@memory_view.on(ev.BlockDetached)
def _block_detached(event: Applied, tx: Tx) -> None:
    data, store = cast(ev.BlockDetached, event.data), _store_of(event, tx)
    if data.change is not None:
        _take_back(event, tx, store, data.change)
    done = tx.execute(
        "DELETE FROM memory_blocks WHERE store = ? AND label = ? AND artifact = ?",
        (store, data.label, data.artifact),
    )
    if done.rowcount != 1:
        raise NotFound(f"no block {data.label} holds {data.artifact}")
    _apply_change(event, tx, store)
