"""Routes of worlds: their ticks, their figures and their markets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from statistics import median
from typing import Annotated, Any, Literal

import msgspec
from fastapi import Query, Request
from fastapi.responses import FileResponse

from artelier.errors import Conflict, InvalidRequest, RunSuspended
from artelier.pii.scrubber_registry import marked_wire
from artelier.server.background_tasks import LET_GO_S, Errand, Errands, errands_of, long_reads_of
from artelier.server.deps import Actor, Desk, file_response
from artelier.server.errors import TooLarge
from artelier.server.routes import resource
from artelier.server.wire import worlds as wire
from artelier.server.wire.base import After, AfterNumber, Limit, Nothing, Page
from artelier.server.wire.worlds import Held, Passing
from artelier.threads import run_in_content_thread
from artelier.world import Passed, World
from artelier.world.events import ActionRejected
from artelier.world.figures.metrics import TickMetrics, market, tick_metrics
from artelier.world.figures.metrics import collect as collect_rows
from artelier.world.figures.odd_description import describe as describe_world
from artelier.world.figures.tables import COLUMNS_MAX, columns_of, read_columns, write_rows
from artelier.world.genesis import (
    found,
    read_world,
    read_world_text,
    shipped,
    shipped_names,
    shipped_policies,
)
from artelier.world.history.transfer import export_world
from artelier.world.history.world_diff import WorldSide, diff_worlds, hash_world
from artelier.world.queries.reports import agents, log, offers, overview, worlds

ATTEMPTS_MAX = 10
"""At a tick, while the world is changed from outside."""


def key_of(desk: Desk, id: str) -> tuple[str, str, str]:
    return ("world", desk.id, id)


def world_of(desk: Desk, id: str) -> World:
    """A world with the rule agents that are shipped. Errors: `InvalidRequest` for what names none."""
    return World.open(desk, id, policies=shipped_policies())


async def start_passing(errands: Errands, desk: Desk, id: str, ticks: int) -> Errand:
    """Begin to pass ticks. Errors: `NotFound`; `TooLarge`; `Conflict` if the world is paused or at work."""
    world = world_of(desk, id)
    if (going := errands.at_work(key_of(desk, id))) is not None and going.about.is_over:
        await asyncio.wait({going.task}, timeout=LET_GO_S)  # its last tick is seen a moment before it ends
    most = desk.services.quotas.of(desk.id).ticks_max
    if ticks > most:
        raise TooLarge(
            "too many ticks for one request",
            expected=f"at most {most}",
            got=ticks,
            hint="Ask for fewer, and again when they have passed.",
        )
    if (await world.row()).paused:
        raise Conflict(f"world {id} is paused", hint="Resume it first.")
    about = Passing(asked=ticks)
    return errands.start(key_of(desk, id), _pass(world, about), about=about)


async def _pass(world: World, about: Passing) -> None:
    async with world:
        while about.passed < about.asked and not (await world.row()).paused:
            try:
                done = await _tick(world)
            except RunSuspended as stopped:
                about.held = Held(run_id=stopped.run_id, status=stopped.status, reason=stopped.reason)
                return
            if done is None:
                return
            about.passed, about.tick = about.passed + 1, done.tick
            about.acted += done.acted
            about.rejected += done.rejected


async def _tick(world: World) -> Passed | None:
    """One tick, passed again if somebody paused the world or told it something meanwhile; None if paused."""
    for _ in range(ATTEMPTS_MAX):
        try:
            return await world.tick()
        except Conflict as conflict:
            if type(conflict) is not Conflict:
                raise  # another process drives its agents
            if (await world.row()).paused:
                return None
    return await world.tick()


router = resource("worlds")

MADE_MAX = 1_000
"""Artifacts of a new world: it is one commit, for which the writes of all tenants wait. Measured on a busy
machine of two cores: 67 ms with 900 artifacts, 224 ms with 2,900."""


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
    size_bytes = len(await request.body())
    entry = await run_in_content_thread(size_bytes, lambda: read_world(spec_of(body)))
    await found(
        desk, body.id, entry, seed=body.seed, by=actor, policies=shipped_policies(), made_max=MADE_MAX
    )
    return await _show_world(desk, body.id, errands_of(request.app))


def spec_of(body: wire.WorldSource) -> dict[str, Any]:
    """Return the world of a request as data.

    Errors: `InvalidRequest`, `InvalidConfig`, `NotFound` for no such template.
    """
    given = [name for name in ("template", "world", "toml") if getattr(body, name) is not None]
    if len(given) > 1:
        raise InvalidRequest("a world is made in one way", expected="template, world or toml")
    if body.template is not None:
        return shipped(body.template)
    return read_world_text(body.toml) if body.toml is not None else body.world or {}


@router.get("/{id}", operation_id="worlds_show")
async def show(request: Request, desk: Desk, id: str) -> wire.WorldShown:
    """Tick, money, market, settings, and the ticks that are being passed."""
    return await _show_world(desk, id, errands_of(request.app))


async def _show_world(desk: Desk, id: str, errands: Errands) -> wire.WorldShown:
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


TICKS_MAX = 500
"""Of one answer."""
LAST = 200
"""Ticks that are told of unless others are asked for."""
BALANCES_MAX = 100
"""Agents whose balances are told of unasked."""
NAMED_MAX = 100
OFFSET_MAX = 100_000

Kinds = Annotated[list[str] | None, Query(max_length=50, description="Only of these kinds.", alias="kind")]


@router.get("/{id}/agents", operation_id="worlds_agents")
async def list_agents(
    desk: Desk, id: str, after: AfterNumber = 0, limit: Limit = 100
) -> Page[wire.WorldAgent]:
    """Agents with state and balance, the richest first; `next` counts those before."""
    found = await agents(world_of(desk, id))
    following = after + limit if len(found) > after + limit else None
    items = found[after : after + limit]
    return Page[wire.WorldAgent].model_validate({"items": items, "next": following})


@router.get("/{id}/metrics", operation_id="worlds_metrics")
async def metrics(
    desk: Desk,
    id: str,
    from_tick: Annotated[
        int | None, Query(ge=0, le=2**53, description=f"By default the last {LAST} ticks.")
    ] = None,
    limit: Annotated[int, Query(ge=1, le=TICKS_MAX, description="Ticks at most.")] = LAST,
    agent: Annotated[
        list[str] | None, Query(max_length=NAMED_MAX, description="Balances of these agents only.")
    ] = None,
) -> wire.WorldMetrics:
    """Balances, inequality, trades, prices, rejections and cost, tick by tick."""
    world = world_of(desk, id)
    now = await world.tick_now()
    first = max(1, now - limit + 1) if from_tick is None else from_tick
    last = min(now, first + limit - 1)
    if first > now + 1:
        raise InvalidRequest("from_tick", expected=f"at most {now}", got=first)
    items = (
        [
            _figures(one, agent)
            async for one in tick_metrics(world, from_tick=first, to_tick=max(last, first - 1))
        ]
        if first <= now
        else []
    )
    return wire.WorldMetrics(world=id, items=items, next=last + 1 if last < now else None)


def _figures(one: TickMetrics, named: list[str] | None) -> wire.TickFigures:
    balances = dict(one.balances)
    if named is not None:
        told = {name: balances[name] for name in named if name in balances}
    else:
        told = balances if len(balances) <= BALANCES_MAX else {}
    facts: dict[str, Any] = msgspec.to_builtins(one)
    for name in ("acted", "rejected", "tokens", "cost_microusd"):
        facts[name] = getattr(one, name)
    values = list(balances.values())
    return wire.TickFigures.model_validate(
        {
            **facts,
            "balances": told,
            "median": median(values) if values else 0,
            "richest": max(values, default=0),
        }
    )


@router.get("/{id}/market", operation_id="worlds_market")
async def list_offers(
    desk: Desk,
    id: str,
    closed: Annotated[
        bool, Query(description="Those that are closed or have sold something instead.")
    ] = False,
    after: Annotated[int, Query(ge=0, le=OFFSET_MAX, description="A page's `next`.")] = 0,
    limit: Limit = 100,
) -> Page[wire.OfferOut]:
    """Offers, newest first; `next` counts those before."""
    found = await offers(world_of(desk, id), closed=closed, limit=after + limit + 1)
    following = after + limit if len(found) > after + limit else None
    items = found[after : after + limit]
    return Page[wire.OfferOut].model_validate({"items": items, "next": following})


@router.get("/{id}/rejections", operation_id="worlds_rejections")
async def rejections(
    desk: Desk,
    id: str,
    agent: Annotated[str | None, Query(max_length=128)] = None,
    after: AfterNumber = 0,
    limit: Limit = 100,
) -> Page[wire.WorldEvent]:
    """Actions that were refused, with the reason that their agents read."""
    found = await log(world_of(desk, id), kinds=(ActionRejected.KIND,), actor=agent, after=after, limit=limit)
    return Page[wire.WorldEvent].model_validate(found)


@router.get("/{id}/events", operation_id="worlds_events")
async def events(
    desk: Desk,
    id: str,
    kind: Kinds = None,
    agent: Annotated[str | None, Query(max_length=128, description="Only what it did.")] = None,
    tick: Annotated[int | None, Query(ge=0, le=2**53)] = None,
    last: Annotated[bool, Query(description="The newest instead, the oldest of them first.")] = False,
    after: AfterNumber = 0,
    limit: Limit = 100,
) -> Page[wire.WorldEvent]:
    """Events of a world with the reasons that were given, from the first on."""
    found = await log(
        world_of(desk, id),
        kinds=kind or (),
        actor=agent,
        tick=tick,
        after=after,
        limit=limit,
        last=limit if last else None,
    )
    return Page[wire.WorldEvent].model_validate(found)


# Whole histories


CELLS_MAX = 5_000_000
"""Of one table (guess: some 100 MB)."""
CELLS_AT_ONCE = 400
"""Cells that are worked out before others have their turn: a cell's expression has up to 120 parts."""

