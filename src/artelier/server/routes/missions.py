"""`/missions` and `/god-mode`, where a goal becomes a plan and a plan a mission.

`/tasks` is what is to be done. `/membranes` are shared pools of context: members read what is shared there,
from the next step on. `/steering`, of agents and membranes, says where the puck stands, which limits are hard
and which tools are on.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial
from typing import Annotated

from fastapi import Query, Request, Response

from artelier.artifacts.queries import find_written
from artelier.artifacts.space_session import PAGE_CHARS_MAX
from artelier.errors import AccessDenied, InvalidRequest, NotFound
from artelier.ids import MAIN_SPACE, OPERATOR
from artelier.kernel import Limits
from artelier.missions.membranes import MembraneView
from artelier.missions.mission_agents import change_membrane
from artelier.missions.plan.commands import check_same, fresh_mission_id, mission_job, mission_object
from artelier.missions.steering_document import SUFFIX, Steering, SteeringStore, bias
from artelier.missions.task.preview import upcoming
from artelier.missions.task.task_handle import check_start
from artelier.ports.model_params import check_params
from artelier.server.background_tasks import check, errands_of, key_of, send_work
from artelier.server.deps import (
    Actor,
    Desk,
    Setup,
    Who,
    attachments_of,
    check_mission,
    model_response,
    new_id,
    with_shown_workspace,
    workspace_of,
)
from artelier.server.routes import resource
from artelier.server.security.identity import Identity
from artelier.server.wire import missions as wire
from artelier.server.wire import runs
from artelier.server.wire.base import ID_CHARS_MAX, After, AfterNumber, Limit, Nothing, Page

router = resource("missions")


@router.get("", name="list_")
async def list_missions(
    desk: Desk,
    status: Annotated[str | None, Query(max_length=40)] = None,
    after: AfterNumber = 0,
    limit: Limit = 100,
    newest_first: Annotated[bool, Query(description="`after` is then where older ones go on.")] = False,
) -> Page[wire.MissionLine]:
    """Missions in the order of their start, or the newest first."""
    found = await desk.missions(status=status, after=after, limit=limit, newest_first=newest_first)
    return Page[wire.MissionLine].model_validate(found)


@router.get("/{id}", name="show")
async def show_mission(desk: Desk, who: Who, id: str) -> wire.MissionShown:
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
    model, folder = asked.model or settings.model, workspace_of(asked.workspace, desk=desk, who=who)
    work = desk.plan(
        asked.goal,
        mission_id=mission,
        model=model,
        fallbacks=asked.fallbacks,
        workspace=folder,
        budget_usd=asked.budget_usd,
        by=by,
        subject=asked.subject,
        at_most=asked.at_most,
        params=check_params(asked.params.given_fields()),
        attachments=await attachments_of(desk, by, asked.attachments),
    )

    async def check_begun() -> None:
        job = mission_job(
            desk, asked.goal, model=model, fallbacks=asked.fallbacks, workspace=folder, auto_launch=False
        )
        limits = Limits(usd=asked.budget_usd)
        await check_same(desk, mission, job, limits=limits, subject=asked.subject)

    errand = await send_work(errands, key, work, desk, run_id=mission, check_begun=check_begun)
    if wait:
        await asyncio.wait({errand.task}, timeout=wait)
    check(errands, key, errand)
    found = wire.Planned.model_validate({"mission": mission, **await mission_object(desk, mission)})
    response.status_code = 202 if found.status in PLANNING else 200
    return found


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


tasks_router = resource("tasks")

Name = Annotated[str | None, Query(max_length=ID_CHARS_MAX)]


@tasks_router.get("", name="list_", response_model=Page[wire.TaskLine])
async def list_tasks(
    desk: Desk,
    mission: Name = None,
    agent: Name = None,
    status: Annotated[str | None, Query(max_length=40)] = None,
    after: AfterNumber = 0,
    limit: Limit = 100,
) -> Response:
    """Tasks in the order of their making."""
    found = await desk.tasks.list(
        mission=mission, agent=agent, status=status, after=after, limit=limit, chars_max=PAGE_CHARS_MAX
    )
    size_bytes = sum(len(one["goal"]) for one in found["items"])
    return await model_response(size_bytes, partial(Page[wire.TaskLine].model_validate, found))


@tasks_router.post("", status_code=201, name="create")
async def create_task(
    desk: Desk, by: Actor, who: Who, settings: Setup, asked: wire.TaskNew
) -> wire.TaskShown:
    """Make a task. It is begun as soon as it has an agent and what it depends on is done."""
    is_own = asked.mission is None
    folder = workspace_of(asked.workspace, desk=desk, who=who) if is_own else ""
    made = await desk.tasks.create(
        goal=asked.goal,
        success_criteria=asked.success_criteria,
        assigned_agent_id=asked.assigned_agent_id,
        inputs=asked.inputs,
        depends_on=asked.depends_on,
        max_iterations=asked.max_iterations,
        id=asked.id,
        checks=asked.checks,
        only_checks=asked.only_checks,
        mission=asked.mission or "",
        model=asked.model or (settings.model if is_own else ""),
        workspace=folder,
        by=by,
    )
    return wire.TaskShown.model_validate(made)


@tasks_router.get("/{id}", name="show")
async def show_task(desk: Desk, id: str) -> wire.TaskShown:
    """A task with its criteria and its iterations."""
    return wire.TaskShown.model_validate(await desk.tasks.show(id))


@tasks_router.patch("/{id}", name="change")
async def change_task(desk: Desk, by: Actor, id: str, asked: wire.TaskChange) -> wire.TaskShown:
    """Change a task that nobody works on: assign it, or change criteria, inputs and limits."""
    return wire.TaskShown.model_validate(await desk.tasks.change(id, **asked.given_fields(), by=by))


@tasks_router.get("/{id}/iterations", name="iterations")
async def task_iterations(desk: Desk, id: str) -> wire.IterationList:
    """Return what was decided in each iteration, what came of it, and how it was judged."""
    return wire.IterationList.model_validate({"items": (await desk.tasks.show(id))["iterations"]})


@tasks_router.post("/{id}/start", status_code=202, name="start")
async def start_task(request: Request, desk: Desk, id: str, asked: Nothing) -> wire.TaskShown:
    """Let its agent begin with it, or go on, while the answer is on its way."""
    await check_start(desk, id)
    key = key_of("task", desk, id)
    await send_work(errands_of(request.app), key, desk.tasks.start(id, on_wait="suspend"), desk, run_id=id)
    return wire.TaskShown.model_validate(await desk.tasks.show(id))


@tasks_router.post("/{id}/retry", name="retry")
async def retry_task(desk: Desk, by: Actor, id: str, asked: wire.Retrying | None = None) -> wire.TaskShown:
    """Let a task that failed, was blocked, or was cancelled before it began be worked on again."""
    most = None if asked is None else asked.max_iterations
    return wire.TaskShown.model_validate(await desk.tasks.retry(id, max_iterations=most, by=by))


@tasks_router.post("/{id}/accept", name="accept")
async def accept_task(desk: Desk, by: Actor, id: str, asked: wire.Judging) -> wire.TaskShown:
    """Accept an output of a task that has ended: it is done, whatever an evaluator has said."""
    told = await desk.tasks.judge(id, accepted=True, output=asked.output, note=asked.note, by=by)
    return wire.TaskShown.model_validate(told)


@tasks_router.post("/{id}/reject", name="reject")
async def reject_task(desk: Desk, by: Actor, id: str, asked: wire.Judging) -> wire.TaskShown:
    """Reject an output of a task that has ended: it has failed; its agent reads the note when retried."""
    told = await desk.tasks.judge(id, accepted=False, output=asked.output, note=asked.note, by=by)
    return wire.TaskShown.model_validate(told)


@tasks_router.post("/{id}/cancel", name="cancel")
async def cancel_task(desk: Desk, by: Actor, id: str, asked: runs.Note) -> wire.TaskShown:
    """End a task for good."""
    return wire.TaskShown.model_validate(await desk.tasks.cancel(id, by=by, note=asked.note))


membranes_router = resource("membranes")


@membranes_router.get("", name="list_")
async def list_membranes(
    desk: Desk,
    mission: Annotated[str | None, Query(max_length=ID_CHARS_MAX)] = None,
    after: After = None,
    limit: Limit = 100,
) -> Page[wire.MembraneLine]:
    """Membranes, of one mission by id or else all in the order of their making."""
    found: list[MembraneView] = []
    while len(found) <= limit:
        page = await desk.membranes.list(mission, limit=limit + 1, after=after)
        if not page:
            break
        found, after = [*found, *page], page[-1].id
    following = found[limit - 1].id if len(found) > limit else None
    return Page[wire.MembraneLine].model_validate({"items": found[:limit], "next": following})


@membranes_router.post("", status_code=201, name="create")
async def create_membrane(desk: Desk, by: Actor, asked: wire.MembraneNew) -> wire.MembraneShown:
    """Make a membrane with its members."""
    await check_mission(desk, asked.mission)
    id = new_id(asked.id, asked.name, mission=asked.mission, folder="membranes")
    if asked.mission and not id.startswith(f"{asked.mission}/"):
        raise InvalidRequest(
            "what belongs to a mission is named after it", expected=f"{asked.mission}/<slug>", got=id[:140]
        )
    await desk.membranes.create(
        id, name=asked.name, members=asked.members, budget_usd=asked.budget_usd, by=by
    )
    return await _show_membrane(desk, id)


@membranes_router.get("/{id}", name="show")
async def show_membrane(desk: Desk, id: str) -> wire.MembraneShown:
    """A membrane with its members and the first of what it shares."""
    return await _show_membrane(desk, id)


async def _show_membrane(desk: Desk, id: str) -> wire.MembraneShown:
    return wire.MembraneShown.model_validate(await desk.membranes.show(id))


@membranes_router.patch("/{id}", name="change")
async def update_membrane(desk: Desk, by: Actor, id: str, asked: wire.MembraneChange) -> wire.MembraneShown:
    """Change its name, or its budget, which is a cap at once."""
    await change_membrane(
        desk, id, asked.given_fields("expected_version"), by=by, expected_version=asked.expected_version
    )
    return await _show_membrane(desk, id)


@membranes_router.get("/{id}/shared", name="shared")
async def shared_by_membrane(
    desk: Desk, id: str, after: After = None, limit: Limit = 100
) -> Page[wire.Shared]:
    """Return what its members may read, by id. A page may be short although more follow."""
    await desk.membranes.show(id)
    page = await desk.as_principal(OPERATOR).artifacts.shared(id, limit=limit, after=after)
    return Page[wire.Shared].model_validate({"items": list(page.items), "next": page.next})


@membranes_router.post("/{id}/join", name="join")
async def join_membrane(desk: Desk, by: Actor, id: str, asked: wire.Member) -> wire.MembraneShown:
    """Let an agent read what is shared, from its next step on."""
    await desk.membranes.join(id, asked.agent, by)
    return await _show_membrane(desk, id)


@membranes_router.post("/{id}/leave", name="leave")
async def leave_membrane(desk: Desk, by: Actor, id: str, asked: wire.Member) -> wire.MembraneShown:
    """Take that right away, at once."""
    await desk.membranes.leave(id, asked.agent, by)
    return await _show_membrane(desk, id)


@membranes_router.post("/{id}/share", name="share")
async def share_in_membrane(desk: Desk, by: Actor, id: str, asked: wire.SharedOne) -> wire.MembraneShown:
    """Let the members read an artifact."""
    await desk.membranes.share(id, asked.artifact, by)
    return await _show_membrane(desk, id)


@membranes_router.post("/{id}/unshare", name="unshare")
async def unshare_in_membrane(desk: Desk, by: Actor, id: str, asked: wire.SharedOne) -> wire.MembraneShown:
    """Take the members' right to read an artifact away."""
    await desk.membranes.unshare(id, asked.artifact, by)
    return await _show_membrane(desk, id)


