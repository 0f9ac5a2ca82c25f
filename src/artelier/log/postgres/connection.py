"""Connections to a database server, and the clear errors behind PostgreSQL's.

Whoever writes sends statements without waiting for each (the protocol's pipeline): a group of batches waits
where it reads, once before its commit, and once for that. No message holds an address's password.
Read next: `schema.py` for what is in the database, `store.py` for what is done with it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from itertools import count
from typing import Any, cast

import psycopg
from psycopg import conninfo
from psycopg.adapt import Dumper, Loader

from artelier.errors import (
    ArtelierError,
    CorruptStore,
    InvalidConfig,
    InvalidEvent,
    StoreFull,
    StoreLocked,
    StoreUnavailable,
)
from artelier.log.contract import RESTORE, Row
from artelier.log.postgres.dialect import translate

SCHEMA = "artelier"
"""The schema that a store's tables stand in: a database may hold other things beside them."""

COMMITTED = "artelier_committed"
"""The channel on which processes learn of each other's commits."""

CONNECT_TIMEOUT_S = 10
LOCK_TIMEOUT_MS = 10_000
"""How long a writer waits for another process's transaction before `StoreLocked`."""
IDLE_IN_TRANSACTION_MS = 60_000
"""After this long the server ends a transaction whose process has stopped: others wait for its lock."""

SETTLE_S = 30.0
"""How long a writer asks what became of a commit whose answer never came."""

SETTLE_STEP_S = 0.1

_scan_numbers = count(1)

SCANNED_AT_ONCE = 2_000
"""Rows that a scan has in memory."""


# --------------------------------------------------------------------------- addresses


def parse_address(address: str) -> dict[str, str]:
    """Return the parameters of an address. Errors: `InvalidConfig`, which never quotes it."""
    try:
        parameters = {name: str(value) for name, value in conninfo.conninfo_to_dict(address).items()}
    except psycopg.Error:
        raise InvalidConfig(
            "this address of a database cannot be understood",
            expected="postgresql://USER:PASSWORD@HOST:PORT/DATABASE; characters such as @ in it as %40",
        ) from None
    if not _is_local(parameters):
        given = parameters.setdefault("sslmode", "verify-full")
        if given != "verify-full":
            raise InvalidConfig(
                "the connection to a database on another machine must be encrypted and its server known",
                expected="sslmode=verify-full",
                got=f"sslmode={given}",
                hint="Leave sslmode out; name the server's authority with sslrootcert=FILE.",
            )
        parameters.setdefault("sslrootcert", "system")
    return parameters


def _is_local(parameters: dict[str, str]) -> bool:
    hosts = parameters.get("hostaddr") or parameters.get("host") or ""
    return all(
        not host or host.startswith(("/", "@")) or host in ("localhost", "127.0.0.1", "::1")
        for host in hosts.split(",")
    )


def label_of(parameters: dict[str, str]) -> str:
    """Return the name of a database that people may read: where and which, without user and password."""
    host, port = parameters.get("host", ""), parameters.get("port", "")
    where = "" if not host or host.startswith("/") else f"{host}:{port}" if port else host
    return f"postgresql://{where}/{parameters.get('dbname', '')}"


# --------------------------------------------------------------------------- values


class _IntDumper(Dumper):
    """Integers without a type of their own: the server takes that of the column."""

    oid = 0

    def dump(self, obj: Any) -> bytes:
        return b"%d" % obj

    def quote(self, obj: Any) -> bytes:
        return self.dump(obj)


class _BoolDumper(_IntDumper):
    """Flags are integers."""

    def dump(self, obj: Any) -> bytes:
        return b"1" if obj else b"0"


class _NumericLoader(Loader):
    """Sums of integers come as numeric."""

    def load(self, data: Any) -> int | float:
        text = bytes(data)
        return float(text) if b"." in text else int(text)


class _BoolLoader(Loader):
    """Comparisons give 0 or 1."""

    def load(self, data: Any) -> int:
        return int(bytes(data) == b"t")


# --------------------------------------------------------------------------- errors


