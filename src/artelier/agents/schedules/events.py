"""The events of schedules, each in its own stream `schedule:<name>`. The job is content, in a blob."""

from __future__ import annotations

from artelier.ids import MAIN_SPACE
from artelier.log import BlobRef, EventData, Stream, event


def schedule_stream(tenant: str, name: str) -> Stream:
    return Stream(tenant, MAIN_SPACE, f"schedule:{name}")


class ScheduleDefinition(EventData, frozen=True, kw_only=True, omit_defaults=True):
    """The times at which a schedule fires, and the action that follows."""

    cron: str = ""
    """Five fields; empty with an interval."""
    zone: str = "UTC"
    """Of the cron line."""
    every_s: int = 0
    """Seconds; 0 with a cron line."""
    anchor_us: int = 0
    """From where intervals are counted."""
    job: BlobRef
    """JSON: `{loop, settings, limits}`."""
    overlap: str = "skip"
    """While an earlier run has not ended: `skip`, `queue`, `cancel_running` or `allow`."""
    catch_up: str = "one"
    """Of times that nobody was there for: `one` run for all of them, or `none`."""
    max_failures: int = 0
    """Failures in a row that pause it; 0 for none."""
    next_due_us: int | None = None
    """The first time; None for a paused one."""


@event("schedule.added")
class ScheduleAdded(ScheduleDefinition, frozen=True, kw_only=True, omit_defaults=True):
    """A schedule is there. One that was removed may come again."""


@event("schedule.changed")
class ScheduleChanged(ScheduleDefinition, frozen=True, kw_only=True, omit_defaults=True):
    """A schedule has another definition from here on; it counts its failures anew."""

    keeps_queued: bool = False
    """True if a time that waits for the firing before it still does; older versions forgot it."""


@event("schedule.paused")
class SchedulePaused(EventData, frozen=True, kw_only=True, omit_defaults=True):
    """It fires no more until it is resumed."""

    reason: str = ""
    """`failures` or `unknown_zone` if it paused itself; else a person did."""
    note: BlobRef | None = None


@event("schedule.resumed")
class ScheduleResumed(EventData, frozen=True, kw_only=True, omit_defaults=True):
    """It fires again; times that passed meanwhile are not made up for."""

    next_due_us: int | None = None


@event("schedule.removed")
class ScheduleRemoved(EventData, frozen=True, kw_only=True, omit_defaults=True):
    """It is gone; its runs stay."""


@event("schedule.fired")
class ScheduleFired(EventData, frozen=True, kw_only=True, omit_defaults=True):
    """A run is to be started, under an id that no other time of any schedule has."""

    due_us: int
    run: str
    job: BlobRef
    next_due_us: int | None = None
    missed: int = 0
    """Times that passed unused before this one; 1000 stands for at least so many."""
    cancels: tuple[str, ...] = ()
    """Runs that are cancelled before it is started."""
    asked: bool = False
    """Whether a person asked for it outside of its times."""


@event("schedule.queued")
class ScheduleQueued(EventData, frozen=True, kw_only=True, omit_defaults=True):
    """A time has come, and its run is to be started when the earlier one has ended."""

    due_us: int
    behind: str
    """The run that it waits for."""
    next_due_us: int | None = None
    missed: int = 0
    asked: bool = False


@event("schedule.skipped")
class ScheduleSkipped(EventData, frozen=True, kw_only=True, omit_defaults=True):
    """A time has come and nothing is started for it."""

    due_us: int
    reason: str
    """`overlap`, `queue_full`, `missed`, `run_exists` or `too_many`."""
    run: str = ""
    """Of `run_exists` the run that has its id; of the others but `missed` one that has not ended."""
    next_due_us: int | None = None
    missed: int = 0


@event("schedule.failed")
class ScheduleFailed(EventData, frozen=True, kw_only=True, omit_defaults=True):
    """The run of a firing could not be started at all."""

    run: str
    code: str
    message: BlobRef
