"""Rows of stored content, and of the vault's values.

Content is opened by a `Keyring` (`log/blobs.py`), never here. A function that writes is called in a
transaction.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

from artelier.log.blobs import ERASED, IMPORTED, SEALED, Erasing
from artelier.log.contract import Row
from artelier.log.database import Database

T = TypeVar("T")

KEYS_A_STATEMENT = 500
"""Below SQLite's bound of parameters."""

Named = tuple[str, bytes]
"""Tenant and name of a blob."""


class StoredContent(NamedTuple):
    """Content as it is stored, with the key it is under; the arguments of `Keyring.unpack`."""

    name: bytes
    key_id: int | None
    secret: bytes | None
    """As it is stored; None if the content has no key, or lost it."""
    codec: int
    content: bytes
    size: int
    """Bytes before compression."""


_CONTENT = (
    "SELECT b.name, b.key_id, k.secret, b.codec, b.content, b.size"
    " FROM blobs b LEFT JOIN keys k ON k.key_id = b.key_id"
)

_KEEP = (
    "INSERT INTO blobs VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (name, tenant) DO UPDATE SET"
    " key_id = excluded.key_id, codec = excluded.codec, content = excluded.content"
    f" WHERE blobs.codec = {ERASED}"
)
"""A blob is stored once. One that was erased comes back only with its key, by an import."""


def find_content(db: Database, tenant: str, name: bytes) -> StoredContent | None:
    """Return a tenant's content by its name."""
    row = db.one(f"{_CONTENT} WHERE b.name = ? AND b.tenant = ?", (name, tenant))
    return None if row is None else StoredContent(*row)


def find_contents(db: Database, tenant: str, names: Sequence[bytes]) -> list[StoredContent]:
    """Return those of these contents that a tenant has."""
    marks = ",".join("?" * len(names))
    rows = db.execute(f"{_CONTENT} WHERE b.name IN ({marks}) AND b.tenant = ?", (*names, tenant)).fetchall()
    return [StoredContent(*row) for row in rows]


def add_contents(db: Database, rows: Iterable[Sequence[object]]) -> None:
    """Add contents, their values in the order of the columns; those that are there stay as they are."""
    db.executemany(_KEEP, rows)


def add_values(db: Database, rows: Iterable[Sequence[object]]) -> None:
    """Add values of the vault, in the order of the columns; those that are there stay as they are."""
    db.executemany("INSERT INTO vault VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING", rows)


# The key that a content is under: `(key_id, secret)`


def key_of_content(db: Database, tenant: str, name: bytes) -> tuple[int | None, bytes | None] | None:
    """Return the key that a content is under, without its secret if that is gone; None without content."""
    return db.one(
        "SELECT b.key_id, k.secret FROM blobs b LEFT JOIN keys k ON k.key_id = b.key_id"
        " WHERE b.name = ? AND b.tenant = ?",
        (name, tenant),
    )


def subject_key_of_content(db: Database, tenant: str, name: bytes) -> tuple[int, bytes] | None:
    """Return the key of the subject that a content is about."""
    return db.one(
        "SELECT k.key_id, k.secret FROM blobs b JOIN keys o ON o.key_id = b.key_id"
        " JOIN keys k ON k.key_id = coalesce(o.parent, o.key_id)"
        f" WHERE b.name = ? AND b.tenant = ? AND k.subject <> '{IMPORTED}'",
        (name, tenant),
    )


def part_key_of_content(db: Database, tenant: str, name: bytes) -> tuple[int, bytes] | None:
    """Return the key that a content is under, if that can be erased as a part."""
    return db.one(
        "SELECT b.key_id, k.secret FROM blobs b JOIN keys k ON k.key_id = b.key_id"
        " WHERE b.name = ? AND b.tenant = ? AND k.parent IS NOT NULL",
        (name, tenant),
    )


# Erasure

Condition = tuple[str, tuple[object, ...]]


def _in_reach(wanted: Erasing, column: str, some: Sequence[object], rest: str) -> Iterable[Condition]:
    """Yield the conditions of the rows that an erasure reaches: all of a tenant, or some by a column."""
    if wanted.whole:
        bound = "" if wanted.upto_key is None else " AND (key_id IS NULL OR key_id <= ?)"
        upto = () if wanted.upto_key is None else (wanted.upto_key,)
        yield f"tenant = ? AND {rest}{bound}", (wanted.tenant, *upto)
        return
    for start in range(0, len(some), KEYS_A_STATEMENT):
        part = some[start : start + KEYS_A_STATEMENT]
        yield f"tenant = ? AND {column} IN ({', '.join('?' * len(part))}) AND {rest}", (wanted.tenant, *part)


