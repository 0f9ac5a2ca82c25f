"""Export of runs into one verifiable file, and import into another store, hash for hash.

An imported run is a record: it can be read, rendered, compared, replayed and forked, and is driven no more,
since its lease belongs to the store that it came from. See docs/decisions/0007-exports.md.

Writing a checked file to the log: one batch whose events keep their hashes and whose money is lent.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, Protocol

import msgspec

from artelier.atomic_file import replace_file
from artelier.errors import ArtelierError, Conflict, InvalidExport, SequenceConflict, StoreUnavailable
from artelier.ids import MAIN_SPACE
from artelier.kernel import events as ev
from artelier.kernel.export.archive import (
    NOTHING,
    SIZE_BYTES_MAX,
    ArchiveReader,
    ArchiveWriter,
    Belongings,
    BlobLine,
    Header,
    RunLine,
)
from artelier.kernel.export.validator import Inspected, inspect, open_export
from artelier.kernel.export.writer import Packer, by_position, streams_of
from artelier.kernel.run.services import Services
from artelier.ledger.queries import cap_in, scope_limits
from artelier.log import (
    Batch,
    Blob,
    DataKey,
    Draft,
    EventData,
    RawDraft,
    Store,
    Stream,
    StreamAppend,
    Tx,
    run_stream,
    tenant_stream,
)
from artelier.log.blobs import NO_CONTENT, ContentErased, name_blob
from artelier.log.queries import count_stored
from artelier.pii.vault import placeholders_in
from artelier.threads import run_in_content_thread

if TYPE_CHECKING:
    from artelier.pii.scrubber import Scrubber


Caps = dict[tuple[str, str], int | None]
"""Caps of counters, by (scope, unit)."""


async def caps_of(services: Services, tenant: str, found: Inspected) -> Caps:
    """Caps of this tenant on counters that the history changes."""
    caps: Caps = {}
    known = {
        (one.scope, one.unit): one
        for scope in {scope for scope, _ in found.loan.scopes}
        for one in await scope_limits(services.store, tenant, scope)
    }
    for key in found.loan.scopes:
        if key in known:
            caps[key] = known[key].cap
    return caps


def same_caps(tenant: str, found: Inspected, caps: Caps) -> Callable[[Tx], None]:
    """A guard: these caps stand, so that they can be put back after the history."""

    def check(tx: Tx) -> None:
        for scope, unit in found.loan.scopes:
            row = cap_in(tx, tenant, scope, unit)
            if (row is not None) != ((scope, unit) in caps) or (row and row.cap != caps[scope, unit]):
                raise Conflict(
                    f"the cap on {unit} of {scope} was changed meanwhile",
                    hint="Nothing was imported. Try again.",
                )

    return check


def both(first: Callable[[Tx], None], second: Callable[[Tx], None] | None) -> Callable[[Tx], None]:
    """A guard of two."""

    def check(tx: Tx) -> None:
        first(tx)
        if second is not None:
            second(tx)

    return check


def appends_of(
    services: Services,
    tenant: str,
    found: Inspected,
    ids: dict[int, DataKey],
    caps: Caps,
    by: str,
    *,
    more: Sequence[EventData] = (),
) -> list[StreamAppend]:
    """The events in the order in which they were recorded, framed by the loan that they need.

    `more` follows in the tenant's stream.
    """
    now = services.clock.now_us()
    own = tenant_stream(tenant)

    def framing(*data: EventData) -> StreamAppend:
        return StreamAppend(own, [Draft(item, now, by) for item in data])

    runs = tuple(
        ev.ImportedRun(run, None if key is None else ids[key].key_id)
        for run, key in sorted(found.runs.items())
    )
    first = ev.RunsImported(
        runs=runs,
        tenant=found.header.tenant,
        sha256=found.sha256,
        agent=found.header.agent,
        postings=found.loan.opening_postings(),
    )
    last = ev.ImportSettled(
        sha256=found.sha256, postings=found.loan.closing_postings(), counts=found.loan.closing_counts()
    )
    lifted = [ev.LimitSet(scope=scope, unit=unit) for scope, unit in caps]
    restored = [ev.LimitSet(scope=scope, unit=unit, cap=cap) for (scope, unit), cap in caps.items()]
    return [framing(first, *lifted), *_history(tenant, found), framing(last, *restored, *more)]


def _history(tenant: str, found: Inspected) -> list[StreamAppend]:
    """Neighbours of one stream go together. A stream's first events say that nothing was there before."""
    appends: list[StreamAppend] = []
    begun: set[str] = set()
    run: list[RawDraft] = []
    last: str | None = None
    for local, draft in found.drafts:
        if local != last:
            run = []
            expected = None if local in begun else 0
            appends.append(StreamAppend(found.home(tenant, local), run, expected))
            begun.add(local)
            last = local
        run.append(draft)
    return appends


