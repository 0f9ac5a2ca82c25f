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
from typing import Concatenate, ParamSpec, TypeVar
from weakref import WeakValueDictionary

from artelier.clock import Clock
from artelier.errors import ArtelierError, CorruptStore, Erased, NotFound, StoreClosed, StoreUnavailable
from artelier.ids import fresh_secret
from artelier.log import erasure
from artelier.log.blobs import (
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
from artelier.log.event import Event, Stream
from artelier.log.rate_table import change_turns, take_turns
from artelier.log.rate_windows import Asked, Change, Taken
from artelier.log.rows import contents, events
from artelier.log.rows.coordination import extend_leases
from artelier.log.views import LISTED, dispatch, stored_versions
from artelier.log.writer import Writer, another_process

P = ParamSpec("P")
T = TypeVar("T")

PACKED_AHEAD_BYTES = 256 * 1024
"""Content above this size is compressed, sealed and opened in threads of its own."""
ADMITTED_AT_ONCE = 200
"""Events whose names are looked at in one piece; a batch of more gives others their turn in between."""
SCANNED_AT_ONCE = 5_000
"""Positions that a read of one tenant's events looks at before others have a turn."""

PARTS_AT_ONCE = 16
"""Keys for parts that one transaction makes: a turn of a chat takes four, each transaction is an fsync."""
SPARE_POOLS_MAX = 1_000


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


def _all_rows(db: Database, sql: str, parameters: Sequence[object]) -> list[Row]:
    return db.execute(sql, parameters).fetchall()


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
        self._spare_parts: dict[tuple[str, int], list[DataKey]] = {}
        """Keys for parts that were made and nothing is stored under, by tenant and the key above."""
        self._looked_at = -1
        self._keys_made = -1
        self._keys_gone = 0
        """The number of times that keys were seen to be gone."""
        self._measuring: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        """Held, by tenant, while it is counted what an erasure would take away."""
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

    @property
    def clock(self) -> Clock | None:
        return None

    @abstractmethod
    def verify(self, *, head: str | None = None) -> Report: ...

    @abstractmethod
    async def shred(self, *, compact: bool = False, brief: bool = False) -> bool: ...

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
        made, before = self._ask(contents.newest_key), self._keys_made
        if made == before:
            return
        self._keys_made = made
        if before < 0 or self._ask(contents.are_keys_gone, after=before, upto=made):
            self._keys_gone += 1
            self._keys_changed()

    def _keys_changed(self) -> None:
        self._keys.clear()
        self._spare_parts.clear()
        self.keyring.forget()
        for forget in tuple(self.on_keys):
            forget()

    def _rows(self, sql: str, parameters: Sequence[object] = ()) -> list[Row]:
        return self._ask(_all_rows, sql, parameters)

    def _ask(
        self, question: Callable[Concatenate[Database, P], T], /, *arguments: P.args, **named: P.kwargs
    ) -> T:
        """Put a question to the connection for reading."""
        if self._closed or self._pid != os.getpid():
            raise self._gone_error()
        try:
            with self._read_lock:
                return question(self._reading, *arguments, **named)
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
        return all(version <= own.get(name, 0) for name, version in self._ask(stored_versions).items())

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
        pack = self.keyring.pack
        return [
            one if len(one.content) <= PACKED_AHEAD_BYTES else one._replace(content=b"", packed=pack(one))
            for one in blobs
        ]

    def look(self, sql: str, parameters: Sequence[object] = ()) -> list[Row]:
        """`query` for callers that cannot wait: a clock, a property."""
        return self._rows(sql, parameters)

    async def read(self, stream: Stream, *, after: int = 0, limit: int = 1000) -> list[Event]:
        return self._ask(events.read_stream, stream, after=after, limit=limit)

    async def read_all(self, *, after: int = 0, limit: int = 1000, tenant: str | None = None) -> list[Event]:
        if tenant is None:
            return self._ask(events.read_all, after=after, limit=limit)
        listed = self._rows(LISTED)[0][0] if self._is_listing else 0
        found: list[Event] = []
        if after < listed:
            found = self._ask(events.read_listed, tenant, after=after, upto=listed, limit=limit)
        after = max(after, listed)
        newest = self._ask(events.newest_position)
        while after < newest and len(found) < limit:
            upto, more = after + SCANNED_AT_ONCE, limit - len(found)
            found += self._ask(events.read_unlisted, tenant, after=after, upto=upto, limit=more)
            after += SCANNED_AT_ONCE
            if after < newest:
                await asyncio.sleep(0)  # a tenant beside many passes over their events
        return found

    async def head(self, stream: Stream) -> tuple[int, bytes]:
        return self._ask(events.find_head, stream)

    async def blob(self, tenant: str, name: bytes) -> bytes:
        stored = self._ask(contents.find_content, tenant, name)
        if stored is None:
            raise NotFound("no such content", got=blob_ref(name))
        if stored.size > PACKED_AHEAD_BYTES:
            return await asyncio.to_thread(self.keyring.unpack, *stored)
        return self.keyring.unpack(*stored)

    async def blobs(self, tenant: str, names: Sequence[bytes]) -> dict[bytes, bytes]:
        found: dict[bytes, bytes] = {}
        for stored in self._ask(contents.find_contents, tenant, names):
            with suppress(CorruptStore, Erased):
                found[stored.name] = self.keyring.unpack(*stored)
        return found

    async def data_key(self, tenant: str, subject: str | None = None) -> DataKey:
        self._look_at_keys()
        if (key := self._keys.get((tenant, subject))) is not None:
            return key
        names = () if subject is None else await self.subject_names(tenant, subject)

        def find_or_make(db: Database) -> tuple[int, bytes]:
            if (row := contents.find_key(db, tenant, names)) is not None:
                return row
            erasure.check_vault_key_stands(db, self.keyring)
            stored = self.keyring.seal_key(self._entropy(SECRET_BYTES))
            return contents.add_key(db, tenant, names[0] if names else None, stored), stored

        row = self._ask(contents.find_key, tenant, names)
        row = await self._writer.call(find_or_make, tenant=tenant) if row is None else row
        key = self._keys[tenant, subject] = self.keyring.key(tenant, *row)
        return key

    async def subject_names(self, tenant: str, subject: str) -> tuple[str, ...]:
        if not self.keyring.is_sealing:
            return (subject,)
        return subject_name((await self.data_key(tenant)).secret, subject), subject

    async def key_of(self, tenant: str, name: bytes) -> DataKey | None:
        row = self._ask(contents.key_of_content, tenant, name)
        if row is None or (row[1] is None and row[0] is not None):
            return None
        return self.keyring.key(tenant, row[0], row[1] or b"")

    async def subject_key_of(self, tenant: str, name: bytes) -> DataKey | None:
        row = self._ask(contents.subject_key_of_content, tenant, name)
        return None if row is None else self.keyring.key(tenant, *row)

    async def part_keys(self, tenant: str, below: DataKey, *, count: int) -> list[DataKey]:
        if below.key_id is None:
            return [below] * count
        self._look_at_keys()
        if len(self._spare_parts) >= SPARE_POOLS_MAX:
            self._spare_parts.clear()
        spare = self._spare_parts.setdefault((tenant, below.key_id), [])
        taken: list[DataKey] = []
        while len(taken) < count:
            try:
                taken.append(spare.pop())
            except IndexError:
                wanted = max(count - len(taken), PARTS_AT_ONCE)
                spare += await self._make_parts(tenant, below.key_id, count=wanted)
        return taken

    async def _make_parts(self, tenant: str, below: int, *, count: int) -> list[DataKey]:
        stored = [self.keyring.seal_key(self._entropy(SECRET_BYTES)) for _ in range(count)]

        def make(db: Database) -> list[int]:
            erasure.check_vault_key_stands(db, self.keyring)
            return contents.add_part_keys(db, tenant, below, stored)

        made = await self._writer.call(make, tenant=tenant)
        if len(made) < count:
            raise Erased("what this would be stored under was erased", got=f"key {below}")
        return [self.keyring.key(tenant, id_, one) for id_, one in zip(made, stored, strict=True)][::-1]

    async def part_key_of(self, tenant: str, name: bytes) -> DataKey | None:
        row = self._ask(contents.part_key_of_content, tenant, name)
        return None if row is None else self.keyring.key(tenant, *row)

    def erasures(self) -> int:
        self._look_at_keys()
        return self._keys_gone

    async def key_by_id(self, tenant: str, key_id: int | None) -> DataKey | None:
        if key_id is None:
            return DataKey(None, b"")
        secret = self._ask(contents.find_secret, key_id)
        return None if secret is None else self.keyring.key(tenant, key_id, secret)

    async def gone_key(self, tenant: str) -> int:
        return await self._writer.call(contents.move_counter, tenant=tenant)

    async def add_key(self, tenant: str, secret: bytes, *, is_part: bool = False) -> DataKey:
        stored = self.keyring.seal_key(secret)

        def add(db: Database) -> int:
            erasure.check_vault_key_stands(db, self.keyring)
            return contents.add_imported_key(db, tenant, stored, is_part=is_part)

        key_id = await self._writer.call(add, tenant=tenant)
        return self.keyring.key(tenant, key_id, stored)

    async def query(self, sql: str, parameters: Sequence[object] = ()) -> list[Row]:
        return self._rows(sql, parameters)

    async def survey(self, sql: str, parameters: Sequence[object] = ()) -> list[Row]:
        def read() -> list[Row]:
            with self._snapshot() as db:
                return _all_rows(db, sql, parameters)

        return await asyncio.to_thread(read)

    async def renew(self, holder: str, *, until: LeaseEnd, streams: Sequence[Stream] | None = None) -> None:
        await self._writer.call(lambda db: extend_leases(db, holder, until=until, streams=streams))

    async def root(self) -> tuple[int, bytes]:
        return self._ask(events.newest_commit)

    async def take_turns(self, asked: Sequence[Asked], *, now_us: int, holder: str) -> list[Taken]:
        return await self._writer.call(lambda db: take_turns(db, asked, now_us=now_us, holder=holder))

    def change_turns(self, changes: Sequence[Change]) -> Awaitable[None]:
        return self._writer.call(lambda db: change_turns(db, changes))

    async def measure(self, wanted: Erasing) -> Wiped:
        def read() -> Wiped:
            with self._snapshot() as db:
                return erasure.measure(db, wanted)

        # One at a time for a tenant: whoever asks for many must not have all threads.
        async with self._measuring.setdefault(wanted.tenant, asyncio.Lock()):
            return await asyncio.to_thread(read)

    async def erase(self, wanted: Erasing, *, record: Batch) -> Wiped:
        if self.names is not None:
            record = self.names.admit(record)
        done = await self._writer.submit_with(
            record,
            lambda db: erasure.wipe(db, wanted),
            tenant=wanted.tenant,
            rows=0 if wanted.expected is None else wanted.expected.keys + wanted.expected.blobs,
        )
        self._keys_changed()
        return done

    async def collect(
        self, *, now_us: int, is_driving: Driving = lambda holder, end: True, dry: bool = False
    ) -> Collected:
        keyring = self.keyring

        def look() -> tuple[set[contents.Named], int, int, int, int]:
            with self._snapshot() as db:
                garbage, position = erasure.find_unreferenced(db, keyring)
                plain = erasure.count_plain(db, keyring)
                size = contents.stored_size(db, garbage) if dry else 0
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

    async def rotate_keys(self, sealer: Sealer, *, is_driving: Driving = lambda holder, end: True) -> int:
        count = await self._writer.call(
            lambda db: erasure.rotate_keys(db, self.keyring, sealer, is_driving=is_driving)
        )
        self.keyring.change(sealer)
        return count

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
