"""A memory store: its config, checked when it is saved; its entries, read, added, copied, removed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from hashlib import sha256
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import msgspec

from artelier.artifacts import Kind, Stage, StoreStage, Working, register_kind
from artelier.artifacts.content import Media, canonical_json, decode_content
from artelier.artifacts.queries import Standing
from artelier.artifacts.ref import safe_repr
from artelier.artifacts.working_state import PENDING
from artelier.errors import (
    ArtelierError,
    Conflict,
    CorruptStore,
    Erased,
    InvalidArguments,
    InvalidArtifact,
    InvalidRequest,
    NotFound,
)
from artelier.log import Blob, BlobRef, Store, blob_name, blob_ref, make_blob, missing_mark
from artelier.memory.embedders.registry import REGISTERED, embedder_named
from artelier.memory.entries import EmbeddingFailed, check_entry
from artelier.memory.index.index_entry import DIMS_MAX, as_vector
from artelier.memory.index.near_duplicates import duplicate_key
from artelier.ports.memory import payer
from artelier.world.events import EntryAdded, EntryRemoved
from artelier.world.queries.worlds import (
    EntryCounts,
    StoreEntry,
    entries_marked,
    entry_counts,
    find_entry,
    least_entries,
    oldest_entries,
)

if TYPE_CHECKING:
    from artelier.ports.memory import Embedder, Vector

MEMORY_STORE = "memory_store"

PRUNINGS = ("oldest", "lowest_score")

MAX_ENTRIES = 1_000
"""Of a store that says nothing."""

_MAX_ENTRIES_MAX = 10**9
_EMBEDDER_CHARS_MAX = 100
_SETTINGS = ("max_entries", "auto_prune", "embedder", "dims")
_JSON: frozenset[Media] = frozenset(("json",))


class StoreConfig(msgspec.Struct, frozen=True, kw_only=True):
    """`config` of the content."""

    max_entries: int = MAX_ENTRIES
    auto_prune: str = "oldest"
    """`oldest`, or `lowest_score`: the least important first, of these the oldest."""
    embedder: str = "hashing"
    dims: int = 0
    """Numbers of a vector; 0: as the embedder gives them."""


def register_stores() -> None:
    """Have memory stores checked in full when they are saved, and their entries read as parts.

    Twice is once. What was stored before is still read.
    """
    register_kind(
        Kind(name=MEMORY_STORE, media=_JSON, check=check_store, default_access="private", parts="entries"),
        replace=True,
    )


def read_config(content: object) -> StoreConfig:
    """Never raises: what is not of the right shape is as if it was not said."""
    given: object = content.get("config") if isinstance(content, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType] - JSON
    settings = cast("dict[str, Any]", given) if isinstance(given, dict) else {}
    try:
        _check_settings(settings)
        config = msgspec.convert(settings, StoreConfig)
    except (InvalidArtifact, msgspec.ValidationError):
        return StoreConfig()
    return config if config.embedder else msgspec.structs.replace(config, embedder="hashing")


def check_store(content: object) -> None:
    """Check `{config?: {max_entries?, auto_prune?, embedder?, dims?}, description?, entries?: []}`.

    Entries are no part of what is written: each has a vector that somebody pays for, so they are added one
    by one; an empty list says nothing. Errors: `InvalidArtifact`.
    """
    if not isinstance(content, dict):
        raise _refused_error("content", "{config: {...}}", content)
    given = cast("dict[str, Any]", content)
    if given.get("entries", []) != []:
        raise InvalidArtifact(
            "entries of a memory store cannot be written with it",
            expected="content without `entries`, or `entries: []`; those that are there stay",
            hint="Add each by genesis_memory_add, which pays for its vector.",
        )
    if unknown := sorted(set(given) - {"config", "description", "entries"}):
        raise _refused_error("content", "config, description", unknown[0])
    if not isinstance(given.get("description", ""), str):
        raise _refused_error("description", "text", given["description"])
    config = given.get("config", {})
    if not isinstance(config, dict):
        raise _refused_error("config", "a JSON object", cast(object, config))
    _check_settings(cast("dict[str, Any]", config))


def _check_settings(config: dict[str, Any]) -> None:
    if unknown := sorted(set(config) - set(_SETTINGS)):
        raise _refused_error("config", ", ".join(_SETTINGS), unknown[0])
    for name, low, high in (("max_entries", 1, _MAX_ENTRIES_MAX), ("dims", 0, DIMS_MAX)):
        value = config.get(name, 1)
        if type(value) is not int or not low <= value <= high:
            raise _refused_error(f"config.{name}", f"a number from {low} to {high}", value)
    pruning = config.get("auto_prune", "oldest")
    if pruning not in PRUNINGS:
        raise _refused_error("config.auto_prune", " or ".join(PRUNINGS), pruning)
    embedder = config.get("embedder", "")
    if not isinstance(embedder, str) or len(embedder) > _EMBEDDER_CHARS_MAX:
        raise _refused_error("config.embedder", "the name of an embedder", embedder)


def _refused_error(what: str, expected: str, got: object) -> InvalidArtifact:
    return InvalidArtifact(f"invalid {what} of a memory store", expected=expected, got=safe_repr(got))


# --------------------------------------------------------------------------- embedding
# Vectors of entries and queries: who makes them, how they are checked and stored.


_registered = REGISTERED

DECIMALS = 6
"""Numbers are stored with so many: the last bit of another machine's arithmetic makes no other world."""


