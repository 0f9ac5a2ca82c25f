"""Wire models of missions: tasks, steering and membranes."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError, ValidatorFunctionWrapHandler, WrapValidator

from artelier.artifacts.groups.membership import SharedItem
from artelier.missions.definition import ITERATIONS_MAX, TASKS_MAX, Check, Plan, Ref, Text
from artelier.missions.membranes import NAME_CHARS_MAX, MembraneView
from artelier.missions.reports import (
    AttachmentReport,
    JudgedOutput,
    MissionDetail,
    MissionEstimate,
    MissionReport,
    TaskDetail,
    TaskIteration,
    TaskReport,
)
from artelier.missions.steering_document import Bias
from artelier.server.wire.agents import MissionAgent
from artelier.server.wire.base import Attachments, Id, ParamsIn, RequestBody, ResponseModel, describe_record
from artelier.server.wire.runs import ApprovalOut


@describe_record(JudgedOutput)
class Judgement(ResponseModel):
    """A person's judgement of an output."""


@describe_record(TaskReport)
class TaskLine(ResponseModel):
    """A task of a list."""

    status: str
    """`pending`, `active`, `blocked`, `done` (a passed evaluation or a person says so), `failed` or
    `cancelled`."""
    reason: str | None
    """Why it failed or is blocked, as a code such as `max_iterations`."""
    mission: str | None


@describe_record(TaskIteration)
class Iteration(ResponseModel):
    """One iteration: its decision, and the result."""


@describe_record(TaskDetail)
class TaskShown(TaskLine):
    """A task with its definition and its iterations."""

    approvals: list[ApprovalOut]
    """What its run asks people."""


class IterationList(ResponseModel):
    items: list[Iteration]
    next: None = None


# Requests


class TaskNew(RequestBody):
    """A task to be done."""

    goal: Text
    success_criteria: Text
    assigned_agent_id: Id | None = None
    """Without an agent nobody begins it."""
    inputs: list[Ref] = Field(default_factory=list[str], max_length=100)
    """Artifacts that must be there before it starts."""
    depends_on: list[Ref] = Field(default_factory=list[str], max_length=TASKS_MAX)
    """Tasks that must be done before it starts."""
    max_iterations: int = Field(default=5, ge=1, le=ITERATIONS_MAX)
    id: Id | None = None
    """Without it one is made from the goal."""
    checks: list[Check] = Field(default_factory=list[Check], max_length=20)
    only_checks: bool = False
    """Whether the checks alone decide, without a model's verdict."""
    mission: Id | None = None
    """A launched mission that takes it up."""
    model: str | None = Field(default=None, min_length=1, max_length=200)
    """For a task without a mission whose agent names none; without it the server's own."""
    workspace: str | None = Field(default=None, max_length=4_000)
    """For a task without a mission; without it the server's own."""


class Judging(RequestBody):
    """A person's word on an output."""

    output: Ref | None = None
    """Without it the newest output."""
    note: str = Field(default="", max_length=20_000)
    """Why; of a rejected output, its agent reads it when the task is retried."""


class Retrying(RequestBody):
    """With what a task is worked on again."""

    max_iterations: int | None = Field(default=None, ge=1, le=ITERATIONS_MAX)
    """Its limit from now on; without it the one that it has."""


class TaskChange(RequestBody):
    """A change to a task that is not being worked on; fields that are left out stay."""

    assigned_agent_id: Id | None = None
    """null takes it away from its agent."""
    success_criteria: Text | None = None
    inputs: list[Ref] | None = Field(default=None, max_length=100)
    depends_on: list[Ref] | None = Field(default=None, max_length=TASKS_MAX)
    max_iterations: int | None = Field(default=None, ge=1, le=ITERATIONS_MAX)


def _readable(value: object, handler: ValidatorFunctionWrapHandler) -> Plan | None:
    try:
        return handler(value)
    except ValidationError:
        return None


PlanShown = Annotated[Plan | None, WrapValidator(_readable)]
"""A recorded plan; one that another version wrote and this one cannot read is null."""

Usd = Annotated[str, Field(pattern=r"^\d{1,9}(\.\d{1,6})?$", description="Such as 0.60.")]


@describe_record(MissionEstimate)
class Estimate(ResponseModel):
    """The cost of a plan if each task needs all its iterations."""

    is_limit: bool = False
    """Whether it is enforced: then the plan costs that at most, else about that."""


class Planned(ResponseModel):
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


@describe_record(MissionReport)
class MissionLine(ResponseModel):
    """A mission of a list."""

    goal: str | None
    reason: str | None
    model: str | None
    started_us: int | None


@describe_record(AttachmentReport)
class Attachment(ResponseModel):
    """An image, a sound, a PDF or a text that came with a goal."""


@describe_record(MissionDetail)
class MissionShown(ResponseModel):
    """A mission with all that belongs to it."""

    goal: str | None
    reason: str | None
    model: str | None
    fallbacks: list[str] = []
    """Models that are asked in turn when theirs fails."""
    plan: PlanShown
    started_us: int | None
    agents: list[MissionAgent]
    membranes: list[MembraneLine]
    approvals: list[ApprovalOut]
    """What it and its tasks ask."""


