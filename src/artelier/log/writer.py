"""The one writer of a process: a thread that commits whole groups of batches with one fsync.

It owns the write connection. Heads, leases and the last position are cached and dropped whenever another
process has written (`Database.data_version`); one that has upgraded the views ends all writing here. Each
batch of a group is validated alone; a failed fsync fails the whole group.
Read next: `contract.py` for what is promised, `writer_queue.py` for whose turn it is, `database_store.py` for
reading.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeVar, cast
from weakref import WeakKeyDictionary

import msgspec

from artelier.errors import (
    ArtelierError,
    Erased,
    Exhausted,
    HistoryLost,
    InvalidEvent,
    LeaseHeld,
    LeaseLost,
    NewerSchema,
    SequenceConflict,
    StoreUnavailable,
)
from artelier.log import writer_queue
from artelier.log.blobs import NO_CONTENT, Blob, Keyring
from artelier.log.contract import Applied, Batch, FaultHook, Fence, LeaseRequest, Receipt, StreamAppend
from artelier.log.database import Database
from artelier.log.erasure import wrap_keys
from artelier.log.event import GENESIS, Draft, Stream, commit_root, decode_import, encode_data, event_hash
from artelier.log.rate_windows import TenantTurns
from artelier.log.rows import coordination, events
from artelier.log.rows.contents import add_contents, add_values, are_keys_gone, find_secret, newest_key
from artelier.log.views import LIST_EVERY, LISTED, LISTING_SINCE, Dispatch, list_positions, stored_versions
from artelier.log.writer_queue import WriterJob, WriterQueue

T = TypeVar("T")


class _StreamHead:
    """The head of a stream, as this process knows it."""

    __slots__ = ("hash", "id", "name", "seq")

    def __init__(self, id_: int, name: bytes, seq: int, hash_: bytes) -> None:
        self.id = id_
        self.name = name
        self.seq = seq
        self.hash = hash_


def _resolve(turns: TenantTurns, jobs: list[WriterJob]) -> None:
    """Wake the waiters of a group, a few of each tenant in a pass of their loop."""
    for job in jobs:
        turns.call(job.tenant, job.resolve)


def another_process(place: object = None) -> StoreUnavailable:
    """Return what a forked process is told that goes on with its parent's store: its writer is not here."""
    return StoreUnavailable(
        "this store was opened by the parent of this process, and a fork cannot go on with it",
        got=None if place is None else str(place),
        hint="Open it after the fork, in each process; with multiprocessing, use the 'spawn' context.",
    )


_UNFIT = (UnicodeError, OverflowError, msgspec.MsgspecError)
"""Errors of event data that cannot be stored, whatever the engine."""


