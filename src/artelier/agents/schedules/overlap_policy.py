"""The handling of a time that has come: a pure decision over a schedule's row and its open firings."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Any, NamedTuple

from artelier.agents.schedules import events as ev
from artelier.agents.schedules.recurrence import Due, Timing, compact
from artelier.log import BlobRef, EventData

OVERLAPS = ("skip", "queue", "cancel_running", "allow")
CATCH_UPS = ("one", "none")

OPEN_MAX = 100
"""Firings of one schedule that have not ended; with more, a schedule has lost its way."""

GRACE_US = 60_000_000
"""With `catch_up="none"`, a time is missed when it is noticed later than this: a restart is no absence."""

ELSEWHERE_US = 300_000_000
"""How long what this worker lacks (a loop, a model, its key, a time zone) is left to another one."""


class ScheduleStatus(StrEnum):
    """The status of a schedule.

        active ──▶ paused      by a person, after too many failures, or for an unknown time zone
        paused ──▶ active      resumed
        active | paused ──▶ removed      its row is gone; the runs that it fired stay

    A person's wish is refused where the status that it leads to does not follow. What was recorded holds.
    """

    ACTIVE = "active"
    PAUSED = "paused"
    REMOVED = "removed"

    @property
    def successors(self) -> frozenset[ScheduleStatus]:
        """The statuses that can follow this one."""
        return _SUCCESSORS[self]

    def can_become(self, other: ScheduleStatus) -> bool:
        """Return True if the other status can follow this one."""
        return other in self.successors


STORED = (ScheduleStatus.ACTIVE, ScheduleStatus.PAUSED)
"""The statuses of schedules that there are."""

_SUCCESSORS = {
    ScheduleStatus.ACTIVE: frozenset((ScheduleStatus.PAUSED, ScheduleStatus.REMOVED)),
    ScheduleStatus.PAUSED: frozenset((ScheduleStatus.ACTIVE, ScheduleStatus.REMOVED)),
    ScheduleStatus.REMOVED: frozenset[ScheduleStatus](),
}


class Schedule(NamedTuple):
    """A row of the view; names are those of its columns."""

    position: int
    tenant: str
    schedule: str
    cron: str
    zone: str
    every_s: int
    anchor_us: int
    job: str
    overlap: str
    catch_up: str
    max_failures: int
    status: ScheduleStatus
    reason: str
    next_due_us: int | None
    queued_us: int | None
    look_us: int | None
    failures: int
    firings: int
    last_run: str
    last_due_us: int | None
    skipped: int
    last_skip: str
    created_us: int
    created_by: str
    changed_us: int
    seq: int

    @classmethod
    def of(cls, row: Sequence[Any]) -> Schedule:
        """Return the schedule of a row of the view."""
        found = cls(*row)
        return found._replace(status=ScheduleStatus(found.status))

    @property
    def timing(self) -> Timing:
        return Timing(cron=self.cron, zone=self.zone, every_s=self.every_s, anchor_us=self.anchor_us)

    def run_of(self, due_us: int) -> str:
        """The id of the run for a time: the same wherever and however often it is asked for."""
        return f"{self.schedule}/{compact(due_us)}"


class Around(NamedTuple):
    """The other facts that a decision depends on, as they were found."""

    open: tuple[tuple[str, bool], ...]
    """Firings that have not ended, oldest first: `(run, whether it has begun)`."""
    taken: bool
    """Whether a run has the id already that the firing would have."""


def time_at_hand(schedule: Schedule, now_us: int) -> Due | None:
    """The time that a decision is about; None if there is none now. Errors: `UnknownZone`."""
    if schedule.queued_us is not None and schedule.look_us == 0:
        return Due(schedule.queued_us, 0, schedule.next_due_us)
    if schedule.next_due_us is None or schedule.next_due_us > now_us:
        return None
    return schedule.timing.due(schedule.next_due_us, now_us)


def decide(schedule: Schedule, around: Around, *, now_us: int) -> EventData | None:
    """The event that a look at a schedule leads to; None if it is not due after all.

    Errors: `UnknownZone`.
    """
    if schedule.status is not ScheduleStatus.ACTIVE:
        return None
    if 0 < schedule.max_failures <= schedule.failures:
        return ev.SchedulePaused(reason="failures")
    due = time_at_hand(schedule, now_us)
    if due is None:
        return None
    is_late = now_us - due.due_us > GRACE_US and schedule.queued_us != due.due_us
    if is_late and schedule.catch_up == "none":
        return _skip_event(due, "missed")
    return firing_event(schedule, around, due)


def firing_event(schedule: Schedule, around: Around, due: Due, *, asked: bool = False) -> EventData:
    """A firing, or why there is none now."""
    run = schedule.run_of(due.due_us)
    runs = [name for name, _ in around.open]
    if around.taken:
        return _skip_event(due, "run_exists", run)
    if len(runs) >= OPEN_MAX:
        return _skip_event(due, "too_many", runs[0])
    cancels: tuple[str, ...] = ()
    if runs and schedule.overlap == "skip":
        return _skip_event(due, "overlap", runs[-1])
    if runs and schedule.overlap == "queue":
        if schedule.queued_us is not None or schedule.status is not ScheduleStatus.ACTIVE:
            return _skip_event(due, "queue_full", runs[-1])
        return ev.ScheduleQueued(
            due_us=due.due_us, behind=runs[-1], next_due_us=due.next_us, missed=due.missed, asked=asked
        )
    if schedule.overlap == "cancel_running":
        if not _all_begun(around.open):
            return _skip_event(due, "overlap", runs[-1])  # there is nothing yet to cancel
        cancels = tuple(runs)
    return ev.ScheduleFired(
        due_us=due.due_us,
        run=run,
        job=BlobRef(schedule.job),
        next_due_us=due.next_us,
        missed=due.missed,
        cancels=cancels,
        asked=asked,
    )


def _all_begun(open_: Sequence[tuple[str, bool]]) -> bool:
    return all(begun for _, begun in open_)


def _skip_event(due: Due, reason: str, run: str = "") -> ev.ScheduleSkipped:
    return ev.ScheduleSkipped(
        due_us=due.due_us, reason=reason, run=run, next_due_us=due.next_us, missed=due.missed
    )
