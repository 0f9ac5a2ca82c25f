"""Queries of missions and tasks: their status, their objects of the API, the report of a goal."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Sequence
from typing import Any, NamedTuple, cast

import msgspec

from artelier.artifacts.queries import Artifact, ids_between
from artelier.errors import ArtelierError, InvalidRequest, NotFound
from artelier.ids import MAIN_SPACE, OPERATOR
from artelier.kernel.queries.content import shown_json
from artelier.kernel.queries.reports import approvals
from artelier.kernel.queries.runs import ENDED, DueLook, TreeTotal, find_run, totals
from artelier.kernel.run.lifecycle import unread_notes
from artelier.kernel.run.status import FINAL
from artelier.kernel.tenants.registry import TenantScope
from artelier.log import Store, Tx
from artelier.log.queries import fetch_all, fetch_column, fetch_first, fetch_value
from artelier.missions.reports import AddedTask, JudgedOutput, TaskDetail, TaskIteration, TaskPage, TaskReport
from artelier.missions.status import GOAL_REASONS, TaskStatus, reason_of, status_of
from artelier.missions.task.loop_state import counted_from, last_iteration

PAGE_MAX = 1_000
STATUSES = tuple(TaskStatus)

_TASKS = (
    "SELECT t.position, t.task, t.mission, t.agent, t.parent, t.inputs, t.max_iterations,"
    " t.iterations, t.ended, t.reason, t.blocked_by, t.outputs, t.created_us, t.changed_us, t.run_status,"
    " t.run_reason, t.mission_status, t.iterations_before > 0 OR t.run_origin IS NOT NULL, t.run_origin"
    " FROM task_status t"
)

# Tasks


async def task_page(
    desk: TenantScope,
    *,
    mission: str | None,
    agent: str | None,
    status: str | None,
    after: int,
    limit: int,
    with_forks: bool = True,
    chars_max: int | None = None,
) -> TaskPage:
    """Return tasks without their definitions and iterations, in the order of their making.

    The page ends with the one with which their goals have `chars_max` characters.
    """
    if status is not None and status not in STATUSES:
        raise InvalidRequest("status of a task", expected=", ".join(STATUSES), got=status[:80])
    limit = max(1, min(limit, PAGE_MAX))
    where, values = "t.tenant = ? AND t.position > ?", [desk.id, after]
    if not with_forks:
        where += " AND t.run_origin IS NULL"
    for column, value in (("t.mission", mission), ("t.agent", agent), ("t.status", status)):
        if value is not None:
            where, values = f"{where} AND {column} = ?", [*values, value]
    rows = await desk.services.store.query(
        f"{_TASKS} WHERE {where} ORDER BY t.position LIMIT ?", (*values, limit + 1)
    )
    goals = await _goals(desk, [row[1] for row in rows[:limit]], chars_max=chars_max)
    page = rows[: len(goals)]
    following = page[-1][0] if len(rows) > len(page) else None
    return {"items": await _items(desk, page, goals), "next": following}


async def _items(desk: TenantScope, rows: Sequence[Any], goals: dict[str, str]) -> list[TaskReport]:
    sums = await totals(desk.services.store, desk.id, [row[1] for row in rows if row[14] is not None])
    needed = await _dependencies(desk, [row[1] for row in rows])
    judged = await judgements_of(desk, [row[1] for row in rows])
    again = [row[1] for row in rows if row[17]]
    begun = {task: await counted_from(desk, task) for task in again}
    return [_item(row, goals=goals, sums=sums, needed=needed, judged=judged, begun=begun) for row in rows]


def _item(
    row: Sequence[Any],
    *,
    goals: dict[str, str],
    sums: dict[str, TreeTotal],
    needed: dict[str, list[str]],
    judged: dict[str, list[JudgedOutput]],
    begun: dict[str, int],
) -> TaskReport:
    """Return one task. `begun`: the iteration from which each is counted, of those tried again."""
    _, task, mission, agent, parent, inputs, most, iterations, ended, reason = row[:10]
    blocked_by, outputs, created_us, changed_us, run_status, run_reason, mission_status, _, origin = row[10:]
    status = status_of(ended, run_status)
    why = reason_of(reason, run_status, run_reason)
    if run_status is None and mission_status == "cancelled" and status.can_become(TaskStatus.CANCELLED):
        status, why = TaskStatus.CANCELLED, "mission_cancelled"
    return {
        "id": task,
        "goal": goals.get(task, ""),
        "status": status,
        "reason": why,
        "blocked_by": blocked_by,
        "mission": mission,
        "assigned_agent_id": agent or None,
        "parent": parent or None,
        "origin": origin,
        "inputs": msgspec.json.decode(inputs),
        "depends_on": needed.get(task, []),
        "outputs": msgspec.json.decode(outputs),
        "judged": judged.get(task, []),
        "iteration_count": iterations,
        "max_iterations": most,
        "last_iteration": last_iteration(begun.get(task, 0), most),
        "run_status": run_status,
        "cost_microusd": sums[task].total_cost_microusd if task in sums else 0,
        "created_us": created_us,
        "changed_us": changed_us,
    }


FORKS_MAX = 20
"""Forks of forks that are followed to the artifact that says what they work on (guess)."""


async def _definition(desk: TenantScope, task: str) -> Artifact | None:
    """A task's artifact; that of its origin for a fork, which has none. None if it was not brought along."""
    artifacts = desk.as_principal(OPERATOR).artifacts
    for _ in range(FORKS_MAX):
        try:
            return await artifacts.look(task)
        except NotFound:
            row = await find_run(desk.services.store, desk.id, task)
            if row is None or row.origin is None:
                return None
            task = row.origin
        except ArtelierError:
            return None
    return None


