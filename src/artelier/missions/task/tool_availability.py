"""The tools of an agent, and why some are off now: for its next prompt, and for whoever looks at it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from artelier.kernel.history.fork_lineage import changes_of, grants_of, lineage
from artelier.kernel.policy import is_granted
from artelier.missions.prompt.next_iteration import Upcoming
from artelier.missions.steering.document import Steering
from artelier.missions.task.delegation import DELEGATE
from artelier.missions.task.task_config import LOOP, TaskJob
from artelier.missions.task.task_handle import job_of
from artelier.missions.task.task_runner import kit, recorded_job
from artelier.missions.task.task_status import standing_of
from artelier.ports.tool import ToolPort
from artelier.tools.http.http_json import NAME as HTTP_JSON
from artelier.tools.http.http_json import http_json_tool

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


async def place_of(desk: Any, comes: Upcoming) -> Workplace:
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
        depth=await _depth(desk, comes.task),
    )


def place_without_task(agent: str, *, workspace: str) -> Workplace:
    """Return the place of an agent that no task waits for."""
    return Workplace(job=TaskJob(task=agent, definition={}, agent=agent, model="", workspace=workspace))


async def offers(desk: Any, place: Workplace, steering: Steering | None) -> list[OfferedTool]:
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


async def _depth(desk: Any, task: str) -> int:
    rows = await desk.services.store.query(
        "WITH RECURSIVE above(run, depth) AS (SELECT parent, 0 FROM runs WHERE tenant = ? AND run = ?"
        " UNION ALL SELECT r.parent, a.depth + 1 FROM above a"
        " JOIN runs r ON r.tenant = ? AND r.run = a.run AND r.loop = ? WHERE a.depth < 64)"
        " SELECT max(depth) FROM above",
        (desk.id, task, desk.id, LOOP),
    )
    return rows[0][0] or 0
