"""The kernel's views: runs, steps, messages, waits, approvals, signals, snapshots, imports, tenants.

Rows are keyed by the id of the run's stream. Nothing here is asked about while a step runs; it serves
resume, lists and people.
"""

from __future__ import annotations

from typing import cast

import msgspec

from artelier.errors import StepConflict
from artelier.kernel import events as ev
from artelier.kernel.queries.run_pages import CONVERSATION, NUMBERED
from artelier.kernel.queries.runs import AWAKE, ENDED, PUBLISHED
from artelier.kernel.run.status import DRIFTED, RunStatus, quote_statuses
from artelier.log import Applied, Tx, View

SNAPSHOT_EVERY = 256
"""Cycles between the snapshots that are kept for fork and rewind, besides the newest."""

kernel_view = View(
    name="kernel",
    version=4,
    tables=(
        "runs",
        "steps",
        "messages",
        "waits",
        "approvals",
        "signals",
        "controls",
        "snapshots",
        "imports",
        "tenants",
    ),
    schema=(
        """CREATE TABLE runs(
            id INTEGER PRIMARY KEY, tenant TEXT NOT NULL, run TEXT NOT NULL, status TEXT NOT NULL,
            reason TEXT NOT NULL, loop TEXT NOT NULL, agent TEXT NOT NULL, model TEXT NOT NULL,
            parent TEXT, parent_step TEXT, origin TEXT, origin_seq INTEGER, goal TEXT, settings TEXT,
            tools TEXT, result TEXT, message TEXT, replay TEXT NOT NULL, started_us INTEGER NOT NULL,
            ended_us INTEGER, steps INTEGER NOT NULL, input_tokens INTEGER NOT NULL,
            cached_input_tokens INTEGER NOT NULL, output_tokens INTEGER NOT NULL,
            cost INTEGER NOT NULL, control_seq INTEGER NOT NULL, stepping INTEGER NOT NULL,
            status_us INTEGER NOT NULL,
            UNIQUE(tenant, run)) STRICT""",
        "CREATE INDEX runs_by_parent ON runs(tenant, parent) WHERE parent IS NOT NULL",
        "CREATE INDEX runs_by_status_time ON runs(tenant, agent, status, status_us, id, run)"
        f" WHERE {NUMBERED}",
        f"CREATE INDEX runs_of_conversation ON runs(tenant, agent, {CONVERSATION}, status, status_us, id)"
        f" WHERE {NUMBERED}",
        """CREATE TABLE steps(
            run INTEGER NOT NULL, key TEXT NOT NULL, kind TEXT NOT NULL, status TEXT NOT NULL,
            requested INTEGER NOT NULL, completed INTEGER,
            PRIMARY KEY(run, key)) STRICT, WITHOUT ROWID""",
        """CREATE TABLE messages(
            run INTEGER NOT NULL, conversation TEXT NOT NULL, n INTEGER NOT NULL, form TEXT NOT NULL,
            ref TEXT NOT NULL, call TEXT NOT NULL, seq INTEGER NOT NULL,
            PRIMARY KEY(run, conversation, n)) STRICT, WITHOUT ROWID""",
        """CREATE TABLE waits(
            run INTEGER NOT NULL, key TEXT NOT NULL, name TEXT NOT NULL, until_us INTEGER,
            PRIMARY KEY(run, key)) STRICT, WITHOUT ROWID""",
        "CREATE INDEX waits_by_time ON waits(until_us) WHERE until_us IS NOT NULL",
        """CREATE TABLE approvals(
            run INTEGER NOT NULL, key TEXT NOT NULL, question TEXT NOT NULL, expires_us INTEGER,
            decision TEXT, by TEXT, at_us INTEGER,
            PRIMARY KEY(run, key)) STRICT, WITHOUT ROWID""",
        """CREATE TABLE signals(
            run INTEGER NOT NULL, seq INTEGER NOT NULL, name TEXT NOT NULL, data TEXT,
            PRIMARY KEY(run, seq)) STRICT, WITHOUT ROWID""",
        """CREATE TABLE controls(
            position INTEGER PRIMARY KEY, tenant TEXT NOT NULL, run TEXT NOT NULL) STRICT""",
        """CREATE TABLE snapshots(
            run INTEGER NOT NULL, cycle INTEGER NOT NULL, seq INTEGER NOT NULL, state TEXT NOT NULL,
            PRIMARY KEY(run, cycle)) STRICT, WITHOUT ROWID""",
        """CREATE TABLE imports(
            tenant TEXT NOT NULL, run TEXT NOT NULL, key_id INTEGER,
            PRIMARY KEY(tenant, run)) STRICT, WITHOUT ROWID""",
        """CREATE TABLE tenants(
            tenant TEXT PRIMARY KEY, grants TEXT NOT NULL, budget INTEGER,
            allow_unknown_price INTEGER NOT NULL) STRICT, WITHOUT ROWID""",
    ),
    indexes=(f"CREATE INDEX IF NOT EXISTS runs_awake ON runs(id) WHERE {AWAKE}",),
    published=PUBLISHED,
)

