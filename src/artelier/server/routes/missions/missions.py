"""`/missions`: goals, their plans, and what came of them. Pause, stop and cancel are those of `/runs`."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query

from artelier.server.deps import Desk, Who
from artelier.server.routes import resource
from artelier.server.routes.missions.mission_common import with_shown_workspace
from artelier.server.wire import missions as wire
from artelier.server.wire.base import AfterNumber, Limit, Page

router = resource("missions")


@router.get("", operation_id="missions_list")
async def list_(
    desk: Desk,
    status: Annotated[str | None, Query(max_length=40)] = None,
    after: AfterNumber = 0,
    limit: Limit = 100,
) -> Page[wire.MissionLine]:
    """Missions in the order of their start."""
    found = await desk.missions(status=status, after=after, limit=limit)
    return Page[wire.MissionLine].model_validate(found)


@router.get("/{id}", operation_id="missions_show")
async def show(desk: Desk, who: Who, id: str) -> wire.MissionShown:
    """A mission with its plan, agents, tasks and membranes."""
    found = with_shown_workspace(await desk.mission(id), desk=desk, who=who)
    return wire.MissionShown.model_validate(found)
