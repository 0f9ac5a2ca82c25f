"""The store's contract: what SQLite and PostgreSQL give, proved by one conformance suite.

Atomicity   A batch is appended whole or not at all, over all its streams, blobs, views and leases.
Ordering    Batches submitted by one process are applied in the order of submission. `seq` has no gaps per
            stream, `position` none per store; a reader that sees position p sees every position below p.
Conflict    `expected_seq` that differs from the stream's head fails that batch alone with `SequenceConflict`.
Fencing     A batch with a fence fails with `LeaseLost` unless the lease's token is the newest.
Loss        When a group is lost (a full disk, a failed fsync), later batches under the fences of its
            batches are refused with `StoreUnavailable`: what they build on is not there.
Durability  When `append` returns, the batch is on disk. When it raises, nothing of it is.
Cancelling  A caller that is cancelled while it waits leaves the store usable; its batch may be durable.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, Self, TypeVar, cast, get_args, overload

import msgspec

from artelier.clock import Clock
from artelier.errors import CorruptStore, Erased, InvalidRequest, NotFound
from artelier.log.blobs import (
    Blob,
    Collected,
    DataKey,
    Driving,
    Erasing,
    Keyring,
    Sealer,
    Secret,
    Wiped,
    blob_name,
)
from artelier.log.event import BlobRef, Draft, Event, EventData, RawDraft, Stream
from artelier.log.rate_windows import Asked, Change, Taken

Row = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class StreamAppend:
    """Events for one stream. `expected_seq` is the head they build on; None appends to whatever is there."""

    stream: Stream
    events: Sequence[Draft | RawDraft]
    expected_seq: int | None = None


class LeaseEnd(NamedTuple):
    """The moment at which a lease ends unless it is renewed, by two clocks."""

    expires_us: int
    """Microseconds since the epoch, by the clock of the store."""
    uptime_us: int | None = None
    """The same by the time since the start of the holder's machine; None if that is unknown."""

    def is_over(self, *, now_us: int, uptime_us: int | None) -> bool:
        """Return whether it has passed. `uptime_us` is None for somebody on another machine.

        Two processes of one machine need not agree what time it is: there the uptime decides.
        """
        if self.uptime_us is not None and uptime_us is not None:
            return self.uptime_us <= uptime_us
        return self.expires_us <= now_us


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseRequest:
    """Take the lease of a run's stream in the same transaction."""

    stream: Stream
    holder: str
    now_us: int
    ttl_us: int
    is_dead: Callable[[str], bool] = lambda holder: False
    """Whether a holder is known to be gone although its lease has not expired."""
    uptime_us: Callable[[str], int | None] = lambda holder: None
    """The time since the start of the machine that asks, if the holder is on it (see `LeaseEnd`)."""
    progress: Callable[[Tx], int] = lambda tx: 0
    """How far the stream has come: the same number at two claims means that nothing was done in between."""
    is_excused: Callable[[Tx, str], bool] = lambda tx, holder: False
    """Whether a holder that did nothing and vanished is not counted as stalled on this stream."""

    @property
    def end(self) -> LeaseEnd:
        uptime_us = self.uptime_us(self.holder)
        return LeaseEnd(self.now_us + self.ttl_us, None if uptime_us is None else uptime_us + self.ttl_us)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fence:
    """The proof that the caller still holds a stream's lease."""

    stream: Stream
    token: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """A batch of events and other writes that is appended as a unit."""

    appends: Sequence[StreamAppend] = ()
    blobs: Sequence[Blob] = ()
    fence: Fence | None = None
    acquire: LeaseRequest | None = None
    release: Fence | None = None
    """Give a lease back; with `acquire`, the lease just taken is given back (its token is ignored)."""
    guard: Callable[[Tx], None] | None = None
    """Reads views inside the transaction and raises to refuse the batch; never writes."""
    builds: bool = False
    """It goes on from what was queued before it under its fence: if one such batch is refused, so are all
    that follow it. Their author did not know yet when he queued them."""
    is_optional: bool = False
    """A limit may refuse it (`Exhausted`) without harm to those that follow."""
    vault: Sequence[Secret] = ()
    """What placeholders in its names stand for, as far as that is not stored yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """The sequence numbers, position and lease that a durable batch received."""

    seqs: tuple[int, ...]
    """Head of each stream of the batch after it, in the batch's order."""
    position: int
    """Position of its last event (the store's head for a batch without events)."""
    lease_token: int | None = None
    stalled: int = 0
    """Holders in a row, before the one that took the lease, that made no progress and did not release it."""