_json = msgspec.json.Encoder(order="sorted")


_OUTLASTING_STEPS = quote_statuses(status for status in RunStatus if status.outlasts_steps)


def _status(tx: Tx, event: Applied, status: str, reason: str = "", but: str = _OUTLASTING_STEPS) -> None:
    """A run that has ended stays ended, and a paused one paused, whatever its steps still report.

    What a run is already, it has been since `status_us`.
    """
    tx.execute(
        f"UPDATE runs SET status = ?, reason = ?, status_us = ? WHERE id = ? AND status NOT IN {but}"
        " AND (status <> ? OR reason <> ?)",
        (status, reason, event.at_us, event.stream_id, status, reason),
    )


def _by_command(tx: Tx, event: Applied, status: str, reason: str = "") -> None:
    """Set the status that a person's command gives the whole run; only an end overrides it."""
    _status(tx, event, status, reason, but=ENDED)


def _status_when_driven(event: Applied) -> str:
    is_queued = cast(ev.CommandEffect, event.data).queued
    return (RunStatus.PENDING if is_queued else RunStatus.RUNNING).value


def _apply_handled(tx: Tx, event: Applied) -> None:
    command = cast(ev.CommandEffect | ev.LimitSet, event.data).command
    if command:
        tx.execute(
            "UPDATE runs SET control_seq = max(control_seq, ?) WHERE id = ?", (command, event.stream_id)
        )


_UNSETTLED = "('requested', 'open', 'cancelled', 'timed_out')"
"""Of steps that may get an outcome: they have none yet, or failed in a run that was reopened, or the code of
such a run had cut them off when it failed. Which of those are asked for again, the history decides."""


def _open(tx: Tx, event: Applied, key: str, kind: str) -> None:
    done = tx.execute(
        "INSERT INTO steps VALUES (?, ?, ?, 'requested', ?, NULL) ON CONFLICT DO NOTHING",
        (event.stream_id, key, kind, event.seq),
    ).rowcount
    if not done:
        _reopen(tx, event, key)


def _reopen(tx: Tx, event: Applied, key: str) -> None:
    """A step asked for again. Errors: `StepConflict` if it has an outcome that stands."""
    done = tx.execute(
        "UPDATE steps SET status = 'requested', requested = ?, completed = NULL"
        f" WHERE run = ? AND key = ? AND status IN {_UNSETTLED}",
        (event.seq, event.stream_id, key),
    ).rowcount
    if not done:
        raise StepConflict(
            f"step {key} of {event.stream.id} is already recorded", hint="Give the step another key.", key=key
        )


def _close(tx: Tx, event: Applied, key: str, status: str) -> None:
    tx.execute(
        "UPDATE steps SET status = ?, completed = ? WHERE run = ? AND key = ?",
        (status, event.seq, event.stream_id, key),
    )
    if status in ("completed", "failed"):
        _step_done(tx, event, hand_written=True)


def _record(tx: Tx, event: Applied, key: str, kind: str, status: str) -> None:
    """A step that is requested and done in one event."""
    done = tx.execute(
        "INSERT INTO steps VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT(run, key) DO UPDATE SET"
        " status = excluded.status, completed = excluded.completed"
        f" WHERE steps.status IN {_UNSETTLED}",
        (event.stream_id, key, kind, status, event.seq, event.seq),
    ).rowcount
    if not done:
        raise StepConflict(f"step {key} of {event.stream.id} is already recorded", key=key)
    _step_done(tx, event, hand_written=True)


