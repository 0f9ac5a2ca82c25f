"""Taking content out of the file: rows lose it in one transaction, then no page and no log frame has it.

Events, names, sizes and hashes stay, so every chain verifies. `wipe` runs in the writer's transaction,
`shred` after it, on a connection of its own; a `shred` that was refused is done again by the next one.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from artelier.errors import InvalidRequest, StoreLocked
from artelier.log.blobs import ERASED
from artelier.log.keyring import is_subject_name

T = TypeVar("T")

IMPORTED = "import"
"""In `keys`, the subject of keys that came with exports; nobody else may be called so."""

SUBJECT_CHARS_MAX = 200

KEYS_A_STATEMENT = 500
"""Below SQLite's bound of parameters."""


def check_subject(subject: object) -> str:
    """A subject's id, such as `customer-17`. Errors: `InvalidRequest`."""
    if (
        not isinstance(subject, str)
        or not 0 < len(subject) <= SUBJECT_CHARS_MAX
        or not subject.isprintable()
        or subject.strip() != subject
        or subject == IMPORTED
        or is_subject_name(subject)
    ):
        raise InvalidRequest(
            "this is no subject",
            expected=f"1 to {SUBJECT_CHARS_MAX} characters in one line, other than {IMPORTED!r}",
            got=repr(subject)[:80],
        )
    return subject


@dataclass(frozen=True, slots=True, kw_only=True)
class Erasing:
    """What is to be taken away of one tenant. `whole` takes everything that it has stored."""

    tenant: str
    keys: tuple[int, ...] = ()
    """Rows of `keys`; all content under them goes with them."""
    placeholders: tuple[str, ...] = ()
    """Rows of the vault that lose what they stand for."""
    whole: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Wiped:
    """How much was taken away."""

    keys: int = 0
    blobs: int = 0
    size_bytes: int = 0
    """Of the content before compression."""
    values: int = 0
    """Placeholders that stand for nothing any more."""


def measure(db: sqlite3.Connection, wanted: Erasing) -> Wiped:
    """What `wipe` would take away."""
    keys = _keys(db, wanted)
    blobs = size_bytes = 0
    for condition, parameters in _contents(wanted, keys):
        count, size = db.execute(
            f"SELECT count(*), coalesce(sum(size), 0) FROM blobs WHERE {condition}", parameters
        ).fetchone()
        blobs, size_bytes = blobs + count, size_bytes + size
    values = 0
    for condition, parameters in _values(wanted):
        (count,) = db.execute(
            f"SELECT count(*) FROM vault WHERE {condition}", parameters
        ).fetchone()
        values += count
    return Wiped(keys=len(keys), blobs=blobs, size_bytes=size_bytes, values=values)


def wipe(db: sqlite3.Connection, wanted: Erasing) -> Wiped:
    """Take it away, in the transaction that is open. Cost: one scan of `blobs`, and what is overwritten."""
    db.execute("PRAGMA secure_delete = ON")
    done = measure(db, wanted)
    keys = _keys(db, wanted)
    for condition, parameters in _contents(wanted, keys):
        db.execute(
            f"UPDATE blobs SET content = zeroblob(0), codec = {ERASED} WHERE {condition}",
            parameters,
        )
    db.executemany("DELETE FROM keys WHERE key_id = ?", [(key,) for key in keys])
    for condition, parameters in _values(wanted):
        db.execute(f"UPDATE vault SET sealed = NULL WHERE {condition}", parameters)
    # The counter of keys moves: that is how other processes learn that what they remember may be gone.
    moved = db.execute(
        "INSERT INTO keys(tenant, subject, secret) VALUES (?, NULL, x'')", (wanted.tenant,)
    ).lastrowid
    db.execute("DELETE FROM keys WHERE key_id = ?", (moved,))
    return done


def _keys(db: sqlite3.Connection, wanted: Erasing) -> list[int]:
    rows = db.execute("SELECT key_id FROM keys WHERE tenant = ?", (wanted.tenant,)).fetchall()
    return [key for (key,) in rows if wanted.whole or key in wanted.keys]


Condition = tuple[str, tuple[object, ...]]


def _contents(wanted: Erasing, keys: list[int]) -> Iterable[Condition]:
    if wanted.whole:
        yield f"tenant = ? AND codec <> {ERASED}", (wanted.tenant,)
        return
    for some in _parts(keys):
        marks = ", ".join("?" * len(some))
        yield (
            f"tenant = ? AND key_id IN ({marks}) AND codec <> {ERASED}",
            (wanted.tenant, *some),
        )


def _values(wanted: Erasing) -> Iterable[Condition]:
    if wanted.whole:
        yield "tenant = ? AND sealed IS NOT NULL", (wanted.tenant,)
        return
    for some in _parts(wanted.placeholders):
        marks = ", ".join("?" * len(some))
        yield (
            f"tenant = ? AND placeholder IN ({marks}) AND sealed IS NOT NULL",
            (wanted.tenant, *some),
        )


def _parts(items: Sequence[T]) -> Iterable[list[T]]:
    for start in range(0, len(items), KEYS_A_STATEMENT):
        yield list(items[start : start + KEYS_A_STATEMENT])


def shred(db: sqlite3.Connection, path: Path, *, timeout_s: float) -> None:
    """Leave no byte of what was deleted in the file or beside it. Closes `db`.

    Errors: `StoreLocked` while another process reads an older state; what was taken away stays so.
    """
    try:
        db.execute(f"PRAGMA busy_timeout = {int(timeout_s * 1000)}")
        db.execute("PRAGMA secure_delete = ON")
        db.execute("VACUUM")
        (busy, _, _) = db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    finally:
        db.close()
    if busy:
        raise StoreLocked(
            "another process reads an older state of the database, and its log still holds the bytes",
            got=str(path),
            hint="What was erased can no longer be read. Call it again when that process is done, "
            "to take the bytes out of the file too.",
        )