class Rows(Protocol):
    """The rows that a statement gave, and how many it changed."""

    @property
    def rowcount(self) -> int:
        """The number of rows that were changed."""
        ...

    def fetchone(self) -> Row | None: ...

    def fetchall(self) -> list[Row]: ...

    def __iter__(self) -> Iterator[Row]: ...


class Tx(Protocol):
    """A transaction as views and guards see it. SQL is portable, parameters are `?`, never concatenated."""

    def execute(self, sql: str, parameters: Sequence[Any] = (), /) -> Rows: ...

    def one(self, sql: str, parameters: Sequence[Any] = (), /) -> Row | None: ...


@dataclass(slots=True)
class Applied:
    """An event as views receive it: typed data plus its place. `stream_id` is the row id of its stream."""

    stream: Stream
    stream_id: int
    seq: int
    position: int
    at_us: int
    actor: str
    data: EventData


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """A table set that is a fold of the log, updated in the transaction of the event.

    `apply` must depend only on events and on its own and lower views' rows, so that a rebuild gives the
    same rows. A higher `version` rebuilds the view at open.
    """

    name: str
    version: int
    tables: tuple[str, ...]
    schema: tuple[str, ...]
    """CREATE statements of the tables and indexes."""
    indexes: tuple[str, ...] = ()
    """`CREATE INDEX IF NOT EXISTS` statements of indexes that came later. Opening a store makes those that it
    lacks: an index changes no row, so that `version` stays and nothing is rebuilt."""
    published: tuple[str, ...] = ()
    """SELECT statements by which other packages read the tables, as `CREATE TEMP VIEW IF NOT EXISTS name AS`:
    each connection of SQLite executes them for itself, for PostgreSQL they stand before what reads them. They
    are no part of a database, so that none of its versions lacks them."""
    handlers: dict[type[EventData], Callable[[Applied, Tx], None]] = field(
        default_factory=dict[type[EventData], "Callable[[Applied, Tx], None]"]
    )

    def on(self, *kinds: type[EventData]) -> Callable[[Handler], Handler]:
        """Register a handler of some event kinds; several of one kind run in the order of registering."""

        def register(function: Handler) -> Handler:
            for kind in kinds:
                before = self.handlers.get(kind)
                self.handlers[kind] = function if before is None else _both(before, function)
            return function

        return register


Handler = Callable[[Applied, Tx], None]


def _both(first: Handler, second: Handler) -> Handler:
    def apply(event: Applied, tx: Tx) -> None:
        first(event, tx)
        second(event, tx)

    return apply


class Names(Protocol):
    """Looks at what stands inline in events, where nothing can ever be taken away again."""

    def check(self, stream: Stream, data: Sequence[EventData]) -> None:
        """Errors: `InvalidRequest` if a name in there holds personal data."""
        ...

    def admit(self, batch: Batch) -> Batch:
        """The batch as it may be stored: who acts is replaced where it is a value. Errors: as of `check`."""
        ...

    async def admit_large(self, batch: Batch) -> Batch:
        """Do the same as `admit` in slices, between which everybody else in the event loop has a turn."""
        ...


FINDINGS_MAX = 50
"""A broken file is described by its first findings, not by all of them."""


class Report(msgspec.Struct, kw_only=True):
    """The findings of `verify`. `ok` is true if there are none."""

    events: int = 0
    streams: int = 0
    blobs: int = 0
    commits: int = 0
    views: list[str] = []
    """Views that were rebuilt and compared."""
    unchecked: list[str] = []
    """Tables that no known view owns, and views that could not be rebuilt."""
    head: str = ""
    """The newest commit root, hex."""
    truncation: str = "not excluded"
    """`excluded` if a head from outside was given and found, else `not excluded`."""
    findings: list[str] = []

    @property
    def ok(self) -> bool:
        return not self.findings

    def add_finding(self, text: str) -> None:
        if len(self.findings) < FINDINGS_MAX:
            self.findings.append(text)


