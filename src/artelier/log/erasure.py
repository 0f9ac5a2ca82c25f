"""Erasure and garbage: rows lose content in one transaction, then the engine's `shred` leaves no byte of it.

Events, names, sizes and hashes stay, so every chain verifies. `wipe` runs in the writer's transaction.
"""

from __future__ import annotations

import base64
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import msgspec

from artelier.errors import Conflict, Erased, InvalidConfig, LeaseHeld, MissingKey
from artelier.log.blobs import (
    SEALED,
    SECRET_BYTES,
    ContentErased,
    Driving,
    Erasing,
    Keyring,
    Sealer,
    Wiped,
    is_subject_name,
    subject_name,
)
from artelier.log.database import Database
from artelier.log.rate_windows import WINDOW_US
from artelier.log.rows import contents, coordination, events
from artelier.log.rows.contents import (
    Named,
    find_newest_wrapped,
    find_secret,
    find_tenant_of_wrapped,
    move_counter,
    named_subjects,
    newest_key,
    rename_subjects,
    replace_secrets,
    scan_secrets,
    tenants_of_keys,
)


def measure(db: Database, wanted: Erasing) -> Wiped:
    """Return what `wipe` would take away. Cost: the rows that it reaches; of a whole tenant, scans."""
    keys, blobs, size_bytes, values = contents.measure(db, wanted)
    return Wiped(keys=keys, blobs=blobs, size_bytes=int(size_bytes), values=values)


def wipe(db: Database, wanted: Erasing) -> Wiped:
    """Take it away, in the transaction that is open.

    Errors: `Conflict` if it is something else than `wanted.expected`; then nothing is taken away.
    Cost: that of `measure`, and what is overwritten.
    """
    done = measure(db, wanted)
    if wanted.expected is not None and done != wanted.expected:
        raise Conflict(
            "what is to be erased has changed since it was measured",
            hint="Ask again.",
            expected=wanted.expected,
            got=done,
        )
    contents.empty_contents(db, wanted)
    contents.drop_keys(db, wanted)
    contents.drop_values(db, wanted)
    # That is how other processes learn that what they remember may be gone.
    move_counter(db)
    return done


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
    for tenant, data in events.events_of_tenants(db, ContentErased.KIND, ContentErased.VERSION):
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
        self._db = db
        self._keys = frozenset(keys)
        self._newest = newest_key(db)
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
        for key_id, tenant in tenants_of_keys(self._db):
            if self._reach.get(tenant, ErasureReach()).names(key_id):
                yield f"key {key_id} of {tenant} was erased, says an event, and it is here"
        yield from self._values()

    def _values(self) -> Iterator[str]:
        found = contents.lost_values(self._db)
        for tenant in sorted(found.keys() | self._reach.keys()):
            said, count = self._reach.get(tenant, ErasureReach()).values, found.get(tenant, 0)
            if said is not None and said != count:
                yield (f"the vault of {tenant} has lost {count} values, and its erasures took {said}")

    def find_unchecked(self) -> Iterator[str]:
        """Yield what only events of an older version account for."""
        if self._unsure:
            count = sum(self._unsure.values())
            yield (
                f"{count} contents under {len(self._unsure)} missing keys: an erasure of a whole tenant"
                " by an older version does not say up to which key it reached"
            )
        for tenant in sorted(contents.lost_values(self._db)):
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


def refs_in(content: bytes) -> Iterable[bytes]:
    """Names of whatever looks like a reference to a blob."""
    return (base64.urlsafe_b64decode(found + b"=") for found in _REF.findall(content))


def find_unreferenced(db: Database, keyring: Keyring) -> tuple[set[Named], int]:
    """Blobs that nothing refers to, and the position up to which that was looked at.

    `db` has one snapshot. Errors: `MissingKey` if content cannot be opened that may refer to other.
    Cost: every event and every blob is read once; the names of all are in memory.
    """
    _check_readable(db, keyring)
    position = events.newest_position(db)
    garbage = contents.content_names(db)
    _spare(db, keyring, garbage, events.scan_likely_referring(db, after=0))
    return garbage, position


def remove(
    db: Database, keyring: Keyring, garbage: set[Named], *, after: int, is_driving: Driving
) -> tuple[int, int, tuple[str, ...]]:
    """Delete garbage in the transaction that is open: how many, their bytes, and the tenants left out.

    What an event after position `after` refers to again is spared. So is all of a tenant whose runs are
    driven: their processes do not store again what they know to be stored.
    """
    busy = {
        stream.partition("/")[0]
        for stream, holder, end in coordination.held_leases(db)
        if is_driving(holder, end)
    }
    _spare(db, keyring, garbage, events.scan_likely_referring(db, after=after))
    left = tuple(sorted({tenant for tenant, _ in garbage} & busy))
    doomed = {one for one in garbage if one[0] not in busy}
    size = contents.stored_size(db, doomed)
    contents.drop_contents(db, doomed)
    return len(doomed), size, left


