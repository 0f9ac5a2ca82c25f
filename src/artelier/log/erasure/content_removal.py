"""Taking content out of the file: rows lose it in one transaction, then no page and no log frame has it.

Events, names, sizes and hashes stay, so every chain verifies. `wipe` runs in the writer's transaction,
`shred` after it, on a connection of its own; a `shred` that was refused is done again by the next one.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import msgspec

from artelier.errors import Conflict, InvalidRequest, StoreLocked
from artelier.log.blobs import ERASED
from artelier.log.event import EventData, event
from artelier.log.keyring import is_subject_name

T = TypeVar("T")


@event("content.erased")
class ContentErased(EventData, frozen=True, kw_only=True, omit_defaults=True):
    """Keys were dropped, and all content under them; or the vault forgot what placeholders stand for."""

    keys: tuple[int, ...] = ()
    whole: bool = False
    """Everything that the tenant had stored, under keys up to `upto_key`."""
    what: str = ""
    """Keyed hash of the subject or value that was named: it tells who knows the name that it was done."""
    blobs: int = 0
    values: int = 0
    upto_key: int | None = None
    """The newest key that this may have reached. None: recorded by an older version, which did not say."""


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
    """The data of one tenant to remove. `whole` removes everything that it has stored."""

    tenant: str
    keys: tuple[int, ...] = ()
    """Rows of `keys`; all content under them goes with them."""
    placeholders: tuple[str, ...] = ()
    """Rows of the vault that lose what they stand for."""
    whole: bool = False
    upto_key: int | None = None
    """Only keys up to this one, and what is under them. None: all."""
    expected: Wiped | None = None
    """What the event says that goes; `wipe` takes that or nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wiped:
    """The amounts that were removed."""

    keys: int = 0
    blobs: int = 0
    size_bytes: int = 0
    """Of the content before compression."""
    values: int = 0
    """Placeholders that stand for nothing any more."""


def measure(db: sqlite3.Connection, wanted: Erasing) -> Wiped:
    """Return what `wipe` would take away."""
    keys = _keys(db, wanted)
    blobs = size_bytes = 0
    for condition, parameters in _contents(wanted, keys):
        count, size = db.execute(
            f"SELECT count(*), coalesce(sum(size), 0) FROM blobs WHERE {condition}", parameters
        ).fetchone()
        blobs, size_bytes = blobs + count, size_bytes + size
    values = 0
    for condition, parameters in _values(wanted):
        (count,) = db.execute(f"SELECT count(*) FROM vault WHERE {condition}", parameters).fetchone()
        values += count
    return Wiped(keys=len(keys), blobs=blobs, size_bytes=size_bytes, values=values)


def wipe(db: sqlite3.Connection, wanted: Erasing) -> Wiped:
    """Take it away, in the transaction that is open.

    Errors: `Conflict` if it is something else than `wanted.expected`; then nothing is taken away.
    Cost: one scan of `blobs`, and what is overwritten.
    """
    db.execute("PRAGMA secure_delete = ON")
    done = measure(db, wanted)
    if wanted.expected is not None and done != wanted.expected:
        raise Conflict(
            "what is to be erased has changed since it was measured",
            hint="Ask again.",
            expected=wanted.expected,
            got=done,
        )
    keys = _keys(db, wanted)
    for condition, parameters in _contents(wanted, keys):
        db.execute(f"UPDATE blobs SET content = zeroblob(0), codec = {ERASED} WHERE {condition}", parameters)
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
    bound = wanted.upto_key
    return [
        key for (key,) in rows if (wanted.whole or key in wanted.keys) and (bound is None or key <= bound)
    ]


Condition = tuple[str, tuple[object, ...]]

_BOUND = " AND coalesce(key_id <= ?, 1)"
"""Of a row that has no key, and where no bound is given, nothing is asked."""


def _contents(wanted: Erasing, keys: list[int]) -> Iterable[Condition]:
    if wanted.whole:
        yield f"tenant = ? AND codec <> {ERASED}{_BOUND}", (wanted.tenant, wanted.upto_key)
        return
    for some in _parts(keys):
        marks = ", ".join("?" * len(some))
        yield (f"tenant = ? AND key_id IN ({marks}) AND codec <> {ERASED}", (wanted.tenant, *some))


def _values(wanted: Erasing) -> Iterable[Condition]:
    if wanted.whole:
        yield f"tenant = ? AND sealed IS NOT NULL{_BOUND}", (wanted.tenant, wanted.upto_key)
        return
    for some in _parts(wanted.placeholders):
        marks = ", ".join("?" * len(some))
        yield (f"tenant = ? AND placeholder IN ({marks}) AND sealed IS NOT NULL", (wanted.tenant, *some))


def _parts(items: Sequence[T]) -> Iterable[list[T]]:
    for start in range(0, len(items), KEYS_A_STATEMENT):
        yield list(items[start : start + KEYS_A_STATEMENT])


