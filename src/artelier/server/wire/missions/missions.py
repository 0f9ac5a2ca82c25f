"""Missions: a goal, its plan with what it may cost, and what came of it."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, ValidationError, ValidatorFunctionWrapHandler, WrapValidator

from artelier.missions.definition import Plan
from artelier.server.wire.missions.agents import MissionAgent
from artelier.server.wire.missions.membranes import MembraneLine
from artelier.server.wire.missions.tasks import TaskLine
from artelier.server.wire.models import CheckedRequestBody, Id, Micro, Told
from artelier.server.wire.runs import Approval, Usage


def _readable(value: Any, handler: ValidatorFunctionWrapHandler) -> Plan | None:
    try:
        return handler(value)
    except ValidationError:
        return None


PlanShown = Annotated[Plan | None, WrapValidator(_readable)]
"""A recorded plan; one that another version wrote and this one cannot read is null."""

Usd = Annotated[str, Field(pattern=r"^\d{1,9}(\.\d{1,6})?$", description="Such as 0.60.")]


class Estimate(Told):
    """The cost of a plan if each task needs all its iterations."""

    calls: int
    """Of models."""
    cost_microusd: int | None
    """null if a model's price is not known."""
    is_limit: bool = False
    """Whether it is enforced: then the plan costs that at most, else about that."""


class Planned(Told):
    """The state of planning a goal."""

    mission: str
    """Its id, and that of its run: events and verbs of runs take it."""
    status: str
    """Of its run: `running` while the plan is made, `waiting_approval` when it can be launched."""
    reason: str | None = None
    """Why it failed, as a code."""
    message: str = ""
    plan: PlanShown = None
    """null until it is made."""
    estimate: Estimate | None = None


class MissionLine(Told):
    """A mission of a list."""

    id: str
    goal: str | None
    status: str
    """Of its run; once that has ended, of its tasks."""
    reason: str | None
    model: str | None
    launched_us: int | None
    """null: nobody has launched it yet."""
    started_us: int | None
    ended_us: int | None
    tasks: int
    done: int
    """Of the tasks."""
    cost_microusd: Micro


class MissionShown(Told):
    """A mission with all that belongs to it."""

    id: str
    goal: str | None
    status: str
    """Of its run; once that has ended, of its tasks: `completed` if all are done, `running` or `pending` if
    one is worked on again, else `failed`, `blocked` if nothing failed and something is missing, or
    `cancelled`."""
    run_status: str
    """Pause, resume, stop and cancel are verbs of runs."""
    reason: str | None
    message: str
    """Why it failed, in words."""
    model: str | None
    workspace: str
    """Folder that its tools work on; empty for none."""
    plan: PlanShown
    estimate: Estimate | None
    edited: bool
    """Whether a person changed the plan before its launch."""
    planned_us: int | None
    launched_us: int | None
    started_us: int | None
    ended_us: int | None
    agents: list[MissionAgent]
    tasks: list[TaskLine]
    membranes: list[MembraneLine]
    cost_microusd: Micro
    usage: Usage
    budget_microusd: int | None
    """Its cap; null for none."""
    outputs: list[str]
    """Refs of what it came to."""
    text: str
    artifact: str | None
    """Ref of its main result."""
    approvals: list[Approval]
    """What it and its tasks ask."""


# Requests


class PlanAsk(CheckedRequestBody):
    """A goal to take apart."""

    goal: str = Field(min_length=1, max_length=100_000)
    model: str | None = Field(default=None, min_length=1, max_length=200)
    """Without it the server's own."""
    workspace: str | None = Field(default=None, max_length=4_000)
    """Folder that the tools work on; without it the server's own."""
    budget_usd: Usd | None = None
    """Cap of the mission with all that belongs to it."""
    at_most: bool = False
    """Whether the estimate of the plan caps it too, from its launch on."""
    mission_id: Id | None = None
    """Without it one is made from the goal."""
    subject: str = Field(default="", max_length=200)
    """Whom it is about: what its runs store and write is erased with that."""


class LaunchAsk(CheckedRequestBody):
    """Yes to a plan."""

    plan: Plan | None = None
    """An edited plan in its place."""


class LaunchNamed(LaunchAsk):
    """Yes to the plan of a mission."""

    mission: Id
