"""Erasure and garbage: rows lose content in one transaction, then the engine's `shred` leaves no byte of it.

Events, names, sizes and hashes stay, so every chain verifies. `wipe` runs in the writer's transaction.
"""

from __future__ import annotations

import base64
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import msgspec

from artelier.errors import Conflict, Erased, InvalidConfig, MissingKey
from artelier.log.blobs import (
    ERASED,
    IMPORTED,
    SEALED,
    SECRET_BYTES,
    ContentErased,
    Driving,
    Erasing,
    Keyring,
    Wiped,
    is_subject_name,
    subject_name,
)
from artelier.log.database import Database
from artelier.log.rate_windows import WINDOW_US

T = TypeVar("T")

KEYS_A_STATEMENT = 500
"""Below SQLite's bound of parameters."""


def measure(db: Database, wanted: Erasing) -> Wiped:
    """Return what `wipe` would take away."""
    keys = _keys(db, wanted)
    blobs = size_bytes = 0
    for condition, parameters in _contents(wanted, keys):
        count, size = db.only(
            f"SELECT count(*), coalesce(sum(size), 0) FROM blobs WHERE {condition}", parameters
        )
        blobs, size_bytes = blobs + count, size_bytes + size
    values = 0
    for condition, parameters in _values(wanted):
        (count,) = db.only(f"SELECT count(*) FROM vault WHERE {condition}", parameters)
        values += count
    return Wiped(keys=len(keys), blobs=blobs, size_bytes=size_bytes, values=values)


def wipe(db: Database, wanted: Erasing) -> Wiped:
    """Take it away, in the transaction that is open.

    Errors: `Conflict` if it is something else than `wanted.expected`; then nothing is taken away.
    Cost: one scan of `blobs`, and what is overwritten.
    """
    db.overwrite_deleted()
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
        db.execute(f"UPDATE blobs SET content = ?, codec = {ERASED} WHERE {condition}", (b"", *parameters))
    db.executemany("DELETE FROM keys WHERE key_id = ?", [(key,) for key in keys])
    for condition, parameters in _values(wanted):
        db.execute(f"UPDATE vault SET sealed = NULL WHERE {condition}", parameters)
    # A key is made and dropped: that is how other processes learn that what they remember may be gone.
    move_counter(db, wanted.tenant)
    return done


def move_counter(db: Database, tenant: str) -> int:
    """Make a key and drop it; its number, which no other ever gets."""
    (moved,) = db.only(
        "INSERT INTO keys(tenant, subject, secret) VALUES (?, NULL, ?) RETURNING key_id", (tenant, b"")
    )
    db.execute("DELETE FROM keys WHERE key_id = ?", (moved,))
    return moved


def _keys(db: Database, wanted: Erasing) -> list[int]:
    rows = db.execute("SELECT key_id FROM keys WHERE tenant = ?", (wanted.tenant,)).fetchall()
    bound = wanted.upto_key
    return [
        key for (key,) in rows if (wanted.whole or key in wanted.keys) and (bound is None or key <= bound)
    ]


Condition = tuple[str, tuple[object, ...]]


def _bound(wanted: Erasing) -> Condition:
    """Return what is asked of a row's key, if it has one and a bound is given."""
    if wanted.upto_key is None:
        return "", ()
    return " AND (key_id IS NULL OR key_id <= ?)", (wanted.upto_key,)


def _contents(wanted: Erasing, keys: list[int]) -> Iterable[Condition]:
    if wanted.whole:
        bound, upto = _bound(wanted)
        yield f"tenant = ? AND codec <> {ERASED}{bound}", (wanted.tenant, *upto)
        return
    for some in _parts(keys):
        marks = ", ".join("?" * len(some))
        yield (f"tenant = ? AND key_id IN ({marks}) AND codec <> {ERASED}", (wanted.tenant, *some))


def _values(wanted: Erasing) -> Iterable[Condition]:
    if wanted.whole:
        bound, upto = _bound(wanted)
        yield f"tenant = ? AND sealed IS NOT NULL{bound}", (wanted.tenant, *upto)
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


def reaches(db: Database) -> dict[str, ErasureReach]:
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


# --------------------------------------------------------------------------- proof
# The proof of an erasure: what is gone is what the erasure events say, no more and no less.
# A missing key, an emptied content and a value that the vault has lost are each looked up in the events
# `content.erased` of their tenant. The chains say whether those events are what was written. Older events
# of a whole tenant do not say up to which key they reached; what only they account for is counted as
# unchecked.


class GoneKeys:
    """The keys that content names and that are not there."""

    def __init__(self, db: Database, keys: Iterable[int]) -> None:
        """`keys` are those that are there."""
        made = db.one("SELECT made FROM key_counter")
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
        found: dict[str, int] = dict(self._db.execute(lost).fetchall())
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


# --------------------------------------------------------------------------- garbage
# Content that nothing refers to any more, and plain content of tenants whose key is wrapped now.
#
# What counts as a reference is the form of one, in an event or in content that is referred to, wherever it
# stands there: a text that only looks like a reference keeps content, and nothing that is needed is lost.

_REF = re.compile(rb"b:([A-Za-z0-9_-]{43})")

RESEALED_A_TIME = 200
"""Blobs in one transaction (guess: some ten milliseconds)."""

RATES_KEPT_US = 60 * WINDOW_US
"""Windows are a minute long; an hour leaves room for clocks that disagree."""


Named = tuple[str, bytes]
"""Tenant and name of a blob."""