def embedder_of(config: StoreConfig) -> Embedder:
    """Return the embedder that a store names, from the one registry of embedders.

    Errors: `InvalidArguments` for a name that nobody knows, for one that costs money where nobody pays, and
    for vectors of another length.
    """
    try:
        embedder = _registered.get(config.embedder) or _load_shipped(config.embedder)
    except InvalidRequest as error:
        raise InvalidArguments(
            "this world offers no such embedder",
            expected=error.expected,
            got=config.embedder,
            hint="Write another `config.embedder` into the memory store.",
        ) from None
    if config.embedder not in _registered and ":" in config.embedder and payer() is None:
        raise InvalidArguments(
            "this world offers no such embedder between its ticks: nobody would pay for it",
            expected="hashing or minilm",
            got=config.embedder,
        )
    if config.dims and embedder.dims and config.dims != embedder.dims:
        raise InvalidArguments(
            f"vectors of {embedder.name} have another length than `config.dims` says",
            expected=str(embedder.dims),
            got=config.dims,
        )
    return embedder


@lru_cache(maxsize=16)
def _load_shipped(name: str) -> Embedder:
    """Return a shipped embedder, made once: a local model is loaded once, a length is learnt once."""
    return embedder_named(name)


async def embed(embedder: Embedder, texts: Sequence[str], *, dims: int = 0) -> list[Vector]:
    """One checked vector for each text, never a zero one, rounded to what is stored.

    Units:  `dims` is the length that is wanted; 0 is any.
    Errors: the embedder's own; `EmbeddingFailed` for what is no vector, and for any other failure.
    """
    try:
        vectors: Sequence[Any] = await embedder.embed(texts)
    except ArtelierError:
        raise
    except Exception as error:  # of the host's embedder: an agent's action fails, not the tick
        raise EmbeddingFailed(
            f"embedder {embedder.name} failed", got=type(error).__name__, hint="Nothing was stored."
        ) from error
    if len(vectors) != len(texts):
        raise EmbeddingFailed(
            f"embedder {embedder.name} gave another number of vectors",
            expected=len(texts),
            got=len(vectors),
            hint="Nothing was stored.",
        )
    return [_check_vector(embedder.name, vector, dims or embedder.dims) for vector in vectors]


def _check_vector(name: str, vector: Sequence[float] | Vector, dims: int) -> Vector:
    import numpy as np

    try:
        rounded = as_vector(np.round(as_vector(vector), DECIMALS))
    except (InvalidRequest, TypeError, ValueError) as error:
        raise EmbeddingFailed(
            f"embedder {name} gave a vector without a direction",
            expected="finite numbers, not all zero",
            hint="Nothing was stored. Check the embedder.",
        ) from error
    if dims and len(rounded) != dims:
        raise EmbeddingFailed(
            f"embedder {name} gave a vector of another length",
            expected=dims,
            got=len(rounded),
            hint="Nothing was stored.",
        )
    return rounded


def to_bytes(vector: Vector) -> bytes:
    """Return the stored form of a vector: 32-bit floats, little endian."""
    return vector.astype("<f4").tobytes()


def from_bytes(stored: bytes) -> Vector:
    """Errors: `InvalidRequest` for bytes that are no vector."""
    import numpy as np

    if not stored or len(stored) % 4:
        raise InvalidRequest("these bytes are no vector", got=f"{len(stored)} bytes")
    return np.frombuffer(stored, dtype="<f4").astype(np.float32)


def as_numbers(vector: Vector) -> list[float]:
    """Return the stored numbers for JSON, without the digits that 32 bits do not have."""
    return [round(float(number), DECIMALS) for number in vector]


WHOLE_MAX = 10_000
"""Entries that are read at once (guess: 40 MB of JSON)."""

