"""Long-term memory: entries as events of a `memory_store` artifact, found again by hybrid search.

Adding one costs the same however many there are. The index in this process is a cache filled from the
view by position, so what another process wrote is seen; truth is the log alone.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Sequence
from copy import copy
from hashlib import sha256
from typing import Any, NamedTuple

import msgspec

from artelier.errors import External, InvalidRequest, NotFound
from artelier.log import Blob, EventData, blob_name
from artelier.memory import events as ev
from artelier.memory import queries
from artelier.memory.index.index_cache import CachedIndex, EntryCard, cards_from
from artelier.memory.index.index_entry import as_vector, to_blob
from artelier.memory.index.near_duplicates import duplicate_key
from artelier.memory.memory_handle import ATTEMPTS_MAX, EVERYBODYS, MemoryScope, Sight, checked_key, too_busy
from artelier.memory.queries import MemoryRow
from artelier.memory.view import IdTaken, KeyApplied, TextKnown
from artelier.ports.memory import Embedder, Entry, Recalled

TEXT_CHARS_MAX = 8_000
"""One entry (guess: two pages; more is a document)."""
TAGS_MAX = 32
NAME_CHARS_MAX = 200
"""A tag, a speaker, a date."""
LIMIT_MAX = 1_000
PRUNED_MAX = 1_000
"""Entries that one new entry may push out, after the limit was lowered."""
SHELVES_MAX = 8
"""Subjects whose memories are held in this process at once, of one agent."""
TRUSTS = ("trusted", "untrusted")


class EmbeddingFailed(External):
    """The embedder gave no usable vector; nothing was stored."""

    code = "embedding_failed"


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """`config` of the artifact's content."""

    max_entries: int = 1_000
    auto_prune: str = "oldest"
    embedder: str = ""
    dims: int = 0


class NewEntry(NamedTuple):
    """An entry that somebody asks to keep, checked."""

    text: str
    tags: tuple[str, ...]
    importance: int
    speaker: str
    date: str
    trust: str

    def content(self) -> bytes:
        """Return what its blob holds."""
        told = {"text": self.text, "tags": self.tags, "speaker": self.speaker, "date": self.date}
        return msgspec.json.encode({name: value for name, value in told.items() if value})


