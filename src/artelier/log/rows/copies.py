"""Rows of a store that is being copied: what is read of its source, and what is written to its target.

Both are read and written as they stand, with their numbers; `log/store_copy.py` says in what order. A
function that writes is called in a transaction.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from artelier.log.contract import Row
from artelier.log.database import Database
from artelier.log.views import UNFINISHED_COPY

OTHER_TABLES = ("streams", "keys", "vault", "rates", "tenant_positions")
"""Tables of the log beside events, commits and content. Leases are not copied: nobody drives a run there."""

_ANYTHING = " UNION ALL ".join(
    f"SELECT 1 FROM {table}" for table in ("streams", "events", "keys", "blobs", "vault")
)
_EVENT = "position, stream, seq, kind, version, data, at_us, actor, cause, hash"
_CONTENT = "rowid, tenant, name, key_id, codec, size, content"


def _insert(table: str, names: str) -> str:
    return f"INSERT INTO {table}({names}) VALUES ({', '.join('?' * (names.count(',') + 1))})"


# Of the target


def has_anything(db: Database) -> bool:
    """Return True if a store holds something of anybody."""
    return db.one(f"SELECT 1 FROM ({_ANYTHING}) a LIMIT 1") is not None


def find_attempt(db: Database) -> int | None:
    """Return how many attempts at this copy were begun; None if it is no unfinished copy."""
    row = db.one("SELECT version FROM view_versions WHERE name = ?", (UNFINISHED_COPY,))
    return row[0] if row else None


def begin_attempt(db: Database) -> int:
    """Mark a store as a copy that is not finished, and return the number of this attempt."""
    if find_attempt(db) is None:
        db.execute("INSERT INTO view_versions VALUES (?, 1)", (UNFINISHED_COPY,))
        return 1
    db.execute("UPDATE view_versions SET version = version + 1 WHERE name = ?", (UNFINISHED_COPY,))
    return find_attempt(db) or 0


def end_attempts(db: Database) -> None:
    """Mark a copy as finished."""
    db.execute("DELETE FROM view_versions WHERE name = ?", (UNFINISHED_COPY,))


def empty_tables(db: Database, tables: Iterable[str]) -> None:
    """Delete content and all rows of some tables; the log stays."""
    for table in (*tables, "blobs"):
        db.execute(f"DELETE FROM {table}")


def heads(db: Database) -> dict[int, tuple[int, bytes]]:
    """Return the newest seq and hash of each stream, by its number."""
    rows = db.execute(
        "SELECT e.stream, e.seq, e.hash FROM events e JOIN"
        " (SELECT stream, max(seq) AS newest FROM events GROUP BY stream) h"
        " ON h.stream = e.stream AND h.newest = e.seq"
    )
    return {stream: (seq, hash_) for stream, seq, hash_ in rows}


def add_event_rows(db: Database, rows: Sequence[Row]) -> None:
    """Add events as `scan_event_rows` yields them."""
    db.executemany(_insert("events", _EVENT), rows)


def add_content_rows(db: Database, rows: Sequence[Row]) -> None:
    """Add contents as `content_rows` returns them."""
    db.executemany(_insert("blobs", _CONTENT), rows)


def add_rows(db: Database, table: str, columns: Sequence[str], rows: Sequence[Row]) -> None:
    """Add rows of a table, their values in the order of the columns."""
    db.executemany(_insert(table, ", ".join(columns)), rows)


# Of the source


def count_rows(db: Database, table: str) -> int:
    """Return how many rows a table has."""
    return db.only(f"SELECT count(*) FROM {table}")[0]


def root_at(db: Database, position: int) -> bytes | None:
    """Return the root of the commit that ends at a position."""
    row = db.one("SELECT root FROM commits WHERE last_position = ?", (position,))
    return row[0] if row else None


def scan_commits_after(db: Database, position: int) -> Iterator[Row]:
    """Yield `(first, last, root)` of the commits behind a position, in order."""
    return db.scan(
        "SELECT first_position, last_position, root FROM commits WHERE last_position > ?"
        " ORDER BY first_position",
        (position,),
    )


def scan_event_rows(db: Database, *, after: int) -> Iterator[Row]:
    """Yield the rows of events behind a position, in order."""
    return db.scan(f"SELECT {_EVENT} FROM events WHERE position > ? ORDER BY position", (after,))


def scan_content_sizes(db: Database) -> Iterator[Row]:
    """Yield number and stored bytes of all contents, in the order of their numbers."""
    return db.scan("SELECT rowid, length(content) FROM blobs ORDER BY rowid")


def content_rows(db: Database, first: int, last: int) -> list[Row]:
    """Return the contents of a range of numbers, in their order."""
    return db.execute(
        f"SELECT {_CONTENT} FROM blobs WHERE rowid BETWEEN ? AND ? ORDER BY rowid", (first, last)
    ).fetchall()


def scan_rows(db: Database, table: str, columns: Sequence[str]) -> Iterator[Row]:
    """Yield all rows of a table, their values in the order of the columns.

    Keys come in their order: SQLite moves none that is added at the end (decision 0024).
    """
    order = " ORDER BY key_id" if table == "keys" else ""
    return db.scan(f"SELECT {', '.join(columns)} FROM {table}{order}")
