"""The current and next work of an agent: its open runs, the iteration that has not begun, and the
tools that it is offered, with the reason why some are off.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from artelier.errors import Conflict
from artelier.ids import MAIN_SPACE
from artelier.kernel.history.fork_lineage import changes_of, grants_of, lineage
from artelier.kernel.policy import is_granted
from artelier.missions.queries import standing_of
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

OPEN = "status NOT IN ('completed', 'failed', 'cancelled')"

_NEXT = (
    "SELECT t.task, r.id, t.iterations FROM tasks t"
    " LEFT JOIN runs r ON r.tenant = t.tenant AND r.run = t.task"
    " LEFT JOIN runs m ON m.tenant = t.tenant AND m.run = t.mission"
    f" WHERE t.tenant = ? AND t.agent = ? AND t.ended = '' AND (r.id IS NULL OR r.{OPEN})"
    " AND NOT (r.id IS NULL AND coalesce(m.status, '') = 'cancelled')"
    " ORDER BY r.id IS NULL, CASE WHEN r.id IS NULL THEN t.position ELSE -r.id END LIMIT 1"
)
"""Of several runs the newest: a task that was handed on is worked on while the one above it waits."""


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


async def upcoming(desk: Any, agent: str) -> Upcoming | None:
    """Return the next iteration of the task that the agent works on, else of the oldest one waiting for it.

    Return None if there is no such task. An iteration has begun when its decision was asked for.
    """
    rows = await desk.services.store.query(_NEXT, (desk.id, agent))
    if not rows:
        return None
    task, run, iterations = rows[0]
    last = iterations if run is None else max(iterations, await _newest_asked(desk, run))
    return Upcoming(agent, task, last + 1, run)


async def _newest_asked(desk: Any, run: int) -> int:
    """The newest iteration whose decision was asked for."""
    rows = await desk.services.store.query(
        "SELECT key FROM steps WHERE run = ? AND key LIKE 'c%/decision'", (run,)
    )
    numbers = [key[1 : -len("/decision")] for (key,) in rows]
    return max((int(number) for number in numbers if number.isdecimal()), default=0)


async def open_runs(desk: Any, agent: str, *, status: Sequence[str] = ()) -> list[str]:
    """Runs of an agent that have not ended, oldest first; of those that drive others, only the upper ones.

    Errors: `Conflict` if it has none.
    """
    rows = await desk.services.store.query(
        f"SELECT run FROM runs r WHERE tenant = ? AND agent = ? AND {OPEN} AND NOT EXISTS ("
        f" SELECT 1 FROM runs p WHERE p.tenant = r.tenant AND p.run = r.parent AND p.agent = r.agent"
        f" AND p.{OPEN}) ORDER BY id LIMIT ?",
        (desk.id, agent, RUNS_MAX),
    )
    if not rows:
        raise Conflict(
            f"agent {agent!r:.140} works on nothing now",
            expected="a run that has not ended",
            hint="Start one of its tasks first.",
        )
    return [run for (run,) in rows]


async def roots(desk: Any, *, mission: str | None = None, limit: int = 1_000) -> list[tuple[str, str]]:
    """`(run, status)` of all open runs that no open run above them drives, oldest first.

    With `mission`, of it and of what works on its tasks.
    """
    where, values = "", [desk.id]
    if mission is not None:
        where, values = (
            " AND (r.run = ? OR substr(r.run, 1, ?) = ?)",
            [desk.id, mission, len(mission) + 1, f"{mission}/"],
        )
    rows = await desk.services.store.query(
        f"SELECT r.run, r.status FROM runs r WHERE r.tenant = ? AND r.{OPEN}{where} AND NOT EXISTS ("
        f" SELECT 1 FROM runs p WHERE p.tenant = r.tenant AND p.run = r.parent AND p.{OPEN})"
        " ORDER BY r.id LIMIT ?",
        (*values, limit),
    )
    return [(run, status) for run, status in rows]


async def paused_below(desk: Any, *, mission: str | None = None, limit: int = 1_000) -> list[str]:
    """Runs that are paused, parents before their children."""
    where, values = "", [desk.id]
    if mission is not None:
        where, values = (
            " AND (run = ? OR substr(run, 1, ?) = ?)",
            [desk.id, mission, len(mission) + 1, f"{mission}/"],
        )
    rows = await desk.services.store.query(
        f"SELECT run FROM runs WHERE tenant = ? AND status = 'paused'{where} ORDER BY id LIMIT ?",
        (*values, limit),
    )
    return [run for (run,) in rows]


async def find_written(desk: Any, id_: str, version: int) -> tuple[int, str] | None:
    """Return when a version of an artifact was written, and by whom, as its event says."""
    rows = await desk.services.store.query(
        "SELECT v.written_us, e.actor FROM artifact_versions v"
        " JOIN events e ON e.stream = v.stream AND e.seq = v.seq"
        " WHERE v.tenant = ? AND v.space = ? AND v.id = ? AND v.version = ?",
        (desk.id, MAIN_SPACE, id_, version),
    )
    return (rows[0][0], rows[0][1]) if rows else None


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