class Entries:
    """The long-term memory of one agent."""

    def __init__(self, scope: MemoryScope, embedder: Embedder) -> None:
        self._scope = scope
        self.embedder = embedder
        self._sight = EVERYBODYS
        self._shelves: OrderedDict[Sight, CachedIndex] = OrderedDict()
        self._config: tuple[str, Config] = ("", Config())

    def with_sight(self, sight: Sight) -> Entries:
        """The same memory, in which nothing about other subjects is there."""
        seen = copy(self)
        seen._sight = sight
        return seen

    @property
    def _shelf(self) -> CachedIndex:
        shelf = self._shelves.pop(self._sight, None)
        if shelf is None:
            shelf = CachedIndex(self._scope, self.embedder.name, self._sight)
        self._shelves[self._sight] = shelf
        while len(self._shelves) > SHELVES_MAX:
            self._shelves.popitem(last=False)
        return shelf

    # -- reading

    async def recall(
        self,
        query: str,
        *,
        limit: int = 5,
        tags: Sequence[str] = (),
        min_importance: float | None = None,
        since: int | None = None,
        until: int | None = None,
        trust: str | Sequence[str] | None = None,
    ) -> list[Recalled]:
        _check_limit(limit)
        check_query(query)
        if (opened := await self._scope.read_opened("read")) is None:
            return []
        self._check_embedder(opened)
        shelf = self._shelf
        index, cards = await shelf.fill(opened)
        if not cards:
            return []
        vector = (await self._vectors([index.query_text(query) or query]))[0]
        with shelf.lock:
            hits = index.search(
                query,
                vector=vector,
                limit=limit,
                tags=tuple(tags),
                since=since,
                until=until,
                min_importance=min_importance,
                trust=trust,
                now=self._scope.clock.now_us(),
            )
        return [cards[hit.id].to_recalled(round(hit.score, 6)) for hit in hits if hit.id in cards]

    async def entry(self, id: str, *, with_embedding: bool = False) -> Entry:
        """One living entry. Errors: `NotFound`, `AccessDenied`."""
        await self._scope.read_opened("read")
        card = await self._card(id)
        if card is None or card.gone:
            raise NotFound(f"no entry {id!r:.40} in this memory", hint="recall shows the ids.")
        return card.entry(with_embedding=with_embedding)

    async def entries(
        self, *, limit: int = 100, after: str | None = None, with_embedding: bool = False
    ) -> list[Entry]:
        """Living entries, oldest first, beyond the entry `after`."""
        _check_limit(limit)
        if (opened := await self._scope.read_opened("read")) is None:
            return []
        position = 0
        if after is not None:
            card = await self._card(after)
            if card is None:
                raise NotFound(f"no entry {after!r:.40} in this memory")
            position = card.position
        rows = await queries.entries_after(self._scope.store, opened.id, position, limit=limit)
        cards = await cards_from(self._scope, rows, sight=self._sight)
        return [card.entry(with_embedding=with_embedding) for card in cards]

    async def cards(self) -> list[EntryCard]:
        """All living entries in the order of adding, as this process holds them."""
        if (opened := await self._scope.read_opened("read")) is None:
            return []
        _, cards = await self._shelf.fill(opened)
        return sorted(cards.values(), key=lambda card: card.position)

    async def is_taken(self, id: str) -> bool:
        """Return True if an entry has or had this id."""
        return await self._card(id) is not None

    async def text_of(self, id: str) -> str:
        """Text of an entry, living or not; empty if there never was one."""
        card = await self._card(id)
        return "" if card is None else card.text

    async def _card(self, id: str) -> EntryCard | None:
        row = await queries.find_entry(self._scope.store, await self._scope.row_id(), id)
        cards = [] if row is None else await cards_from(self._scope, [row], sight=self._sight)
        return cards[0] if cards else None

    async def config(self, opened: MemoryRow) -> Config:
        """Return what its artifact says now."""
        if self._config[0] != opened.config:
            content = await self._scope.store.blob(self._scope.tenant, blob_name(opened.config))
            self._config = (opened.config, _config_of(content))
        return self._config[1]

    # -- changing

    async def remember(
        self,
        text: str,
        *,
        tags: Sequence[str] = (),
        importance: float = 0.5,
        speaker: str = "",
        date: str = "",
        trust: str = "trusted",
        key: str,
        by: str | None = None,
        run_id: str | None = None,
    ) -> Entry:
        scope, key = self._scope, checked_key(key)
        wanted = check_entry(text, tags, importance, speaker, date, trust)
        own = await scope.key_of_run(run_id)
        request = await scope.hash_request("remember", *wanted, under=own)
        mark = await scope.mark(duplicate_key(text, speaker=speaker, date=date), under=own)
        vector = b""
        for n in range(ATTEMPTS_MAX):
            opened = await scope.read_opened("write", key=key, mark=mark)
            if opened is not None:
                if opened.applied is not None:
                    return await self._read_recorded(key, request)
                if opened.known and (known := await self._find_duplicate(opened.known, wanted)) is not None:
                    return known
                self._check_embedder(opened)
            blobs: list[Blob] = []
            vector = vector or await self.vector(wanted.text)
            event = ev.MemoryAdded(
                store=scope.artifact,
                key=key,
                asked=request,
                run_id=run_id,
                id=entry_id(scope.artifact, key, n),
                mark=mark,
                embedder=self.embedder.name,
                content=await scope.keep(wanted.content(), blobs, under=own),
                vector=await scope.keep(vector, blobs, under=own),
                importance=wanted.importance,
                trust=wanted.trust,
                beside=opened is not None and opened.known is not None,
            )
            pruned = await self._plan_pruning(opened)
            changes: list[EventData] = [event, *pruned]
            at_us = scope.clock.now_us()
            try:
                await scope.record(changes, blobs=blobs, by=by, at_us=at_us)
            except (IdTaken, TextKnown, KeyApplied):
                continue  # another id, or the answer that somebody else's change gives
            return _entry_of(event, wanted, at_us, pruned)
        raise too_busy(scope.artifact)

    async def forget(self, id: str, *, key: str, by: str | None = None, run_id: str | None = None) -> Entry:
        """Take an entry out; the entry as it was. Errors: `NotFound`, `AccessDenied`."""
        scope, key = self._scope, checked_key(key)
        request = await scope.hash_request("forget", id)
        await scope.read_opened("write")
        done = await scope.find_applied(key, request)
        card = await self._card(id)
        if card is None or (card.gone and done is None):
            raise NotFound(f"no entry {id!r:.40} in this memory", hint="recall shows the ids.")
        if done is None:
            event = ev.MemoryRemoved(store=scope.artifact, key=key, asked=request, run_id=run_id, ids=(id,))
            try:
                await scope.record([event], by=by)
            except KeyApplied:
                await scope.find_applied(key, request)
        return card.entry()

    def _check_embedder(self, opened: MemoryRow) -> None:
        """Vectors of two embedders cannot be compared, so a memory keeps to one. Errors: `InvalidRequest`."""
        if opened.embedder in (None, self.embedder.name):
            return
        raise InvalidRequest(
            "this memory keeps vectors of another embedder",
            expected=opened.embedder,
            got=self.embedder.name,
            hint="Open the store with that embedder, or let the agent begin a new memory.",
        )

    async def _find_duplicate(self, id: str, wanted: NewEntry) -> Entry | None:
        """The entry that says the same; None if it went meanwhile, or lacks a tag or the trust."""
        card = await self._card(id)
        if card is None or card.gone or not set(wanted.tags) <= set(card.tags):
            return None
        if wanted.trust == "trusted" != card.trust:
            return None
        return msgspec.structs.replace(card.entry(), deduplicated=True)

    async def _plan_pruning(self, opened: MemoryRow | None) -> list[EventData]:
        """Return what must go so that one more fits: an event, or none."""
        if opened is None:
            return []
        config = await self.config(opened)
        excess = min(opened.entries + 1 - config.max_entries, PRUNED_MAX)
        if excess <= 0:
            return []
        first = "oldest" if config.auto_prune == "oldest" else "least_important"
        ids = await queries.prunable(self._scope.store, opened.id, first=first, limit=excess)
        return [ev.MemoryPruned(store=self._scope.artifact, ids=ids, policy=config.auto_prune)]

    async def _read_recorded(self, key: str, asked: str) -> Entry:
        """Return what a key led to when it was applied. Errors: `Conflict` if that was something else."""
        done = await self._scope.find_applied(key, asked)
        assert done is not None and isinstance(done[1], ev.MemoryAdded)
        card = await self._card(done[1].id)
        assert card is not None, "a removed entry keeps its row"
        return card.entry()

    async def vector(self, text: str) -> bytes:
        """A text's vector as it is stored. Errors: those of `_vectors`."""
        stored = to_blob((await self._vectors([text]))[0])
        self._check_direction(stored)  # float16 may have lost all of it
        return stored

    async def _vectors(self, texts: Sequence[str]) -> list[Any]:
        """Errors: the embedder's own, `EmbeddingFailed` for what is no vector."""
        vectors = await self.embedder.embed(texts)
        if len(vectors) != len(texts):
            raise EmbeddingFailed(
                f"embedder {self.embedder.name} gave another number of vectors",
                expected=len(texts),
                got=len(vectors),
                hint="Nothing was stored.",
            )
        return [self._check_direction(vector) for vector in vectors]

    def _check_direction(self, vector: Any) -> object:
        try:
            return as_vector(vector)
        except InvalidRequest as error:
            raise EmbeddingFailed(
                f"embedder {self.embedder.name} gave a vector without a direction",
                expected="finite numbers, not all zero",
                got=error.got,
                hint="Nothing was stored. Check the embedder.",
            ) from error


