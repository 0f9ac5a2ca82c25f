"""Garbage: content that nothing refers to any more, and plain content of tenants whose key is wrapped now.

What counts as a reference is the form of one, in an event or in content that is referred to, wherever it
stands there: a text that only looks like a reference keeps content, and nothing that is needed is lost.
"""

from __future__ import annotations

import base64
import re
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from artelier.errors import Erased, MissingKey
from artelier.log.blobs import ERASED, SEALED
from artelier.log.erasure.content_removal import IMPORTED
from artelier.log.keyring import SECRET_BYTES, Keyring, is_subject_name, subject_name
from artelier.log.rate_windows import WINDOW_US

Driving = Callable[[str, Sequence[Any]], bool]
"""Tells whether a lease holds, from its holder and its `expires_us` and `expires_uptime_us`."""

_REF = re.compile(rb"b:([A-Za-z0-9_-]{43})")

RESEALED_A_TIME = 200
"""Blobs in one transaction (guess: some ten milliseconds)."""

RATES_KEPT_US = 60 * WINDOW_US
"""Windows are a minute long; an hour leaves room for clocks that disagree."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Collected:
    """The garbage that was found and, except in a dry run, removed."""

    blobs: int = 0
    size_bytes: int = 0
    """As they were stored."""
    resealed: int = 0
    """Contents that were stored before there was a vault key, and are sealed now."""
    rates: int = 0
    """Rows of windows that are long over."""
    busy: tuple[str, ...] = ()
    """Tenants whose garbage stays this time: runs of theirs are driven."""
    cleaned: bool = True
    """Whether no byte of what was taken away is left in the file."""


Named = tuple[str, bytes]
"""Tenant and name of a blob."""


def refs_in(content: bytes) -> Iterable[bytes]:
    """Names of whatever looks like a reference to a blob."""
    return (base64.urlsafe_b64decode(found + b"=") for found in _REF.findall(content))


def find_unreferenced(db: sqlite3.Connection, keyring: Keyring) -> tuple[set[Named], int]:
    """Blobs that nothing refers to, and the position up to which that was looked at.

    `db` has one snapshot. Errors: `MissingKey` if content cannot be opened that may refer to other.
    Cost: every event and every blob is read once; the names of all are in memory.
    """
    _check_readable(db, keyring)
    (position,) = db.execute("SELECT coalesce(max(position), 0) FROM events").fetchone()
    garbage: set[Named] = {
        (tenant, bytes(name)) for tenant, name in db.execute("SELECT tenant, name FROM blobs")
    }
    _spare(db, keyring, garbage, _events_after(db, 0))
    return garbage, position


def remove(
    db: sqlite3.Connection, keyring: Keyring, garbage: set[Named], *, after: int, is_driving: Driving
) -> tuple[int, int, tuple[str, ...]]:
    """Delete garbage in the transaction that is open: how many, their bytes, and the tenants left out.

    What an event after position `after` refers to again is spared. So is all of a tenant whose runs are
    driven: their processes do not store again what they know to be stored.
    """
    db.execute("PRAGMA secure_delete = ON")
    busy = {
        stream.partition("/")[0]
        for stream, holder, *end in db.execute(
            "SELECT stream, holder, expires_us, expires_uptime_us FROM leases"
        )
        if is_driving(holder, end)
    }
    _spare(db, keyring, garbage, _events_after(db, after))
    left = tuple(sorted({tenant for tenant, _ in garbage} & busy))
    doomed = {one for one in garbage if one[0] not in busy}
    size = size_of(db, doomed)
    db.executemany("DELETE FROM blobs WHERE tenant = ? AND name = ?", doomed)
    return len(doomed), size, left


def size_of(db: sqlite3.Connection, blobs: set[Named]) -> int:
    """Bytes that some blobs take in the file."""
    size = 0
    for tenant, name in blobs:
        row = db.execute(
            "SELECT length(content) FROM blobs WHERE name = ? AND tenant = ?", (name, tenant)
        ).fetchone()
        size += row[0] if row else 0
    return size


def _events_after(db: sqlite3.Connection, position: int) -> Iterable[tuple[str, bytes]]:
    rows = db.execute(
        "SELECT s.tenant, e.data FROM events e JOIN streams s ON s.id = e.stream"
        " WHERE e.position > ? AND instr(e.data, 'b:')",
        (position,),
    )
    return ((tenant, data.encode()) for tenant, data in rows)


def _spare(
    db: sqlite3.Connection, keyring: Keyring, garbage: set[Named], said: Iterable[tuple[str, bytes]]
) -> None:
    """Take out of `garbage` what is referred to, and what that refers to."""
    waiting: list[Named] = []
    for tenant, data in said:
        _take(garbage, waiting, tenant, data)
    while waiting:
        tenant, name = waiting.pop()
        row = db.execute(
            "SELECT b.key_id, k.secret, b.codec, b.content, b.size FROM blobs b"
            " LEFT JOIN keys k ON k.key_id = b.key_id WHERE b.name = ? AND b.tenant = ?",
            (name, tenant),
        ).fetchone()
        try:
            content = keyring.unpack(name, *row)
        except Erased:
            continue  # what it referred to was erased with it, or is referred to elsewhere
        _take(garbage, waiting, tenant, content)


def _take(garbage: set[Named], waiting: list[Named], tenant: str, content: bytes) -> None:
    for name in refs_in(content):
        if (tenant, name) in garbage:
            garbage.discard((tenant, name))
            waiting.append((tenant, name))


def _check_readable(db: sqlite3.Connection, keyring: Keyring) -> None:
    if keyring.is_sealing:
        return
    sealed = db.execute(
        "SELECT tenant FROM keys WHERE length(secret) > ? LIMIT 1", (SECRET_BYTES,)
    ).fetchone()
    if sealed is not None:
        raise MissingKey(
            f"the content of tenant {sealed[0]!r} is encrypted: what it refers to cannot be seen",
            expected="ARTELIER_VAULT_KEY in the environment",
            hint="Nothing was removed.",
        )


def count_plain(db: sqlite3.Connection, keyring: Keyring) -> int:
    """Contents that `reseal` would seal."""
    if not keyring.is_sealing:
        return 0
    return db.execute(f"SELECT count(*) {_PLAIN}").fetchone()[0]


_PLAIN = (
    f"FROM blobs b JOIN keys k ON k.key_id = b.key_id WHERE b.codec & {SEALED} = 0 AND b.codec <> {ERASED}"
)


def reseal(db: sqlite3.Connection, keyring: Keyring) -> int:
    """Seal some plain content, and wrap its keys; how many. 0: there is none left."""
    if (sealer := keyring.sealer) is None:
        return 0
    db.execute("PRAGMA secure_delete = ON")
    rows = db.execute(
        f"SELECT b.tenant, b.name, b.codec, b.content, k.secret, k.key_id {_PLAIN} LIMIT ?",
        (RESEALED_A_TIME,),
    ).fetchall()
    plain = {row[-1]: row[-2] for row in rows if len(row[-2]) <= SECRET_BYTES}
    db.executemany(
        "UPDATE keys SET secret = ? WHERE key_id = ?",
        [(keyring.seal_key(secret), key_id) for key_id, secret in plain.items()],
    )
    db.executemany(
        "UPDATE blobs SET codec = ?, content = ? WHERE tenant = ? AND name = ?",
        [
            (codec | SEALED, sealer.seal(keyring.secret_of(tenant, secret), name, content), tenant, name)
            for tenant, name, codec, content, secret, _ in rows
        ],
    )
    return len(rows)


def name_subjects(db: sqlite3.Connection, keyring: Keyring) -> None:
    """Call subjects from before there was a vault key by their keyed hashes."""
    if not keyring.is_sealing:
        return
    rows = db.execute(
        "SELECT k.tenant, k.key_id, k.subject, o.secret FROM keys k JOIN keys o ON o.key_id ="
        " (SELECT min(key_id) FROM keys WHERE tenant = k.tenant AND subject IS NULL)"
        " WHERE k.subject <> ?",
        (IMPORTED,),
    ).fetchall()
    db.executemany(
        "UPDATE keys SET subject = ? WHERE key_id = ?",
        [
            (subject_name(keyring.secret_of(tenant, secret), subject), key_id)
            for tenant, key_id, subject, secret in rows
            if not is_subject_name(subject)
        ],
    )


def drop_rates(db: sqlite3.Connection, *, now_us: int, dry: bool) -> int:
    """Rows of windows that are long over."""
    before = (now_us - RATES_KEPT_US,)
    if dry:
        return db.execute("SELECT count(*) FROM rates WHERE at_us < ?", before).fetchone()[0]
    return db.execute("DELETE FROM rates WHERE at_us < ?", before).rowcount