def refs_in(content: bytes) -> Iterable[bytes]:
    """Names of whatever looks like a reference to a blob."""
    return (base64.urlsafe_b64decode(found + b"=") for found in _REF.findall(content))


def find_unreferenced(db: Database, keyring: Keyring) -> tuple[set[Named], int]:
    """Blobs that nothing refers to, and the position up to which that was looked at.

    `db` has one snapshot. Errors: `MissingKey` if content cannot be opened that may refer to other.
    Cost: every event and every blob is read once; the names of all are in memory.
    """
    _check_readable(db, keyring)
    (position,) = db.only("SELECT coalesce(max(position), 0) FROM events")
    garbage: set[Named] = {
        (tenant, bytes(name)) for tenant, name in db.execute("SELECT tenant, name FROM blobs")
    }
    _spare(db, keyring, garbage, _events_after(db, 0))
    return garbage, position


def remove(
    db: Database, keyring: Keyring, garbage: set[Named], *, after: int, is_driving: Driving
) -> tuple[int, int, tuple[str, ...]]:
    """Delete garbage in the transaction that is open: how many, their bytes, and the tenants left out.

    What an event after position `after` refers to again is spared. So is all of a tenant whose runs are
    driven: their processes do not store again what they know to be stored.
    """
    db.overwrite_deleted()
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


def size_of(db: Database, blobs: set[Named]) -> int:
    """Bytes that some blobs take in the file."""
    size = 0
    for tenant, name in blobs:
        row = db.one("SELECT length(content) FROM blobs WHERE name = ? AND tenant = ?", (name, tenant))
        size += row[0] if row else 0
    return size


def _events_after(db: Database, position: int) -> Iterable[tuple[str, bytes]]:
    rows = db.scan(
        "SELECT s.tenant, e.data FROM events e JOIN streams s ON s.id = e.stream"
        " WHERE e.position > ? AND instr(e.data, 'b:') > 0",
        (position,),
    )
    return ((tenant, data.encode()) for tenant, data in rows)


def _spare(db: Database, keyring: Keyring, garbage: set[Named], said: Iterable[tuple[str, bytes]]) -> None:
    """Take out of `garbage` what is referred to, and what that refers to."""
    waiting: list[Named] = []
    for tenant, data in said:
        _take(garbage, waiting, tenant, data)
    while waiting:
        tenant, name = waiting.pop()
        row = db.only(
            "SELECT b.key_id, k.secret, b.codec, b.content, b.size FROM blobs b"
            " LEFT JOIN keys k ON k.key_id = b.key_id WHERE b.name = ? AND b.tenant = ?",
            (name, tenant),
        )
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


def _check_readable(db: Database, keyring: Keyring) -> None:
    if keyring.is_sealing:
        return
    sealed = db.one("SELECT tenant FROM keys WHERE length(secret) > ? LIMIT 1", (SECRET_BYTES,))
    if sealed is not None:
        raise MissingKey(
            f"the content of tenant {sealed[0]!r} is encrypted: what it refers to cannot be seen",
            expected="ARTELIER_VAULT_KEY in the environment",
            hint="Nothing was removed.",
        )


def count_plain(db: Database, keyring: Keyring) -> int:
    """Contents that `reseal` would seal."""
    if not keyring.is_sealing:
        return 0
    return db.only(f"SELECT count(*) {_PLAIN}")[0]


_PLAIN = (
    f"FROM blobs b JOIN keys k ON k.key_id = b.key_id WHERE (b.codec & {SEALED}) = 0 AND b.codec <> {ERASED}"
)


def reseal(db: Database, keyring: Keyring) -> int:
    """Seal some plain content, and wrap its keys; how many. 0: there is none left."""
    if (sealer := keyring.sealer) is None:
        return 0
    db.overwrite_deleted()
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


def name_subjects(db: Database, keyring: Keyring) -> None:
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


def drop_rates(db: Database, *, now_us: int, dry: bool) -> int:
    """Rows of windows that are long over."""
    before = (now_us - RATES_KEPT_US,)
    if dry:
        return db.only("SELECT count(*) FROM rates WHERE at_us < ?", before)[0]
    return db.execute("DELETE FROM rates WHERE at_us < ?", before).rowcount


# --------------------------------------------------------------------------- vault key


def check_vault_key(db: Database, keyring: Keyring) -> None:
    """Raise `InvalidConfig` if another vault key wrapped some key."""
    if not keyring.is_sealing:
        return
    rows = db.execute("SELECT secret FROM keys").fetchall()
    if not all(keyring.can_open(stored) for (stored,) in rows):
        raise InvalidConfig(
            "the vault key is not the one that this database was written with",
            expected="the same ARTELIER_VAULT_KEY as before",
            hint="Nothing was changed. Without any vault key the database opens, and shows [locked].",
        )


def wrap_keys(db: Database, keyring: Keyring, key_ids: Iterable[int | None]) -> None:
    """Wrap keys from before there was a vault key, now that content is sealed under them.

    Whoever only reads with a vault key changes nothing.
    """
    for key_id in keyring.plain_of(key_ids):
        (stored,) = db.only("SELECT secret FROM keys WHERE key_id = ?", (key_id,))
        if len(stored) > SECRET_BYTES:  # only now is it known that the wrapping was committed
            keyring.forget_plain(key_id)
        else:
            db.execute("UPDATE keys SET secret = ? WHERE key_id = ?", (keyring.seal_key(stored), key_id))
