"""The state of the task loop: all that a resume needs, bounded by the number of iterations; and the limit of
these.

The end of a task, and the behaviour of a reopened task at a place where it had ended before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, cast

import msgspec

from artelier.errors import (
    ArtelierError,
    CorruptStore,
    Exhausted,
    External,
    InvalidRequest,
    NotFound,
    OutputInvalid,
    Refused,
    StoreUnavailable,
    UnknownModel,
)
from artelier.ids import OPERATOR
from artelier.kernel import Run
from artelier.kernel.history.fork_lineage import Place, lineage, newest_state
from artelier.kernel.run.services import Services
from artelier.kernel.steps.failures import RecordedError, code_of, with_fallbacks, words
from artelier.kernel.tenants.registry import TenantScope
from artelier.log import Blob, BlobRef, StoredRecord, decode_stored
from artelier.log.queries import events_between
from artelier.loops.cycle import host_tools as all_host_tools
from artelier.missions import events as ev
from artelier.missions.definition import AgentContent, TaskContent, check_name, validate_form
from artelier.missions.events import TaskEnded
from artelier.ports.media import Medium, stored_media
from artelier.tokens.model_info import PROMPT_TOKENS_MIN

STUCK_AFTER = 2
"""Equal decisions without new evidence before a third that end a task."""


class TaskOutput(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An artifact that the task has made."""

    id: str
    version: int
    slug: str
    """Of its target: the same again makes a new version."""
    media: str
    """`markdown`, `json` or `text`."""
    reply: BlobRef
    """The model's reply that its content is."""

    @property
    def ref(self) -> str:
        return f"{self.id}@{self.version}"


class ToolSourceResult(msgspec.Struct, frozen=True, array_like=True):
    """A result of a tool that the task has received."""

    name: str
    key: str
    content: BlobRef
    given: BlobRef | None = None
    """JSON of the arguments that the model gave: figures that stand there are not learned from the result."""
    made: tuple[str, ...] = ()
    """Refs of what a task that was delegated has made, from these arguments."""


class ToolMedium(msgspec.Struct, frozen=True, array_like=True):
    """An image, a sound, a PDF or a text that a tool has shown the task."""

    tool: str
    part: dict[str, Any]
    """The piece of a message that shows it."""


def id_of(ref: str) -> str:
    """Return the id of the artifact that a reference names."""
    return ref.partition("@")[0]


class TaskState(StoredRecord, frozen=True, kw_only=True, omit_defaults=True):
    """The state of the loop after an iteration."""

    MEANING = "stored state of a task"

    iteration: int = 0
    """Iterations completed."""
    messages: int = 0
    """Messages in the conversation."""
    base: int = 0
    """The iteration after which the limit counts: a retry begins to count anew."""
    allowed: int = 0
    """Iterations from there, as steering said last; 0 before it was read."""
    begun: int = 0
    """How often the inputs were looked for."""
    inputs: tuple[str, ...] = ()
    """Refs with versions."""
    outputs: tuple[TaskOutput, ...] = ()
    """The newest version of each, in the order of their writing."""
    sources: tuple[ToolSourceResult, ...] = ()
    media: tuple[ToolMedium, ...] = ()
    """The newest that tools have shown, each once; empty under rules by which nobody judges with them."""
    reads: dict[str, BlobRef] = {}
    """Newest readings of what prompts depend on, by name."""
    tools: tuple[str, ...] = ()
    """Tools used so far."""
    decided: str = ""
    """Digest of the last decision."""
    led_to: str = ""
    """Digest of what came of it."""
    action: str = ""
    """Of the last decision."""
    repeats: int = 0
    """Equal decisions without new evidence in a row, the last one included."""
    judged: tuple[str, ...] = ()
    """Refs of the outputs at the last evaluation."""
    judged_by: int = 0
    """Sources there were then."""
    verdict: BlobRef | None = None
    void: str = ""

    def of_made(self, source: ToolSourceResult, read: str) -> ToolSourceResult:
        """A source that is the reading of what a delegated task made: from the arguments of that."""
        for one in self.sources:
            if read and read in map(id_of, one.made):
                return ToolSourceResult(source.name, source.key, source.content, one.given)
        return source

    @property
    def own(self) -> frozenset[str]:
        """Ids of what the task has made: nothing that it says is grounds for it to say so."""
        return frozenset(output.id for output in self.outputs)

    @property
    def refs(self) -> tuple[str, ...]:
        return tuple(output.ref for output in self.outputs)


ENDS = ("task.ended", "run.reopened")
"""Events that end a task, and that let it go on behind an end."""

GOES_ON = frozenset(("max_iterations", "stuck", "decision_invalid", "missing_input"))
"""Ends after which a reopened task has something to try; the failure of a step is tried again by itself."""


