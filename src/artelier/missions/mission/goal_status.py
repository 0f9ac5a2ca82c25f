"""The status of a goal, as a function of its tasks."""

from __future__ import annotations

from collections.abc import Iterable

from artelier.kernel.run.results import FINAL

STATUS = """CASE WHEN r.status = 'cancelled' OR (r.status IS NULL AND m.status = 'cancelled')
 THEN 'cancelled' WHEN t.ended <> '' THEN t.ended WHEN r.status IS NULL THEN 'pending'
 WHEN r.status = 'budget_exhausted' THEN 'blocked' WHEN r.status IN ('failed', 'completed') THEN 'failed'
 ELSE 'active' END"""
"""Where a task stands, as `view.status_of` says, over tasks `t`, their runs `r` and their missions `m`."""

GOAL_STATUS = f"""CASE WHEN g.status NOT IN ('completed', 'failed', 'cancelled') THEN g.status
 ELSE coalesce((SELECT CASE WHEN sum(s.status <> 'done') = 0 THEN 'completed'
  WHEN sum(s.status = 'active') THEN 'running' WHEN sum(s.status = 'pending') THEN 'pending'
  WHEN sum(s.status IN ('failed', 'blocked')) THEN 'failed' WHEN count(*) THEN 'cancelled' END
  FROM (SELECT {STATUS} AS status FROM tasks t
   LEFT JOIN runs r ON r.tenant = t.tenant AND r.run = t.task
   LEFT JOIN runs m ON m.tenant = t.tenant AND m.run = t.mission
   WHERE t.tenant = g.tenant AND t.mission = g.run AND t.parent = '' AND t.agent <> '') s), g.status) END"""
"""As `goal_status` for the mission whose run is `g`."""


def goal_status(tasks: Iterable[str], *, run_status: str) -> str:
    """Return where a goal stands, from where its own tasks stand. Pure; their order does not matter.

    While the run of the goal has not ended, that says what it is at; a goal without tasks is its run.
    """
    found = set(tasks)
    if run_status not in FINAL or not found:
        return run_status
    if found == {"done"}:
        return "completed"
    for status, goal in (("active", "running"), ("pending", "pending")):
        if status in found:
            return goal
    return "failed" if found & {"failed", "blocked"} else "cancelled"