def _spare(db: Database, keyring: Keyring, garbage: set[Named], said: Iterable[tuple[str, bytes]]) -> None:
    """Take out of `garbage` what is referred to, and what that refers to."""
    waiting: list[Named] = []
    for tenant, data in said:
        _take(garbage, waiting, tenant, data)
    while waiting:
        tenant, name = waiting.pop()
        stored = contents.find_content(db, tenant, name)
        assert stored is not None  # garbage has what was there
        try:
            content = keyring.unpack(*stored)
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
    if (sealed := find_tenant_of_wrapped(db, secret_bytes=SECRET_BYTES)) is not None:
        raise MissingKey(
            f"the content of tenant {sealed!r} is encrypted: what it refers to cannot be seen",
            expected="ARTELIER_VAULT_KEY in the environment",
            hint="Nothing was removed.",
        )


def count_plain(db: Database, keyring: Keyring) -> int:
    """Contents that `reseal` would seal."""
    return contents.count_plain(db) if keyring.is_sealing else 0


def reseal(db: Database, keyring: Keyring) -> int:
    """Seal some plain content, and wrap its keys; how many. 0: there is none left."""
    if (sealer := keyring.sealer) is None:
        return 0
    check_vault_key_stands(db, keyring)
    rows = contents.plain_contents(db, limit=RESEALED_A_TIME)
    plain = {row[-1]: row[-2] for row in rows if len(row[-2]) <= SECRET_BYTES}
    replace_secrets(db, [(keyring.seal_key(secret), key_id) for key_id, secret in plain.items()])
    contents.replace_contents(
        db,
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
    rename_subjects(
        db,
        [
            (subject_name(keyring.secret_of(tenant, secret), subject), key_id)
            for tenant, key_id, subject, secret in named_subjects(db)
            if not is_subject_name(subject)
        ],
    )


def drop_rates(db: Database, *, now_us: int, dry: bool) -> int:
    """Rows of windows that are long over."""
    take = coordination.count_rates if dry else coordination.drop_rates
    return take(db, before_us=now_us - RATES_KEPT_US)


# --------------------------------------------------------------------------- vault key


def check_vault_key(db: Database, keyring: Keyring) -> None:
    """Raise `InvalidConfig` if another vault key wrapped some key."""
    if not keyring.is_sealing:
        return
    if not all(keyring.can_open(stored) for _, stored in scan_secrets(db)):
        raise InvalidConfig(
            "the vault key is not the one that this database was written with",
            expected="the same ARTELIER_VAULT_KEY as before",
            hint="Nothing was changed. Without any vault key the database opens, and shows [locked].",
        )


def check_vault_key_stands(db: Database, keyring: Keyring) -> None:
    """Raise `MissingKey` if the vault key was changed since this process began. Before a key is stored."""
    if not keyring.is_sealing:
        return
    newest = find_newest_wrapped(db, secret_bytes=SECRET_BYTES)
    if newest is not None and not keyring.can_open(newest):
        raise MissingKey(
            "the vault key of this database was changed while it was open here",
            expected="the ARTELIER_VAULT_KEY that it was changed to",
            hint="Start this process again with it. Nothing was stored under the old one.",
        )


def rotate_keys(db: Database, keyring: Keyring, sealer: Sealer, *, is_driving: Driving) -> int:
    """Wrap every data key by another vault key, in the transaction that is open; return how many.

    Content and its names stay as they are: a data key is the same under each vault key.
    Errors: `InvalidConfig` if some key is not wrapped by the vault key of now; `LeaseHeld`. Cost: O(keys).
    """
    check_vault_key(db, keyring)
    for stream, holder, end in coordination.held_leases(db):
        if is_driving(holder, end):
            raise LeaseHeld(
                "runs are being driven by a process that knows the old vault key alone",
                got=f"{stream}, by {holder}"[:300],
                hint="Stop the workers and servers of this database first. Nothing was changed.",
                holder=holder,
            )
    wrapped = [(key_id, stored) for key_id, stored in scan_secrets(db) if len(stored) > SECRET_BYTES]
    replace_secrets(db, [(sealer.wrap(keyring.secret_of("", stored)), key_id) for key_id, stored in wrapped])
    return len(wrapped)


def wrap_keys(db: Database, keyring: Keyring, key_ids: Iterable[int | None]) -> None:
    """Wrap keys from before there was a vault key, now that content is sealed under them.

    Whoever only reads with a vault key changes nothing.
    """
    if not (plain := keyring.plain_of(key_ids)):
        return
    check_vault_key_stands(db, keyring)
    for key_id in plain:
        stored = find_secret(db, key_id)
        assert stored is not None  # content is being sealed under it
        if len(stored) > SECRET_BYTES:  # only now is it known that the wrapping was committed
            keyring.forget_plain(key_id)
        else:
            replace_secrets(db, [(keyring.seal_key(stored), key_id)])
