"""The commands of people on missions: make a plan for a goal, and launch it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, cast

from artelier.agents.launch import check_goal
from artelier.errors import Conflict, InvalidRequest, NotFound
from artelier.ids import fresh_secret
from artelier.kernel import Limits, run_row
from artelier.kernel.erasure import check_about
from artelier.kernel.queries.content import blob_json, shown_fields, shown_json
from artelier.kernel.queries.reports import approvals, family_total
from artelier.kernel.queries.runs import RunRow, asked_below, totals
from artelier.kernel.queries.steps import open_approvals
from artelier.kernel.run.context import is_final
from artelier.kernel.run.status import FINAL
from artelier.kernel.run_limits import check_limits
from artelier.kernel.steps.failures import check_models
from artelier.kernel.tenants.registry import TenantScope
from artelier.ledger.queries import scope_limits
from artelier.loops.cycle import host_tools
from artelier.missions.definition import TEXT_CHARS_MAX, TOOLS_MAX, Plan, validate_form
from artelier.missions.membranes import Membranes
from artelier.missions.mission_agents import agent_line
from artelier.missions.plan.mission_loop import LAUNCH
from artelier.missions.plan.mission_runner import check_mission_id, conduct, kit, recorded_job
from artelier.missions.plan.planner import LOOP, MissionJob, is_plain_question, plain_plan, usable
from artelier.missions.queries import (
    PAGE_MAX,
    MissionRow,
    agent_ids,
    goals,
    launched_at,
    mission_row,
    report_of,
    standings,
    task_message,
    task_page,
)
from artelier.missions.reports import (
    AttachmentReport,
    MissionDetail,
    MissionEstimate,
    MissionPage,
    MissionReport,
    PlannedMission,
    TaskReport,
)
from artelier.missions.status import GOAL_REASONS, goal_status, reason_sentence, short_name
from artelier.missions.steering_document import TOOLS_MAX as STEERED_MAX
from artelier.missions.steering_document import Steering
from artelier.missions.task.actions import DELEGATE
from artelier.missions.task.loop_state import LOOP as TASK_LOOP
from artelier.missions.view import DEPENDENCY_FAILED
from artelier.ports.model_params import check_params
from artelier.tools.client_tool import read_client_tools

BLOCKED_SAID_MAX = 3
"""Tasks that are not done of which a goal says why."""
TASKS_SHOWN = 500


async def mission_page(
    desk: TenantScope,
    *,
    status: str | None = None,
    after: int = 0,
    limit: int = 100,
    newest_first: bool = False,
) -> MissionPage:
    """Return missions in the order of their start, or the newest first."""
    limit = max(1, min(limit, PAGE_MAX))
    rows = await goals(desk, status=status, after=after, limit=limit + 1, newest_first=newest_first)
    page = rows[:limit]
    sums = await totals(desk.services.store, desk.id, [row.mission for row in page])
    items: list[MissionReport] = [
        {
            "id": run,
            "goal": await shown_json(desk.services, desk.id, goal),
            "status": state,
            "reason": reason,
            "model": model,
            "launched_us": launched_us,
            "started_us": started_us,
            "ended_us": ended_us,
            "tasks": tasks,
            "done": done,
            "cost_microusd": sums[run].total_cost_microusd,
        }
        for _, run, goal, state, reason, model, launched_us, started_us, ended_us, tasks, done in page
    ]
    return {"items": items, "next": page[-1].position if len(rows) > limit else None}


async def mission_object(desk: TenantScope, mission: str) -> MissionDetail:
    """Return a mission with all that belongs to it.

    Once its run has ended, `status` is that of its tasks: see `status.goal_status`; so is what it hands
    over. Errors: `NotFound`, also for a run that is no mission.
    """
    services = desk.services
    row = await run_row(services.store, desk.id, mission)
    if row.loop != LOOP:
        raise NotFound(f"no mission {mission!r}", got=f"a run of loop {row.loop or 'own code'}")
    settings = await shown_fields(services, desk.id, row.settings)
    result: Any = await shown_json(services, desk.id, row.result)
    fields = cast("dict[str, Any]", result) if isinstance(result, dict) else {}
    planned = await mission_row(desk, mission)
    tasks = await task_page(
        desk, mission=mission, agent=None, status=None, after=0, limit=TASKS_SHOWN, with_forks=False
    )
    sums = (await totals(services.store, desk.id, [mission]))[mission]
    asked = [mission, *dict.fromkeys(run for run, _ in await asked_below(services.store, desk.id, mission))]
    ended = await _goal_end(desk, row, [one for one in tasks["items"] if _is_own(one)], fields)
    return {
        "id": mission,
        "goal": await shown_json(services, desk.id, row.goal),
        "status": ended.status,
        "run_status": row.status,
        "reason": ended.reason,
        "message": ended.message,
        "model": row.model,
        "fallbacks": settings.get("fallbacks", []),
        "workspace": settings.get("workspace", ""),
        "attachments": _attachments(settings),
        "plan": await shown_json(services, desk.id, planned.plan),
        "estimate": _estimate(planned, is_limit=bool(settings.get("at_most"))),
        "edited": planned.edited,
        "planned_us": planned.planned_us,
        "launched_us": planned.launched_us,
        "started_us": row.started_us,
        "ended_us": row.ended_us,
        "agents": [await agent_line(desk, agent) for agent in await agent_ids(desk, mission)]
        if planned.launched_us is not None
        else [],
        "tasks": tasks["items"],
        "membranes": [asdict(one) for one in await Membranes(desk).list(mission)]
        if planned.launched_us is not None
        else [],
        "cost_microusd": sums.total_cost_microusd,
        "usage": family_total(sums)["total_usage"],
        "budget_microusd": await _cap(desk, f"run:{mission}"),
        "outputs": ended.outputs,
        "text": ended.text,
        "artifact": ended.outputs[-1] if ended.outputs else None,
        "approvals": [one for run in asked for one in await approvals(services, desk.id, run_id=run)],
    }


def _attachments(settings: dict[str, Any]) -> list[AttachmentReport]:
    """Return what came with a goal; nothing of one that was erased."""
    if not settings.get("attachments"):
        return []
    return [
        {
            "media_type": one.media_type,
            "size_bytes": one.size_bytes,
            "pages": one.pages,
            "pixels": one.pixels,
            "seconds": one.seconds,
            "blob": one.blob,
        }
        for one in MissionJob.from_stored(settings).media
    ]


def _estimate(planned: MissionRow, *, is_limit: bool) -> MissionEstimate | None:
    if planned.plan is None:
        return None
    estimate: MissionEstimate = {"calls": planned.calls, "cost_microusd": planned.cost}
    if is_limit:
        estimate["is_limit"] = True
    return estimate


def _is_own(task: TaskReport) -> bool:
    """Return True if a task is one of its goal's own: assigned, and delegated by no other."""
    return task["parent"] is None and task["assigned_agent_id"] is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class _GoalEnd:
    """The status of a goal, and what it hands over."""

    status: str
    reason: str
    message: str
    outputs: list[str]
    text: str


