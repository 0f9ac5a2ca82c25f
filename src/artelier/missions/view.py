"""The view of missions and tasks: where each task stands, and what was decided in each iteration.

A task's definition is its artifact; here stand the facts that events add. `status.py` puts them together with
the status of the task's run.

A task without a driver that waits for one which will not be done is blocked as long as that holds. Nobody
drives a task of its own yet, nor one whose mission has ended, as a mission at work does its own; so it
follows from the log alone (`settle`): it is blocked in the instant in which a task that it depends on ends
otherwise, and pending again when that one is reopened, done after all, or no longer needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import msgspec

from artelier.errors import Conflict, InvalidEvent
from artelier.kernel import events as kernel_events
from artelier.kernel import kernel_view
from artelier.kernel.export.writer import ABOUT, BESIDE, KINDS
from artelier.kernel.view import step_completed
from artelier.log import Applied, Tx, View
from artelier.missions import events as ev
from artelier.missions.status import TASKS_FAILED, TaskStatus

_json = msgspec.json.Encoder()

ACCEPTED, REJECTED = "accepted", "rejected"
"""Reasons of a task that stands as a person has judged its output."""

PUBLISHED = (
    """CREATE TEMP VIEW IF NOT EXISTS task_status AS
        SELECT t.*, r.stream_id AS run_row, r.status AS run_status, r.reason AS run_reason,
            r.origin AS run_origin, CASE WHEN r.origin IS NULL THEN m.status END AS mission_status,
            CASE WHEN r.status = 'cancelled' OR (r.status IS NULL AND m.status = 'cancelled') THEN 'cancelled'
                WHEN t.ended <> '' THEN t.ended
                WHEN r.status IS NULL THEN 'pending'
                WHEN r.status = 'budget_exhausted' THEN 'blocked'
                WHEN r.status IN ('failed', 'completed') THEN 'failed'
                ELSE 'active' END AS status,
            CASE WHEN t.parent = '' AND t.agent <> '' AND r.origin IS NULL THEN 1 ELSE 0 END AS is_own
        FROM tasks t
        LEFT JOIN run_status r ON r.tenant = t.tenant AND r.run = t.task
        LEFT JOIN run_status m ON m.tenant = t.tenant AND m.run = t.mission""",
)
"""The published view of tasks: a row per task with the statuses of its run and its mission; `run_row` is null
before its run has begun, `status` is what `status.status_of` says, and `is_own` tells whether the goal of its
mission is made of it: not of what a task has delegated, nor of forks, which ask what would have been. No
mission decides about forks: they have no `mission_status`."""

missions_view = View(
    name="missions",
    version=7,
    published=PUBLISHED,
    tables=("missions", "tasks", "task_dependencies", "task_iterations", "task_progress", "judgements"),
    schema=(
        """CREATE TABLE missions(
            tenant TEXT NOT NULL, mission TEXT NOT NULL, plan TEXT NOT NULL, calls INTEGER NOT NULL,
            cost INTEGER, planned_us INTEGER NOT NULL, launched_us INTEGER, agents TEXT NOT NULL,
            membranes TEXT NOT NULL, edited INTEGER NOT NULL,
            seq INTEGER NOT NULL, PRIMARY KEY(tenant, mission)) STRICT, WITHOUT ROWID""",
        """CREATE TABLE tasks(
            position INTEGER PRIMARY KEY, tenant TEXT NOT NULL, task TEXT NOT NULL,
            mission TEXT NOT NULL, agent TEXT NOT NULL, parent TEXT NOT NULL, inputs TEXT NOT NULL,
            max_iterations INTEGER NOT NULL, iterations INTEGER NOT NULL, ended TEXT NOT NULL,
            reason TEXT NOT NULL, blocked_by TEXT NOT NULL, outputs TEXT NOT NULL,
            created_us INTEGER NOT NULL, changed_us INTEGER NOT NULL, alone INTEGER NOT NULL,
            iterations_before INTEGER NOT NULL, UNIQUE(tenant, task)) STRICT""",
        "CREATE INDEX tasks_alone ON tasks(position) WHERE alone = 1 AND ended = ''",
        "CREATE INDEX tasks_by_mission ON tasks(tenant, mission, position)",
        "CREATE INDEX tasks_by_agent ON tasks(tenant, agent, position)",
        """CREATE TABLE task_dependencies(
            tenant TEXT NOT NULL, task TEXT NOT NULL, before TEXT NOT NULL,
            PRIMARY KEY(tenant, task, before)) STRICT, WITHOUT ROWID""",
        "CREATE INDEX task_dependencies_by_before ON task_dependencies(tenant, before)",
        """CREATE TABLE task_iterations(
            tenant TEXT NOT NULL, task TEXT NOT NULL, iteration INTEGER NOT NULL, seq INTEGER NOT NULL,
            at_us INTEGER NOT NULL, decision TEXT NOT NULL, action TEXT NOT NULL, tool TEXT NOT NULL,
            steering TEXT NOT NULL, executed_seq INTEGER, step TEXT NOT NULL, artifact TEXT NOT NULL,
            is_error INTEGER NOT NULL, code TEXT NOT NULL, evaluated_seq INTEGER, passed INTEGER,
            verdict TEXT, void TEXT NOT NULL,
            PRIMARY KEY(tenant, task, iteration)) STRICT, WITHOUT ROWID""",
        """CREATE TABLE task_progress(
            tenant TEXT NOT NULL, task TEXT NOT NULL, seq INTEGER NOT NULL, iterations INTEGER NOT NULL,
            iterations_before INTEGER NOT NULL, ended TEXT NOT NULL, reason TEXT NOT NULL,
            blocked_by TEXT NOT NULL, outputs TEXT NOT NULL,
            PRIMARY KEY(tenant, task, seq)) STRICT, WITHOUT ROWID""",
        """CREATE TABLE judgements(
            position INTEGER PRIMARY KEY, tenant TEXT NOT NULL, task TEXT NOT NULL, ref TEXT NOT NULL,
            accepted INTEGER NOT NULL, by TEXT NOT NULL, at_us INTEGER NOT NULL, note TEXT) STRICT""",
        "CREATE INDEX judgements_by_task ON judgements(tenant, task, position)",
    ),
)

RECEIPTS = (
    ev.MissionPlanned,
    ev.MissionLaunched,
    ev.TaskBlocked,
    ev.TaskBegun,
    ev.DecisionTaken,
    ev.DecisionInvalid,
    ev.DecisionExecuted,
    ev.TaskEvaluated,
    ev.TaskEnded,
)
kernel_view.on(*RECEIPTS)(step_completed)
KINDS["run"].update(kind.KIND for kind in RECEIPTS)
IN_ARTIFACTS = (ev.TaskCreated, ev.TaskChanged, ev.TaskCancelled, ev.TaskReopened, ev.OutputJudged)
KINDS["artifact"].update(kind.KIND for kind in IN_ARTIFACTS)
BESIDE["task"] = {kind.KIND for kind in IN_ARTIFACTS}
ABOUT.update({kind.KIND: "task" for kind in IN_ARTIFACTS})


def _text(values: Sequence[str]) -> str:
    return _json.encode(list(values)).decode()


def _set(
    event: Applied,
    tx: Tx,
    task: str,
    *,
    only: str = "1 = 1",
    given: tuple[str, ...] = (),
    **values: str | int | None,
) -> None:
    """Change columns of a task where `only` holds, a condition of this file over `given`."""
    changes = ", ".join(f"{column} = ?" for column in values)
    tx.execute(
        f"UPDATE tasks SET {changes}, changed_us = ? WHERE tenant = ? AND task = ? AND {only}",
        (*values.values(), event.at_us, event.stream.tenant, task, *given),
    )


def _move(
    event: Applied,
    tx: Tx,
    task: str,
    to: TaskStatus,
    *,
    is_fact: bool = True,
    only: str = "1 = 1",
    given: tuple[str, ...] = (),
    reason: str = "",
    blocked_by: str = "",
    **values: str | int | None,
) -> None:
    """Set a task's status: the only place that does.

    A fact holds, whatever was known; else nothing happens where the status does not follow (`TaskStatus`).
    """
    if not is_fact:
        before = sorted(to.predecessors)
        only, given = f"{only} AND ended IN ({', '.join('?' * len(before))})", (*given, *before)
    _set(
        event,
        tx,
        task,
        only=only,
        given=given,
        ended=to.stored,
        reason=reason,
        blocked_by=blocked_by,
        **values,
    )


def _set_iteration(event: Applied, tx: Tx, iteration: int, **values: str | int | None) -> None:
    changes = ", ".join(f"{column} = ?" for column in values)
    tx.execute(
        f"UPDATE task_iterations SET {changes} WHERE tenant = ? AND task = ? AND iteration = ?",
        (*values.values(), event.stream.tenant, event.stream.id, iteration),
    )


# Missions


@missions_view.on(ev.MissionPlanned)
def _apply_planned(event: Applied, tx: Tx) -> None:
    data = cast(ev.MissionPlanned, event.data)
    tx.execute(
        "INSERT INTO missions VALUES (?, ?, ?, ?, ?, ?, NULL, '[]', '[]', 0, ?)"
        " ON CONFLICT(tenant, mission) DO UPDATE SET plan = excluded.plan, calls = excluded.calls,"
        " cost = excluded.cost, planned_us = excluded.planned_us",
        (event.stream.tenant, event.stream.id, data.plan, data.calls, data.cost, event.at_us, event.seq),
    )


@missions_view.on(ev.MissionLaunched)
def _apply_launched(event: Applied, tx: Tx) -> None:
    data = cast(ev.MissionLaunched, event.data)
    tx.execute(
        "UPDATE missions SET plan = ?, launched_us = ?, agents = ?, membranes = ?, edited = ?"
        " WHERE tenant = ? AND mission = ?",
        (
            data.plan,
            event.at_us,
            _text(data.agents),
            _text(data.membranes),
            int(data.edited),
            event.stream.tenant,
            event.stream.id,
        ),
    )


# Tasks


@missions_view.on(ev.TaskCreated)
def _apply_created(event: Applied, tx: Tx) -> None:
    data = cast(ev.TaskCreated, event.data)
    _check_own(event, data.task)
    done = tx.execute(
        "INSERT INTO tasks VALUES (?, ?, ?, ?, ?, ?, ?, ?, 0, '', '', '', '[]', ?, ?, ?, 0)"
        " ON CONFLICT DO NOTHING",
        (
            event.position,
            event.stream.tenant,
            data.task,
            data.mission,
            data.agent,
            data.parent,
            _text(data.inputs),
            data.max_iterations,
            event.at_us,
            event.at_us,
            int(not data.mission and not data.parent),
        ),
    )
    if not done.rowcount:
        raise Conflict(f"task {data.task} is there already")
    _depend(tx, event.stream.tenant, data.task, data.depends_on)
    settle(event, tx, data.task)


@missions_view.on(ev.TaskChanged)
def _apply_changed(event: Applied, tx: Tx) -> None:
    data = cast(ev.TaskChanged, event.data)
    _check_own(event, data.task)
    _set(
        event, tx, data.task, agent=data.agent, inputs=_text(data.inputs), max_iterations=data.max_iterations
    )
    tx.execute(
        "DELETE FROM task_dependencies WHERE tenant = ? AND task = ?", (event.stream.tenant, data.task)
    )
    _depend(tx, event.stream.tenant, data.task, data.depends_on)
    settle(event, tx, data.task)


@missions_view.on(ev.TaskCancelled)
def _apply_cancelled(event: Applied, tx: Tx) -> None:
    data = cast(ev.TaskCancelled, event.data)
    _check_own(event, data.task)
    _move(event, tx, data.task, TaskStatus.CANCELLED, is_fact=False, reason="cancelled")
    settle(event, tx, data.task)


@missions_view.on(ev.TaskReopened)
def _wanted_again(event: Applied, tx: Tx) -> None:
    data = cast(ev.TaskReopened, event.data)
    _check_own(event, data.task)
    _move(event, tx, data.task, TaskStatus.PENDING, is_fact=False, alone=1)
    settle(event, tx, data.task)


@missions_view.on(ev.OutputJudged)
def _output_judged(event: Applied, tx: Tx) -> None:
    """Let a person's word stand above what the loop and its evaluator have come to."""
    data = cast(ev.OutputJudged, event.data)
    _check_own(event, data.task)
    tx.execute(
        "INSERT INTO judgements VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (
            event.position,
            event.stream.tenant,
            data.task,
            data.ref,
            int(data.accepted),
            event.actor,
            event.at_us,
            data.note,
        ),
    )
    to, reason = (TaskStatus.DONE, ACCEPTED) if data.accepted else (TaskStatus.FAILED, REJECTED)
    _move(event, tx, data.task, to, reason=reason)
    settle(event, tx, data.task)


