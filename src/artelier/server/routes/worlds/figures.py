"""`/worlds/{id}/...` and `/market`: what there is to see of a world: agents, figures, offers, events."""

from __future__ import annotations

from statistics import median
from typing import Annotated, Any

import msgspec
from fastapi import Query

from artelier.errors import InvalidRequest
from artelier.server.deps import Desk
from artelier.server.routes import resource
from artelier.server.routes.worlds.tick_runner import world_of
from artelier.server.wire import worlds as wire
from artelier.server.wire.models import AfterNumber, Limit, Page
from artelier.world.events import ActionRejected
from artelier.world.figures.metrics import TickMetrics, tick_metrics
from artelier.world.queries.reports import agents, log, offers

router = resource("worlds")

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
) -> Page[wire.Offer]:
    """Offers, newest first; `next` counts those before."""
    found = await offers(world_of(desk, id), closed=closed, limit=after + limit + 1)
    following = after + limit if len(found) > after + limit else None
    items = found[after : after + limit]
    return Page[wire.Offer].model_validate({"items": items, "next": following})


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
