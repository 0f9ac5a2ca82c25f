"""The job of a run of the task loop: stored with it, so that any process can go on with it, and made of a
task as it stands.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, cast

from artelier.errors import CorruptStore, InvalidRequest, NotFound
from artelier.ids import OPERATOR
from artelier.loops.cycle import host_tools as all_host_tools
from artelier.missions.definition import AgentContent, TaskContent, check_name, validate_form

LOOP = "task"
"""Name of this loop in `run.started`."""

PROMPT_TOKENS_MIN = 256

RULES_HARD, RULES_ADVISE, RULES_HEED = 1, 2, 3
"""What rules about words are: faults that nobody overrules, as in runs that do not say; or advice. Under the
last, content that equals what a person has rejected does not pass either."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskJob:
    """A task as it was assigned when its run began."""

    task: str
    definition: Mapping[str, Any]
    """JSON of a `TaskContent`."""
    agent: str
    """Id of the agent: its artifact, and the principal that its outputs belong to."""
    name: str = ""
    role: str = ""
    model: str
    mission: str = ""
    """Empty for a task of its own."""
    steering: str = ""
    """Id of the agent's steering artifact; empty for none."""
    memory: str = ""
    """Id of the memory that somebody attached to the agent; empty for none."""
    tools: tuple[str, ...] = ()
    """Tools that the agent was planned with: they are listed first."""
    workspace: str = ""
    """Root of the workspace tools; empty if the kernel's are used."""
    host_tools: tuple[str, ...] = ()
    """Tools of the kernel that it was started with beside those of the workspace."""
    window_tokens: int = 128_000
    max_output_tokens: int = 1_024
    """Of the model when the run began: what a prompt may take is decided by these alone."""
    scopes: tuple[str, ...] = ()
    """Limits beside those of run and tenant that it counts in: its agent's, its membranes'."""
    rules: int = RULES_HEED
    """The rules that outputs are judged by in this run, from its start to its end."""
    looks: bool = False
    """Whether the workspace is shown before the first decision, as if the model had asked for it."""
    extra: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """What whoever made the job keeps with it."""

    def settings(self) -> dict[str, Any]:
        """JSON data for `run.started`."""
        settings = {**asdict(self), "tools": list(self.tools), "scopes": list(self.scopes)}
        if not self.looks:
            del settings["looks"]  # as runs of earlier versions are stored
        if not settings.pop("host_tools"):
            return settings
        return {**settings, "host_tools": list(self.host_tools)}

    @classmethod
    def from_stored(cls, settings: Any) -> TaskJob:
        """The job of a recorded run. Errors: `CorruptStore` if the settings are not one's."""
        try:
            stored: dict[str, Any] = {"rules": RULES_HARD, **settings}
            for name in ("tools", "scopes", "host_tools"):
                stored[name] = tuple(stored.get(name, ()))
            return cls(**stored)
        except (TypeError, ValueError) as error:
            raise CorruptStore(f"the settings of a task cannot be read: {error}") from None

    def content(self) -> TaskContent:
        """Errors: `InvalidRequest`."""
        return validate_form(TaskContent, dict(self.definition), what=f"task {self.task}")

    @property
    def advises(self) -> bool:
        """True if rules about words advise the judge."""
        return self.rules >= RULES_ADVISE

    @property
    def heeds(self) -> bool:
        """True if what equals a rejected version does not pass."""
        return self.rules >= RULES_HEED

    @property
    def prompt_tokens_max(self) -> int:
        """The most tokens that a prompt may be billed as, so that the reply still fits."""
        return max(PROMPT_TOKENS_MIN, self.window_tokens - self.max_output_tokens)

    @property
    def result_bytes_max(self) -> int:
        """The most bytes of one tool result: an eighth of the window, at four bytes a token."""
        return max(2_000, self.window_tokens * 4 // 8)

    @property
    def input_tokens_max(self) -> int:
        """The most tokens of all inputs shown in one prompt: a quarter of the window."""
        return max(200, self.window_tokens // 4)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskResult:
    """The state of a task after a drive."""

    task: str
    status: str
    """Of the task: `done`, `failed`, `blocked`, `cancelled`, or `active` if its run can be resumed."""
    reason: str = ""
    run_status: str = ""
    outputs: tuple[str, ...] = ()
    """Refs with versions."""
    iterations: int = 0
    text: str = ""
    """Content of the newest output; of a task that failed without one, why."""


async def task_job(
    desk: Any,
    task: str,
    *,
    model: str = "",
    workspace: str = "",
    host_tools: tuple[str, ...] | None = None,
    mission: str = "",
    looks: bool = False,
) -> TaskJob:
    """The job of a task that begins now. `host_tools`: its mission's; None for those of the kernel.

    Of the models, the agent's own comes first, then the mission's, then that which the task was made with.
    Errors: `NotFound`; `InvalidRequest` for a task without an agent or a model.
    """
    artifacts = desk.as_principal(OPERATOR).artifacts
    stored = await artifacts.read(task)
    content = validate_form(TaskContent, stored.content, what=f"task {task}")
    if not content.assigned_agent_id:
        raise InvalidRequest(
            f"task {task!r} is assigned to nobody",
            expected="an agent",
            hint="Assign it: tasks.change(id, assigned_agent_id=...).",
        )
    agent_id = check_name(content.assigned_agent_id, what="an agent")
    agent = await agent_content(desk, agent_id)
    kept = cast("dict[str, Any]", dict(stored.metadata or {}))
    name = agent.model or model or str(kept.get("model") or "")
    if not name:
        raise InvalidRequest(
            f"agent {agent_id!r} has no model",
            expected="one of its own, or one of the task's",
            hint="Give the agent one, or create the task with model=....",
        )
    window = desk.services.window_of(name)
    groups = await artifacts.groups_of(agent_id)
    folder = workspace or str(kept.get("workspace") or "")
    return TaskJob(
        task=task,
        definition=content.model_dump(mode="json"),
        agent=agent_id,
        name=agent.name,
        role=agent.role,
        model=name,
        mission=mission,
        steering=agent.steering_artifact_id or "",
        memory=agent.memory_artifact_id or "",
        tools=tuple(agent.tools),
        workspace=folder,
        host_tools=(all_host_tools(desk.services) if host_tools is None else host_tools) if folder else (),
        window_tokens=window.context_tokens,
        max_output_tokens=window.max_output_tokens,
        scopes=(f"agent:{agent_id}", *(f"membrane:{group}" for group in groups)),
        looks=looks,
    )


async def agent_content(desk: Any, agent_id: str) -> AgentContent:
    """An agent as missions know it. Errors: `NotFound`; `InvalidRequest` for what is no agent."""
    artifact = await desk.as_principal(OPERATOR).artifacts.read(agent_id)
    if artifact.kind != "agent":
        raise NotFound(f"no agent {agent_id!r}", got=f"an artifact of kind {artifact.kind}")
    known = AgentContent.model_fields
    stored = cast("dict[str, Any]", artifact.content)
    # An agent of another making may say more than concerns a mission.
    content = {key: value for key, value in stored.items() if key in known}
    content.setdefault("name", agent_id[:80])
    return validate_form(AgentContent, content, what=f"agent {agent_id}")
