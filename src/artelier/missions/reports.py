"""Reports on missions, their tasks and their agents, as Python callers and `--json` have them.

Reports are dictionaries, because callers index them. This module describes them and reads nothing; see
`queries.py`, `mission_agents.py` and `plan/commands.py` for where they are made.
"""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict

from artelier.kernel.queries.reports import OpenQuestion, TokenUse
from artelier.missions.status import TaskStatus


class JudgedOutput(TypedDict):
    """A person's judgement of an output."""

    output: str
    """Ref with its version."""
    accepted: bool
    by: str
    at_us: int
    note: str


class TaskReport(TypedDict):
    """A task of a list."""

    id: str
    """Also that of the run that works on it."""
    goal: str
    status: TaskStatus
    reason: str
    """Why it failed or is blocked, as a code."""
    blocked_by: str | None
    """The input or task that is missing."""
    mission: str
    assigned_agent_id: str | None
    parent: str | None
    """The task that delegated this one."""
    origin: str | None
    """The task that this one is a fork of: it counts for no goal."""
    inputs: list[str]
    depends_on: list[str]
    outputs: list[str]
    """Refs with versions."""
    judged: list[JudgedOutput]
    """Oldest first; the newest holds."""
    iteration_count: int
    max_iterations: int
    last_iteration: int
    """The last iteration that it may have, counted from before it was last tried again."""
    run_status: str | None
    """None before its run has begun."""
    cost_microusd: int
    created_us: int
    changed_us: int


class TaskPage(TypedDict):
    """A page of tasks."""

    items: list[TaskReport]
    next: int | None
    """The `after` of the next page; None for the last."""


class TaskIteration(TypedDict):
    """One iteration: its decision, and the result."""

    iteration: int
    at_us: int
    action: str
    tool: str | None
    reason: str
    decision: Any
    """JSON data, as is `verdict`."""
    step: str
    artifact: str | None
    """Ref of what was made."""
    is_error: bool
    code: str
    passed: bool | None
    """Of the evaluation; None without one."""
    verdict: Any
    void: str
    """Why a verdict does not count; empty if it does."""
    steering: str | None
    """Ref of the steering that was in force."""


class TaskDetail(TaskReport):
    """A task with its definition and its iterations."""

    version: int
    """Of its definition; 0 for one that was not brought along."""
    success_criteria: str
    checks: list[Any]
    """JSON data; see `definition.Check`."""
    only_checks: bool
    iterations: list[TaskIteration]
    message: str
    """Why it failed or is blocked, in words; empty if its run says nothing."""
    approvals: list[OpenQuestion]


class AddedTask(TypedDict):
    """A task that was created for a mission at work. A mission records it in its log."""

    task: str
    depends_on: list[str]


class AgentReport(TypedDict):
    """An agent that tasks are assigned to."""

    id: str
    name: str
    mission: str | None
    status: str
    """`active`, or what its run waits for; `pending`, `blocked`, `failed`, `done`, `cancelled` or `idle`."""
    task: str | None
    """The task that it works on, or worked on last."""
    iteration: int
    max_iterations: int
    last_iteration: int
    model: str | None
    tasks: list[str]
    cost_microusd: int
    tokens: int


class AgentToolState(TypedDict):
    """A tool as it is for one agent now."""

    name: str
    risk: str
    side_effect: bool
    enabled: bool
    why_off: str | None


class SteeringReport(TypedDict):
    """The steering of one agent or membrane as it is stored."""

    id: str
    version: int
    content: Any
    """JSON data."""


class AgentBudgetUse(TypedDict):
    """The budget of an agent in micro-dollars; None for no limit."""

    usd: int | None
    used: int
    left: int | None


class AgentDetail(AgentReport):
    """An agent with its tools, steering, membranes and budget."""

    role: str
    version: int
    tools: list[AgentToolState]
    steering: SteeringReport | None
    membranes: list[str]
    memory: str | None
    budget: AgentBudgetUse


class MissionReport(TypedDict):
    """A mission of a list."""

    id: str
    goal: Any
    """A text, or the mark of what was erased."""
    status: str
    """Of its run; once that has ended, of its tasks."""
    reason: str
    model: str
    launched_us: int | None
    started_us: int
    ended_us: int | None
    tasks: int
    done: int
    cost_microusd: int


class MissionPage(TypedDict):
    """A page of missions."""

    items: list[MissionReport]
    next: int | None


class MissionEstimate(TypedDict):
    """The cost of a plan if each task needs all its iterations."""

    calls: int
    cost_microusd: int | None
    """None if a model's price is not known."""
    is_limit: NotRequired[bool]
    """There if the estimate caps the mission."""


class PlannedMission(TypedDict):
    """The state of planning a goal."""

    mission: str
    status: str
    reason: str
    message: str
    plan: Any
    """JSON data, see `definition.Plan`; None until it is made."""
    estimate: MissionEstimate | None


class MissionDetail(TypedDict):
    """A mission with all that belongs to it."""

    id: str
    goal: Any
    status: str
    run_status: str
    reason: str
    message: str
    model: str
    workspace: str
    plan: Any
    estimate: MissionEstimate | None
    edited: bool
    """True if a person changed the plan before its launch."""
    planned_us: int | None
    launched_us: int | None
    started_us: int
    ended_us: int | None
    agents: list[AgentReport]
    tasks: list[TaskReport]
    membranes: list[dict[str, Any]]
    """The fields of `membranes.MembraneView`."""
    cost_microusd: int
    usage: TokenUse
    budget_microusd: int | None
    outputs: list[str]
    text: str
    artifact: str | None
    """Ref of its main result."""
    approvals: list[OpenQuestion]
