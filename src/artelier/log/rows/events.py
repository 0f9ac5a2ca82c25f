"""Rows of events, their streams, their commits, and the list of whose events stand where.

`log/views.py` folds the same rows into views. A function that writes is called in a transaction.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from artelier.log.contract import Row
from artelier.log.database import Database
from artelier.log.event import GENESIS, Event, Stream

_EVENT = (
    "SELECT s.tenant, s.space, s.name, e.seq, e.kind, e.version, e.data, e.at_us, e.actor, e.cause,"
    " e.hash, e.position,"
    " (SELECT p.hash FROM events p WHERE p.stream = e.stream AND p.seq = e.seq - 1)"
    " FROM events e JOIN streams s ON s.id = e.stream"
)

_LISTED_EVENT = (
    _EVENT.replace("FROM events e JOIN", "FROM tenant_positions t CROSS JOIN events e JOIN")
    + " WHERE t.tenant = ? AND t.first >= coalesce("
    "(SELECT max(first) FROM tenant_positions WHERE first <= ? + 1 AND tenant = ?), 0)"
    " AND e.position BETWEEN t.first AND t.last AND e.position > ? AND e.position <= ?"
    " ORDER BY t.first, e.position LIMIT ?"
)
"""By the stretches of positions that are a tenant's, from the one that holds the first on."""


def _read(db: Database, sql: str, parameters: Sequence[object]) -> list[Event]:
    return [
        Event(
            stream=Stream(tenant, space, name),
            seq=seq,
            kind=kind,
            version=version,
            data=data.encode(),
            at_us=at_us,
            actor=actor,
            cause=cause,
            prev_hash=prev or GENESIS,
            hash=hash_,
            position=position,
        )
        for tenant, space, name, seq, kind, version, data, at_us, actor, cause, hash_, position, prev in (
            db.execute(sql, parameters).fetchall()
        )
    ]


def read_stream(db: Database, stream: Stream, *, after: int, limit: int) -> list[Event]:
    """Return the events of a stream behind a sequence number."""
    where = "s.tenant = ? AND s.space = ? AND s.name = ? AND e.seq > ?"
    return _read(db, f"{_EVENT} WHERE {where} ORDER BY e.seq LIMIT ?", (*stream, after, limit))


def read_all(db: Database, *, after: int, limit: int) -> list[Event]:
    """Return the events of all tenants behind a position."""
    return _read(db, f"{_EVENT} WHERE e.position > ? ORDER BY e.position LIMIT ?", (after, limit))


def read_listed(db: Database, tenant: str, *, after: int, upto: int, limit: int) -> list[Event]:
    """Return a tenant's events between two positions, as far as it is listed whose they are."""
    return _read(db, _LISTED_EVENT, (tenant, after, tenant, after, upto, limit))


def read_unlisted(db: Database, tenant: str, *, after: int, upto: int, limit: int) -> list[Event]:
    """Return a tenant's events between two positions. Cost: a look at every event between them."""
    # By position. By tenant, SQLite would read and sort all its events.
    where = "e.position > ? AND e.position <= ? AND s.tenant || '' = ?"
    sql = f"{_EVENT} WHERE {where} ORDER BY e.position LIMIT ?"
    return _read(db, sql, (after, upto, tenant, limit))


def find_head(db: Database, stream: Stream) -> tuple[int, bytes]:
    """Return sequence number and hash of a stream's newest event; `(0, GENESIS)` without one."""
    row = db.one(
        "SELECT e.seq, e.hash FROM events e JOIN streams s ON s.id = e.stream"
        " WHERE s.tenant = ? AND s.space = ? AND s.name = ? ORDER BY e.seq DESC LIMIT 1",
        stream,
    )
    return (row[0], row[1]) if row else (0, GENESIS)


def find_head_of(db: Database, stream_id: int) -> tuple[int, bytes]:
    """Return what `find_head` returns, of a stream whose row is known."""
    row = db.one("SELECT seq, hash FROM events WHERE stream = ? ORDER BY seq DESC LIMIT 1", (stream_id,))
    return (row[0], row[1]) if row else (0, GENESIS)


def find_stream(db: Database, stream: Stream) -> int | None:
    """Return the row of a stream; None if it has no event yet."""
    row = db.one("SELECT id FROM streams WHERE tenant = ? AND space = ? AND name = ?", stream)
    return None if row is None else row[0]


def add_stream(db: Database, stream: Stream) -> int:
    """Add a stream, and return its row."""
    made = db.one("INSERT INTO streams(tenant, space, name) VALUES (?, ?, ?) RETURNING id", stream)
    return made[0] if made else 0


