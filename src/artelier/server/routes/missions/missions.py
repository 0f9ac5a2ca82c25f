"""`/missions`, and `/god-mode`: a goal becomes a plan with an estimate, and a plan a mission."""

from __future__ import annotations

import asyncio
from typing import Annotated

from fastapi import Query, Request, Response

from artelier.missions.plan.commands import fresh_mission_id, mission_object
from artelier.ports.model_params import check_params
from artelier.server.background_tasks import check, errands_of, key_of, send_work
from artelier.server.deps import Actor, Desk, Setup, Who, attachments_of, with_shown_workspace, workspace_of
from artelier.server.routes import resource
from artelier.server.security.identity import Identity
from artelier.server.wire import missions as wire
from artelier.server.wire.base import AfterNumber, Limit, Page

router = resource("missions")


@router.get("", operation_id="missions_list")
async def list_(
    desk: Desk,
    status: Annotated[str | None, Query(max_length=40)] = None,
    after: AfterNumber = 0,
    limit: Limit = 100,
    newest_first: Annotated[bool, Query(description="`after` is then where older ones go on.")] = False,
) -> Page[wire.MissionLine]:
    """Missions in the order of their start, or the newest first."""
    found = await desk.missions(status=status, after=after, limit=limit, newest_first=newest_first)
    return Page[wire.MissionLine].model_validate(found)


@router.get("/{id}", operation_id="missions_show")
async def show(desk: Desk, who: Who, id: str) -> wire.MissionShown:
    """A mission with its plan, agents, tasks and membranes."""
    found = with_shown_workspace(await desk.mission(id), desk=desk, who=who)
    return wire.MissionShown.model_validate(found)


god_mode_router = resource("god-mode")

WAIT_S_MAX = 300
PLANNING = ("pending", "running")

Wait = Annotated[
    float, Query(ge=0, le=WAIT_S_MAX, description="Seconds that the answer may wait for the plan.")
]


@god_mode_router.post("/plan", status_code=202)
async def plan(
    request: Request,
    response: Response,
    desk: Desk,
    by: Actor,
    who: Who,
    settings: Setup,
    asked: wire.PlanAsk,
    wait: Wait = 0,
) -> wire.Planned:
    """Take a goal apart. 202 while the plan is being made, 200 when it is there; nothing is launched."""
    mission, errands = asked.mission_id or fresh_mission_id(asked.goal), errands_of(request.app)
    key = key_of("mission", desk, mission)
    work = desk.plan(
        asked.goal,
        mission_id=mission,
        model=asked.model or settings.model,
        workspace=workspace_of(asked.workspace, desk=desk, who=who),
        budget_usd=asked.budget_usd,
        by=by,
        subject=asked.subject,
        at_most=asked.at_most,
        params=check_params(asked.params.given_fields()),
        attachments=await attachments_of(desk, by, asked.attachments),
    )
    errand = await send_work(errands, key, work, desk, run_id=mission)
    if wait:
        await asyncio.wait({errand.task}, timeout=wait)
    check(errands, key, errand)
    found = await _show_plan(desk, mission)
    response.status_code = 202 if found.status in PLANNING else 200
    return found


async def _show_plan(desk: Desk, mission: str) -> wire.Planned:
    return wire.Planned.model_validate({"mission": mission, **await mission_object(desk, mission)})


@god_mode_router.post("/launch")
async def launch_named(desk: Desk, by: Actor, who: Who, asked: wire.LaunchNamed) -> wire.MissionShown:
    """Say yes to a mission's plan, or to an edited one: it begins."""
    return await _launch(desk, asked.mission, asked, by=by, who=who)


@god_mode_router.post("/{mission}/launch")
async def launch(desk: Desk, by: Actor, who: Who, mission: str, asked: wire.LaunchAsk) -> wire.MissionShown:
    """Say yes to a mission's plan, or to an edited one: it begins."""
    return await _launch(desk, mission, asked, by=by, who=who)


async def _launch(
    desk: Desk, mission: str, asked: wire.LaunchAsk, *, by: str, who: Identity
) -> wire.MissionShown:
    edited = None if asked.plan is None else asked.plan.model_dump(mode="json")
    found = await desk.launch(mission, edited, by=by)
    return wire.MissionShown.model_validate(with_shown_workspace(found, desk=desk, who=who))
