"""Wire models of agents, their memory and their skills."""

from __future__ import annotations

from typing import Any, Literal, Self

from pydantic import Field

from artelier.agents.agent_directory import CardSkill
from artelier.missions.definition import TEXT_CHARS_MAX
from artelier.missions.mission_agents import AgentFacts
from artelier.missions.reports import AgentBudgetUse, AgentReport, AgentToolState, SteeringReport
from artelier.ports.memory import Block, Change, Entry, Found
from artelier.server.wire.base import Id, ParamsIn, RequestBody, ResponseModel, describe_record
from artelier.server.wire.runs import Effect
from artelier.tools.skills.approval import ChangedFile, SkillDetail


@describe_record(AgentReport)
class MissionAgent(ResponseModel):
    """An agent that tasks are assigned to."""

    tasks: list[str] = Field(default_factory=list[str])


class AgentLine(ResponseModel):
    """An agent of a list."""

    id: str
    agent: str
    """The same id."""
    is_assignable: bool
    """Whether tasks can be assigned to it; what only such agents have is null for others."""
    runs: int
    last_run: str | None
    last_us: int | None
    """When its newest run began."""
    entries: int | None = None
    """Of its long-term memory; null if it has none."""
    cost_microusd: int
    """Of its own runs."""
    name: str | None = None
    mission: str | None = None
    status: str | None = None
    """`active`, or what its run waits for; `pending`, `blocked`, `failed`, `done`, `cancelled`, `idle`."""
    task: str | None = None
    """What it works on, or did last."""
    iteration: int | None = None
    max_iterations: int | None = None
    last_iteration: int | None = None
    model: str | None = None
    tasks: list[str] = Field(default_factory=list[str])
    tokens: int | None = None

    @classmethod
    def of(cls, facts: AgentFacts) -> Self:
        """Return what is known of an agent; its own count of costs stands before that of its runs."""
        fields = {**(facts.known or {"runs": 0, "last_run": None, "last_us": None}), **(facts.assigned or {})}
        is_assignable = facts.assigned is not None
        return cls.model_validate(
            {**fields, "id": facts.id, "agent": facts.id, "is_assignable": is_assignable}
        )


@describe_record(CardSkill)
class AgentSkill(ResponseModel):
    """A skill on an agent's card."""


@describe_record(AgentToolState)
class AgentTool(ResponseModel):
    """A tool as it is for this agent now."""


@describe_record(SteeringReport)
class AgentSteering(ResponseModel):
    """Its own steering; `GET /steering/{id}` says what it comes to."""


@describe_record(AgentBudgetUse)
class AgentBudget(ResponseModel):
    """The budget of an agent, in micro-dollars; null for no limit."""


class NextIteration(ResponseModel):
    """The next iteration of an agent."""

    task: str
    iteration: int
    """The first that has not begun: from there on a change of steering counts."""
    is_begun: bool
    """Whether a run works on the task already."""


class AgentShown(AgentLine):
    """An agent with its tools, steering and memory, and its card if it has runs or a memory."""

    role: str | None = None
    version: int | None = None
    """Of its definition."""
    tools: list[AgentTool] = Field(default_factory=list[AgentTool])
    steering: AgentSteering | None = None
    membranes: list[str] = Field(default_factory=list[str])
    memory: str | None = None
    """Id of the memory that is attached to it."""
    budget: AgentBudget | None = None
    next: NextIteration | None = None
    sub_agents: list[str] = Field(default_factory=list[str])
    card: dict[str, Any] | None = None
    """What an export would say of it now: prompts, tools, memory, skills."""
    written: str | None = None
    """Ref of the card as it was written last; null if it never was."""
    changes: int | None = None
    """How often its memory was changed."""
    skills: list[AgentSkill] = Field(default_factory=list[AgentSkill])


class AgentEffects(ResponseModel):
    """The effect of a command on each open run of an agent."""

    agent: str
    effects: list[Effect]


# Requests


class AgentNew(RequestBody):
    """An agent that tasks can be assigned to."""

    name: str = Field(min_length=1, max_length=80)
    mission: Id | None = None
    """The mission that it is named after."""
    id: Id | None = None
    """Without it one is made from the name."""
    role: str = Field(default="", max_length=TEXT_CHARS_MAX)
    """Who it is and how it works: its identity in every prompt."""
    model: str | None = Field(default=None, min_length=1, max_length=200)
    """Without it that of its mission or task."""
    tools: list[str] = Field(default_factory=list[str], max_length=200)
    """Those that are on; none named: all that are on by default."""
    budget_usd: str | None = Field(default=None, pattern=r"^\d{1,9}(\.\d{1,6})?$")


class AgentRunAsk(RequestBody):
    """Work on the tasks that wait."""

    params: ParamsIn = ParamsIn()
    """Of the model calls of tasks that begin now; one that has begun keeps its own."""


