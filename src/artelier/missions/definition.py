"""The allowed content of plans, tasks and agents: checked on entry, as models, people and the API give them.

The names that actors have, and the shipped texts of the prompts, stand here too. Read next: `events.py` for
what is recorded, `view.py` for where a task stands. Steering and membranes have modules of their own.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from artelier.context.builder import shipped_text
from artelier.errors import InvalidRequest

ITERATIONS_DEFAULT = 5
ITERATIONS_MAX = 20
"""A task that needs more is several tasks (3 to 5 are usual)."""

AGENTS_MAX = 32
TOOLS_MAX = 200
"""Of an agent."""
TASKS_MAX = 100
MISTAKES_MAX = 20
"""Of a plan that are named at once."""
TEXT_CHARS_MAX = 20_000
"""Of a goal or of criteria; longer material belongs into artifacts."""

Slug = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,39}$")]
"""Names an agent, a task or a membrane within its mission."""
Ref = Annotated[str, Field(min_length=1, max_length=256)]
Text = Annotated[str, Field(min_length=1, max_length=TEXT_CHARS_MAX)]

Action = Literal["analyze", "use_tool", "create_artifact", "complete_task"]
ArtifactType = Literal["markdown", "json", "text", "none"]


class _StrictModel(BaseModel):
    # Strict: true is no number and "5" is none, in a model's reply as in a person's request.
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Decision(_StrictModel):
    """What a model decides in one iteration; any other reply is no decision."""

    action: Action
    reason: str = Field(max_length=4_000)
    tool: str | None = Field(default=None, max_length=200)
    """The tool of `use_tool`; null for every other action."""
    artifact_type: ArtifactType = "none"
    """What `create_artifact` makes; `none` for every other action."""
    input: dict[str, Any] | None = None
    """Arguments of the tool."""
    target: str | None = Field(default=None, max_length=200)
    """Title of the artifact that is made; one that the task has made already gets a new version. Of
    `complete_task` without any output: what is missing, so that the task is blocked."""

    @model_validator(mode="after")
    def _fits(self) -> Decision:
        if self.action == "use_tool" and not self.tool:
            raise ValueError("use_tool needs the name of a tool in 'tool'")
        if self.action == "create_artifact" and self.artifact_type == "none":
            raise ValueError("create_artifact needs an artifact_type other than 'none'")
        if self.action != "use_tool" and self.tool:
            raise ValueError(f"{self.action} takes no tool")
        return self


class Evidence(_StrictModel):
    """Where an output meets a criterion."""

    ref: str = Field(min_length=1, max_length=256)
    """Of the output, with its version."""
    quote: str = Field(min_length=1, max_length=4_000)
    """Copied from it, character for character."""


class Criterion(_StrictModel):
    """Whether the outputs meet one criterion."""

    criterion: str = Field(min_length=1, max_length=4_000)
    met: bool
    evidence: list[Evidence] = Field(default_factory=list[Evidence], max_length=50)
    missing: str = Field(default="", max_length=4_000)
    """What is not there, if it is not met."""


class Verdict(_StrictModel):
    """What an evaluator says of the outputs of a task; any other reply is no verdict."""

    criteria: list[Criterion] = Field(min_length=1, max_length=100)
    summary: str = Field(default="", max_length=4_000)


class Answer(_StrictModel):
    """What an evaluator says of something that a rule has found in the outputs."""

    number: int = Field(ge=1, le=1_000)
    """Of the finding, as it was shown."""
    is_fault: bool
    why: str = Field(min_length=1, max_length=4_000)
    """Of a finding that is no fault here: what makes it right."""


class AdvisedVerdict(Verdict):
    """A verdict on outputs in which rules have found something."""

    model_config = ConfigDict(title="Verdict")

    findings: list[Answer] = Field(default_factory=list[Answer], max_length=100)


class Check(_StrictModel):
    """A criterion that is tested by rule instead of by a model."""

    kind: Literal["length", "regex", "schema", "tool"]
    min: int | None = Field(default=None, ge=0)
    """Of `length`: words at least."""
    max: int | None = Field(default=None, ge=1)
    pattern: str | None = Field(default=None, max_length=1_000)
    """Of `regex`: must be found in an output."""
    json_schema: dict[str, Any] | None = Field(default=None)
    """Of `schema`: an output of type JSON must fit."""
    tool: str | None = None
    """Of `tool`: called with `{"outputs": [...]}`; passes if it says so (`passed`, `ok` or `success`)."""

    @model_validator(mode="after")
    def _whole(self) -> Check:
        needed = {"regex": self.pattern, "schema": self.json_schema, "tool": self.tool}
        if self.kind in needed and needed[self.kind] is None:
            name = {"regex": "pattern", "schema": "json_schema", "tool": "tool"}[self.kind]
            raise ValueError(f"a check of kind {self.kind} needs {name}")
        if self.kind == "length" and self.min is None and self.max is None:
            raise ValueError("a check of kind length needs min or max")
        return self


class TaskContent(_StrictModel):
    """The content of an artifact of kind `task`."""

    goal: Text
    success_criteria: Text
    assigned_agent_id: str | None = Field(default=None, max_length=128)
    inputs: list[Ref] = Field(default_factory=list[str], max_length=100)
    """Artifacts that must be there before it starts."""
    depends_on: list[Ref] = Field(default_factory=list[str], max_length=TASKS_MAX)
    """Tasks that must be done before it starts; their outputs are its inputs."""
    max_iterations: int = Field(default=ITERATIONS_DEFAULT, ge=1, le=ITERATIONS_MAX)
    parent: str | None = None
    """The task that delegated this one."""
    checks: list[Check] = Field(default_factory=list[Check], max_length=20)
    """Criteria tested by rule; all must pass, and the model's verdict too unless `only_checks`."""
    only_checks: bool = False