At = Annotated[int | None, Query(ge=0, le=2**53, description="The last tick that counts; else the newest.")]
File: dict[int | str, dict[str, Any]] = {200: {"content": {"application/octet-stream": {}}}}


@router.get("/{id}/hash", operation_id="worlds_hash")
async def hash_(request: Request, desk: Desk, id: str, at: At = None) -> wire.WorldHashed:
    """A hash that is equal for equal histories, whatever the world is called and wherever it is."""
    with long_reads_of(request.app).turn(desk.id):
        return wire.WorldHashed.model_validate((await hash_world(desk, id, at=at))._asdict())


@router.get("/{id}/diff", operation_id="worlds_diff", response_model_exclude_unset=True)
async def diff(
    request: Request,
    desk: Desk,
    id: str,
    other: Annotated[str, Query(max_length=128, description="Id of the world to compare with.")],
    after: After = None,
    limit: Limit = 100,
) -> wire.WorldDifference:
    """Compare two worlds: where they part, and how their agents differ now. `next` continues there."""
    with long_reads_of(request.app).turn(desk.id):
        found = await diff_worlds(WorldSide(desk, id), WorldSide(desk, other))
    rest = [agent for agent in found.agents if agent > (after or "")]
    shown = {agent: found.agents[agent] for agent in rest[:limit]}
    return wire.WorldDifference.model_validate(
        {
            **msgspec.to_builtins(msgspec.structs.replace(found, agents=shown)),
            "next": rest[limit - 1] if len(rest) > limit else None,
        }
    )