async def _goal_end(
    desk: TenantScope, row: RunRow, tasks: Sequence[TaskReport], result: dict[str, Any]
) -> _GoalEnd:
    status = goal_status((await standings(desk, row.run)).values(), run_status=row.status)
    end = _GoalEnd(
        status=status,
        reason=row.reason,
        message=await shown_json(desk.services, desk.id, row.message) or "",
        outputs=result.get("outputs", []),
        text=result.get("text", ""),
    )
    if row.status not in FINAL or not tasks:
        return end
    if status != row.status:  # its tasks have come to something else since
        end = replace(end, reason=GOAL_REASONS.get(status, ""), message="")
    if end.reason in GOAL_REASONS.values():
        end = replace(end, message=_why_not_done(tasks))
    if status == "blocked":  # what is missing says more than the names of its tasks
        first = [
            one["id"] for one in tasks if one["status"] == "blocked" and one["reason"] != DEPENDENCY_FAILED
        ]
        words = [text for task in first[:BLOCKED_SAID_MAX] if (text := await task_message(desk, task))]
        end = replace(end, message=" ".join(words) or end.message)
    needed = {before for one in tasks for before in one["depends_on"]}
    outputs = [ref for one in tasks if one["id"] not in needed for ref in one["outputs"]]
    is_other = status == "completed" and sorted(outputs) != sorted(end.outputs)
    if status != row.status or is_other:
        text = await report_of(desk, outputs) if status == "completed" else ""
        end = replace(end, outputs=outputs, text=text)
    return end


