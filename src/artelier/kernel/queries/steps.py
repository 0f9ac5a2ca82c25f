"""Reads of a run's steps with their events, and of what a run waits for: approvals, timers, signals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from artelier.kernel.events import ToolCompleted, ToolRefused, ToolRequested
from artelier.kernel.queries.runs import ENDED
from artelier.kernel.tool_calls.tool_questions import QUESTION_KINDS, ToolQuestions
from artelier.log import BlobRef, Store
from artelier.log.queries import (
    EventRow,
    events_at,
    fetch_all,
    fetch_column,
    fetch_first,
    fetch_value,
    stream_events,
)


class StepRow(NamedTuple):
    """A step of a run as the view has it."""

    key: str
    kind: str
    """`model`, `tool`, `undo`, `write`, `spawn`, `approval`, `wait` and so on."""
    status: str
    requested: int
    """Sequence number of the event that asked for it last."""
    completed: int | None


class StepRecord(NamedTuple):
    """A step with the events of its request and its outcome."""

    step: StepRow
    request: EventRow
    outcome: EventRow | None


_STEP = "SELECT key, kind, status, requested, completed FROM steps"


async def run_steps(
    store: Store,
    stream_id: int,
    *,
    kind: str | None = None,
    status: str | None = None,
    after: int = 0,
    before: int | None = None,
    limit: int | None = None,
    last: bool = False,
) -> list[StepRow]:
    """Return the steps of a run that were asked for between two events, in the order they were asked for.

    With `limit`, that many of the first, or of the `last`.
    """
    where, parameters = "run = ? AND requested > ?", [stream_id, after]
    if before is not None:
        where, parameters = f"{where} AND requested < ?", [*parameters, before]
    if status is not None:
        where, parameters = f"{where} AND status = ?", [*parameters, status]
    if kind is not None:
        where, parameters = f"{where} AND kind = ?", [*parameters, kind]
    order = "requested DESC, key DESC" if last else "requested, key"
    bound = "" if limit is None else f" LIMIT {limit:d}"
    rows = await store.query(f"{_STEP} WHERE {where} ORDER BY {order}{bound}", parameters)
    return [StepRow(*row) for row in (reversed(rows) if last else rows)]


async def find_step(store: Store, stream_id: int, key: str, *, upto: int | None = None) -> StepRow | None:
    """Return a step that was asked for; None also if it was asked for again after the event `upto`."""
    rows = await store.query(f"{_STEP} WHERE run = ? AND key = ?", (stream_id, key))
    if not rows or (upto is not None and rows[0][3] > upto):
        return None
    return StepRow(*rows[0])


async def step_of(store: Store, tenant: str, run_id: str, key: str) -> StepRow | None:
    """Return a step by the names of its run."""
    return await fetch_first(
        store,
        StepRow,
        f"{_STEP} WHERE run = (SELECT id FROM runs WHERE tenant = ? AND run = ?) AND key = ?",
        (tenant, run_id, key),
    )


async def newest_step(store: Store, tenant: str, run_id: str) -> StepRow | None:
    """Return the step that a run is at, or has asked for last."""
    return await fetch_first(
        store,
        StepRow,
        f"{_STEP} WHERE run = (SELECT id FROM runs WHERE tenant = ? AND run = ?)"
        " ORDER BY status NOT IN ('requested', 'open'), requested DESC LIMIT 1",
        (tenant, run_id),
    )


_EVENTS_OF_STEP = (
    " JOIN event_log q ON q.stream_id = +s.run AND q.seq = +s.requested"
    "{} JOIN event_log c ON c.stream_id = s.run AND c.seq = s.completed"
)
"""A step's request and its outcome. Without `+`, SQLite begins with the events and goes through all steps of
the run for each of them: 0.3 s with 2,000 steps, a hundred times as much with 20,000."""

_RECORD = (
    "SELECT s.key, s.kind, s.status, s.requested, s.completed,"
    " q.seq, q.position, q.kind, q.version, q.at_us, q.actor, q.cause, q.data,"
    " c.seq, c.position, c.kind, c.version, c.at_us, c.actor, c.cause, c.data"
    f" FROM steps s{_EVENTS_OF_STEP.format(' LEFT')}"
)


async def step_records(
    store: Store,
    stream_id: int,
    *kinds: str,
    status: str | None = None,
    after: int = 0,
    upto: int | None = None,
) -> list[StepRecord]:
    """Return steps of a run with their events, of some kinds, in the order they were asked for.

    Only those that were asked for after the event `after`, and not after `upto`.
    """
    where, parameters = "s.run = ? AND s.requested > ?", [stream_id, after]
    if upto is not None:
        where, parameters = f"{where} AND s.requested <= ?", [*parameters, upto]
    if kinds:
        where = f"{where} AND s.kind IN ({', '.join('?' * len(kinds))})"
        parameters = [*parameters, *kinds]
    if status is not None:
        where, parameters = f"{where} AND s.status = ?", [*parameters, status]
    rows = await store.query(f"{_RECORD} WHERE {where} ORDER BY s.requested, s.key", parameters)
    return [_record(row) for row in rows]


async def unsettled_calls(store: Store, stream_id: int, *, has_ended: bool) -> list[StepRecord]:
    """Return the side effects of a run of which nobody knows what they did, in the order they were asked for.

    Of a run that `has_ended`, and whose code nobody drives, those too that were at work at its end: nothing
    but a person, or the process that made them, will say what they did.
    """
    found = await step_records(store, stream_id, status="unknown")
    if has_ended:
        at_work = await step_records(store, stream_id, "tool", status="requested")
        untouched = await untouched_calls(store, stream_id) if at_work else frozenset[str]()
        found += [
            one
            for one in at_work
            if one.step.key not in untouched and one.request.read(ToolRequested).side_effect
        ]
        found.sort(key=lambda one: one.step.requested)
    return found


async def untouched_calls(store: Store, stream_id: int, *, upto: int | None = None) -> frozenset[str]:
    """Return the keys of calls that have done nothing yet: each was left in a question before which its tool
    says so, or before the answer reached it.
    """
    questions = ToolQuestions()
    for event in await stream_events(store, stream_id, *QUESTION_KINDS, upto=upto):
        questions.fold(event.decode())
    return questions.untouched()


async def find_record(
    store: Store, stream_id: int, key: str, *, upto: int | None = None
) -> StepRecord | None:
    """Return a step with its events; None also if it was asked for again after the event `upto`."""
    rows = await store.query(f"{_RECORD} WHERE s.run = ? AND s.key = ?", (stream_id, key))
    if not rows or (upto is not None and rows[0][3] > upto):
        return None
    return _record(rows[0])


async def keys_like(store: Store, stream_id: int, pattern: str) -> list[str]:
    """Return the keys of a run's steps that match a pattern of LIKE."""
    return await fetch_column(
        store, "SELECT key FROM steps WHERE run = ? AND key LIKE ?", (stream_id, pattern)
    )


