"""Queries of missions and tasks: their status, their objects of the API, the report of a goal."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple, cast

import msgspec

from artelier.artifacts.queries import Artifact
from artelier.errors import ArtelierError, InvalidRequest, NotFound
from artelier.ids import OPERATOR
from artelier.kernel.queries.content import shown_json
from artelier.kernel.queries.reports import approvals
from artelier.kernel.queries.runs import totals
from artelier.missions.status import TaskStatus, reason_of, status_of
from artelier.missions.task.loop_state import counted_from, last_iteration

PAGE_MAX = 1_000
STATUSES = tuple(TaskStatus)

_TASKS = (
    "SELECT t.position, t.task, t.mission, t.agent, t.parent, t.inputs, t.max_iterations,"
    " t.iterations, t.ended, t.reason, t.blocked_by, t.outputs, t.created_us, t.changed_us,"
    " r.status, r.reason, m.status, t.iterations_before > 0 OR r.origin IS NOT NULL FROM tasks t"
    " LEFT JOIN runs r ON r.tenant = t.tenant AND r.run = t.task"
    " LEFT JOIN runs m ON m.tenant = t.tenant AND m.run = t.mission"
)

# Tasks


async def task_page(
    desk: Any, *, mission: str | None, agent: str | None, status: str | None, after: int, limit: int
) -> dict[str, Any]:
    """`{items, next}`; an item is a task without its definition and iterations: see `_item`."""
    if status is not None and status not in STATUSES:
        raise InvalidRequest("status of a task", expected=", ".join(STATUSES), got=status[:80])
    limit = max(1, min(limit, PAGE_MAX))
    where, values = "t.tenant = ? AND t.position > ?", [desk.id, after]
    for column, value in (("t.mission", mission), ("t.agent", agent), (STATUS, status)):
        if value is not None:
            where, values = f"{where} AND {column} = ?", [*values, value]
    rows = await desk.services.store.query(
        f"{_TASKS} WHERE {where} ORDER BY t.position LIMIT ?", (*values, limit + 1)
    )
    page = rows[:limit]
    return {"items": await _items(desk, page), "next": page[-1][0] if len(rows) > limit else None}


async def _items(desk: Any, rows: Sequence[Any]) -> list[dict[str, Any]]:
    sums = await totals(desk.services.store, desk.id, [row[1] for row in rows if row[14] is not None])
    goals = await _goals(desk, [row[1] for row in rows])
    needed = await _dependencies(desk, [row[1] for row in rows])
    judged = await judgements_of(desk, [row[1] for row in rows])
    again = [row[1] for row in rows if row[17]]
    begun = {task: await counted_from(desk, task) for task in again}
    return [_item(row, goals=goals, sums=sums, needed=needed, judged=judged, begun=begun) for row in rows]


def _item(
    row: Sequence[Any],
    *,
    goals: dict[str, str],
    sums: dict[str, Any],
    needed: dict[str, list[str]],
    judged: dict[str, list[dict[str, Any]]],
    begun: dict[str, int],
) -> dict[str, Any]:
    """`{id, goal, status, reason, blocked_by, mission, assigned_agent_id, parent, inputs, depends_on,
    outputs, judged, iteration_count, max_iterations, last_iteration, run_status, cost_microusd, created_us,
    changed_us}`.

    `last_iteration` is the last one that the task may have, counted from `begun`; `judged` is what people
    have said of its outputs, see `human_verdict.judgements_of`.
    """
    (
        _,
        task,
        mission,
        agent,
        parent,
        inputs,
        most,
        iterations,
        ended,
        reason,
        blocked_by,
        outputs,
        created_us,
        changed_us,
        run_status,
        run_reason,
        mission_status,
        _,
    ) = row
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


async def _definition(desk: Any, task: str) -> Artifact | None:
    """A task's artifact; that of its origin for a fork, which has none. None if it was not brought along."""
    artifacts = desk.as_principal(OPERATOR).artifacts
    for _ in range(FORKS_MAX):
        try:
            return await artifacts.look(task)
        except NotFound:
            rows = await desk.services.store.query(
                "SELECT origin FROM runs WHERE tenant = ? AND run = ? AND origin IS NOT NULL", (desk.id, task)
            )
            if not rows:
                return None
            task = rows[0][0]
        except ArtelierError:
            return None
    return None


