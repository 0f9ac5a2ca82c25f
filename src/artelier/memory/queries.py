"""Reads of memories: where one stands, its entries, its blocks, and the changes that were made to it."""

from __future__ import annotations

from typing import Literal, NamedTuple

from artelier.ids import MAIN_SPACE
from artelier.kernel.queries.tenants import KIN, kin_of
from artelier.log import Store, Tx
from artelier.log.queries import EventRow, events_at, fetch_all, fetch_column, fetch_first, fetch_value


class MemoryRow(NamedTuple):
    """A memory with the artifact that governs it."""

    id: int
    entries: int
    """Living ones."""
    changed: int
    """Position of its newest change."""
    config: str
    """Reference to its artifact's content."""
    embedder: str | None
    """Who made the vectors of its entries; None without living entries."""
    applied: int | None
    """Seq of the change under the key that was asked about."""
    known: str | None
    """The newest living entry with the mark that was asked about."""
    owner: str
    access: str
    deleted: int


class EntryRow(NamedTuple):
    """An entry, living or not; its text is content."""

    id: str
    embedder: str
    importance: int
    trust: str
    run: str | None
    at_us: int
    position: int
    gone: str
    """The kind of change that removed it; empty while it lives."""
    moved: int
    content: bytes
    vector: bytes | None


class ChangeRow(NamedTuple):
    """A change of a memory."""

    kind: str
    at_us: int
    actor: str
    run: str | None
    undone: int | None
    """The change that took it back."""


class BlockRow(NamedTuple):
    """A block that was attached to a memory."""

    label: str
    artifact: str
    limit_chars: int


# One statement, because each remembered fact needs all of it.
_OPENED = (
    "SELECT m.id, m.entries, m.changed, a.content,"
    " (SELECT e.embedder FROM memory_entries e WHERE e.store = m.id AND e.gone = ''"
    "  ORDER BY e.position LIMIT 1),"
    " (SELECT c.seq FROM memory_changes c WHERE c.store = m.id AND c.key = ?),"
    " (SELECT e.id FROM memory_entries e WHERE +e.store = m.id AND e.mark = ? AND e.gone = ''"
    "  ORDER BY e.position DESC LIMIT 1),"
    " a.owner, a.access, a.deleted"
    " FROM memory_stores m"
    " JOIN artifact_heads a ON a.tenant = m.tenant AND a.space = m.space AND a.id = m.artifact"
    " WHERE m.tenant = ? AND m.space = ? AND m.artifact = ?"
)
_ENTRY = f"SELECT {', '.join(EntryRow._fields)} FROM memory_entries"


async def find_memory(store: Store, tenant: str, artifact: str) -> int | None:
    """Return the row of a memory; None if nothing was ever changed in it."""
    return await fetch_value(
        store,
        "SELECT id FROM memory_stores WHERE tenant = ? AND space = ? AND artifact = ?",
        (tenant, MAIN_SPACE, artifact),
    )


async def memory_row(
    store: Store, tenant: str, artifact: str, *, key: str | None = None, mark: int | None = None
) -> MemoryRow | None:
    """Return a memory as it stands, with what a key and a mark stand for in it; None as for `find_memory`."""
    return await fetch_first(store, MemoryRow, _OPENED, (key, mark, tenant, MAIN_SPACE, artifact))


async def agent_of(store: Store, tenant: str, artifact: str) -> str | None:
    """Return the agent whose memory an artifact is; None if it is no memory, or nothing was changed in it."""
    return await fetch_value(
        store,
        "SELECT agent FROM memory_stores WHERE tenant = ? AND space = ? AND artifact = ?",
        (tenant, MAIN_SPACE, artifact),
    )


async def memory_sizes(
    store: Store, tenant: str, *, after: str = "", below: str = "", limit: int
) -> list[tuple[str, int]]:
    """Return `(agent, living entries)` of memories, by agent: those of agents behind `after`, or with a name
    that begins with `below`."""
    return await store.query(
        "SELECT agent, entries FROM memory_stores WHERE tenant = ? AND space = ? AND agent > ?"
        " AND substr(agent, 1, ?) = ? ORDER BY agent LIMIT ?",
        (tenant, MAIN_SPACE, after, len(below), below, limit),
    )


async def memory_size(store: Store, tenant: str, agent: str) -> int | None:
    """Return the living entries of an agent's memory; None if it has none."""
    return await fetch_value(
        store,
        "SELECT entries FROM memory_stores WHERE tenant = ? AND space = ? AND agent = ?",
        (tenant, MAIN_SPACE, agent),
    )


async def embedder_of(store: Store, memory: int) -> str | None:
    """Return who made the vectors of a memory; None without living entries."""
    return await fetch_value(
        store,
        "SELECT embedder FROM memory_entries WHERE store = ? AND gone = '' ORDER BY position LIMIT 1",
        (memory,),
    )


# Entries


async def find_entry(store: Store, memory: int, id: str) -> EntryRow | None:
    """Return an entry, living or not."""
    return await fetch_first(store, EntryRow, f"{_ENTRY} WHERE store = ? AND id = ?", (memory, id))


async def entries_after(store: Store, memory: int, position: int, *, limit: int) -> list[EntryRow]:
    """Return living entries in the order in which they were added."""
    return await fetch_all(
        store,
        EntryRow,
        f"{_ENTRY} WHERE store = ? AND gone = '' AND position > ? ORDER BY position LIMIT ?",
        (memory, position, limit),
    )


