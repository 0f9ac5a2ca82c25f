"""The commands of people on missions: make a plan for a goal, and launch it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

from artelier.agents.launch import check_goal
from artelier.errors import Conflict, InvalidRequest, NotFound
from artelier.ids import fresh_secret
from artelier.kernel import Limits, run_row
from artelier.kernel.queries.content import blob_json
from artelier.kernel.queries.steps import open_approvals
from artelier.kernel.run.context import is_final
from artelier.loops.cycle import host_tools
from artelier.missions.definition import TEXT_CHARS_MAX
from artelier.missions.plan.mission_loop import LAUNCH
from artelier.missions.plan.mission_queries import checked_plan, mission_object
from artelier.missions.plan.mission_runner import check_mission_id, conduct, kit, recorded_job
from artelier.missions.plan.planner import MissionJob, is_plain_question, plain_plan, usable
from artelier.missions.queries import launched_at, mission_row
from artelier.missions.steering.document import Steering
from artelier.missions.task.task_config import LOOP as TASK_LOOP
from artelier.ports.model_params import check_params


async def plan_mission(
    desk: Any,
    goal: str,
    *,
    mission_id: str | None,
    model: str | None,
    workspace: str,
    auto_launch: bool,
    budget_usd: str | None,
    plan: Mapping[str, Any] | None,
    limits: Limits | None,
    by: str,
    subject: str = "",
    at_most: bool = False,
    params: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """See `MissionsHandle.plan`."""
    params = check_params(params or {})
    job = mission_job(
        desk, goal, model=model, workspace=workspace, auto_launch=auto_launch, plan=plan, at_most=at_most
    )
    mission = check_mission_id(mission_id) if mission_id else fresh_mission_id(goal)
    await check_same(desk, mission, job)
    if budget_usd is not None:
        limits = replace(limits or Limits(), usd=budget_usd)
    await conduct(
        desk, mission, job, limits=limits, until_launch=not auto_launch, by=by, subject=subject, params=params
    )
    shown = await mission_object(desk, mission)
    return {
        "mission": mission,
        "status": shown["status"],
        "reason": shown["reason"],
        "message": shown["message"],
        "plan": shown["plan"],
        "estimate": shown["estimate"],
    }


def mission_job(
    desk: Any,
    goal: str,
    *,
    model: str | None,
    workspace: str,
    auto_launch: bool,
    plan: Mapping[str, Any] | None = None,
    at_most: bool = False,
    is_plain: bool = False,
) -> MissionJob:
    """Return what a mission is asked to do. `is_plain`: a plain question is one task, without planning.

    Errors: `InvalidRequest`; `NotFound` for a folder that is not there.
    """
    check_goal(goal)
    if not model:
        raise InvalidRequest("a mission needs a model", expected='model="offline" or another name')
    folder = ""
    if workspace:
        folder = desk.services.workspaces.check(desk.id, workspace)
    given, brought = None, host_tools(desk.services) if folder else ()
    if plan is not None:
        given = checked_plan(dict(plan))
        usable(desk.services, given, tools=kit(desk, folder, brought))
    looks = is_plain and given is None and is_plain_question(goal)
    if looks:
        given = checked_plan(plain_plan(goal, kit(desk, folder, brought).values()))
    return MissionJob(
        goal=goal,
        model=model,
        workspace=folder,
        host_tools=brought,
        auto_launch=auto_launch,
        plan=given,
        at_most=at_most,
        looks=looks,
    )


async def check_same(desk: Any, mission: str, job: MissionJob) -> None:
    """Errors: `Conflict` if a run has this id and is about something else."""
    from artelier.tokens import canonical_name

    stored = await recorded_job(desk, mission)
    if stored is None:
        return
    for name, what in (("goal", "goal"), ("workspace", "workspace"), ("model", "model")):
        have, want = getattr(stored, name), getattr(job, name)
        if name == "model":
            have, want = canonical_name(have), canonical_name(want)
        if not desk.services.is_stored(desk.id, name, want, as_=have):
            raise Conflict(
                f"run {mission} exists with another {what}",
                expected=repr(have)[:200],
                got=repr(want)[:200],
                hint="Give the same one to go on with it, or another id to start anew.",
            )


async def launch_mission(
    desk: Any, mission: str, plan: Mapping[str, Any] | None, *, by: str
) -> dict[str, Any]:
    """See `MissionsHandle.launch`."""
    job = await recorded_job(desk, mission)
    if job is None:
        raise NotFound(f"no mission {mission!r}")
    is_launched = (await mission_row(desk, mission)).launched_us is not None
    row = await run_row(desk.services.store, desk.id, mission)
    if is_launched or is_final(row.status):
        raise Conflict(
            f"mission {mission!r} was launched already" if is_launched else f"mission {mission!r} has ended",
            got=row.status,
            hint="Plan another mission; a fork of this one from before its launch can be edited.",
        )
    asked = await open_question(desk, mission)
    edited = None
    if plan is not None:
        edited = checked_plan(dict(plan))
        usable(desk.services, edited, tools=kit(desk, job.workspace, job.host_tools))
    else:
        question: dict[str, Any] = await blob_json(desk.services, desk.id, asked[1]) or {}
        usable(desk.services, question["details"]["plan"], tools=kit(desk, job.workspace, job.host_tools))
    await desk.approve(mission, asked[0], arguments=edited, by=by)
    return await mission_object(desk, mission)


async def open_question(desk: Any, mission: str) -> tuple[str, str]:
    """Step and question of a launch that waits for an answer. Errors: `Conflict` if none does."""
    for asked in await open_approvals(desk.services.store, desk.id, run_id=mission):
        if asked.key == LAUNCH or asked.key.startswith(f"{LAUNCH}/"):
            return asked.key, asked.question
    raise Conflict(
        "this mission does not ask for its launch",
        expected="a plan that waits for an answer",
        hint="Go on with it first: artelier resume MISSION.",
    )


async def check_fork(desk: Any, run_id: str, *, at: int | None, changes: Mapping[str, Any] | None) -> None:
    """Errors: `Conflict` for a fork of a mission from after its launch; `NotFound` for other steering of a
    run of a loop that goes by none, `InvalidRequest` for what is no steering of a task.
    """
    is_mapping = isinstance(cast(object, changes), Mapping)  # else the kernel says what it expects
    if changes is not None and is_mapping and (given := changes.get("steering")) is not None:
        await _check_steering(desk, run_id, given)
    launched = await launched_at(desk, run_id)
    if launched is None or (isinstance(at, int) and at < launched):
        return
    raise Conflict(
        f"mission {run_id!r} was launched, and its tasks are runs that a fork does not share",
        expected=f"a fork from before event {launched}",
        got=at or "its newest event",
        hint="Fork one of its tasks (`artelier runs tree` names them), or the mission with --at"
        f" {launched - 1}.",
    )


async def _check_steering(desk: Any, run_id: str, given: Any) -> None:
    loop = (await run_row(desk.services.store, desk.id, run_id)).loop
    if loop == TASK_LOOP:
        Steering.parse(given)
    elif loop:  # code that is written by hand may read it
        raise NotFound(
            f"run {run_id!r} goes by no steering, so that this fork would change nothing",
            expected="a run of a task",
            got=f"a run of the loop {loop!r}",
            hint="Fork one of the mission's tasks (`artelier runs tree` names them), or another model.",
        )


def fresh_mission_id(goal: str) -> str:
    """A readable id: the first words of the goal and four random characters."""
    name = ""
    for word in re.findall(r"[a-z0-9]+", goal[:TEXT_CHARS_MAX].lower()):
        if len(name) + len(word) > 28:
            break
        name = f"{name}-{word}" if name else word
    alphabet = "abcdefghjkmnpqrstuvwxyz23456789"  # none that are mistaken for another
    tail = "".join(alphabet[byte % len(alphabet)] for byte in fresh_secret(4))
    return f"{name or 'mission'}-{tail}"
