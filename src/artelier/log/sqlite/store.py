"""The store on one SQLite file: WAL, `synchronous=FULL`, one writer thread, small reads in place.

Several processes may open one file. Reads run on the caller's thread over a connection of their own: they
are bounded, never wait for writers, and see everything that was committed before they began.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import sqlite3
import tempfile
import threading
import weakref
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from artelier.errors import ArtelierError, CorruptStore, Erased, NotFound, StoreClosed, StoreUnavailable
from artelier.ids import fresh_secret
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
from artelier.log.event import GENESIS, Event, Stream
from artelier.log.rate_windows import Asked, Change, Taken
from artelier.log.sqlite import erasure
from artelier.log.sqlite.connection import (
    BUSY_TIMEOUT_S,
    another_process,
    connect,
    is_file_read_only,
    opened,
    store_error,
)
from artelier.log.sqlite.rate_windows import change_turns, take_turns
from artelier.log.sqlite.schema import (
    LISTED,
    LISTING_SINCE,
    SCHEMA_VERSION,
    FileIdentity,
    dispatch,
    install,
    make_file,
    migrate,
    publish,
    schema_version,
)
from artelier.log.sqlite.verify import verify_store
from artelier.log.sqlite.writer import Writer

PACKED_AHEAD_BYTES = 256 * 1024
"""Content above this size is compressed, sealed and opened in threads of its own."""
ADMITTED_AT_ONCE = 200
"""Events whose names are looked at in one piece; a batch of more gives others their turn in between."""
SCANNED_AT_ONCE = 5_000
"""Positions that a read of one tenant's events looks at before others have a turn."""

CLOSING_MS = 1_000
"""How long closing waits for another process's transaction before it leaves leases to end by time."""

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


SHRED_STEP = 100
"""Instructions of SQLite between two instants at which a test may stop a file that is written anew."""

_KEYS_GONE = (
    "SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'keys'), 0) - (SELECT count(*) FROM keys)"
)


def _admit(names: Names, batch: Batch) -> Batch | asyncio.Future[Receipt]:
    """A batch as it may be stored, or its refusal."""
    try:
        return names.admit(batch)
    except ArtelierError as error:
        refused: asyncio.Future[Receipt] = asyncio.get_running_loop().create_future()
        refused.set_exception(error)
        refused.exception()  # whoever does not wait for it need not hear of it
        return refused


def _remove(folder: str, pid: int) -> None:
    if os.getpid() == pid:  # a fork that ends leaves its parent's store alone
        shutil.rmtree(folder, ignore_errors=True)


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreUnavailable(
            f"the folder of the database cannot be made: {error.strerror}", got=str(folder)
        ) from error