class Writer:
    """Commits the batches of each tenant in the order they were submitted; tenants take turns.

    `stop()` finishes what is queued.
    """

    def __init__(
        self,
        db: Database,
        table: Dispatch,
        *,
        on_commit: Callable[[int, bool], None],
        versions: Mapping[str, int],
        schema_version: int,
        check_place: Callable[[], None] = lambda: None,
        fault: FaultHook | None = None,
        keyring: Keyring | None = None,
        on_keys: Callable[[], None] = lambda: None,
    ) -> None:
        """`versions` are those of the store's views as this process keeps them, `schema_version` that of the
        other tables. `check_place` raises if the store is no longer where it was opened. `on_keys` is called
        from the writer's thread when rows of `keys` or `vault` may have gone.
        """
        self._db = db
        self._keyring = keyring or Keyring()
        self._check_place = check_place
        self._schema_version = schema_version
        self._table = table
        self._on_commit = on_commit
        self._versions = versions
        self._newer = ""
        """What a newer Artelier has changed of the store since this process opened it; empty for nothing."""
        self._fault = fault
        self._queue = WriterQueue()
        self._heads: dict[Stream, _StreamHead] = {}
        self._leases: dict[Stream, int] = {}
        self._on_keys = on_keys
        self._live_keys: set[int] = set()
        """Keys that are known to have their rows."""
        self._keys_made = -1
        """How far the counter of keys was; it moves with each erasure too."""
        self._lost: dict[Fence, str] = {}
        """Fences under which a batch was lost with its whole group, and why."""
        self._broken: dict[Fence, str] = {}
        """Fences under which a batch was refused that others go on from, and why."""
        self._position = 0
        self._root = GENESIS
        self._durable: tuple[int, bytes] = (0, GENESIS)
        """Position and root that were on disk when this process last looked."""
        self._connections = db.connections
        self._listed: int = 0
        """The last position of which the store says whose it is."""
        self._data_version = -1
        self._abroad = False
        self._turns: WeakKeyDictionary[asyncio.AbstractEventLoop, TenantTurns] = WeakKeyDictionary()
        """Of the loops whose waiters it wakes."""
        self._pid = os.getpid()
        self.commits = 0
        """Group commits so far: each is one durable commit with one fsync of the write-ahead log."""
        self._thread = threading.Thread(target=self._work, name="artelier-writer", daemon=True)
        self._thread.start()

    # -- called from event loops

    def submit(self, batch: Batch) -> asyncio.Future[Receipt]:
        return self._enqueue(WriterJob(batch, None))

    def submit_all(self, batches: Sequence[Batch]) -> list[asyncio.Future[Receipt]]:
        return self._enqueue_all([WriterJob(batch, None) for batch in batches])

    def call(self, function: Callable[[Database], T], *, tenant: str = "") -> asyncio.Future[T]:
        """Run a function in a write transaction, in the order of such calls and of batches for a tenant.

        Without a tenant it is for the process itself.
        """
        return cast("asyncio.Future[T]", self._enqueue(WriterJob(None, function, tenant=tenant)))

    def submit_with(
        self, batch: Batch, function: Callable[[Database], T], *, tenant: str, rows: int
    ) -> asyncio.Future[T]:
        """Append a batch and run a function that may drop keys, as one: both are done, or neither is.

        `rows` is about how many it changes.
        """
        return cast("asyncio.Future[T]", self._enqueue(WriterJob(batch, function, tenant=tenant, rows=rows)))

    def _enqueue(self, job: WriterJob) -> asyncio.Future[Any]:
        return self._enqueue_all([job])[0]

    def _enqueue_all(self, jobs: list[WriterJob]) -> list[asyncio.Future[Any]]:
        if self._pid != os.getpid():  # before the lock: nobody here would ever release it
            raise another_process()
        self._queue.put(jobs)
        return [job.future for job in jobs]

    def look(self) -> None:
        """Look for commits of other processes now, not at the next poll."""
        self._queue.look()

    def stop(self) -> None:
        self._queue.stop()
        self._thread.join()

    # -- the thread

    def _work(self) -> None:
        while (group := self._queue.take()) is not None:
            if group:
                began_s = time.monotonic()
                self._commit(group)
                self._queue.end(group, began_s=began_s)
            else:
                self._look_abroad()

    def _look_abroad(self) -> None:
        try:
            version = self._db.data_version()
            if version == self._data_version:
                return
            self._load()
            self._data_version = version
        except Exception as error:
            if self._db.store_error(error) is None and not isinstance(error, ArtelierError):
                raise
            return  # the next append will say it to somebody who can act on it
        self._on_commit(self._position, True)

    def _load(self) -> None:
        """Forget what was cached and read where the store stands.

        Errors: `HistoryLost` if another server answers now, and lacks what was committed.
        """
        if self._db.connections != self._connections:
            self._check_history()
        self._heads.clear()
        self._leases.clear()
        self._position, self._root = self._durable = events.newest_commit(self._db)
        self._newer = self._changed_by_newer()
        schema = self._db.schema_version()
        # A file that cannot be written may be older; one of a newer version may have no such table.
        is_listing = schema >= LISTING_SINCE and not self._newer
        self._listed = listed[0] if is_listing and (listed := self._db.one(LISTED)) else 0
        self._live_keys.clear()
        made, before = newest_key(self._db), self._keys_made
        self._keys_made = made
        if before not in (-1, made) and are_keys_gone(self._db, after=before, upto=made):
            self._on_keys()

    def _check_history(self) -> None:
        """Look whether what this process knows to be committed is still there."""
        position, root = self._durable
        if position and not events.has_commit(self._db, position, root):
            raise HistoryLost(
                "the database has lost commits that this process saw: another server answers, or a backup",
                expected=f"position {position} with root {root.hex()}",
                hint="Stop all workers. Bring back the server that has this root, or open it again to go on"
                " from what is there: tools may have acted since.",
            )
        self._connections = self._db.connections

    def _commit(self, group: list[WriterJob]) -> None:
        moved = False
        try:
            self._check_place()
            self._begin()
            written = self._write_together(group)
            moved = self._write_apart(group) if written is None else written
            self.commits += 1
            self._durable = (self._position, self._root)
            if self._fault:
                self._fault("commit.after")
        except BaseException as error:  # a process boundary: every waiter learns of it
            self._abandon(group, error)
        self._announce(group, moved=moved)

    def _write_together(self, group: list[WriterJob]) -> bool | None:
        """Apply all jobs and commit, as if none were refused, which is the rule. If one is, take all back.

        Returns whether there were events; None if all was taken back. A server is waited for once, at the
        commit: there it may refuse what it was sent before.
        """
        stood = self._position, self._root, self._listed
        hashes: list[tuple[bytes, bytes]] = []
        try:
            self._run_in_time(group, lambda job: self._run(job, hashes))
        except Exception as error:
            if self._is_failure(error):
                raise
        else:
            try:
                return self._end_transaction(hashes)
            except Exception as error:
                if self._db.batch_error(error) is None:
                    raise
        self._db.rollback()
        self._position, self._root, self._listed = stood
        self._forget(hashes, 0)
        self._begin()
        return None

    def _write_apart(self, group: list[WriterJob]) -> bool:
        """Apply one job after the other and commit; of those that are refused, each alone is.

        Returns whether there were events.
        """
        hashes: list[tuple[bytes, bytes]] = []
        self._run_in_time(group, lambda job: self._run_one(job, hashes))
        return self._end_transaction(hashes)

    def _run_in_time(self, group: list[WriterJob], run: Callable[[WriterJob], None]) -> None:
        """Run the jobs of a group, the first in any case. What its time leaves no room for goes back."""
        until_s = time.monotonic() + writer_queue.GROUP_S
        for done, job in enumerate(group, start=1):
            run(job)
            if done < len(group) and time.monotonic() >= until_s:
                self._queue.put_back(group, done=done)
                return

    def _end_transaction(self, hashes: list[tuple[bytes, bytes]]) -> bool:
        """Commit with what the events of a transaction add to the log. Returns whether there are any."""
        if hashes:
            first = self._position - len(hashes)
            self._root = commit_root(self._root, hashes)
            events.add_commit(self._db, first + 1, self._position, self._root)
            if self._position - self._listed >= LIST_EVERY:
                self._listed = list_positions(self._db, after=self._listed, upto=self._position)
        if self._fault:
            self._fault("commit.before")
        self._check_place()  # as late as can be, so that little can happen in between
        self._db.commit(self._has_commit if hashes else None)
        return bool(hashes)

    def _has_commit(self) -> bool:
        return events.has_commit(self._db, self._position, self._root)

    def _begin(self) -> None:
        self._db.begin()
        version = self._db.data_version()
        if version != self._data_version:
            self._load()
            self._data_version = version
            self._abroad = True
        if self._newer:
            raise NewerSchema(
                "this database was taken over by a newer Artelier while it was open; nothing was written",
                expected="the views that this process keeps",
                got=self._newer,
                hint="Stop this process, upgrade Artelier, and start it again.",
            )

    def _changed_by_newer(self) -> str:
        """Return what differs from the schema and the views that this process keeps; empty for nothing.

        A process that went on would write events that the newer views never see. Cost: two small reads,
        and only after another process has committed.
        """
        schema = self._db.schema_version()
        changed = [f"schema {schema}"] if schema > self._schema_version else []
        stored = stored_versions(self._db)
        changed += [
            f"{name} version {version}"
            for name, version in sorted(stored.items())
            if version > self._versions.get(name, 0)
        ]
        return ", ".join(changed)

    def _abandon(self, group: list[WriterJob], error: BaseException) -> None:
        if self._db.in_transaction:
            with suppress(Exception):  # a broken disk; the waiters must still learn of it
                self._db.rollback()
        self._data_version = -1  # nothing cached can be trusted; read it again
        clear = self._db.store_error(error) or error
        for job in group:
            job.error = job.error or clear
            if job.batch is not None and job.batch.fence is not None:
                self._lost[job.batch.fence] = str(clear)

    def _announce(self, group: list[WriterJob], *, moved: bool) -> None:
        loops: dict[asyncio.AbstractEventLoop, list[WriterJob]] = {}
        for job in group:
            loops.setdefault(job.loop, []).append(job)
        if moved or self._abroad:
            self._on_commit(self._durable[0], self._abroad)  # a group that was lost has no position
            self._abroad = False
        for loop, jobs in loops.items():
            turns = self._turns.setdefault(loop, TenantTurns())
            try:
                loop.call_soon_threadsafe(_resolve, turns, jobs)
            except RuntimeError:
                continue  # the loop was closed while its batch was written; nobody waits any more

    def _is_failure(self, error: Exception) -> bool:
        """Return True if the disk, the file or the server failed, not a batch."""
        if isinstance(error, _UNFIT) or self._db.batch_error(error) is not None:
            return False
        return self._db.store_error(error) is not None

    def _batch_error(self, error: Exception) -> Exception:
        """Return the clear error of a batch that was refused alone."""
        if isinstance(error, _UNFIT):
            return InvalidEvent(f"an event holds what cannot be stored: {error}")
        return self._db.batch_error(error) or error

    def _run(self, job: WriterJob, hashes: list[tuple[bytes, bytes]]) -> None:
        if job.batch is not None:
            job.result = self._apply(job.batch, hashes)
        if job.call is not None:
            job.result = job.call(self._db)
            if job.batch is not None:
                self._live_keys.clear()

    def _forget(self, hashes: list[tuple[bytes, bytes]], count: int) -> None:
        """Drop what was cached of events that were taken back, stream rows of theirs included."""
        del hashes[count:]
        self._live_keys.clear()
        self._leases.clear()
        self._heads.clear()

    def _run_one(self, job: WriterJob, hashes: list[tuple[bytes, bytes]]) -> None:
        """Apply one job; a refused one leaves no trace, neither in the tables nor in the caches."""
        db, position, count = self._db, self._position, len(hashes)
        db.execute("SAVEPOINT job")
        try:
            self._run(job, hashes)
            db.flush()
        except Exception as error:
            if self._is_failure(error):
                raise
            job.error = self._batch_error(error)
            self._break_off(job)
            db.execute("ROLLBACK TO SAVEPOINT job")
            self._position = position
            self._forget(hashes, count)
        db.execute("RELEASE SAVEPOINT job")

    def _break_off(self, job: WriterJob) -> None:
        """Have what was queued behind a refused batch refused too, if it goes on from that."""
        batch = job.batch
        if batch is None or batch.fence is None or not batch.builds:
            return
        if not (batch.is_optional and isinstance(job.error, Exhausted)):
            self._broken.setdefault(batch.fence, str(job.error))

    # -- one batch

    def _apply(self, batch: Batch, hashes: list[tuple[bytes, bytes]]) -> Receipt:
        token, stalled = self._acquire(batch.acquire) if batch.acquire else (None, 0)
        if batch.fence is not None:
            self._check_fence(batch.fence, builds=batch.builds)
        if batch.guard is not None:
            batch.guard(self._db)
        if batch.blobs:
            self._check_keys(batch.blobs)
            wrap_keys(self._db, self._keyring, {blob.key_id for blob in batch.blobs})
            add_contents(self._db, [self._keyring.row(blob) for blob in batch.blobs])
        if vault := [*batch.vault, *(secret for blob in batch.blobs for secret in blob.vault)]:
            add_values(self._db, vault)
        seqs = tuple(self._append(append, hashes) for append in batch.appends)
        if batch.release is not None:
            self._release(batch.release, token)
        return Receipt(seqs=seqs, position=self._position, lease_token=token, stalled=stalled)

    def _check_keys(self, blobs: Sequence[Blob]) -> None:
        """Nothing is written under a key that somebody has dropped meanwhile: nobody could erase it again."""
        stored = {blob.key_id for blob in blobs if blob.packed != NO_CONTENT}
        for key_id in stored - self._live_keys:
            if key_id is None:
                continue
            if find_secret(self._db, key_id) is None:
                raise Erased(
                    "what this would be stored under was erased",
                    got=f"key {key_id}",
                    hint="Open the run, or the tenant, again.",
                )
            self._live_keys.add(key_id)

    def _append(self, append: StreamAppend, hashes: list[tuple[bytes, bytes]]) -> int:
        stream = append.stream
        head = self._heads.get(stream) or self._find_head(stream, make=bool(append.events))
        if append.expected_seq is not None and append.expected_seq != head.seq:
            raise SequenceConflict(
                f"stream {stream.local} has moved on",
                expected=append.expected_seq,
                got=head.seq,
                stream=stream.local,
                hint="Read the stream again and decide anew.",
            )
        rows: list[tuple[Any, ...]] = []
        applied: list[Applied] = []
        for draft in append.events:
            if isinstance(draft, Draft):
                data = draft.data
                kind, version, encoded = data.KIND, data.VERSION, encode_data(data)
            else:
                kind, version, encoded = draft.kind, draft.version, draft.data
                data = decode_import(kind, version, encoded)
            self._position += 1
            head.seq += 1
            head.hash = event_hash(
                head.hash,
                stream=stream.local,
                seq=head.seq,
                kind=kind,
                version=version,
                data=encoded,
                at_us=draft.at_us,
                actor=draft.actor,
                cause=draft.cause,
            )
            hashes.append((head.hash, head.name))
            rows.append(
                (
                    self._position,
                    head.id,
                    head.seq,
                    kind,
                    version,
                    encoded.decode(),
                    draft.at_us,
                    draft.actor,
                    draft.cause,
                    head.hash,
                )
            )
            applied.append(Applied(stream, head.id, head.seq, self._position, draft.at_us, draft.actor, data))
        events.add_events(self._db, rows)
        self._show(applied)
        return head.seq

    def _show(self, applied: list[Applied]) -> None:
        table, tx = self._table, self._db
        for event in applied:
            for handler in table.get(type(event.data), ()):
                handler(event, tx)

    def _find_head(self, stream: Stream, *, make: bool) -> _StreamHead:
        """Read a head. A stream that is not there is made only for events: it is never empty."""
        id_ = events.find_stream(self._db, stream)
        name = stream.name.encode()
        if id_ is None and not make:
            return _StreamHead(0, name, 0, GENESIS)
        if id_ is None:
            head = _StreamHead(events.add_stream(self._db, stream), name, 0, GENESIS)
        else:
            head = _StreamHead(id_, name, *events.find_head_of(self._db, id_))
        if len(self._heads) > 100_000:  # a bound, not a policy: refilled from the index on demand
            self._heads.clear()
        self._heads[stream] = head
        return head

    # -- leases

    def _acquire(self, request: LeaseRequest) -> tuple[int, int]:
        """Return the token and how many holders before it have stalled. Errors: `LeaseHeld`."""
        stream = request.stream
        lease = coordination.find_lease(self._db, stream)
        progress, stalled = request.progress(self._db), 0
        if lease is not None:
            holder = lease.holder
            is_over = lease.end.is_over(now_us=request.now_us, uptime_us=request.uptime_us(holder))
            if holder != request.holder and not is_over and not request.is_dead(holder):
                raise LeaseHeld(
                    f"{stream.local} is driven by another process",
                    got=holder,
                    hint="Wait for it, or stop that process; its lease ends "
                    f"{request.ttl_us // 1_000_000} s after its last sign of life.",
                    holder=holder,
                )
            if progress == lease.progress:
                own = holder == request.holder  # it is alive, and only takes its lease anew
                stalled = lease.stalled + (not own and not request.is_excused(self._db, holder))
            coordination.drop_lease(self._db, stream)
        taken = coordination.StoredLease(request.holder, request.end, progress, stalled)
        token = self._leases[stream] = coordination.add_lease(self._db, stream, taken)
        for gone in (self._lost, self._broken):  # the new holder builds on what is there
            for fence in [fence for fence in gone if fence.stream == stream]:
                del gone[fence]
        return token, stalled

    def _check_fence(self, fence: Fence, *, builds: bool) -> None:
        why = self._lost.get(fence) or (self._broken.get(fence) if builds else None)
        if why is not None:
            # Its author did not know yet when it was queued: what it builds on is not there.
            raise StoreUnavailable(
                f"an earlier batch of {fence.stream.local} was lost: {why}",
                hint="Open the run again; it goes on from what is durable.",
            )
        token = self._leases.get(fence.stream)
        if token is None:
            token = self._leases[fence.stream] = coordination.find_token(self._db, fence.stream)
        if not token or token != fence.token:  # 0 stands for no lease, and proves nothing
            raise LeaseLost(
                f"this process no longer drives {fence.stream.local}",
                expected=f"token {token}",
                got=f"token {fence.token}",
                hint="Another process took it over; nothing was written here.",
            )

    def _release(self, fence: Fence, token: int | None) -> None:
        self._leases.pop(fence.stream, None)
        coordination.give_back(self._db, fence.stream, fence.token if token is None else token)