def _check_own(event: Applied, task: str) -> None:
    if task != event.stream.id:
        raise InvalidEvent(
            "a task is made in the stream of its artifact", expected=event.stream.id, got=task[:120]
        )


def _depend(tx: Tx, tenant: str, task: str, before: Sequence[str]) -> None:
    for other in dict.fromkeys(before):
        tx.execute("INSERT INTO task_dependencies VALUES (?, ?, ?)", (tenant, task, other))


@missions_view.on(ev.TaskBlocked)
def _apply_blocked(event: Applied, tx: Tx) -> None:
    data = cast(ev.TaskBlocked, event.data)
    _move(
        event,
        tx,
        data.task,
        TaskStatus.BLOCKED,
        is_fact=False,
        only="mission = ?",
        given=(event.stream.id,),
        reason=data.reason,
        blocked_by=data.by,
    )
    settle(event, tx, data.task)


@missions_view.on(ev.TaskBegun)
def _apply_begun(event: Applied, tx: Tx) -> None:
    data = cast(ev.TaskBegun, event.data)
    # A run that was imported brings its task along.
    tx.execute(
        "INSERT INTO tasks VALUES (?, ?, ?, '', ?, '', ?, ?, 0, '', '', '', '[]', ?, ?, 0, 0)"
        " ON CONFLICT(tenant, task) DO NOTHING",
        (
            event.position,
            event.stream.tenant,
            event.stream.id,
            data.agent,
            _text(data.inputs),
            data.max_iterations,
            event.at_us,
            event.at_us,
        ),
    )
    _move(event, tx, event.stream.id, TaskStatus.ACTIVE)


