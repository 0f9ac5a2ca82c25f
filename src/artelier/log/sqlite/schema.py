"""The schema of a store's file: the log's own tables in numbered steps, and how a new file gets all at once.

A step, once released, never changes. The tables of views are made by `log/views.py`.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from artelier.errors import CorruptStore, StoreUnavailable
from artelier.log.blobs import ERASED
from artelier.log.contract import View
from artelier.log.database import Database, check_not_newer

# --------------------------------------------------------------------------- migrations
# Numbered steps from an empty database to today's tables, and the check that the open file is still there.
#
# A step, once released, never changes. The tables here are the log itself. Views create their own tables.
# SQLite does not check in WAL mode that the path still names the file that is open: it
# continues in the unlinked file, and whatever it commits there is lost when the process that holds it ends.

APPLICATION_ID = 0x41725401
"""`PRAGMA application_id` of an Artelier store ("ArT", 1)."""


def create_the_log(db: sqlite3.Connection) -> None:
    for statement in (
        """CREATE TABLE streams(
            id INTEGER PRIMARY KEY, tenant TEXT NOT NULL, space TEXT NOT NULL, name TEXT NOT NULL,
            UNIQUE(tenant, space, name)) STRICT""",
        """CREATE TABLE events(
            position INTEGER PRIMARY KEY, stream INTEGER NOT NULL, seq INTEGER NOT NULL,
            kind TEXT NOT NULL, version INTEGER NOT NULL, data TEXT NOT NULL, at_us INTEGER NOT NULL,
            actor TEXT NOT NULL, cause TEXT, hash BLOB NOT NULL) STRICT""",
        "CREATE UNIQUE INDEX events_by_stream ON events(stream, seq)",
        """CREATE TABLE blobs(
            tenant TEXT NOT NULL, name BLOB NOT NULL, key_id INTEGER, codec INTEGER NOT NULL,
            size INTEGER NOT NULL, content BLOB NOT NULL) STRICT""",
        "CREATE UNIQUE INDEX blobs_by_name ON blobs(name, tenant)",
        """CREATE TABLE commits(
            first_position INTEGER PRIMARY KEY, last_position INTEGER NOT NULL,
            root BLOB NOT NULL) STRICT""",
        """CREATE TABLE keys(
            key_id INTEGER PRIMARY KEY AUTOINCREMENT, tenant TEXT NOT NULL, subject TEXT,
            secret BLOB NOT NULL) STRICT""",
        # AUTOINCREMENT: a fencing token never comes back, even after its row is gone.
        """CREATE TABLE leases(
            token INTEGER PRIMARY KEY AUTOINCREMENT, stream TEXT NOT NULL UNIQUE,
            holder TEXT NOT NULL, expires_us INTEGER NOT NULL) STRICT""",
        "CREATE INDEX leases_by_holder ON leases(holder)",
        "CREATE TABLE view_versions(name TEXT PRIMARY KEY, version INTEGER NOT NULL) STRICT",
    ):
        db.execute(statement)


def create_what_is_no_view(db: sqlite3.Connection) -> None:
    """Secrets that placeholders stand for, and windows of rate limits: neither is a fold of the log."""
    for statement in (
        """CREATE TABLE vault(
            tenant TEXT NOT NULL, placeholder TEXT NOT NULL, digest BLOB NOT NULL,
            generation INTEGER NOT NULL, key_id INTEGER, sealed BLOB) STRICT""",
        "CREATE UNIQUE INDEX vault_by_placeholder ON vault(placeholder, tenant)",
        "CREATE UNIQUE INDEX vault_by_digest ON vault(digest, generation, tenant)",
        """CREATE TABLE rates(
            scope TEXT NOT NULL, unit TEXT NOT NULL, at_us INTEGER NOT NULL,
            used INTEGER NOT NULL) STRICT""",
        "CREATE INDEX rates_by_scope ON rates(scope, unit, at_us)",
    ):
        db.execute(statement)


def end_leases_by_uptime(db: sqlite3.Connection) -> None:
    """Processes of one machine may disagree about the time of day; how long it runs is the same for all."""
    db.execute("ALTER TABLE leases ADD COLUMN expires_uptime_us INTEGER")


def count_stalled_holders(db: sqlite3.Connection) -> None:
    """A process that input has frozen records nothing: the next one sees that it made no progress."""
    db.execute("ALTER TABLE leases ADD COLUMN progress INTEGER NOT NULL DEFAULT -1")
    db.execute("ALTER TABLE leases ADD COLUMN stalled INTEGER NOT NULL DEFAULT 0")


def list_positions_by_tenant(db: sqlite3.Connection) -> None:
    """A page of a tenant's events is found without passing over those of others (see `list_positions`).

    The table begins empty: opening a large store waits for nothing, and commits fill it.
    """
    for statement in (
        """CREATE TABLE tenant_positions(
            tenant TEXT NOT NULL, first INTEGER NOT NULL, last INTEGER NOT NULL,
            PRIMARY KEY(tenant, first)) STRICT, WITHOUT ROWID""",
        "CREATE INDEX tenant_positions_by_last ON tenant_positions(last)",
    ):
        db.execute(statement)


def put_keys_below_keys(db: sqlite3.Connection) -> None:
    """A part of what is stored about somebody can be erased alone: it has a key of its own below theirs."""
    db.execute("ALTER TABLE keys ADD COLUMN parent INTEGER")


def note_moved_contents(db: sqlite3.Connection) -> None:
    """SQLite may leave copies of rows where it has moved them from; then only a whole new file has none.

    It moves rows of these tables when one grows or is deleted, never when one is added at the end or shrinks
    (decision 0024). Nobody knows where the rows of an older file have been.
    """
    for statement in (
        "CREATE TABLE moved_contents(times INTEGER NOT NULL) STRICT",
        "INSERT INTO moved_contents SELECT EXISTS (SELECT 1 FROM blobs)",
        f"""CREATE TRIGGER contents_grow AFTER UPDATE ON blobs WHEN new.codec <> {ERASED}
            BEGIN UPDATE moved_contents SET times = times + 1; END""",
        """CREATE TRIGGER contents_go AFTER DELETE ON blobs
            BEGIN UPDATE moved_contents SET times = times + 1; END""",
        """CREATE TRIGGER values_grow AFTER UPDATE ON vault WHEN new.sealed IS NOT NULL
            BEGIN UPDATE moved_contents SET times = times + 1; END""",
        """CREATE TRIGGER values_go AFTER DELETE ON vault
            BEGIN UPDATE moved_contents SET times = times + 1; END""",
    ):
        db.execute(statement)


def leave_keys_in_their_places(db: sqlite3.Connection) -> None:
    """A key that is dropped leaves an empty row, so that none is moved; contents are found by their key, and
    keys by their tenant.

    Rows of keys are moved when one grows or is deleted, as those of an older file were.
    """
    for statement in (
        "CREATE INDEX blobs_by_key ON blobs(key_id)",
        # No subject stands in an index: what is erased would be left where its pages are moved.
        "CREATE INDEX keys_of_tenants ON keys(tenant) WHERE subject IS NULL",
        "CREATE INDEX keys_of_subjects ON keys(tenant) WHERE subject IS NOT NULL",
        "ALTER TABLE moved_contents ADD COLUMN keys INTEGER NOT NULL DEFAULT 0",
        """CREATE TRIGGER keys_grow AFTER UPDATE ON keys WHEN length(new.secret) > 0
            BEGIN UPDATE moved_contents SET keys = keys + 1; END""",
    ):
        db.execute(statement)
    rewrite_keys(db)


MIGRATIONS: tuple[Callable[[sqlite3.Connection], None], ...] = (
    create_the_log,
    create_what_is_no_view,
    end_leases_by_uptime,
    count_stalled_holders,
    list_positions_by_tenant,
    put_keys_below_keys,
    note_moved_contents,
    leave_keys_in_their_places,
)

SCHEMA_VERSION = len(MIGRATIONS)

READABLE_SINCE = 4
"""The oldest schema that is read where it cannot be brought to today's: what came since saves time,
or is asked for by who writes."""


def schema_version(db: sqlite3.Connection) -> int:
    """Version of a store; 0 for an empty database.

    Errors: `NewerSchema` if this code is older than the store, `CorruptStore` if it is no store of ours.
    """
    # One statement, one moment: another process may be migrating the same fresh file.
    version, application, tables = db.execute(
        "SELECT (SELECT user_version FROM pragma_user_version),"
        " (SELECT application_id FROM pragma_application_id), (SELECT count(*) FROM sqlite_master)"
    ).fetchone()
    if tables and application != APPLICATION_ID:
        raise CorruptStore(
            "this is a database of something else",
            expected="an Artelier store or an empty file",
            got=f"application id {application}",
            hint="Name another file with --db.",
        )
    check_not_newer(version, SCHEMA_VERSION)
    return version


def migrate(db: sqlite3.Connection) -> None:
    """Bring a store to today's schema, in one transaction. A store that is up to date is not written.

    Where it cannot be written, one of `READABLE_SINCE` stays as it is.
    """
    version = schema_version(db)
    if version == SCHEMA_VERSION:
        return
    try:
        db.execute("BEGIN IMMEDIATE")
        for step in MIGRATIONS[schema_version(db) :]:
            step(db)
        db.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
        db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        db.execute("COMMIT")
    except BaseException as error:
        if db.in_transaction:
            db.execute("ROLLBACK")
        if version < READABLE_SINCE or not is_read_only(error):
            raise


def is_read_only(error: BaseException) -> bool:
    """Return True if a file cannot be written here."""
    return isinstance(error, sqlite3.OperationalError) and (
        error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_READONLY
    )


class FileIdentity:
    """The file that `path` names now; `check` tells when it names another.

    Errors: `StoreUnavailable` if there is none.
    Cost: one `stat` per check, about 2 us.
    """

    def __init__(self, path: Path) -> None:
        self._path = os.fspath(path.absolute())
        """Absolute: the process may change its folder."""
        self._opened = self._read()

    def check(self) -> None:
        """Errors: `StoreUnavailable` if the file is gone, or its name belongs to another."""
        if self._read() != self._opened:
            raise self._lost_error("another file")

    def _read(self) -> tuple[int, int]:
        try:
            found = os.stat(self._path)
        except FileNotFoundError:
            raise self._lost_error("no file") from None
        except OSError as error:
            raise self._lost_error(error.strerror or "a file that cannot be looked at") from None
        return found.st_dev, found.st_ino

    def _lost_error(self, got: str) -> StoreUnavailable:
        return StoreUnavailable(
            "the database file was removed or replaced while it was open; nothing was written",
            expected=f"the file that was opened as {self._path}",
            got=got,
            hint="Put the file back if it was moved, or restore it, and open the store again.",
        )


# --------------------------------------------------------------------------- new files
# A file that is not there yet gets all tables at once, as a copy of what was made before in this process.


def make_file(path: Path, views: Sequence[View], *, is_synced: bool) -> None:
    """Make the file of a new store whole, unless it is there: of several that try, one has made it.

    It has no name until its last byte is on the disk, so that nobody sees half of it and a crash leaves
    nothing. Where the system has no files without a name, nothing is done: `migrate` and `install` make the
    tables in the file, as they do in one that is empty, and say what is wrong.
    """
    # What the log of a file that was removed holds would be taken for changes of the new one.
    if any(Path(f"{path}{end}").exists() for end in ("", "-wal", "-shm", "-journal")):
        return
    if not hasattr(os, "O_TMPFILE"):
        return
    with suppress(OSError, sqlite3.Error):
        image = _make_image(tuple((view.name, view.version, (*view.schema, *view.indexes)) for view in views))
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            with open(os.open(path.parent, os.O_TMPFILE | os.O_RDWR, 0o644), "wb") as file:
                file.write(image)
                file.flush()
                if is_synced:
                    os.fsync(file.fileno())
                # With a folder given, the link is followed to the file.
                os.link(f"/proc/self/fd/{file.fileno()}", path.name, src_dir_fd=folder, dst_dir_fd=folder)
        finally:
            os.close(folder)


@lru_cache(maxsize=8)
def _make_image(views: tuple[tuple[str, int, tuple[str, ...]], ...]) -> bytes:
    """Return an empty store with views of these names, versions and statements, as SQLite stores it."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as db:
        migrate(db)
        db.execute("BEGIN")
        for name, version, schema in views:
            for statement in schema:
                db.execute(statement)
            db.execute("INSERT INTO view_versions VALUES (?, ?)", (name, version))
        db.execute("COMMIT")
        image = bytearray(db.serialize())
    image[18:20] = b"\2\2"  # of the format's header: a file with a write-ahead log
    return bytes(image)