def placeholders_of(contents: Iterable[Blob], scrubber: Scrubber) -> dict[str, bytes]:
    """Placeholders that a file's content has, each with the name of a content that has it.

    Errors: `InvalidExport` for content that holds personal data: its name is a hash of it, so that nothing
    can be replaced in there.
    """
    found: dict[str, bytes] = {}
    for blob in contents:
        if scrubber.holds(blob.content):
            raise InvalidExport(
                "the file holds personal data, and this store replaces it",
                hint="Nothing was imported. Export it from, or import it into, one with the same policy.",
            )
        if b"<" in blob.content:
            for one in placeholders_in(blob.content.decode(errors="replace")):
                found.setdefault(one, blob.name)
    return found


async def check_placeholders(
    services: Services, tenant: str, named: dict[str, bytes], scrubber: Scrubber
) -> None:
    """Whoever made a file may have seen placeholders of this tenant: by naming one nobody gains its value.

    Errors: `InvalidExport` for one that stands for a value here, in content that is not here already.
    """
    for one, name in named.items():
        if scrubber.vault.value_of(one) is None:
            continue
        if not await services.store.blobs(tenant, [name]):
            raise InvalidExport(
                "the file names a placeholder that stands for a value of this tenant",
                hint="Nothing was imported. Import it for another tenant: there it stands for nothing.",
                got=one,
            )


LONG_EVENT_BYTES = 16 * 1024
"""After such an event that goes out others have a turn: a thousand turns in one take 30 ms."""
UNPACKED = 8
"""So many times the size of its file does an export of texts have when it is unpacked."""
SLICE_CONTENTS = 500
SLICE_BYTES = 8 * 1024 * 1024
"""Of content that is stored with one commit: an import of many keeps nobody else waiting for long."""


class ImportContents:
    """The content of a checked file, read again blob by blob while it is stored: never all in memory."""

    def __init__(self, file: BinaryIO, tenant: str, ids: dict[int, DataKey], size_max_bytes: int) -> None:
        self._file = file
        self._tenant = tenant
        self._ids = ids
        self._size_max = size_max_bytes

    def slices(self) -> Iterator[list[Blob]]:
        """Yield the contents, some at a time."""
        some, size_bytes = list[Blob](), 0
        for blob in self:
            some.append(blob)
            size_bytes += len(blob.content)
            if len(some) == SLICE_CONTENTS or size_bytes > SLICE_BYTES:
                yield some
                some, size_bytes = [], 0
        yield some

    def __iter__(self) -> Iterator[Blob]:
        pieces: list[bytes] = []
        for line in ArchiveReader(self._file, size_max_bytes=self._size_max).lines():
            if not isinstance(line, BlobLine):
                continue
            pieces.append(line.content)
            if not line.more:
                content = b"".join(pieces)
                pieces = []
                key = DataKey(None, b"") if line.key is None else self._ids[line.key]
                if name_blob(key, content) != line.name:
                    raise InvalidExport("the file was changed while it was imported")
                secret = key.secret if key.is_sealing else b""
                yield Blob(self._tenant, line.name, key.key_id, content, secret)


async def _store_ahead(store: Store, slices: Iterator[list[Blob]]) -> tuple[list[Blob], list[bytes]]:
    """Store contents slice by slice, but for the last one; return that, and the names of the others.

    Nothing refers to them yet: if the import ends before its events are there, they are garbage.
    """
    names, last = list[bytes](), await asyncio.to_thread(next, slices)
    while (following := await asyncio.to_thread(next, slices, None)) is not None:
        await store.append(Batch(blobs=last))
        names += [blob.name for blob in last]
        last = following
    return last, names


def _still_stored(tenant: str, names: Sequence[bytes]) -> Callable[[Tx], None]:
    """A guard: nobody has collected what was stored ahead."""

    def check(tx: Tx) -> None:
        if count_stored(tx, tenant, names) != len(set(names)):
            raise Conflict(
                "content was collected or erased while it was imported",
                hint="Nothing was imported. Try again.",
            )

    return check