class Store(Protocol):
    """Everything that is durable. All methods are safe to call from any event loop of this process."""

    names: Names | None
    """Looks at every batch before it is queued; None where personal data is not replaced."""

    on_keys: list[Callable[[], None]]
    """Called when keys may have been dropped, here or by another process; from any thread."""

    keyring: Keyring
    """The ciphers of what it stores."""

    views: tuple[View, ...]
    """The views that it keeps, in their order."""

    @property
    def label(self) -> str:
        """The name that people know it by; it never holds a password."""
        ...

    @property
    def clock(self) -> Clock | None:
        """The server's clock, which all processes share; None for a file, which is on their machine."""
        ...

    @property
    def schema_version(self) -> int:
        """The version of the tables that are no views."""
        ...

    @property
    def is_current(self) -> bool:
        """False once a newer Artelier has taken it over: this process can read it, and writes nothing."""
        ...

    @property
    def is_closed(self) -> bool: ...

    @property
    def commits(self) -> int:
        """Durable commits of this process so far."""
        ...

    def submit(self, batch: Batch) -> Awaitable[Receipt]:
        """Queue a batch now; the awaitable resolves when it is durable or refused."""
        ...

    def submit_all(self, batches: Sequence[Batch]) -> list[Awaitable[Receipt]]:
        """Queue several batches next to each other: each is decided alone, one commit serves them all."""
        ...

    async def append(self, batch: Batch) -> Receipt: ...

    async def read(self, stream: Stream, *, after: int = 0, limit: int = 1000) -> list[Event]:
        """Events of a stream with `seq > after`, ascending, at most `limit`."""
        ...

    async def read_all(self, *, after: int = 0, limit: int = 1000, tenant: str | None = None) -> list[Event]:
        """Events of all streams (of a tenant) with `position > after`, ascending, at most `limit`."""
        ...

    async def head(self, stream: Stream) -> tuple[int, bytes]:
        """Newest `seq` and hash of a stream; `(0, GENESIS)` if it has no events."""
        ...

    async def blob(self, tenant: str, name: bytes) -> bytes:
        """Content of a blob. Errors: `NotFound` (also for another tenant's), `CorruptStore`."""
        ...

    async def blobs(self, tenant: str, names: Sequence[bytes]) -> dict[bytes, bytes]:
        """Content of several blobs (at most 500) by name; what is missing, erased or damaged is left out."""
        ...

    async def data_key(self, tenant: str, subject: str | None = None) -> DataKey:
        """The key that names (and seals) content of a tenant, or of one subject; durable on first use.

        Errors: `MissingKey` if it is wrapped and the vault key is not here.
        """
        ...

    async def key_of(self, tenant: str, name: bytes) -> DataKey | None:
        """The key that a stored blob was named with; None if blob or key is not there."""
        ...

    async def part_keys(self, tenant: str, below: DataKey, *, count: int) -> list[DataKey]:
        """Make keys for parts of what is stored under a key, each of which can be erased alone.

        They go with the subject of that key, or with its tenant. Errors: `Erased` if it is gone.
        """
        ...

    async def part_key_of(self, tenant: str, name: bytes) -> DataKey | None:
        """The key that a stored blob was named with, if it is one of `part_keys`; else None."""
        ...

    async def key_by_id(self, tenant: str, key_id: int | None) -> DataKey | None:
        """A key by its row in `keys`; None if that is gone. `key_id` None is the key of plain names."""
        ...

    async def add_key(self, tenant: str, secret: bytes, *, is_part: bool = False) -> DataKey:
        """Keep the key that names imported content; the same secret is kept once. `is_part`: it is one of
        `part_keys`.
        """
        ...

    async def gone_key(self, tenant: str) -> int:
        """Return a row of `keys` that is gone: what an import says of content that was erased before."""
        ...

    async def subject_names(self, tenant: str, subject: str) -> tuple[str, ...]:
        """Return what a subject may be called in `keys`: by a keyed hash under a vault key, as it is without
        one.
        """
        ...

    async def subject_key_of(self, tenant: str, name: bytes) -> DataKey | None:
        """The subject's key that a stored blob was named with, or that its own stands below; None if it is no
        subject's, or gone."""
        ...

    def erasures(self) -> int:
        """A number that grows with each erasure, here or in another process: whoever remembers content
        forgets it when this has changed. Cost: next to nothing."""
        ...

    def look(self, sql: str, parameters: Sequence[Any] = ()) -> list[Row]:
        """`query` for callers that cannot wait; for reads of a row or two."""
        ...

    async def query(self, sql: str, parameters: Sequence[Any] = ()) -> list[Row]:
        """Rows of views, in portable SQL with `?` parameters; for this package's peers, not for users."""
        ...

    async def survey(self, sql: str, parameters: Sequence[Any] = ()) -> list[Row]:
        """Do the same as `query` in a thread, on a connection of its own: for what reads many rows."""
        ...

    async def renew(self, holder: str, *, until: LeaseEnd, streams: Sequence[Stream] | None = None) -> None:
        """Extend a holder's leases: those of `streams`, or every one."""

        ...

    async def root(self) -> tuple[int, bytes]:
        """Last position and newest commit root."""
        ...

    async def take_turns(self, asked: Sequence[Asked], *, now_us: int, holder: str) -> list[Taken]:
        """Take of the windows of this minute what calls ask for, in that order, over all processes."""
        ...

    def change_turns(self, changes: Sequence[Change]) -> Awaitable[None]:
        """Correct what was taken; queued now, nobody need wait for it."""
        ...

    async def measure(self, wanted: Erasing) -> Wiped:
        """Return how much `erase` would take away of what is committed now. No writer waits for it."""
        ...

    async def erase(self, wanted: Erasing, *, record: Batch) -> Wiped:
        """Append `record`, and take away keys, the content under them, and what placeholders stand for.

        If the batch is refused, nothing is taken away. Afterwards reading that content is `Erased`, and so
        is storing under those keys, in every process. The bytes may be in the file until `shred`.
        """
        ...

    async def shred(self, *, compact: bool = False, brief: bool = False) -> bool:
        """Leave no byte of what was taken away in the file. Of many callers at once, one does it for all.

        `compact`: write the file anew and give its free space back. `brief`: return False where the file
        must be written anew and is so large that other writers would wait for long.
        Errors: `StoreLocked` while another process reads an older state; then call it again.
        Cost: the log of changes; rarely, the rows of all keys or the whole file are written anew.
        """
        ...

    async def collect(
        self, *, now_us: int, is_driving: Driving = lambda holder, end: True, dry: bool = False
    ) -> Collected:
        """Remove content that nothing refers to, seal what is plain under a wrapped key, drop old windows.

        With `dry`, only look. Errors: `MissingKey` if content is sealed and the vault key is not here.
        """
        ...

    async def rotate_keys(self, sealer: Sealer, *, is_driving: Driving = lambda holder, end: True) -> int:
        """Wrap every data key by another vault key, and use that from now on; return how many.

        Content stays as it is. Errors: `LeaseHeld` while somebody drives runs; `MissingKey` without the vault
        key of now.
        """
        ...

    def listen(self, listener: Callable[[int, bool], None]) -> Callable[[], None]:
        """Call `listener(position, abroad)` after commits; returns its undo.

        It is called from the writer's thread and must only hand over. `abroad` says that another process
        has written too; such commits are noticed within 100 ms.
        """
        ...

    def verify(self, *, head: str | None = None) -> Report:
        """Check every chain, commit, content and view. `head`: a root printed earlier (see `root`)."""
        ...

    def close(self, *, holder: str = "") -> None:
        """Commit what is queued, give back what leases `holder` has left, and close. Idempotent."""
        ...


