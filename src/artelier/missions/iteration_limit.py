"""The limit of a task's iterations: where it counts from, and the last iteration that a task may have."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from artelier.kernel.history.fork_lineage import Place, lineage, newest_state
from artelier.kernel.run.services import Services
from artelier.log import decode_stored
from artelier.missions.events import TaskEnded
from artelier.missions.task.loop_state import TaskState

GOES_ON = frozenset(("max_iterations", "stuck", "decision_invalid", "missing_input"))
"""Ends after which a reopened task has something to try; the failure of a step is tried again by itself."""


def begins_anew(reason: str, iteration: int) -> bool:
    """Return True if a task that was reopened looks for its inputs first: it had ended without deciding
    anything.
    """
    return reason == "missing_input" and not iteration


def goes_on(status: str, reason: str) -> bool:
    """Return True if a reopened task iterates on behind an end: its result did not do, or a limit was met."""
    return status == "done" or reason in GOES_ON


def counts_anew(status: str, reason: str, iteration: int) -> bool:
    """Return True if the limit of a task that was reopened counts from where it had ended."""
    return goes_on(status, reason) and not begins_anew(reason, iteration)


def last_iteration(before: int, most: int) -> int:
    """Return the last iteration that a task may have which has `most` after those `before`."""
    return before + most


async def ends_passed(services: Services, places: Sequence[Place]) -> list[TaskEnded]:
    """Return the ends since the newest iteration from which the limit of a run counts, oldest first.

    `places`: its lineage. Cost: O(events since its newest iteration).
    """
    newest = await newest_state(services, places)
    first, after = (len(places) - 1, 0) if newest is None else newest[1]
    told: list[TaskEnded | None] = []
    for index in range(first, -1, -1):
        rows = await services.store.query(
            "SELECT kind, data FROM events WHERE stream = ? AND seq > ? AND seq <= ?"
            " AND kind IN ('task.ended', 'run.reopened') ORDER BY seq",
            (places[index].stream_id, after if index == first else 0, places[index].upto),
        )
        told += [decode_stored(data, type=TaskEnded) if kind == "task.ended" else None for kind, data in rows]
    while told and told[-1] is not None:
        told.pop()  # nobody has reopened it since
    ends = [one for one in told if one is not None]
    return [one for one in ends if counts_anew(one.status, one.reason, one.iterations)]


async def counted_from(desk: Any, task: str) -> int:
    """Return the iteration after which the limit counts of a task that a run works on."""
    places = await lineage(desk.services, desk.id, task)
    if passed := await ends_passed(desk.services, places):
        return passed[-1].iterations
    newest = await newest_state(desk.services, places)
    return TaskState.from_stored(None if newest is None else newest[0]).base