@kernel_view.on(ev.RunStarted)
def _run_started(event: Applied, tx: Tx) -> None:
    data = cast(ev.RunStarted, event.data)
    tx.execute(
        "INSERT INTO runs VALUES (?, ?, ?, 'running', '', ?, ?, ?, ?, ?, NULL, NULL, ?, ?, ?, NULL,"
        " NULL, ?, ?, NULL, 0, 0, 0, 0, 0, 0, 0, ?)",
        (
            event.stream_id,
            event.stream.tenant,
            event.stream.id,
            data.loop,
            data.agent,
            data.model,
            data.parent,
            data.parent_step,
            data.goal,
            data.settings,
            data.tools,
            data.replay,
            event.at_us,
            event.at_us,
        ),
    )


@kernel_view.on(ev.RunForked)
def _run_forked(event: Applied, tx: Tx) -> None:
    data = cast(ev.RunForked, event.data)
    tx.execute(
        "INSERT INTO runs SELECT ?, tenant, ?, 'pending', '', loop, agent, model, NULL, NULL, ?, ?,"
        " goal, settings, tools, NULL, NULL, replay, ?, NULL, 0, 0, 0, 0, 0, 0, 0, ?"
        " FROM runs WHERE tenant = ? AND run = ?",
        (
            event.stream_id,
            event.stream.id,
            data.origin,
            data.at,
            event.at_us,
            event.at_us,
            event.stream.tenant,
            data.origin,
        ),
    )


@kernel_view.on(ev.RunResumed)
def _run_resumed(event: Applied, tx: Tx) -> None:
    status, reason = _status_when_driven(event), ""
    if status == RunStatus.RUNNING:
        status, reason = _waits_for(tx, event.stream_id) or (status, reason)
    _by_command(tx, event, status, reason)
    if command := cast(ev.RunResumed, event.data).command:
        _step_on(tx, event, command if cast(ev.RunResumed, event.data).stepping else 0)
    _apply_handled(tx, event)


def _step_on(tx: Tx, event: Applied, command: int) -> None:
    """The `step` that is in force from here on, 0 for none. Its number turns negative when it is done."""
    tx.execute("UPDATE runs SET stepping = ? WHERE id = ?", (command, event.stream_id))


def _step_done(tx: Tx, event: Applied, *, hand_written: bool) -> None:
    tx.execute(
        "UPDATE runs SET stepping = -stepping WHERE id = ? AND stepping > 0 AND (loop = '') = ?",
        (event.stream_id, hand_written),
    )


def _waits_for(tx: Tx, run: int) -> tuple[str, str] | None:
    """Status and reason of a run that goes on with waiting; None if it waits for nothing."""
    asked = tx.one(
        "SELECT key FROM approvals WHERE run = ? AND decision IS NULL ORDER BY key LIMIT 1", (run,)
    )
    if asked is not None:
        return RunStatus.WAITING_APPROVAL.value, asked[0]
    wait = tx.one("SELECT name FROM waits WHERE run = ? ORDER BY key LIMIT 1", (run,))
    return None if wait is None else (RunStatus.WAITING.value, wait[0] or "timer")


@kernel_view.on(ev.RunPaused)
def _run_paused(event: Applied, tx: Tx) -> None:
    stopped = cast(ev.RunPaused, event.data).stopped
    _by_command(tx, event, "paused", "stopped" if stopped else "")
    _step_on(tx, event, 0)
    _apply_handled(tx, event)


@kernel_view.on(ev.RunSuspendedEvent)
def _run_suspended(event: Applied, tx: Tx) -> None:
    data = cast(ev.RunSuspendedEvent, event.data)
    _status(tx, event, data.status, data.reason)


@kernel_view.on(ev.RunExhausted)
def _run_exhausted(event: Applied, tx: Tx) -> None:
    data = cast(ev.RunExhausted, event.data)
    _status(tx, event, RunStatus.BUDGET_EXHAUSTED.value, data.reason or f"{data.unit} of {data.scope}")


def _end(tx: Tx, event: Applied, status: str, reason: str, result: str | None, message: str | None) -> None:
    tx.execute(
        "UPDATE runs SET status = ?, reason = ?, result = ?, message = ?, ended_us = ?, status_us = ?"
        f" WHERE id = ? AND status NOT IN {ENDED}",
        (status, reason, result, message, event.at_us, event.at_us, event.stream_id),
    )
    tx.execute("DELETE FROM waits WHERE run = ?", (event.stream_id,))


