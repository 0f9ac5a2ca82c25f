"""Worlds in files: everything that a world is, and from the file into another store.

The file is an export of runs (`kernel/export/transfer.py`) that also holds the streams of the world up to its
last tick, and the runs in which its agents asked models, so that every prompt can be rendered again. Views
follow from the events, so nothing is converted. The runs are records; the world goes on. See
docs/decisions/0007-exports.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, get_args, get_type_hints

import msgspec

from artelier.artifacts import MOVING as ARTIFACT_EVENTS
from artelier.artifacts import ArtifactCharged
from artelier.errors import Conflict, InvalidExport, InvalidRequest
from artelier.ids import check_artifact_id, check_space
from artelier.kernel import Services
from artelier.kernel.export.archive import SIZE_BYTES_MAX, Ancestry, Arrival, Belongings, Header
from artelier.kernel.export.transfer import StorePart, import_file, write_file
from artelier.kernel.export.writer import streams_of
from artelier.ledger import MoneyTransferred, Moving, may_owe
from artelier.log import BlobRef, EventData, Stream, Tx, blob_name
from artelier.world import events as ev
from artelier.world.agent import GOES_ON
from artelier.world.config import read_config
from artelier.world.events import world_space
from artelier.world.history.history_fold import check_no_sessions, reaches, run_reaches, tick_of
from artelier.world.kernel_adapter import Host
from artelier.world.queries.worlds import ancestors, find_world, is_space_taken, is_space_used

# --------------------------------------------------------------------------- export validator
# The content of a world's file beside runs, trusted only after checks.
# Views and ticks act on what events say. So each must stand in a stream of this world, be of a kind that
# belongs there, and be dated with a tick that was passed.


KINDS = (
    {cls.KIND for cls in (*ARTIFACT_EVENTS, MoneyTransferred)}
    | {cls.KIND for cls in vars(ev).values() if isinstance(cls, type) and issubclass(cls, EventData)}
) - {"", ev.WorldForking.KIND, ev.WorldForked.KIND, ev.WorldImported.KIND}
"""Of events in the stream of a world."""

CHARGES = {ArtifactCharged.KIND}
"""Of events in the stream of an agent."""

VECTOR_BYTES_MAX = 256 * 1024
ANCESTORS_MAX = 1_000
TICK_MAX = 2**53


class SocietyCheck(Belongings):
    """The checks of one file. Every refusal is an `InvalidExport`, or becomes one."""

    def __init__(self, header: Header, *, name: str) -> None:
        """`name`: what the world is to be called where the file is imported."""
        ancestry = header.ancestry
        assert ancestry is not None, "the reader of the file has seen to that"
        self._origin, self._name = header.world, name
        self._ancestry = ancestry
        self._stream = check_space(world_space(header.world))
        check_space(world_space(name))
        self._tick = 0
        self._newest = 0
        self._began = False
        self._money: dict[tuple[str, str], int] = {}
        """By account and asset: the space of a world begins with nothing."""
        self._configs: set[bytes] = set()
        self._vectors: set[bytes] = set()
        _check_ancestry(ancestry)

    @property
    def kinds(self) -> frozenset[str]:
        """See `Belongings`: artifacts outside of the world have their own events only."""
        return frozenset()

    @property
    def may_meet_runs(self) -> bool:
        """See `Belongings`: a world is imported beside itself under another id."""
        return True

    # Streams

    def has_stream(self, local: str) -> bool:
        """See `Belongings`."""
        return local == self._stream or local.startswith("agent:")

    def home(self, tenant: str, local: str) -> Stream:
        """See `Belongings`."""
        space = world_space(self._name)
        return Stream(tenant, space, space if local == self._stream else local)

    # Events

    def take_own(self, local: str, seq: int, data: EventData, *, at_us: int) -> None:
        """See `Belongings`."""
        where = f"event {seq} of {local[:120]}"
        if data.KIND not in (KINDS if local == self._stream else CHARGES):
            raise InvalidExport(f"{where}: {data.KIND[:80]} does not belong in such a stream")
        if not 0 <= at_us <= self._ancestry.tick:
            raise InvalidExport(
                f"{where} belongs to no tick that was passed",
                expected=f"0 to {self._ancestry.tick}",
                got=at_us,
            )
        _check_refs(where, data)
        if isinstance(data, Moving):
            self._move(where, data)
        if local != self._stream:
            check_artifact_id(local.removeprefix("agent:"))
            return
        if isinstance(data, ev.WorldMade) != (seq == 1):
            raise InvalidExport(f"{where}: a world begins with its making, and nowhere else")
        self._began = True
        self._follow(where, data, at_us)

    def _move(self, where: str, data: Moving) -> None:
        """Apply the postings of an event.

        The file may lack charges of an unfinished tick whose money the host has spent since.
        Errors: `InvalidExport` if an account pays what it does not have.
        """
        for posting in data.postings:
            source, target = (posting.source, posting.asset), (posting.target, posting.asset)
            left = self._money[source] = self._money.get(source, 0) - posting.amount
            self._money[target] = self._money.get(target, 0) + posting.amount
            if left < 0 and not may_owe(posting.source):
                raise InvalidExport(
                    f"{where}: account {posting.source[:120]} pays what it does not have",
                    expected=f"at least {posting.amount} {posting.asset[:40]}",
                    got=f"{left + posting.amount}",
                    hint="If its world is thinking about a tick, let that pass, and export it again.",
                )

    def _follow(self, where: str, data: EventData, at_us: int) -> None:
        if isinstance(data, ev.TickPassed):
            if not data.tick == at_us == self._tick + 1:
                raise InvalidExport(f"{where}: tick {self._tick + 1} is missing", got=data.tick)
            self._tick = data.tick
        elif at_us > self._tick + 1:
            raise InvalidExport(f"{where} is ahead of its tick", got=at_us)
        self._newest = max(self._newest, at_us)
        if isinstance(data, ev.WorldMade | ev.WorldConfigured):
            self._configs.add(blob_name(data.config))
        elif isinstance(data, ev.AgentJoined) and data.agent.endswith(GOES_ON):
            raise InvalidExport(f"{where}: no agent is called so", got=data.agent[:200])
        elif isinstance(data, ev.EntryAdded):
            self._vectors.add(blob_name(data.vector))

    def take(self, artifact: str, seq: int, data: EventData) -> None:
        """See `Belongings`: artifacts of runs are checked with them."""

    # Content

    def wants(self, name: bytes) -> bool:
        """See `Belongings`."""
        return name in self._configs or name in self._vectors

    def content(self, name: bytes, content: bytes) -> None:
        """See `Belongings`."""
        if name in self._vectors and not 0 < len(content) <= VECTOR_BYTES_MAX:
            raise InvalidExport("a vector of a memory has no length, or too much of it")
        if name not in self._configs:
            return
        try:
            given: Any = msgspec.json.decode(content)
            read_config(given)
        except (msgspec.MsgspecError, InvalidRequest, RecursionError) as error:
            raise InvalidExport(f"the settings of the world cannot be read: {error}") from None

    # The whole

    def owns(self, artifact: str) -> bool:
        """See `Belongings`."""
        return False

    def end(self) -> None:
        """See `Belongings`."""
        if not self._began:
            raise InvalidExport(f"the events of world {self._origin} are missing")
        if not self._tick == self._newest == self._ancestry.tick:
            raise InvalidExport(
                "the file breaks off within a tick, or names another one",
                expected=f"tick {self._ancestry.tick}",
                got=f"tick {self._tick}",
            )

    async def arrival(self, services: Services, tenant: str, header: Header, sha256: str) -> Arrival:
        """See `Belongings`."""
        space, ancestry = world_space(self._name), self._ancestry
        found = tuple(ev.Ancestor(world, tick) for world, tick in ancestry.ancestors)
        if self._name != self._origin:
            found = (ev.Ancestor(self._origin, ancestry.tick), *found)
        imported = ev.WorldImported(
            world=self._name,
            origin=self._origin,
            tenant=header.tenant,
            tick=ancestry.tick,
            sha256=sha256,
            parent=ancestry.parent,
            forked_at=ancestry.forked_at,
            ancestors=found,
        )

        await check_free(services, tenant, self._name)

        def still_free(tx: Tx) -> None:
            if is_space_taken(tx, tenant, space):
                raise _exists_error(self._name)

        return Arrival(events=(imported,), guard=still_free)


def _check_refs(where: str, data: EventData) -> None:
    """Content stands behind references only. What they name must be in the file, as for all events.

    Errors: `InvalidExport` that names the event and the field.
    """
    for field, ref in _refs(data, data.KIND):
        try:
            blob_name(ref)
        except InvalidRequest:
            raise InvalidExport(
                f"{where}: {field} is no reference to content", expected="b:<43 characters>", got=ref[:60]
            ) from None


def _refs(data: msgspec.Struct, name: str) -> Iterator[tuple[str, str]]:
    """The references in fields of a struct and of those within it, with what the fields are called."""
    for field, is_ref in _fields(type(data)):
        value = getattr(data, field)
        if value is None:
            continue
        if is_ref:
            yield f"{name}.{field}", value
        elif isinstance(value, msgspec.Struct):
            yield from _refs(value, f"{name}.{field}")


@lru_cache(maxsize=1_000)
def _fields(cls: type[msgspec.Struct]) -> tuple[tuple[str, bool], ...]:
    """Fields that hold a reference (True) or a struct (False), or nothing."""
    hints, found = get_type_hints(cls), list[tuple[str, bool]]()
    for field in cls.__struct_fields__:
        types = get_args(hints[field]) or (hints[field],)
        if BlobRef in types:
            found.append((field, True))
        elif any(isinstance(one, type) and issubclass(one, msgspec.Struct) for one in types):
            found.append((field, False))
    return tuple(found)


async def check_free(services: Services, tenant: str, world: str) -> None:
    """Errors: `Conflict` if a tenant has a world of this id, or anything where it would stand."""
    if await is_space_used(services.store, tenant, world_space(world)):
        raise _exists_error(world)


def _exists_error(world: str) -> Conflict:
    return Conflict(
        f"there is a world {world} already",
        expected="an id that no world has",
        hint="Import it under another id.",
    )


def _check_ancestry(ancestry: Ancestry) -> None:
    """Errors: `InvalidExport`, `InvalidRequest`."""
    if len(ancestry.ancestors) >= ANCESTORS_MAX:
        raise InvalidExport("a world with too many ancestors", got=len(ancestry.ancestors))
    ticks = (ancestry.tick, ancestry.forked_at, *(tick for _, tick in ancestry.ancestors))
    if not all(0 <= tick <= TICK_MAX for tick in ticks):
        raise InvalidExport("a tick of the file is none", got=str(ticks)[:120])
    names = [name for name, _ in ancestry.ancestors]
    for name in [*names, *([ancestry.parent] if ancestry.parent else [])]:
        check_space(world_space(name))


# --------------------------------------------------------------------------- transfer


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
    ancestry = await _ancestry(host, world, tick)
    header = Header.of_store(
        position, root, tenant=host.id, code=services.code_version, world=world, ancestry=ancestry
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
    row = await find_world(store, host.id, world)
    assert row is not None
    found = await ancestors(store, host.id, world)
    return Ancestry(
        tick=tick,
        parent=row.parent or "",
        forked_at=row.forked_at or 0,
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
