"""Erasing: what was stored under a subject's key, or a tenant's, goes with the key; the log stays whole.

A run with a `subject` names and seals everything that it stores under that subject's key; its events hold
the number of the key, never who it is. Here the key is dropped, and what the vault has on a value with it.
What can no longer be read is `Erased`; faces print `[erased]`, and `[locked]` without the vault key.
Read next: `log/erasure.py`, also for what `verify` holds against the events.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import astuple, dataclass, replace
from hashlib import sha256
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from artelier.artifacts.ref import ERASED as ERASED
from artelier.artifacts.ref import LOCKED as LOCKED
from artelier.errors import Conflict, Erased, InvalidRequest, LeaseHeld, MissingKey, NotFound, StoreLocked
from artelier.kernel.queries.tenants import (
    erasures_of,
    find_tenant,
    is_keyed,
    patterns_of,
    received_alone,
    run_key,
    runs_keyed,
)
from artelier.kernel.run.context import RunCore
from artelier.kernel.run.services import Services
from artelier.log import (
    Batch,
    Collected,
    ContentErased,
    DataKey,
    Draft,
    Erasing,
    Store,
    StreamAppend,
    Tx,
    Wiped,
    blob_ref,
    check_subject,
    tenant_stream,
)
from artelier.log.blobs import SECRET_BYTES, name_blob
from artelier.log.queries import newest_key, placeholders_of, subject_keys, tenant_leases
from artelier.pii.vault import VARIABLE, Vault, VaultCipher

if TYPE_CHECKING:
    from artelier.kernel.run_limits import Opening


@dataclass(frozen=True, slots=True, kw_only=True)
class Erasure:
    """The result of an erasure, or of a dry run of one."""

    tenant: str
    whole: bool = False
    """Everything of the tenant, not one subject."""
    upto_key: int = 0
    """The newest key that it reaches."""
    keys: int = 0
    blobs: int = 0
    size_bytes: int = 0
    values: int = 0
    runs: tuple[str, ...] = ()
    """Runs of the subject; at most `RUNS_TOLD`. Empty for a whole tenant."""
    dry: bool = False
    again: bool = False
    """It had been erased before: only its traces in the file were looked after."""
    cleaned: bool = False
    """Whether no byte of it is left in the file."""
    digest: str = ""
    """Hash of all that would go. It changes when anything else would."""


RUNS_TOLD = 100

ATTEMPTS_MAX = 5
"""How often what is to be erased is measured anew because it has changed meanwhile (a guess)."""


async def erase(
    services: Services,
    store: Store,
    tenant: str,
    *,
    subject: str | None = None,
    by: str = "operator",
    dry: bool = False,
    preview: Preview | None = None,
) -> Erasure:
    """Erase what a tenant stored, or what was stored of a subject: its id, or a value the vault knows.

    With a `preview`, only what that has shown is erased. Idempotent, also for the same `preview`.

    Errors: `NotFound` if there is no such tenant, or nothing is known of the subject; `Conflict` if something
    else would be erased than `preview` has shown; `LeaseHeld` while a run of it is driven; `StoreLocked` if
    another process still reads an older state of the file: then all is erased, and another call takes the
    bytes out of the file.
    """
    if await find_tenant(store, tenant) is None:
        raise NotFound(f"no tenant {tenant!r}", hint="`artelier tenants list` shows those there are.")
    if subject is None:
        from artelier.pii.scrubber_registry import redact_output

        by = redact_output(by)  # a value in it would be stored, and erased, with the event
    attempt = 1
    while True:
        wanted, found, what = await _measure(services, store, tenant, subject, preview)
        if dry:
            return replace(found, dry=True)
        if found.again:
            break
        if preview is not None and preview.digest != found.digest:
            raise Conflict(
                "something else would be erased than was shown",
                got=found.digest,
                expected=preview.digest,
                hint="Nothing was erased. Look again at what would go.",
            )
        try:
            await _take(services, store, wanted, found, what=what, by=by)
            break
        except Conflict as error:
            if isinstance(error, LeaseHeld) or attempt == ATTEMPTS_MAX:
                raise
            attempt += 1
    await store.shred()
    return replace(found, cleaned=True)


class Preview(NamedTuple):
    """A preview that somebody was shown before an erasure."""

    digest: str
    upto_key: int


async def _measure(
    services: Services, store: Store, tenant: str, subject: str | None, preview: Preview | None
) -> tuple[Erasing, Erasure, str]:
    """Return what to take away, how much that is, and the keyed hash of its name."""
    wanted, what, again = await _plan_erasing(services, store, tenant, subject)
    size = await store.measure(wanted)
    upto_key = wanted.upto_key or 0
    if preview is not None:
        again = again or await _erased_since(store, tenant, subject is None, what, preview)
    elif subject is None and size == Wiped():
        again = bool(await erasures_of(store, tenant, whole=True, what=""))
    runs = [] if again else await runs_keyed(store, tenant, wanted.keys, limit=RUNS_TOLD)
    found = Erasure(tenant=tenant, whole=wanted.whole, upto_key=upto_key, runs=tuple(runs), again=again)
    if again:
        return wanted, found, what
    parts = (tenant, wanted.keys, wanted.placeholders, wanted.whole, astuple(size))
    return (
        replace(wanted, expected=size),
        replace(
            found,
            keys=size.keys,
            blobs=size.blobs,
            size_bytes=size.size_bytes,
            values=size.values,
            digest=sha256(msgspec.json.encode(parts)).hexdigest(),
        ),
        what,
    )


async def _erased_since(store: Store, tenant: str, whole: bool, what: str, preview: Preview) -> bool:
    """Return whether the same was erased after the preview, so that it is asked for twice."""
    events = [one.read(ContentErased) for one in await erasures_of(store, tenant, whole=whole, what=what)]
    return any(one.upto_key is not None and one.upto_key >= preview.upto_key for one in events)


async def _take(
    services: Services, store: Store, wanted: Erasing, found: Erasure, *, what: str, by: str
) -> None:
    """Record it and do it, in one transaction."""
    data = ContentErased(
        keys=wanted.keys,
        whole=wanted.whole,
        what=what,
        blobs=found.blobs,
        values=found.values,
        upto_key=found.upto_key,
    )
    append = StreamAppend(tenant_stream(found.tenant), [Draft(data, services.clock.now_us(), by)])
    await store.erase(wanted, record=Batch(appends=[append], guard=_Undriven(services, wanted)))


async def erase_parts(
    services: Services,
    store: Store,
    record: StreamAppend,
    keys: Sequence[int],
    *,
    by: str,
    guard: Callable[[Tx], None] | None = None,
) -> bool:
    """Append events that say that a part of their stream is deleted, and erase what is under its keys.

    Both are one transaction. Returns whether no byte of it is left in the file: not if another process reads
    an older state, or if the file must be written anew and is too large for that beside other work;
    `artelier gc` does that.
    Shapes: `keys` are rows of `part_keys`. Errors: those of `append`, and of `guard`, in the transaction.
    """
    tenant = record.stream.tenant
    for attempt in range(1, ATTEMPTS_MAX + 1):
        upto_key = await newest_key(store)
        wanted = Erasing(tenant=tenant, keys=tuple(sorted(keys)), upto_key=upto_key)
        size = await store.measure(wanted)
        data = ContentErased(
            keys=wanted.keys,
            what=f"part:{record.stream.local}",
            blobs=size.blobs,
            upto_key=upto_key,
            stream=record.stream.local,
        )
        said = StreamAppend(tenant_stream(tenant), [Draft(data, services.clock.now_us(), by)])
        try:
            batch = Batch(appends=[record, said], guard=guard)
            await store.erase(replace(wanted, expected=size), record=batch)
            break
        except Conflict as error:
            if not isinstance(error.expected, Wiped) or attempt == ATTEMPTS_MAX:
                raise
    try:
        return await store.shred(brief=True)
    except StoreLocked:
        return False


async def collect(services: Services, store: Store, *, dry: bool = False) -> Collected:
    """Remove content that nothing refers to. Errors: `MissingKey` without the vault key of sealed content.

    Cost: every event and blob is read, and the file is written anew.
    """
    found = await store.collect(now_us=services.clock.now_us(), is_driving=services.is_driving, dry=dry)
    if dry:
        return found
    try:
        await store.shred(compact=True)
    except StoreLocked:
        return replace(found, cleaned=False)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Rotated:
    """The outcome of a change of the vault key."""

    keys: int
    """Data keys that the new one wraps."""
    cleaned: bool = True
    """False while another process reads an older state: the file has bytes of the old wrapping left."""


async def rotate_keys(services: Services, store: Store, key: str) -> Rotated:
    """Wrap every data key by another vault key. Errors: see `Kernel.rotate_keys`."""
    old, new = store.keyring.sealer, VaultCipher.of(key, name="the new vault key")
    if old is None:
        raise MissingKey(
            "the vault key of now is not here, so there is nothing to change",
            expected=f"{VARIABLE} in the environment",
            hint="A database that has none takes its first one by being opened with it; then `artelier gc`.",
        )
    probe = bytes(SECRET_BYTES)
    if old.unwrap(new.wrap(probe)) == probe:
        raise InvalidRequest("the new vault key is the one of now", expected="another one")
    keys = await store.rotate_keys(new, is_driving=services.is_driving)
    try:
        await store.shred()
    except StoreLocked:
        return Rotated(keys=keys, cleaned=False)
    return Rotated(keys=keys)


async def _plan_erasing(
    services: Services, store: Store, tenant: str, subject: str | None
) -> tuple[Erasing, str, bool]:
    """Return what to take away, the keyed hash of its name, and whether that was done before."""
    # The newest key ever made. Each erasure moves it, so no later one has the same.
    upto_key = await newest_key(store)
    if subject is None:
        return Erasing(tenant=tenant, whole=True, upto_key=upto_key), "", False
    check_subject(subject)
    own, what = None, ""
    with suppress(MissingKey):  # a key is dropped without being opened
        own = await store.data_key(tenant)
        what = "h:" + blob_ref(name_blob(own, f"subject\0{subject}".encode()))[2:]
    keys = await subject_keys(store, tenant, subject)
    values = await _values(services, store, tenant, subject, own)
    alive = [placeholder for placeholder, is_alive in values if is_alive]
    alive += await received_alone(store, tenant, keys)
    if keys or alive:
        placeholders = tuple(dict.fromkeys(alive))
        erasing = Erasing(tenant=tenant, keys=keys, placeholders=placeholders, upto_key=upto_key)
        return erasing, what, False
    before = what and await erasures_of(store, tenant, whole=False, what=what)
    if before or values:
        return Erasing(tenant=tenant), what, True
    raise NotFound(
        f"nothing is stored of this subject in tenant {tenant!r}",
        expected="the subject of a run, or a value that the vault knows",
        got=repr(subject)[:80],
        hint="Values are found only with the ARTELIER_VAULT_KEY that they were stored with.",
    )


async def _values(
    services: Services, store: Store, tenant: str, text: str, own: DataKey | None
) -> list[tuple[str, bool]]:
    """Placeholders of a value in whatever spelling, and whether they still stand for it."""
    sealer = store.keyring.sealer
    if sealer is None or own is None:
        return []
    from artelier.pii.detectors import pattern
    from artelier.pii.detectors.search import find_all

    vault = Vault(tenant, own, sealer, store.look)
    detectors = (*services.policy.looked_for(), *(pattern(*one) for one in patterns_of(store, tenant)))
    found: list[tuple[str, bool]] = []
    for one in find_all(detectors, text):
        found += await placeholders_of(store, tenant, vault.digest_of(one.kind, one.normal))
    return found


class _Undriven:
    """Refuses the batch while a run is driven that would lose its content under its feet."""

    def __init__(self, services: Services, wanted: Erasing) -> None:
        self._services = services
        self._wanted = wanted

    def __call__(self, tx: Tx) -> None:
        for stream, holder, end in tenant_leases(tx, self._wanted.tenant):
            run = stream.rpartition("/run:")[2]
            if self._services.is_driving(holder, end) and self._concerns(tx, run):
                raise LeaseHeld(
                    f"run {run!r} is at work, and what it stores would be erased under it",
                    expected="a run that nobody drives",
                    got=holder,
                    hint=f"Nothing was erased. Cancel or pause it first: `artelier cancel {run}`.",
                    holder=holder,
                )

    def _concerns(self, tx: Tx, run: str) -> bool:
        if self._wanted.whole:
            return True
        return is_keyed(tx, self._wanted.tenant, run, self._wanted.keys)


async def take_keys(core: RunCore, opening: Opening) -> tuple[int | None, int | None]:
    """Have a new run store under the key of its subject, and its record under one that can be erased alone.

    Each is its parent's if that has one; they are returned as rows of `keys`. Errors: `Conflict` for another
    subject than that of its parent, or of what it goes on from; `Erased`.
    """
    key_id = await _take_key(core, opening.subject, opening.parent, opening.key_id)
    core.shared_key, part, parent = core.key, opening.part_key_id, opening.parent
    if parent is not None and parent.key.key_id != parent.shared_key.key_id:
        part = parent.key.key_id
    if part is not None:
        core.key = await _alive(core.store, core.tenant.id, part)
    return key_id, part


async def _take_key(core: RunCore, subject: str, parent: RunCore | None, key_id: int | None) -> int | None:
    """`key_id` is that of what it goes on from."""
    if parent is not None:
        above = await run_key(core.services.store, core.tenant.id, parent.run_id)
        if above is not None and key_id not in (None, above):
            raise _other(core.run_id)
        key_id = key_id if above is None else above
    if key_id is not None:
        core.key = await _alive(core.store, core.tenant.id, key_id)
    if subject:
        key = await core.store.data_key(core.tenant.id, check_subject(subject))
        if key_id not in (None, key.key_id):
            raise _other(core.run_id)
        core.key, key_id = key, key.key_id
    return key_id


async def check_same(core: RunCore, subject: str) -> None:
    """Errors: `Conflict` if a run is opened for another subject than it was made for."""
    if subject and core.key.key_id not in await subject_keys(
        core.store, core.tenant.id, check_subject(subject)
    ):
        raise _other(core.run_id)


async def check_about(store: Store, tenant: str, run_id: str, subject: str) -> None:
    """Errors: `Conflict` if a run that is there was made for another subject, or for none."""
    key_id = await run_key(store, tenant, run_id)
    if key_id is None or key_id not in await subject_keys(store, tenant, check_subject(subject)):
        raise _other(run_id)


async def writing_key(store: Store, tenant: str, run_id: str) -> DataKey | None:
    """Return what a run writes elsewhere is stored under this, too; None if it has no subject.

    Errors: `Erased` if its key is gone.
    """
    key_id = await run_key(store, tenant, run_id)
    return None if key_id is None else await _alive(store, tenant, key_id)


async def _alive(store: Store, tenant: str, key_id: int) -> DataKey:
    key = await store.key_by_id(tenant, key_id)
    if key is None:
        raise Erased(
            "what was stored of this subject was erased, and nothing goes on from it",
            hint="Begin anew: another run, or another chat.",
        )
    return key


def _other(run_id: str) -> Conflict:
    return Conflict(
        f"run {run_id!r} has another subject, or none",
        expected="the subject that it, or its parent, was made for",
        hint="Take another run id; what a run has stored stays under its key.",
    )
