"""Export of a run into one verifiable file, and import into another store, hash for hash.

An imported run is a record: it can be read, rendered, compared, replayed and forked, and is driven no more,
since its lease belongs to the store that it came from. See docs/decisions/0007-exports.md.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Protocol, cast

import msgspec

from artelier.errors import (
    ArtelierError,
    Conflict,
    InvalidExport,
    SequenceConflict,
    StoreUnavailable,
)
from artelier.ids import MAIN_SPACE
from artelier.kernel.ancestry import key_of, lineage
from artelier.kernel.archive import (
    FORMAT,
    SIZE_BYTES_MAX,
    VERSION,
    ArchiveWriter,
    Header,
    RunLine,
)
from artelier.kernel.inspection import Inspected, inspect, opened
from artelier.kernel.packing import Packer, by_position
from artelier.kernel.selection import streams_of
from artelier.kernel.services import Services
from artelier.kernel.unpacking import Contents, appends_of, caps_of, same_caps
from artelier.log import Batch, Blob, DataKey, Stream, run_stream


class Transferred(msgspec.Struct, frozen=True, kw_only=True):
    """What a file holds."""

    run_id: str
    runs: tuple[str, ...]
    """All runs in it: the one asked for, its children, the origins of its forks."""
    events: int
    blobs: int
    sha256: str
    """Of the file without its seal."""


# Export


async def export_run(services: Services, tenant: str, run_id: str, path: str | Path) -> Transferred:
    """Write the file, whole or not at all. Errors: see `TenantKernel.export`."""
    position, root = await services.store.root()
    streams = await streams_of(services, tenant, run_id, position=position)
    with _replacing(Path(path)) as file:
        packer = Packer(services, tenant, ArchiveWriter(file))
        packer.writer.write(
            Header(
                format=FORMAT, version=VERSION, tenant=tenant, run=run_id,
                code=services.code_version, position=position, head=root.hex(),
            )
        )  # fmt: skip
        runs = sorted(stream.id for stream in streams if stream.local.startswith("run:"))
        for run in runs:
            key = await key_of(services, await lineage(services, tenant, run))
            packer.writer.write(RunLine(run=run, key=packer.key(key)))
        async for event in by_position(services, streams):
            packer.event(event)
        await packer.contents()
        digest = packer.writer.close()
    return Transferred(
        run_id=run_id, runs=tuple(runs), events=packer.writer.events, blobs=packer.writer.blobs,
        sha256=digest,
    )  # fmt: skip


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
        f"the export cannot be written: {why or error}", got=repr(str(path))[:200],
        hint="Check the path, its rights and the disk.",
    )  # fmt: skip


# Import


class Keys(Protocol):
    """A store that keeps the keys of imported content."""

    async def add_key(self, tenant: str, secret: bytes) -> DataKey: ...


async def import_run(
    services: Services,
    keys: Keys,
    tenant: str,
    path: str | Path,
    *,
    size_max_bytes: int = SIZE_BYTES_MAX,
    by: str = "operator",
) -> Transferred:
    """Check the whole file, then append all of it as one batch. Errors: see `TenantKernel.import_`."""
    with opened(path) as file:
        found = await asyncio.to_thread(inspect, file, size_max_bytes=size_max_bytes)
        await _check_room(services, tenant, found)
        caps = await caps_of(services, tenant, found)
        ids = {number: await keys.add_key(tenant, secret) for number, secret in found.keys.items()}
        batch = Batch(
            guard=same_caps(tenant, found, caps),
            appends=appends_of(services, tenant, found, ids, caps, by),
            blobs=cast(Sequence[Blob], Contents(file, tenant, found.keys, ids, size_max_bytes)),
        )
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
                f"the events of this export do not fit together: {error}",
                hint="Nothing was imported.",
            ) from error
    return Transferred(
        run_id=found.header.run, runs=tuple(sorted(found.runs)), events=len(found.drafts),
        blobs=found.blobs, sha256=found.sha256,
    )  # fmt: skip


async def _check_room(services: Services, tenant: str, found: Inspected) -> None:
    """Errors: `Conflict` if something of that name is here already."""
    taken = [
        local
        for local in found.heads
        if (await services.store.head(Stream(tenant, MAIN_SPACE, local)))[0]
    ]
    if taken:
        raise Conflict(
            f"{len(taken)} streams of this export exist already in tenant {tenant!r}",
            expected="none of them", got=", ".join(sorted(taken)[:5]),
            hint="Import it into another tenant or another database.",
        )  # fmt: skip
    for parent in sorted(found.parents):
        if (await services.store.head(run_stream(tenant, parent)))[0]:
            raise Conflict(
                f"a run of this export would become a child of run {parent!r} of this store",
                hint="Import it into another tenant or another database.",
            )
