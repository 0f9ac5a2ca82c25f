"""The view of schedules: when each is looked at next, and every firing with its run.

`look_us` is the one thing a worker asks for: the time at which something is to be decided about a schedule, 0
for at once, NULL for never. It is indexed, so that a look costs what is due, not what there is.
"""

from __future__ import annotations

from typing import cast

from artelier.agents.schedules import events as ev
from artelier.agents.schedules.recurrence import ScheduleStatus
from artelier.errors import Conflict, InvalidEvent
from artelier.kernel import events as kernel_events
from artelier.log import Applied, Tx, View

schedules_view = View(
    name="schedules",
    version=1,
    tables=("schedules", "schedule_firings"),
    schema=(
        """CREATE TABLE schedules(
            position INTEGER PRIMARY KEY, tenant TEXT NOT NULL, schedule TEXT NOT NULL,
            cron TEXT NOT NULL, zone TEXT NOT NULL, every_s INTEGER NOT NULL,
            anchor_us INTEGER NOT NULL, job TEXT NOT NULL, overlap TEXT NOT NULL,
            catch_up TEXT NOT NULL, max_failures INTEGER NOT NULL, status TEXT NOT NULL,
            reason TEXT NOT NULL, next_due_us INTEGER, queued_us INTEGER, look_us INTEGER,
            failures INTEGER NOT NULL, firings INTEGER NOT NULL, last_run TEXT NOT NULL,
            last_due_us INTEGER, skipped INTEGER NOT NULL, last_skip TEXT NOT NULL,
            created_us INTEGER NOT NULL, created_by TEXT NOT NULL, changed_us INTEGER NOT NULL,
            seq INTEGER NOT NULL, UNIQUE(tenant, schedule)) STRICT""",
        "CREATE INDEX schedules_due ON schedules(look_us) WHERE look_us IS NOT NULL",
        """CREATE TABLE schedule_firings(
            position INTEGER PRIMARY KEY, tenant TEXT NOT NULL, schedule TEXT NOT NULL,
            made INTEGER NOT NULL, run TEXT NOT NULL, due_us INTEGER NOT NULL,
            fired_us INTEGER NOT NULL, by TEXT NOT NULL, job TEXT NOT NULL, cancels TEXT NOT NULL,
            asked INTEGER NOT NULL, missed INTEGER NOT NULL, begun INTEGER NOT NULL,
            open INTEGER NOT NULL, failed INTEGER NOT NULL, code TEXT NOT NULL, message TEXT,
            UNIQUE(tenant, run)) STRICT""",
        "CREATE INDEX schedule_firings_by_schedule ON schedule_firings(tenant, schedule, position)",
        "CREATE INDEX schedule_firings_open ON schedule_firings(made, position) WHERE open = 1",
        "CREATE INDEX schedule_firings_waiting ON schedule_firings(position) WHERE open = 1 AND begun = 0",
    ),
)


@schedules_view.on(ev.ScheduleAdded)
def _apply_added(event: Applied, tx: Tx) -> None:
    data = cast(ev.ScheduleAdded, event.data)
    done = tx.execute(
        "INSERT INTO schedules VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, '', ?, NULL, NULL,"
        " 0, 0, '', NULL, 0, '', ?, ?, ?, ?) ON CONFLICT DO NOTHING",
        (
            event.position,
            event.stream.tenant,
            event.stream.id,
            data.cron,
            data.zone,
            data.every_s,
            data.anchor_us,
            data.job,
            data.overlap,
            data.catch_up,
            data.max_failures,
            ScheduleStatus.ACTIVE.value,
            data.next_due_us,
            event.at_us,
            event.actor,
            event.at_us,
            event.seq,
        ),
    )
    if not done.rowcount:
        raise Conflict(
            f"there is a schedule {event.stream.id!r} already",
            hint="Change or remove that, or take another name.",
        )
    _settle(tx, event.position)