def begins_anew(reason: str, iteration: int) -> bool:
    """Return True if a task that was reopened looks for its inputs first: it had ended without deciding
    anything.
    """
    return reason == "missing_input" and not iteration


def goes_on(status: str, reason: str) -> bool:
    """Return True if a reopened task iterates on behind an end: its result did not do, or a limit was met."""
    return status == "done" or reason in GOES_ON


def counts_anew(status: str, reason: str, iteration: int) -> bool:
    """Return True if the limit of a task that was reopened counts from where it had ended."""
    return goes_on(status, reason) and not begins_anew(reason, iteration)


def last_iteration(before: int, most: int) -> int:
    """Return the last iteration that a task may have which has `most` after those `before`."""
    return before + most


async def ends_passed(services: Services, places: Sequence[Place]) -> list[TaskEnded]:
    """Return the ends since the newest iteration from which the limit of a run counts, oldest first.

    `places`: its lineage. Cost: O(events since its newest iteration).
    """
    newest = await newest_state(services, places)
    first, after = (len(places) - 1, 0) if newest is None else newest[1]
    told: list[TaskEnded | None] = []
    for index in range(first, -1, -1):
        place = places[index]
        rows = await events_between(
            services.store, place.stream_id, ENDS, after=after if index == first else 0, upto=place.upto
        )
        told += [
            decode_stored(one.data, type=TaskEnded) if one.kind == TaskEnded.KIND else None for one in rows
        ]
    while told and told[-1] is not None:
        told.pop()  # nobody has reopened it since
    ends = [one for one in told if one is not None]
    return [one for one in ends if counts_anew(one.status, one.reason, one.iterations)]


async def counted_from(desk: TenantScope, task: str) -> int:
    """Return the iteration after which the limit counts of a task that a run works on."""
    places = await lineage(desk.services, desk.id, task)
    if passed := await ends_passed(desk.services, places):
        return passed[-1].iterations
    newest = await newest_state(desk.services, places)
    return TaskState.from_stored(None if newest is None else newest[0]).base


_FAILURES = (External, Refused, Exhausted, OutputInvalid, UnknownModel, RecordedError)


class Ended(Exception):
    """The task ends here."""

    def __init__(
        self,
        status: str,
        reason: str,
        *,
        iteration: int = 0,
        by: str = "",
        message: str = "",
        outputs: tuple[TaskOutput, ...] | None = None,
        verdict: BlobRef | None = None,
    ) -> None:
        super().__init__(message or reason or status)
        self.status = status
        self.reason = reason
        self.iteration = iteration
        self.by = by
        self.message = message
        self.outputs = outputs
        """What it leaves; None for what it had before this iteration."""
        self.verdict = verdict
        """Of the evaluation that passed; a person may reject all the same what it was about."""

    @property
    def is_before_work(self) -> bool:
        return begins_anew(self.reason, self.iteration)


def failed_by(error: ArtelierError, *, iteration: int) -> Ended | None:
    """The end that a step's failure is; None for what says nothing of the task: it goes to the caller."""
    if isinstance(error, StoreUnavailable) or not isinstance(error, _FAILURES):
        return None
    return Ended("failed", code_of(error), iteration=iteration, message=words(error))


class Endings:
    """The ends that one run has recorded, each by the iteration in which it came."""

    def __init__(self, run: Run) -> None:
        self._run = run

    async def goes_on(self, ended: Ended, outputs: Sequence[str]) -> bool:
        """Record an end. True if it is recorded already and a person has reopened the task since."""
        number = 0
        while True:
            number += 1
            key = _key(ended, number)
            is_known = await self._run.core.history.knows(key)
            told = await self._receipt(key, ended, outputs)
            if not is_known:
                return False
            is_same = (told.status, told.reason) == (ended.status, ended.reason)
            if is_same and not await self._is_past():
                return False
            if is_same and goes_on(ended.status, ended.reason):
                return True

    async def met_limit(self, iteration: int) -> bool:
        """Return True if the limit was met behind an iteration, by the record: code goes on behind that."""
        end = Ended("failed", "max_iterations", iteration=iteration)
        return await self._run.core.history.knows(_key(end, 1))

    async def passed_over(self, iteration: int) -> None:
        """An iteration that had failed of a step, which was asked again: its old end stands for nothing."""
        history, number = self._run.core.history, 1
        past = Ended("", "", iteration=iteration)
        while not history.at_end and await history.knows(_key(past, number)):
            await self._receipt(_key(past, number), past, ())
            number += 1

    async def _receipt(self, key: str, ended: Ended, outputs: Sequence[str]) -> ev.TaskEnded:
        async def make(full: str) -> tuple[ev.TaskEnded, list[Blob]]:
            event = ev.TaskEnded(
                key=full,
                status=ended.status,
                reason=ended.reason,
                iterations=ended.iteration,
                outputs=tuple(outputs),
                by=ended.by,
            )
            return event, []

        return await self._run.receipt(ev.TaskEnded, make, key=key)

    async def _is_past(self) -> bool:
        """Return True if the end that was just met in the record is not the last word.

        A process may have died between the task's end and its run's: then nobody has reopened it.
        """
        core = self._run.core
        if await core.history.expects_more():
            return True
        if core.actor is None:
            return False
        ends = reopened = 0
        for place in await lineage(core.services, core.tenant.id, core.run_id):
            rows = await events_between(core.store, place.stream_id, ENDS, after=0, upto=place.upto)
            ends += sum(one.kind == ev.TaskEnded.KIND for one in rows)
            reopened += sum(one.kind != ev.TaskEnded.KIND for one in rows)
        return reopened >= ends