def entry_id(store: str, key: str, n: int) -> str:
    """The id that a key gives its entry; the n-th try after ids that are taken."""
    return "mem_" + sha256(f"{store}\n{key}\n{n}".encode()).hexdigest()[:8]


def check_entry(
    text: object, tags: object, importance: object, speaker: object, date: object, trust: object
) -> NewEntry:
    """Errors: `InvalidRequest`."""
    if not isinstance(text, str) or not text.strip() or len(text) > TEXT_CHARS_MAX:
        got = f"{len(text)} characters" if isinstance(text, str) else type(text).__name__
        raise InvalidRequest(
            "text of a memory",
            expected=f"1 to {TEXT_CHARS_MAX} characters",
            got=got,
            hint="Store a longer text as a document, and remember what it says and its ref.",
        )
    if (
        isinstance(importance, bool)
        or not isinstance(importance, int | float)
        or not (math.isfinite(importance) and 0 <= importance <= 1)
    ):
        raise InvalidRequest("importance", expected="a number from 0 to 1", got=repr(importance)[:40])
    if isinstance(tags, str) or not isinstance(tags, Sequence):
        raise InvalidRequest("tags", expected="a list of words", got=repr(tags)[:80])
    words = tuple(dict.fromkeys(_name(tag, "a tag").strip() for tag in tags))  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType] - checked there
    words = tuple(word for word in words if word)
    if len(words) > TAGS_MAX:
        raise InvalidRequest("too many tags", expected=f"at most {TAGS_MAX}", got=len(words))
    if trust not in TRUSTS:
        raise InvalidRequest("trust", expected=" or ".join(TRUSTS), got=repr(trust)[:40])
    return NewEntry(
        text, words, round(importance * 1000), _name(speaker, "a speaker"), _name(date, "a date"), str(trust)
    )