def _why_not_done(tasks: Sequence[TaskReport]) -> str:
    """Return why tasks are not done, a sentence each; the causes first, then what waits for them."""
    bad = [one for one in tasks if one["status"] != "done"]
    bad.sort(key=lambda one: one["reason"] == DEPENDENCY_FAILED)
    said = [
        reason_sentence(
            short_name(one["id"]),
            status=one["status"],
            reason=one["reason"],
            blocked_by=one["blocked_by"] or "",
        )
        for one in bad[:BLOCKED_SAID_MAX]
    ]
    if len(bad) > BLOCKED_SAID_MAX:
        said.append(f"{len(bad) - BLOCKED_SAID_MAX} more are not done.")
    return " ".join(said)


async def _cap(desk: TenantScope, scope: str) -> int | None:
    return next(
        (one.cap for one in await scope_limits(desk.services.store, desk.id, scope) if one.unit == "usd"),
        None,
    )


def checked_plan(value: object) -> Plan:
    """A plan with its defaults. Errors: `InvalidRequest`."""
    return validate_form(Plan, value, what="the plan")


async def plan_mission(
    desk: TenantScope,
    goal: str,
    *,
    mission_id: str | None,
    model: str | None,
    fallbacks: Sequence[str] = (),
    workspace: str,
    auto_launch: bool,
    budget_usd: str | None,
    plan: Mapping[str, Any] | None,
    limits: Limits | None,
    by: str,
    subject: str = "",
    at_most: bool = False,
    params: Mapping[str, Any] | None = None,
    attachments: Sequence[bytes] = (),
    client_tools: Sequence[Mapping[str, Any]] = (),
    on_wait: str = "await",
) -> PlannedMission:
    """See `MissionsHandle.plan`."""
    params = check_params(params or {})
    job = mission_job(
        desk,
        goal,
        model=model,
        fallbacks=fallbacks,
        workspace=workspace,
        auto_launch=auto_launch,
        plan=plan,
        at_most=at_most,
        client_tools=client_tools,
    )
    mission = check_mission_id(mission_id) if mission_id else fresh_mission_id(goal)
    await check_same(desk, mission, job)
    if budget_usd is not None:
        limits = replace(limits or Limits(), usd=budget_usd)
    await conduct(
        desk,
        mission,
        job,
        on_wait=on_wait,
        limits=limits,
        until_launch=not auto_launch,
        by=by,
        subject=subject,
        params=params,
        attachments=attachments,
    )
    # Another server may have begun one of this id meanwhile.
    await check_same(desk, mission, job, limits=limits, subject=subject)
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
    desk: TenantScope,
    goal: str,
    *,
    model: str | None,
    fallbacks: Sequence[str] = (),
    workspace: str,
    auto_launch: bool,
    plan: Mapping[str, Any] | None = None,
    at_most: bool = False,
    is_plain: bool = False,
    client_tools: Sequence[Mapping[str, Any]] = (),
) -> MissionJob:
    """Return what a mission is asked to do. `is_plain`: a plain question is one task, without planning.
    `client_tools`: definitions of those that a client runs.

    Errors: `InvalidRequest`; `NotFound` for a folder that is not there.
    """
    check_goal(goal)
    if not model:
        raise InvalidRequest("a mission needs a model", expected='model="offline" or another name')
    model, *others = check_models(None, (model, *fallbacks))
    folder = ""
    if workspace:
        folder = desk.services.workspaces.check(desk.id, workspace)
    given, brought = None, host_tools(desk.services) if folder else ()
    there = kit(desk, folder, brought)
    own = read_client_tools(client_tools, taken={*there, DELEGATE})
    there.update((one.name, one) for one in own)
    if len(there) > STEERED_MAX:
        raise InvalidRequest(
            "these are more tools than a mission can have",
            expected=f"at most {STEERED_MAX}",
            got=len(there),
            hint="Leave out files of tools or MCP servers that the goal does not need.",
        )
    if plan is not None:
        given = checked_plan(dict(plan))
        usable(desk.services, given, tools=there)
    # One agent cannot have more: which it needs is for a planner to say.
    looks = is_plain and given is None and len(there) <= TOOLS_MAX and is_plain_question(goal)
    if looks:
        given = plain_plan(goal, there.values())
    return MissionJob(
        goal=goal,
        model=model,
        fallbacks=tuple(others),
        workspace=folder,
        host_tools=brought,
        auto_launch=auto_launch,
        plan=None if given is None else given.model_dump(mode="json"),
        at_most=at_most,
        looks=looks,
        client_tools=tuple(one.to_stored() for one in own),
    )