MILLION = 1_000_000
"""Importance is stored in millionths."""

_AT_ONCE = 500
"""Names of blobs in one query."""


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


def key_of(stage: Stage, store: str) -> tuple[str, str, str]:
    """Return the key of a memory store: tenant, space and store."""
    return stage.tenant, stage.space, store


async def entries_of(stage: Stage, store: str, *, limit: int = WHOLE_MAX) -> list[StoreEntry]:
    """All entries of a store, oldest first.

    Errors: `InvalidArtifact` if there are more than `limit`.
    """
    pending = pending_of(stage, store)
    most = limit + len(pending.removed) + 1
    durable = await oldest_entries(store_of(stage), key_of(stage, store), limit=most)
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
    return await find_entry(store_of(stage), key_of(stage, store), id)


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
    stage: Stage, standing: Standing, content: object, *, part: str | None = None, has_vectors: bool = True
) -> object:
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
    told = [_entry_as_read(entry, found, mark=mark, has_vectors=has_vectors) for entry in entries]
    return {**said, "entries": msgspec.to_builtins(told)}


class EntryRead(msgspec.Struct, frozen=True, kw_only=True):
    """An entry of a memory store as it is read."""

    id: str
    tick: int
    text: str
    tags: list[str]
    importance: float
    """From 0 to 1."""
    embedding: list[float] | msgspec.UnsetType = msgspec.UNSET
    """Empty for one that is gone; unset for those who read in words."""


def _entry_as_read(
    entry: StoreEntry, found: Mapping[str, bytes], *, mark: str, has_vectors: bool
) -> EntryRead:
    """An entry as it is read; `mark` stands for a text that is gone."""
    vector = found.get(entry.vector) if has_vectors else None
    numbers = [] if vector is None else as_numbers(from_bytes(vector))
    return EntryRead(
        id=entry.id,
        tick=entry.tick,
        text=text_of(entry, found) or mark,
        tags=tags_of(entry, found),
        importance=entry.importance / MILLION,
        embedding=numbers if has_vectors else msgspec.UNSET,
    )


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


# --------------------------------------------------------------------------- entry writer
# One more entry in a memory store: an event and no version, at the same cost however many there are.


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


async def config_of(working: Working, standing: Standing) -> StoreConfig:
    """The config of a memory store that may be touched. Errors: `InvalidArguments` for another kind."""
    if standing.kind != MEMORY_STORE or standing.at is None:
        raise InvalidArguments(
            f"artifact {standing.id} is no memory store", expected=MEMORY_STORE, got=standing.kind
        )
    return read_config(decode_content(standing.at.media, await working.blob(standing.at.content)))


async def add_entry(
    working: Working,
    standing: Standing,
    *,
    text: str,
    tags: Sequence[str] = (),
    importance: float = 0.5,
    actor: str,
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

    def keep(content: bytes) -> BlobRef:
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


async def _fresh_id(working: Working, store: str, counts: EntryCounts) -> str:
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
    durable = await entries_marked(store_of(working), key_of(working, store), mark)
    alike = [*reversed(alike), *(one for one in durable if one.id not in pending.removed)]
    for one in alike:
        found = await contents(working, [one.tags] if one.tags is not None else [])
        if set(tags) <= set(tags_of(one, found)):
            return one.id
    return None


async def is_empty(working: Working, store: str) -> bool:
    """Return True if a memory store has no entry, what is pending included. Cost: one query."""
    return (await _counts(working, store, pending_of(working, store))).entries == 0


async def _counts(working: Working, store: str, pending: Pending) -> EntryCounts:
    world = working.space.removeprefix(_PREFIX)
    seed, added, entries = await entry_counts(store_of(working), key_of(working, store), world=world)
    return EntryCounts(seed, added + pending.adds, entries + pending.adds - pending.removals)


async def _going(
    working: Working, store: str, config: StoreConfig, pending: Pending, excess: int
) -> tuple[str, ...]:
    """Return what must go so that one more fits, the first to go first."""
    excess = min(excess, PRUNED_MAX)
    if excess <= 0:
        return ()
    by_score = config.auto_prune == "lowest_score"
    read = least_entries if by_score else oldest_entries
    most = excess + len(pending.removed)
    durable = await read(store_of(working), key_of(working, store), limit=most)
    candidates = [one for one in durable if one.id not in pending.removed]
    candidates += pending.added.values()
    if by_score:
        candidates.sort(key=lambda one: one.importance)  # stable: of equal ones the oldest first
    return tuple(one.id for one in candidates[:excess])
