"""Export of runs into one verifiable file, and import into another store, hash for hash.

An imported run is a record: it can be read, rendered, compared, replayed and forked, and is driven no more,
since its lease belongs to the store that it came from. See docs/decisions/0007-exports.md.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, NamedTuple, Protocol, cast

import msgspec

from artelier.errors import ArtelierError, Conflict, InvalidExport, SequenceConflict, StoreUnavailable
from artelier.ids import MAIN_SPACE
from artelier.kernel.export.archive import (
    FORMAT,
    NOTHING,
    SIZE_BYTES_MAX,
    VERSION,
    ArchiveWriter,
    Belongings,
    Header,
    RunLine,
)
from artelier.kernel.export.import_reader import (
    ImportContents,
    appends_of,
    both,
    caps_of,
    check_placeholders,
    placeholders_of,
    same_caps,
)
from artelier.kernel.export.scope import streams_of
from artelier.kernel.export.validator import Inspected, inspect, open_export
from artelier.kernel.export.writer import Packer, by_position
from artelier.kernel.history.fork_lineage import key_of, lineage
from artelier.kernel.run.services import Services
from artelier.log import Batch, Blob, DataKey, Stream, run_stream


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
    header = Header(
        format=FORMAT,
        version=VERSION,
        tenant=tenant,
        run=run_id,
        code=services.code_version,
        position=position,
        head=root.hex(),
    )
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
    with _replacing(Path(path)) as file:
        writer = ArchiveWriter(file)
        packers = [Packer(services, tenant, writer, belongings=belongings)]
        for part in parts[1:]:
            packers.append(Packer(part.services, tenant, writer, belongings=belongings, beside=packers[0]))
        writer.write(header)
        runs = sorted(stream.id for stream in streams if stream.local.startswith("run:"))
        for run in runs:
            key = await key_of(services, await lineage(services, tenant, run))
            writer.write(RunLine(run=run, key=packers[0].key(key)))
        for packer, part in zip(packers, parts, strict=True):
            async for event in by_position(part.services, part.streams):
                packer.event(event)
        for packer in packers:
            await packer.contents()
        if belongings is not None:
            belongings.end()
        digest = writer.close()
    return WrittenExport(tuple(runs), writer.events, writer.blobs, digest)


@contextmanager
def _replacing(path: Path) -> Generator[BinaryIO]:
    """A file that takes its place when it is complete and on disk; only its owner may read it."""
    try:
        handle, scratch = tempfile.mkstemp(prefix=f".{path.name[:100]}.", dir=path.parent)
    except (OSError, ValueError) as error:
        raise _unwritable(error, path) from error
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(scratch, path)
    except OSError as error:
        raise _unwritable(error, path) from error
    finally:
        Path(scratch).unlink(missing_ok=True)


def _unwritable(error: OSError | ValueError, path: Path) -> StoreUnavailable:
    why = error.strerror if isinstance(error, OSError) else None
    return StoreUnavailable(
        f"the export cannot be written: {why or error}",
        got=repr(str(path))[:200],
        hint="Check the path, its rights and the disk.",
    )


# Import


class KeyStore(Protocol):
    """A store that keeps the keys of imported content."""

    async def add_key(self, tenant: str, secret: bytes) -> DataKey: ...


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
) -> Inspected:
    """Check the whole file, then append all of it as one batch.

    `belongings` is for files of agents, or of what `about` says: given the header, who checks what the file
    holds beside runs and says what else its import brings about. Errors: see `TenantKernel.import_`.
    """
    with open_export(path) as file:
        found = await asyncio.to_thread(
            inspect, file, size_max_bytes=size_max_bytes, belongings=belongings, about=about
        )
        more = NOTHING
        if found.belongings is not None:
            found.leave_out(await _given_way(services, tenant, found))
            more = await found.belongings.arrival(services, tenant, found.header, found.sha256)
            if found.belongings.may_meet_runs:
                found.leave_out(await _here(services, tenant, found))
        await _check_room(services, tenant, found)
        caps = await caps_of(services, tenant, found)
        ids = {number: await keys.add_key(tenant, secret) for number, secret in found.keys.items()}
        contents = ImportContents(file, tenant, found.keys, ids, size_max_bytes, more=more.blobs)
        if services.personal is not None:
            scrubber = services.personal(tenant)
            named = await asyncio.to_thread(placeholders_of, contents, scrubber)
            await check_placeholders(services, tenant, named, scrubber)
        batch = Batch(
            guard=both(same_caps(tenant, found, caps), more.guard),
            appends=appends_of(services, tenant, found, ids, caps, by, more=more.events),
            blobs=cast(Sequence[Blob], contents),
        )
        await _append(services, batch)
    return found


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