def store_error(error: psycopg.Error) -> ArtelierError:
    """Return the clear error behind one of PostgreSQL's."""
    code = error.sqlstate or ""
    said = (error.diag.message_primary if error.sqlstate else None) or type(error).__name__
    if code in ("53100", "54000"):
        return StoreFull("the disk of the database server is full; nothing was written", got=said)
    if code in ("55P03", "40P01", "40001"):
        return StoreLocked(
            "the database is locked by another process",
            hint="Wait for it to finish, or stop it; nothing was written.",
            got=said,
        )
    if code == "25006":
        return StoreUnavailable(
            "the database server takes no writes: it is a standby, or read-only",
            hint="Name the primary.",
            got=said,
        )
    if code.startswith("XX"):
        return CorruptStore(f"the database is damaged: {said}", hint=RESTORE)
    if code in ("42P01", "42703", "3F000"):
        return CorruptStore(f"a part of the database is missing: {said}", hint=RESTORE)
    if code.startswith("53"):
        return StoreUnavailable("the database server has no room for more", got=said)
    if code.startswith(("28", "42501")):
        return StoreUnavailable("the database server does not let this user in, or do this", got=said)
    if not code:
        return StoreUnavailable(
            "the connection to the database server is gone",
            hint="Check the server and the network, and open again.",
        )
    return StoreUnavailable(f"the database refused: {said}", got=code)


_OWN_FAULTS = (psycopg.IntegrityError, psycopg.DataError, psycopg.ProgrammingError)
"""Errors that one batch brings upon itself: its neighbours in the group go on."""


# --------------------------------------------------------------------------- connections


def connect(parameters: dict[str, str]) -> psycopg.Connection[Row]:
    """Return a connection with our settings. Errors: the clear form of PostgreSQL's."""
    options = {
        "search_path": f"{SCHEMA},pg_catalog",
        "lock_timeout": str(LOCK_TIMEOUT_MS),
        "idle_in_transaction_session_timeout": str(IDLE_IN_TRANSACTION_MS),
        "client_min_messages": "warning",
        "jit": "off",  # statements are small; compiling one takes longer than it
    }
    given = dict(parameters)
    given.setdefault("connect_timeout", str(CONNECT_TIMEOUT_S))
    given.setdefault("application_name", "artelier")
    given.setdefault("keepalives_idle", "10")
    given.setdefault("keepalives_interval", "5")
    given.setdefault("keepalives_count", "3")
    try:
        db: psycopg.Connection[Row] = psycopg.Connection.connect(
            "", autocommit=True, cursor_factory=psycopg.RawCursor, prepare_threshold=2, **cast("Any", given)
        )
    except psycopg.Error as error:
        password = parameters.get("password")
        said = str(error).strip().splitlines()[-1][:300] if str(error).strip() else "no answer"
        raise StoreUnavailable(
            "the database server cannot be reached",
            expected=label_of(parameters),
            got=said.replace(password, "***") if password else said,
            hint="Check that it runs, and the address in --db.",
        ) from None
    db.prepared_max = 1000
    db.adapters.register_dumper(int, _IntDumper)
    db.adapters.register_dumper(bool, _BoolDumper)
    db.adapters.register_loader("numeric", _NumericLoader)
    db.adapters.register_loader("bool", _BoolLoader)
    try:
        for name, value in options.items():
            db.execute("SELECT set_config($1, $2, false)", (name, value))
    except psycopg.Error as error:
        db.close()
        raise store_error(error) from None
    return db


class _PipelinedRows:
    """The rows of a statement that may not have been answered yet."""

    __slots__ = ("_cursor", "_db")

    def __init__(self, cursor: psycopg.Cursor[Row], db: PostgresDatabase) -> None:
        self._cursor = cursor
        self._db = db

    @property
    def rowcount(self) -> int:
        self._db.flush()
        return self._cursor.rowcount

    def fetchone(self) -> Row | None:
        return self._cursor.fetchone()

    def fetchall(self) -> list[Row]:
        return self._cursor.fetchall()

    def __iter__(self) -> Iterator[Row]:
        return iter(self._cursor.fetchall())


