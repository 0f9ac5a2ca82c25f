"""The store on one SQLite file: WAL, `synchronous=FULL`, one writer thread, small reads in place.

Several processes may open one file. What it does with rows is in `log/database_store.py`.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import sqlite3
import tempfile
import time
import weakref
from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from pathlib import Path

from artelier.errors import StoreLocked, StoreUnavailable
from artelier.ids import fresh_secret
from artelier.log import erasure
from artelier.log.blobs import Sealer
from artelier.log.contract import FaultHook, Report, View
from artelier.log.database import Database
from artelier.log.database_store import DatabaseStore
from artelier.log.sqlite import schema
from artelier.log.sqlite.connection import (
    BUSY_TIMEOUT_S,
    SqliteDatabase,
    connect,
    is_file_read_only,
    open_read_only,
    opened,
    publish,
    store_error,
)
from artelier.log.sqlite.schema import SCHEMA_VERSION, FileIdentity, make_file, migrate, schema_version
from artelier.log.sqlite.verify import verify_store
from artelier.log.views import LISTING_SINCE, install

CLOSING_MS = 1_000
"""How long closing waits for another process's transaction before it leaves leases to end by time."""

SHRED_STEP = 100
"""Instructions of SQLite between two instants at which a test may stop a file that is written anew."""

ANEW_BYTES_MAX = 32 * 1024 * 1024
"""Of a file that is written anew beside other work: writers wait for that long (measured: 150 ms)."""

CHECKPOINT_MS = 50
"""The time that writers wait at once while the log is to be cut and somebody reads it (guess)."""

_FILE_BYTES = "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size"


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


class SqliteStore(DatabaseStore):
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
        super().__init__(views, entropy=entropy, fault=fault, sealer=sealer)
        self._shredding = asyncio.Lock()
        self._shreds_asked = self._shreds_done = 0
        """Calls of `shred` so far, and up to which of them all is done."""
        self._scratch: Callable[[], object] = bool
        """Removes the folder of a temporary store."""
        is_scratch = str(path) == ":memory:"
        if is_scratch:
            folder = tempfile.mkdtemp(prefix="artelier-")
            self._scratch = weakref.finalize(self, _remove, folder, os.getpid())
            path = Path(folder) / "state.db"
        self.path = Path(path)
        _make_folder(self.path.parent)
        make_file(self.path, self.views, is_synced=not is_scratch)
        db = connect(str(self.path), read_only=not is_scratch and is_file_read_only(self.path))
        writing = SqliteDatabase(db)
        try:
            identity = None if is_scratch else FileIdentity(self.path)
            if is_scratch:
                db.execute("PRAGMA synchronous = OFF")  # no crash leaves anybody who could read it
            migrate(db)
            publish(writing, self.views)
            versions = install(writing, self.views)
            if sealer is not None:
                erasure.check_vault_key(writing, self.keyring)
        except (sqlite3.Error, UnicodeDecodeError) as error:
            db.close()
            raise store_error(error) from error
        except BaseException:
            db.close()
            raise
        opened[os.path.realpath(self.path)] += 1
        self._write_db = db
        self._read_db = connect(str(self.path), read_only=True)
        reading = SqliteDatabase(self._read_db)
        publish(reading, self.views)
        self._is_listing = schema_version(self._read_db) >= LISTING_SINCE
        self._start(
            writing,
            reading,
            versions=versions,
            schema_version=SCHEMA_VERSION,
            check_place=(lambda: None) if identity is None else identity.check,
        )

    @property
    def label(self) -> str:
        return self.path.name

    def _snapshot(self) -> AbstractContextManager[Database]:
        return _snapshot(connect(str(self.path), read_only=True))

    def verify(self, *, head: str | None = None) -> Report:
        return verify_store(self.path, self.views, head=head, sealer=self.keyring.sealer)

    async def shred(
        self, *, compact: bool = False, brief: bool = False, timeout_s: float = BUSY_TIMEOUT_S
    ) -> bool:
        """Errors: `StoreLocked` while another process reads an older state."""
        end = time.monotonic() + timeout_s
        asked = self._shreds_asked = self._shreds_asked + 1

        def work() -> bool:
            db = connect(str(self.path))
            if (fault := self._fault) is not None:
                fault("shred.before")
                db.set_progress_handler(lambda: fault("shred.step"), SHRED_STEP)
            try:
                return _shred(db, self.path, end=end, compact=compact, brief=brief)
            except sqlite3.Error as error:
                raise store_error(error) from error

        async with self._shredding:
            if self._shreds_done >= asked and not compact:
                return True
            covered = self._shreds_asked
            if is_clean := await asyncio.to_thread(work):
                self._shreds_done = covered
        return is_clean

    def _disconnect(self, *, holder: str) -> None:
        if holder:
            self._give_back_leases(holder)
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


