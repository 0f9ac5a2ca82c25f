"""The half of a store that knows no engine: reading, keys, content, and batches on their way to the writer.

Reads run on the caller's thread over a connection of their own: they are bounded, never wait for writers, and
see everything that was committed before they began. `sqlite/store.py` and `postgres/store.py` open and close.
"""

from __future__ import annotations

import asyncio
import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import replace

from artelier.errors import ArtelierError, CorruptStore, Erased, NotFound, StoreClosed, StoreUnavailable
from artelier.ids import fresh_secret
from artelier.log import erasure
from artelier.log.blobs import (
    IMPORTED,
    SECRET_BYTES,
    Blob,
    Collected,
    DataKey,
    Driving,
    Erasing,
    Keyring,
    Sealer,
    Wiped,
    blob_ref,
    subject_name,
)
from artelier.log.contract import Batch, FaultHook, LeaseEnd, Names, Receipt, Report, Row, View
from artelier.log.database import Database
from artelier.log.event import GENESIS, Event, Stream
from artelier.log.queries import KEYS_LEFT
from artelier.log.rate_table import change_turns, take_turns
from artelier.log.rate_windows import Asked, Change, Taken
from artelier.log.views import LISTED, dispatch
from artelier.log.writer import Writer, another_process

PACKED_AHEAD_BYTES = 256 * 1024
"""Content above this size is compressed, sealed and opened in threads of its own."""
ADMITTED_AT_ONCE = 200
"""Events whose names are looked at in one piece; a batch of more gives others their turn in between."""
SCANNED_AT_ONCE = 5_000
"""Positions that a read of one tenant's events looks at before others have a turn."""

_EVENT = (
    "SELECT s.tenant, s.space, s.name, e.seq, e.kind, e.version, e.data, e.at_us, e.actor, e.cause,"
    " e.hash, e.position,"
    " (SELECT p.hash FROM events p WHERE p.stream = e.stream AND p.seq = e.seq - 1)"
    " FROM events e JOIN streams s ON s.id = e.stream"
)


_LISTED_EVENT = (
    _EVENT.replace("FROM events e JOIN", "FROM tenant_positions t CROSS JOIN events e JOIN")
    + " WHERE t.tenant = ? AND t.first >= coalesce("
    "(SELECT max(first) FROM tenant_positions WHERE first <= ? + 1 AND tenant = ?), 0)"
    " AND e.position BETWEEN t.first AND t.last AND e.position > ? AND e.position <= ?"
    " ORDER BY t.first, e.position LIMIT ?"
)
"""By the stretches of positions that are a tenant's, from the one that holds the first on."""

_CONTENT = (
    "SELECT b.name, b.key_id, k.secret, b.codec, b.content, b.size"
    " FROM blobs b LEFT JOIN keys k ON k.key_id = b.key_id"
)


_MAKE_KEY = "INSERT INTO keys(tenant, subject, secret) VALUES (?, ?, ?) RETURNING key_id"
_MAKE_IMPORTED_PART = "INSERT INTO keys(tenant, subject, secret, parent) VALUES (?, ?, ?, 0) RETURNING key_id"
_MAKE_PART = (
    "INSERT INTO keys(tenant, subject, secret, parent) SELECT tenant, subject, ?, coalesce(parent, key_id)"
    " FROM keys WHERE key_id = ? AND tenant = ? RETURNING key_id"
)


def event_from_row(row: Row) -> Event:
    tenant, space, name, seq, kind, version, data, at_us, actor, cause, hash_, position, prev = row
    return Event(
        stream=Stream(tenant, space, name),
        seq=seq,
        kind=kind,
        version=version,
        data=data.encode(),
        at_us=at_us,
        actor=actor,
        cause=cause,
        prev_hash=prev or GENESIS,
        hash=hash_,
        position=position,
    )


_KEYS_GONE = "SELECT ? - (SELECT count(*) FROM keys)"


def _admit(names: Names, batch: Batch) -> Batch | asyncio.Future[Receipt]:
    """A batch as it may be stored, or its refusal."""
    try:
        return names.admit(batch)
    except ArtelierError as error:
        refused: asyncio.Future[Receipt] = asyncio.get_running_loop().create_future()
        refused.set_exception(error)
        refused.exception()  # whoever does not wait for it need not hear of it
        return refused


def _data_version(db: Database) -> int:
    return db.data_version()


