"""The status of tasks, as the log has it: small queries of the loop and of commands."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NamedTuple

import msgspec

from artelier.errors import NotFound
from artelier.missions.view import status_of

ADDED_MAX = 100
"""Tasks that one look takes up."""


class TaskStanding(NamedTuple):
    """One task."""

    task: str
    status: str
    """`pending`, `active`, `blocked`, `done`, `failed` or `cancelled`."""
    reason: str = ""
    outputs: tuple[str, ...] = ()
    """Refs with versions."""
    run_status: str | None = None
    """None before its run has begun."""
    run_reason: str = ""
    mission: str = ""
    agent: str = ""
    parent: str = ""
    alone: bool = False
    """Whether it is worked on without its mission."""


async def standing_of(desk: Any, task: str) -> TaskStanding:
    """Errors: `NotFound`."""
    rows = await desk.services.store.query(
        "SELECT t.ended, t.reason, t.outputs, t.mission, t.agent, t.parent, r.status, r.reason, t.alone"
        " FROM tasks t LEFT JOIN runs r ON r.tenant = t.tenant AND r.run = t.task"
        " WHERE t.tenant = ? AND t.task = ?",
        (desk.id, task),
    )
    if not rows:
        raise NotFound(f"no task {task!r}", hint="`artelier tasks list` shows the tasks there are.")
    ended, reason, outputs, mission, agent, parent, run_status, run_reason, alone = rows[0]
    return TaskStanding(
        task=task,
        status=status_of(ended, run_status),
        reason=reason_of(reason, run_status, run_reason),
        outputs=tuple(msgspec.json.decode(outputs)),
        run_status=run_status,
        run_reason=run_reason or "",
        mission=mission,
        agent=agent,
        parent=parent,
        alone=bool(alone),
    )


def reason_of(reason: str, run_status: str | None, run_reason: str | None) -> str:
    """Return why a task stands where it stands: what its loop said, else its run."""
    if run_status == "cancelled":
        return "cancelled"
    if run_status == "budget_exhausted":
        return "budget_exhausted"
    return reason or (run_reason if run_status == "failed" and run_reason else "")


async def fresh_tasks(desk: Any, mission: str, *, known: Collection[str]) -> list[dict[str, Any]]:
    """`{task, depends_on}` of the mission's own tasks that are not known yet, oldest first."""
    rows = await desk.services.store.query(
        "SELECT task FROM tasks WHERE tenant = ? AND mission = ? AND parent = '' AND agent <> ''"
        " ORDER BY position LIMIT ?",
        (desk.id, mission, len(known) + ADDED_MAX),
    )
    found: list[dict[str, Any]] = []
    for (task,) in rows:
        if task not in known:
            found.append({"task": task, "depends_on": await needed_by(desk, task)})
    return found


async def needed_by(desk: Any, task: str) -> list[str]:
    """The tasks that a task depends on."""
    rows = await desk.services.store.query(
        "SELECT before FROM task_dependencies WHERE tenant = ? AND task = ? ORDER BY before", (desk.id, task)
    )
    return [before for (before,) in rows]
