"""One more entry in a memory store: an event and no version, at the same cost however many there are."""

from __future__ import annotations

from hashlib import sha256
from typing import Any, NamedTuple

from artelier.artifacts import Working
from artelier.artifacts.content import canonical_json, decode_content
from artelier.artifacts.queries import Standing
from artelier.artifacts.write.state import PENDING
from artelier.errors import Conflict, InvalidArguments, InvalidRequest
from artelier.log import Blob, make_blob
from artelier.memory.entries import check_entry
from artelier.memory.index.near_duplicates import duplicate_key
from artelier.world.stores.embedding import embed, embedder_of, to_bytes
from artelier.world.stores.entries import (
    MILLION,
    Pending,
    StoreEntry,
    add,
    contents,
    entries_of,
    entry_of,
    pending_of,
    remove,
    rows_of,
    store_of,
    tags_of,
)
from artelier.world.stores.kind import MEMORY_STORE, StoreConfig, read_config

PRUNED_MAX = 1_000
"""Entries that one new entry may push out, after the limit was lowered."""

_PREFIX = "world:"


class AddedEntry(NamedTuple):
    """The result of adding an entry."""

    entry: str
    deduplicated: bool = False
    """There is one that says the same, under this id; nothing was added."""
    pruned: tuple[str, ...] = ()
    """Entries that went to make room."""


class _Counts(NamedTuple):
    """The counts of a store, with what is pending."""

    seed: int
    added: int
    """Ever."""
    entries: int


async def config_of(working: Working, standing: Standing) -> StoreConfig:
    """The config of a memory store that may be touched. Errors: `InvalidArguments` for another kind."""
    if standing.kind != MEMORY_STORE or standing.at is None:
        raise InvalidArguments(
            f"artifact {standing.id} is no memory store", expected=MEMORY_STORE, got=standing.kind
        )
    return read_config(decode_content(standing.at.media, await working.blob(standing.at.content)))


async def add_entry(
    working: Working, standing: Standing, *, text: str, tags: Any = (), importance: float = 0.5, actor: str
) -> AddedEntry:
    """Add an entry with its vector, unless one says the same. Whether `actor` may is the caller's to ask.

    Shapes: `standing` is that of the store.
    Errors: `InvalidArguments`; `EmbeddingFailed` and other errors of the embedder: then nothing was added.
    Cost:   one embedding, a few queries and one event, whatever the number of entries.
    """
    config = await config_of(working, standing)
    try:
        wanted = check_entry(text, tags, importance, "", "", "trusted")
    except InvalidRequest as error:
        raise InvalidArguments(error.message, expected=error.expected, got=error.got) from None
    store, key = standing.id, await working.key()
    blobs: list[Blob] = []

    def keep(content: bytes) -> Any:
        ref, blob = make_blob(working.tenant, key, content)
        blobs.append(blob)
        return ref

    mark = keep(sha256(duplicate_key(wanted.text)).digest())
    pending = pending_of(working, store)
    if (same := await _same(working, store, pending, mark, wanted.tags)) is not None:
        return AddedEntry(same, deduplicated=True)
    embedder = embedder_of(config)
    (vector,) = await embed(embedder, [wanted.text], dims=config.dims)
    counts = await _counts(working, store, pending)
    entry = StoreEntry(
        PENDING,
        await _fresh_id(working, store, counts),
        working.at_us,
        keep(wanted.text.encode()),
        keep(canonical_json(list(wanted.tags))) if wanted.tags else None,
        round(importance * MILLION),
        keep(to_bytes(vector)),
        embedder.name,
        mark,
    )
    going = await _going(working, store, config, pending, counts.entries + 1 - config.max_entries)
    for id_ in going:
        await remove(working, store, id_, why="pruned", actor=actor)
    await add(working, store, entry, actor=actor, blobs=blobs)
    return AddedEntry(entry.id, pruned=going)


async def copy_entries(working: Working, source_id: str, target_id: str) -> int:
    """Give a new memory store the entries of another one as of now; how many there are.

    They keep ids, ticks and vectors: nothing is embedded or paid for. Whether that may be is the caller's
    to ask, as is that both are memory stores; anything else has no entries, and nothing happens.
    Errors: `Conflict` if the target has entries already.
    """
    entries = await entries_of(working, source_id, limit=2**31)
    if await entries_of(working, target_id, limit=2**31):
        raise Conflict(f"memory store {target_id} has entries already")
    target = await working.standing(target_id)
    actor = target.owner if target is not None else "world"
    for entry in entries:
        await add(working, target_id, entry, actor=actor)
    return len(entries)


def entry_id(seed: int, store: str, tick: int, n: int, attempt: int) -> str:
    """The id of the n-th entry that a store was given; `attempt` counts ids that are taken."""
    digest = sha256(f"{seed}\n{store}\n{tick}\n{n}\n{attempt}".encode()).hexdigest()
    return f"mem_{digest[:8]}"


async def _fresh_id(working: Working, store: str, counts: _Counts) -> str:
    """The same whoever asks first: of two that add at once, one is refused and finds what the other did."""
    for attempt in range(100):
        id_ = entry_id(counts.seed, store, working.at_us, counts.added, attempt)
        if await entry_of(working, store, id_) is None:
            return id_
    raise Conflict(f"memory store {store} has no free id")


async def _same(
    working: Working, store: str, pending: Pending, mark: str, tags: tuple[str, ...]
) -> str | None:
    """An entry that says the same and has all these tags: the newest."""
    alike = [one for one in pending.added.values() if one.mark == mark]
    durable = await rows_of(working, store, " AND mark = ? ORDER BY n DESC LIMIT 8", (mark,))
    alike = [*reversed(alike), *(one for one in durable if one.id not in pending.removed)]
    for one in alike:
        found = await contents(working, [one.tags] if one.tags is not None else [])
        if set(tags) <= set(tags_of(one, found)):
            return one.id
    return None


async def is_empty(working: Working, store: str) -> bool:
    """Return True if a memory store has no entry, what is pending included. Cost: one query."""
    return (await _counts(working, store, pending_of(working, store))).entries == 0


async def _counts(working: Working, store: str, pending: Pending) -> _Counts:
    rows = await store_of(working).query(
        "SELECT w.seed, COALESCE(c.added, 0), COALESCE(c.entries, 0) FROM worlds w"
        " LEFT JOIN store_counts c ON c.tenant = w.tenant AND c.space = ? AND c.store = ?"
        " WHERE w.tenant = ? AND w.id = ?",
        (working.space, store, working.tenant, working.space.removeprefix(_PREFIX)),
    )
    seed, added, entries = rows[0] if rows else (0, 0, 0)
    return _Counts(seed, added + pending.adds, entries + pending.adds - pending.removals)


async def _going(
    working: Working, store: str, config: StoreConfig, pending: Pending, excess: int
) -> tuple[str, ...]:
    """Return what must go so that one more fits, the first to go first."""
    excess = min(excess, PRUNED_MAX)
    if excess <= 0:
        return ()
    by_score = config.auto_prune == "lowest_score"
    order = " ORDER BY importance, n LIMIT ?" if by_score else " ORDER BY n LIMIT ?"
    durable = await rows_of(working, store, order, (excess + len(pending.removed),))
    candidates = [one for one in durable if one.id not in pending.removed]
    candidates += pending.added.values()
    if by_score:
        candidates.sort(key=lambda one: one.importance)  # stable: of equal ones the oldest first
    return tuple(one.id for one in candidates[:excess])
