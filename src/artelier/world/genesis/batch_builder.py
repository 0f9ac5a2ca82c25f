"""Many artifacts in one batch: what a world begins with is there as a whole, or not at all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from artelier.artifacts import Working, check_principal
from artelier.artifacts.ref import check_new_id
from artelier.artifacts.write.write_decision import WriteRequest, decide_write
from artelier.errors import ArtelierError, Conflict, InvalidConfig, SequenceConflict
from artelier.log import Batch, Blob, DataKey, Draft, EventData, StreamAppend
from artelier.world.events import world_space, world_stream
from artelier.world.tick.world_state import WorldStage

if TYPE_CHECKING:
    from artelier.world.world import World

ATTEMPTS_MAX = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """One artifact as it should begin. Its owner is its creator."""

    id: str
    kind: str
    owner: str
    content: Any
    access: object = None
    """None: the default of its kind."""
    prices: dict[str, int] | None = None
    interface: dict[str, Any] | None = None
    metadata: dict[str, Any] | None = None
    place: str = ""
    """Where it stands in a file, for errors."""


@dataclass(slots=True)
class Beginning:
    """The events of a batch, with who brought each about, and the blobs they name."""

    events: list[tuple[EventData, str]]
    blobs: list[Blob]


def decide(made: Sequence[Made], *, tenant: str, key: DataKey) -> Beginning:
    """The first version of each artifact. Nothing is written.

    Errors: `InvalidConfig` that names the artifact and its place in the file; an id that stands twice.
    """
    beginning = Beginning([], [])
    seen: dict[str, str] = {}
    for one in made:
        where = f"{one.place}: " if one.place else ""
        if one.id in seen:
            other = f" (also {seen[one.id]})" if seen[one.id] else ""
            raise InvalidConfig(f"{where}there are two artifacts {one.id}{other}")
        seen[one.id] = one.place
        wish = WriteRequest(
            id=one.id,
            content=one.content,
            kind=one.kind,
            access=one.access,
            prices=one.prices,
            interface=one.interface,
            metadata=one.metadata,
        )
        try:
            check_new_id(one.id)
            check_principal(one.owner)
            event, blobs = decide_write(wish, None, None, tenant=tenant, principal=one.owner, key=key)
        except ArtelierError as error:
            raise InvalidConfig(
                f"{where}artifact {one.id}: {error.message}",
                expected=error.expected,
                got=error.got,
                hint=error.hint,
            ) from None
        beginning.events.append((event, one.owner))
        beginning.blobs += blobs
    return beginning


async def make(world: World, made: Sequence[Made]) -> tuple[str, ...]:
    """Write those whose ids are not taken, as one batch; their ids. Twice is once.

    What is there stays as it is, whoever wrote it; so does what was deleted.

    Errors: `NotFound` for a world that is not there; `InvalidConfig` for what cannot be stored; `Conflict`
    if the world is being changed all the time.
    """
    host = world.host
    store, tenant = host.services.store, host.id
    key = (await host.state()).key
    for _ in range(ATTEMPTS_MAX):
        tick = await world.tick_now()
        head, _hash = await store.head(world_stream(tenant, world.id))
        stage = WorldStage(store, tenant=tenant, space=world_space(world.id), at_us=tick)
        working = Working(stage)
        await stage.preload(one.id for one in made)
        missing = [one for one in made if await working.standing(one.id) is None]
        if not missing:
            return ()
        beginning = decide(missing, tenant=tenant, key=key)
        try:
            await append(world, beginning, tick=tick, expected=head)
        except SequenceConflict:
            continue
        return tuple(one.id for one in missing)
    raise Conflict(f"world {world.id} is being changed by somebody else", hint="Try again.")


async def append(world: World, beginning: Beginning, *, tick: int, expected: int) -> None:
    """Write a batch into the world's stream. Errors: `SequenceConflict`."""
    drafts = [Draft(data, tick, by) for data, by in beginning.events]
    stream = StreamAppend(world_stream(world.host.id, world.id), drafts, expected)
    batch = Batch(appends=(stream,), blobs=tuple(beginning.blobs))
    await world.host.services.store.append(batch)