@missions_view.on(ev.DecisionTaken)
def _apply_decision(event: Applied, tx: Tx) -> None:
    data = cast(ev.DecisionTaken, event.data)
    tx.execute(
        "INSERT INTO task_iterations"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, NULL, '', '', 0, '', NULL, NULL, NULL, '')",
        (
            event.stream.tenant,
            event.stream.id,
            data.iteration,
            event.seq,
            event.at_us,
            data.decision,
            data.action,
            data.tool,
            data.steering,
        ),
    )
    _touch(event, tx, iterations=data.iteration)


@missions_view.on(ev.DecisionInvalid)
def _not_decided(event: Applied, tx: Tx) -> None:
    _touch(event, tx, iterations=cast(ev.DecisionInvalid, event.data).iteration)


@missions_view.on(ev.DecisionExecuted)
def _apply_execution(event: Applied, tx: Tx) -> None:
    data = cast(ev.DecisionExecuted, event.data)
    _set_iteration(
        event,
        tx,
        data.iteration,
        executed_seq=event.seq,
        step=data.step,
        artifact=data.artifact,
        is_error=int(data.is_error),
        code=data.code,
    )


@missions_view.on(ev.TaskEvaluated)
def _apply_evaluation(event: Applied, tx: Tx) -> None:
    data = cast(ev.TaskEvaluated, event.data)
    _set_iteration(
        event,
        tx,
        data.iteration,
        evaluated_seq=event.seq,
        passed=int(data.passed),
        verdict=data.verdict,
        void=data.void,
    )


