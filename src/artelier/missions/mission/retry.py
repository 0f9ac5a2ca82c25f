"""Reopening of runs that failed, and of missions whose goal stands as failed."""

from __future__ import annotations

from typing import Any

from artelier.chat.session.command_relay import give
from artelier.kernel import run_row
from artelier.kernel.commands import control_stream as kernel_commands
from artelier.log import EventData
from artelier.missions.mission.goal_status import goal_status
from artelier.missions.plan.planner import LOOP
from artelier.missions.queries import standings
from artelier.missions.shipped_texts import template
from artelier.missions.task.task_status import TaskStanding, standing_of
from artelier.missions.verdict.human_verdict import judgements_of
from artelier.missions.view import REJECTED


async def retry_run(desk: Any, run_id: str, *, by: str) -> EventData:
    """Reopen a failed run, or a mission of which a task has failed or was rejected since its run ended.

    Errors: see `MissionsHandle.retry`.
    """
    await desk.state()
    desk.keep_alive()
    row = await run_row(desk.services.store, desk.id, run_id)
    key = ""
    if row.loop == LOOP and row.status in ("completed", "failed"):
        stands = await standings(desk, run_id)
        goal = goal_status(stands.values(), run_status=row.status)
        if goal == "failed":
            for task, status in stands.items():
                if status == "failed":
                    await _redo_rejected(desk, task, by=by)
            key = kernel_commands.REJECTED if row.status == "completed" else ""
    return await give(desk, run_id, "retry", by=by, key=key)


async def _redo_rejected(desk: Any, task: str, *, by: str) -> None:
    """Reopen a task of a mission whose output a person rejected; its loop knows nothing of that."""
    standing = await standing_of(desk, task)
    if standing.reason == REJECTED:
        await redo(desk, standing, by=by)


async def redo(desk: Any, standing: TaskStanding, *, by: str) -> None:
    """Reopen the run of a task whose output was rejected, and tell its agent why."""
    task = standing.task
    key = kernel_commands.REJECTED if standing.run_status == "completed" else ""
    await kernel_commands.give(desk.services, desk.id, task, "retry", by=by, key=key)
    judged = (await judgements_of(desk, [task]))[task][-1]
    said = f"{template('rejected-1')} {judged['output']}"
    await desk.inject(task, f"{said}\n\n{judged['note']}".strip(), by=by)