steering_router = resource("steering")

MEMBERS_MAX = 100
"""Members of a membrane of which it is said from where on a change counts."""

Place = Annotated[float, Query(ge=0, le=1)]


@steering_router.get("", name="list_")
async def list_steering(desk: Desk, after: After = None, limit: Limit = 100) -> Page[wire.SteeringShown]:
    """All steering that there is, in the order of its making; what says no steering is left out."""
    artifacts = desk.as_principal(OPERATOR).artifacts
    page = await artifacts.list(kind="steering", limit=limit + 1, after=after)
    items: list[wire.SteeringShown] = []
    for one in page[:limit]:
        with suppress(NotFound, AccessDenied, InvalidRequest):
            items.append(await _show_steering(desk, one.id))
    following = page[limit - 1].id if len(page) > limit else None
    return Page[wire.SteeringShown](items=items, next=following)


@steering_router.get("/preview", name="preview")
async def preview_steering(x: Place = 0.5, y: Place = 0.5, safety: wire.Safety = "open") -> wire.PolicyOut:
    """Return what a puck would ask for. Nothing is saved."""
    return _policy(Steering(x=x, y=y, safety=safety))


@steering_router.get("/{id}", name="show")
async def show_steering(desk: Desk, id: str) -> wire.SteeringShown:
    """Steering of an agent or a membrane, by its id or that of its steering."""
    return await _show_steering(desk, id)


