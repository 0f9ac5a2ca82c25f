"""The store on PostgreSQL: one order for the whole database, which a writer holds until its commit.

Any number of processes on any machine may open one database. Each has three connections: one that writes, one
that reads, and one that is told of others' commits. The last saves waiting for the next look, and nothing
depends on it: a process that is told nothing looks ten times a second, as it does over a file. A pooler tells
nobody, so that the address may name the server for this one. What a store does with rows is in
`log/database_store.py`.
"""

from __future__ import annotations

import asyncio
import os
import select
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import closing, contextmanager, suppress
from typing import NamedTuple

import psycopg

from artelier.clock import Clock
from artelier.errors import ArtelierError, NotFound
from artelier.ids import fresh_secret
from artelier.log import erasure
from artelier.log import views as log_views
from artelier.log.blobs import Keyring, Sealer
from artelier.log.contract import FaultHook, Report, View
from artelier.log.database import Database
from artelier.log.database_store import DatabaseStore
from artelier.log.postgres.connection import (
    COMMITTED,
    SCHEMA,
    Connection,
    PostgresDatabase,
    connect,
    label_of,
    parse_address,
    parse_listen_address,
    store_error,
)
from artelier.log.postgres.schema import SCHEMA_VERSION, prepare, read_version
from artelier.log.queries import stored_bytes
from artelier.log.sqlite.verify import open_scratch
from artelier.log.verify import check_rows, note_damage

COALESCED_MS = 20
"""Notices of this long are one: a busy database commits hundreds of times a second."""

AGAIN_MS = 1_000
"""The time until another connection is tried after one was cut."""