def rewrite_keys(db: Database | sqlite3.Connection) -> None:
    """Write the rows of all keys anew, in the transaction that is open.

    SQLite overwrites the pages of a table that is emptied, and with them the copies that it leaves when it
    moves rows.
    """
    db.execute("CREATE TEMP TABLE kept AS SELECT * FROM keys ORDER BY key_id")
    db.execute("DELETE FROM keys")
    db.execute("INSERT INTO keys SELECT * FROM kept ORDER BY rowid")
    db.execute("DROP TABLE kept")
    db.execute("UPDATE moved_contents SET keys = 0")


# SQLite's note of whether it has moved rows; the triggers of its schema write it.


class MovedRows(NamedTuple):
    """Counts of times that rows may have been moved since they were last written anew."""

    contents: int
    """Of contents and values."""
    keys: int


def moved_rows(db: Database) -> MovedRows:
    return MovedRows(*db.only("SELECT coalesce(max(times), 1), coalesce(max(keys), 1) FROM moved_contents"))


def forget_moved_rows(db: Database, moved: MovedRows) -> None:
    """Note that the file was written anew, unless more was moved meanwhile."""
    db.execute("UPDATE moved_contents SET times = 0 WHERE times = ?", (moved.contents,))
    db.execute("UPDATE moved_contents SET keys = 0 WHERE keys = ?", (moved.keys,))