@contextmanager
def _snapshot(db: sqlite3.Connection) -> Generator[Database]:
    """Give one state of a file to read. Closes `db`."""
    try:
        db.execute("BEGIN")
        seen = SqliteDatabase(db)
        publish(seen, ())
        yield seen
    except sqlite3.Error as error:
        raise store_error(error) from error
    finally:
        db.close()


def open_snapshot(path: str | Path) -> AbstractContextManager[Database]:
    """Give one state of a store to read. Errors: `NotFound` if there is no file, `CorruptStore`."""
    return _snapshot(open_read_only(path))


@contextmanager
def open_connection(path: str | Path) -> Generator[Database]:
    """Give a connection to write tables over, as no store does. Errors: clear ones for SQLite's."""
    with closing(connect(str(path))) as db:
        own = SqliteDatabase(db)
        try:
            yield own
        except (sqlite3.Error, UnicodeDecodeError) as error:
            raise own.batch_error(error) or store_error(error) from error


def copy_file(path: str | Path, target: Path) -> None:
    """Copy a store's file as it is at one moment into another; whoever writes it goes on meanwhile.

    Errors: clear ones for SQLite's. Cost: the whole file; the log of changes grows until it is done.
    """
    with closing(open_read_only(path)) as source:
        try:
            with closing(sqlite3.connect(target)) as copy:
                source.backup(copy)  # in one step, so in one snapshot
        except sqlite3.Error as error:
            raise store_error(error) from error


def _shred(db: sqlite3.Connection, path: Path, *, end: float, compact: bool, brief: bool) -> bool:
    """Leave no byte of what was deleted in the file or beside it. Closes `db`.

    Writers have overwritten it in place (`connect`); left are copies of rows that were moved, and the log.
    Rows of keys are moved where a first vault key wraps them, or another one.
    Errors: `StoreLocked` while another process reads an older state; what was taken away stays so.
    """
    with closing(db):
        own = SqliteDatabase(db)
        db.execute(f"PRAGMA busy_timeout = {max(0, int((end - time.monotonic()) * 1000))}")
        moved = schema.moved_rows(own)
        if moved.contents or compact:
            if brief and db.execute(_FILE_BYTES).fetchone()[0] > ANEW_BYTES_MAX:
                return False
            db.execute("PRAGMA temp_store = FILE")  # else memory grows with the file
            db.execute("VACUUM")
            schema.forget_moved_rows(own, moved)
        elif moved.keys:
            own.begin()
            schema.rewrite_keys(own)
            own.commit()
        while not _empty_log(db):
            if time.monotonic() > end:
                raise StoreLocked(
                    "another process reads an older state of the database, and its log still holds the bytes",
                    got=str(path),
                    hint="What was erased can no longer be read. Call it again when that process is done, "
                    "to take the bytes out of the file too.",
                )
            time.sleep(CHECKPOINT_MS / 1000)
    return True


def _empty_log(db: sqlite3.Connection) -> bool:
    """Move the log into the file and cut it; False if somebody still reads what it holds."""
    # Nobody waits for the first, which does the work; all writers wait while the second waits for readers.
    db.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
    db.execute(f"PRAGMA busy_timeout = {CHECKPOINT_MS}")
    (busy, _, _) = db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    return not busy