def _contents(wanted: Erasing, keys: Sequence[int]) -> Iterable[Condition]:
    return _in_reach(wanted, "key_id", keys, f"codec <> {ERASED}")


def _values(wanted: Erasing) -> Iterable[Condition]:
    return _in_reach(wanted, "placeholder", wanted.placeholders, "sealed IS NOT NULL")


def measure_contents(db: Database, wanted: Erasing, keys: Sequence[int]) -> tuple[int, int]:
    """Return how many contents an erasure reaches, and their bytes. Cost: one scan of `blobs`."""
    blobs = size_bytes = 0
    for condition, parameters in _contents(wanted, keys):
        sql = f"SELECT count(*), coalesce(sum(size), 0) FROM blobs WHERE {condition}"
        count, size = db.only(sql, parameters)
        blobs, size_bytes = blobs + count, size_bytes + size
    return blobs, size_bytes


def empty_contents(db: Database, wanted: Erasing, keys: Sequence[int]) -> None:
    """Take away the bytes of the contents that an erasure reaches."""
    for condition, parameters in _contents(wanted, keys):
        db.execute(f"UPDATE blobs SET content = ?, codec = {ERASED} WHERE {condition}", (b"", *parameters))


def count_values(db: Database, wanted: Erasing) -> int:
    """Return how many values of the vault an erasure reaches."""
    return sum(
        db.only(f"SELECT count(*) FROM vault WHERE {condition}", parameters)[0]
        for condition, parameters in _values(wanted)
    )


def drop_values(db: Database, wanted: Erasing) -> None:
    """Take away the values of the vault that an erasure reaches; their placeholders stay."""
    for condition, parameters in _values(wanted):
        db.execute(f"UPDATE vault SET sealed = NULL WHERE {condition}", parameters)


def lost_values(db: Database) -> dict[str, int]:
    """Return how many values the vault of each tenant has lost; no tenant that lost none."""
    lost = "SELECT tenant, count(*) FROM vault WHERE sealed IS NULL GROUP BY tenant"
    return dict(db.execute(lost).fetchall())


# Garbage, and verification


def scan_contents(db: Database) -> Iterator[Row]:
    """Yield `(tenant, name, key_id, codec, size, content)` of all contents."""
    return db.scan("SELECT tenant, name, key_id, codec, size, content FROM blobs")


def content_names(db: Database) -> set[Named]:
    """Return the names of all contents."""
    return {(tenant, bytes(name)) for tenant, name in db.execute("SELECT tenant, name FROM blobs")}


def stored_size(db: Database, blobs: Iterable[Named]) -> int:
    """Return the bytes that some contents take in the file."""
    size = 0
    for tenant, name in blobs:
        row = db.one("SELECT length(content) FROM blobs WHERE name = ? AND tenant = ?", (name, tenant))
        size += row[0] if row else 0
    return size


def drop_contents(db: Database, blobs: Iterable[Named]) -> None:
    """Delete some contents."""
    db.executemany("DELETE FROM blobs WHERE tenant = ? AND name = ?", blobs)


_PLAIN = (
    f"FROM blobs b JOIN keys k ON k.key_id = b.key_id WHERE (b.codec & {SEALED}) = 0 AND b.codec <> {ERASED}"
)


def count_plain(db: Database) -> int:
    """Return how many contents are not sealed."""
    return db.only(f"SELECT count(*) {_PLAIN}")[0]


def plain_contents(db: Database, *, limit: int) -> list[tuple[Any, ...]]:
    """Return `(tenant, name, codec, content, secret, key_id)` of some contents that are not sealed."""
    sql = f"SELECT b.tenant, b.name, b.codec, b.content, k.secret, k.key_id {_PLAIN} LIMIT ?"
    return db.execute(sql, (limit,)).fetchall()


def replace_contents(db: Database, rows: Iterable[tuple[int, bytes, str, bytes]]) -> None:
    """Store `(codec, content, tenant, name)` in the place of what is there."""
    db.executemany("UPDATE blobs SET codec = ?, content = ? WHERE tenant = ? AND name = ?", rows)