class CommitListener:
    """A thread that calls `on_notice` with the connections that have committed, until it is closed.

    It connects by itself, and again when the connection is cut. After each connection `on_notice` gets an
    empty set: what was committed before is told to nobody. Behind a pooler, which would tell another client,
    it ends: the writer looks by itself.
    """

    def __init__(self, parameters: dict[str, str], on_notice: Callable[[set[int]], None]) -> None:
        self._parameters = parameters
        self._on_notice = on_notice
        self._end, self._ending = os.pipe()
        self._pid = os.getpid()
        self._thread = threading.Thread(target=self._work, name="artelier-listener", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the thread and its connection. In a fork, where there is no thread, nothing is done."""
        if self._pid != os.getpid():
            return
        os.close(self._ending)
        self._thread.join()
        os.close(self._end)

    def _work(self) -> None:
        while True:
            with suppress(psycopg.Error, ArtelierError, OSError), closing(connect(self._parameters)) as db:
                if db.is_pooled:
                    return
                db.execute(f"LISTEN {COMMITTED}".encode())
                self._on_notice(set())
                while not self._is_ended(db.fileno()):
                    if connections := _take_notices(db):
                        self._on_notice(connections)
                    if self._is_ended(timeout_ms=COALESCED_MS):
                        return
                return
            if self._is_ended(timeout_ms=AGAIN_MS):
                return

    def _is_ended(self, file: int | None = None, *, timeout_ms: int | None = None) -> bool:
        """Wait for the end, for something to read from a file, or for a time. Returns True at the end."""
        poll = select.poll()
        poll.register(self._end, select.POLLIN | select.POLLHUP)
        if file is not None:
            poll.register(file, select.POLLIN)
        return any(ready == self._end for ready, _ in poll.poll(timeout_ms))


def _take_notices(db: Connection) -> set[int]:
    """Return the connections of the notices that have come, by the process that each takes for its own.

    Errors: `OperationalError` if it is cut.
    """
    db.pgconn.consume_input()
    connections: set[int] = set()
    while (notice := db.pgconn.notifies()) is not None:
        connections.add(int(notice.extra or notice.be_pid))
    return connections


ANEW_BYTES_MAX = 512 * 1024 * 1024
"""Of content whose table is written anew beside other work: others wait for about a second (guess)."""

SHREDDED = ("blobs", "keys", "vault")
"""Tables that erased content was in."""


class PostgresStore(DatabaseStore):
    """`Store` on a database of PostgreSQL, in a schema of its own."""

    def __init__(
        self,
        address: str,
        views: Sequence[View],
        *,
        entropy: Callable[[int], bytes] = fresh_secret,
        fault: FaultHook | None = None,
        sealer: Sealer | None = None,
    ) -> None:
        """`address`: `postgresql://...`. `sealer`: the cipher under the vault key.

        Errors: `InvalidConfig`, `StoreUnavailable`, `CorruptStore`, `NewerSchema`.
        """
        super().__init__(views, entropy=entropy, fault=fault, sealer=sealer)
        self._parameters, listening = parse_address(address), parse_listen_address(address)
        writing = self._connect()
        try:
            versions = prepare(writing, self.views, label=self.label)
            if sealer is not None:
                erasure.check_vault_key(writing, self.keyring)
            reading = self._connect()
        except BaseException:
            writing.close()
            raise
        self._writing, self._reader = writing, reading
        writing.data_version()  # from here on the server's time is known
        self._start(writing, reading, versions=versions, schema_version=SCHEMA_VERSION)
        self._listener: CommitListener | None = None
        if not writing.db.is_pooled or listening != self._parameters:
            self._listener = CommitListener(listening, self._on_notice)

    def _on_notice(self, connections: set[int]) -> None:
        """Look at what others have committed. Runs on the listener's thread."""
        if connections != {self._writing.db.info.backend_pid}:
            self._writer.look()

    def _connect(self) -> PostgresDatabase:
        """Return a connection that sees what the views publish, and is replaced when it is gone."""
        parameters = self._parameters
        db = PostgresDatabase(connect(parameters), lambda: connect(parameters))
        log_views.publish(db, self.views)
        return db

    @property
    def label(self) -> str:
        return label_of(self._parameters)

    @property
    def clock(self) -> Clock:
        return self._writing.clock

    @contextmanager
    def _snapshot(self) -> Generator[Database]:
        with _snapshot(self._parameters) as db:
            yield db

    def verify(self, *, head: str | None = None) -> Report:
        return _verify(self._parameters, self.views, head=head, keyring=Keyring(self.keyring.sealer))

    async def shred(self, *, compact: bool = False, brief: bool = False) -> bool:
        """Write the tables anew that erased content was in; they are compact then.

        What the server has elsewhere is out of reach: its write-ahead log, standbys, backups.
        """

        def work() -> None:
            if self._fault is not None:
                self._fault("shred.before")
            with closing(connect(self._parameters)) as db:
                try:
                    for table in SHREDDED:
                        db.execute(f"VACUUM (FULL) {SCHEMA}.{table}".encode())
                except psycopg.Error as error:
                    raise store_error(error) from None

        if brief and await stored_bytes(self) > ANEW_BYTES_MAX:
            return False
        await asyncio.to_thread(work)
        return True

    def _disconnect(self, *, holder: str) -> None:
        if self._listener is not None:
            self._listener.close()
        if holder:
            with suppress(psycopg.Error, ArtelierError):  # then they end by time
                self._writing.execute("DELETE FROM leases WHERE holder = ?", (holder,))
        self._reader.close()
        self._writing.close()


@contextmanager
def _snapshot(parameters: dict[str, str]) -> Generator[PostgresDatabase]:
    with closing(PostgresDatabase(connect(parameters))) as db:
        try:
            db.open_transaction("BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            yield db
        except psycopg.Error as error:
            raise store_error(error) from error


@contextmanager
def open_snapshot(address: str) -> Generator[Database]:
    """Give one state of a store to read. Errors: `NotFound` if there is none, and those of connecting."""
    _check_store(address)
    with _snapshot(parse_address(address)) as db:
        yield db


@contextmanager
def open_connection(address: str) -> Generator[Database]:
    """Give a connection to write tables over, as no store does. Errors: clear ones for the server's."""
    with closing(PostgresDatabase(connect(parse_address(address)))) as db:
        try:
            yield db
        except psycopg.Error as error:
            raise db.batch_error(error) or store_error(error) from error


class ServerFacts(NamedTuple):
    """The settings and the state of a server that decide what its commits are worth."""

    version: int
    """As in 160004."""
    is_fsync_on: bool
    synchronous_commit: str
    is_writing_full_pages: bool
    asynchronous_standbys: int
    """Standbys that may lack the newest commits; 0 too if this user may not see them."""
    connections_left: int
    at_us: int
    """The server's clock, in microseconds since the epoch."""
    is_told: bool = True
    """False if a pooler keeps the notices of commits from whoever opens this address."""


_FACTS = (
    "SELECT current_setting('server_version_num')::int, current_setting('fsync') = 'on',"
    " current_setting('synchronous_commit'), current_setting('full_page_writes') = 'on',"
    " (SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'async'),"
    " current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int"
    " - (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'),"
    " (extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
)


def read_server_facts(address: str) -> ServerFacts:
    """Return what a server says of itself. Errors: those of connecting."""
    with open_connection(address) as db, closing(connect(parse_listen_address(address))) as listening:
        return ServerFacts(*db.only(_FACTS), is_told=not listening.is_pooled)


def has_store(address: str) -> bool:
    """Return True if there is a store. Errors: `StoreUnavailable`, `NewerSchema`, `CorruptStore`."""
    parameters = parse_address(address)
    with closing(PostgresDatabase(connect(parameters))) as db:
        try:
            return read_version(db, label_of(parameters)) > 0
        except psycopg.Error as error:
            raise store_error(error) from None


def verify_database(
    address: str, views: Sequence[View], *, head: str | None = None, sealer: Sealer | None = None
) -> Report:
    """Check a whole store on PostgreSQL. `head` is a root printed earlier by `artelier head`.

    Errors: `NotFound` if there is none; `CorruptStore` or `NewerSchema` if it cannot be read as a store.
    """
    _check_store(address)
    return _verify(parse_address(address), views, head=head, keyring=Keyring(sealer))


def _check_store(address: str) -> None:
    if not has_store(address):
        raise NotFound("there is no store in this database", got=label_of(parse_address(address)))


def _verify(
    parameters: dict[str, str], views: Sequence[View], *, head: str | None, keyring: Keyring
) -> Report:
    """The views are folded anew in memory, by SQLite: two engines must come to the same rows."""
    report = Report()
    fresh = open_scratch(views)
    with closing(fresh.db), _snapshot(parameters) as seen:
        with note_damage(report, "the tables"):
            _check_indexes(seen, report, views)
        expected = {
            table: columns for table, columns in fresh.columns().items() if table not in _OTHER_COLUMNS
        }
        fresh.db.execute("BEGIN")
        check_rows(seen, fresh, report, views, head=head, keyring=keyring, expected=expected)
    report.unchecked = [one for one in report.unchecked if one not in ("store_head", "key_counter")]
    return report


_OTHER_COLUMNS = frozenset({"blobs"})

_INDEXES = {"events_by_stream", "blobs_by_name", "blobs_by_key", "vault_by_placeholder", "vault_by_digest"}


def _check_indexes(db: PostgresDatabase, report: Report, views: Sequence[View]) -> None:
    """Name the indexes that are missing: without one a store is slow, without a unique one it is wrong."""
    there = db.indexes()
    if lost := _INDEXES - there:
        report.add_finding(f"the log lacks the indexes {', '.join(sorted(lost))}")
    tables = db.columns().keys()
    for view in views:
        for statement in (*view.schema, *view.indexes):
            words = statement.replace("UNIQUE ", "").replace("IF NOT EXISTS ", "").split()
            if words[:2] == ["CREATE", "INDEX"] and words[2] not in there and view.tables[0] in tables:
                report.add_finding(f"view {view.name} lacks the index {words[2]}")


__all__ = ["PostgresStore", "verify_database"]