@dataclass(frozen=True, slots=True, kw_only=True)
class ErasureReach:
    """The extent of the erasure events of one tenant."""

    keys: frozenset[int] = frozenset()
    upto_key: int = -1
    """All keys of the tenant up to here went with a whole erasure; -1 without one."""
    is_open: bool = False
    """A whole erasure is among them that does not say up to which key it reached."""
    values: int | None = 0
    """Values that the vault has lost; None where an older event may have counted wrong."""

    @property
    def is_whole(self) -> bool:
        return self.is_open or self.upto_key >= 0

    def names(self, key_id: int) -> bool:
        """Return True if an event says that this key was dropped."""
        return key_id in self.keys or key_id <= self.upto_key


def reaches(db: sqlite3.Connection) -> dict[str, ErasureReach]:
    """Return what the erasures of each tenant say that they took. Cost: one scan of the events."""
    found: dict[str, ErasureReach] = {}
    for tenant, data in db.execute(
        "SELECT s.tenant, e.data FROM events e JOIN streams s ON s.id = e.stream"
        " WHERE e.kind = ? AND e.version = ? AND s.name = 'tenant:' || s.tenant ORDER BY e.position",
        (ContentErased.KIND, ContentErased.VERSION),
    ):
        try:
            one = msgspec.json.decode(data, type=ContentErased)
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            continue  # changed data, which its chain names
        before, upto = found.get(tenant, ErasureReach()), one.upto_key
        exact = upto is not None and before.values is not None
        found[tenant] = ErasureReach(
            keys=before.keys.union(one.keys),
            upto_key=max(before.upto_key, upto if one.whole and upto is not None else -1),
            is_open=before.is_open or (one.whole and upto is None),
            values=(before.values or 0) + one.values if exact else None,
        )
    return found


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


# --------------------------------------------------------------------------- proof
# The proof of an erasure: what is gone is what the erasure events say, no more and no less.
# A missing key, an emptied content and a value that the vault has lost are each looked up in the events
# `content.erased` of their tenant. The chains say whether those events are what was written. Older events
# of a whole tenant do not say up to which key they reached; what only they account for is counted as
# unchecked.


class GoneKeys:
    """The keys that content names and that are not there."""

    def __init__(self, db: sqlite3.Connection, keys: Iterable[int]) -> None:
        """`keys` are those that are there."""
        made = db.execute("SELECT seq FROM sqlite_sequence WHERE name = 'keys'").fetchone()
        self._db = db
        self._keys = frozenset(keys)
        self._newest = made[0] if made else 0
        self._reach = reaches(db)
        self._unnamed: Counter[tuple[str, int]] = Counter()
        self._unsure: dict[tuple[str, int], int] = {}

    def content(self, tenant: str, key_id: int | None, where: str, *, is_empty: bool) -> Iterator[str]:
        """Yield what is wrong with one content whose key is gone, or that was emptied."""
        reach = self._reach.get(tenant, ErasureReach())
        if key_id is None:
            if not (is_empty and reach.is_whole):
                yield f"{where} is empty, and no erasure says so"
        elif key_id in self._keys:
            yield f"{where} is empty, and its key is here"
        elif not 0 < key_id <= self._newest:
            yield f"{where}: there never was a key {key_id}"
        elif reach.names(key_id):
            if not is_empty:
                yield f"{where} was erased, and its content is still in the file"
        elif reach.is_open:
            self._unsure[tenant, key_id] = self._unsure.get((tenant, key_id), 0) + 1
        else:
            self._unnamed[tenant, key_id] += 1

    def findings(self) -> Iterator[str]:
        """Yield what is wrong with keys and values, once all content was looked at."""
        for (tenant, key_id), count in sorted(self._unnamed.items()):
            yield (
                f"key {key_id} of {tenant} is missing, and no erasure names it: {count} contents under it"
                " cannot be read"
            )
        for key_id, tenant in self._db.execute("SELECT key_id, tenant FROM keys ORDER BY key_id"):
            if self._reach.get(tenant, ErasureReach()).names(key_id):
                yield f"key {key_id} of {tenant} was erased, says an event, and it is here"
        yield from self._values()

    def _values(self) -> Iterator[str]:
        lost = "SELECT tenant, count(*) FROM vault WHERE sealed IS NULL GROUP BY tenant"
        found: dict[str, int] = dict(self._db.execute(lost))
        for tenant in sorted(found.keys() | self._reach.keys()):
            said, count = self._reach.get(tenant, ErasureReach()).values, found.get(tenant, 0)
            if said is not None and said != count:
                yield (f"the vault of {tenant} has lost {count} values, and its erasures took {said}")

    def find_unchecked(self) -> Iterator[str]:
        """Yield what only events of an older version account for."""
        if self._unsure:
            contents = sum(self._unsure.values())
            yield (
                f"{contents} contents under {len(self._unsure)} missing keys: an erasure of a whole tenant"
                " by an older version does not say up to which key it reached"
            )
        lost = "SELECT DISTINCT tenant FROM vault WHERE sealed IS NULL ORDER BY tenant"
        for (tenant,) in self._db.execute(lost):
            if self._reach.get(tenant, ErasureReach()).values is None:
                yield f"values erased in {tenant}: an older version counted them before it took them"