class AgentContent(_StrictModel):
    """The content of an agent's artifact, as missions make it."""

    name: str = Field(min_length=1, max_length=80)
    role: str = Field(default="", max_length=TEXT_CHARS_MAX)
    """Who it is and how it works: its identity in every prompt."""
    model: str | None = Field(default=None, max_length=200)
    """None: the mission's."""
    tools: list[str] = Field(default_factory=list[str], max_length=TOOLS_MAX)
    """What it was planned with; which are enabled now is steering."""
    steering_artifact_id: str | None = None
    memory_artifact_id: str | None = None
    """Memory beyond the task, only when somebody attached it."""
    axes: dict[str, list[str]] = Field(default_factory=dict[str, list[str]])


class PlannedAgent(_StrictModel):
    slug: Slug
    name: str = Field(min_length=1, max_length=80)
    role: str = Field(default="", max_length=TEXT_CHARS_MAX)
    tools: list[str] = Field(default_factory=list[str], max_length=TOOLS_MAX)
    """Suggested tools; an unknown one is refused when the plan is launched."""
    model: str | None = None
    budget_usd: str | None = Field(default=None, pattern=r"^[0-9]{1,9}(\.[0-9]{1,6})?$")


class PlannedTask(_StrictModel):
    slug: Slug
    goal: Text
    success_criteria: Text
    agent: Slug
    depends_on: list[Slug] = Field(default_factory=list[str], max_length=TASKS_MAX)
    inputs: list[Ref] = Field(default_factory=list[str], max_length=100)
    max_iterations: int = Field(default=ITERATIONS_DEFAULT, ge=1, le=ITERATIONS_MAX)
    checks: list[Check] = Field(default_factory=list[Check], max_length=20)
    only_checks: bool = False


class PlannedMembrane(_StrictModel):
    slug: Slug
    name: str = Field(min_length=1, max_length=80)
    members: list[Slug] = Field(default_factory=list[str], max_length=AGENTS_MAX)
    shared: list[Ref] = Field(default_factory=list[str], max_length=100)
    budget_usd: str | None = Field(default=None, pattern=r"^[0-9]{1,9}(\.[0-9]{1,6})?$")


