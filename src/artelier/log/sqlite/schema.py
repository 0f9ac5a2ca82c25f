"""The schema of a store: the log's own tables in numbered steps, and the tables of views.

A step, once released, never changes. A view's handler is called in the transaction of the event. Rebuilding
calls the same handlers over the whole log: a live view and a rebuilt one are the same rows, or one is wrong.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

from artelier.errors import CorruptStore, InvalidEvent, NewerSchema, StoreUnavailable, UnknownEvent
from artelier.log.contract import Applied, Row, Tx, View
from artelier.log.event import EventData, Stream, decode_data
from artelier.log.queries import PUBLISHED

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


MIGRATIONS: tuple[Callable[[sqlite3.Connection], None], ...] = (
    create_the_log,
    create_what_is_no_view,
    end_leases_by_uptime,
    count_stalled_holders,
    list_positions_by_tenant,
)

SCHEMA_VERSION = len(MIGRATIONS)

READABLE_SINCE = 4
"""The oldest schema that is read where it cannot be brought to today's: what came since only saves time."""


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
    if version > SCHEMA_VERSION:
        raise NewerSchema(
            "this database was written by a newer Artelier; nothing was changed",
            expected=f"schema {SCHEMA_VERSION} or older",
            got=f"schema {version}",
            hint="Upgrade Artelier, or open another database.",
        )
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


LIST_EVERY = 500
"""Events after which a commit lists whose they are: fewer would write two more pages more often, more would
have a page of a quiet tenant pass over more that is not listed."""

LISTED_AT_ONCE = 5_000
"""Events that one commit lists at most, while a store that was made without the list catches up: 5 ms."""


LISTED = "SELECT coalesce(max(last), 0) FROM tenant_positions"
"""The last position of which `tenant_positions` says whose it is; 0 without one."""

LISTING_SINCE = 5
"""The schema that has the list."""


def list_positions(db: sqlite3.Connection, *, after: int, upto: int) -> int:
    """List whose events stand behind a position: a row for each stretch of one tenant. Returns the last.

    Cost: a read of these events' streams; about 1 us an event.
    """
    upto = min(upto, after + LISTED_AT_ONCE)
    rows: list[tuple[str, int, int]] = []
    tenant, first = None, after + 1
    for position, owner in db.execute(
        "SELECT e.position, s.tenant FROM events e JOIN streams s ON s.id = e.stream"
        " WHERE e.position > ? AND e.position <= ? ORDER BY e.position",
        (after, upto),
    ):
        if owner != tenant:
            if tenant is not None:
                rows.append((tenant, first, position - 1))
            tenant, first = owner, position
    if tenant is not None:
        rows.append((tenant, first, upto))
    db.executemany("INSERT INTO tenant_positions VALUES (?, ?, ?)", rows)
    return upto


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


# --------------------------------------------------------------------------- views
# Views: which there are, how they get their tables, and how they are rebuilt from the log.
#
# A view's handler is called in the transaction of the event. Rebuilding calls the same handlers over the
# whole log, so a live view and a rebuilt one are the same rows or one of them is wrong.

Dispatch = dict[type[EventData], tuple[Callable[[Applied, Tx], None], ...]]


class SqliteTx:
    """The transaction as views see it, on SQLite."""

    __slots__ = ("db", "execute")

    def __init__(self, db: sqlite3.Connection) -> None:
        self.db = db
        self.execute = db.execute

    def one(self, sql: str, parameters: Sequence[Any] = (), /) -> Row | None:
        return self.execute(sql, parameters).fetchone()


def dispatch(views: Iterable[View]) -> Dispatch:
    """Return which handlers an event kind has, in the order of the views."""
    table: Dispatch = {}
    for view in views:
        for kind, handler in view.handlers.items():
            table[kind] = (*table.get(kind, ()), handler)
    return table


def check_views(views: Sequence[View]) -> None:
    """Errors: `InvalidEvent` if two views share a name or a table."""
    names = [view.name for view in views]
    tables = [table for view in views for table in view.tables]
    for values, what in ((names, "view"), (tables, "table of a view")):
        if len(values) != len(set(values)):
            raise InvalidEvent(f"{what} registered twice", got=", ".join(sorted(values)))


