"""Forks of worlds: another world with the same history up to a tick, which goes its own way from there.

The events up to that tick are copied into the space of the new world, and so are the artifacts, money, offers
and memories that they make; content is shared. Runs of agents are not copied: each agent begins a new one,
and the prompts of before stand in the runs of the parent. What the host did after the tick and before the
next belongs to the tick; what prompts of an unfinished tick have cost does not.
"""

from __future__ import annotations

from collections.abc import Mapping
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
    RawDraft,
    Stream,
    StreamAppend,
    decode_stored,
    make_blob,
    stored_blob,
    tenant_stream,
)
from artelier.world.config import WorldConfig, plain_config, read_config
from artelier.world.events import WorldConfigured, WorldForked, WorldMade, world_space, world_stream
from artelier.world.history.history_fold import check_no_sessions, reaches, tick_of
from artelier.world.kernel_adapter import Host
from artelier.world.queries.worlds import count_forks
from artelier.world.tick.world_state import WorldStage

NAMES_MAX = 1000
"""Ids tried for a fork without one."""

CHANGES_MAX = 1000
"""Artifacts that one fork changes."""

_CHANGING = (ArtifactWritten, ArtifactDeleted, ArtifactTransferred)


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

    Cost: the copied events are in memory at once, about 1 KB each.
    """
    tick = await tick_of(host, world, at)
    await check_no_sessions(host, world, tick=tick, what="forked")
    copy = await _copy(host, world, tick, wanted=_check_changes(with_))
    changed = await _changes(host, world, tick, copy, config=config, by=by)
    for name in [new_id] if new_id is not None else await _names(host, world):
        check_space(world_space(name))
        try:
            await host.services.store.append(_batch(host, world, name, tick, copy, changed, by))
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
class _HistoryCopy:
    """The history that both worlds share."""

    events: list[tuple[str, RawDraft]] = field(default_factory=list[tuple[str, RawDraft]])
    """With the local name of the stream in the parent."""
    artifacts: Working | None = None
    """What is to be changed, as it stands at the end of the copy."""
    config: str = ""
    wanted: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(slots=True)
class _ForkChanges:
    """The differences between a fork and its origin, as events that follow the copy."""

    drafts: list[Draft] = field(default_factory=list[Draft])
    blobs: list[Blob] = field(default_factory=list[Blob])
    ids: tuple[str, ...] = ()


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


async def _copy(host: Host, world: str, tick: int, *, wanted: Mapping[str, Any]) -> _HistoryCopy:
    store, tenant = host.services.store, host.id
    found = await reaches(store, tenant, world, tick=tick)
    copy = _HistoryCopy(wanted=wanted)
    stage = StoreStage(store, tenant=tenant, space=world_space(world), at_us=tick)
    stage.seen = dict.fromkeys(wanted)  # as if nothing had been written yet
    working = copy.artifacts = Working(stage)
    async for event in by_position(host.services, {one.stream: one.position for one in found}):
        draft = RawDraft(event.kind, event.version, event.data, event.at_us, event.actor, event.cause)
        copy.events.append((event.stream.local, draft))
        await _follow(event, copy, working)
    return copy


async def _follow(event: Event, copy: _HistoryCopy, working: Working) -> None:
    """Keep what the changes of a fork build upon."""
    if event.kind in (WorldMade.KIND, WorldConfigured.KIND):
        copy.config = cast("WorldMade | WorldConfigured", event.decode()).config
    elif event.kind in {cls.KIND for cls in _CHANGING} and copy.wanted:
        data = event.decode()
        if isinstance(data, _CHANGING) and data.id in copy.wanted:
            data = msgspec.structs.replace(data, postings=())  # money is none of its business
            working.at_us = event.at_us
            await working.apply(data, actor=event.actor)


async def _changes(
    host: Host, world: str, tick: int, copy: _HistoryCopy, *, config: Mapping[str, Any] | None, by: str
) -> _ForkChanges:
    """Errors: `NotFound` for what is not there at that tick; `InvalidArtifact`; `InvalidConfig`."""
    store, tenant = host.services.store, host.id
    key = await WorldStage(store, tenant=tenant, space=world_space(world), at_us=tick).key()
    found = _ForkChanges(ids=tuple(copy.wanted))
    for id_, content in copy.wanted.items():
        await _rewrite(copy, found, id_, content, tenant=tenant, key=key, tick=tick)
    if config is not None:
        before = decode_stored(await stored_blob(store, tenant, copy.config), type=dict[str, Any])
        settings = _merge_settings(before, config)
        ref, blob = make_blob(tenant, key, canonical_json(plain_config(settings)))
        found.drafts.append(Draft(WorldConfigured(config=ref), tick, by))
        found.blobs.append(blob)
    return found


async def _rewrite(
    copy: _HistoryCopy,
    found: _ForkChanges,
    id_: str,
    content: object,
    *,
    tenant: str,
    key: DataKey,
    tick: int,
) -> None:
    assert copy.artifacts is not None
    standing = await copy.artifacts.standing(id_)
    if standing is None or standing.deleted or standing.at is None:
        raise NotFound(f"there is no artifact {id_} at tick {tick}", hint="A fork changes what is there.")
    if isinstance(content, str) and standing.at.media == "json":
        content = _with_text(
            decode_content("json", await copy.artifacts.blob(standing.at.content)), content, id_
        )
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


async def _names(host: Host, world: str) -> list[str]:
    """Ids to try, the likely first one first."""
    first = await count_forks(host.services.store, host.id, world) + 1
    return [f"{world}.fork-{number}" for number in range(first, first + NAMES_MAX)]


def _batch(
    host: Host, world: str, name: str, tick: int, copy: _HistoryCopy, changed: _ForkChanges, by: str
) -> Batch:
    """The copy, what differs, and in the tenant's stream who made it."""
    appends = rename_streams(host.id, world, name, copy.events)
    if changed.drafts:
        appends.append(StreamAppend(world_stream(host.id, name), changed.drafts))
    forked = WorldForked(world=name, parent=world, tick=tick, changed=changed.ids)
    draft = Draft(forked, host.services.clock.now_us(), by)
    appends.append(StreamAppend(tenant_stream(host.id), [draft]))
    return Batch(appends=appends, blobs=changed.blobs)


def rename_streams(
    tenant: str, world: str, name: str, events: list[tuple[str, RawDraft]]
) -> list[StreamAppend]:
    """Events of one world as those of another, in their order; neighbours of one stream go together."""
    before, space = world_space(world), world_space(name)
    appends: list[StreamAppend] = []
    begun: set[str] = set()
    last: str | None = None
    drafts: list[Draft | RawDraft] = []
    for local, draft in events:
        if local != last:
            drafts = []
            stream = Stream(tenant, space, space if local == before else local)
            appends.append(StreamAppend(stream, drafts, None if local in begun else 0))
            begun.add(local)
            last = local
        if draft.cause is not None and draft.cause.startswith(f"{before}@"):
            draft = draft._replace(cause=draft.cause.replace(before, space, 1))
        drafts.append(draft)
    return appends