@schedules_view.on(ev.ScheduleChanged)
def _apply_changed(event: Applied, tx: Tx) -> None:
    data = cast(ev.ScheduleChanged, event.data)
    _set(
        event,
        tx,
        "cron = ?, zone = ?, every_s = ?, anchor_us = ?, job = ?, overlap = ?, catch_up = ?,"
        " max_failures = ?, next_due_us = ?, queued_us = CASE WHEN ? = 1 THEN queued_us END, failures = 0,"
        " changed_us = ?",
        data.cron,
        data.zone,
        data.every_s,
        data.anchor_us,
        data.job,
        data.overlap,
        data.catch_up,
        data.max_failures,
        data.next_due_us,
        int(data.keeps_queued),
        event.at_us,
    )


@schedules_view.on(ev.SchedulePaused)
def _apply_paused(event: Applied, tx: Tx) -> None:
    reason = cast(ev.SchedulePaused, event.data).reason
    columns = "reason = ?, next_due_us = NULL, queued_us = NULL, changed_us = ?"
    _set_status(event, tx, ScheduleStatus.PAUSED, columns, reason, event.at_us)


@schedules_view.on(ev.ScheduleResumed)
def _apply_resumed(event: Applied, tx: Tx) -> None:
    next_us = cast(ev.ScheduleResumed, event.data).next_due_us
    columns = "reason = '', failures = 0, next_due_us = ?, changed_us = ?"
    _set_status(event, tx, ScheduleStatus.ACTIVE, columns, next_us, event.at_us)


@schedules_view.on(ev.ScheduleRemoved)
def _apply_removed(event: Applied, tx: Tx) -> None:
    _set_status(event, tx, ScheduleStatus.REMOVED)


@schedules_view.on(ev.ScheduleFired)
def _apply_fired(event: Applied, tx: Tx) -> None:
    data = cast(ev.ScheduleFired, event.data)
    made = _row_of(event, tx)
    done = tx.execute(
        "INSERT INTO schedule_firings VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0, 1, 0, '', NULL)"
        " ON CONFLICT DO NOTHING",
        (
            event.position,
            event.stream.tenant,
            event.stream.id,
            made,
            data.run,
            data.due_us,
            event.at_us,
            event.actor,
            data.job,
            " ".join(data.cancels),
            int(data.asked),
            data.missed,
        ),
    )
    if not done.rowcount:
        raise Conflict(f"schedule {event.stream.id!r} has fired for this time", got=data.run)
    was_queued = "CASE WHEN queued_us = ? THEN NULL ELSE queued_us END"
    _set(
        event,
        tx,
        f"firings = firings + 1, last_run = ?, last_due_us = ?, next_due_us = ?, queued_us = {was_queued}",
        data.run,
        data.due_us,
        data.next_due_us,
        data.due_us,
    )


@schedules_view.on(ev.ScheduleQueued)
def _apply_queued(event: Applied, tx: Tx) -> None:
    data = cast(ev.ScheduleQueued, event.data)
    _set(event, tx, "queued_us = ?, next_due_us = ?", data.due_us, data.next_due_us)


@schedules_view.on(ev.ScheduleSkipped)
def _apply_skipped(event: Applied, tx: Tx) -> None:
    data = cast(ev.ScheduleSkipped, event.data)
    was_queued = "CASE WHEN queued_us = ? THEN NULL ELSE queued_us END"
    _set(
        event,
        tx,
        f"skipped = skipped + 1, last_skip = ?, next_due_us = ?, queued_us = {was_queued}",
        data.reason,
        data.next_due_us,
        data.due_us,
    )


@schedules_view.on(ev.ScheduleFailed)
def _apply_failed(event: Applied, tx: Tx) -> None:
    data = cast(ev.ScheduleFailed, event.data)
    tx.execute(
        "UPDATE schedule_firings SET code = ?, message = ? WHERE tenant = ? AND run = ? AND open = 1",
        (data.code, data.message, event.stream.tenant, data.run),
    )
    _over(event, tx, data.run, failed=True)
    tx.execute(  # it may have been removed, and its firing came first
        "UPDATE schedules SET seq = ? WHERE tenant = ? AND schedule = ?",
        (event.seq, event.stream.tenant, event.stream.id),
    )


