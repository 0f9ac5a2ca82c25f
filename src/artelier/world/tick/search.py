"""Search as an action: what an agent may read, at the end of the tick before."""

from __future__ import annotations

from typing import Any

from artelier.artifacts import search as text_search
from artelier.artifacts.write.space_session import Door
from artelier.world.clock import TickClock
from artelier.world.tick.tick_context import ActionStep
from artelier.world.tick.world_state import WorldStage


async def find(
    step: ActionStep, *, text: str, kind: str | None, owner: str | None, limit: int
) -> list[dict[str, Any]]:
    """`{id, kind, version, owner, prices}` of each artifact found, newest first; no content."""
    scene = step.scene
    door = Door(
        scene.stage.store,
        TickClock.at(scene.tick),
        scene.tenant,
        scene.space,
        step.agent,
        scene.interpreter,
        step.decisions,
        WorldStage,
    )
    return await list_found(door, text=text, kind=kind, owner=owner, limit=limit)


async def list_found(
    door: Door, *, text: str, kind: str | None, owner: str | None, limit: int
) -> list[dict[str, Any]]:
    """`{id, kind, version, owner, prices}` of what the principal of a door finds."""
    found = await text_search.find(door, text=text, kind=kind, owner=owner, limit=limit)
    return [
        {
            "id": one.id,
            "kind": one.kind,
            "version": one.version,
            "owner": one.owner,
            "prices": {
                "read": one.prices.read,
                "invoke": one.prices.invoke,
                "inclusion": one.prices.inclusion,
            },
        }
        for one in found
    ]
