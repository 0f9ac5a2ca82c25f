"""Worlds in files: everything that a world is, and from the file into another store.

The file is an export of runs (`kernel/export/transfer.py`) that also holds the streams of the world up to its
last tick, and the runs in which its agents asked models, so that every prompt can be rendered again. Views
follow from the events, so nothing is converted. The runs are records; the world goes on. See
docs/decisions/0007-exports.md.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from artelier.ids import check_space
from artelier.kernel.export.archive import FORMAT, SIZE_BYTES_MAX, VERSION, Ancestry, Header
from artelier.kernel.export.scope import streams_of
from artelier.kernel.export.transfer import StorePart, import_file, write_file
from artelier.log import Stream
from artelier.world.events import world_space
from artelier.world.history.export_validator import SocietyCheck, check_free
from artelier.world.history.session_check import check_no_sessions
from artelier.world.history.streams import ancestors, reaches, run_reaches, tick_of
from artelier.world.kernel_adapter import Host


class CarriedWorld(msgspec.Struct, frozen=True, kw_only=True):
    """The content of a world's file."""

    world: str
    origin: str
    """What it was called where it was exported."""
    tick: int
    """The last one that it has passed."""
    runs: tuple[str, ...]
    """Records of what its agents asked models, those of its ancestors included."""
    events: int
    blobs: int
    sha256: str
    """Of the file without its seal."""


async def export_world(host: Host, world: str, path: str | Path) -> CarriedWorld:
    """Write the file, whole or not at all. See `World.export`."""
    services, store = host.services, host.services.store
    tick = await tick_of(host, world, None)
    await check_no_sessions(host, world, tick=tick, what="exported")
    position, root = await store.root()
    streams: dict[Stream, int] = {
        one.stream: one.position for one in await reaches(store, host.id, world, tick=tick)
    }
    for run, upto in (await run_reaches(host, world, position=position)).items():
        for stream, last in (await streams_of(services, host.id, [run], position=upto)).items():
            streams[stream] = max(last, streams.get(stream, 0))
    header = Header(
        format=FORMAT,
        version=VERSION,
        tenant=host.id,
        run="",
        world=world,
        ancestry=await _ancestry(host, world, tick),
        code=services.code_version,
        position=position,
        head=root.hex(),
    )
    done = await write_file(
        path, header, [StorePart(services, streams)], belongings=SocietyCheck(header, name=world)
    )
    return CarriedWorld(
        world=world,
        origin=world,
        tick=tick,
        runs=done.runs,
        events=done.events,
        blobs=done.blobs,
        sha256=done.sha256,
    )


async def _ancestry(host: Host, world: str, tick: int) -> Ancestry:
    store = host.services.store
    rows = await store.query(
        "SELECT parent, forked_at FROM worlds WHERE tenant = ? AND id = ?", (host.id, world)
    )
    parent, forked_at = rows[0]
    found = await ancestors(store, host.id, world)
    return Ancestry(
        tick=tick,
        parent=parent or "",
        forked_at=forked_at or 0,
        ancestors=tuple((one.world, one.tick) for one in found),
    )


async def import_world(
    host: Host,
    path: str | Path,
    *,
    id: str | None = None,
    size_max_bytes: int = SIZE_BYTES_MAX,
    by: str = "operator",
) -> CarriedWorld:
    """Check the whole file, then append all of it as one batch. See `World.import_`."""
    await host.state()
    if id is not None:
        check_space(world_space(id))
        await check_free(host.services, host.id, id)  # before a long file is read
    keys: Any = host.services.store  # the one in use keeps the keys of imported content
    found = await import_file(
        host.services,
        keys,
        host.id,
        path,
        size_max_bytes=size_max_bytes,
        by=by,
        about="world",
        belongings=lambda header: SocietyCheck(header, name=id or header.world),
    )
    ancestry = found.header.ancestry
    return CarriedWorld(
        world=id or found.header.world,
        origin=found.header.world,
        tick=ancestry.tick if ancestry is not None else 0,
        runs=tuple(sorted(found.runs)),
        events=len(found.drafts),
        blobs=found.blobs,
        sha256=found.sha256,
    )
