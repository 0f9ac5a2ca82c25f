"""Checks before a deletion: an agent, task or membrane that unfinished work depends on is not deleted.

They run inside the transaction of the deletion, for every caller and every entry point: a task that is
assigned in the same instant is seen.
"""

from __future__ import annotations

from collections.abc import Callable

from artelier.artifacts import StoreStage
from artelier.artifacts.queries import Standing
from artelier.errors import Conflict
from artelier.ids import MAIN_SPACE
from artelier.log import Tx

_OPEN = (
    " LEFT JOIN runs r ON r.tenant = t.tenant AND r.run = t.task"
    " LEFT JOIN runs m ON m.tenant = t.tenant AND m.run = t.mission"
    " WHERE t.tenant = ? AND t.ended = ''"
    " AND (r.run IS NULL OR r.status NOT IN ('completed', 'failed', 'cancelled'))"
    " AND NOT (r.run IS NULL AND coalesce(m.status, '') = 'cancelled')"
)
_BY_KIND = {
    "task": f"SELECT t.task, t.agent FROM tasks t{_OPEN} AND t.task = ? LIMIT 1",
    "agent": f"SELECT t.task, t.agent FROM tasks t{_OPEN} AND t.agent = ? ORDER BY t.position LIMIT 1",
    "membrane": "SELECT t.task, t.agent FROM artifact_members g JOIN tasks t ON t.tenant = g.tenant"
    f" AND t.agent = g.principal{_OPEN} AND g.space = ? AND g.group_id = ?"
    " ORDER BY t.position LIMIT 1",
}
"""The first task that is not over and needs it, with the agent that works on it."""


class HeldStage(StoreStage):
    """Decisions over the main space of a tenant, where missions are."""

    def guard_for(self, action: str, standing: Standing) -> Callable[[Tx], None] | None:
        guard = super().guard_for(action, standing)
        if action != "delete" or standing.kind not in _BY_KIND:
            return guard

        def guard_held(tx: Tx) -> None:
            if guard is not None:
                guard(tx)
            _check_unused(tx, self.tenant, standing.kind, standing.id)

        return guard_held


def _check_unused(tx: Tx, tenant: str, kind: str, id: str) -> None:
    """Errors: `Conflict` naming the task that stands on it."""
    place = (MAIN_SPACE, id) if kind == "membrane" else (id,)
    found = tx.one(_BY_KIND[kind], (tenant, *place))
    if found is None:
        return
    task, agent = found
    if kind == "task":
        raise Conflict(
            f"task {id} cannot be deleted: it is not over",
            expected="a task that has ended",
            got="one that is pending or at work",
            hint=f"End it first: artelier tasks cancel {id}",
        )
    if kind == "agent":
        raise Conflict(
            f"agent {id} cannot be deleted: task {task} is assigned to it",
            expected="an agent without tasks that are not over",
            got=task,
            hint="Assign its tasks to another agent, or cancel them first.",
        )
    raise Conflict(
        f"membrane {id} cannot be deleted: its member {agent} works on task {task}",
        expected="a membrane of which no member is at work",
        got=agent,
        hint="Let its members leave first, or wait until their tasks are over.",
    )
