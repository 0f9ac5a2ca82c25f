"""Entries of memory stores: rows of the view, and what a working state has added and removed over them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, cast

from artelier.artifacts import Stage, StoreStage, Working
from artelier.artifacts.content import decode_content
from artelier.artifacts.queries import Standing
from artelier.artifacts.write.state import PENDING
from artelier.errors import CorruptStore, Erased, InvalidArtifact, NotFound
from artelier.log import Blob, BlobRef, Store, blob_name, blob_ref, missing_mark
from artelier.world.events import EntryAdded, EntryRemoved
from artelier.world.stores.embedding import as_numbers, from_bytes
from artelier.world.stores.kind import MEMORY_STORE

WHOLE_MAX = 10_000
"""Entries that are read at once (guess: 40 MB of JSON)."""

MILLION = 1_000_000
"""Importance is stored in millionths."""

_AT_ONCE = 500
"""Names of blobs in one query."""

_COLUMNS = "n, entry, tick, text, tags, importance, vector, embedder, mark"
_HERE = " FROM store_entries WHERE tenant = ? AND space = ? AND store = ?"


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


class StoreChange(NamedTuple):
    """The newest change of a store in a working state, and through `before` all others.

    A chain, because a working state that is dropped must leave the one below as it was: adding is O(1).
    """

    before: StoreChange | None
    added: StoreEntry | None
    removed: str
    adds: int
    """Of the whole chain."""
    removals: int


class Pending(NamedTuple):
    """The pending changes of a working state to a store."""

    added: Mapping[str, StoreEntry]
    """By id, in order, those left out that were removed again."""
    removed: frozenset[str]
    adds: int
    removals: int


def store_of(stage: Stage) -> Store:
    """The store below a stage."""
    ground = stage.ground if isinstance(stage, Working) else stage
    assert isinstance(ground, StoreStage), "memory stores stand in a store"
    return ground.store


def pending_of(stage: Stage, id: str) -> Pending:
    """Cost: O(changes of this store in the working state)."""
    newest: StoreChange | None = stage.pending(("entries", id))
    chain: list[StoreChange] = []
    change = newest
    while change is not None:
        chain.append(change)
        change = change.before
    added: dict[str, StoreEntry] = {}
    removed: set[str] = set()
    for change in reversed(chain):
        if change.added is not None:
            added[change.added.id] = change.added
        elif added.pop(change.removed, None) is None:
            removed.add(change.removed)
    adds, removals = (newest.adds, newest.removals) if newest else (0, 0)
    return Pending(added, frozenset(removed), adds, removals)


async def add(working: Working, store: str, entry: StoreEntry, *, actor: str, blobs: Iterable[Blob] = ()):
    """Take up one more entry."""
    event = EntryAdded(
        store=store,
        entry=entry.id,
        text=BlobRef(entry.text),
        importance=entry.importance,
        tags=None if entry.tags is None else BlobRef(entry.tags),
        vector=BlobRef(entry.vector),
        embedder=entry.embedder,
        mark=BlobRef(entry.mark),
        tick=None if entry.tick == working.at_us else entry.tick,
    )
    await working.apply(event, actor=actor, blobs=blobs)
    _keep(working, store, added=entry._replace(n=PENDING))


async def remove(working: Working, store: str, id: str, *, why: str, actor: str) -> None:
    """Take up that an entry goes."""
    await working.apply(EntryRemoved(store=store, entry=id, why=why), actor=actor)
    _keep(working, store, removed=id)


def _keep(working: Working, store: str, *, added: StoreEntry | None = None, removed: str = "") -> None:
    before: StoreChange | None = working.pending(("entries", store))
    adds, removals = (before.adds, before.removals) if before else (0, 0)
    change = StoreChange(before, added, removed, adds + (added is not None), removals + bool(removed))
    working.keep(("entries", store), change)


# Reading


async def rows_of(
    stage: Stage, store: str, more: str = "", parameters: Sequence[Any] = ()
) -> list[StoreEntry]:
    """Durable entries, by what follows the condition that names the store."""
    rows = await store_of(stage).query(
        f"SELECT {_COLUMNS}{_HERE}{more}", (stage.tenant, stage.space, store, *parameters)
    )
    return [StoreEntry(*row) for row in rows]


async def entries_of(stage: Stage, store: str, *, limit: int = WHOLE_MAX) -> list[StoreEntry]:
    """All entries of a store, oldest first.

    Errors: `InvalidArtifact` if there are more than `limit`.
    """
    pending = pending_of(stage, store)
    most = limit + len(pending.removed) + 1
    durable = await rows_of(stage, store, " ORDER BY n LIMIT ?", (most,))
    living = [entry for entry in durable if entry.id not in pending.removed]
    living += pending.added.values()
    if len(living) > limit:
        raise InvalidArtifact(
            f"memory store {store} has too many entries to be read at once",
            expected=f"at most {limit}",
            hint=f"Search it, or read one entry as {store}#<entry>.",
        )
    return living


async def entry_of(stage: Stage, store: str, id: str) -> StoreEntry | None:
    """One living entry. Cost: O(1), and what is pending."""
    pending = pending_of(stage, store)
    if id in pending.added or id in pending.removed:
        return pending.added.get(id)
    rows = await rows_of(stage, store, " AND entry = ?", (id,))
    return rows[0] if rows else None


async def contents(stage: Stage, refs: Iterable[str]) -> dict[str, bytes]:
    """Content behind references, a query for many of them; what was erased is left out."""
    wanted, found = list(dict.fromkeys(refs)), dict[str, bytes]()
    for start in range(0, len(wanted), _AT_ONCE):
        names = [blob_name(ref) for ref in wanted[start : start + _AT_ONCE]]
        stored = await store_of(stage).blobs(stage.tenant, names)
        found.update({blob_ref(name): content for name, content in stored.items()})
    for ref in wanted:
        if ref not in found:
            try:
                found[ref] = await stage.blob(ref)  # pending, or erased
            except NotFound:
                continue
    return found


async def whole(
    stage: Stage, standing: Standing, content: Any, *, part: str | None = None, has_vectors: bool = True
) -> Any:
    """Content of a memory store with its entries as they are now, or with the one that is read.

    Shapes: `{..., entries: [{id, tick, text, tags, importance, embedding}]}`, oldest first; without
    `embedding`, 4 KB of numbers, for those who read in words.
    Errors: `InvalidArtifact` for more than can be read at once.
    """
    if standing.kind != MEMORY_STORE or not isinstance(content, dict):
        return content
    said = cast("dict[str, Any]", content)
    if part is None:
        entries = await entries_of(stage, standing.id)
    else:
        one = await entry_of(stage, standing.id, part)
        entries = [] if one is None else [one]
    named = [(one.text, one.tags, one.vector if has_vectors else None) for one in entries]
    found = await contents(stage, (ref for refs in named for ref in refs if ref is not None))
    gone = next((entry.text for entry in entries if entry.text not in found), None)
    mark = Erased.mark
    if gone is not None:
        mark = await missing_mark(store_of(stage), stage.tenant, blob_name(gone))
    told = [entry_as_read(entry, found, mark=mark) for entry in entries]
    if not has_vectors:
        for one in told:
            del one["embedding"]
    return {**said, "entries": told}


def entry_as_read(entry: StoreEntry, found: Mapping[str, bytes], *, mark: str) -> dict[str, Any]:
    """An entry as it is read; `mark` stands for a text that is gone."""
    vector = found.get(entry.vector)
    return {
        "id": entry.id,
        "tick": entry.tick,
        "text": text_of(entry, found) or mark,
        "tags": tags_of(entry, found),
        "importance": entry.importance / MILLION,
        "embedding": [] if vector is None else as_numbers(from_bytes(vector)),
    }


def text_of(entry: StoreEntry, found: Mapping[str, bytes]) -> str:
    """Empty for what was erased."""
    return found.get(entry.text, b"").decode(errors="replace")


def tags_of(entry: StoreEntry, found: Mapping[str, bytes]) -> list[str]:
    stored = found.get(entry.tags) if entry.tags is not None else None
    if stored is None:
        return []
    tags = decode_content("json", stored)
    if not isinstance(tags, list):
        raise CorruptStore(f"the tags of entry {entry.id} are no list")
    return [tag for tag in cast("list[Any]", tags) if isinstance(tag, str)]