async def find_outcome(store: Store, stream_id: int, key: str, *, upto: int) -> EventRow | None:
    """Return the event of a step's outcome, if it came up to an event."""
    found = await find_record(store, stream_id, key, upto=upto)
    if found is None or found.outcome is None or found.outcome.seq > upto:
        return None
    return found.outcome


def has_failed_to_undo(outcome: EventRow) -> bool:
    """Return True if the outcome of an undoing says that what it was to undo still stands."""
    fields = outcome.read(dict[str, Any])
    has_error = fields.get("is_error", False) or fields.get("answer") == "failed"
    return has_error or outcome.kind == ToolRefused.KIND


def _record(row: Sequence[object]) -> StepRecord:
    outcome = None if row[13] is None else EventRow(*row[13:])  # pyright: ignore[reportArgumentType] - as selected
    return StepRecord(StepRow(*row[:5]), EventRow(*row[5:13]), outcome)  # pyright: ignore[reportArgumentType] - as selected


async def has_undone_since_end(store: Store, stream_id: int) -> bool:
    """Return True if an undoing was asked for after the run failed last."""
    return bool(
        await store.query(
            "SELECT 1 FROM steps WHERE run = ? AND kind = 'undo' AND requested >"
            " (SELECT max(seq) FROM event_log WHERE stream_id = ? AND kind = 'run.failed') LIMIT 1",
            (stream_id, stream_id),
        )
    )


