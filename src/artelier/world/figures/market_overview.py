"""The market of a world at a glance: offers, and what was paid lately."""

from __future__ import annotations

from typing import Any

from artelier.world.figures.metrics import TickPrice, tick_metrics
from artelier.world.queries import offers
from artelier.world.world import World

TICKS = 200
"""Over which prices are gathered."""


async def market(world: World, *, limit: int = 100) -> dict[str, Any]:
    """`{world, tick, from_tick, prices, open, closed}`; at most `limit` offers of each, none in both.

    `prices` has a `Price` for each kind and way of selling, over the last `TICKS` ticks together.
    """
    now = await world.tick_now()
    first = max(1, now - TICKS + 1)
    paid = (
        [price async for one in tick_metrics(world, from_tick=first, to_tick=now) for price in one.prices]
        if now
        else []
    )
    for_sale = await offers(world, limit=limit)
    shown = {one["offer"] for one in for_sale}
    # One that sells copies has sold some and is for sale still.
    gone = await offers(world, closed=True, limit=limit + len(for_sale))
    return {
        "world": world.id,
        "tick": now,
        "from_tick": first,
        "prices": merge_prices(paid),
        "open": for_sale,
        "closed": [one for one in gone if one["offer"] not in shown][:limit],
    }


def merge_prices(paid: list[TickPrice]) -> list[TickPrice]:
    """One row for each kind and way of selling. The median is that of the ticks' medians, by trades."""
    by_kind: dict[tuple[str, str], list[TickPrice]] = {}
    for one in paid:
        by_kind.setdefault((one.kind, one.sells), []).append(one)
    return [
        TickPrice(
            kind=kind,
            sells=sells,
            trades=sum(one.trades for one in prices),
            volume=sum(one.volume for one in prices),
            low=min(one.low for one in prices),
            median=_middle(prices),
            high=max(one.high for one in prices),
        )
        for (kind, sells), prices in sorted(by_kind.items())
    ]


def _middle(prices: list[TickPrice]) -> float:
    ordered = sorted(prices, key=lambda one: one.median)
    half = sum(one.trades for one in ordered) / 2
    seen = 0
    for one in ordered:
        seen += one.trades
        if seen >= half:
            return one.median
    return 0.0


__all__ = ["market"]
