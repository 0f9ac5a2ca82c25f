"""Connections to a store's file with our settings, and the clear errors behind SQLite's.

Read next: `store.py` for what is done with them.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from artelier.errors import (
    ArtelierError,
    CorruptStore,
    InvalidEvent,
    NotFound,
    StoreFull,
    StoreLocked,
    StoreUnavailable,
)
from artelier.log import views as log_views
from artelier.log.contract import RESTORE, Row, View
from artelier.log.sqlite.schema import is_read_only, schema_version
from artelier.log.writer import another_process

BUSY_TIMEOUT_S = 10.0
"""How long a writer waits for another process's transaction before `StoreLocked`."""


def store_error(error: sqlite3.Error | UnicodeDecodeError) -> ArtelierError:
    """The clear error behind one of SQLite's, or behind a damaged name that it could not even quote."""
    if isinstance(error, UnicodeDecodeError):
        return CorruptStore("the database file is damaged: a name in it is no UTF-8", hint=RESTORE)
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code == sqlite3.SQLITE_FULL:
        return StoreFull("the disk is full; nothing was written", hint="Free some space and run it again.")
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return StoreLocked(
            "the database is locked by another process",
            hint="Wait for it to finish, or stop it; nothing was written.",
        )
    if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return CorruptStore(f"the database file is damaged: {error}", hint=RESTORE)
    if code == sqlite3.SQLITE_READONLY:
        return StoreUnavailable(
            "the database is read-only here; nothing was written",
            expected="a file and a folder that this user may write",
            hint="It can be looked at. For anything else copy it, with its -wal, to where it can be written.",
        )
    if code in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_IOERR):
        return StoreUnavailable(
            f"the database cannot be written: {error}", hint="Check the path, its rights and the disk."
        )
    if str(error).startswith(("no such table", "no such column", "no such index")):
        return CorruptStore(f"a part of the database is missing: {error}", hint=RESTORE)
    return StoreUnavailable(f"the database refused: {error}")


opened: Counter[str] = Counter()
"""Files that stores of this process have open, by real path."""

_inherited: set[str] = set()
"""Files that were open when this process was forked: SQLite's locks do not cross a fork, and a connection
made now would believe to hold those of the parent (sqlite.org/howtocorrupt.html, 2.6)."""


def _forget_parent() -> None:
    _inherited.update(+opened)
    opened.clear()


os.register_at_fork(after_in_child=_forget_parent)


def connect(path: str, *, read_only: bool = False) -> sqlite3.Connection:
    """A connection with our settings. Errors: the clear form of SQLite's."""
    if os.path.realpath(path) in _inherited:
        raise another_process(path)
    uri = f"{Path(path).absolute().as_uri()}{'?mode=ro' if read_only else ''}"
    if read_only and _is_frozen(Path(path)):
        uri += "&immutable=1"
    db: sqlite3.Connection | None = None
    try:
        db = sqlite3.connect(
            uri,
            uri=True,
            timeout=BUSY_TIMEOUT_S,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=512,
        )
        if not read_only:
            # A foreign or newer file is refused before anything is written to it.
            schema_version(db)
            _use_wal(db)
            db.execute("PRAGMA synchronous = FULL")
            # From the first row on: what `shred` promises needs it of every writer (decision 0024).
            db.execute("PRAGMA secure_delete = ON")
            # 16 MB of log before a checkpoint: fewer of the fsyncs that a checkpoint costs.
            db.execute("PRAGMA wal_autocheckpoint = 4000")
        db.execute("PRAGMA cache_size = -32000")
        db.execute("PRAGMA temp_store = MEMORY")
    except (sqlite3.Error, UnicodeDecodeError) as error:
        if db is not None:
            db.close()
        raise store_error(error) from error
    except BaseException:
        if db is not None:
            db.close()
        raise
    return db


def _is_frozen(path: Path) -> bool:
    """Return True if nobody can write the file here: a read-only medium, on which SQLite cannot share WAL."""
    return not os.access(path.parent, os.W_OK) and not Path(f"{path}-wal").exists()


def is_file_read_only(path: Path) -> bool:
    """Return whether a database that is here can be read and not written: then it is opened so."""
    if not path.exists():
        return False
    # Readers and writers share `-shm`; where it cannot be made, it must be there.
    can_share = os.access(path.parent, os.W_OK) or Path(f"{path}-shm").exists()
    return not (can_share and os.access(path, os.W_OK))


def _use_wal(db: sqlite3.Connection) -> None:
    """Switch to WAL; two processes that do so at once get SQLITE_BUSY without SQLite's own waiting."""
    end = time.monotonic() + BUSY_TIMEOUT_S
    while True:
        try:
            db.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > end:
                raise
            time.sleep(0.01)