@router.get("/{id}/describe", operation_id="worlds_describe")
async def describe(request: Request, desk: Desk, id: str) -> wire.WorldDescription:
    """The world by the ODD protocol, as Markdown: settings, agents, artifacts, rules, and what was done."""
    with long_reads_of(request.app).turn(desk.id):
        return wire.WorldDescription(world=id, markdown=await describe_world(World.open(desk, id)))


@router.get("/{id}/export", response_model=None, operation_id="worlds_export", responses=File)
async def export(request: Request, desk: Desk, id: str) -> FileResponse:
    """The world in one verifiable file: all that it is after its last tick, and the runs of its agents."""

    async def write(file: Path) -> None:
        await export_world(desk, id, file)

    with long_reads_of(request.app).turn(desk.id):
        return await file_response("world.artelier", write)


@router.get("/{id}/collect", response_model=None, operation_id="worlds_collect", responses=File)
async def collect(
    request: Request,
    desk: Desk,
    id: str,
    set: Annotated[
        list[str] | None,
        Query(max_length=COLUMNS_MAX, description="One more column, as `rich=balance > 100`; repeatable."),
    ] = None,
    from_tick: Annotated[int, Query(ge=0, le=2**53, description="The first tick; 0: the start.")] = 1,
    to_tick: At = None,
    format: Literal["csv", "parquet"] = "csv",
) -> FileResponse:
    """A table with a row for each tick and agent: the columns of the setting `collect` and of `set`, else
    all facts.
    """
    world = World.open(desk, id)
    asked = read_columns(set or [])
    chosen = columns_of({**(await world.config()).collect, **asked})

    async def write(file: Path) -> None:
        rows = collect_rows(world, chosen, from_tick=from_tick, to_tick=to_tick)
        await write_rows(file, chosen.names, _bounded(rows, width=len(chosen.names)))

    with long_reads_of(request.app).turn(desk.id):
        return await file_response(f"world.{format}", write)


async def _bounded(rows: AsyncIterator[tuple[Any, ...]], *, width: int) -> AsyncIterator[tuple[Any, ...]]:
    """The rows, with everybody else's turn in between. Errors: `TooLarge`."""
    cells = since = 0
    async for row in rows:
        cells, since = cells + width, since + width
        if cells > CELLS_MAX:
            raise TooLarge(
                "the table is too large",
                expected=f"at most {CELLS_MAX:,} cells",
                got="more",
                hint="Ask for fewer ticks or columns, or use `artelier world collect`.",
            )
        if since >= CELLS_AT_ONCE:
            since = 0
            await asyncio.sleep(0)
        yield row


market_router = resource("market")


@market_router.get("", name="show", operation_id="market_show")
async def show_market(
    desk: Desk,
    world: Annotated[str, Query(max_length=128, description="Id of the world.")],
    limit: Limit = 100,
) -> wire.Market:
    """Open offers, those that sold or closed, and prices by kind over the last ticks."""
    return wire.Market.model_validate(await market(world_of(desk, world), limit=limit))
