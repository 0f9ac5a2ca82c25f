"""Forks of worlds: another world with the same history up to a tick, which goes its own way from there.

The events up to that tick are copied into the space of the new world, and so are the artifacts, money, offers
and memories that they make; content is shared. Runs of agents are not copied: each agent begins a new one,
and the prompts of before stand in the runs of the parent. What the host did after the tick and before the
next belongs to the tick; what prompts of an unfinished tick have cost does not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import msgspec

from artelier.artifacts import AccessDecision, StoreStage, Working
from artelier.artifacts.content import canonical_json, decode_content
from artelier.artifacts.events import ArtifactDeleted, ArtifactTransferred, ArtifactWritten
from artelier.artifacts.write_decision import WriteRequest, decide_write
from artelier.errors import Conflict, InsufficientFunds, InvalidRequest, NotFound, SequenceConflict
from artelier.ids import check_space
from artelier.kernel.export.writer import by_position
from artelier.log import (
    Batch,
    Blob,
    DataKey,
    Draft,
    Event,
    EventData,
    RawDraft,
    Stream,
    StreamAppend,
    decode_stored,
    make_blob,
    stored_blob,
    tenant_stream,
)
from artelier.world.config import WorldConfig, plain_config, read_config
from artelier.world.events import (
    Ancestor,
    WorldConfigured,
    WorldForked,
    WorldForking,
    WorldMade,
    world_space,
    world_stream,
)
from artelier.world.history.history_fold import check_no_sessions, events_of, reaches, tick_of
from artelier.world.kernel_adapter import Host
from artelier.world.queries.worlds import count_forks, unfinished_fork, unfinished_forks
from artelier.world.tick.world_state import WorldStage

NAMES_MAX = 1000
"""Ids tried for a fork without one."""

CHANGES_MAX = 1000
"""Artifacts that one fork changes."""

COPIED_MAX = 1000
"""Events of one batch: some 40 ms of the store's writer."""

_CHANGING = {ArtifactWritten.KIND, ArtifactDeleted.KIND, ArtifactTransferred.KIND}
_CONFIGURING = {WorldMade.KIND, WorldConfigured.KIND}


async def fork_world(
    host: Host,
    world: str,
    *,
    at: int | None = None,
    new_id: str | None = None,
    with_: Mapping[str, Any] | None = None,
    config: Mapping[str, Any] | None = None,
    by: str = "operator",
) -> str:
    """Make the fork; its id. See `World.fork`.

    Cost: O(events up to the tick). They are copied `COPIED_MAX` at a time, so that commits of others wait for
    no more than these; the fork is there once all of it is.
    """
    tick = await tick_of(host, world, at)
    await check_no_sessions(host, world, tick=tick, what="forked")
    wanted = _check_changes(with_)
    changed = _ForkChanges()
    if wanted or config is not None:
        changed = await _changes(host, world, tick, wanted, config=config, by=by)
    for name in [new_id] if new_id is not None else await _names(host, world, tick):
        check_space(world_space(name))
        try:
            await _WorldCopy(host, world, name, tick, by=by).write(changed)
            return name
        except SequenceConflict:
            continue
        except InsufficientFunds as error:
            raise Conflict(
                f"world {world} cannot be forked at tick {tick}: after it the host spent what prompts of"
                f" the unfinished tick {tick + 1} had brought in",
                got=error.message,
                hint="Pass that tick, and fork the world after it.",
            ) from error
    raise Conflict(
        f"world {world} cannot be forked under this id",
        expected="an id that no world has",
        got=new_id or f"{NAMES_MAX} forks",
    )


@dataclass(slots=True)
class _ForkChanges:
    """The differences between a fork and its origin, as events that follow the copy."""

    drafts: list[Draft] = field(default_factory=list[Draft])
    blobs: list[Blob] = field(default_factory=list[Blob])
    ids: tuple[str, ...] = ()