async def manifest_of(store: Store, stream_id: int, key: str, *, upto: int) -> EventRow | None:
    """Return the manifest of a step's newest request: it stands just before it, or is part of it."""
    return await fetch_first(
        store,
        EventRow,
        "SELECT e.seq, e.position, e.kind, e.version, e.at_us, e.actor, e.cause, e.data FROM steps s"
        " JOIN event_log e ON e.stream_id = s.run AND e.seq BETWEEN s.requested - 1 AND s.requested"
        " WHERE s.run = ? AND s.key = ? AND s.requested <= ? AND e.kind = 'context.assembled'",
        (stream_id, key, upto),
    )


async def entries_into(store: Store, stream_id: int, key: str) -> list[EventRow]:
    """Return the events since a step's request by which tools were entered, the newest first."""
    return await fetch_all(
        store,
        EventRow,
        "SELECT e.seq, e.position, e.kind, e.version, e.at_us, e.actor, e.cause, e.data FROM event_log e"
        " JOIN steps s ON s.run = e.stream_id AND s.key = ? WHERE e.stream_id = ? AND e.seq >= s.requested"
        " AND e.kind IN ('tool.requested', 'tool.retried') ORDER BY e.seq DESC",
        (key, stream_id),
    )


async def completion_before(store: Store, stream_id: int, step: StepRow) -> EventRow | None:
    """Return the completion of a tool step that its code has cut off all the same."""
    done = await stream_events(
        store, stream_id, ToolCompleted.KIND, after=step.requested, upto=step.completed
    )
    return next((row for row in reversed(done) if row.read(ToolCompleted).key == step.key), None)


async def newest_outcome(store: Store, stream_id: int) -> int:
    """Return the position of the newest outcome of a run's steps, undoings left out; 0 without one."""
    rows = await store.query(
        "SELECT max(completed) FROM steps WHERE run = ? AND kind <> 'undo'", (stream_id,)
    )
    seq = rows[0][0]
    return (await events_at(store, stream_id, [seq]))[seq].position if seq else 0


async def oldest_open_tool(store: Store, stream_id: int, seq: int) -> int | None:
    """Return the request of the oldest tool step that is under way at an event of a run."""
    return await fetch_value(
        store,
        "SELECT min(requested) FROM steps WHERE run = ? AND kind = 'tool' AND requested <= ?"
        " AND requested > 1 AND completed > ?",
        (stream_id, seq, seq),
    )


class CallBelow(NamedTuple):
    """A tool step with an outcome, of a run or of one below it."""

    run: str
    step: str | None
    """The step of the top run that led there; None for the top run itself."""
    completed: int
    request: EventRow
    outcome: EventRow


