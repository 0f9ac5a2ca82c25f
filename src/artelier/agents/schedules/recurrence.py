"""The times of a schedule: a cron line in a time zone, or an interval from an anchor. Pure; times are UTC.

A cron line means the clock on the wall. Where that jumps forward, a fixed time that does not exist is due
right after the jump; where it goes back, a fixed time is due once. Lines with `*` in minute or hour go on
through both, as Debian's cron does.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from enum import StrEnum
from typing import Any, NamedTuple

from artelier.agents.schedules import events as ev
from artelier.errors import InvalidRequest
from artelier.log import BlobRef, EventData

SECOND_US = 1_000_000
EVERY_S_MAX = 10 * 366 * 86_400
"""Ten years."""
LAST_US = 253_402_214_400 * SECOND_US
"""The last day of the year 9999 begins: later times have no date in any zone, and are not."""
MISSED_MAX = 1_000
"""Times that passed unused are counted up to here."""
CRON_CHARS_MAX = 200

_UNITS_S = {"w": 604_800, "d": 86_400, "h": 3_600, "m": 60, "s": 1}
_DURATION = re.compile(r"(?:\d{1,9}[wdhms])+", re.ASCII)
_PART = re.compile(r"(\d+)([wdhms])", re.ASCII)
_MACHINES = re.compile(r"(?:posix|right)/|(?:posixrules|localtime|Factory)$")
"""Files beside the zones that mean something else on each machine, or count leap seconds."""
_WINDOWS = (timedelta(hours=1), timedelta(days=1), timedelta(days=40), timedelta(days=400))


class UnknownZone(InvalidRequest):
    """A time zone that this machine does not know, though another may."""

    code = "unknown_zone"


class Due(NamedTuple):
    """The times that have come due at some moment."""

    due_us: int
    """The newest time that has come."""
    missed: int
    """Times before it that have come too, at most `MISSED_MAX`."""
    next_us: int | None
    """The first time that has not come; None if there is none in fifty years."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Either a cron line or an interval."""

    cron: str = ""
    zone: str = "UTC"
    every_s: int = 0
    anchor_us: int = 0
    """From where intervals are counted, so that none of them drifts; whole seconds."""

    def after(self, us: int) -> int | None:
        """The first time after `us`; None if there is none in fifty years. Errors: `UnknownZone`."""
        if not self.cron:
            step = self.every_s * SECOND_US
            return _storable_us(self.anchor_us + max(1, (us - self.anchor_us) // step + 1) * step)
        return next(self._times(us), None)

    def due(self, first_us: int, now_us: int) -> Due:
        """Return what has come by `now_us`; `first_us` has. Cost: bounded, however long ago that was.

        Errors: `UnknownZone`.
        """
        now_us = min(now_us, LAST_US)
        if not self.cron:
            step = self.every_s * SECOND_US
            missed = (now_us - first_us) // step
            due_us = first_us + missed * step
            return Due(due_us, min(missed, MISSED_MAX), _storable_us(due_us + step))
        due_us, missed = first_us, 0
        for time_us in self._times(first_us):
            if time_us > now_us:
                return Due(due_us, missed, time_us)
            if missed == MISSED_MAX:
                due_us = self._newest(now_us) or time_us
                return Due(due_us, missed, self.after(max(due_us, now_us)))
            due_us, missed = time_us, missed + 1
        return Due(due_us, missed, None)

    def _newest(self, now_us: int) -> int | None:
        """The last time up to `now_us`, found by going through more and more of what is past."""
        for window in _WINDOWS:
            found = None
            for time_us in self._times(now_us - int(window.total_seconds()) * SECOND_US):
                if time_us > now_us:
                    break
                found = time_us
            if found is not None:
                return found
        return None

    def _times(self, after_us: int) -> Iterator[int]:
        """Ascending, each once: in the second pass of an hour, the library may name a time of the first."""
        from cronsim import CronSim

        zone = _zone(self.zone)
        if after_us >= LAST_US:
            return
        with suppress(OverflowError, ValueError):  # of dates beyond the year 9999
            for moment in CronSim(self.cron, _moment(after_us).astimezone(zone)):
                time_us = int(moment.timestamp()) * SECOND_US
                if time_us > LAST_US:
                    return
                if time_us > after_us:
                    after_us = time_us
                    yield time_us


def checked_timing(*, cron: object, every: object, zone: object, now_us: int) -> Timing:
    """A schedule's times from now on. `every`: seconds, or a text such as `30m` or `1h30m`.

    Errors: `InvalidRequest` that says which part is wrong.
    """
    if (cron is None) == (every is None):
        raise InvalidRequest(
            "a schedule has either a cron line or an interval",
            expected="cron=... or every=...",
            got="neither" if cron is None else "both",
        )
    if every is not None:
        if zone is not None and zone != "UTC":
            raise InvalidRequest(
                "an interval knows no time zone", expected="a zone only with a cron line", got=repr(zone)[:80]
            )
        anchor_us = now_us // SECOND_US * SECOND_US
        return Timing(every_s=seconds_of(every), anchor_us=anchor_us)
    return Timing(cron=_checked_cron(cron), zone=_checked_zone("UTC" if zone is None else zone))


def seconds_of(every: object) -> int:
    """Errors: `InvalidRequest` for what is no interval of at least a second."""
    seconds = 0
    if isinstance(every, int) and not isinstance(every, bool):
        seconds = every
    elif isinstance(every, str) and _DURATION.fullmatch(every):
        seconds = sum(int(number) * _UNITS_S[unit] for number, unit in _PART.findall(every))
    if not 1 <= seconds <= EVERY_S_MAX:
        raise InvalidRequest(
            "not an interval",
            expected="a time with its unit, such as 30s, 5m, 2h, 1d, 1w or 1h30m; at most ten years",
            got=repr(every)[:80],
        )
    return seconds


def interval(seconds: int) -> str:
    """Seconds as `seconds_of` reads them: `5400` is `1h30m`."""
    parts: list[str] = []
    for unit, size in _UNITS_S.items():
        count, seconds = divmod(seconds, size)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts)


def _storable_us(us: int) -> int | None:
    return us if us <= LAST_US else None


def compact(us: int) -> str:
    """A time as ids hold it: `20261122T180000Z`. Errors: `InvalidRequest` beyond the year 9999."""
    if us > LAST_US:
        raise InvalidRequest(
            "this machine's clock is beyond the year 9999",
            got=f"{us // SECOND_US} s after 1970",
            hint="Set it right.",
        )
    return _moment(us).strftime("%Y%m%dT%H%M%SZ")


def _moment(us: int) -> datetime:
    return datetime.fromtimestamp(us // SECOND_US, UTC)


def _checked_cron(cron: object) -> str:
    from cronsim import CronSim, CronSimError

    expected = "five fields: minute hour day month weekday, such as */5 * * * *"
    if not isinstance(cron, str) or len(cron) > CRON_CHARS_MAX or not cron.isascii():
        raise InvalidRequest("not a cron line", expected=expected, got=repr(cron)[:200])
    line = " ".join(cron.split())
    if line.count(" ") != 4:
        raise InvalidRequest("not a cron line", expected=expected, got=repr(line))
    try:
        CronSim(line, datetime(2020, 1, 1, tzinfo=UTC))
    except CronSimError as error:
        raise InvalidRequest(f"not a cron line: {error}", expected=expected, got=repr(line)) from None
    return line


def _checked_zone(zone: object) -> str:
    if not isinstance(zone, str):
        raise _unknown(zone)
    _zone(zone)
    return zone


def _zone(name: str) -> tzinfo:
    from zoneinfo import ZoneInfo

    if name == "UTC":
        return UTC
    try:
        if name and not _MACHINES.match(name):
            return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        pass
    raise _unknown(name)


def _unknown(zone: object) -> UnknownZone:
    return UnknownZone(
        "unknown time zone",
        expected="a name such as Europe/Berlin or UTC",
        got=repr(zone)[:80],
        hint="If other machines know it, this one lacks zones: install tzdata.",
    )


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


def decide(schedule: Schedule, around: Around, due: Due | None, *, now_us: int) -> EventData | None:
    """The event that a look at a schedule leads to; None if it is not due after all.

    `due` is its `time_at_hand`.
    """
    if schedule.status is not ScheduleStatus.ACTIVE:
        return None
    if 0 < schedule.max_failures <= schedule.failures:
        return ev.SchedulePaused(reason="failures")
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
        if not all(begun for _, begun in around.open):
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


def _skip_event(due: Due, reason: str, run: str = "") -> ev.ScheduleSkipped:
    return ev.ScheduleSkipped(
        due_us=due.due_us, reason=reason, run=run, next_due_us=due.next_us, missed=due.missed
    )