@dataclass(slots=True)
class _WorldCopy:
    """The history of a world that is written again as that of another one.

    A long one takes several batches. `world.forking` is in the first of them: until `world.forked` is in the
    last, nobody finds the new world. A copy that was interrupted goes on when the same fork is asked for.
    """

    host: Host
    world: str
    name: str
    tick: int
    by: str = field(kw_only=True)
    begun: bool = False

    async def write(self, changed: _ForkChanges) -> None:
        """Append the copy, what differs, and in the tenant's stream who made it.

        Errors: `SequenceConflict` if there is such a world, or somebody else is making it.
        """
        store, tenant = self.host.services.store, self.host.id
        found = await reaches(store, tenant, self.world, tick=self.tick)
        copied = await self._copied([one.stream.local for one in found])
        waiting: list[Event] = []
        async for event in by_position(self.host.services, {one.stream: one.position for one in found}):
            if event.seq <= copied.get(event.stream.local, 0):
                continue
            if len(waiting) == COPIED_MAX:
                await store.append(Batch(appends=[*self._renamed(waiting), *self._beginning()]))
                waiting.clear()
            waiting.append(event)
        appends = self._renamed(waiting)
        if changed.drafts:
            appends.append(StreamAppend(world_stream(tenant, self.name), changed.drafts))
        forked = WorldForked(world=self.name, parent=self.world, tick=self.tick, changed=changed.ids)
        appends.append(self._noted(forked))
        await store.append(Batch(appends=appends, blobs=changed.blobs))

    async def _copied(self, streams: Sequence[str]) -> dict[str, int]:
        """Return how far each stream was copied before this copy was interrupted."""
        store, tenant = self.host.services.store, self.host.id
        origin = await unfinished_fork(store, tenant, self.name)
        self.begun = origin == Ancestor(self.world, self.tick)
        if not self.begun:
            return {}
        return {local: (await store.head(self._place(local)))[0] for local in streams}

    def _beginning(self) -> list[StreamAppend]:
        if self.begun:
            return []
        self.begun = True
        return [self._noted(WorldForking(world=self.name, parent=self.world, tick=self.tick))]

    def _noted(self, data: EventData) -> StreamAppend:
        draft = Draft(data, self.host.services.clock.now_us(), self.by)
        return StreamAppend(tenant_stream(self.host.id), [draft])

    def _place(self, local: str) -> Stream:
        space = world_space(self.name)
        return Stream(self.host.id, space, space if local == world_space(self.world) else local)

    def _renamed(self, events: Sequence[Event]) -> list[StreamAppend]:
        """Return events of the one world as those of the other; neighbours of one stream go together."""
        before, space = world_space(self.world), world_space(self.name)
        appends: list[StreamAppend] = []
        begun: set[str] = set()
        last: str | None = None
        drafts: list[Draft | RawDraft] = []
        for event in events:
            local, cause = event.stream.local, event.cause
            if local != last:
                drafts = []
                # Only the first one of a batch can say what it follows.
                appends.append(
                    StreamAppend(self._place(local), drafts, None if local in begun else event.seq - 1)
                )
                begun.add(local)
                last = local
            if cause is not None and cause.startswith(f"{before}@"):
                cause = cause.replace(before, space, 1)
            drafts.append(RawDraft(event.kind, event.version, event.data, event.at_us, event.actor, cause))
        return appends


def _check_changes(with_: Mapping[str, Any] | None) -> Mapping[str, Any]:
    if with_ is None:
        return {}
    if not isinstance(cast(object, with_), Mapping) or len(with_) > CHANGES_MAX:
        raise InvalidRequest(
            "what a fork changes",
            expected=f"new content by artifact id, {CHANGES_MAX} at most",
            got=type(with_).__name__,
        )
    return with_


