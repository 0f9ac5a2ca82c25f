"""Schedules: what is started again and again, when next, and what became of each time."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from artelier.agents.schedules.queries import FiredSchedule, FiringView, ScheduleView
from artelier.missions.definition import Text
from artelier.server.wire.base import RequestBody, ResponseModel, describe_record

Overlap = Literal["skip", "queue", "cancel_running", "allow"]
CatchUp = Literal["one", "none"]


@describe_record(FiringView)
class Firing(ResponseModel):
    """One time of a schedule, or one that a person asked for, and its run."""

    status: str
    """Of its run; `pending` until that has begun."""


@describe_record(ScheduleView)
class ScheduleLine(ResponseModel):
    """A schedule of a list."""

    status: Literal["active", "paused"]
    budget_usd: str | None
    """Most that each run may spend."""
    overlap: Overlap
    """What becomes of a time while an earlier run has not ended."""
    catch_up: CatchUp
    """What becomes of times that passed while nobody drove runs."""


class ScheduleShown(ScheduleLine):
    """A schedule with its newest firings."""

    runs: list[Firing]
    """Newest first."""


@describe_record(FiredSchedule)
class Fired(ResponseModel):
    """The result of firing a schedule by hand."""


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