async def moved_since(store: Store, memory: int, position: int) -> list[tuple[str, bool]]:
    """Return `(id, whether it lives)` of entries that were removed, restored or weighed since a position."""
    rows = await store.query(
        "SELECT id, gone = '' FROM memory_entries WHERE store = ? AND moved > ? AND moved <> position",
        (memory, position),
    )
    return [(id_, bool(lives)) for id_, lives in rows]


async def prunable(
    store: Store, memory: int, *, first: Literal["oldest", "least_important"], limit: int
) -> tuple[str, ...]:
    """Return the living entries that go first when there are too many."""
    order = "position" if first == "oldest" else "importance, position"
    return tuple(
        await fetch_column(
            store,
            f"SELECT id FROM memory_entries WHERE store = ? AND gone = '' ORDER BY {order} LIMIT ?",
            (memory, limit),
        )
    )


# Blocks


async def attached_blocks(store: Store, memory: int) -> list[BlockRow]:
    """Return the blocks that are attached, in the order of attaching."""
    return await fetch_all(
        store,
        BlockRow,
        "SELECT label, artifact, limit_chars FROM memory_blocks WHERE store = ? ORDER BY position, label",
        (memory,),
    )


async def find_block(store: Store, memory: int, label: str) -> BlockRow | None:
    """Return the block that is attached under a label."""
    return await fetch_first(
        store,
        BlockRow,
        "SELECT label, artifact, limit_chars FROM memory_blocks WHERE store = ? AND label = ?",
        (memory, label),
    )


# Changes


async def changes_before(store: Store, memory: int, seq: int, *, limit: int) -> list[int]:
    """Return the numbers of changes, newest first."""
    return await fetch_column(
        store,
        "SELECT seq FROM memory_changes WHERE store = ? AND seq < ? ORDER BY seq DESC LIMIT ?",
        (memory, seq, limit),
    )


async def find_change(store: Store, memory: int, seq: int) -> ChangeRow | None:
    """Return a change by its number."""
    return await fetch_first(
        store,
        ChangeRow,
        "SELECT kind, at_us, actor, run, undone FROM memory_changes WHERE store = ? AND seq = ?",
        (memory, seq),
    )


async def change_under(store: Store, memory: int, key: str) -> int | None:
    """Return the number of the change that a key made."""
    return await fetch_value(
        store, "SELECT seq FROM memory_changes WHERE store = ? AND key = ?", (memory, key)
    )


async def newest_standing(store: Store, memory: int, kind: str) -> int:
    """Return the number of the newest change of a kind that was not undone; 0 without one."""
    rows = await store.query(
        "SELECT max(seq) FROM memory_changes WHERE store = ? AND kind = ? AND undone IS NULL", (memory, kind)
    )
    return rows[0][0] or 0


async def changed_blocks(store: Store, memory: int, *, after: int, upto: int, limit: int) -> list[EventRow]:
    """Return the changes of blocks behind a number, up to a position, oldest first."""
    rows = await store.query(
        "SELECT stream, seq FROM memory_changes WHERE store = ? AND seq > ? AND kind LIKE 'block.%'"
        " ORDER BY seq LIMIT ?",
        (memory, after, limit),
    )
    found = await events_at(store, rows[0][0], [seq for _, seq in rows]) if rows else {}
    return [event for _, event in sorted(found.items()) if event.position <= upto]


async def count_changes(store: Store, tenant: str, artifact: str) -> int:
    """Return how often a memory was changed."""
    return await fetch_value(
        store,
        "SELECT count(*) FROM memory_changes c JOIN memory_stores m ON m.id = c.store"
        " WHERE m.tenant = ? AND m.space = ? AND m.artifact = ?",
        (tenant, MAIN_SPACE, artifact),
    )


# The memories of an agent and its sub-agents


class KinMemory(NamedTuple):
    """The memory of an agent or of one of its sub-agents."""

    id: int
    artifact: str
    agent: str


_KIN_MEMORY = f"SELECT id, artifact, agent FROM memory_stores WHERE tenant = ? AND {KIN}"


async def kin_memories(store: Store, tenant: str, agent: str, *, upto: int) -> list[KinMemory]:
    """Return the memories of an agent and its sub-agents in which something was changed up to a position."""
    return await fetch_all(
        store,
        KinMemory,
        f"{_KIN_MEMORY} AND space = ? AND id <= ?",
        (tenant, *kin_of(agent), MAIN_SPACE, upto),
    )


async def kin_memory(store: Store, tenant: str, agent: str) -> str | None:
    """Return a memory of an agent or one of its sub-agents, as its artifact."""
    rows = await store.query(f"{_KIN_MEMORY} LIMIT 1", (tenant, *kin_of(agent)))
    return rows[0][1] if rows else None


def kin_memory_in(tx: Tx, tenant: str, agent: str) -> str | None:
    """Return the same as `kin_memory`, in a transaction."""
    row = tx.one(f"{_KIN_MEMORY} LIMIT 1", (tenant, *kin_of(agent)))
    return row[1] if row else None


async def kin_entries(store: Store, tenant: str, agent: str) -> int:
    """Return how many living entries the memories of an agent and its sub-agents have."""
    return await fetch_value(
        store,
        f"SELECT coalesce(sum(entries), 0) FROM memory_stores WHERE tenant = ? AND {KIN}",
        (tenant, *kin_of(agent)),
    )
