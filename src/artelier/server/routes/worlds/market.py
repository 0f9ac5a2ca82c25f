"""`/market?world=`: what is for sale in a world, what was sold, and at which prices."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query

from artelier.server.deps import Desk
from artelier.server.routes import resource
from artelier.server.routes.worlds.worlds import world_of
from artelier.server.wire import worlds as wire
from artelier.server.wire.base import Limit
from artelier.world.figures.metrics import market

router = resource("market")


@router.get("", operation_id="market_show")
async def show(
    desk: Desk,
    world: Annotated[str, Query(max_length=128, description="Id of the world.")],
    limit: Limit = 100,
) -> wire.Market:
    """Open offers, those that sold or closed, and prices by kind over the last ticks."""
    return wire.Market.model_validate(await market(world_of(desk, world), limit=limit))
