"""Views: which there are, how they get their tables, and how they are rebuilt from the log.

A view's handler is called in the transaction of the event. Rebuilding calls the same handlers over the whole
log, so a live view and a rebuilt one are the same rows or one of them is wrong. The list of whose events
stand where is kept here too: it is no view, and can be made again at any time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from artelier.errors import InvalidEvent, StoreUnavailable, UnknownEvent
from artelier.log.contract import Applied, Tx, View
from artelier.log.database import Database
from artelier.log.event import EventData, Stream, decode_data
from artelier.log.queries import PUBLISHED

Dispatch = dict[type[EventData], tuple[Callable[[Applied, Tx], None], ...]]


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


FOLDED_AT_ONCE = 1_000
"""Events that are read in one piece: the connection that reads them may be the one that writes the views."""

_STORED = (
    "SELECT e.stream, e.seq, e.position, e.at_us, e.actor, e.kind, e.version, e.data,"
    " s.tenant, s.space, s.name FROM events e JOIN streams s ON s.id = e.stream"
    " WHERE e.position > ? ORDER BY e.position LIMIT ?"
)


def stored_events(db: Database) -> Iterator[tuple[Applied, str, int, bytes]]:
    """Every event by position as `(applied without data, kind, version, data)`."""
    streams: dict[int, Stream] = {}
    placeholder = EventData()
    after = -(1 << 63)
    while rows := db.execute(_STORED, (after, FOLDED_AT_ONCE)).fetchall():
        for id_, seq, position, at_us, actor, kind, version, data, tenant, space, name in rows:
            stream = streams.get(id_)
            if stream is None:
                stream = streams[id_] = Stream(tenant, space, name)
            applied = Applied(stream, id_, seq, position, at_us, actor, placeholder)
            yield applied, kind, version, data.encode()
            after = position


def create_tables(target: Tx, views: Iterable[View]) -> None:
    """Make the empty tables of `views`."""
    for view in views:
        for statement in (*view.schema, *view.indexes):
            target.execute(statement)


def publish(db: Database, views: Iterable[View]) -> None:
    """Let this connection read what the log and `views` publish; nothing is written."""
    db.publish([*PUBLISHED, *(statement for view in views for statement in view.published)])


def fold(source: Database, target: Tx, views: Sequence[View]) -> int:
    """Fold the log in `source` into the empty tables of `views` in `target`; the number of events.

    Errors: `UnknownEvent` if the log holds an event that this code does not know.
    """
    table, count = dispatch(views), 0
    for applied, kind, version, data in stored_events(source):
        count += 1
        applied.data = decode_data(kind, version, data)
        for handler in table.get(type(applied.data), ()):
            handler(applied, target)
    return count


UNFINISHED_COPY = "unfinished copy"
"""A row of `view_versions` with this name closes a store that `log/store_copy.py` has not finished. A process
that has it open already takes the name for a newer view, and writes nothing."""


def stored_versions(db: Database) -> dict[str, int]:
    """Return the version of each view that a store holds, by name."""
    return dict(db.execute("SELECT name, version FROM view_versions").fetchall())


def install(db: Database, views: Sequence[View]) -> dict[str, int]:
    """Create the tables of new views and rebuild those whose version rose, in one transaction.

    What they publish has been published to this connection: handlers read it.

    Returns the versions that the store holds then. Lower views are rebuilt with a raised one: a handler
    may read the rows of views before it.
    Errors: `UnknownEvent` if a rebuild meets an event of a newer Artelier; nothing was changed then.
    `StoreUnavailable` for a copy that is not finished.
    """
    check_views(views)
    have = _known_versions(db, views)
    if _are_installed(have, views):
        _add_indexes(db, views)
        return have
    db.begin()
    try:
        have = _known_versions(db, views)  # another process may have installed them meanwhile
        if not _are_installed(have, views):
            _rebuild(db, views)
        db.commit()
        return have | {view.name: view.version for view in views}
    except BaseException:
        db.rollback()
        raise


def _known_versions(db: Database, views: Sequence[View]) -> dict[str, int]:
    """Return the versions that a store holds. Errors: those of `install`."""
    have = stored_versions(db)
    if UNFINISHED_COPY in have:
        raise StoreUnavailable(
            "this is a copy of a store that was not finished",
            hint="Go on with it: `artelier store copy FROM TO --resume`.",
        )
    newer = [view.name for view in views if have.get(view.name, 0) > view.version]
    if newer:
        raise UnknownEvent(
            "views of this database were written by a newer Artelier; nothing was changed",
            got=", ".join(newer),
            hint="Upgrade Artelier, or open another database.",
        )
    return have


def _are_installed(have: dict[str, int], views: Sequence[View]) -> bool:
    return all(have.get(view.name) == view.version for view in views)


def _rebuild(db: Database, views: Sequence[View]) -> None:
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


def _add_indexes(db: Database, views: Sequence[View]) -> None:
    """Make the indexes that came after the tables of a store. Where it cannot be written, it works without.

    Cost: each is sorted once, about 1 s for 1,000,000 rows; a look at the names of all later.
    """
    missing = missing_indexes(db, views)
    if not missing:
        return
    try:
        db.begin()
        for statement in missing:
            db.execute(statement)
        db.commit()
    except BaseException as error:
        if db.in_transaction:
            db.rollback()
        if not db.is_read_only(error):
            raise


def missing_indexes(db: Database, views: Iterable[View]) -> list[str]:
    """Return the statements of `View.indexes` that a store has not executed yet."""
    there = db.indexes()
    return [one for view in views for one in view.indexes if index_name(one) not in there]


def index_name(statement: str) -> str:
    """Return the name in a `CREATE INDEX IF NOT EXISTS` statement."""
    return statement.split()[5]


# --------------------------------------------------------------------------- tenants' positions
# Whose events stand where: a page of one tenant is read without passing over those of others.

LIST_EVERY = 500
"""Events after which a commit lists whose they are: fewer would write two more pages more often, more would
have a page of a quiet tenant pass over more that is not listed."""

LISTED_AT_ONCE = 5_000
"""Events that one commit lists at most, while a store that was made without the list catches up: 5 ms."""


LISTED = "SELECT coalesce(max(last), 0) FROM tenant_positions"
"""The last position of which `tenant_positions` says whose it is; 0 without one."""

LISTING_SINCE = 5
"""The schema that has the list."""


def list_positions(db: Database, *, after: int, upto: int) -> int:
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
