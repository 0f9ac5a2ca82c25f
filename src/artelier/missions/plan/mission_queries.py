"""Missions as objects of the API: facts of the log, put together for people and programs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from artelier.errors import NotFound
from artelier.kernel import run_row
from artelier.kernel.queries.content import shown_fields, shown_json
from artelier.kernel.queries.reports import approvals
from artelier.kernel.queries.runs import RunRow, asked_below, totals
from artelier.kernel.run.status import FINAL
from artelier.ledger.queries import scope_limits
from artelier.missions.definition import Plan, validate_form
from artelier.missions.membranes.membranes import Membranes
from artelier.missions.membranes.mission_agents import agent_line
from artelier.missions.plan.planner import LOOP
from artelier.missions.queries import (
    PAGE_MAX,
    agent_ids,
    goals,
    mission_row,
    report_of,
    standings,
    task_message,
    task_page,
)
from artelier.missions.status import GOAL_REASONS, goal_status
from artelier.missions.view import DEPENDENCY_FAILED

BLOCKED_SAID_MAX = 3
"""Blocked tasks whose words a goal repeats."""
TASKS_SHOWN = 500


async def mission_page(
    desk: Any, *, status: str | None = None, after: int = 0, limit: int = 100, newest_first: bool = False
) -> dict[str, Any]:
    """`{items: [{id, goal, status, reason, model, launched_us, started_us, ended_us, tasks, done,
    cost_microusd}], next}`, in the order of their start or the newest first; `tasks`, `done`: numbers."""
    limit = max(1, min(limit, PAGE_MAX))
    rows = await goals(desk, status=status, after=after, limit=limit + 1, newest_first=newest_first)
    page = rows[:limit]
    sums = await totals(desk.services.store, desk.id, [row.mission for row in page])
    items = [
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


async def mission_object(desk: Any, mission: str) -> dict[str, Any]:
    """`{id, goal, status, run_status, reason, model, workspace, plan, estimate, edited, launched_us,
    started_us, ended_us, agents, tasks, membranes, cost_microusd, usage, outputs, text, artifact, approvals,
    budget_microusd}`.

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
    tasks = await task_page(desk, mission=mission, agent=None, status=None, after=0, limit=TASKS_SHOWN)
    sums = (await totals(services.store, desk.id, [mission]))[mission]
    asked = [mission, *dict.fromkeys(run for run, _ in await asked_below(services.store, desk.id, mission))]
    ended = await _goal_end(desk, row, [one for one in tasks["items"] if _is_own(one)], fields)
    return {
        "id": mission,
        "goal": await shown_json(services, desk.id, row.goal),
        "status": ended["status"],
        "run_status": row.status,
        "reason": ended["reason"],
        "message": ended["message"],
        "model": row.model,
        "workspace": settings.get("workspace", ""),
        "plan": await shown_json(services, desk.id, planned.plan),
        "estimate": None
        if planned.plan is None
        else {
            "calls": planned.calls,
            "cost_microusd": planned.cost,
            **({"is_limit": True} if settings.get("at_most") else {}),
        },
        "edited": planned.edited,
        "planned_us": planned.planned_us,
        "launched_us": planned.launched_us,
        "started_us": row.started_us,
        "ended_us": row.ended_us,
        "agents": [await agent_line(desk, agent) for agent in await agent_ids(desk, mission)]
        if planned.launched_us is not None
        else [],
        "tasks": tasks["items"],
        "membranes": await Membranes(desk).list(mission) if planned.launched_us is not None else [],
        "cost_microusd": sums.total_cost_microusd,
        "usage": sums.total_usage._asdict(),
        "budget_microusd": await _cap(desk, f"run:{mission}"),
        "outputs": ended["outputs"],
        "text": ended["text"],
        "artifact": ended["outputs"][-1] if ended["outputs"] else None,
        "approvals": [one for run in asked for one in await approvals(services, desk.id, run_id=run)],
    }


def _is_own(task: dict[str, Any]) -> bool:
    """Return True if a task is one of its goal's own: assigned, and delegated by no other."""
    return task["parent"] is None and task["assigned_agent_id"] is not None


async def _goal_end(
    desk: Any, row: RunRow, tasks: Sequence[dict[str, Any]], result: dict[str, Any]
) -> dict[str, Any]:
    """`{status, reason, message, outputs, text}`: how a goal stands and what it hands over."""
    status = goal_status((await standings(desk, row.run)).values(), run_status=row.status)
    message = await shown_json(desk.services, desk.id, row.message)
    said = {
        "status": status,
        "reason": row.reason,
        "message": message or "",
        "outputs": result.get("outputs", []),
        "text": result.get("text", ""),
    }
    if row.status not in FINAL or not tasks:
        return said
    if status != row.status:  # its tasks have come to something else since
        bad = [f"{one['id']} {one['status']} ({one['reason']})" for one in tasks if one["status"] != "done"]
        said["reason"] = GOAL_REASONS.get(status, "")
        said["message"] = f"not done: {', '.join(bad)}" if said["reason"] else ""
    if status == "blocked":  # what is missing says more than the names of its tasks
        first = [
            one["id"] for one in tasks if one["status"] == "blocked" and one["reason"] != DEPENDENCY_FAILED
        ]
        words = [text for task in first[:BLOCKED_SAID_MAX] if (text := await task_message(desk, task))]
        said["message"] = " ".join(words) or said["message"]
    needed = {before for one in tasks for before in one["depends_on"]}
    outputs = [ref for one in tasks if one["id"] not in needed for ref in one["outputs"]]
    is_other = status == "completed" and sorted(outputs) != sorted(said["outputs"])
    if status != row.status or is_other:
        said["outputs"] = outputs
        said["text"] = await report_of(desk, outputs) if status == "completed" else ""
    return said


async def _cap(desk: Any, scope: str) -> int | None:
    return next(
        (one.cap for one in await scope_limits(desk.services.store, desk.id, scope) if one.unit == "usd"),
        None,
    )


def checked_plan(value: Any) -> dict[str, Any]:
    """A plan as JSON data with its defaults. Errors: `InvalidRequest`."""
    return validate_form(Plan, value, what="the plan").model_dump(mode="json")
