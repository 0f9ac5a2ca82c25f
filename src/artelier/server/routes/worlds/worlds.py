"""`/worlds`: societies of agents; their ticks are passed in this server. See also `figures.py`."""

from __future__ import annotations

import asyncio
import tomllib
from typing import Any

import msgspec
from fastapi import Request

from artelier.errors import InvalidConfig, InvalidRequest
from artelier.pii.output_redaction import marked_wire
from artelier.server.background_tasks import Errands, errands_of
from artelier.server.deps import Actor, Desk
from artelier.server.routes import resource
from artelier.server.routes.worlds.tick_runner import key_of, start_passing, world_of
from artelier.server.wire import worlds as wire
from artelier.server.wire.models import After, Limit, Nothing
from artelier.world.genesis import found, read_world, shipped, shipped_names, shipped_policies
from artelier.world.genesis.file import WorldEntry
from artelier.world.queries.reports import overview, worlds

router = resource("worlds")

MADE_MAX = 3_000
"""Artifacts of a new world: it is one commit, for which the writes of all tenants wait."""


@router.get("", operation_id="worlds_list")
async def list_(desk: Desk, after: After = None, limit: Limit = 100) -> wire.WorldsPage:
    """Worlds of the tenant, by id."""
    rest = [one for one in await worlds(desk) if one.id > (after or "")]
    following = rest[limit - 1].id if len(rest) > limit else None
    return wire.WorldsPage.model_validate(
        {"items": rest[:limit], "next": following, "templates": shipped_names()}
    )


@router.post("", status_code=201, operation_id="worlds_create")
async def create(request: Request, desk: Desk, actor: Actor, body: wire.WorldNew) -> wire.WorldShown:
    """Make a world: all that it begins with, or nothing."""
    entry = await asyncio.to_thread(_entry, body)
    await found(
        desk, body.id, entry, seed=body.seed, by=actor, policies=shipped_policies(), made_max=MADE_MAX
    )
    return await _show_world(desk, body.id, errands_of(request.app))


def _entry(body: wire.WorldNew) -> WorldEntry:
    """Errors: as of `_spec`."""
    return read_world(_spec(body))


def _spec(body: wire.WorldNew) -> dict[str, Any]:
    """Errors: `InvalidRequest`, `InvalidConfig`, `NotFound` for no such template."""
    given = [name for name in ("template", "world", "toml") if getattr(body, name) is not None]
    if len(given) > 1:
        raise InvalidRequest("a world is made in one way", expected="template, world or toml")
    if body.template is not None:
        return shipped(body.template)
    if body.toml is None:
        return body.world or {}
    try:
        return tomllib.loads(body.toml)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise InvalidConfig(f"the world file is no TOML: {str(error)[:300]}") from None


@router.get("/{id}", operation_id="worlds_show")
async def show(request: Request, desk: Desk, id: str) -> wire.WorldShown:
    """Tick, money, market, settings, and the ticks that are being passed."""
    return await _show_world(desk, id, errands_of(request.app))


async def _show_world(desk: Any, id: str, errands: Errands) -> wire.WorldShown:
    world = world_of(desk, id)
    row, settings, key = await world.row(), await world.config(), key_of(desk, id)
    errand, failure = errands.at_work(key), errands.failure(key)
    return wire.WorldShown.model_validate(
        {
            **msgspec.to_builtins(row),
            **msgspec.to_builtins(await overview(world)),
            "settings": msgspec.to_builtins(settings),
            "passing": errand.about if errand is not None else None,
            "failed": marked_wire(failure.to_wire()) if failure is not None else None,
        }
    )


@router.post("/{id}/tick", operation_id="worlds_tick")
async def tick(request: Request, desk: Desk, id: str, body: wire.TickAsk) -> wire.Passing:
    """Pass ticks and wait for them. Who leaves early misses only the answer."""
    errands = errands_of(request.app)
    errand = await start_passing(errands, desk, id, body.count)
    await asyncio.shield(errand.task)
    if (failure := errands.failure(key_of(desk, id))) is not None:
        raise failure
    return errand.about


@router.post("/{id}/run", status_code=202, operation_id="worlds_run")
async def run(request: Request, desk: Desk, id: str, body: wire.RunAsk) -> wire.Passing:
    """Pass ticks while the answer is on its way; `pause` ends them after the one at work."""
    return (await start_passing(errands_of(request.app), desk, id, body.ticks)).about


@router.post("/{id}/pause", operation_id="worlds_pause")
async def pause(request: Request, desk: Desk, actor: Actor, id: str, body: Nothing) -> wire.WorldShown:
    """Let no further tick begin."""
    await world_of(desk, id).pause(by=actor)
    return await _show_world(desk, id, errands_of(request.app))


@router.post("/{id}/resume", operation_id="worlds_resume")
async def resume(request: Request, desk: Desk, actor: Actor, id: str, body: Nothing) -> wire.WorldShown:
    """Let ticks begin again; none is passed unasked."""
    await world_of(desk, id).resume(by=actor)
    return await _show_world(desk, id, errands_of(request.app))


@router.post("/{id}/fork", status_code=201, operation_id="worlds_fork")
async def fork(request: Request, desk: Desk, actor: Actor, id: str, body: wire.ForkAsk) -> wire.WorldShown:
    """Another world with the same history up to a tick."""
    made = await world_of(desk, id).fork(
        at=body.at, new_id=body.id, with_=body.artifacts, config=body.settings, by=actor
    )
    return await _show_world(desk, made.id, errands_of(request.app))


@router.post("/{id}/inject", operation_id="worlds_inject")
async def inject(
    request: Request, desk: Desk, actor: Actor, id: str, body: wire.WorldInjection
) -> wire.WorldShown:
    """Tell agents of something: they learn of it in the next tick."""
    await world_of(desk, id).inject(body.text, to=body.to, by=actor)
    return await _show_world(desk, id, errands_of(request.app))
