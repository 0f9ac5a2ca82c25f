"""Erasing: what was stored under a subject's key, or a tenant's, goes with the key; the log stays whole.

A run with a `subject` names and seals everything that it stores under that subject's key; its events hold
the number of the key, never who it is. Here the key is dropped, and what the vault has on a value with it.
What can no longer be read is `Erased`; faces print `[erased]`, and `[locked]` without the vault key.
Read next: `log/erasure/content_removal.py`, also for what `verify` holds against the
events.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import astuple, dataclass, replace
from hashlib import sha256
from typing import TYPE_CHECKING, NamedTuple, cast

import msgspec

from artelier.artifacts.ref import ERASED as ERASED
from artelier.artifacts.ref import LOCKED as LOCKED
from artelier.errors import Conflict, LeaseHeld, MissingKey, NotFound, StoreLocked
from artelier.kernel.events import RunForked, RunStarted
from artelier.kernel.history.fork_lineage import KEYED
from artelier.kernel.run.services import Services
from artelier.log import (
    Applied,
    Batch,
    Collected,
    ContentErased,
    Draft,
    Erasing,
    SqliteStore,
    StreamAppend,
    Tx,
    View,
    Wiped,
    blob_ref,
    check_subject,
    decode_stored,
    tenant_stream,
)
from artelier.log.blobs import name_blob

if TYPE_CHECKING:
    from artelier.log import DataKey


erasure_view = View(
    name="erasure",
    version=1,
    tables=("keyed", "erasures"),
    schema=(
        "CREATE TABLE keyed(run INTEGER PRIMARY KEY, key_id INTEGER NOT NULL) STRICT",
        "CREATE INDEX keyed_by_key ON keyed(key_id)",
        "CREATE TABLE erasures(position INTEGER PRIMARY KEY, tenant TEXT NOT NULL, at_us INTEGER NOT NULL,"
        " actor TEXT NOT NULL, whole INTEGER NOT NULL, what TEXT NOT NULL, blobs INTEGER NOT NULL,"
        " vault_values INTEGER NOT NULL) STRICT",
        "CREATE INDEX erasures_by_tenant ON erasures(tenant, position)",
    ),
)


@erasure_view.on(RunStarted, RunForked)
def _apply_begun(applied: Applied, tx: Tx) -> None:
    key_id = cast("RunStarted | RunForked", applied.data).key_id
    if key_id is not None:
        tx.execute("INSERT INTO keyed VALUES (?, ?)", (applied.stream_id, key_id))


@erasure_view.on(ContentErased)
def _apply_erased(applied: Applied, tx: Tx) -> None:
    data = cast(ContentErased, applied.data)
    tx.execute(
        "INSERT INTO erasures VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (
            applied.position,
            applied.stream.tenant,
            applied.at_us,
            applied.actor,
            int(data.whole),
            data.what,
            data.blobs,
            data.values,
        ),
    )


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
    store: SqliteStore,
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
    if not await store.query("SELECT 1 FROM tenants WHERE tenant = ?", (tenant,)):
        raise NotFound(f"no tenant {tenant!r}", hint="`artelier tenants list` shows those there are.")
    if subject is None:
        from artelier.pii.output_redaction import redact_output

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
    services: Services, store: SqliteStore, tenant: str, subject: str | None, preview: Preview | None
) -> tuple[Erasing, Erasure, str]:
    """Return what to take away, how much that is, and the keyed hash of its name."""
    wanted, what, again = await _plan_erasing(services, store, tenant, subject)
    size = await store.measure(wanted)
    upto_key = wanted.upto_key or 0
    if preview is not None:
        again = again or await _erased_since(store, tenant, subject is None, what, preview)
    elif subject is None and size == Wiped():
        again = bool(await store.query(_ERASURES, (tenant, True, "")))
    runs = () if again else await _runs(store, tenant, wanted)
    found = Erasure(tenant=tenant, whole=wanted.whole, upto_key=upto_key, runs=runs, again=again)
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


_ERASURES = (
    "SELECT e.data FROM erasures g JOIN events e ON e.position = g.position"
    " WHERE g.tenant = ? AND g.whole = ? AND g.what = ?"
)


async def _erased_since(store: SqliteStore, tenant: str, whole: bool, what: str, preview: Preview) -> bool:
    """Return whether the same was erased after the preview, so that it is asked for twice."""
    rows = await store.query(_ERASURES, (tenant, whole, what))
    events = [decode_stored(data, type=ContentErased) for (data,) in rows]
    return any(one.upto_key is not None and one.upto_key >= preview.upto_key for one in events)


async def _take(
    services: Services, store: SqliteStore, wanted: Erasing, found: Erasure, *, what: str, by: str
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


async def collect(services: Services, store: SqliteStore, *, dry: bool = False) -> Collected:
    """Remove content that nothing refers to. Errors: `MissingKey` without the vault key of sealed content.

    Cost: every event and blob is read, and the file is written anew.
    """
    found = await store.collect(now_us=services.clock.now_us(), is_driving=services.is_driving, dry=dry)
    if dry:
        return found
    try:
        await store.shred()
    except StoreLocked:
        return replace(found, cleaned=False)
    return found


async def _plan_erasing(
    services: Services, store: SqliteStore, tenant: str, subject: str | None
) -> tuple[Erasing, str, bool]:
    """Return what to take away, the keyed hash of its name, and whether that was done before."""
    # The newest key ever made. Each erasure moves it, so no later one has the same.
    made = await store.query("SELECT seq FROM sqlite_sequence WHERE name = 'keys'")
    upto_key = made[0][0] if made else 0
    if subject is None:
        return Erasing(tenant=tenant, whole=True, upto_key=upto_key), "", False
    check_subject(subject)
    own, what = None, ""
    with suppress(MissingKey):  # a key is dropped without being opened
        own = await store.data_key(tenant)
        what = "h:" + blob_ref(name_blob(own, f"subject\0{subject}".encode()))[2:]
    names = await store.subject_names(tenant, subject)
    rows = await store.query(
        "SELECT key_id FROM keys WHERE tenant = ? AND (subject = ? OR subject = ?)",
        (tenant, names[0], names[-1]),
    )
    keys = tuple(key for (key,) in rows)
    values = await _values(services, store, tenant, subject, own)
    alive = [placeholder for placeholder, is_alive in values if is_alive]
    alive += await _received_alone(store, tenant, keys)
    if keys or alive:
        placeholders = tuple(dict.fromkeys(alive))
        erasing = Erasing(tenant=tenant, keys=keys, placeholders=placeholders, upto_key=upto_key)
        return erasing, what, False
    before = await store.query(
        "SELECT 1 FROM erasures WHERE tenant = ? AND what = ? AND what <> '' LIMIT 1", (tenant, what)
    )
    if before or values:
        return Erasing(tenant=tenant), what, True
    raise NotFound(
        f"nothing is stored of this subject in tenant {tenant!r}",
        expected="the subject of a run, or a value that the vault knows",
        got=repr(subject)[:80],
        hint="Values are found only with the ARTELIER_VAULT_KEY that they were stored with.",
    )


async def _values(
    services: Services, store: SqliteStore, tenant: str, text: str, own: DataKey | None
) -> list[tuple[str, bool]]:
    """Placeholders of a value in whatever spelling, and whether they still stand for it."""
    sealer = store.keyring.sealer
    if sealer is None or own is None:
        return []
    from artelier.pii.detectors import pattern
    from artelier.pii.detectors.search import find_all
    from artelier.pii.scrubber_registry import PATTERNS_SQL
    from artelier.pii.vault import Vault

    vault = Vault(tenant, own, sealer, store.look)
    patterns = await store.query(PATTERNS_SQL, (tenant,))
    detectors = (*services.policy.looked_for(), *(pattern(*one) for one in patterns))
    found: list[tuple[str, bool]] = []
    for one in find_all(detectors, text):
        for placeholder, is_alive in await store.query(
            "SELECT placeholder, sealed IS NOT NULL FROM vault WHERE digest = ? AND tenant = ?",
            (vault.digest_of(one.kind, one.normal), tenant),
        ):
            found.append((placeholder, bool(is_alive)))
    return found


async def _received_alone(store: SqliteStore, tenant: str, keys: Sequence[int]) -> list[str]:
    """Placeholders that only runs under these keys were ever shown."""
    if not keys:
        return []
    marks = ", ".join("?" * len(keys))
    mine = f"SELECT k.run {KEYED} AND k.key_id IN ({marks})"
    rows = await store.query(
        f"SELECT DISTINCT p.placeholder FROM received p JOIN runs r ON r.id = p.run"
        f" WHERE r.tenant = ? AND p.run IN ({mine}) AND NOT EXISTS (SELECT 1 FROM received o"
        f" JOIN runs q ON q.id = o.run WHERE o.placeholder = p.placeholder AND q.tenant = ?"
        f" AND o.run NOT IN ({mine}))",
        (tenant, tenant, *keys, tenant, tenant, *keys),
    )
    return [placeholder for (placeholder,) in rows]


async def _runs(store: SqliteStore, tenant: str, wanted: Erasing) -> tuple[str, ...]:
    marks = ", ".join("?" * len(wanted.keys))
    rows = await store.query(
        f"SELECT r.run {KEYED} AND k.key_id IN ({marks}) ORDER BY r.run LIMIT {RUNS_TOLD}",
        (tenant, *wanted.keys),
    )
    return tuple(run for (run,) in rows)


class _Undriven:
    """Refuses the batch while a run is driven that would lose its content under its feet."""

    def __init__(self, services: Services, wanted: Erasing) -> None:
        self._services = services
        self._wanted = wanted

    def __call__(self, tx: Tx) -> None:
        prefix = f"{self._wanted.tenant}/"
        leases = tx.execute(
            "SELECT stream, holder, expires_us, expires_uptime_us FROM leases WHERE substr(stream, 1, ?) = ?",
            (len(prefix), prefix),
        ).fetchall()
        for stream, holder, *end in leases:
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
        row = tx.one(f"SELECT k.key_id {KEYED} AND r.run = ?", (self._wanted.tenant, run))
        return row is not None and row[0] in self._wanted.keys
