"""Tasks without a driver that wait for tasks which will not be done: blocked as long as that holds.

Nobody drives a task of its own yet, nor one whose mission has ended, as a mission at work does its own; so it
follows from the log alone, in the view: it is blocked in the instant in which a task that it depends on ends
otherwise, and pending again when that one is reopened, done after all, or no longer needed.
"""

from __future__ import annotations

from artelier.log import Applied, Tx

REASON = "dependency_failed"

_WAITING = (
    "SELECT t.ended, t.blocked_by FROM tasks t"
    " LEFT JOIN runs r ON r.tenant = t.tenant AND r.run = t.task"
    " LEFT JOIN runs m ON m.tenant = t.tenant AND m.run = t.mission"
    " WHERE t.tenant = ? AND t.task = ? AND r.run IS NULL"
    " AND (t.mission = '' OR m.status IN ('completed', 'failed'))"
    f" AND (t.ended = '' OR (t.ended = 'blocked' AND t.reason = '{REASON}'))"
)
_IN_THE_WAY = (
    "SELECT d.before FROM task_dependencies d"
    " JOIN tasks b ON b.tenant = d.tenant AND b.task = d.before"
    " LEFT JOIN runs r ON r.tenant = b.tenant AND r.run = b.task"
    " WHERE d.tenant = ? AND d.task = ? AND (b.ended IN ('failed', 'blocked', 'cancelled')"
    " OR (b.ended = '' AND r.status IN ('failed', 'cancelled')))"
    " ORDER BY d.before LIMIT 1"
)


def settle(event: Applied, tx: Tx, task: str) -> None:
    """Block or free a task that has changed by what it depends on, and those that wait for it.

    Cost: one look at each task behind one whose standing changes.
    """
    tenant = event.stream.tenant
    waiting = [*_behind(tx, tenant, task), task]
    while waiting:
        one = waiting.pop()
        if _settle_task(event, tx, one):
            waiting += _behind(tx, tenant, one)


def _settle_task(event: Applied, tx: Tx, task: str) -> bool:
    """Return True if the standing of a task has changed by what stands before it."""
    tenant = event.stream.tenant
    stands = tx.one(_WAITING, (tenant, task))
    if stands is None:
        return False
    found = tx.one(_IN_THE_WAY, (tenant, task))
    now = ("", "") if found is None else ("blocked", str(found[0]))
    if tuple(stands) == now:
        return False
    tx.execute(
        "UPDATE tasks SET ended = ?, reason = ?, blocked_by = ?, changed_us = ?, alone = 1"
        " WHERE tenant = ? AND task = ?",
        (now[0], REASON if found is not None else "", now[1], event.at_us, tenant, task),
    )
    return stands[0] != now[0]


def _behind(tx: Tx, tenant: str, task: str) -> list[str]:
    rows = tx.execute(
        "SELECT task FROM task_dependencies WHERE tenant = ? AND before = ? ORDER BY task", (tenant, task)
    ).fetchall()
    return [behind for (behind,) in rows]