class AgentChange(RequestBody):
    """A change to an agent; fields that are left out stay. It counts for tasks that begin afterwards."""

    name: str | None = Field(default=None, min_length=1, max_length=80)
    role: str | None = Field(default=None, max_length=TEXT_CHARS_MAX)
    model: str | None = Field(default=None, min_length=1, max_length=200)
    """null: that of its mission or task."""
    tools: list[str] | None = Field(default=None, max_length=200)
    """Those it is planned with, which are listed first; switching them is steering."""
    memory_artifact_id: Id | None = None
    """A memory to attach; null takes it away."""
    expected_version: int | None = Field(default=None, ge=1, le=2**53)
    """Refused with 409 if somebody has changed it since."""


# The next prompt


class NextMessage(ResponseModel):
    role: str
    text: str


class NextSection(ResponseModel):
    """One part of the prompt, in order."""

    tag: str
    text: str
    """As it would be sent, untrusted text between marks."""
    messages: list[NextMessage]
    """Of a conversation; empty for other parts."""
    tokens: int
    """Estimate."""
    source: list[str]
    """Refs and steps that it is made of."""
    reason: str
    """Why it stands where it does."""
    stability: str
    trust: str
    cut: str
    """How it was shortened to fit; empty if it was not."""


class NextDropped(ResponseModel):
    """A part that is left out."""

    tag: str
    why: str
    tokens: int


class NextPrompt(ResponseModel):
    """The prompt of an agent's next decision, as things stand now. Nothing of it is recorded."""

    agent: str
    task: str
    iteration: int
    last_iteration: int
    """The last that the task and steering allow."""
    model: str
    temperature: float | None
    tokens: int
    """Of all sections; an estimate."""
    budget_tokens: int
    """What the model's window leaves for a prompt."""
    sections: list[NextSection]
    dropped: list[NextDropped]
    tools: list[str]
    """Those that are listed in it."""
    steering: list[str]
    """Refs of the steering that it goes by."""
    is_begun: bool
    """Whether a run works on the task already."""
    asked_now: str | None
    """Key of the decision that is being asked for at this moment; what comes of it will still change this."""
    missing: str | None
    """The input, or task, that must be there first; null if nothing is missing."""


class Ahead(ResponseModel):
    """The next prompt of an agent, or the reason why there is none."""

    agent: str
    prompt: NextPrompt | None
    """null if it has no open task."""
    why: str | None
    """Why there is none; null if there is one."""


Status = Literal["active", "parked", "refused"]


class SkillLineOut(ResponseModel):
    """A skill of a list."""

    id: str
    """`<source>/<name>`: what the other addresses take; `skill` will do if only one has it."""
    skill: str
    """As models call it."""
    source: str
    name: str
    """As its source calls it."""
    origin: str
    status: Status
    hash: str
    """Of the newest definition."""
    active_hash: str | None
    """Of the one that could last be used; null for none."""
    decided_by: str
    changed_us: int


@describe_record(SkillDetail)
class SkillShown(SkillLineOut):
    """A skill with its newest definition."""


@describe_record(ChangedFile)
class FileChange(ResponseModel):
    """A file beside a skill that is other than it was."""


class SkillDiff(ResponseModel):
    """The changes of a skill since it could last be used."""

    diff: str
    """Empty if nothing did."""
    files: list[FileChange]


class SkillDecision(RequestBody):
    """A person's decision."""

    hash: str = Field(min_length=8, max_length=64)
    """The definition that was looked at, whole or its first characters: no other one is decided on."""
    note: str = Field(default="", max_length=10_000)


class MemoryLine(ResponseModel):
    """An agent that has a memory."""

    agent: str
    entries: int
    """Living ones."""


@describe_record(Block)
class BlockOut(ResponseModel):
    """A labelled text of core memory, as it stands in every prompt."""


@describe_record(Entry, without=("embedder", "embedding", "pruned"))
class MemoryEntry(ResponseModel):
    """One entry of long-term memory."""

    deduplicated: bool = False
    """It was known already: this is the entry that says so."""


class MemoryShown(ResponseModel):
    """The memory of an agent: its blocks, and a page of its entries."""

    agent: str
    blocks: list[BlockOut]
    items: list[MemoryEntry]
    """Entries, oldest first."""
    next: str | None = None
    """Give it as `after` for more entries; null at the end."""


@describe_record(Found)
class HitOut(ResponseModel):
    """Something that a search found."""


@describe_record(Change)
class MemoryChange(ResponseModel):
    """One change of a memory, which can be taken back."""


class EntryNew(RequestBody):
    """Something to remember."""

    text: str = Field(min_length=1, max_length=100_000)
    tags: list[str] = Field(default=[], max_length=64)
    importance: float = Field(default=0.5, ge=0, le=1)
    speaker: str = Field(default="", max_length=200)
    date: str = Field(default="", max_length=100)


class BlockText(RequestBody):
    """Another text of a block."""

    text: str = Field(max_length=100_000)