def _schema_version(db: Database) -> int:
    return db.schema_version()


class DatabaseStore(ABC):
    """A `Store` over two connections: one that the writer owns, and one for reading."""

    def __init__(
        self,
        views: Sequence[View],
        *,
        entropy: Callable[[int], bytes] = fresh_secret,
        fault: FaultHook | None = None,
        sealer: Sealer | None = None,
    ) -> None:
        """`sealer`: the cipher under the vault key; without one, content is stored as it is."""
        self._entropy = entropy
        self._fault = fault
        self.names: Names | None = None
        self.keyring = Keyring(sealer)
        self.views = tuple(views)
        self._pid = os.getpid()
        self._is_listing = True
        """False for an older file that cannot be written here."""
        self._read_lock = threading.Lock()
        self._listeners: list[Callable[[int, bool], None]] = []
        self._keys: dict[tuple[str, str | None], DataKey] = {}
        self._looked_at = -1
        self._keys_made = -1
        self._keys_gone = 0
        self.on_keys: list[Callable[[], None]] = []
        """Called when something may have been erased, here or by another process; from any thread."""
        self._closed = False

    def _start(
        self,
        writing: Database,
        reading: Database,
        *,
        versions: Mapping[str, int],
        schema_version: int,
        check_place: Callable[[], None] = lambda: None,
    ) -> None:
        """Begin to write and read over two connections that nobody else uses."""
        self._reading = reading
        self._newest_schema = schema_version
        self._writer = Writer(
            writing,
            dispatch(self.views),
            on_commit=self._tell,
            versions=versions,
            schema_version=schema_version,
            check_place=check_place,
            fault=self._fault,
            keyring=self.keyring,
            on_keys=self._keys_changed,
        )

    @abstractmethod
    def _snapshot(self) -> AbstractContextManager[Database]:
        """Return a connection of its own that sees one state of the store until it is closed."""

    @property
    @abstractmethod
    def label(self) -> str: ...

    @abstractmethod
    def verify(self, *, head: str | None = None) -> Report: ...

    @abstractmethod
    async def shred(self) -> None: ...

    @abstractmethod
    def _disconnect(self, *, holder: str) -> None:
        """Give back what leases `holder` has left, and close the connections."""

    def _tell(self, position: int, abroad: bool) -> None:
        for listener in tuple(self._listeners):
            try:
                listener(position, abroad)
            except Exception:
                # A listener whose event loop is closed hears no more; the writer's thread must go on,
                # or every later append of this process would wait for ever.
                self._listeners.remove(listener)

    def _look_at_keys(self) -> None:
        """Forget keys that another process has dropped since the last look. Cost: next to nothing."""
        version = self._ask(_data_version)
        if version == self._looked_at:
            return
        self._looked_at = version
        made, before = self._rows("SELECT made FROM key_counter")[0][0], self._keys_made
        if made == before:
            return
        self._keys_made = made
        if before < 0 or self._rows(KEYS_LEFT, (before, made))[0][0] != made - before:
            self._keys_gone = self._rows(_KEYS_GONE, (made,))[0][0]
            self._keys_changed()

    def _keys_changed(self) -> None:
        self._keys.clear()
        self.keyring.forget()
        for forget in tuple(self.on_keys):
            forget()

    def _rows(self, sql: str, parameters: Sequence[object] = ()) -> list[Row]:
        if self._closed or self._pid != os.getpid():
            raise self._gone_error()
        try:
            with self._read_lock:
                return self._reading.execute(sql, parameters).fetchall()
        except Exception as error:
            if (clear := self._reading.store_error(error)) is None:
                raise
            raise clear from error

    def _ask(self, question: Callable[[Database], int]) -> int:
        """Ask the connection for reading for one of its numbers."""
        if self._closed or self._pid != os.getpid():
            raise self._gone_error()
        try:
            with self._read_lock:
                return question(self._reading)
        except Exception as error:
            if (clear := self._reading.store_error(error)) is None:
                raise
            raise clear from error

    def _gone_error(self) -> StoreUnavailable:
        if self._closed:
            return StoreClosed("the store is closed", hint="Open the kernel again.")
        return another_process(self.label)

    @property
    def schema_version(self) -> int:
        return self._newest_schema if self._is_listing else self._ask(_schema_version)

    @property
    def is_current(self) -> bool:
        if self._ask(_schema_version) > self._newest_schema:
            return False
        own = {view.name: view.version for view in self.views}
        stored = self._rows("SELECT name, version FROM view_versions")
        return all(version <= own.get(name, 0) for name, version in stored)

    @property
    def is_closed(self) -> bool:
        return self._closed

    @property
    def commits(self) -> int:
        """Durable commits of this process so far."""
        return self._writer.commits

    def submit(self, batch: Batch) -> Awaitable[Receipt]:
        if self.names is None:
            return self._writer.submit(batch)
        return self.submit_all([batch])[0]

    def submit_all(self, batches: Sequence[Batch]) -> list[Awaitable[Receipt]]:
        if (names := self.names) is None:
            return list(self._writer.submit_all(batches))
        admitted = [_admit(names, batch) for batch in batches]
        queued = iter(self._writer.submit_all([one for one in admitted if isinstance(one, Batch)]))
        return [next(queued) if isinstance(one, Batch) else one for one in admitted]

    async def append(self, batch: Batch) -> Receipt:
        if any(len(blob.content) > PACKED_AHEAD_BYTES for blob in batch.blobs):
            # Else all other commits would wait until the writer has compressed and sealed them.
            batch = replace(batch, blobs=await asyncio.to_thread(self._pack_ahead, batch.blobs))
        if self.names is not None and sum(len(one.events) for one in batch.appends) > ADMITTED_AT_ONCE:
            return await self._writer.submit(await self.names.admit_large(batch))
        return await self.submit(batch)

    def _pack_ahead(self, blobs: Sequence[Blob]) -> list[Blob]:
        packed = self.keyring.pack
        return [
            one if len(one.content) <= PACKED_AHEAD_BYTES else one._replace(packed=packed(one))
            for one in blobs
        ]

    def look(self, sql: str, parameters: Sequence[object] = ()) -> list[Row]:
        """`query` for callers that cannot wait: a clock, a property."""
        return self._rows(sql, parameters)

    async def read(self, stream: Stream, *, after: int = 0, limit: int = 1000) -> list[Event]:
        rows = self._rows(
            f"{_EVENT} WHERE s.tenant = ? AND s.space = ? AND s.name = ? AND e.seq > ?"
            " ORDER BY e.seq LIMIT ?",
            (*stream, after, limit),
        )
        return [event_from_row(row) for row in rows]

    async def read_all(self, *, after: int = 0, limit: int = 1000, tenant: str | None = None) -> list[Event]:
        if tenant is None:
            rows = self._rows(f"{_EVENT} WHERE e.position > ? ORDER BY e.position LIMIT ?", (after, limit))
            return [event_from_row(row) for row in rows]
        listed = self._rows(LISTED)[0][0] if self._is_listing else 0
        rows = (
            self._rows(_LISTED_EVENT, (tenant, after, tenant, after, listed, limit)) if after < listed else []
        )
        found = [event_from_row(row) for row in rows]
        after = max(after, listed)
        newest = self._rows("SELECT max(position) FROM events", ())[0][0] or 0
        while after < newest and len(found) < limit:
            # What is not listed yet: by position. By tenant, SQLite would read and sort all its events.
            rows = self._rows(
                f"{_EVENT} WHERE e.position > ? AND e.position <= ? AND s.tenant || '' = ?"
                " ORDER BY e.position LIMIT ?",
                (after, after + SCANNED_AT_ONCE, tenant, limit - len(found)),
            )
            found += [event_from_row(row) for row in rows]
            after += SCANNED_AT_ONCE
            if after < newest:
                await asyncio.sleep(0)  # a tenant beside many passes over their events
        return found

    async def head(self, stream: Stream) -> tuple[int, bytes]:
        rows = self._rows(
            "SELECT e.seq, e.hash FROM events e JOIN streams s ON s.id = e.stream"
            " WHERE s.tenant = ? AND s.space = ? AND s.name = ? ORDER BY e.seq DESC LIMIT 1",
            stream,
        )
        return (rows[0][0], rows[0][1]) if rows else (0, GENESIS)

    async def blob(self, tenant: str, name: bytes) -> bytes:
        rows = self._rows(f"{_CONTENT} WHERE b.name = ? AND b.tenant = ?", (name, tenant))
        if not rows:
            raise NotFound("no such content", got=blob_ref(name))
        if rows[0][-1] > PACKED_AHEAD_BYTES:
            return await asyncio.to_thread(self.keyring.unpack, *rows[0])
        return self.keyring.unpack(*rows[0])

    async def blobs(self, tenant: str, names: Sequence[bytes]) -> dict[bytes, bytes]:
        marks = ",".join("?" * len(names))
        found: dict[bytes, bytes] = {}
        for row in self._rows(f"{_CONTENT} WHERE b.name IN ({marks}) AND b.tenant = ?", (*names, tenant)):
            with suppress(CorruptStore, Erased):
                found[row[0]] = self.keyring.unpack(*row)
        return found

    async def data_key(self, tenant: str, subject: str | None = None) -> DataKey:
        self._look_at_keys()
        if (key := self._keys.get((tenant, subject))) is not None:
            return key
        if subject is None:
            name, whose, asked = None, "subject IS NULL", (tenant,)
        else:
            names = await self.subject_names(tenant, subject)
            name, whose, asked = names[0], "(subject = ? OR subject = ?)", (tenant, names[0], names[-1])
        find = f"SELECT key_id, secret FROM keys WHERE tenant = ? AND {whose} ORDER BY key_id LIMIT 1"

        def find_or_make(db: Database) -> Row:
            if (row := db.one(find, asked)) is not None:
                return row
            stored = self.keyring.seal_key(self._entropy(SECRET_BYTES))
            made = db.one(_MAKE_KEY, (tenant, name, stored))
            assert made is not None
            return made[0], stored

        rows = self._rows(find, asked)
        row = rows[0] if rows else await self._writer.call(find_or_make)
        key = self._keys[tenant, subject] = self.keyring.key(tenant, *row)
        return key

    async def subject_names(self, tenant: str, subject: str) -> tuple[str, ...]:
        if not self.keyring.is_sealing:
            return (subject,)
        return subject_name((await self.data_key(tenant)).secret, subject), subject

    async def key_of(self, tenant: str, name: bytes) -> DataKey | None:
        rows = self._rows(
            "SELECT b.key_id, k.secret FROM blobs b LEFT JOIN keys k ON k.key_id = b.key_id"
            " WHERE b.name = ? AND b.tenant = ?",
            (name, tenant),
        )
        if not rows or (rows[0][0] is not None and rows[0][1] is None):
            return None
        return self.keyring.key(tenant, *rows[0])

    async def subject_key_of(self, tenant: str, name: bytes) -> DataKey | None:
        rows = self._rows(
            "SELECT k.key_id, k.secret FROM blobs b JOIN keys o ON o.key_id = b.key_id"
            " JOIN keys k ON k.key_id = coalesce(o.parent, o.key_id)"
            f" WHERE b.name = ? AND b.tenant = ? AND k.subject <> '{IMPORTED}'",
            (name, tenant),
        )
        return self.keyring.key(tenant, *rows[0]) if rows else None

    async def part_keys(self, tenant: str, below: DataKey, *, count: int) -> list[DataKey]:
        if below.key_id is None:
            return [below] * count
        stored = [self.keyring.seal_key(self._entropy(SECRET_BYTES)) for _ in range(count)]
        rows = await self._writer.call(
            lambda db: [db.one(_MAKE_PART, (one, below.key_id, tenant)) for one in stored]
        )
        made = [row[0] for row in rows if row is not None]
        if len(made) < count:
            raise Erased("what this would be stored under was erased", got=f"key {below.key_id}")
        return [self.keyring.key(tenant, id_, one) for id_, one in zip(made, stored, strict=True)]

    async def part_key_of(self, tenant: str, name: bytes) -> DataKey | None:
        rows = self._rows(
            "SELECT b.key_id, k.secret FROM blobs b JOIN keys k ON k.key_id = b.key_id"
            " WHERE b.name = ? AND b.tenant = ? AND k.parent IS NOT NULL",
            (name, tenant),
        )
        return self.keyring.key(tenant, *rows[0]) if rows else None

    def erasures(self) -> int:
        self._look_at_keys()
        return self._keys_gone

    async def key_by_id(self, tenant: str, key_id: int | None) -> DataKey | None:
        if key_id is None:
            return DataKey(None, b"")
        rows = self._rows("SELECT secret FROM keys WHERE key_id = ?", (key_id,))
        return self.keyring.key(tenant, key_id, rows[0][0]) if rows else None

    async def gone_key(self, tenant: str) -> int:
        return await self._writer.call(lambda db: erasure.move_counter(db, tenant))

    async def add_key(self, tenant: str, secret: bytes, *, is_part: bool = False) -> DataKey:
        stored = self.keyring.seal_key(secret)

        def add(db: Database) -> int:
            row = db.one("SELECT key_id FROM keys WHERE tenant = ? AND secret = ?", (tenant, stored))
            if row is None and is_part:
                row = db.one(_MAKE_IMPORTED_PART, (tenant, IMPORTED, stored))
            row = row or db.one(_MAKE_KEY, (tenant, IMPORTED, stored))
            assert row is not None
            return row[0]

        return self.keyring.key(tenant, await self._writer.call(add), stored)

    async def query(self, sql: str, parameters: Sequence[object] = ()) -> list[Row]:
        return self._rows(sql, parameters)

    async def renew(self, holder: str, *, until: LeaseEnd, streams: Sequence[Stream] | None = None) -> None:
        sql = "UPDATE leases SET expires_us = ?, expires_uptime_us = ? WHERE holder = ?"

        def extend(db: Database) -> None:
            if streams is None:
                db.execute(sql, (*until, holder))
            else:
                named = [(*until, holder, stream.name) for stream in streams]
                db.executemany(f"{sql} AND stream = ?", named)

        await self._writer.call(extend)

    async def root(self) -> tuple[int, bytes]:
        rows = self._rows("SELECT last_position, root FROM commits ORDER BY first_position DESC LIMIT 1")
        return (rows[0][0], rows[0][1]) if rows else (0, GENESIS)

    async def take_turns(self, asked: Sequence[Asked], *, now_us: int, holder: str) -> list[Taken]:
        return await self._writer.call(lambda db: take_turns(db, asked, now_us=now_us, holder=holder))

    def change_turns(self, changes: Sequence[Change]) -> Awaitable[None]:
        return self._writer.call(lambda db: change_turns(db, changes))

    async def measure(self, wanted: Erasing) -> Wiped:
        return await self._writer.call(lambda db: erasure.measure(db, wanted))

    async def erase(self, wanted: Erasing, *, record: Batch) -> Wiped:
        if self.names is not None:
            record = self.names.admit(record)
        done = await self._writer.submit_with(record, lambda db: erasure.wipe(db, wanted))
        self._keys_changed()
        return done

    async def collect(
        self, *, now_us: int, is_driving: Driving = lambda holder, end: True, dry: bool = False
    ) -> Collected:
        keyring = self.keyring

        def look() -> tuple[set[erasure.Named], int, int, int, int]:
            with self._snapshot() as db:
                garbage, position = erasure.find_unreferenced(db, keyring)
                plain = erasure.count_plain(db, keyring)
                size = erasure.size_of(db, garbage) if dry else 0
                rates = erasure.drop_rates(db, now_us=now_us, dry=True) if dry else 0
                return garbage, position, plain, size, rates

        garbage, position, plain, size, rates = await asyncio.to_thread(look)
        if dry:
            return Collected(blobs=len(garbage), size_bytes=size, resealed=plain, rates=rates, cleaned=False)
        blobs, size, busy = await self._writer.call(
            lambda db: erasure.remove(db, keyring, garbage, after=position, is_driving=is_driving)
        )
        resealed = 0
        while some := await self._writer.call(lambda db: erasure.reseal(db, keyring)):
            resealed += some
        await self._writer.call(lambda db: erasure.name_subjects(db, keyring))
        rates = await self._writer.call(lambda db: erasure.drop_rates(db, now_us=now_us, dry=False))
        return Collected(blobs=blobs, size_bytes=size, resealed=resealed, rates=rates, busy=busy)

    def listen(self, listener: Callable[[int, bool], None]) -> Callable[[], None]:
        self._listeners.append(listener)

        def undo() -> None:
            if listener in self._listeners:
                self._listeners.remove(listener)

        return undo

    def close(self, *, holder: str = "") -> None:
        """Commit what is queued, give back what leases `holder` has left, and close.

        Closing twice is harmless, and so is closing in a fork.
        """
        if self._closed:
            return
        if self._pid != os.getpid():
            self._closed = True  # the connections and the queue are the parent's
            return
        self._writer.stop()
        self._closed = True
        with self._read_lock:
            self._disconnect(holder=holder)
