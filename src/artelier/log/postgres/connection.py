"""Connections to a database server, and the clear errors behind PostgreSQL's.

Whoever writes sends statements without waiting for each (the protocol's pipeline): a group of batches waits
for its turn, where it reads, and at its commit. No message holds an address's password.

Behind a pooler (PgBouncer) each transaction may meet another connection of the server. Nothing is left behind
in one then: what is set is set for a transaction, and no statement is prepared by name.
Read next: `dialect.py` for the SQL that is sent, `schema.py` for what is in the database, `store.py` for what
is done with it.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import count
from typing import Any, cast
from urllib.parse import unquote

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
from artelier.log.postgres.dialect import NOTHING_PUBLISHED, PublishedViews, translate

SCHEMA = "artelier"
"""The schema that a store's tables stand in: a database may hold other things beside them."""

COMMITTED = "artelier_committed"
"""The channel on which processes learn of each other's commits."""

CONNECT_TIMEOUT_S = 10
LOCK_TIMEOUT_MS = 10_000
"""How long a writer waits for another process's transaction before `StoreLocked`."""
IDLE_IN_TRANSACTION_MS = 60_000
"""After this long the server ends a transaction whose process says nothing, but in a pipeline never."""

_END_SILENT = (
    "SELECT pg_terminate_backend(a.pid) FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid"
    f" WHERE l.relation = '{SCHEMA}.store_head'::regclass AND l.granted AND a.pid <> pg_backend_pid()"
    " AND a.wait_event = 'ClientRead'"
    f" AND a.query_start < clock_timestamp() - interval '{LOCK_TIMEOUT_MS - 1_000} milliseconds'"
)
"""Ends who has the turn and has said nothing for as long as others wait: a process that was stopped, a
machine that sleeps. The server itself does not count time while it waits for the rest of a pipeline."""

_SETTINGS = {
    "search_path": f"{SCHEMA},pg_catalog",
    "lock_timeout": str(LOCK_TIMEOUT_MS),
    "idle_in_transaction_session_timeout": str(IDLE_IN_TRANSACTION_MS),
    "client_min_messages": "warning",
    "jit": "off",  # statements are small; compiling one takes longer than it
}


def _setting(*, is_local: bool) -> bytes:
    """Return the statement that sets all for a transaction, or for a connection."""
    settings = (f"set_config('{name}', '{value}', {is_local})" for name, value in _SETTINGS.items())
    return f"SELECT {', '.join(settings)}".encode()


_SET_FOR_CONNECTION, _SET_FOR_TRANSACTION = _setting(is_local=False), _setting(is_local=True)

_HEAD = (
    "commits, (extract(epoch FROM pg_postmaster_start_time()) * 1000000)::bigint,"
    " (extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
)
"""The number of commits, the start of the server that tells it, and its time."""

RECOVERIES_MAX = 10
"""Tries to read what a server has still to say of statements that were sent behind one that failed."""

SETTLE_S = 30.0
"""How long a writer asks what became of a commit whose answer never came."""

SETTLE_STEP_S = 0.1

_scan_numbers = count(1)

SCANNED_AT_ONCE = 2_000
"""Rows that a scan has in memory."""


# --------------------------------------------------------------------------- addresses


_LISTEN = re.compile(r"(?<=[?&])listen=([^&#]*)(?:&|$)")
"""The parameter that is ours: where the server itself is, behind a pooler."""


def parse_address(address: str) -> dict[str, str]:
    """Return the parameters of an address. Errors: `InvalidConfig`, which never quotes it."""
    try:
        plain = _LISTEN.sub("", address).rstrip("?&")
        parameters = {name: str(value) for name, value in conninfo.conninfo_to_dict(plain).items()}
    except psycopg.Error:
        raise InvalidConfig(
            "this address of a database cannot be understood",
            expected="postgresql://USER:PASSWORD@HOST:PORT/DATABASE; characters such as @ in it as %40",
        ) from None
    return _demand_encryption(parameters)


def parse_listen_address(address: str) -> dict[str, str]:
    """Return the parameters of the connection that is told of commits.

    They are those of the address but for `listen=HOST:PORT`, or `listen=FOLDER` of a socket.
    Errors: `InvalidConfig`.
    """
    parameters = parse_address(address)
    if (listen := _LISTEN.search(address)) is None:
        return parameters
    host, port = unquote(listen[1]), ""
    if not host.startswith("/"):
        host, _, port = host.partition("]:" if host.startswith("[") else ":")
    for name in ("hostaddr", "port"):
        parameters.pop(name, None)
    parameters["host"] = host.strip("[]")
    if port:
        parameters["port"] = port
    return _demand_encryption(parameters)


def _demand_encryption(parameters: dict[str, str]) -> dict[str, str]:
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


# --------------------------------------------------------------------------- time


