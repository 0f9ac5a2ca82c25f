"""Tasks: what is to be done, where it stands, and each iteration with its verdict."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from artelier.missions.definition import ITERATIONS_MAX, TASKS_MAX, Check, Ref, Text
from artelier.server.wire.models import CheckedRequestBody, Id, Micro, Told
from artelier.server.wire.runs import Approval


class Judgement(Told):
    """A person's judgement of an output."""

    output: str
    """Ref with its version."""
    accepted: bool
    by: str
    at_us: int
    note: str


class TaskLine(Told):
    """A task of a list."""

    id: str
    """Also that of the run that works on it."""
    goal: str
    status: str
    """`pending`, `active`, `blocked`, `done` (a passed evaluation or a person says so), `failed` or
    `cancelled`."""
    reason: str | None
    """Why it failed or is blocked, as a code such as `max_iterations`."""
    blocked_by: str | None
    """The input or task that is missing."""
    mission: str | None
    assigned_agent_id: str | None
    parent: str | None
    """The task that delegated this one."""
    inputs: list[str]
    depends_on: list[str]
    outputs: list[str]
    """Refs with versions."""
    judged: list[Judgement]
    """By people, oldest first; the newest holds."""
    iteration_count: int
    max_iterations: int
    """As its definition says; each time that it is tried again, as many more."""
    last_iteration: int
    """The last iteration that it may have: `max_iterations` after those before it was last tried again."""
    run_status: str | None
    """null before its run has begun."""
    cost_microusd: Micro
    created_us: int
    changed_us: int


class Iteration(Told):
    """One iteration: its decision, and the result."""

    iteration: int
    """Counted from 1."""
    at_us: int
    action: str
    reason: str
    tool: str | None
    decision: Any
    """The whole decision as the model gave it."""
    step: str
    """Key of the step that acted; the decision's own is `c<n>/decision`."""
    artifact: str | None
    """Ref of what was made."""
    is_error: bool
    code: str
    passed: bool | None
    """Of the evaluation; null without one."""
    verdict: Any
    """Criteria with evidence, checks, faults, and `advice`: what rules have found, and the judge's answer."""
    void: str
    """Why a verdict does not count; empty if it does."""
    steering: str | None
    """Ref of the steering that was in force."""


class TaskShown(TaskLine):
    """A task with its definition and its iterations."""

    message: str
    """Why it failed or is blocked, in words; empty if `reason` says all."""
    success_criteria: str
    checks: list[Any]
    only_checks: bool
    version: int
    """Of its definition."""
    iterations: list[Iteration]
    approvals: list[Approval]
    """What its run asks people."""


class IterationList(Told):
    items: list[Iteration]
    next: None = None


# Requests


class TaskNew(CheckedRequestBody):
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


class Judging(CheckedRequestBody):
    """A person's word on an output."""

    output: Ref | None = None
    """Without it the newest output."""
    note: str = Field(default="", max_length=20_000)
    """Why; of a rejected output, its agent reads it when the task is retried."""


class TaskChange(CheckedRequestBody):
    """A change to a task that is not being worked on; fields that are left out stay."""

    assigned_agent_id: Id | None = None
    """null takes it away from its agent."""
    success_criteria: Text | None = None
    inputs: list[Ref] | None = Field(default=None, max_length=100)
    depends_on: list[Ref] | None = Field(default=None, max_length=TASKS_MAX)
    max_iterations: int | None = Field(default=None, ge=1, le=ITERATIONS_MAX)
