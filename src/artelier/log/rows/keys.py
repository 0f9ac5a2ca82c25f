"""Rows of the keys that content is under: a tenant's own, its subjects', parts below them, imported ones.

Each secret is as it is stored, perhaps wrapped (`Keyring` in `log/blobs.py`). A function that writes is
called in a transaction.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from artelier.log.blobs import IMPORTED
from artelier.log.contract import Row
from artelier.log.database import Database

_MAKE = "INSERT INTO keys(tenant, subject, secret) VALUES (?, ?, ?) RETURNING key_id"
_MAKE_IMPORTED_PART = "INSERT INTO keys(tenant, subject, secret, parent) VALUES (?, ?, ?, 0) RETURNING key_id"
_MAKE_PART = (
    "INSERT INTO keys(tenant, subject, secret, parent) SELECT tenant, subject, ?, coalesce(parent, key_id)"
    " FROM keys WHERE key_id = ? AND tenant = ? RETURNING key_id"
)


def find_key(db: Database, tenant: str, names: Sequence[str]) -> tuple[int, bytes] | None:
    """Return row and secret of a subject's first key, by one or two names; without names, of the tenant's."""
    whose = "(subject = ? OR subject = ?)" if names else "subject IS NULL"
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
    return None if row is None else row[0]


def replace_secrets(db: Database, secrets: Iterable[tuple[bytes, int | None]]) -> None:
    """Store `(secret, key_id)` in the place of what is there."""
    db.executemany("UPDATE keys SET secret = ? WHERE key_id = ?", secrets)


def scan_secrets(db: Database) -> Iterator[Row]:
    """Yield `(key_id, secret)` of all keys."""
    return db.scan("SELECT key_id, secret FROM keys")


def find_tenant_of_wrapped(db: Database, *, secret_bytes: int) -> str | None:
    """Return the tenant of a key that is longer than a plain one: it is wrapped."""
    row = db.one("SELECT tenant FROM keys WHERE length(secret) > ? LIMIT 1", (secret_bytes,))
    return None if row is None else row[0]


def find_newest_wrapped(db: Database, *, secret_bytes: int) -> bytes | None:
    """Return the newest secret that is longer than a plain one; None without any."""
    sql = "SELECT secret FROM keys WHERE length(secret) > ? ORDER BY key_id DESC LIMIT 1"
    row = db.one(sql, (secret_bytes,))
    return None if row is None else row[0]


def keys_of_tenant(db: Database, tenant: str) -> list[int]:
    """Return the rows of a tenant's keys."""
    rows = db.execute("SELECT key_id FROM keys WHERE tenant = ?", (tenant,)).fetchall()
    return [key for (key,) in rows]


def tenants_of_keys(db: Database) -> list[Row]:
    """Return `(key_id, tenant)` of all keys, in their order."""
    return db.execute("SELECT key_id, tenant FROM keys ORDER BY key_id").fetchall()


def drop_keys(db: Database, keys: Iterable[int]) -> None:
    """Delete keys; nobody reads what is under them any more."""
    db.executemany("DELETE FROM keys WHERE key_id = ?", [(key,) for key in keys])


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


# The counter of keys: every erasure makes a key and drops it, so that fewer are left than were made. That is
# how another process learns of it.


def newest_key(db: Database) -> int:
    """Return the row of the newest key ever made, dropped or not; 0 without one."""
    row = db.one("SELECT made FROM key_counter")
    return row[0] if row else 0


def are_keys_gone(db: Database, *, after: int, upto: int) -> bool:
    """Return True if some of the keys made in between were dropped. Cost: the keys made since."""
    left = db.only("SELECT count(*) FROM keys WHERE key_id > ? AND key_id <= ?", (after, upto))[0]
    return left != upto - after


def count_gone(db: Database, *, made: int) -> int:
    """Return how many of the keys that were made are gone."""
    return made - db.only("SELECT count(*) FROM keys")[0]


def move_counter(db: Database, tenant: str) -> int:
    """Make a key and drop it; its number, which no other ever gets."""
    moved = add_key(db, tenant, None, b"")
    db.execute("DELETE FROM keys WHERE key_id = ?", (moved,))
    return moved
