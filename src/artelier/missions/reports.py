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
    """By people, oldest first; the newest holds."""
    iteration_count: int
    max_iterations: int
    """As its definition says; each time that it is tried again, as many more."""
    last_iteration: int
    """The last iteration that it may have: `max_iterations` after those before it was last tried again."""
    run_status: str | None
    """None before its run has begun."""
    cost_microusd: int
    """Micro-dollars."""
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
    """Of the evaluation; None without one."""
    verdict: Any
    """Criteria with evidence, checks, faults, and `advice`: what rules have found, and the judge's answer."""
    void: str
    """Why a verdict does not count; empty if it does."""
    steering: str | None
    """Ref of the steering that was in force."""


class TaskDetail(TaskReport):
    """A task with its definition and its iterations."""

    message: str
    """The reason for which it failed or is blocked, in words; empty if `reason` says all. Of one that is
    done, how many notes have not been read."""
    success_criteria: str
    checks: list[Any]
    """As the definition of a task has them."""
    only_checks: bool
    version: int
    """Of its definition; 0 for one that was not brought along."""
    iterations: list[TaskIteration]
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
    """As the task's definition says."""
    last_iteration: int
    """The last iteration that the task may have; more than `max_iterations` once it was tried again."""
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
    """None: nobody has launched it yet."""
    started_us: int
    ended_us: int | None
    tasks: int
    done: int
    """Of the tasks."""
    cost_microusd: int
    """Micro-dollars."""


class MissionPage(TypedDict):
    """A page of missions."""

    items: list[MissionReport]
    next: int | None


class MissionEstimate(TypedDict):
    """The cost of a plan if each task needs all its iterations."""

    calls: int
    """Of models."""
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


class AttachmentReport(TypedDict):
    """An image, a sound, a PDF or a text that came with a goal."""

    media_type: str
    size_bytes: int
    pages: int | None
    """Of a PDF."""
    pixels: tuple[int, int] | None
    """Width and height of an image."""
    seconds: int | None
    """Length of a sound."""
    blob: str
    """Reference of its bytes: `/runs/{id}/media/{blob}?step=...` gives them for a step that was shown it."""


class MissionDetail(TypedDict):
    """A mission with all that belongs to it."""

    id: str
    goal: Any
    status: str
    """Of its run; once that has ended, of its tasks: `completed` if all are done, `running` or `pending` if
    one is worked on again, else `failed`, `blocked` if nothing failed and something is missing, or
    `cancelled`."""
    run_status: str
    """Pause, resume, stop and cancel are verbs of runs."""
    reason: str
    message: str
    """The reason for its failure, in words."""
    model: str
    fallbacks: list[str]
    """Models that are asked in turn when theirs fails."""
    workspace: str
    """Folder that its tools work on; empty for none."""
    attachments: list[AttachmentReport]
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
    """Micro-dollars."""
    usage: TokenUse
    budget_microusd: int | None
    """Its cap; None for none."""
    outputs: list[str]
    """Refs of what it came to."""
    text: str
    artifact: str | None
    """Ref of its main result."""
    approvals: list[OpenQuestion]