def add_events(db: Database, rows: Sequence[Sequence[Any]]) -> None:
    """Add events, their values in the order of the columns."""
    db.executemany("INSERT INTO events VALUES (?,?,?,?,?,?,?,?,?,?)", rows)


def newest_position(db: Database) -> int:
    """Return the position of the newest event; 0 without one."""
    return db.only("SELECT coalesce(max(position), 0) FROM events")[0]


def newest_commit(db: Database) -> tuple[int, bytes]:
    """Return last position and root of the newest commit; `(0, GENESIS)` without one."""
    row = db.one("SELECT last_position, root FROM commits ORDER BY first_position DESC LIMIT 1")
    return (row[0], row[1]) if row else (0, GENESIS)


def has_commit(db: Database, position: int, root: bytes) -> bool:
    """Return True if a commit that ends at this position has this root."""
    sql = "SELECT 1 FROM commits WHERE last_position = ? AND root = ?"
    return db.one(sql, (position, root)) is not None


def add_commit(db: Database, first: int, last: int, root: bytes) -> None:
    """Add the root of the events between two positions, both included."""
    db.execute("INSERT INTO commits VALUES (?, ?, ?)", (first, last, root))


# Reads of all rows: `scan` yields them one by one, and the transaction stays open meanwhile


def scan_streams(db: Database) -> Iterator[Row]:
    """Yield `(id, tenant, space, name)` of all streams."""
    return db.scan("SELECT id, tenant, space, name FROM streams")


def scan_events(db: Database) -> Iterator[Row]:
    """Yield `(stream, seq, kind, version, data, at_us, actor, cause, hash, position)` of all, by position."""
    return db.scan(
        "SELECT stream, seq, kind, version, data, at_us, actor, cause, hash, position"
        " FROM events ORDER BY position"
    )


def scan_hashes(db: Database) -> Iterator[Row]:
    """Yield `(position, hash, stream)` of all events, by position."""
    return db.scan("SELECT position, hash, stream FROM events ORDER BY position")


def scan_commits(db: Database) -> Iterator[Row]:
    """Yield `(first position, last position, root)` of all commits, in their order."""
    return db.scan("SELECT first_position, last_position, root FROM commits ORDER BY first_position")


def scan_positions(db: Database) -> Iterator[Row]:
    """Yield `(first, last)` of each listed stretch of one tenant's positions, in their order."""
    return db.scan("SELECT first, last FROM tenant_positions ORDER BY first")


def find_misplaced(db: Database) -> tuple[int, str] | None:
    """Return a position, and the tenant that it is listed for, where there is no event or another's."""
    row = db.execute(
        "SELECT t.first, t.tenant FROM tenant_positions t LEFT JOIN events f ON f.position = t.last"
        " WHERE f.position IS NULL UNION ALL SELECT e.position, t.tenant FROM tenant_positions t"
        " JOIN events e ON e.position BETWEEN t.first AND t.last"
        " JOIN streams s ON s.id = e.stream WHERE s.tenant <> t.tenant LIMIT 1"
    ).fetchone()
    return None if row is None else (row[0], row[1])


def scan_referring(db: Database) -> Iterator[Row]:
    """Yield `(tenant, space, name, seq, kind, data)` of events that name content."""
    return db.scan(
        "SELECT s.tenant, s.space, s.name, e.seq, e.kind, e.data FROM events e"
        " JOIN streams s ON s.id = e.stream WHERE instr(e.data, '\"b:') > 0"
    )


def scan_likely_referring(db: Database, *, after: int) -> Iterator[tuple[str, bytes]]:
    """Yield tenant and data of events behind a position that may name content."""
    rows = db.scan(
        "SELECT s.tenant, e.data FROM events e JOIN streams s ON s.id = e.stream"
        " WHERE e.position > ? AND instr(e.data, 'b:') > 0",
        (after,),
    )
    return ((tenant, data.encode()) for tenant, data in rows)


def events_of_tenants(db: Database, kind: str, version: int) -> list[Row]:
    """Return `(tenant, data)` of the events of a kind in the tenants' own streams, by position."""
    return db.execute(
        "SELECT s.tenant, e.data FROM events e JOIN streams s ON s.id = e.stream"
        " WHERE e.kind = ? AND e.version = ? AND s.name = 'tenant:' || s.tenant ORDER BY e.position",
        (kind, version),
    ).fetchall()