class SqliteStore:
    """`Store` on SQLite. `path` of `:memory:` is a temporary file that `close` removes."""

    def __init__(
        self,
        path: str | Path,
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
        self._scratch: Callable[[], object] = bool
        """Removes the folder of a temporary store."""
        is_scratch = str(path) == ":memory:"
        if is_scratch:
            folder = tempfile.mkdtemp(prefix="artelier-")
            self._scratch = weakref.finalize(self, _remove, folder, os.getpid())
            path = Path(folder) / "state.db"
        self.path = Path(path)
        _make_folder(self.path.parent)
        self.views = tuple(views)
        make_file(self.path, self.views, is_synced=not is_scratch)
        db = connect(str(self.path), read_only=not is_scratch and is_file_read_only(self.path))
        try:
            identity = None if is_scratch else FileIdentity(self.path)
            if is_scratch:
                db.execute("PRAGMA synchronous = OFF")  # no crash leaves anybody who could read it
            migrate(db)
            publish(db, self.views)
            versions = install(db, self.views)
            if sealer is not None:
                db.execute("PRAGMA secure_delete = ON")
                erasure.check_vault_key(db, self.keyring)
        except (sqlite3.Error, UnicodeDecodeError) as error:
            db.close()
            raise store_error(error) from error
        except BaseException:
            db.close()
            raise
        self._pid = os.getpid()
        opened[os.path.realpath(self.path)] += 1
        self._write_db = db
        self._read_db = connect(str(self.path), read_only=True)
        publish(self._read_db, self.views)
        self._is_listing = schema_version(self._read_db) >= LISTING_SINCE
        """False for an older file that cannot be written here."""
        self._read_lock = threading.Lock()
        self._listeners: list[Callable[[int, bool], None]] = []
        self._keys: dict[tuple[str, str | None], DataKey] = {}
        self._looked_at = -1
        self._keys_made: list[Row] = []
        self._keys_gone = 0
        self.on_keys: list[Callable[[], None]] = []
        """Called when something may have been erased, here or by another process; from any thread."""
        self._writer = Writer(
            db,
            dispatch(self.views),
            on_commit=self._tell,
            versions=versions,
            identity=identity,
            fault=fault,
            keyring=self.keyring,
            on_keys=self._keys_changed,
        )
        self._closed = False

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
        version = self._rows("PRAGMA data_version")[0][0]
        if version == self._looked_at:
            return
        self._looked_at = version
        made = self._rows("SELECT seq FROM sqlite_sequence WHERE name = 'keys'")
        if made != self._keys_made:
            self._keys_made = made
            self._keys_gone = self._rows(_KEYS_GONE)[0][0]
            self._keys_changed()

    def _keys_changed(self) -> None:
        self._keys.clear()
        self.keyring.forget()
        for forget in tuple(self.on_keys):
            forget()

    def _rows(self, sql: str, parameters: Sequence[object] = ()) -> list[Row]:
        if self._closed:
            raise StoreClosed("the store is closed", hint="Open the kernel again.")
        if self._pid != os.getpid():
            raise another_process(self.path)
        try:
            with self._read_lock:
                return self._read_db.execute(sql, parameters).fetchall()
        except (sqlite3.Error, UnicodeDecodeError) as error:
            raise store_error(error) from error

    @property
    def label(self) -> str:
        return self.path.name

    @property
    def schema_version(self) -> int:
        return SCHEMA_VERSION if self._is_listing else self._rows("PRAGMA user_version")[0][0]

    @property
    def is_current(self) -> bool:
        if self._rows("PRAGMA user_version")[0][0] > SCHEMA_VERSION:
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
                f"{_EVENT} WHERE e.position > ? AND e.position <= ? AND +s.tenant = ?"
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
        names = (None,) if subject is None else await self.subject_names(tenant, subject)
        find = (
            "SELECT key_id, secret FROM keys WHERE tenant = ? AND (subject IS ? OR subject = ?)"
            " ORDER BY key_id LIMIT 1"
        )

        def find_or_make(db: sqlite3.Connection) -> Row:
            row = db.execute(find, (tenant, names[0], names[-1])).fetchone()
            if row is not None:
                return row
            stored = self.keyring.seal_key(self._entropy(SECRET_BYTES))
            key_id = db.execute(
                "INSERT INTO keys(tenant, subject, secret) VALUES (?, ?, ?)", (tenant, names[0], stored)
            ).lastrowid
            return int(key_id or 0), stored

        rows = self._rows(find, (tenant, names[0], names[-1]))
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
            "SELECT b.key_id, k.secret FROM blobs b JOIN keys k ON k.key_id = b.key_id"
            f" WHERE b.name = ? AND b.tenant = ? AND k.subject <> '{IMPORTED}'",
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

    async def add_key(self, tenant: str, secret: bytes) -> DataKey:
        """Keep the key that names imported content; the same secret is kept once."""
        stored = self.keyring.seal_key(secret)

        def add(db: sqlite3.Connection) -> int:
            row = db.execute(
                "SELECT key_id FROM keys WHERE tenant = ? AND secret = ?", (tenant, stored)
            ).fetchone()
            if row is None:
                row = db.execute(
                    "INSERT INTO keys(tenant, subject, secret) VALUES (?, ?, ?) RETURNING key_id",
                    (tenant, IMPORTED, stored),
                ).fetchone()
            return row[0]

        return self.keyring.key(tenant, await self._writer.call(add), stored)

    async def query(self, sql: str, parameters: Sequence[object] = ()) -> list[Row]:
        return self._rows(sql, parameters)

    async def renew(self, holder: str, *, until: LeaseEnd, streams: Sequence[Stream] | None = None) -> None:
        sql = "UPDATE leases SET expires_us = ?, expires_uptime_us = ? WHERE holder = ?"

        def extend(db: sqlite3.Connection) -> None:
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

    async def shred(self, *, timeout_s: float = BUSY_TIMEOUT_S) -> None:
        """Errors: `StoreLocked` while another process reads an older state."""

        def work() -> None:
            db = connect(str(self.path))
            if (fault := self._fault) is not None:
                fault("shred.before")
                db.set_progress_handler(lambda: fault("shred.step"), SHRED_STEP)
            try:
                erasure.shred(db, self.path, timeout_s=timeout_s)
            except sqlite3.Error as error:
                raise store_error(error) from error

        await asyncio.to_thread(work)

    async def collect(
        self, *, now_us: int, is_driving: Driving = lambda holder, end: True, dry: bool = False
    ) -> Collected:
        keyring = self.keyring

        def look() -> tuple[set[erasure.Named], int, int, int, int]:
            db = connect(str(self.path), read_only=True)
            try:
                db.execute("BEGIN")
                garbage, position = erasure.find_unreferenced(db, keyring)
                plain = erasure.count_plain(db, keyring)
                size = erasure.size_of(db, garbage) if dry else 0
                rates = erasure.drop_rates(db, now_us=now_us, dry=True) if dry else 0
                return garbage, position, plain, size, rates
            except sqlite3.Error as error:
                raise store_error(error) from error
            finally:
                db.close()

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

    def verify(self, *, head: str | None = None) -> Report:
        return verify_store(self.path, self.views, head=head, sealer=self.keyring.sealer)

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
        if holder:
            self._give_back_leases(holder)
        with self._read_lock:
            self._read_db.close()
        self._write_db.close()
        opened[os.path.realpath(self.path)] -= 1
        self._scratch()

    def _give_back_leases(self, holder: str) -> None:
        """Delete a holder's leases: one that was being taken when its taker was cancelled has no other end.

        Where the file cannot be written now, they end by time.
        """
        db = self._write_db
        with suppress(sqlite3.Error):
            if db.execute("SELECT 1 FROM leases WHERE holder = ? LIMIT 1", (holder,)).fetchone():
                db.execute(f"PRAGMA busy_timeout = {CLOSING_MS}")
                db.execute("DELETE FROM leases WHERE holder = ?", (holder,))