@kernel_view.on(ev.RunCompleted)
def _run_completed(event: Applied, tx: Tx) -> None:
    _end(tx, event, RunStatus.COMPLETED.value, "", cast(ev.RunCompleted, event.data).result, None)


@kernel_view.on(ev.RunFailed)
def _run_failed(event: Applied, tx: Tx) -> None:
    data = cast(ev.RunFailed, event.data)
    _end(tx, event, RunStatus.FAILED.value, data.reason, data.result, data.message)


@kernel_view.on(ev.RunCancelled)
def _run_cancelled(event: Applied, tx: Tx) -> None:
    _end(tx, event, RunStatus.CANCELLED.value, "", None, cast(ev.RunCancelled, event.data).note)
    _apply_handled(tx, event)


@kernel_view.on(ev.RunDrifted)
def _run_drifted(event: Applied, tx: Tx) -> None:
    _end(tx, event, RunStatus.CANCELLED.value, DRIFTED, None, None)


@kernel_view.on(ev.RunReopened)
def _run_reopened(event: Applied, tx: Tx) -> None:
    tx.execute(
        "UPDATE runs SET status = 'pending', reason = '', ended_us = NULL, message = NULL, stepping = 0,"
        " status_us = ? WHERE id = ?",
        (event.at_us, event.stream_id),
    )
    for key in cast(ev.RunReopened, event.data).steps:
        tx.execute(
            "UPDATE steps SET status = 'open' WHERE run = ? AND key = ? AND status = 'failed'",
            (event.stream_id, key),
        )
    _apply_handled(tx, event)


@kernel_view.on(ev.CommandRefused, ev.NoteInjected, ev.LimitSet)
def _command_seen(event: Applied, tx: Tx) -> None:
    _apply_handled(tx, event)


@kernel_view.on(ev.CycleCompleted)
def _cycle_completed(event: Applied, tx: Tx) -> None:
    data = cast(ev.CycleCompleted, event.data)
    if (data.cycle - 1) % SNAPSHOT_EVERY:
        tx.execute("DELETE FROM snapshots WHERE run = ? AND cycle = ?", (event.stream_id, data.cycle - 1))
    tx.execute(
        "INSERT INTO snapshots VALUES (?, ?, ?, ?)",
        (event.stream_id, data.cycle, event.seq, _json.encode(data.state).decode()),
    )
    _step_done(tx, event, hand_written=False)
    _add_messages(tx, event, data.added)


def _add_messages(tx: Tx, event: Applied, all_added: tuple[ev.Added, ...]) -> None:
    for added in all_added:
        for offset, entry in enumerate(added.entries):
            tx.execute(
                "INSERT INTO messages VALUES (?, ?, ?, ?, ?, ?, ?)",
                (
                    event.stream_id,
                    added.conversation,
                    added.start + offset,
                    entry.form,
                    entry.ref,
                    entry.call,
                    event.seq,
                ),
            )


@kernel_view.on(ev.ContextAssembled)
def _context_assembled(event: Applied, tx: Tx) -> None:
    _add_messages(tx, event, cast(ev.ContextAssembled, event.data).added)


@kernel_view.on(ev.ModelRequested)
def _model_requested(event: Applied, tx: Tx) -> None:
    _open(tx, event, cast(ev.ModelRequested, event.data).key, "model")


@kernel_view.on(ev.ModelCompleted)
def _model_completed(event: Applied, tx: Tx) -> None:
    data = cast(ev.ModelCompleted, event.data)
    _close(tx, event, data.key, "failed" if data.invalid else "completed")
    tx.execute(
        "UPDATE runs SET steps = steps + 1, input_tokens = input_tokens + ?, cached_input_tokens ="
        " cached_input_tokens + ?, output_tokens = output_tokens + ?, cost = cost + ? WHERE id = ?",
        (data.input_tokens, data.cached_input_tokens, data.output_tokens, data.cost, event.stream_id),
    )


@kernel_view.on(ev.ModelAttempted)
def _model_attempted(event: Applied, tx: Tx) -> None:
    cost = cast(ev.ModelAttempted, event.data).cost
    if cost:
        tx.execute("UPDATE runs SET cost = cost + ? WHERE id = ?", (cost, event.stream_id))


