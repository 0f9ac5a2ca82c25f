"""Search in a memory store: by meaning and by words, over what is durable and what is pending."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple
from weakref import WeakKeyDictionary

import msgspec

from artelier.artifacts import Stage, Working
from artelier.artifacts.content import canonical_json
from artelier.artifacts.queries import Standing
from artelier.errors import InvalidArguments, InvalidRequest
from artelier.log import Store
from artelier.memory.entries import check_query
from artelier.memory.index.index_entry import Record
from artelier.world.queries.worlds import changed_at, entries_between, removed_between
from artelier.world.stores.entries import (
    MILLION,
    StoreEntry,
    config_of,
    contents,
    embed,
    embedder_of,
    from_bytes,
    key_of,
    pending_of,
    store_of,
    tags_of,
    text_of,
)

if TYPE_CHECKING:
    from artelier.memory.index.memory_index import MemoryIndex
    from artelier.ports.memory import Vector


# --------------------------------------------------------------------------- index cache
# The memory stores that this process has loaded: one index each, brought up to date, under one shared
# limit.
# An index answers what is alike, never what exists. It holds entries that no event has made yet only
# while a search runs.


ENTRIES_HELD_MAX = 50_000
"""Over all indexes of a process (guess: 150 MB); the ones not searched for longest go first."""

ENTRIES_LEAST = 64
"""What an index counts at least: its arrays begin with so many rows."""

SPARE = 10
"""Hits beyond those wanted, so that what the last bit of a score decides is decided by order instead."""

SCORE_DECIMALS = 4

PAGE = 1_000


class StoreEntryCard(NamedTuple):
    """An entry as a search tells of it."""

    n: int
    id: str
    tick: int
    text: str
    tags: tuple[str, ...]
    importance: float
    vector: Vector | None
    """None if another embedder made it: then it is found by its words alone."""


class Scored(NamedTuple):
    """An entry that was found."""

    card: StoreEntryCard
    score: float
    """Comparable within one search only."""


async def cards_of(stage: Stage, entries: Sequence[StoreEntry], *, embedder: str) -> list[StoreEntryCard]:
    """Entries with what they say; erased ones are left out."""
    refs = [ref for one in entries for ref in (one.text, one.tags, one.vector) if ref is not None]
    found = await contents(stage, refs)
    cards: list[StoreEntryCard] = []
    for one in entries:
        if not (text := text_of(one, found)):
            continue
        stored = found.get(one.vector) if one.embedder == embedder else None
        vector = None if stored is None else from_bytes(stored)
        cards.append(
            StoreEntryCard(
                one.n, one.id, one.tick, text, tuple(tags_of(one, found)), one.importance / MILLION, vector
            )
        )
    return cards


class StoreIndex:
    """The index of one store by one embedder."""

    def __init__(self, embedder: str) -> None:
        from artelier.memory.index.memory_index import MemoryIndex  # with numpy

        self.embedder = embedder
        self.lock = threading.Lock()
        """Held while the index is changed or searched: it is not made for two threads."""
        self.index: MemoryIndex = MemoryIndex(embedder=embedder)
        self.cards: dict[str, StoreEntryCard] = {}
        self.seen = 0
        """Seq up to which all changes are on the shelf."""
        self.weight = ENTRIES_LEAST
        """Entries that it counts as."""

    async def fill(self, stage: Stage, store: str) -> None:
        """Take up what changed since the last time. Cost: O(what changed)."""
        while True:
            seen = self.seen
            here, key = store_of(stage), key_of(stage, store)
            changed = await changed_at(here, key)
            if changed <= seen:
                return
            gone = await removed_between(here, key, after=seen, upto=changed)
            new = await entries_between(here, key, after=seen, upto=changed, limit=PAGE)
            cards = await cards_of(stage, new, embedder=self.embedder)
            with self.lock:
                if self.seen != seen:
                    continue  # another task was faster
                for id_ in gone:
                    self._take_away(id_)
                for card in cards:
                    self._put(card)
                self.seen = new[-1].n if len(new) == PAGE else changed

    def take_growth(self) -> int:
        """Return by how much the weight has changed since the last call."""
        before, self.weight = self.weight, max(len(self.cards), ENTRIES_LEAST)
        return self.weight - before

    def search(
        self,
        query: str,
        vector: Vector,
        *,
        pending: Sequence[StoreEntryCard],
        removed: frozenset[str],
        limit: int,
    ) -> list[Scored]:
        """The entries that answer best, `pending` ones included and `removed` ones left out."""
        near = vector if self.index.dims in (0, len(vector)) else None
        with self.lock:
            try:
                for card in pending:
                    self._put(card)
                hits = self.index.search(query, vector=near, limit=min(1_000, limit + len(removed) + SPARE))
                found = [
                    Scored(self.cards[hit.id], round(hit.score, SCORE_DECIMALS))
                    for hit in hits
                    if hit.id not in removed
                ]
            finally:
                for card in pending:
                    self._take_away(card.id)
        order = {card.id: place for place, card in enumerate(pending)}
        found.sort(key=lambda one: (-one.score, one.card.n, order.get(one.card.id, 0)))
        return found[:limit]

    def _put(self, card: StoreEntryCard) -> None:
        vector = card.vector
        if vector is not None and self.index.dims not in (0, len(vector)):
            vector = None  # of the time before the embedder gave vectors of this length
        record = Record(
            id=card.id, text=card.text, tags=card.tags, importance=card.importance, tick=card.tick
        )
        self.index.add(record, vector)
        self.cards[card.id] = card

    def _take_away(self, id: str) -> None:
        self.index.remove(id)
        self.cards.pop(id, None)


class Shelves:
    """The shelves of one store of events, the one not searched for longest first."""

    def __init__(self) -> None:
        self._shelves: OrderedDict[tuple[str, str, str, str], StoreIndex] = OrderedDict()
        self._held = 0
        self.erasures = 0
        """How many there had been when these were begun."""

    def __len__(self) -> int:
        return len(self._shelves)

    def clear(self) -> None:
        """Forget all: a shelf is made anew when it is searched."""
        self._shelves.clear()
        self._held = 0

    async def fill(self, stage: Stage, store: str, *, embedder: str) -> StoreIndex:
        """The shelf of a memory store, with all its durable entries."""
        key = (stage.tenant, stage.space, store, embedder)
        shelf = self._shelves.get(key)
        if shelf is None:
            shelf = self._shelves[key] = StoreIndex(embedder)
            self._held += shelf.weight
        self._shelves.move_to_end(key)
        await shelf.fill(stage, store)
        if self._shelves.get(key) is shelf:  # else it was forgotten meanwhile
            self._held += shelf.take_growth()
            self._make_room()
        return shelf

    def _make_room(self) -> None:
        while self._held > ENTRIES_HELD_MAX and len(self._shelves) > 1:
            _, oldest = self._shelves.popitem(last=False)
            self._held -= oldest.weight


_by_store: WeakKeyDictionary[Store, Shelves] = WeakKeyDictionary()


def shelves_of(store: Store) -> Shelves:
    """The shelves of a store; they go with it."""
    shelves = _by_store.get(store)
    if shelves is None:
        shelves = _by_store[store] = Shelves()
    if shelves.erasures != (erasures := store.erasures()):
        shelves.erasures = erasures
        shelves.clear()
    return shelves


async def shelf_of(stage: Stage, store: str, *, embedder: str) -> StoreIndex:
    """The shelf of a memory store, with all its durable entries."""
    return await shelves_of(store_of(stage)).fill(stage, store, embedder=embedder)


# --------------------------------------------------------------------------- search


LIMIT_MAX = 50
"""Entries of one answer."""

RESULT_BYTES_MAX = 56 * 1024
"""Of one answer, which stays below what an invocation may give."""


async def search_entries(working: Working, standing: Standing, query: str, *, limit: int = 5) -> list[Scored]:
    """The entries of a store that answer best, best first. Whether somebody may ask is the caller's to know.

    Errors: `InvalidArguments` for another kind of artifact, and for what is no query or limit; those of the
    embedder. Cost: an embedding, and O(what changed in the store since the last search).
    """
    if type(limit) is not int or not 1 <= limit <= LIMIT_MAX:
        raise InvalidArguments("invalid limit", expected=f"1 to {LIMIT_MAX}", got=repr(limit)[:40])
    try:
        check_query(query)
    except InvalidRequest as error:
        raise InvalidArguments(error.message, expected=error.expected) from None
    config = await config_of(working, standing)
    embedder = embedder_of(config)
    (vector,) = await embed(embedder, [query], dims=config.dims)
    changes = pending_of(working, standing.id)
    pending = await cards_of(working, tuple(changes.added.values()), embedder=embedder.name)
    shelf = await shelf_of(working, standing.id, embedder=embedder.name)
    return shelf.search(query, vector, pending=pending, removed=changes.removed, limit=limit)


class StoreHit(msgspec.Struct, frozen=True, kw_only=True):
    """An entry that a search has found."""

    entry_id: str
    text: str
    tick: int
    tags: list[str]
    importance: float
    """From 0 to 1."""
    score: float
    """As of `Scored`."""


def fit_hits(found: list[Scored]) -> list[StoreHit]:
    """Return as many of the best as fit into an answer."""
    results: list[StoreHit] = []
    size = 0
    for one in found:
        result = _hit_of(one.card, one.score)
        size += len(canonical_json(msgspec.to_builtins(result))) + 1
        if size > RESULT_BYTES_MAX:
            break
        results.append(result)
    return results


def _hit_of(card: StoreEntryCard, score: float) -> StoreHit:
    return StoreHit(
        entry_id=card.id,
        text=card.text,
        tick=card.tick,
        tags=list(card.tags),
        importance=card.importance,
        score=score,
    )
