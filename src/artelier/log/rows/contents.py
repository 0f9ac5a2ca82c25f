"""Rows of stored content, of the keys that it is under, and of the vault's values.

Keys are a tenant's own, its subjects', parts below them, and imported ones; each secret is as it is stored,
perhaps wrapped. A key that was dropped leaves an empty row, of nobody and with a secret of no bytes: where a
row is deleted, SQLite moves its neighbours (decision 0024). Content is opened by a `Keyring`
(`log/blobs.py`), never here. A function that writes is called in a transaction.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from artelier.log.blobs import ERASED, IMPORTED, SEALED, Erasing
from artelier.log.contract import Row
from artelier.log.database import Database

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
    " FROM blobs b LEFT JOIN keys k ON k.key_id = b.key_id AND length(k.secret) > 0"
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
        "SELECT b.key_id, k.secret FROM blobs b"
        " LEFT JOIN keys k ON k.key_id = b.key_id AND length(k.secret) > 0"
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


def _keys(wanted: Erasing) -> Condition:
    """Return the condition of the keys that an erasure reaches: all of a tenant, or some."""
    some, parameters = "", (wanted.tenant,)
    if not wanted.whole:
        some = " AND key_id IN (SELECT CAST(value AS BIGINT) FROM json_each(?))"
        parameters = (wanted.tenant, json.dumps(wanted.keys))
    if wanted.upto_key is None:
        return f"tenant = ?{some}", parameters
    return f"tenant = ?{some} AND key_id <= ?", (*parameters, wanted.upto_key)


def _whole(wanted: Erasing) -> Condition:
    """Return the condition of the rows under keys of a tenant that a whole erasure reaches."""
    if wanted.upto_key is None:
        return "tenant = ?", (wanted.tenant,)
    return "tenant = ? AND (key_id IS NULL OR key_id <= ?)", (wanted.tenant, wanted.upto_key)


def _contents(wanted: Erasing) -> Condition:
    if wanted.whole:
        condition, parameters = _whole(wanted)
    else:
        keys, parameters = _keys(wanted)
        condition = f"tenant = ? AND key_id IN (SELECT key_id FROM keys WHERE {keys})"
        parameters = (wanted.tenant, *parameters)
    return f"{condition} AND codec <> {ERASED}", parameters


def _values(wanted: Erasing) -> Condition:
    if wanted.whole:
        condition, parameters = _whole(wanted)
    else:
        condition = "tenant = ? AND placeholder IN (SELECT value FROM json_each(?))"
        parameters = (wanted.tenant, json.dumps(wanted.placeholders))
    return f"{condition} AND sealed IS NOT NULL", parameters


def measure(db: Database, wanted: Erasing) -> Row:
    """Return how many keys and contents an erasure reaches, the bytes of these, and how many values."""
    conditions = _keys(wanted), _values(wanted), _contents(wanted)
    (keys, _), (values, _), (reached, _) = conditions
    return db.only(
        f"SELECT (SELECT count(*) FROM keys WHERE {keys}), count(*), coalesce(sum(size), 0),"
        f" (SELECT count(*) FROM vault WHERE {values}) FROM blobs WHERE {reached}",
        [parameter for _, parameters in conditions for parameter in parameters],
    )


def empty_contents(db: Database, wanted: Erasing) -> None:
    """Take away the bytes of the contents that an erasure reaches, while their keys are there."""
    condition, parameters = _contents(wanted)
    db.execute(f"UPDATE blobs SET content = ?, codec = {ERASED} WHERE {condition}", (b"", *parameters))


def drop_keys(db: Database, wanted: Erasing) -> None:
    """Empty the rows of the keys that an erasure reaches; nobody reads what is under them any more."""
    condition, parameters = _keys(wanted)
    emptied = "tenant = '', subject = NULL, secret = ?, parent = NULL"
    db.execute(f"UPDATE keys SET {emptied} WHERE {condition}", (b"", *parameters))


def drop_values(db: Database, wanted: Erasing) -> None:
    """Take away the values of the vault that an erasure reaches; their placeholders stay."""
    condition, parameters = _values(wanted)
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


_MAKE = "INSERT INTO keys(tenant, subject, secret) VALUES (?, ?, ?) RETURNING key_id"
_MAKE_IMPORTED_PART = "INSERT INTO keys(tenant, subject, secret, parent) VALUES (?, ?, ?, 0) RETURNING key_id"
_MAKE_PART = (
    "INSERT INTO keys(tenant, subject, secret, parent) SELECT tenant, subject, ?, coalesce(parent, key_id)"
    " FROM keys WHERE key_id = ? AND tenant = ? RETURNING key_id"
)


def find_key(db: Database, tenant: str, names: Sequence[str]) -> tuple[int, bytes] | None:
    """Return row and secret of a subject's first key, by one or two names; without names, of the tenant's."""
    whose = "subject IS NOT NULL AND (subject = ? OR subject = ?)" if names else "subject IS NULL"
    sql = f"SELECT key_id, secret FROM keys WHERE tenant = ? AND {whose} ORDER BY key_id LIMIT 1"
    return db.one(sql, (tenant, names[0], names[-1]) if names else (tenant,))


def add_key(db: Database, tenant: str, subject: str | None, secret: bytes) -> int:
    """Add a key, and return its row."""
    return db.only(_MAKE, (tenant, subject, secret))[0]


def add_part_keys(db: Database, tenant: str, below: int, secrets: Iterable[bytes]) -> list[int]:
    """Add keys below another, and return their rows: none if that is gone."""
    rows = [db.one(_MAKE_PART, (secret, below, tenant)) for secret in secrets]
    return [row[0] for row in rows if row is not None]


def add_imported_key(db: Database, tenant: str, secret: bytes, *, is_part: bool) -> int:
    """Add a key that came with an export, unless the tenant has its secret, and return its row."""
    row = db.one("SELECT key_id FROM keys WHERE tenant = ? AND secret = ?", (tenant, secret))
    return (row or db.only(_MAKE_IMPORTED_PART if is_part else _MAKE, (tenant, IMPORTED, secret)))[0]


def find_secret(db: Database, key_id: int | None) -> bytes | None:
    """Return the secret of a key; None if it is gone."""
    row = db.one("SELECT secret FROM keys WHERE key_id = ?", (key_id,))
    return (row[0] if row is not None else None) or None


def replace_secrets(db: Database, secrets: Iterable[tuple[bytes, int | None]]) -> None:
    """Store `(secret, key_id)` in the place of what is there."""
    db.executemany("UPDATE keys SET secret = ? WHERE key_id = ?", secrets)


def scan_secrets(db: Database) -> Iterator[Row]:
    """Yield `(key_id, secret)` of all keys."""
    return db.scan("SELECT key_id, secret FROM keys WHERE length(secret) > 0")


def find_tenant_of_wrapped(db: Database, *, secret_bytes: int) -> str | None:
    """Return the tenant of a key that is longer than a plain one: it is wrapped."""
    row = db.one("SELECT tenant FROM keys WHERE length(secret) > ? LIMIT 1", (secret_bytes,))
    return None if row is None else row[0]


def find_newest_wrapped(db: Database, *, secret_bytes: int) -> bytes | None:
    """Return the newest secret that is longer than a plain one; None without any."""
    sql = "SELECT secret FROM keys WHERE length(secret) > ? ORDER BY key_id DESC LIMIT 1"
    row = db.one(sql, (secret_bytes,))
    return None if row is None else row[0]


def tenants_of_keys(db: Database) -> list[Row]:
    """Return `(key_id, tenant)` of all keys, in their order."""
    sql = "SELECT key_id, tenant FROM keys WHERE length(secret) > 0 ORDER BY key_id"
    return db.execute(sql).fetchall()


def named_subjects(db: Database) -> list[Row]:
    """Return `(tenant, key_id, subject, secret of the tenant's own key)` of all subjects' keys."""
    return db.execute(
        "SELECT k.tenant, k.key_id, k.subject, o.secret FROM keys k JOIN keys o ON o.key_id ="
        " (SELECT min(key_id) FROM keys WHERE tenant = k.tenant AND subject IS NULL)"
        " WHERE k.subject <> ?",
        (IMPORTED,),
    ).fetchall()


def rename_subjects(db: Database, names: Iterable[tuple[str, int]]) -> None:
    """Store `(subject, key_id)` in the place of what is there."""
    db.executemany("UPDATE keys SET subject = ? WHERE key_id = ?", names)


# The counter of keys: every erasure moves it and leaves no key of that number, so that fewer are there than
# were made. That is how another process learns of it.


def newest_key(db: Database) -> int:
    """Return the row of the newest key ever made, dropped or not; 0 without one."""
    row = db.one("SELECT made FROM key_counter")
    return row[0] if row else 0


def are_keys_gone(db: Database, *, after: int, upto: int) -> bool:
    """Return True if some of the keys made in between were dropped. Cost: the keys made since."""
    sql = "SELECT count(*) FROM keys WHERE key_id > ? AND key_id <= ? AND length(secret) > 0"
    return db.only(sql, (after, upto))[0] != upto - after


def move_counter(db: Database) -> int:
    """Add the row of a key that is gone; return its number, which no key ever gets."""
    return add_key(db, "", None, b"")