def stored_events(db: sqlite3.Connection) -> Iterator[tuple[Applied, str, int, bytes]]:
    """Every event by position as `(applied without data, kind, version, data)`."""
    streams: dict[int, Stream] = {}
    cursor = db.execute(
        "SELECT e.stream, e.seq, e.position, e.at_us, e.actor, e.kind, e.version, e.data,"
        " s.tenant, s.space, s.name FROM events e JOIN streams s ON s.id = e.stream"
        " ORDER BY e.position"
    )
    placeholder = EventData()
    for id_, seq, position, at_us, actor, kind, version, data, tenant, space, name in cursor:
        stream = streams.get(id_)
        if stream is None:
            stream = streams[id_] = Stream(tenant, space, name)
        applied = Applied(stream, id_, seq, position, at_us, actor, placeholder)
        yield applied, kind, version, data.encode()


def create_tables(target: sqlite3.Connection, views: Iterable[View]) -> None:
    """Make the empty tables of `views`."""
    for view in views:
        for statement in (*view.schema, *view.indexes):
            target.execute(statement)


def publish(db: sqlite3.Connection, views: Iterable[View]) -> None:
    """Let this connection read what the log and `views` publish; the file is not written."""
    for statement in (*PUBLISHED, *(statement for view in views for statement in view.published)):
        db.execute(statement)


def fold(source: sqlite3.Connection, target: sqlite3.Connection, views: Sequence[View]) -> int:
    """Fold the log in `source` into the empty tables of `views` in `target`; the number of events.

    Errors: `UnknownEvent` if the log holds an event that this code does not know.
    """
    table, tx, count = dispatch(views), SqliteTx(target), 0
    for applied, kind, version, data in stored_events(source):
        count += 1
        applied.data = decode_data(kind, version, data)
        for handler in table.get(type(applied.data), ()):
            handler(applied, tx)
    return count


def stored_versions(db: sqlite3.Connection) -> dict[str, int]:
    """Return the version of each view that a store holds, by name."""
    return dict(db.execute("SELECT name, version FROM view_versions").fetchall())


def install(db: sqlite3.Connection, views: Sequence[View]) -> dict[str, int]:
    """Create the tables of new views and rebuild those whose version rose, in one transaction.

    Returns the versions that the store holds then. Lower views are rebuilt with a raised one: a handler
    may read the rows of views before it.
    Errors: `UnknownEvent` if a rebuild meets an event of a newer Artelier; nothing was changed then.
    """
    check_views(views)
    have = stored_versions(db)
    if all(have.get(view.name) == view.version for view in views):
        _add_indexes(db, views)
        return have
    newer = [view.name for view in views if have.get(view.name, 0) > view.version]
    if newer:
        raise UnknownEvent(
            "views of this database were written by a newer Artelier; nothing was changed",
            got=", ".join(newer),
            hint="Upgrade Artelier, or open another database.",
        )
    db.execute("BEGIN IMMEDIATE")
    try:
        for view in views:
            for table in view.tables:
                db.execute(f"DROP TABLE IF EXISTS {table}")
        create_tables(db, views)
        fold(db, db, views)
        for view in views:
            db.execute(
                "INSERT INTO view_versions VALUES (?, ?)"
                " ON CONFLICT(name) DO UPDATE SET version = excluded.version",
                (view.name, view.version),
            )
        db.execute("COMMIT")
        return have | {view.name: view.version for view in views}
    except BaseException:
        db.execute("ROLLBACK")
        raise


def _add_indexes(db: sqlite3.Connection, views: Sequence[View]) -> None:
    """Make the indexes that came after the tables of a store. Where it cannot be written, it works without.

    Cost: each is sorted once, about 1 s for 1,000,000 rows; a look at the names of all later.
    """
    missing = missing_indexes(db, views)
    if not missing:
        return
    try:
        db.execute("BEGIN IMMEDIATE")
        for statement in missing:
            db.execute(statement)
        db.execute("COMMIT")
    except BaseException as error:
        if db.in_transaction:
            db.execute("ROLLBACK")
        if not is_read_only(error):
            raise


def is_read_only(error: BaseException) -> bool:
    """Return True if a file cannot be written here."""
    return isinstance(error, sqlite3.OperationalError) and (
        error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_READONLY
    )


def missing_indexes(db: sqlite3.Connection, views: Iterable[View]) -> list[str]:
    """Return the statements of `View.indexes` that a store has not executed yet."""
    there = {name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'index'")}
    return [one for view in views for one in view.indexes if index_name(one) not in there]


def index_name(statement: str) -> str:
    """Return the name in a `CREATE INDEX IF NOT EXISTS` statement."""
    return statement.split()[5]


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