class Transferred(msgspec.Struct, frozen=True, kw_only=True):
    """The content of a file."""

    run_id: str
    runs: tuple[str, ...]
    """All runs in it: the one asked for, its children, the origins of its forks."""
    events: int
    blobs: int
    sha256: str
    """Of the file without its seal."""


class StorePart(NamedTuple):
    """The part of a file that comes from one store: streams, and the position up to which each counts."""

    services: Services
    streams: dict[Stream, int]


class WrittenExport(NamedTuple):
    """The content that was written to a file."""

    runs: tuple[str, ...]
    events: int
    blobs: int
    sha256: str


# Export


async def export_run(services: Services, tenant: str, run_id: str, path: str | Path) -> Transferred:
    """Write the file, whole or not at all. Errors: see `TenantKernel.export`."""
    position, root = await services.store.root()
    streams = await streams_of(services, tenant, [run_id], position=position)
    header = Header.of_store(position, root, tenant=tenant, code=services.code_version, run=run_id)
    done = await write_file(path, header, [StorePart(services, streams)])
    return Transferred(
        run_id=run_id, runs=done.runs, events=done.events, blobs=done.blobs, sha256=done.sha256
    )


async def write_file(
    path: str | Path, header: Header, parts: Sequence[StorePart], *, belongings: Belongings | None = None
) -> WrittenExport:
    """Write one file, whole or not at all: the events of the parts one after the other, then all content.

    The first part holds the runs. `belongings` checks the file as the import of an agent would.
    Errors: `CorruptStore`, `InvalidExport`, `StoreUnavailable`.
    """
    services, streams = parts[0]
    tenant = header.tenant
    hint = "Check the path, its rights and the disk."
    with (
        replace_file(Path(path), "the export cannot be written", hint=hint) as file,
        ArchiveWriter(file) as writer,
    ):
        packers = [Packer(services, tenant, writer, belongings=belongings)]
        for part in parts[1:]:
            packers.append(Packer(part.services, tenant, writer, belongings=belongings, beside=packers[0]))
        writer.write(header)
        runs = sorted(stream.id for stream in streams if stream.local.startswith("run:"))
        for packer in packers:
            await packer.look_for_parts()
        for run in runs:
            writer.write(RunLine(run=run, key=await packers[0].run_key(run)))
        for packer, part in zip(packers, parts, strict=True):
            async for event in by_position(part.services, part.streams):
                packer.event(event)
                if len(event.data) > LONG_EVENT_BYTES:
                    await asyncio.sleep(0)
        for packer in packers:
            await packer.contents()
        if belongings is not None:
            belongings.end()
        digest = writer.close()
    return WrittenExport(tuple(runs), writer.events, writer.blobs, digest)


# Import


class KeyStore(Protocol):
    """A store that keeps the keys of imported content."""

    async def add_key(self, tenant: str, secret: bytes, *, is_part: bool = False) -> DataKey: ...

    async def gone_key(self, tenant: str) -> int: ...


async def import_run(
    services: Services,
    keys: KeyStore,
    tenant: str,
    path: str | Path,
    *,
    size_max_bytes: int = SIZE_BYTES_MAX,
    by: str = "operator",
) -> Transferred:
    """Check the whole file, then append all of it as one batch. Errors: see `TenantKernel.import_`."""
    found = await import_file(services, keys, tenant, path, size_max_bytes=size_max_bytes, by=by)
    return Transferred(
        run_id=found.header.run,
        runs=tuple(sorted(found.runs)),
        events=len(found.drafts),
        blobs=found.blobs,
        sha256=found.sha256,
    )