@missions_view.on(ev.TaskEnded)
def _apply_ended(event: Applied, tx: Tx) -> None:
    data = cast(ev.TaskEnded, event.data)
    _move(
        event,
        tx,
        event.stream.id,
        _end_of(data),
        reason=data.reason,
        blocked_by=data.by,
        outputs=_text(data.outputs),
        iterations=data.iterations,
    )
    _keep_progress(event, tx)
    settle(event, tx, event.stream.id)


def _end_of(data: ev.TaskEnded) -> TaskStatus:
    try:
        return TaskStatus(data.status)
    except ValueError:
        raise InvalidEvent(
            "a task ends as what no task is", expected="done, failed or blocked", got=data.status[:80]
        ) from None


def _touch(event: Applied, tx: Tx, *, iterations: int) -> None:
    tx.execute(
        "UPDATE tasks SET iterations = max(iterations, ?), changed_us = ? WHERE tenant = ? AND task = ?",
        (iterations, event.at_us, event.stream.tenant, event.stream.id),
    )
    _keep_progress(event, tx)


_PROGRESS = "iterations, iterations_before, ended, reason, blocked_by, outputs"


def _keep_progress(event: Applied, tx: Tx) -> None:
    """Keep how far a task was at an event of its run: a fork begins with one of these."""
    tx.execute(
        f"INSERT INTO task_progress SELECT tenant, task, ?, {_PROGRESS} FROM tasks"
        " WHERE tenant = ? AND task = ?",
        (event.seq, event.stream.tenant, event.stream.id),
    )