class PostgresDatabase:
    """`Database` over a connection. In a transaction that `begin` has begun, statements are pipelined."""

    def __init__(
        self, db: psycopg.Connection[Row], reconnect: Callable[[], psycopg.Connection[Row]] | None = None
    ) -> None:
        """`reconnect` makes another connection when this one is gone; without it, it stays gone."""
        self.db = db
        self._reconnect = reconnect
        self.connections = 1
        """Connections so far: another one may be to a server that has lost commits."""
        self._transaction = 0
        """The number by which the server knows the transaction that writes."""
        self._pipeline: psycopg.Pipeline | None = None
        self._leaving: AbstractContextManager[Any] = nullcontext()
        self._own_commits = 0
        """Commits of this connection, which `store_head` counts with all others."""

    def execute(self, sql: str, parameters: Sequence[Any] = (), /) -> _PipelinedRows:
        if sql.startswith("ROLLBACK TO"):
            self._recover()
        try:
            cursor = self.db.cursor()
            cursor.execute(translate(sql), parameters or None)
        except psycopg.OperationalError:
            if self.in_transaction or not self._connect_again():
                raise
            cursor = self.db.cursor()
            cursor.execute(translate(sql), parameters or None)
        return _PipelinedRows(cursor, self)

    def _connect_again(self) -> bool:
        """Replace a connection that is gone. Returns False if it is not, or must not be replaced."""
        if not self.db.closed or self._reconnect is None:
            return False
        self.db = self._reconnect()
        self.connections += 1
        return True

    def executemany(self, sql: str, rows: Iterable[Sequence[Any]], /) -> object:
        statement = translate(sql)
        for row in rows:
            self.db.cursor().execute(statement, row)
        return None

    def one(self, sql: str, parameters: Sequence[Any] = (), /) -> Row | None:
        return self.execute(sql, parameters).fetchone()

    def only(self, sql: str, parameters: Sequence[Any] = (), /) -> Row:
        row = self.execute(sql, parameters).fetchone()
        assert row is not None
        return row

    def scan(self, sql: str, parameters: Sequence[Any] = (), /) -> Iterator[Row]:
        if self._pipeline is not None or not self.in_transaction:
            yield from self.execute(sql, parameters).fetchall()
            return
        with psycopg.RawServerCursor(self.db, f"scan{next(_scan_numbers)}") as cursor:
            cursor.itersize = SCANNED_AT_ONCE
            cursor.execute(translate(sql), parameters or None)
            yield from cursor

    def begin(self) -> None:
        try:
            self._begin()
        except psycopg.OperationalError:  # nothing was written yet: begin anew, with another connection
            self._leave_pipeline()
            if not self._connect_again():
                raise
            self._begin()

    def _begin(self) -> None:
        self._leaving = self.db.pipeline()
        self._pipeline = self._leaving.__enter__()
        self.execute("BEGIN")
        # Nobody else passes here until the transaction ends: positions have no gaps, and heads no rivals.
        (self._transaction,) = self.only("SELECT pg_current_xact_id()::text FROM store_head FOR UPDATE")

    def flush(self) -> None:
        if self._pipeline is not None:
            self._pipeline.sync()

    def commit(self) -> None:
        self.execute("UPDATE store_head SET commits = commits + 1")
        self.execute(f"NOTIFY {COMMITTED}")  # reaches others once it is committed
        self.execute("COMMIT")
        try:
            self.flush()
        except psycopg.OperationalError:
            self._leave_pipeline()
            if not self._is_committed():
                raise
        self._own_commits += 1
        self._leave_pipeline()

    def _is_committed(self) -> bool:
        """Ask what became of a commit whose answer never came: the connection was cut.

        Errors: `StoreUnavailable` if the server cannot be asked any more.
        """
        end = time.monotonic() + SETTLE_S
        while self.db.closed and self._reconnect is not None:
            try:
                self._connect_again()
                while True:
                    row = self.one("SELECT pg_xact_status(?::xid8)", (self._transaction,))
                    if row is None or row[0] != "in progress":
                        return row is not None and row[0] == "committed"
                    time.sleep(SETTLE_STEP_S)
            except (psycopg.OperationalError, StoreUnavailable) as error:
                if time.monotonic() > end:
                    raise StoreUnavailable(
                        "the database server went away during a commit, and cannot be asked about it",
                        got=str(error)[:200],
                        hint="Open the store again when it is back: what the log has then is what is true.",
                    ) from None
                time.sleep(SETTLE_STEP_S)
        return False

    def rollback(self) -> None:
        self._leave_pipeline()
        self.db.execute("ROLLBACK")

    def _recover(self) -> None:
        """Have the server listen again after a statement has failed: a savepoint can be gone back to."""
        if self._pipeline is not None:
            with suppress(psycopg.Error):
                self._pipeline.sync()

    def _leave_pipeline(self) -> None:
        if self._pipeline is not None:
            self._pipeline = None
            with suppress(psycopg.Error):  # what failed was raised where it was read
                self._leaving.__exit__(None, None, None)

    @property
    def in_transaction(self) -> bool:
        status = self.db.info.transaction_status
        return self._pipeline is not None or status in (
            psycopg.pq.TransactionStatus.INTRANS,
            psycopg.pq.TransactionStatus.INERROR,
        )

    def data_version(self) -> int:
        commits = self.only("SELECT commits FROM store_head")[0]
        # After a new connection nothing is known of what others did meanwhile.
        return commits - self._own_commits + (self.connections << 48)

    def schema_version(self) -> int:
        return self.only("SELECT schema_version FROM store_head")[0]

    def columns(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for table, column in self.execute(
            "SELECT c.table_name, c.column_name FROM information_schema.columns c"
            " JOIN information_schema.tables t USING (table_schema, table_name)"
            " WHERE c.table_schema = ? AND t.table_type = 'BASE TABLE' ORDER BY 1, c.ordinal_position",
            (SCHEMA,),
        ):
            found.setdefault(table, []).append(column)
        return found

    def indexes(self) -> set[str]:
        rows = self.execute("SELECT indexname FROM pg_indexes WHERE schemaname = ?", (SCHEMA,))
        return {name for (name,) in rows}

    def counters(self) -> dict[str, int]:
        tokens = "pg_sequence_last_value(pg_get_serial_sequence('leases', 'token')::regclass)"
        keys, leases = self.only(f"SELECT made, coalesce({tokens}, 0) FROM key_counter")
        return {"keys": keys, "leases": leases}

    def set_counters(self, counters: Mapping[str, int], /) -> None:
        self.execute("UPDATE key_counter SET made = max(made, ?)", (counters.get("keys", 0),))
        numbered = self.execute(
            "SELECT table_name, column_name FROM information_schema.columns"
            " WHERE table_schema = ? AND is_identity = 'YES' ORDER BY table_name",
            (SCHEMA,),
        ).fetchall()
        for table, column in numbered:
            (newest,) = self.only(f"SELECT coalesce(max({column}), 0) FROM {table}")
            if number := max(newest, counters.get(table, 0)):
                self.only("SELECT setval(pg_get_serial_sequence(?, ?), ?)", (table, column, number))

    def overwrite_deleted(self) -> None:
        return  # only `shred` takes bytes out of a table's pages

    def is_read_only(self, error: BaseException, /) -> bool:
        return isinstance(error, psycopg.Error) and error.sqlstate in ("25006", "42501")

    def store_error(self, error: BaseException, /) -> ArtelierError | None:
        return store_error(error) if isinstance(error, psycopg.Error) else None

    def batch_error(self, error: BaseException, /) -> ArtelierError | None:
        if isinstance(error, psycopg.IntegrityError):
            return CorruptStore(
                f"a view refused a row: {error.diag.message_primary}", hint="Run `artelier verify`."
            )
        if isinstance(error, _OWN_FAULTS):
            return InvalidEvent(f"an event holds what cannot be stored: {str(error)[:300]}")
        return None