@kernel_view.on(ev.ModelFailed)
def _model_failed(event: Applied, tx: Tx) -> None:
    data = cast(ev.ModelFailed, event.data)
    # A call that a person stopped is no outcome: it is asked for again when the run goes on.
    _close(tx, event, data.key, "open" if data.family == "cancelled" else "failed")
    tx.execute("UPDATE runs SET cost = cost + ? WHERE id = ?", (data.cost, event.stream_id))


@kernel_view.on(ev.ToolRequested)
def _tool_requested(event: Applied, tx: Tx) -> None:
    data = cast(ev.ToolRequested, event.data)
    _open(tx, event, data.key, "undo" if data.undoes else "tool")


@kernel_view.on(ev.ToolRetried)
def _tool_retried(event: Applied, tx: Tx) -> None:
    # A decision to retry holds for one dispatch: after a crash the outcome is unknown once more.
    tx.execute(
        "UPDATE steps SET status = 'requested', completed = NULL WHERE run = ? AND key = ?",
        (event.stream_id, cast(ev.ToolRetried, event.data).key),
    )


@kernel_view.on(ev.ToolRefused)
def _tool_refused(event: Applied, tx: Tx) -> None:
    data = cast(ev.ToolRefused, event.data)
    _record(tx, event, data.key, "undo" if data.undoes else "tool", "completed")


@kernel_view.on(ev.ToolCompleted)
def _tool_completed(event: Applied, tx: Tx) -> None:
    _close(tx, event, cast(ev.ToolCompleted, event.data).key, "completed")


@kernel_view.on(ev.ToolCharged)
def _tool_charged(event: Applied, tx: Tx) -> None:
    tx.execute(
        "UPDATE runs SET cost = cost + ? WHERE id = ?",
        (cast(ev.ToolCharged, event.data).cost, event.stream_id),
    )


@kernel_view.on(ev.ToolUnresolved)
def _tool_unresolved(event: Applied, tx: Tx) -> None:
    data = cast(ev.ToolUnresolved, event.data)
    _close(tx, event, data.key, "unknown")
    _status(tx, event, RunStatus.UNKNOWN_OUTCOME.value, data.key)


@kernel_view.on(ev.ToolReconciled)
def _tool_reconciled(event: Applied, tx: Tx) -> None:
    data = cast(ev.ToolReconciled, event.data)
    _close(tx, event, data.key, "retry" if data.answer == "retry" else "completed")
    _status(tx, event, _status_when_driven(event))
    _apply_handled(tx, event)


@kernel_view.on(ev.StepCompleted, ev.ContextCompacted, ev.ContextRestored, ev.CompensationPlanned)
def step_completed(event: Applied, tx: Tx) -> None:
    """Record a computed step; a package with receipts of its own registers it for their kinds."""
    _record(tx, event, cast(ev.StepCompleted, event.data).key, "compute", "completed")


@kernel_view.on(ev.StepFailed)
def _step_failed(event: Applied, tx: Tx) -> None:
    _record(tx, event, cast(ev.StepFailed, event.data).key, "compute", "failed")


@kernel_view.on(ev.StepCancelled, ev.StepTimedOut)
def _step_cut(event: Applied, tx: Tx) -> None:
    data = cast(ev.Cut, event.data)
    status = "timed_out" if isinstance(data, ev.StepTimedOut) else "cancelled"
    done = tx.one("SELECT status FROM steps WHERE run = ? AND key = ?", (event.stream_id, data.key))
    tx.execute(
        "INSERT INTO steps VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT(run, key) DO UPDATE SET"
        " status = excluded.status, completed = excluded.completed",
        (event.stream_id, data.key, data.kind, status, event.seq, event.seq),
    )
    if done is None or done[0] not in ("completed", "failed"):
        _step_done(tx, event, hand_written=True)
    tx.execute("DELETE FROM waits WHERE run = ? AND key = ?", (event.stream_id, data.key))
    tx.execute(
        "UPDATE approvals SET decision = 'cancelled', by = ?, at_us = ? WHERE run = ? AND decision IS NULL"
        " AND (key = ? OR substr(key, 1, ?) = ?)",
        (event.actor, event.at_us, event.stream_id, data.key, len(data.key) + 1, f"{data.key}/"),
    )
    if data.kind in ("wait", "approval", "tool"):  # nobody waits for it any more
        _status(tx, event, *(_waits_for(tx, event.stream_id) or (RunStatus.RUNNING.value, "")))