# What happens to the run happens to the task


@missions_view.on(kernel_events.RunReopened)
def _apply_reopened(event: Applied, tx: Tx) -> None:
    """Let the limit of iterations count anew."""
    _move(event, tx, event.stream.id, TaskStatus.ACTIVE, alone=1)
    tx.execute(
        "UPDATE tasks SET iterations_before = iterations WHERE tenant = ? AND task = ?",
        (event.stream.tenant, event.stream.id),
    )
    _keep_progress(event, tx)
    settle(event, tx, event.stream.id)


@missions_view.on(kernel_events.RunFailed, kernel_events.RunCancelled)
def _ended_otherwise(event: Applied, tx: Tx) -> None:
    settle(event, tx, event.stream.id)
    if isinstance(event.data, kernel_events.RunFailed) and event.data.reason == TASKS_FAILED:
        _free_added(event, tx)


@missions_view.on(kernel_events.RunCompleted)
def _free_added(event: Applied, tx: Tx) -> None:
    """Have tasks that were added to a mission behind its last look worked on without it."""
    tx.execute(
        "UPDATE tasks SET alone = 1 WHERE tenant = ? AND mission = ? AND parent = '' AND ended = ''"
        " AND alone = 0 AND NOT EXISTS (SELECT 1 FROM run_status r"
        " WHERE r.tenant = tasks.tenant AND r.run = tasks.task)",
        (event.stream.tenant, event.stream.id),
    )