async def _changes(
    host: Host, world: str, tick: int, wanted: Mapping[str, Any], *, config: Mapping[str, Any] | None, by: str
) -> _ForkChanges:
    """Errors: `NotFound` for what is not there at that tick; `InvalidArtifact`; `InvalidConfig`."""
    store, tenant = host.services.store, host.id
    key = await WorldStage(store, tenant=tenant, space=world_space(world), at_us=tick).key()
    stage = StoreStage(store, tenant=tenant, space=world_space(world), at_us=tick)
    stage.seen = dict.fromkeys(wanted)  # as if nothing had been written yet
    artifacts = Working(stage)
    stored = ""
    for one in await reaches(store, tenant, world, tick=tick):
        async for event in events_of(store, one):
            if event.kind in _CONFIGURING:
                stored = cast("WorldMade | WorldConfigured", event.decode()).config
            elif wanted and event.kind in _CHANGING:
                await _follow(event, artifacts, wanted)
    found = _ForkChanges(ids=tuple(wanted))
    for id_, content in wanted.items():
        await _rewrite(artifacts, found, id_, content, tenant=tenant, key=key, tick=tick)
    if config is not None:
        before = decode_stored(await stored_blob(store, tenant, stored), type=dict[str, Any])
        settings = _merge_settings(before, config)
        ref, blob = make_blob(tenant, key, canonical_json(plain_config(settings)))
        found.drafts.append(Draft(WorldConfigured(config=ref), tick, by))
        found.blobs.append(blob)
    return found


async def _follow(event: Event, artifacts: Working, wanted: Mapping[str, Any]) -> None:
    """Keep the artifacts that the fork changes as they stood."""
    data = cast("ArtifactWritten | ArtifactDeleted | ArtifactTransferred", event.decode())
    if data.id in wanted:
        artifacts.at_us = event.at_us
        # Money is none of its business.
        await artifacts.apply(msgspec.structs.replace(data, postings=()), actor=event.actor)


async def _rewrite(
    artifacts: Working,
    found: _ForkChanges,
    id_: str,
    content: object,
    *,
    tenant: str,
    key: DataKey,
    tick: int,
) -> None:
    standing = await artifacts.standing(id_)
    if standing is None or standing.deleted or standing.at is None:
        raise NotFound(f"there is no artifact {id_} at tick {tick}", hint="A fork changes what is there.")
    if isinstance(content, str) and standing.at.media == "json":
        content = _with_text(decode_content("json", await artifacts.blob(standing.at.content)), content, id_)
    # The host decides what differs in a fork, whatever the policy says; it is written as the owner's.
    event, blobs = decide_write(
        WriteRequest(id=id_, content=content),
        standing,
        AccessDecision(True, "fork"),
        tenant=tenant,
        principal=standing.owner,
        key=key,
    )
    found.drafts.append(Draft(event, tick, standing.owner))
    found.blobs += blobs


def _with_text(before: object, text: str, id_: str) -> dict[str, Any]:
    """A text given for a prompt that is stored with its variables is its new template."""
    if not isinstance(before, dict) or "template" not in before:
        raise InvalidRequest(f"new content of {id_}", expected="JSON, as it is now", got="text")
    return {**cast("dict[str, Any]", before), "template": text}


def _merge_settings(before: Mapping[str, Any], config: Mapping[str, Any]) -> WorldConfig:
    """Settings of the parent with some of them changed. Errors: `InvalidConfig`, `InvalidRequest`."""
    if not isinstance(cast(object, config), Mapping):
        raise InvalidRequest("settings of a fork", expected="a mapping", got=type(config).__name__)
    settings = read_config({**before, **config})
    if settings.seed != before.get("seed", 0):
        raise InvalidRequest(
            "a fork keeps the seed of its parent", expected=before.get("seed", 0), got=settings.seed
        )
    return settings


async def _names(host: Host, world: str, tick: int) -> list[str]:
    """Ids to try, the likely first one first: a copy of the same that was cut off goes on."""
    store, tenant = host.services.store, host.id
    begun = [
        name
        for name, origin in await unfinished_forks(store, tenant)
        if origin == Ancestor(world, tick) and name.startswith(f"{world}.fork-")
    ]
    first = await count_forks(store, tenant, world) + 1
    return [*begun, *(f"{world}.fork-{number}" for number in range(first, first + NAMES_MAX))]