class Plan(_StrictModel):
    """A goal, taken apart: who works on what, in which order, and who sees what."""

    agents: list[PlannedAgent] = Field(min_length=1, max_length=AGENTS_MAX)
    tasks: list[PlannedTask] = Field(min_length=1, max_length=TASKS_MAX)
    membranes: list[PlannedMembrane] = Field(default_factory=list[PlannedMembrane], max_length=AGENTS_MAX)
    """Without any, all agents share one."""

    @model_validator(mode="after")
    def _hangs_together(self) -> Plan:
        agents = [agent.slug for agent in self.agents]
        tasks = [task.slug for task in self.tasks]
        used = Counter([*agents, *tasks, *(membrane.slug for membrane in self.membranes)])
        found = [f"the slug {slug!r} is used {count} times" for slug, count in used.items() if count > 1]
        for task in self.tasks:
            if task.agent not in agents:
                found.append(f"task {task.slug!r}: there is no agent {task.agent!r}")
            missing = [before for before in task.depends_on if before not in tasks]
            found += [f"task {task.slug!r}: there is no task {before!r}" for before in missing]
        for membrane in self.membranes:
            missing = [member for member in membrane.members if member not in agents]
            found += [f"membrane {membrane.slug!r}: there is no agent {member!r}" for member in missing]
        try:
            in_order({task.slug: task.depends_on for task in self.tasks})
        except ValueError as error:
            found.append(str(error))
        if found:
            raise ValueError("; ".join(found[:MISTAKES_MAX]))
        return self


def in_order(depends_on: Mapping[str, Iterable[str]]) -> tuple[str, ...]:
    """Tasks so that each follows what it depends on. Errors: `ValueError` naming a circle."""
    from graphlib import CycleError, TopologicalSorter

    try:
        return tuple(TopologicalSorter(depends_on).static_order())
    except CycleError as error:
        raise ValueError(f"tasks wait for each other: {' -> '.join(error.args[1])}") from None


ModelT = TypeVar("ModelT", bound=BaseModel)


def validate_form(kind: type[ModelT], value: object, *, what: str) -> ModelT:
    """A value at the door. Errors: `InvalidRequest` that names the first mistakes with their paths."""
    try:
        return kind.model_validate(value)
    except ValidationError as error:
        raise InvalidRequest(
            f"{what} cannot be used: {mistakes(error)}",
            expected=f"the form of a {kind.__name__}",
            got=repr(value)[:200],
        ) from None


def mistakes(error: ValidationError, *, most: int = 5) -> str:
    """The first mistakes in words, each with the path to it."""
    found: list[str] = []
    for item in error.errors(include_url=False)[:most]:
        path = ".".join(str(part) for part in item["loc"])
        text = str(item["msg"]).removeprefix("Value error, ")
        found.append(f"{path}: {text}" if path else text)
    return "; ".join(found)


def slug_of(text: str, *, fallback: str = "item") -> str:
    """A name that can stand in ids, from a title."""
    words = "-".join(re.findall(r"[a-z0-9]+", text.lower()))
    return words[:40].strip("-") or fallback


template = partial(shipped_text, "artelier.missions")
"""The text of a template of this package, by its name."""


_PEOPLE = ("operator", "system", "kernel", "host", "world")
"""Actors that are no id of anything."""

_PREFIXES = (
    "user:",
    "system:",
    "tenant:",
    "membrane:",
    "main:",
    "mission:",
    "chat:",
    "run:",
    "artifact:",
    "session:",
    "world:",
    "schedule:",
)
"""With which actors, groups and streams begin."""


def check_name(id: str, *, what: str) -> str:
    """The id itself. Errors: `InvalidRequest` for one that is somebody else's name."""
    if id in _PEOPLE or id.startswith(_PREFIXES):
        raise InvalidRequest(
            f"{what} cannot be called that: the name is reserved",
            got=id[:128],
            expected=f"none of {', '.join(_PEOPLE)}; no beginning {' '.join(_PREFIXES)}",
            hint="Ids like team/ana are free.",
        )
    return id
