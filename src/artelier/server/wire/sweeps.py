"""Sweeps of worlds as the API shows and takes them. Times are seconds, unless their names say otherwise."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from artelier.server.sweeps import POINTS_MAX, PROCESSES_MAX, SEEDS_MAX, TICKS_MAX, SweepFacts, SweepLimits
from artelier.server.wire.base import FaultOut, Page, ResponseModel, describe_record
from artelier.server.wire.worlds import WorldSource

Value = Annotated[int, Field(ge=-(2**53), le=2**53)] | Annotated[str, Field(max_length=200)] | None
Values = Annotated[list[Value], Field(min_length=1, max_length=POINTS_MAX)]


class SweepNew(WorldSource):
    """A world, and what is varied; agents have rules or the offline model, which costs nothing."""

    params: dict[str, Values] = Field(default={}, max_length=20)
    """Values by setting, such as `mint.every`, or of `agents`: how many each template with `{n}` makes."""
    seeds: int = Field(default=1, ge=1, le=SEEDS_MAX)
    """Seeds of each combination, from the world's on."""
    ticks: int = Field(default=100, ge=1, le=TICKS_MAX)
    """Of each run."""
    processes: int = Field(default=PROCESSES_MAX, ge=1, le=PROCESSES_MAX)
    """That pass runs side by side."""


@describe_record(SweepLimits)
class SweepLimitsOut(ResponseModel):
    """The limits of sweeps on this server."""


@describe_record(SweepFacts)
class SweepShown(ResponseModel):
    """A sweep: what was asked for, and how far it is."""

    status: Literal["working", "done", "stopped", "failed", "interrupted"]
    """`interrupted`: the server ended meanwhile. What is neither `working` nor `done` can be resumed."""
    failed: FaultOut | None
    """Why it ended before its time; null if it did not, or somebody stopped it."""
    limits: SweepLimitsOut


class SweepsPage(Page[SweepShown]):
    """Sweeps of the tenant, the newest first."""

    limits: SweepLimitsOut