async def check_same(
    desk: TenantScope, mission: str, job: MissionJob, *, limits: Limits | None = None, subject: str = ""
) -> None:
    """Errors: `Conflict` if a run has this id and is about something else, or began under other limits."""
    stored = await recorded_job(desk, mission)
    if stored is None:
        return
    for name, have, want in (
        ("goal", stored.goal, job.goal),
        ("workspace", stored.workspace, job.workspace),
        ("model", _models_of(stored), _models_of(job)),
    ):
        if not desk.services.is_stored(desk.id, name, want, as_=have):
            raise Conflict(
                f"run {mission} exists with another {name}",
                expected=repr(have)[:200],
                got=repr(want)[:200],
                hint="Give the same one to go on with it, or another id to start anew.",
            )
    if subject:
        await check_about(desk.services.store, desk.id, mission, subject)
    await check_limits(desk.services, desk.id, mission, limits)


def _models_of(job: MissionJob) -> str:
    from artelier.tokens import canonical_name

    return ", ".join(map(canonical_name, job.models))


async def launch_mission(
    desk: Any, mission: str, plan: Mapping[str, Any] | None, *, by: str
) -> MissionDetail:
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
    there = kit(desk, job.workspace, job.host_tools, job.client_tools)
    edited = None
    if plan is not None:
        wanted = checked_plan(dict(plan))
        usable(desk.services, wanted, tools=there)
        edited = wanted.model_dump(mode="json")
    else:
        question: dict[str, Any] = await blob_json(desk.services, desk.id, asked[1]) or {}
        usable(desk.services, question["details"]["plan"], tools=there)
    await desk.approve(mission, asked[0], arguments=edited, by=by)
    return await mission_object(desk, mission)


async def open_question(desk: TenantScope, mission: str) -> tuple[str, str]:
    """Step and question of a launch that waits for an answer. Errors: `Conflict` if none does."""
    for asked in await open_approvals(desk.services.store, desk.id, run_id=mission):
        if asked.key == LAUNCH or asked.key.startswith(f"{LAUNCH}/"):
            return asked.key, asked.question
    raise Conflict(
        "this mission does not ask for its launch",
        expected="a plan that waits for an answer",
        hint="Go on with it first: artelier resume MISSION.",
    )


async def check_fork(
    desk: TenantScope, run_id: str, *, at: int | None, changes: Mapping[str, Any] | None
) -> None:
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


async def _check_steering(desk: TenantScope, run_id: str, given: object) -> None:
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