async def import_file(
    services: Services,
    keys: KeyStore,
    tenant: str,
    path: str | Path,
    *,
    size_max_bytes: int = SIZE_BYTES_MAX,
    by: str = "operator",
    belongings: Callable[[Header], Belongings] | None = None,
    about: str = "agent",
    events_max: int | None = None,
) -> Inspected:
    """Check the whole file, store its content, then append all of its events as one batch.

    `belongings` is for files of agents, or of what `about` says: given the header, who checks what the file
    holds beside runs and says what else its import brings about. `events_max`: how many events it may have,
    which are one commit; one of more than 128 bytes counts for several. Errors: see `TenantKernel.import_`.
    """
    with open_export(path) as file:
        look = partial(inspect, file, size_max_bytes=size_max_bytes, belongings=belongings, about=about)
        found = await run_in_content_thread(os.fstat(file.fileno()).st_size * UNPACKED, look)
        events = sum(draft.rows for _, draft in found.drafts)
        if events_max is not None and events > events_max:
            raise InvalidExport(
                "the file has more events than are imported here",
                expected=f"at most {events_max:,}: they are one commit, for which others wait",
                got=f"{events:,}, of which a long one counts for several",
                hint="Import it in the terminal, in a quiet moment.",
            )
        more = NOTHING
        if found.belongings is not None:
            found.leave_out(await _given_way(services, tenant, found))
            more = await found.belongings.arrival(services, tenant, found.header, found.sha256)
            if found.belongings.may_meet_runs:
                found.leave_out(await _here(services, tenant, found))
        await _check_room(services, tenant, found)
        caps = await caps_of(services, tenant, found)
        ids = {
            number: await keys.add_key(tenant, secret, is_part=number in found.parts)
            for number, secret in found.keys.items()
        }
        gone, erasure = await _gone(keys, tenant, found)
        contents = ImportContents(file, tenant, ids, size_max_bytes)
        if services.personal is not None:
            scrubber = services.personal(tenant)
            named = await asyncio.to_thread(placeholders_of, contents, scrubber)
            await check_placeholders(services, tenant, named, scrubber)
        last, names = await _store_ahead(services.store, contents.slices())
        batch = Batch(
            guard=both(both(same_caps(tenant, found, caps), more.guard), _still_stored(tenant, names)),
            appends=appends_of(services, tenant, found, ids, caps, by, more=(*more.events, *erasure)),
            blobs=[*more.blobs, *gone, *last],
        )
        await _append(services, batch)
    return found


async def _gone(keys: KeyStore, tenant: str, found: Inspected) -> tuple[list[Blob], list[ContentErased]]:
    """Return what stands for content that was erased before, and the event that accounts for it."""
    if not found.gone or found.belongings is None:
        return [], []
    key_id = await keys.gone_key(tenant)
    emptied = [Blob(tenant, name, key_id, b"", packed=NO_CONTENT) for name in sorted(found.gone)]
    name = found.belongings.erased_parts
    data = ContentErased(
        keys=(key_id,), what=name, blobs=len(emptied), upto_key=key_id, stream=name.partition(":")[2]
    )
    return emptied, [data]


async def _append(services: Services, batch: Batch) -> None:
    try:
        await services.store.append(batch)
    except SequenceConflict as error:
        raise Conflict(
            f"{error.facts.get('stream')} was written by somebody else meanwhile",
            hint="Nothing was imported.",
        ) from None
    except ArtelierError as error:
        if type(error) in (Conflict, InvalidExport) or isinstance(error, StoreUnavailable):
            raise
        raise InvalidExport(
            f"the events of this export do not fit together: {error}", hint="Nothing was imported."
        ) from error


async def _here(services: Services, tenant: str, found: Inspected) -> set[str]:
    """Streams of the file that this tenant has already, event for event, and perhaps more of them."""
    here: set[str] = set()
    for local, (seq, hash_) in found.heads.items():
        stream = found.home(tenant, local)
        events = await services.store.read(stream, after=seq - 1, limit=1)
        if stream.space == MAIN_SPACE and events and events[0].hash == hash_:
            here.add(local)
    return here


async def _given_way(services: Services, tenant: str, found: Inspected) -> set[str]:
    """Streams of the file that the tenant has its own of, and keeps."""
    assert found.belongings is not None
    wanted = [local for local in found.heads if found.belongings.gives_way(local)]
    return {local for local in wanted if (await services.store.head(found.home(tenant, local)))[0]}


async def _check_room(services: Services, tenant: str, found: Inspected) -> None:
    """Errors: `Conflict` if something of that name is here already."""
    taken = [local for local in found.heads if (await services.store.head(found.home(tenant, local)))[0]]
    if taken:
        raise Conflict(
            f"{len(taken)} streams of this export exist already in tenant {tenant!r}",
            expected="none of them",
            got=", ".join(sorted(taken)[:5]),
            hint="Import it into another tenant or another database.",
        )
    for parent in sorted(found.parents):
        if (await services.store.head(run_stream(tenant, parent)))[0]:
            raise Conflict(
                f"a run of this export would become a child of run {parent!r} of this store",
                hint="Import it into another tenant or another database.",
            )