@steering_router.patch("/{id}", name="change")
async def change_steering(desk: Desk, by: Actor, id: str, asked: wire.SteeringPatch) -> wire.SteeringShown:
    """Steer: a new version, in force from the iteration that the answer names."""
    patch = asked.given_fields("expected_version")
    await SteeringStore(desk).change(id, patch, by=by, expected_version=asked.expected_version)
    return await _show_steering(desk, id)


def _policy(steering: Steering) -> wire.PolicyOut:
    return wire.PolicyOut.model_validate(bias(steering))


async def _show_steering(desk: Desk, id: str) -> wire.SteeringShown:
    found = await SteeringStore(desk).show(id)
    changed = await find_written(desk.services.store, desk.id, MAIN_SPACE, found.id, found.version)
    return wire.SteeringShown.model_validate(
        {
            "id": found.id,
            "about": found.about,
            "version": found.version,
            **found.steering.content(),
            "policy": found.policy,
            "in_force": found.in_force.content(),
            "policy_in_force": _policy(found.in_force),
            "from_iteration": await _from(desk, found.about),
            "changed_us": changed.at_us if changed else None,
            "changed_by": changed.by if changed else None,
        }
    )


async def _from(desk: Desk, about: str) -> list[wire.InForceFrom]:
    """Return where a change counts: for the agent itself, or for each member of a membrane."""
    artifact = await desk.as_principal(OPERATOR).artifacts.read(about.removesuffix(SUFFIX))
    agents = [about]
    if artifact.kind == "membrane":
        agents = (await desk.membranes.show(about)).members[:MEMBERS_MAX]
    comes = [await upcoming(desk, agent) for agent in agents]
    return [
        wire.InForceFrom(agent=one.agent, task=one.task, iteration=one.iteration, is_begun=one.is_begun)
        for one in comes
        if one is not None
    ]
