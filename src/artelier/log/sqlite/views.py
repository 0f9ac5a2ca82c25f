"""Views: which there are, how they get their tables, and how they are rebuilt from the log.

A view's handler is called in the transaction of the event. Rebuilding calls the same handlers over the
whole log, so a live view and a rebuilt one are the same rows or one of them is wrong.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from artelier.errors import InvalidEvent, UnknownEvent
from artelier.log.contract import Applied, Row, Tx, View
from artelier.log.event import EventData, Stream, decode_data
from artelier.log.queries import PUBLISHED

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
        for statement in view.schema:
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