def _fields(stored: Artifact) -> dict[str, Any]:
    """Return what a task's artifact says; of one that was erased, that."""
    content: Any = stored.content
    if isinstance(content, dict):
        return cast("dict[str, Any]", content)
    return {"goal": content, "success_criteria": content}


async def _goals(desk: Any, tasks: Sequence[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for task in tasks:
        if (stored := await _definition(desk, task)) is not None:
            found[task] = str(_fields(stored).get("goal", ""))
    return found


async def _dependencies(desk: Any, tasks: Sequence[str]) -> dict[str, list[str]]:
    rows = await desk.services.store.query(
        "SELECT task, before FROM task_dependencies WHERE tenant = ?"
        " AND task IN (SELECT value FROM json_each(?)) ORDER BY task, before",
        (desk.id, msgspec.json.encode(list(tasks)).decode()),
    )
    found: dict[str, list[str]] = {}
    for task, before in rows:
        found.setdefault(task, []).append(before)
    return found


async def task_object(desk: Any, task: str) -> dict[str, Any]:
    """An item of `task_page` with `message, success_criteria, checks, only_checks, version, iterations`.
    `message` says in words why it failed or is blocked, if its run has ended so.

    An iteration: `{iteration, at_us, action, reason, tool, decision, step, artifact, is_error, code, passed,
    verdict, void, steering}`; `decision` and `verdict` are JSON. Errors: `NotFound`.
    """
    rows = await desk.services.store.query(f"{_TASKS} WHERE t.tenant = ? AND t.task = ?", (desk.id, task))
    if not rows:
        raise NotFound(f"no task {task!r}", hint="`artelier tasks list` shows the tasks there are.")
    shown = (await _items(desk, rows))[0]
    stored = await _definition(desk, task)
    content = _fields(stored) if stored is not None else {}
    shown["version"] = stored.version if stored is not None else 0
    shown["success_criteria"] = content.get("success_criteria", "")
    shown["checks"] = content.get("checks", [])
    shown["only_checks"] = content.get("only_checks", False)
    shown["iterations"] = await iterations_of(desk, task)
    shown["message"] = await _message(desk, task) if shown["status"] in ("failed", "blocked") else ""
    shown["approvals"] = await approvals(desk.services, desk.id, run_id=task)
    return shown


async def _message(desk: Any, task: str) -> str:
    rows = await desk.services.store.query(
        "SELECT message FROM runs WHERE tenant = ? AND run = ?", (desk.id, task)
    )
    said = await shown_json(desk.services, desk.id, rows[0][0]) if rows else None
    return said if isinstance(said, str) else ""


async def iterations_of(desk: Any, task: str) -> list[dict[str, Any]]:
    """Return what was decided and what came of it, in order."""
    services = desk.services
    rows = await services.store.query(
        "SELECT i.iteration, i.at_us, i.decision, i.action, i.tool, i.step, i.artifact, i.is_error,"
        " i.code, i.passed, i.verdict, i.void, e.data FROM task_iterations i"
        " LEFT JOIN runs r ON r.tenant = i.tenant AND r.run = i.task"
        " LEFT JOIN events e ON e.stream = r.id AND e.seq = i.seq AND e.kind = 'decision.taken'"
        " WHERE i.tenant = ? AND i.task = ? ORDER BY i.iteration",
        (desk.id, task),
    )
    found: list[dict[str, Any]] = []
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
        data,
    ) in rows:
        said: Any = await shown_json(services, desk.id, decision)
        fields: dict[str, Any] = msgspec.json.decode(data) if data else {}
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
                "steering": fields.get("steering", "") or None,
            }
        )
    return found