def open_read_only(path: str | Path) -> sqlite3.Connection:
    """A read-only connection to an existing store, for verify. Errors: `NotFound`, `CorruptStore`."""
    if not Path(path).is_file():
        raise NotFound("no such database", got=str(path), hint="Name it with --db.")
    db = connect(str(path), read_only=True)
    try:
        if schema_version(db) == 0:
            raise CorruptStore("an empty file is no store", got=str(path))
    except (sqlite3.Error, UnicodeDecodeError) as error:
        db.close()
        raise store_error(error) from error
    except BaseException:
        db.close()
        raise
    return db


# --------------------------------------------------------------------------- the neutral half's connection

_OWN_FAULTS = (sqlite3.IntegrityError, sqlite3.InterfaceError, sqlite3.ProgrammingError, sqlite3.DataError)
"""Errors of SQLite that one batch brings upon itself: its neighbours in the group go on."""

_KEY_COUNTER = """CREATE TEMP VIEW IF NOT EXISTS key_counter AS
    SELECT coalesce(max(seq), 0) AS made FROM sqlite_sequence WHERE name = 'keys'"""
"""The row of the newest key ever made, dropped or not."""


class SqliteDatabase:
    """`Database` over a connection of SQLite. Statements are executed at once."""

    __slots__ = ("connections", "db", "execute", "executemany", "scan")

    def __init__(self, db: sqlite3.Connection) -> None:
        self.db = db
        self.connections = 1
        self.execute: Callable[..., sqlite3.Cursor] = db.execute
        self.executemany: Callable[..., sqlite3.Cursor] = db.executemany
        self.scan: Callable[..., Iterator[Row]] = db.execute

    def publish(self, statements: Iterable[str], /) -> None:
        for statement in statements:
            self.execute(statement)

    def one(self, sql: str, parameters: Sequence[Any] = (), /) -> Row | None:
        return self.execute(sql, parameters).fetchone()

    def only(self, sql: str, parameters: Sequence[Any] = (), /) -> Row:
        return self.execute(sql, parameters).fetchone()

    def begin(self) -> None:
        self.execute("BEGIN IMMEDIATE")

    def flush(self) -> None:
        return

    def commit(self, is_there: Callable[[], bool] | None = None) -> None:
        self.execute("COMMIT")

    def rollback(self) -> None:
        self.execute("ROLLBACK")

    @property
    def in_transaction(self) -> bool:
        return self.db.in_transaction

    def data_version(self) -> int:
        return self.execute("PRAGMA data_version").fetchone()[0]

    def schema_version(self) -> int:
        return self.execute("PRAGMA user_version").fetchone()[0]

    def columns(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for table, column in self.execute(
            "SELECT m.name, c.name FROM sqlite_master m JOIN pragma_table_info(m.name) c"
            " WHERE m.type = 'table' AND m.name NOT LIKE 'sqlite!_%' ESCAPE '!' ORDER BY m.name, c.cid"
        ):
            found.setdefault(table, []).append(column)
        return found

    def indexes(self) -> set[str]:
        return {name for (name,) in self.execute("SELECT name FROM sqlite_master WHERE type = 'index'")}

    def counters(self) -> dict[str, int]:
        return dict(self.execute("SELECT name, seq FROM sqlite_sequence WHERE name IN ('keys', 'leases')"))

    def set_counters(self, counters: Mapping[str, int], /) -> None:
        for table, number in counters.items():
            self.execute("UPDATE sqlite_sequence SET seq = max(seq, ?) WHERE name = ?", (number, table))
            self.execute(
                "INSERT INTO sqlite_sequence(name, seq) SELECT ?, ?"
                " WHERE NOT EXISTS (SELECT 1 FROM sqlite_sequence WHERE name = ?)",
                (table, number, table),
            )

    def is_read_only(self, error: BaseException, /) -> bool:
        return is_read_only(error)

    def store_error(self, error: BaseException, /) -> ArtelierError | None:
        return store_error(error) if isinstance(error, sqlite3.Error | UnicodeDecodeError) else None

    def batch_error(self, error: BaseException, /) -> ArtelierError | None:
        if isinstance(error, sqlite3.IntegrityError):
            return CorruptStore(f"a view refused a row: {error}", hint="Run `artelier verify`.")
        if isinstance(error, _OWN_FAULTS):
            return InvalidEvent(f"an event holds what cannot be stored: {error}")
        return None


def publish(db: SqliteDatabase, views: Sequence[View]) -> None:
    """Let this connection read what the log and `views` publish; the file is not written."""
    db.execute(_KEY_COUNTER)
    log_views.publish(db, views)