# Requests


class PlanAsk(RequestBody):
    """A goal to take apart."""

    goal: str = Field(min_length=1, max_length=100_000)
    model: str | None = Field(default=None, min_length=1, max_length=200)
    """Without it the server's own."""
    fallbacks: list[str] = Field(default_factory=list[str], max_length=7)
    """Models that its planner, tasks and evaluators ask in turn when theirs fails."""
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
    params: ParamsIn = ParamsIn()
    """Of its model calls; a temperature stands over that of steering."""
    attachments: Attachments
    """Planner, tasks and evaluators are shown them; a goal that is planned already keeps its own."""


class LaunchAsk(RequestBody):
    """Yes to a plan."""

    plan: Plan | None = None
    """An edited plan in its place."""


class LaunchNamed(LaunchAsk):
    """Yes to the plan of a mission."""

    mission: Id


Safety = Literal["open", "approve_high", "approve_medium", "read_only"]


class Puck(ResponseModel):
    """The position of the puck, each from 0 to 1."""

    x: float
    y: float


class Axes(ResponseModel):
    """Names of the ends of each axis: at 0 and at 1."""

    x: list[str]
    y: list[str]


class Sliders(ResponseModel):
    """Hard limits, which the kernel keeps."""

    budget_usd: str | None
    """null for none of its own."""
    iterations: int
    delegation_depth: int
    safety: Safety
    output_bytes: int


class Document(ResponseModel):
    """The content of a steering artifact."""

    xy: Puck
    axes: Axes
    sliders: Sliders
    tools: dict[str, bool]
    """Tools that were switched; one that is not named is on."""


@describe_record(Bias)
class PolicyOut(ResponseModel):
    """The policy that the puck sets: constraints in words, and parameters."""


class InForceFrom(ResponseModel):
    """The first iteration of a task that goes by this steering, if it is changed now."""

    agent: str
    task: str
    iteration: int
    is_begun: bool
    """Whether a run works on the task already."""


class SteeringShown(Document):
    """Steering of an agent or of a membrane."""

    id: str
    about: str
    """The agent or membrane."""
    version: int
    """0: nobody has steered yet, so these are the defaults."""
    policy: PolicyOut
    """What its own puck asks for."""
    in_force: Document
    """Of an agent: together with its membranes; the strictest counts."""
    policy_in_force: PolicyOut
    from_iteration: list[InForceFrom]
    """From where on a change counts, for each agent that it concerns; empty if none has a task."""
    changed_us: int | None
    changed_by: str | None
    """Who wrote this version."""


class SteeringPatch(RequestBody):
    """A JSON merge patch of the document: what is left out stays, null puts a default back."""

    xy: dict[str, Any] | None = None
    """`{x, y}`, each from 0 to 1."""
    axes: dict[str, Any] | None = None
    """`{x: [at 0, at 1], y: ...}`."""
    sliders: dict[str, Any] | None = None
    """`{budget_usd, iterations, delegation_depth, safety, output_bytes}`."""
    tools: dict[str, bool | None] | None = Field(default=None, max_length=500)
    """Whether each is on."""
    expected_version: int | None = Field(default=None, ge=0, le=2**53)
    """Refused with 409 if somebody has changed it since."""


@describe_record(MembraneView)
class MembraneLine(ResponseModel):
    """A membrane of a list."""


@describe_record(SharedItem)
class Shared(ResponseModel):
    """An artifact that the members may read."""

    title: str | None = None


class MembraneShown(MembraneLine):
    """A membrane with the first of what it shares."""

    shared: list[Shared]
    shared_next: str | None
    """Where `GET /membranes/{id}/shared?after=` goes on; null if this is all."""


# Requests

Budget = Field(default=None, pattern=r"^\d{1,9}(\.\d{1,6})?$", description="Such as 1.50.")
Name = Field(min_length=1, max_length=NAME_CHARS_MAX)


class MembraneNew(RequestBody):
    """A membrane to be made."""

    name: str = Name
    mission: Id | None = None
    """The mission that it is named after."""
    id: Id | None = None
    """Without it one is made from the name."""
    members: list[Id] = Field(default_factory=list[str], max_length=100)
    """Agents."""
    budget_usd: str | None = Budget


class MembraneChange(RequestBody):
    """A change to a membrane; fields that are left out stay."""

    name: str | None = Field(default=None, min_length=1, max_length=NAME_CHARS_MAX)
    budget_usd: str | None = Budget
    """null: none."""
    expected_version: int | None = Field(default=None, ge=1, le=2**53)
    """Refused with 409 if somebody has changed it since."""


class Member(RequestBody):
    agent: Id = Field(min_length=1)


class SharedOne(RequestBody):
    artifact: Id = Field(min_length=1)
    """Its id, without a version."""