FaultHook = Callable[[str], None]
"""Called at named instants of a store where a crash hurts."""


# --------------------------------------------------------------------------- stored values
# Reading back what the store has written: what cannot be read is damage, and no fault of the caller.


T = TypeVar("T")

RESTORE = "Run `artelier verify`; restore a backup or import an export."


@overload
def decode_stored(content: str | bytes) -> Any: ...


@overload
def decode_stored(content: str | bytes, *, type: type[T]) -> T: ...


def decode_stored(content: str | bytes, *, type: Any = Any) -> Any:
    """JSON from a row or a blob. Errors: `CorruptStore` if it is none, or not of that type."""
    try:
        return msgspec.json.decode(content, type=type)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise CorruptStore(
            f"a stored value cannot be read: {error}", got=repr(content[:60]), hint=RESTORE
        ) from None


class StoredRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A record that is stored as JSON, such as the job of a run, or its state after a cycle."""

    MEANING = "stored record"
    """The words for it in errors."""

    def to_stored(self) -> dict[str, Any]:
        return msgspec.to_builtins(self)

    @classmethod
    def from_stored(cls, stored: object) -> Self:
        """Return the record of what was stored; None is one of defaults. Errors: `CorruptStore`."""
        try:
            return msgspec.convert({} if stored is None else stored, cls)
        except msgspec.ValidationError as error:
            raise CorruptStore(f"the {cls.MEANING} cannot be read: {error}") from None

    def replace(self, **fields: Any) -> Self:
        return msgspec.structs.replace(self, **fields)


def stored_name(ref: str) -> bytes:
    """The name behind a stored reference. Errors: `CorruptStore` if it is no reference."""
    try:
        return blob_name(ref)
    except InvalidRequest as error:
        raise CorruptStore(
            "a stored reference is none", expected=error.expected, got=error.got, hint=RESTORE
        ) from None


async def stored_blob(store: Store, tenant: str, ref: str) -> bytes:
    """Content that a row refers to. Errors: `CorruptStore`, also if it is not there; `Erased`."""
    try:
        return await store.blob(tenant, stored_name(ref))
    except Erased:
        raise
    except NotFound as error:
        raise CorruptStore("content that a row refers to is missing", got=error.got, hint=RESTORE) from None


async def missing_mark(store: Store, tenant: str, name: bytes) -> str:
    """Return the text to show for content that `blobs` left out: `[erased]` or `[locked]`."""
    try:
        await store.blob(tenant, name)
    except Erased as error:
        return error.mark
    except (NotFound, CorruptStore):
        pass
    return Erased.mark


_SILENT: tuple[object, ...] = (int, bool, float, type(None), bytes, BlobRef, Ellipsis)
_FORM = re.compile(r"[bh]:[A-Za-z0-9_-]{43}|[0-9a-f]{64}|[0-9]{1,6}")
"""References, hashes, and the numbers that steps have without a key: made by us, of nobody's words."""