@kernel_view.on(ev.ApprovalRequested)
def _approval_requested(event: Applied, tx: Tx) -> None:
    data = cast(ev.ApprovalRequested, event.data)
    _open(tx, event, data.key, "approval")
    tx.execute(
        "INSERT INTO approvals VALUES (?, ?, ?, ?, NULL, NULL, NULL) ON CONFLICT(run, key) DO UPDATE SET"
        " question = excluded.question, expires_us = excluded.expires_us, decision = NULL, by = NULL,"
        " at_us = NULL",
        (event.stream_id, data.key, data.question, data.expires_us),
    )
    _status(tx, event, RunStatus.WAITING_APPROVAL.value, data.key)


@kernel_view.on(ev.ApprovalGiven)
def _approval_given(event: Applied, tx: Tx) -> None:
    data = cast(ev.ApprovalGiven, event.data)
    _close(tx, event, data.key, "completed")
    tx.execute(
        "UPDATE approvals SET decision = ?, by = ?, at_us = ? WHERE run = ? AND key = ?",
        (data.decision, event.actor, event.at_us, event.stream_id, data.key),
    )
    _status(tx, event, _status_when_driven(event))
    _apply_handled(tx, event)


@kernel_view.on(ev.WaitStarted)
def _wait_started(event: Applied, tx: Tx) -> None:
    data = cast(ev.WaitStarted, event.data)
    _open(tx, event, data.key, "wait")
    tx.execute("INSERT INTO waits VALUES (?, ?, ?, ?)", (event.stream_id, data.key, data.name, data.until_us))
    _status(tx, event, RunStatus.WAITING.value, data.name or "timer")


@kernel_view.on(ev.WaitEnded)
def _wait_ended(event: Applied, tx: Tx) -> None:
    data = cast(ev.WaitEnded, event.data)
    _close(tx, event, data.key, "completed")
    tx.execute("DELETE FROM waits WHERE run = ? AND key = ?", (event.stream_id, data.key))
    if data.signal:
        tx.execute("DELETE FROM signals WHERE run = ? AND seq = ?", (event.stream_id, data.signal))
    _status(tx, event, RunStatus.RUNNING.value)


@kernel_view.on(ev.SignalReceived)
def _signal_received(event: Applied, tx: Tx) -> None:
    data = cast(ev.SignalReceived, event.data)
    tx.execute("INSERT INTO signals VALUES (?, ?, ?, ?)", (event.stream_id, event.seq, data.name, data.data))
    if data.queued:  # nobody drives the run: if this is what it waits for, somebody should
        tx.execute(
            "UPDATE runs SET status = 'pending', reason = '', status_us = ? WHERE id = ?"
            " AND status = 'waiting' AND EXISTS (SELECT 1 FROM waits WHERE run = ? AND name = ?)",
            (event.at_us, event.stream_id, event.stream_id, data.name),
        )
    _apply_handled(tx, event)


@kernel_view.on(ev.CommandGiven)
def _command_given(event: Applied, tx: Tx) -> None:
    tx.execute(
        "INSERT INTO controls VALUES (?, ?, ?)", (event.position, event.stream.tenant, event.stream.id)
    )


@kernel_view.on(ev.RunsImported)
def _runs_imported(event: Applied, tx: Tx) -> None:
    for imported in cast(ev.RunsImported, event.data).runs:
        tx.execute(
            "INSERT INTO imports VALUES (?, ?, ?)", (event.stream.tenant, imported.run, imported.key_id)
        )


@kernel_view.on(ev.TenantCreated, ev.TenantUpdated)
def _tenant_set(event: Applied, tx: Tx) -> None:
    data = cast(ev.TenantCreated | ev.TenantUpdated, event.data)
    tx.execute(
        "INSERT INTO tenants VALUES (?, ?, ?, ?) ON CONFLICT(tenant) DO UPDATE SET grants ="
        " excluded.grants, budget = excluded.budget, allow_unknown_price = excluded.allow_unknown_price",
        (event.stream.tenant, _json.encode(data.grants).decode(), data.budget, int(data.allow_unknown_price)),
    )
