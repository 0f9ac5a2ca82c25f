"""Schedules: what is started again and again, when next, and what became of each time."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from artelier.missions.definition import Text
from artelier.server.wire.base import Micro, RequestBody, ResponseModel

Overlap = Literal["skip", "queue", "cancel_running", "allow"]
CatchUp = Literal["one", "none"]


class Firing(ResponseModel):
    """One time of a schedule, or one that a person asked for, and its run."""

    run_id: str
    due_us: int
    fired_us: int
    by: str
    """`schedule:<name>`, or who asked for it."""
    asked: bool
    """Whether a person asked for it."""
    missed: int
    """Times before it that passed while nobody drove runs."""
    status: str
    """Of its run; `pending` until that has begun."""
    reason: str | None
    """Why it failed or waits, as a code."""
    message: str | None
    """Why its run could not be started, in words."""
    is_open: bool
    """Whether it has not ended."""
    is_begun: bool
    """Whether its run is there to be looked at."""
    cost_microusd: Micro
    ended_us: int | None


class ScheduleLine(ResponseModel):
    """A schedule of a list."""

    id: str
    """Its name; its runs are called `<name>/<time in UTC>`."""
    status: Literal["active", "paused"]
    reason: str | None
    """`failures` if it paused itself."""
    cron: str | None
    """Five fields; null with an interval."""
    timezone: str | None
    """Of the cron line."""
    every: str | None
    """Such as `1h30m`; null with a cron line."""
    loop: str
    """What drives its runs: `mission` by a plan, `agent` alone, or one of a program."""
    goal: str
    model: str
    workspace: str | None
    budget_usd: str | None
    """Most that each run may spend."""
    overlap: Overlap
    """What becomes of a time while an earlier run has not ended."""
    catch_up: CatchUp
    """What becomes of times that passed while nobody drove runs."""
    max_failures: int
    """So many in a row pause it; 0: none do."""
    failures: int
    """In a row, up to now."""
    firings: int
    skipped: int
    last_skip: str | None
    """Why the last time was skipped: `overlap`, `queue_full`, `missed`, `run_exists` or `too_many`."""
    next_due_us: int | None
    """null while it is paused."""
    queued_us: int | None
    """The time that waits for an earlier run to end."""
    last_run: Firing | None
    created_us: int
    created_by: str
    changed_us: int


class ScheduleShown(ScheduleLine):
    """A schedule with its newest firings."""

    runs: list[Firing]
    """Newest first."""


class Fired(ResponseModel):
    """The result of firing a schedule by hand."""

    id: str
    run_id: str | None
    """null if it waits for an earlier run."""
    queued: bool


class Removed(ResponseModel):
    """A schedule that is gone."""

    id: str


# Requests


class ScheduleNew(RequestBody):
    """A goal to be worked on at each time. Either `cron` or `every` is needed."""

    id: str = Field(min_length=1, max_length=40)
    """Its name: A-Z a-z 0-9 . _ -"""
    goal: Text
    cron: str | None = Field(default=None, max_length=200)
    """Minute hour day month weekday."""
    every: str | None = Field(default=None, max_length=40)
    """Such as `30m`, counted from now."""
    timezone: str | None = Field(default=None, max_length=80)
    """Of the cron line, such as `Europe/Berlin`; UTC unless said."""
    model: str | None = Field(default=None, min_length=1, max_length=200)
    """Without it the server's own."""
    workspace: str | None = Field(default=None, max_length=4_000)
    """Without it the server's own."""
    budget_usd: str | None = Field(default=None, max_length=40)
    solo: bool = False
    """One agent, without a plan."""
    overlap: Overlap = "skip"
    catch_up: CatchUp = "one"
    max_failures: int = Field(default=0, ge=0, le=1_000_000)
    subject: str = Field(default="", max_length=200)
    """Whom it is about: its goal and what its runs store is erased with that."""


class ScheduleChange(RequestBody):
    """A change to a schedule, for all firings to come; fields that are left out stay."""

    goal: Text | None = None
    cron: str | None = Field(default=None, max_length=200)
    every: str | None = Field(default=None, max_length=40)
    timezone: str | None = Field(default=None, max_length=80)
    model: str | None = Field(default=None, min_length=1, max_length=200)
    workspace: str | None = Field(default=None, max_length=4_000)
    budget_usd: str | None = Field(default=None, max_length=40)
    """null lifts it."""
    overlap: Overlap | None = None
    catch_up: CatchUp | None = None
    max_failures: int | None = Field(default=None, ge=0, le=1_000_000)