_fields: dict[type, tuple[str, ...]] = {}
"""Fields of a class of event data that can hold text."""


def is_made(name: str) -> bool:
    """Return True if a name is one that no person, model or tool can have chosen."""
    return _FORM.fullmatch(name) is not None


def names_in(append: StreamAppend) -> list[str]:
    """Every text that an append would store inline, actors apart, as often as it stands there."""
    found = [append.stream.space, append.stream.local]
    for draft in append.events:
        if isinstance(draft, RawDraft):
            gather(_plain(draft), found)
        elif not draft.data.IS_RULE:
            gather(draft.data, found)
    return found


def names_of(data: Sequence[EventData]) -> list[str]:
    """The same for events that are about to be noted."""
    found: list[str] = []
    for one in data:
        if not one.IS_RULE:
            gather(one, found)
    return found


def gather(value: object, found: list[str]) -> None:
    """Collect the texts of a value of event data, keys of mappings included."""
    kind = type(value)
    if (fields := _fields.get(kind)) is not None:
        for name in fields:
            item = getattr(value, name)
            if type(item) is str:
                found.append(item)
            elif item:
                gather(item, found)
    elif isinstance(value, str):
        found.append(value)
    elif isinstance(value, dict):
        for key, item in cast("dict[object, object]", value).items():
            gather(key, found)
            gather(item, found)
    elif isinstance(value, tuple | list | set | frozenset):
        for item in cast("Sequence[object]", value):
            gather(item, found)
    elif isinstance(value, msgspec.Struct):
        _learn(kind)
        gather(value, found)


def _learn(kind: type) -> None:
    every = msgspec.structs.fields(kind)
    _fields[kind] = tuple(one.name for one in every if not _is_silent(one.type))


def _is_silent(kind: object) -> bool:
    """Return True if a field of this type can hold no text that somebody chose."""
    if kind in _SILENT:
        return True
    inner = get_args(kind)
    return bool(inner) and all(_is_silent(one) for one in inner)


def _plain(draft: RawDraft) -> object:
    try:
        return msgspec.json.decode(draft.data)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None  # the writer refuses it