def _fields(stored: Artifact) -> dict[str, Any]:
    """Return what a task's artifact says; of one that was erased, that."""
    content: Any = stored.content
    if isinstance(content, dict):
        return cast("dict[str, Any]", content)
    return {"goal": content, "success_criteria": content}


async def _goals(desk: TenantScope, tasks: Sequence[str], *, chars_max: int | None) -> dict[str, str]:
    """Return the goals of the first of some tasks, up to that with which they have so many characters."""
    found: dict[str, str] = {}
    size_chars = 0
    for task in tasks:
        stored = await _definition(desk, task)
        found[task] = "" if stored is None else str(_fields(stored).get("goal", ""))
        size_chars += len(found[task])
        if chars_max is not None and size_chars >= chars_max:
            break
        await asyncio.sleep(0)  # each is read at once
    return found


async def _dependencies(desk: TenantScope, tasks: Sequence[str]) -> dict[str, list[str]]:
    rows = await desk.services.store.query(
        "SELECT task, before FROM task_dependencies WHERE tenant = ?"
        " AND task IN (SELECT value FROM json_each(?)) ORDER BY task, before",
        (desk.id, msgspec.json.encode(list(tasks)).decode()),
    )
    return _by_task(rows)


def _by_task(rows: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for task, before in rows:
        found.setdefault(task, []).append(before)
    return found


async def task_object(desk: TenantScope, task: str) -> TaskDetail:
    """Return a task with its definition and its iterations. Errors: `NotFound`."""
    rows = await desk.services.store.query(f"{_TASKS} WHERE t.tenant = ? AND t.task = ?", (desk.id, task))
    if not rows:
        raise NotFound(f"no task {task!r}", hint="`artelier tasks list` shows the tasks there are.")
    stored = await _definition(desk, task)
    content = _fields(stored) if stored is not None else {}
    [shown] = await _items(desk, rows, {task: str(content.get("goal", ""))})
    return {
        **shown,
        "version": stored.version if stored is not None else 0,
        "success_criteria": content.get("success_criteria", ""),
        "checks": content.get("checks", []),
        "only_checks": content.get("only_checks", False),
        "iterations": await iterations_of(desk, task),
        "message": await _message(desk, task, shown["status"]),
        "approvals": await approvals(desk.services, desk.id, run_id=task),
    }


async def _message(desk: TenantScope, task: str, status: str) -> str:
    if status in ("failed", "blocked"):
        return await task_message(desk, task)
    row = await find_run(desk.services.store, desk.id, task) if status == "done" else None
    unread = 0 if row is None else len(await unread_notes(desk.services, row.id))
    if not unread:
        return ""
    notes = "1 note" if unread == 1 else f"{unread} notes"
    return f"{notes} came behind its last decision, unread. Rejected and tried again, it reads them first."


async def task_message(desk: TenantScope, task: str) -> str:
    """Return why a task failed or is blocked, in words; empty if its run says nothing."""
    row = await find_run(desk.services.store, desk.id, task)
    said = None if row is None else await shown_json(desk.services, desk.id, row.message)
    return said if isinstance(said, str) else ""


async def iterations_of(desk: TenantScope, task: str) -> list[TaskIteration]:
    """Return what was decided and what came of it, in order."""
    services = desk.services
    rows = await services.store.query(
        "SELECT i.iteration, i.at_us, i.decision, i.action, i.tool, i.step, i.artifact, i.is_error,"
        " i.code, i.passed, i.verdict, i.void, i.steering FROM task_iterations i"
        " WHERE i.tenant = ? AND i.task = ? ORDER BY i.iteration",
        (desk.id, task),
    )
    found: list[TaskIteration] = []
    for (
        number,
        at_us,
        decision,
        action,
        tool,
        step,
        artifact,
        is_error,
        code,
        passed,
        verdict,
        void,
        steering,
    ) in rows:
        said: Any = await shown_json(services, desk.id, decision)
        found.append(
            {
                "iteration": number,
                "at_us": at_us,
                "action": action,
                "tool": tool or None,
                "reason": cast("dict[str, Any]", said).get("reason", "") if isinstance(said, dict) else "",
                "decision": said,
                "step": step,
                "artifact": artifact or None,
                "is_error": bool(is_error),
                "code": code,
                "passed": None if passed is None else bool(passed),
                "verdict": await shown_json(services, desk.id, verdict),
                "void": void,
                "steering": steering or None,
            }
        )
    return found


async def standings(desk: TenantScope, mission: str) -> dict[str, str]:
    """Return where each of a goal's own tasks stands, by id and however many there are."""
    rows = await desk.services.store.query(
        "SELECT t.task, t.status FROM task_status t"
        " WHERE t.tenant = ? AND t.mission = ? AND t.is_own = 1 ORDER BY t.position",
        (desk.id, mission),
    )
    return dict(rows)


async def agent_ids(desk: TenantScope, mission: str) -> list[str]:
    """Agents below a mission's name, in the order of their ids."""
    store, low, high = desk.services.store, f"{mission}/", f"{mission}0"  # 0 is the character after /
    return await ids_between(store, desk.id, MAIN_SPACE, kind="agent", low=low, high=high, limit=PAGE_MAX)


async def judgements_of(desk: TenantScope, tasks: list[str]) -> dict[str, list[JudgedOutput]]:
    """Return the judgements of people by task, oldest first."""
    found: dict[str, list[JudgedOutput]] = {}
    for task, judged in await judged_outputs(desk, tasks):
        found.setdefault(task, []).append(judged)
    return found


async def judged_outputs(desk: TenantScope, tasks: Sequence[str]) -> list[tuple[str, JudgedOutput]]:
    """Return the judgements of people about some tasks, with the task of each, in the order of the log."""
    rows = await desk.services.store.query(
        "SELECT task, ref, accepted, by, at_us, note FROM judgements WHERE tenant = ?"
        " AND task IN (SELECT value FROM json_each(?)) ORDER BY position",
        (desk.id, msgspec.json.encode(tasks).decode()),
    )
    found: list[tuple[str, JudgedOutput]] = []
    for task, ref, accepted, by, at_us, note in rows:
        said = await shown_json(desk.services, desk.id, note) or ""
        judged: JudgedOutput = {
            "output": ref,
            "accepted": bool(accepted),
            "by": by,
            "at_us": at_us,
            "note": said,
        }
        found.append((task, judged))
    return found


TEXT_CHARS_MAX = 1_000_000
"""Of one report; the outputs themselves are whole."""


async def report_of(desk: TenantScope, refs: Sequence[str]) -> str:
    """The outputs, one after the other. What cannot be read any more is named instead."""
    artifacts = desk.as_principal(OPERATOR).artifacts
    texts: list[str] = []
    for ref in refs:
        try:
            texts.append(text_of((await artifacts.read(ref)).content))
        except ArtelierError as error:
            texts.append(f"({ref}: {error.message})")
    return "\n\n".join(text.strip("\n") for text in texts)[:TEXT_CHARS_MAX]


def text_of(content: object) -> str:
    """Content as people read it."""
    if isinstance(content, str):
        return content
    if isinstance(content, bytes):
        return f"({len(content)} bytes)"
    return msgspec.json.format(msgspec.json.encode(content), indent=2).decode()


ADDED_MAX = 100
"""Tasks that one look takes up."""


class TaskStanding(NamedTuple):
    """One task."""

    task: str
    status: TaskStatus
    reason: str = ""
    outputs: tuple[str, ...] = ()
    """Refs with versions."""
    run_status: str | None = None
    """None before its run has begun."""
    run_reason: str = ""
    mission: str = ""
    mission_status: str | None = None
    """Of the run of the mission that decides about it; None if none does, as about a fork."""
    agent: str = ""
    parent: str = ""
    alone: bool = False
    """Whether it is worked on without its mission."""

    @property
    def is_open(self) -> bool:
        """True of a task whose run has begun and not ended, also if the task has: its process may have been
        killed between the two.
        """
        return self.run_status is not None and self.run_status not in FINAL


async def is_cancelled(desk: TenantScope, task: str) -> bool:
    """Return True if somebody has cancelled a task before its run began."""
    return bool(
        await desk.services.store.query(
            "SELECT 1 FROM tasks WHERE tenant = ? AND task = ? AND ended = 'cancelled'", (desk.id, task)
        )
    )


async def max_iterations_now(desk: TenantScope, task: str) -> int | None:
    """Return how many iterations the definition of a task allows; None for one that nobody has made."""
    return await fetch_value(
        desk.services.store, "SELECT max_iterations FROM tasks WHERE tenant = ? AND task = ?", (desk.id, task)
    )


async def standing_of(desk: TenantScope, task: str) -> TaskStanding:
    """Errors: `NotFound`."""
    rows = await desk.services.store.query(
        "SELECT t.ended, t.reason, t.outputs, t.mission, t.agent, t.parent, t.run_status,"
        " t.run_reason, t.alone, t.mission_status FROM task_status t"
        " WHERE t.tenant = ? AND t.task = ?",
        (desk.id, task),
    )
    if not rows:
        raise NotFound(f"no task {task!r}", hint="`artelier tasks list` shows the tasks there are.")
    ended, reason, outputs, mission, agent, parent, run_status, run_reason, alone, mission_status = rows[0]
    return TaskStanding(
        task=task,
        status=status_of(ended, run_status),
        reason=reason_of(reason, run_status, run_reason),
        outputs=tuple(msgspec.json.decode(outputs)),
        run_status=run_status,
        run_reason=run_reason or "",
        mission=mission,
        mission_status=mission_status,
        agent=agent,
        parent=parent,
        alone=bool(alone),
    )


async def fresh_tasks(desk: TenantScope, mission: str, *, known: Collection[str]) -> list[AddedTask]:
    """Return the mission's own tasks that are not known yet, oldest first."""
    rows = await desk.services.store.query(
        "SELECT t.task FROM task_status t WHERE t.tenant = ? AND t.mission = ? AND t.is_own = 1"
        " ORDER BY t.position LIMIT ?",
        (desk.id, mission, len(known) + ADDED_MAX),
    )
    found: list[AddedTask] = []
    for (task,) in rows:
        if task not in known:
            found.append({"task": task, "depends_on": await needed_by(desk, task)})
    return found


async def dependencies_in(desk: TenantScope, mission: str) -> dict[str, list[str]]:
    """Return the tasks that each task of a mission depends on, of those that depend on any."""
    rows = await desk.services.store.query(
        "SELECT d.task, d.before FROM tasks t JOIN task_dependencies d ON d.tenant = t.tenant"
        " AND d.task = t.task WHERE t.tenant = ? AND t.mission = ? ORDER BY d.task, d.before",
        (desk.id, mission),
    )
    return _by_task(rows)


async def needed_by(desk: TenantScope, task: str) -> list[str]:
    """The tasks that a task depends on."""
    return await fetch_column(
        desk.services.store,
        "SELECT before FROM task_dependencies WHERE tenant = ? AND task = ? ORDER BY before",
        (desk.id, task),
    )


GOAL_STATUS = """CASE WHEN g.status NOT IN ('completed', 'failed', 'cancelled') THEN g.status
 ELSE coalesce((SELECT CASE WHEN count(*) = 0 THEN NULL
  WHEN count(*) FILTER (WHERE s.status <> 'done') = 0 THEN 'completed'
  WHEN count(*) FILTER (WHERE s.status = 'active') > 0 THEN 'running'
  WHEN count(*) FILTER (WHERE s.status = 'pending') > 0 THEN 'pending'
  WHEN count(*) FILTER (WHERE s.status = 'failed') > 0 THEN 'failed'
  WHEN count(*) FILTER (WHERE s.status = 'blocked') > 0 THEN 'blocked' ELSE 'cancelled' END
  FROM (SELECT t.status FROM task_status t
   WHERE t.tenant = g.tenant AND t.mission = g.run AND t.is_own = 1) s), g.status) END"""
"""As `goal_status` for the mission whose run is `g`."""

_GOAL_REASON = f"""CASE {GOAL_STATUS} WHEN g.status THEN g.reason
 WHEN 'failed' THEN '{GOAL_REASONS["failed"]}' WHEN 'blocked' THEN '{GOAL_REASONS["blocked"]}' ELSE '' END"""
"""Why it stands so, as a code."""


_NEXT = (
    "SELECT t.task, t.run_row, t.iterations FROM task_status t"
    " WHERE t.tenant = ? AND t.agent = ? AND t.ended = ''"
    f" AND (t.run_row IS NULL OR t.run_status NOT IN {ENDED})"
    " AND NOT (t.run_row IS NULL AND coalesce(t.mission_status, '') = 'cancelled')"
    " ORDER BY t.run_row IS NULL, CASE WHEN t.run_row IS NULL THEN t.position ELSE -t.run_row END LIMIT 1"
)
"""Of several runs the newest: a task that was handed on is worked on while the one above it waits."""


class NextTask(NamedTuple):
    """The task that an agent works on, or would begin with."""

    task: str
    run: int | None
    """Row of its run; None if none works on it yet."""
    iterations: int


async def next_task(desk: TenantScope, agent: str) -> NextTask | None:
    """Return the task that an agent works on, else the oldest one that waits for it."""
    return await fetch_first(desk.services.store, NextTask, _NEXT, (desk.id, agent))


_OPEN = (
    " WHERE t.tenant = ? AND t.ended = ''"
    f" AND (t.run_row IS NULL OR t.run_status NOT IN {ENDED})"
    " AND NOT (t.run_row IS NULL AND coalesce(t.mission_status, '') = 'cancelled')"
)
_HOLDING = {
    "task": f"SELECT t.task, t.agent FROM task_status t{_OPEN} AND t.task = ? LIMIT 1",
    "agent": f"SELECT t.task, t.agent FROM task_status t{_OPEN} AND t.agent = ? ORDER BY t.position LIMIT 1",
    "membrane": "SELECT t.task, t.agent FROM group_members g JOIN task_status t ON t.tenant = g.tenant"
    f" AND t.agent = g.principal{_OPEN} AND g.space = ? AND g.group_id = ?"
    " ORDER BY t.position LIMIT 1",
}
"""The first task that is not over and needs it, with the agent that works on it."""


HELD_KINDS = frozenset(_HOLDING)
"""Kinds of artifacts that are not deleted while a task needs them."""


class TaskOfAgent(NamedTuple):
    """A task and the agent that it is assigned to."""

    task: str
    agent: str


def open_task_of(tx: Tx, tenant: str, kind: str, id: str) -> TaskOfAgent | None:
    """Return the first task that is not over and needs an agent, a membrane or itself."""
    place = (MAIN_SPACE, id) if kind == "membrane" else (id,)
    found = tx.one(_HOLDING[kind], (tenant, *place))
    return None if found is None else TaskOfAgent(*found)


# Missions


class MissionRow(msgspec.Struct, frozen=True):
    """A mission as the view has it."""

    plan: str | None = None
    """Ref of its plan; None until one is made."""
    calls: int = 0
    cost: int | None = None
    planned_us: int | None = None
    launched_us: int | None = None
    edited: bool = False


async def mission_row(desk: TenantScope, mission: str) -> MissionRow:
    """Return what the log says of a mission beside its run; nothing yet of one without a plan."""
    rows = await desk.services.store.query(
        "SELECT plan, calls, cost, planned_us, launched_us, edited <> 0 FROM missions"
        " WHERE tenant = ? AND mission = ?",
        (desk.id, mission),
    )
    return MissionRow(*rows[0][:5], edited=bool(rows[0][5])) if rows else MissionRow()


async def planned_of(desk: TenantScope, names: Sequence[str]) -> set[str]:
    """Return those of these names that are missions with a plan."""
    marks = ", ".join("?" * len(names))
    return set(
        await fetch_column(
            desk.services.store,
            f"SELECT mission FROM missions WHERE tenant = ? AND mission IN ({marks})",
            (desk.id, *names),
        )
    )


async def launched_at(desk: TenantScope, mission: str) -> int | None:
    """Return the event of its stream in which a mission was launched; None if it was not."""
    return await fetch_value(
        desk.services.store,
        "SELECT e.seq FROM missions m JOIN run_status r ON r.tenant = m.tenant AND r.run = m.mission"
        " JOIN event_log e ON e.stream_id = r.stream_id AND e.kind = 'mission.launched'"
        " WHERE m.tenant = ? AND m.mission = ? AND m.launched_us IS NOT NULL ORDER BY e.seq LIMIT 1",
        (desk.id, mission),
    )


class MissionAtWork(NamedTuple):
    """The progress of a mission, as a transaction sees it."""

    status: str
    """Of its run."""
    launched_us: int | None


def mission_in(tx: Tx, tenant: str, mission: str) -> MissionAtWork | None:
    """Return how far a mission is; None if there is none."""
    found = tx.one(
        "SELECT r.status, m.launched_us FROM run_status r LEFT JOIN missions m"
        " ON m.tenant = r.tenant AND m.mission = r.run"
        " WHERE r.tenant = ? AND r.run = ? AND r.loop = 'mission'",
        (tenant, mission),
    )
    return None if found is None else MissionAtWork(*found)


class GoalRow(NamedTuple):
    """A goal of a list, with the status that its tasks give it."""

    position: int
    mission: str
    goal: str | None
    status: str
    reason: str
    model: str
    launched_us: int | None
    started_us: int
    ended_us: int | None
    tasks: int
    done: int


async def goals(
    desk: TenantScope, *, status: str | None, after: int, limit: int, newest_first: bool = False
) -> list[GoalRow]:
    """Return the missions of a tenant in the order of their start, or the newest first."""
    where, values = "g.tenant = ? AND g.loop = 'mission'", [desk.id]
    if after or not newest_first:
        where, values = f"{where} AND g.stream_id {'<' if newest_first else '>'} ?", [desk.id, after]
    if status is not None:
        where, values = f"{where} AND {GOAL_STATUS} = ?", [*values, status]
    return await fetch_all(
        desk.services.store,
        GoalRow,
        f"SELECT g.stream_id, g.run, g.goal, {GOAL_STATUS}, {_GOAL_REASON},"
        " g.model, l.launched_us, g.started_us, g.ended_us,"
        " (SELECT count(*) FROM task_status t WHERE t.tenant = g.tenant AND t.mission = g.run"
        "  AND t.run_origin IS NULL),"
        " (SELECT count(*) FROM task_status t WHERE t.tenant = g.tenant AND t.mission = g.run"
        "  AND t.run_origin IS NULL AND t.ended = 'done') FROM run_status g"
        " LEFT JOIN missions l ON l.tenant = g.tenant AND l.mission = g.run"
        f" WHERE {where} ORDER BY g.stream_id {'DESC' if newest_first else 'ASC'} LIMIT ?",
        (*values, limit),
    )


class GoalStanding(NamedTuple):
    """The status of a goal, with its reason as a code."""

    status: str
    reason: str


async def goal_standings(desk: TenantScope, missions: Sequence[str]) -> dict[str, GoalStanding]:
    """Return where the goals of these missions stand."""
    marks = ", ".join("?" * len(missions))
    rows = await desk.services.store.query(
        f"SELECT g.run, {GOAL_STATUS}, {_GOAL_REASON} FROM run_status g"
        f" WHERE g.tenant = ? AND g.loop = 'mission' AND g.run IN ({marks})",
        (desk.id, *missions),
    )
    return {mission: GoalStanding(status, reason) for mission, status, reason in rows}


class TaskEndRow(NamedTuple):
    """The end of a task as its loop has recorded it; empty before."""

    ended: str = ""
    reason: str = ""
    outputs: tuple[str, ...] = ()
    """Refs with versions."""
    iterations: int = 0


async def task_end(desk: TenantScope, task: str) -> TaskEndRow:
    """Return what the loop of a task has recorded of its end."""
    rows = await desk.services.store.query(
        "SELECT ended, reason, outputs, iterations FROM tasks WHERE tenant = ? AND task = ?", (desk.id, task)
    )
    if not rows:
        return TaskEndRow()
    ended, reason, outputs, iterations = rows[0]
    return TaskEndRow(ended, reason, tuple(msgspec.json.decode(outputs, type=list[str])), iterations)


class RunsOfTask(NamedTuple):
    """The statuses of a task's run and of its mission's, as a transaction sees them; None for no run."""

    own: str | None
    mission: str | None


def runs_of_task(tx: Tx, tenant: str, task: str) -> RunsOfTask:
    """Return at what the run of a task and that of its mission are."""
    found = tx.one(
        "SELECT run_status, mission_status FROM task_status WHERE tenant = ? AND task = ?", (tenant, task)
    )
    return RunsOfTask(None, None) if found is None else RunsOfTask(*found)


_DUE = """
SELECT t.tenant, t.task FROM tasks t INDEXED BY tasks_alone
  LEFT JOIN run_status r ON r.tenant = t.tenant AND r.run = t.task
  LEFT JOIN run_status m ON m.tenant = t.tenant AND m.run = t.mission
  LEFT JOIN run_status p ON p.tenant = r.tenant AND p.run = r.parent
 WHERE t.alone = 1 AND t.ended = '' AND t.agent <> '' AND t.tenant = coalesce(?, t.tenant)
   AND t.tenant || '/main/run:' || t.task NOT IN (SELECT value FROM json_each(?))
   AND (m.run IS NULL OR m.status IN ('completed', 'failed', 'cancelled'))
   AND (r.run IS NULL
     OR (r.parent IS NOT NULL AND p.status IN ('completed', 'failed', 'cancelled')
       AND (r.status IN ('pending', 'running') OR (r.status = 'waiting'
         AND EXISTS (SELECT 1 FROM run_waits w WHERE w.stream_id = r.stream_id AND w.until_us <= ?)))))
   AND NOT EXISTS (SELECT 1 FROM task_dependencies d
     LEFT JOIN tasks b ON b.tenant = d.tenant AND b.task = d.before
     WHERE d.tenant = t.tenant AND d.task = t.task AND coalesce(b.ended, '') <> 'done')
   AND (r.run IS NULL OR NOT r.is_imported)
 ORDER BY row_number() OVER (PARTITION BY t.tenant ORDER BY t.position), t.position LIMIT ?
"""
"""Tasks that nobody has begun and that wait for nothing, and those of ended missions that were reopened."""


async def due_tasks(store: Store, look: DueLook) -> list[tuple[str, str]]:
    """Return the tasks that a worker can drive on their own, as (tenant, id), in turns of tenants."""
    rows = await store.query(_DUE, (look.tenant, look.but_json, look.now_us, look.limit))
    return [(tenant, task) for tenant, task in rows]
