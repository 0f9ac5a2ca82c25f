"""The current and next work of an agent: its open runs, the iteration that has not begun, and the
tools that it is offered, with the reason why some are off.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from artelier.errors import Conflict
from artelier.kernel.history.fork_lineage import changes_of, grants_of, lineage
from artelier.kernel.policy import is_granted
from artelier.kernel.queries.runs import depth_in_loop, open_runs_of
from artelier.kernel.queries.steps import keys_like
from artelier.kernel.tenants.scope import TenantScope
from artelier.missions.queries import next_task, standing_of
from artelier.missions.steering.document import Steering
from artelier.missions.task.actions import DELEGATE
from artelier.missions.task.task_config import LOOP, TaskJob
from artelier.missions.task.task_handle import job_of
from artelier.missions.task.task_runner import kit, recorded_job
from artelier.ports.tool import ToolPort
from artelier.tools.http.http_json import NAME as HTTP_JSON
from artelier.tools.http.http_json import http_json_tool

RUNS_MAX = 100
"""Open runs of one agent that a person's word reaches at once."""


class Upcoming(NamedTuple):
    """The next iteration of an agent that has not begun."""

    agent: str
    task: str
    iteration: int
    """Counted from 1; the task may have ended before it."""
    run: int | None
    """Row of the run; None if none works on the task yet."""

    @property
    def is_begun(self) -> bool:
        return self.run is not None


async def upcoming(desk: TenantScope, agent: str) -> Upcoming | None:
    """Return the next iteration of the task that the agent works on, else of the oldest one waiting for it.

    Return None if there is no such task. An iteration has begun when its decision was asked for.
    """
    found = await next_task(desk, agent)
    if found is None:
        return None
    task, run, iterations = found
    last = iterations if run is None else max(iterations, await _newest_asked(desk, run))
    return Upcoming(agent, task, last + 1, run)


async def _newest_asked(desk: TenantScope, run: int) -> int:
    """The newest iteration whose decision was asked for."""
    keys = await keys_like(desk.services.store, run, "c%/decision")
    numbers = [key[1 : -len("/decision")] for key in keys]
    return max((int(number) for number in numbers if number.isdecimal()), default=0)


async def open_runs(desk: TenantScope, agent: str, *, status: Sequence[str] = ()) -> list[str]:
    """Runs of an agent that have not ended, oldest first; of those that drive others, only the upper ones.

    Errors: `Conflict` if it has none.
    """
    found = await open_runs_of(desk.services.store, desk.id, agent, limit=RUNS_MAX)
    if not found:
        raise Conflict(
            f"agent {agent!r:.140} works on nothing now",
            expected="a run that has not ended",
            hint="Start one of its tasks first.",
        )
    return found


NO_DELEGATION = "steering allows no more delegation"
NO_SERVERS = "no server is allowed: [tools.http] allow in artelier.toml"


@dataclass(frozen=True, slots=True, kw_only=True)
class Workplace:
    """The place where an agent works: it decides, beside steering, which tools the agent has."""

    job: TaskJob
    changes: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Of forks."""
    grants: tuple[str, ...] = ("*",)
    depth: int = 0
    """How many tasks above it have handed it on."""


class OfferedTool(NamedTuple):
    """A tool that there is."""

    tool: ToolPort
    why_off: str | None
    """None if it is on."""


async def place_of(desk: TenantScope, comes: Upcoming) -> Workplace:
    """Return the place of an agent's current or next task. Errors: those of `task_handle.job_of`."""
    if not comes.is_begun:
        return Workplace(job=await job_of(desk, await standing_of(desk, comes.task)))
    job = await recorded_job(desk, comes.task)
    assert job is not None, "the view has its run"
    services = desk.services
    places = await lineage(services, desk.id, comes.task)
    return Workplace(
        job=job,
        changes=await changes_of(services, places),
        grants=await grants_of(services, places),
        depth=await depth_in_loop(services.store, desk.id, comes.task, LOOP),
    )


def place_without_task(agent: str, *, workspace: str) -> Workplace:
    """Return the place of an agent that no task waits for."""
    return Workplace(job=TaskJob(task=agent, definition={}, agent=agent, model="", workspace=workspace))


async def offers(desk: TenantScope, place: Workplace, steering: Steering | None) -> list[OfferedTool]:
    """All tools that a task of this place has, as its loop would bar them; `steering` is None without any.

    Errors: `NotFound` if the workspace is gone.
    """
    tenant = await desk.state()
    depth = 0 if steering is None else steering.delegation_depth
    found: list[OfferedTool] = []
    for tool in kit(desk, place.job).values():
        grant = tool.grant or f"tools:{tool.name}"
        why = None
        if not is_granted(tenant.grants, grant):
            why = "not granted to the tenant"
        elif not is_granted(place.grants, grant):
            why = "not granted to its run"
        elif steering is not None:
            why = steering.why_off(tool)
        if why is None and tool.name == DELEGATE and depth <= place.depth:
            why = NO_DELEGATION
        found.append(OfferedTool(tool, why))
    if place.job.workspace and all(one.tool.name != HTTP_JSON for one in found):
        found.append(OfferedTool(http_json_tool(()), NO_SERVERS))  # shipped too, and on with a list alone
    return found