@missions_view.on(kernel_events.RunForked)
def _apply_forked(event: Applied, tx: Tx) -> None:
    """A fork of a task's run is a task of its own, with the iterations of the history that it shares."""
    data = cast(kernel_events.RunForked, event.data)
    tx.execute(  # of a mission: a plan that is not launched yet
        "INSERT INTO missions SELECT tenant, ?, plan, calls, cost, planned_us, NULL, '[]', '[]', 0, seq"
        " FROM missions WHERE tenant = ? AND mission = ? AND seq <= ?",
        (event.stream.id, event.stream.tenant, data.origin, data.at),
    )
    own, origin = (event.stream.tenant, event.stream.id), (event.stream.tenant, data.origin)
    done = tx.execute(
        "INSERT INTO tasks SELECT ?, tenant, ?, mission, agent, parent, inputs, max_iterations, 0, '', '',"
        " '', '[]', ?, ?, 0, 0 FROM tasks WHERE tenant = ? AND task = ?",
        (event.position, event.stream.id, event.at_us, event.at_us, *origin),
    )
    if not done.rowcount:
        return
    # The history that is shared comes before the fork's own: in its stream it has no seq.
    tx.execute(_SHARE_ITERATIONS, (event.stream.id, *(data.at,) * 9, *origin, data.at))
    shared = tx.one(
        f"SELECT {_PROGRESS} FROM task_progress WHERE tenant = ? AND task = ? AND seq <= ?"
        " ORDER BY seq DESC LIMIT 1",
        (*origin, data.at),
    )
    if shared is not None:
        changes = ", ".join(f"{column} = ?" for column in _PROGRESS.split(", "))
        tx.execute(f"UPDATE tasks SET {changes} WHERE tenant = ? AND task = ?", (*shared, *own))
        tx.execute("INSERT INTO task_progress VALUES (?, ?, 0, ?, ?, ?, ?, ?, ?)", (*own, *shared))


_SHARE_ITERATIONS = """
    INSERT INTO task_iterations SELECT tenant, ?, iteration, 0, at_us, decision, action, tool, steering,
        CASE WHEN executed_seq <= ? THEN 0 END,
        CASE WHEN executed_seq <= ? THEN step ELSE '' END,
        CASE WHEN executed_seq <= ? THEN artifact ELSE '' END,
        CASE WHEN executed_seq <= ? THEN is_error ELSE 0 END,
        CASE WHEN executed_seq <= ? THEN code ELSE '' END,
        CASE WHEN evaluated_seq <= ? THEN 0 END,
        CASE WHEN evaluated_seq <= ? THEN passed END,
        CASE WHEN evaluated_seq <= ? THEN verdict END,
        CASE WHEN evaluated_seq <= ? THEN void ELSE '' END
    FROM task_iterations WHERE tenant = ? AND task = ? AND seq <= ?"""
"""Decisions up to an event, with their outcomes by then."""

DEPENDENCY_FAILED = "dependency_failed"
"""The reason of a task that is blocked by what it depends on."""

_WAITING = (
    "SELECT t.ended, t.blocked_by FROM task_status t"
    " WHERE t.tenant = ? AND t.task = ?"
    " AND (t.run_row IS NULL OR t.run_status = 'pending')"  # or it was reopened, and nobody drives it yet
    " AND (t.mission = '' OR t.mission_status IN ('completed', 'failed'))"
    f" AND (t.ended = '' OR (t.ended = 'blocked' AND t.reason = '{DEPENDENCY_FAILED}'))"
)
_IN_THE_WAY = (
    "SELECT d.before FROM task_dependencies d"
    " JOIN task_status b ON b.tenant = d.tenant AND b.task = d.before"
    " WHERE d.tenant = ? AND d.task = ? AND (b.ended IN ('failed', 'blocked', 'cancelled')"
    " OR (b.ended = '' AND b.run_status IN ('failed', 'cancelled')))"
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
    to, reason, by = (
        (TaskStatus.PENDING, "", "")
        if found is None
        else (TaskStatus.BLOCKED, DEPENDENCY_FAILED, str(found[0]))
    )
    if tuple(stands) == (to.stored, by):
        return False
    _move(event, tx, task, to, reason=reason, blocked_by=by, alone=1)
    return stands[0] != to.stored


def _behind(tx: Tx, tenant: str, task: str) -> list[str]:
    rows = tx.execute(
        "SELECT task FROM task_dependencies WHERE tenant = ? AND before = ? ORDER BY task", (tenant, task)
    ).fetchall()
    return [behind for (behind,) in rows]