def _name(value: object, what: str) -> str:
    if not isinstance(value, str) or len(value) > NAME_CHARS_MAX:
        raise InvalidRequest(
            what, expected=f"text of at most {NAME_CHARS_MAX} characters", got=repr(value)[:60]
        )
    return value


def check_query(query: str) -> None:
    """Errors: `InvalidRequest`."""
    is_unicode = query.encode(errors="ignore").decode() == query
    if not query.strip() or len(query) > TEXT_CHARS_MAX or not is_unicode:
        raise InvalidRequest("this is no query", expected=f"a few words, at most {TEXT_CHARS_MAX} characters")


def _check_limit(limit: int) -> None:
    if isinstance(limit, bool) or not 1 <= limit <= LIMIT_MAX:
        raise InvalidRequest("limit", expected=f"1 to {LIMIT_MAX}", got=repr(limit)[:40])


def _config_of(content: bytes) -> Config:
    """Unknown fields are another version's."""
    plain = msgspec.json.decode(content)
    return msgspec.convert(plain.get("config", {}), Config)


def _entry_of(event: ev.MemoryAdded, wanted: NewEntry, at_us: int, pruned: Sequence[EventData]) -> Entry:
    gone = [id_ for one in pruned if isinstance(one, ev.MemoryPruned) for id_ in one.ids]
    return Entry(
        id=event.id,
        text=wanted.text,
        tick=at_us,
        tags=wanted.tags,
        importance=wanted.importance / 1000,
        speaker=wanted.speaker,
        date=wanted.date,
        trust=wanted.trust,
        run_id=event.run_id,
        embedder=event.embedder,
        pruned=tuple(gone),
    )