def _set_status(event: Applied, tx: Tx, status: ScheduleStatus, columns: str = "", *values: object) -> None:
    """Set the status of the event's schedule, and columns with it; the row of one that is removed goes."""
    if status is ScheduleStatus.REMOVED:
        tx.execute("DELETE FROM schedules WHERE position = ?", (_row_of(event, tx),))
    else:
        _set(event, tx, f"status = ?, {columns}", status.value, *values)


def _set(event: Applied, tx: Tx, columns: str, *values: object) -> None:
    """Change the row of the event's schedule. `columns` is code of this file, never data."""
    made = _row_of(event, tx)
    tx.execute(f"UPDATE schedules SET {columns}, seq = ? WHERE position = ?", (*values, event.seq, made))
    _settle(tx, made)


def _row_of(event: Applied, tx: Tx) -> int:
    """The row of the event's schedule. Errors: `InvalidEvent` if there is none."""
    found = tx.one(
        "SELECT position FROM schedules WHERE tenant = ? AND schedule = ?",
        (event.stream.tenant, event.stream.id),
    )
    if found is None:
        raise InvalidEvent("there is no such schedule", got=event.stream.id[:120])
    return found[0]


def _settle(tx: Tx, made: int) -> None:
    """Set the time when a worker has to look at a schedule next, from all that is known of it."""
    tx.execute(
        "UPDATE schedules SET look_us = CASE WHEN status <> 'active' THEN NULL"
        " WHEN max_failures > 0 AND failures >= max_failures THEN 0"
        " WHEN queued_us IS NOT NULL AND NOT EXISTS (SELECT 1 FROM schedule_firings f"
        " WHERE f.made = schedules.position AND f.open = 1) THEN 0"
        " ELSE next_due_us END WHERE position = ?",
        (made,),
    )


# What happens to the run of a firing


@schedules_view.on(kernel_events.RunStarted, kernel_events.RunForked)
def _apply_begun(event: Applied, tx: Tx) -> None:
    tx.execute(
        "UPDATE schedule_firings SET begun = 1 WHERE tenant = ? AND run = ?",
        (event.stream.tenant, event.stream.id),
    )


@schedules_view.on(kernel_events.RunCompleted, kernel_events.RunCancelled)
def _apply_ended(event: Applied, tx: Tx) -> None:
    is_done = isinstance(event.data, kernel_events.RunCompleted)
    _over(event, tx, event.stream.id, failed=False if is_done else None)


@schedules_view.on(kernel_events.RunFailed)
def _run_failed(event: Applied, tx: Tx) -> None:
    _over(event, tx, event.stream.id, failed=True)


@schedules_view.on(kernel_events.RunReopened)
def _apply_reopened(event: Applied, tx: Tx) -> None:
    found = tx.one(
        "SELECT made, failed FROM schedule_firings WHERE tenant = ? AND run = ? AND open = 0",
        (event.stream.tenant, event.stream.id),
    )
    if found is None:
        return
    tx.execute(
        "UPDATE schedule_firings SET open = 1, failed = 0 WHERE tenant = ? AND run = ?",
        (event.stream.tenant, event.stream.id),
    )
    tx.execute(
        "UPDATE schedules SET failures = max(failures - ?, 0) WHERE position = ?", (found[1], found[0])
    )
    _settle(tx, found[0])


def _over(event: Applied, tx: Tx, run: str, *, failed: bool | None) -> None:
    """A firing's run has ended. `failed` None: somebody ended it, which says nothing of the schedule."""
    found = tx.one(
        "SELECT made FROM schedule_firings WHERE tenant = ? AND run = ? AND open = 1",
        (event.stream.tenant, run),
    )
    if found is None:
        return
    tx.execute(
        "UPDATE schedule_firings SET open = 0, failed = ? WHERE tenant = ? AND run = ?",
        (int(failed is True), event.stream.tenant, run),
    )
    if failed is not None:
        tx.execute(
            "UPDATE schedules SET failures = CASE WHEN ? THEN failures + 1 ELSE 0 END WHERE position = ?",
            (int(failed), found[0]),
        )
    _settle(tx, found[0])
