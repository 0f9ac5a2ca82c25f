"""`/market?world=`: what is for sale in a world, what was sold, and at which prices."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query

from artelier.server.deps import Desk
from artelier.server.routes import resource
from artelier.server.routes.passing import world_of
from artelier.server.wire import worlds as wire
from artelier.server.wire.forms import Limit
from artelier.world.listing import offers
from artelier.world.metrics import Price, tick_metrics

router = resource("market")

TICKS = 200
"""Over which prices are gathered."""


@router.get("", operation_id="market_show")
async def show(
    desk: Desk,
    world: Annotated[str, Query(max_length=128, description="Id of the world.")],
    limit: Limit = 100,
) -> wire.Market:
    """Open offers, those that sold or closed, and prices by kind over the last ticks."""
    there = world_of(desk, world)
    now = await there.tick_now()
    first = max(1, now - TICKS + 1)
    paid = [
        price
        async for one in tick_metrics(there, from_tick=first, to_tick=now)
        for price in one.prices
    ] if now else []  # fmt: skip
    return wire.Market.model_validate(
        {
            "world": world, "tick": now, "from_tick": first, "prices": _gathered(paid),
            "open": await offers(there, limit=limit),
            "closed": await offers(there, closed=True, limit=limit),
        }
    )  # fmt: skip


def _gathered(paid: list[Price]) -> list[wire.PriceFigures]:
    """One row for each kind and way of selling. The median is that of the ticks' medians, by trades."""
    by_kind: dict[tuple[str, str], list[Price]] = {}
    for one in paid:
        by_kind.setdefault((one.kind, one.sells), []).append(one)
    return [
        wire.PriceFigures(
            kind=kind, sells=sells, trades=sum(one.trades for one in prices),
            volume=sum(one.volume for one in prices), low=min(one.low for one in prices),
            median=_middle(prices), high=max(one.high for one in prices),
        )
        for (kind, sells), prices in sorted(by_kind.items())
    ]  # fmt: skip


def _middle(prices: list[Price]) -> float:
    ordered = sorted(prices, key=lambda one: one.median)
    half = sum(one.trades for one in ordered) / 2
    seen = 0
    for one in ordered:
        seen += one.trades
        if seen >= half:
            return one.median
    return 0.0