def _key(ended: Ended, number: int) -> str:
    """Beside the steps of its iteration; the limit is reached between two of them."""
    place = f"c{ended.iteration}/end"
    if ended.reason == "max_iterations":
        place = f"limit/{ended.iteration}"
    return place if number == 1 else f"{place}-{number}"


LOOP = "task"
"""Name of this loop in `run.started`."""


RULES_HARD, RULES_ADVISE, RULES_HEED, RULES_SEE = 1, 2, 3, 4
"""What rules about words are: faults that nobody overrules, as in runs that do not say; or advice. Under the
third, content that equals what a person has rejected does not pass either. Under the last, the evaluator is
shown what tools have shown the task."""


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
    rules: int = RULES_SEE
    """The rules that outputs are judged by in this run, from its start to its end."""
    looks: bool = False
    """Whether the workspace is shown before the first decision, as if the model had asked for it."""
    client_tools: tuple[Mapping[str, Any], ...] = ()
    """Definitions of tools that a client brought with the goal of its mission and runs itself."""
    attachments: tuple[Mapping[str, Any], ...] = ()
    """Media parts that came with the goal of its mission."""
    fallbacks: tuple[str, ...] = ()
    """Models that are asked in turn when `model` fails."""
    extra: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """What whoever made the job keeps with it."""

    def settings(self) -> dict[str, Any]:
        """JSON data for `run.started`."""
        settings = {**asdict(self), "tools": list(self.tools), "scopes": list(self.scopes)}
        if not self.looks:
            del settings["looks"]  # as runs of earlier versions are stored
        for name in ("host_tools", "client_tools", "attachments", "fallbacks"):
            if listed := settings.pop(name):
                settings[name] = list(listed)
        return settings

    @classmethod
    def from_stored(cls, settings: Any) -> TaskJob:
        """The job of a recorded run. Errors: `CorruptStore` if the settings are not one's."""
        try:
            stored: dict[str, Any] = {"rules": RULES_HARD, **settings}
            for name in ("tools", "scopes", "host_tools", "client_tools", "attachments", "fallbacks"):
                stored[name] = tuple(stored.get(name, ()))
            return cls(**stored)
        except (TypeError, ValueError) as error:
            raise CorruptStore(f"the settings of a task cannot be read: {error}") from None

    def content(self) -> TaskContent:
        """Errors: `InvalidRequest`."""
        return validate_form(TaskContent, dict(self.definition), what=f"task {self.task}")

    @property
    def models(self) -> tuple[str, ...]:
        """The models that are asked, in turn."""
        return (self.model, *self.fallbacks)

    @property
    def media(self) -> tuple[Medium, ...]:
        """The media that came with the goal of its mission."""
        return stored_media(self.attachments)

    @property
    def advises(self) -> bool:
        """True if rules about words advise the judge."""
        return self.rules >= RULES_ADVISE

    @property
    def heeds(self) -> bool:
        """True if what equals a rejected version does not pass."""
        return self.rules >= RULES_HEED

    @property
    def sees(self) -> bool:
        """True if the judge is shown what tools have shown."""
        return self.rules >= RULES_SEE

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
    client_tools: Sequence[Mapping[str, Any]] = (),
    attachments: Sequence[Mapping[str, Any]] = (),
    fallbacks: Sequence[str] = (),
) -> TaskJob:
    """The job of a task that begins now. `host_tools`: its mission's; None for those of the kernel.
    `client_tools`, `attachments` and `fallbacks`: definitions, media parts and models of its mission.

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
            hint=f"Assign it: artelier tasks assign {task} --agent ID, or PATCH /api/v1/tasks/{task}.",
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
    name, *others = with_fallbacks(name, fallbacks)
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
        client_tools=tuple(client_tools),
        attachments=tuple(attachments),
        fallbacks=tuple(others),
    )


async def agent_content(desk: TenantScope, agent_id: str) -> AgentContent:
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