class ServerClock:
    """The time of a server, as its answers tell it: machines that share a store go by this.

    Between two answers it goes on as this machine does, whatever becomes of the machine's wall clock.
    """

    def __init__(self) -> None:
        self._ahead_us = 0
        """The server's time less the uptime of this machine."""
        self._error_us = 2**62
        """By how much that may be wrong: half of the time that the answer took."""

    def note(self, server_us: int, *, asked_us: int) -> None:
        """Take note of an answer. `asked_us`: the uptime at which the server was asked.

        The answer that took the least time stands until one contradicts it: the clocks have drifted, or
        another server answers.
        """
        error_us = (_uptime_us() - asked_us) // 2
        ahead_us = server_us - asked_us - error_us
        is_other = abs(ahead_us - self._ahead_us) > error_us + self._error_us
        if is_other or error_us < self._error_us:
            self._ahead_us, self._error_us = ahead_us, error_us

    def now_us(self) -> int:
        return self._ahead_us + _uptime_us()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


_UPTIME = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""Goes on while the machine sleeps, where there is such a clock."""


def _uptime_us() -> int:
    return time.clock_gettime_ns(_UPTIME) // 1_000


# --------------------------------------------------------------------------- connections


class Connection(psycopg.Connection[Row]):
    """A connection with our settings."""

    is_pooled = False
    """True if a pooler is in between, which lends a connection of the server for each transaction."""

    def enter_pipeline(self) -> psycopg.Pipeline:
        """Send statements without waiting for each from here on.

        `pipeline()` would end it with another round trip, and that in a fork, too, where it is collected.
        """
        self._pipeline = psycopg.Pipeline(self)
        return self._pipeline.__enter__()


def connect(parameters: dict[str, str]) -> Connection:
    """Return a connection with our settings. Errors: the clear form of PostgreSQL's."""
    given = dict(parameters)
    given.setdefault("connect_timeout", str(CONNECT_TIMEOUT_S))
    given.setdefault("application_name", "artelier")
    given.setdefault("keepalives_idle", "10")
    given.setdefault("keepalives_interval", "5")
    given.setdefault("keepalives_count", "3")
    try:
        db = Connection.connect(
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
        # A pooler makes up the number of the process that it names to its clients.
        row = db.execute(b"SELECT pg_backend_pid()").fetchone()
        db.is_pooled = row != (db.info.backend_pid,)
        if db.is_pooled:
            db.prepare_threshold = None
        else:
            db.execute(_SET_FOR_CONNECTION)
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
        if self._cursor.pgresult is None:
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

    def __init__(self, db: Connection, reconnect: Callable[[], Connection] | None = None) -> None:
        """`reconnect` makes another connection when this one is gone; without it, it stays gone."""
        self.db = db
        self._reconnect = reconnect
        self._published = NOTHING_PUBLISHED
        self.connections = 1
        """Servers and connections so far: another one may have lost commits."""
        self._server: int | None = None
        """When the server was started that answered last: behind a pooler, another one answers unnoticed."""
        self.clock = ServerClock()
        self._transaction = "0"
        """The number by which the server knows the transaction that writes."""
        self._pipeline: psycopg.Pipeline | None = None
        """Once it is entered, it ends with the connection."""
        self._is_open = False
        """True in a transaction that `open_transaction` has begun."""
        self._commits: int | None = None
        """Commits in the store as the transaction that writes has found them; nobody else adds one."""
        self._own_commits = 0
        """Commits of this connection, which `store_head` counts with all others."""

    def publish(self, statements: Iterable[str], /) -> None:
        self._published = PublishedViews(statements)

    def execute(self, sql: str, parameters: Sequence[Any] = (), /) -> _PipelinedRows:
        if sql.startswith("ROLLBACK TO"):
            self._recover()
        try:
            cursor = self._send(sql, parameters)
        except psycopg.OperationalError:
            if self.in_transaction or not self._connect_again():
                raise
            cursor = self._send(sql, parameters)
        return _PipelinedRows(cursor, self)

    def _send(self, sql: str, parameters: Sequence[Any]) -> psycopg.Cursor[Row]:
        """Send a statement. Outside of transactions it is one of its own, and answered when this returns."""
        cursor = self.db.cursor()
        statement = translate(sql, self._published)
        if self.in_transaction:
            cursor.execute(statement, parameters or None)
            return cursor
        if self.db.is_pooled:
            self._enter_pipeline()
        if self._pipeline is None:
            cursor.execute(statement, parameters or None)
            return cursor
        try:
            if self.db.is_pooled:
                self.db.execute(_SET_FOR_TRANSACTION)
            cursor.execute(statement, parameters or None)
            self._pipeline.sync()
        except psycopg.Error:
            self._recover()
            raise
        return cursor

    def _enter_pipeline(self) -> None:
        if self._pipeline is None:
            self._pipeline = self.db.enter_pipeline()

    def close(self) -> None:
        self.db.close()
        self._pipeline = None
        self._end()

    def _connect_again(self) -> bool:
        """Replace a connection that is gone. Returns False if it is not, or must not be replaced."""
        if not self.db.closed or self._reconnect is None:
            return False
        self.close()
        self.db = self._reconnect()
        self.connections += 1
        return True

    def executemany(self, sql: str, rows: Iterable[Sequence[Any]], /) -> object:
        for row in rows:
            self._send(sql, row)
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
            cursor.execute(translate(sql, self._published), parameters or None)
            yield from cursor

    def open_transaction(self, how: str = "BEGIN") -> None:
        """Begin a transaction with our settings, and lock nothing."""
        self.db.execute(how.encode())
        self._is_open = True
        if self.db.is_pooled:
            self.db.execute(_SET_FOR_TRANSACTION)

    def begin(self) -> None:
        try:
            self._begin()
        except psycopg.errors.LockNotAvailable:
            self.rollback()
            self.execute(_END_SILENT)
            self._begin()
        except psycopg.OperationalError:  # nothing was written yet: begin anew, with another connection
            if not self._connect_again():
                raise
            self._begin()

    def _begin(self) -> None:
        self._enter_pipeline()
        self.open_transaction()
        # Nobody else passes here until the transaction ends: positions have no gaps, and heads no rivals.
        self._commits, self._transaction = self._ask_head(", pg_current_xact_id()::text", "FOR UPDATE")

    def _ask_head(self, more: str = "", lock: str = "") -> list[Any]:
        """Return the number of commits, and what else is asked. Notes which server answers, and its time."""
        asked_us = _uptime_us()
        commits, server, now_us, *found = self.only(f"SELECT {_HEAD}{more} FROM store_head {lock}")
        self.clock.note(now_us, asked_us=asked_us)
        if self._server not in (None, server):
            self.connections += 1
        self._server = server
        return [commits, *found]

    def flush(self) -> None:
        if self._pipeline is not None:
            self._pipeline.sync()

    def commit(self, is_there: Callable[[], bool] | None = None) -> None:
        self.execute("UPDATE store_head SET commits = commits + 1")
        # Reaches others once it is committed. The number is that of `CommitListener`.
        self.execute(f"NOTIFY {COMMITTED}, '{self.db.info.backend_pid}'")
        try:
            self.execute("COMMIT")
            self.flush()
        except psycopg.OperationalError as error:
            if not self._is_cut(error) or not self._is_committed(is_there):
                raise
        self._own_commits += 1
        self._end()

    def _is_cut(self, error: psycopg.OperationalError) -> bool:
        """Return True if the answer to a commit never came: from the server, or through a pooler."""
        return self.db.closed or (error.sqlstate or "08").startswith(("08", "57P"))

    def _is_committed(self, is_there: Callable[[], bool] | None) -> bool:
        """Ask what became of a commit whose answer never came: the connection was cut.

        Errors: `StoreUnavailable` if the server cannot be asked any more.
        """
        self.close()
        end, server = time.monotonic() + SETTLE_S, self._server
        while self._reconnect is not None:
            try:
                self._connect_again()
                while (status := self._read_status()) == "in progress":
                    time.sleep(SETTLE_STEP_S)
                if is_there is not None:
                    return is_there()
                self._ask_head()
                return status == "committed" and self._server == server
            except (psycopg.OperationalError, StoreUnavailable) as error:
                if time.monotonic() > end:
                    raise StoreUnavailable(
                        "the database server went away during a commit, and cannot be asked about it",
                        got=str(error)[:200],
                        hint="Open the store again when it is back: what the log has then is what is true.",
                    ) from None
                time.sleep(SETTLE_STEP_S)
        return False

    def _read_status(self) -> str | None:
        """Return what the server says of the transaction that has written.

        A server that has crashed gives the number of one that it lost to the next one, so that "committed"
        may be said of somebody else's.
        """
        try:
            return self.only("SELECT pg_xact_status(?::xid8)", (self._transaction,))[0]
        except psycopg.errors.InvalidParameterValue:  # no transaction has this number yet, or any more
            return None

    def rollback(self) -> None:
        self._recover()
        self._end()
        self.db.execute(b"ROLLBACK")
        self.flush()

    def _end(self) -> None:
        self._is_open, self._commits = False, None

    def _recover(self) -> None:
        """Have the server listen again after a statement has failed: a savepoint can be gone back to."""
        for _ in range(RECOVERIES_MAX):
            if self._pipeline is None or self.db.closed:
                return
            with suppress(psycopg.Error):  # what failed was raised where it was read
                self._pipeline.sync()
                return

    @property
    def in_transaction(self) -> bool:
        return self._is_open or self.db.info.transaction_status in (
            psycopg.pq.TransactionStatus.INTRANS,
            psycopg.pq.TransactionStatus.INERROR,
        )

    def data_version(self) -> int:
        commits = self._commits
        if commits is None:
            (commits,) = self._ask_head()
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