async def calls_below(store: Store, tenant: str, stream_id: int) -> list[CallBelow]:
    """Return the tool steps with an outcome of a run and of all runs below it, by request."""
    rows = await store.query(
        "WITH RECURSIVE tree(id, run, step) AS (SELECT id, run, NULL FROM runs WHERE id = ?"
        " UNION ALL SELECT r.id, r.run, coalesce(t.step, r.parent_step, '') FROM tree t"
        " JOIN runs r ON r.tenant = ? AND r.parent = t.run)"
        " SELECT t.run, t.step, s.completed,"
        " q.seq, q.position, q.kind, q.version, q.at_us, q.actor, q.cause, q.data,"
        " c.seq, c.position, c.kind, c.version, c.at_us, c.actor, c.cause, c.data"
        f" FROM tree t JOIN steps s ON s.run = +t.id{_EVENTS_OF_STEP.format('')}"
        " WHERE s.kind = 'tool' AND s.status = 'completed' AND q.kind = 'tool.requested'"
        " AND c.kind IN ('tool.completed', 'tool.reconciled') ORDER BY q.position",
        (stream_id, tenant),
    )
    return [
        CallBelow(run, step, completed, EventRow(*events[:8]), EventRow(*events[8:]))
        for run, step, completed, *events in rows
    ]


# What a run waits for


class ApprovalRow(NamedTuple):
    """A question to a person that is open."""

    run: str
    key: str
    question: str
    expires_us: int | None


async def open_approvals(store: Store, tenant: str, *, run_id: str | None = None) -> list[ApprovalRow]:
    """Return the open questions of a run, or of all that have not ended."""
    where, parameters = (
        (
            f"r.tenant = ? AND a.decision IS NULL AND (r.status NOT IN {ENDED}"
            " OR a.key LIKE '%/undo%')"  # what an ended run has done may be undone with a person's yes
        ),
        [tenant],
    )
    if run_id is not None:
        where, parameters = f"{where} AND r.run = ?", [tenant, run_id]
    return await fetch_all(
        store,
        ApprovalRow,
        "SELECT r.run, a.key, a.question, a.expires_us FROM approvals a JOIN runs r ON r.id = a.run"
        f" WHERE {where} ORDER BY r.id, a.key",
        parameters,
    )


async def asked_steps(store: Store, stream_id: int, *, now_us: int) -> list[str]:
    """Return the steps of a run whose question a person can still answer."""
    return await fetch_column(
        store,
        "SELECT key FROM approvals WHERE run = ? AND decision IS NULL"
        " AND (expires_us IS NULL OR expires_us > ?)",
        (stream_id, now_us),
    )


async def is_waiting(store: Store, stream_id: int | None, key: str) -> bool:
    """Return True if a run waits at this step."""
    return bool(await store.query("SELECT 1 FROM waits WHERE run = ? AND key = ?", (stream_id, key)))


class SignalRow(NamedTuple):
    """A signal that a run has received."""

    seq: int
    name: str
    data: BlobRef | None


async def signals_of(store: Store, stream_id: int) -> list[SignalRow]:
    """Return the signals that a run has received and not taken, in their order."""
    return await fetch_all(
        store, SignalRow, "SELECT seq, name, data FROM signals WHERE run = ? ORDER BY seq", (stream_id,)
    )


async def newest_answer_us(store: Store, tenant: str, *, key_pattern: str, runs_max: int) -> int | None:
    """Return when a step under such a key was last completed in a tenant's newest runs; None if none was.

    Shapes: `key_pattern` is a pattern of `GLOB`. Cost: the steps of `runs_max` runs.
    """
    return await fetch_value(
        store,
        "SELECT max(e.at_us) FROM (SELECT id FROM runs WHERE tenant = ? ORDER BY id DESC LIMIT ?) r"
        " JOIN steps s ON s.run = r.id AND s.key GLOB ?"
        " JOIN event_log e ON e.stream_id = s.run AND e.seq = s.completed",
        (tenant, runs_max, key_pattern),
    )


async def steps_before(store: Store, stream_id: int, kind: str, *, before: int, limit: int) -> list[StepRow]:
    """Return steps of a kind that a run asked for before an event, the newest first."""
    return await fetch_all(
        store,
        StepRow,
        f"{_STEP} WHERE run = ? AND kind = ? AND requested < ? ORDER BY requested DESC LIMIT ?",
        (stream_id, kind, before, limit),
    )