async def standings(desk: Any, mission: str) -> dict[str, str]:
    """Return where each of a goal's own tasks stands, by id and however many there are."""
    rows = await desk.services.store.query(
        f"SELECT t.task, {STATUS} FROM tasks t LEFT JOIN runs r ON r.tenant = t.tenant AND r.run = t.task"
        " LEFT JOIN runs m ON m.tenant = t.tenant AND m.run = t.mission"
        " WHERE t.tenant = ? AND t.mission = ? AND t.parent = '' AND t.agent <> '' ORDER BY t.position",
        (desk.id, mission),
    )
    return dict(rows)


async def agent_ids(desk: Any, mission: str) -> list[str]:
    """Agents below a mission's name, in the order of their ids."""
    from artelier.ids import MAIN_SPACE

    rows = await desk.services.store.query(
        "SELECT id FROM artifacts WHERE tenant = ? AND space = ? AND id > ? AND id < ?"
        " AND kind = 'agent' AND deleted = 0 ORDER BY id LIMIT ?",
        (desk.id, MAIN_SPACE, f"{mission}/", f"{mission}0", PAGE_MAX),
    )
    return [row[0] for row in rows]


async def judgements_of(desk: Any, tasks: list[str]) -> dict[str, list[dict[str, Any]]]:
    """Return by task `{output, accepted, by, at_us, note}` of each judgement of a person, oldest first."""
    import msgspec

    rows = await desk.services.store.query(
        "SELECT task, ref, accepted, by, at_us, note FROM judgements WHERE tenant = ?"
        " AND task IN (SELECT value FROM json_each(?)) ORDER BY position",
        (desk.id, msgspec.json.encode(tasks).decode()),
    )
    found: dict[str, list[dict[str, Any]]] = {}
    for task, ref, accepted, by, at_us, note in rows:
        said = await shown_json(desk.services, desk.id, note)
        found.setdefault(task, []).append(
            {"output": ref, "accepted": bool(accepted), "by": by, "at_us": at_us, "note": said or ""}
        )
    return found


TEXT_CHARS_MAX = 1_000_000
"""Of one report; the outputs themselves are whole."""


async def report_of(desk: Any, refs: Sequence[str]) -> str:
    """The outputs, one after the other. What cannot be read any more is named instead."""
    artifacts = desk.as_principal(OPERATOR).artifacts
    texts: list[str] = []
    for ref in refs:
        try:
            texts.append(text_of((await artifacts.read(ref)).content))
        except ArtelierError as error:
            texts.append(f"({ref}: {error.message})")
    return "\n\n".join(text.strip("\n") for text in texts)[:TEXT_CHARS_MAX]


def text_of(content: Any) -> str:
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


STATUS = """CASE WHEN r.status = 'cancelled' OR (r.status IS NULL AND m.status = 'cancelled')
 THEN 'cancelled' WHEN t.ended <> '' THEN t.ended WHEN r.status IS NULL THEN 'pending'
 WHEN r.status = 'budget_exhausted' THEN 'blocked' WHEN r.status IN ('failed', 'completed') THEN 'failed'
 ELSE 'active' END"""
"""Where a task stands, as `status.status_of` says, over tasks `t`, their runs `r` and their missions `m`."""

GOAL_STATUS = f"""CASE WHEN g.status NOT IN ('completed', 'failed', 'cancelled') THEN g.status
 ELSE coalesce((SELECT CASE WHEN sum(s.status <> 'done') = 0 THEN 'completed'
  WHEN sum(s.status = 'active') THEN 'running' WHEN sum(s.status = 'pending') THEN 'pending'
  WHEN sum(s.status = 'failed') THEN 'failed' WHEN sum(s.status = 'blocked') THEN 'blocked'
  WHEN count(*) THEN 'cancelled' END
  FROM (SELECT {STATUS} AS status FROM tasks t
   LEFT JOIN runs r ON r.tenant = t.tenant AND r.run = t.task
   LEFT JOIN runs m ON m.tenant = t.tenant AND m.run = t.mission
   WHERE t.tenant = g.tenant AND t.mission = g.run AND t.parent = '' AND t.agent <> '') s), g.status) END"""
"""As `goal_status` for the mission whose run is `g`."""
