"""The job of one run of the loop: stored with the run, so that any process can go on with it.

The state of the autonomous loop: all that a resume needs, of the same size at any age.

The end of a run of the loop: its result, and the artifact that its text becomes.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, cast

import msgspec

from artelier.artifacts import Artifacts, Provenance
from artelier.artifacts.queries import ref_written_by
from artelier.chat.session.agent_conversation import NONE_WAITING, AgentTurn, Earlier, WaitingTurns
from artelier.context import CompactionStrategy, Estimator, Section
from artelier.context.builder import shipped_text
from artelier.errors import Conflict, CorruptStore, InvalidRequest, NotFound, Refused
from artelier.ids import MAIN_SPACE
from artelier.kernel import AgentResult, Limits, ModelResult, Run, run_row
from artelier.kernel.erasure import ERASED, LOCKED
from artelier.kernel.events import RunReopened
from artelier.kernel.prompt.conversation import Conversation
from artelier.kernel.queries.content import shown_json
from artelier.kernel.queries.runs import totals
from artelier.kernel.run.services import Services
from artelier.kernel.tenants.registry import TenantRef, TenantScope, TenantScopes
from artelier.log import BlobRef, StoredRecord
from artelier.ports.media import Medium, stored_media
from artelier.ports.model import Delta, Usage
from artelier.tokens import estimate_tokens

if TYPE_CHECKING:
    from artelier.chat.turn.agent_turn_hooks import AgentStep, AgentTurnHooks
    from artelier.operations.profile.operation_profile import OperationProfile

STUCK_AFTER = 3
"""Equal calls with equal results in a row that end a run, unless it says otherwise: two may be chance, three
are a loop."""

SKILLS_MAX = 32
"""Skills loaded at once; the oldest makes room, and may be loaded again."""


class LoadedSkill(msgspec.Struct, frozen=True, array_like=True):
    """A skill that the model has loaded."""

    name: str
    tool: str
    """What `use_skill` of it calls; empty for instructions only."""
    value: BlobRef
    """What `load_skill` returned."""
    message: int
    """Number of the message that shows it."""


class AgentState(StoredRecord, frozen=True, kw_only=True, omit_defaults=True):
    """The state of the loop after a cycle."""

    MEANING = "stored state of an agent"

    cycle: int = 0
    """Cycles completed."""
    messages: int = 0
    """Messages in the conversation."""
    shown: int = 1
    """Number of the first message that stands verbatim in the prompt."""
    summary: BlobRef | None = None
    """What stands for the messages before it."""
    trust: str = "trusted"
    """Of the summary."""
    compaction: str = ""
    """Key of the newest receipt that stands."""
    hold: int = 0
    """After an undo: no compaction for the sake of length before there are so many messages."""
    policy: BlobRef | None = None
    """Settings of the strategy that a person chose; else the run's own."""
    estimate: Estimator = Estimator()
    skills: tuple[LoadedSkill, ...] = ()
    reads: dict[str, BlobRef] = {}
    """Newest readings of what prompts depend on, by name."""
    passed: tuple[str, ...] = ()
    """Tools of the acceptance gates whose last call passed."""
    repairs: int = 0
    """Repair turns in a row."""
    repeated: int = 0
    """How often in a row the same calls gave the same results."""
    seen: str = ""
    """Digest of the last calls and results."""
    iterations_from: int = 0
    """The cycle behind which iterations are counted: a person had the run go on there."""
    raised: dict[str, int] = {}
    """Limits that a person has raised since the run began: `max_iterations`, `stuck_after`."""
    status: str = "running"
    """`running`, `completed` or `failed`."""
    reason: str = ""

    def reopen(self, event: RunReopened) -> AgentState:
        """Return the state in which a failed run goes on: what the event resets begins anew."""
        state = self.replace(raised={**self.raised, **event.limits}) if event.limits else self
        if "max_iterations" in event.limits:
            state = state.replace(iterations_from=0)
        if "iterations" in event.resets:
            state = state.replace(iterations_from=self.cycle)
        if "repeated" in event.resets:
            state = state.replace(repeated=0, seen="")
        if "repairs" in event.resets:
            state = state.replace(repairs=0)
        if event.resets or event.limits:
            state = state.replace(status="running", reason="")
        return state


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """The job of one run of the loop."""

    prompt: str
    """The task; in a chat, what the person says."""
    model: str
    max_iterations: int
    output_schema: Any = None
    artifact: str = ""
    """Id of the artifact that the final text becomes; empty for none."""
    workspace: str = ""
    """Root of the workspace tools; empty if the tools come from code."""
    host_tools: tuple[str, ...] = ()
    """Tools of the kernel that it was started with beside those of the workspace."""
    context: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Settings of the context builder."""
    compaction: Mapping[str, Any] = field(default_factory=dict[str, Any])
    window_tokens: int = 128_000
    max_output_tokens: int = 1_024
    """Of the model when the run began: what a prompt may take is decided by these alone."""
    is_output_assumed: bool = False
    """True if nobody says how much the model can write: a cut answer is asked for once more."""
    fallbacks: tuple[str, ...] = ()
    """Models that are asked in turn when the first one fails."""
    fits_budget: bool = False
    """True if calls ask for less output where money is short; False of runs that 0.1 began."""
    acceptance: tuple[str, ...] = ()
    """Tools whose last call must have passed before the run may end."""
    stuck_after: int = STUCK_AFTER
    """Equal calls with equal results in a row that end the run; 0 for any number."""
    verbatim_tokens: int = 0
    """Up to which the prompt stands verbatim; 0 as in runs begun before this was said: a quarter of the
    window."""
    attachments: tuple[Mapping[str, Any], ...] = ()
    """Pieces of a message that show what the task came with; the run's settings have them from its start."""
    is_chat: bool = False
    earlier: Earlier | None = None
    waiting_turns: tuple[str, ...] = ()
    """Earlier turns of the chat that waited for somebody when this one began."""
    news: tuple[str, ...] = ()
    """The notice about them to the model, before the words of the person."""
    profile: str = ""
    """Operations around each step: `id@version` of their profile; empty for none."""
    session: str = ""
    """Names the stream of the session whose artifacts they change; empty for the run's own."""

    def settings(self) -> dict[str, Any]:
        """JSON data for `run.started`."""
        from artelier.kernel.steps.structured_output import schema_of

        stored: dict[str, Any] = {
            "prompt": self.prompt,
            "model": self.model,
            "max_iterations": self.max_iterations,
            "output_schema": schema_of(self.output_schema),
            "artifact": self.artifact,
            "workspace": self.workspace,
            "context": dict(self.context),
            "compaction": dict(self.compaction),
            "window_tokens": self.window_tokens,
            "max_output_tokens": self.max_output_tokens,
            "acceptance": list(self.acceptance),
        }
        if self.stuck_after != STUCK_AFTER:
            stored["stuck_after"] = self.stuck_after
        if self.is_output_assumed:
            stored["is_output_assumed"] = True
        if self.fallbacks:
            stored["fallbacks"] = list(self.fallbacks)
        if self.fits_budget:
            stored["fits_budget"] = True
        if self.verbatim_tokens:
            stored["verbatim_tokens"] = self.verbatim_tokens
        if self.is_chat:
            stored["is_chat"] = True
        if self.profile:
            stored |= {"profile": self.profile, "session": self.session}
        if self.host_tools:
            stored["host_tools"] = list(self.host_tools)
        if self.waiting_turns:
            stored["waiting_turns"] = list(self.waiting_turns)
        if self.news:
            stored["news"] = list(self.news)
        if self.earlier is not None:
            stored["earlier"] = {f.name: getattr(self.earlier, f.name) for f in fields(Earlier)}
        return stored

    @classmethod
    def from_stored(cls, settings: Mapping[str, Any]) -> Job:
        """The job of a recorded run. Errors: `CorruptStore` if the settings are not one's."""
        stored: dict[str, Any] = dict(settings)
        if "identity" in stored:  # runs of version 0.1.0 before there were builders
            stored["context"] = {"identity": stored.pop("identity")}
        earlier = stored.pop("earlier", None)
        for name in ("acceptance", "waiting_turns", "news", "fallbacks", "host_tools", "attachments"):
            stored[name] = tuple(stored.get(name, ()))
        try:
            return cls(**stored, earlier=Earlier(**earlier) if earlier else None)
        except TypeError as error:
            raise CorruptStore(f"the settings of a run cannot be read: {error}") from None

    def strategy(self) -> CompactionStrategy:
        return CompactionStrategy.from_stored(self.compaction)

    @property
    def prompt_tokens_max(self) -> int:
        """The most tokens that a prompt may be billed as, so that the reply still fits."""
        return max(256, self.window_tokens - self.max_output_tokens)

    @property
    def task_tokens_max(self) -> int:
        """Up to which the prompt stands verbatim. A longer one is kept as an artifact."""
        return self.verbatim_tokens or self.note_tokens_max

    @property
    def note_tokens_max(self) -> int:
        """The most tokens of a person's note: a quarter of the window. A longer one becomes an artifact."""
        return max(200, self.window_tokens // 4)

    @property
    def message_bytes_max(self) -> int:
        """The most bytes of all results of one reply: an eighth of the window, at four bytes a token."""
        return max(2_000, self.window_tokens * 4 // 8)


def with_verbatim_task(job: Job, *, can_read_on: bool) -> Job:
    """Return the job of a new run, whose task stands verbatim up to half the window.

    Less where the longest reply leaves less room: beside the task there is an identity, and a
    conversation. More where the run could not read the rest of it (`can_read_on`). It is recorded only for
    a task that it matters to.
    """
    if estimate_tokens(job.prompt) <= job.note_tokens_max:
        return job
    most = job.prompt_tokens_max * 3 // 4
    if can_read_on:
        most = min(most, job.window_tokens // 2)
    return replace(job, verbatim_tokens=max(job.note_tokens_max, most))


# The shipped texts of this package's prompts: files with a version


template = partial(shipped_text, "artelier.agents")
"""The text of a template of this package, by its name."""


# One call of an agent, and what it needs of a kernel


Sink = Callable[[Delta], Awaitable[None]]
"""Takes the pieces of replies as they come."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """One call of `run`, `stream` or a chat's `send`."""

    run_id: str
    model: str
    prompt: str
    tenant: TenantRef = None
    output_schema: Any = None
    on_wait: str = "await"
    limits: Limits | None = None
    artifact: str = ""
    workspace: str = ""
    parent: Run | None = None
    parent_step: str | None = None
    grants: Iterable[str] | None = None
    is_chat: bool = False
    earlier: Earlier | None = None
    waiting: WaitingTurns = NONE_WAITING
    replay: str = "strict"
    subject: str = ""
    fallbacks: tuple[str, ...] = ()
    """Models that are asked in turn when `model` fails."""
    params: Mapping[str, Any] | None = None
    """Of its model calls, such as `temperature`; None: the agent's."""
    attachments: tuple[bytes, ...] = ()
    """Images, sounds, PDFs and texts that a new run is shown with its task."""
    key_id: int | None = None
    """The subject's key of the turn before, or of the schedule."""
    must_be_new: bool = False
    """A turn of a chat: a run of that name that another process made is not ours."""


def wanted_turn(turn: AgentTurn) -> Wanted:
    """Return the call that a turn of a chat is."""
    return Wanted(
        run_id=turn.run_id,
        model=turn.model,
        prompt=turn.prompt,
        tenant=turn.tenant,
        is_chat=True,
        earlier=turn.earlier,
        waiting=turn.waiting,
        key_id=turn.key_id,
        must_be_new=True,
        **turn.more,
    )


class Starter(Protocol):
    """An agent whose runs somebody else words: a conversation, or whoever follows one as it happens."""

    @property
    def agent_id(self) -> str: ...

    @property
    def kernel(self) -> TenantScopes: ...

    async def start(self, wanted: Wanted, *, sink: Sink | None = None) -> AgentResult: ...

    @property
    def resume(self) -> Callable[..., Awaitable[AgentResult]]: ...


async def finish(run: Run, job: Job, result: ModelResult) -> None:
    """Set the result; the text becomes an artifact in the same batch as the end of the run."""
    output = result.output
    if hasattr(output, "model_dump"):
        output = output.model_dump(mode="json")
    outcome: dict[str, Any] = {"text": result.text, "output": output, "artifact": ""}
    core = run.core
    if job.artifact and core.actor is not None:
        id_ = job.artifact if core.effects is None else core.effects.own_id(job.artifact)
        space = Artifacts(core.store, core.clock, core.tenant.id, MAIN_SPACE, core.actor.name)
        try:
            append, blobs, artifact = await space.plan_write(
                id_,
                kind="document",
                content=result.text,
                provenance=Provenance(run_id=run.id, step=result.key),
                key=core.shared_key,
            )
        except (Conflict, InvalidRequest, NotFound, Refused):
            pass  # the id is somebody else's: the result stands without an artifact
        else:
            core.actor.note_aside(append, blobs)
            outcome["artifact"] = f"{artifact.id}@{artifact.version}"
    elif job.artifact:
        # A replay: the recorded run wrote it at this step.
        outcome["artifact"] = await ref_written_by(
            run.core.store, run.tenant_id, MAIN_SPACE, run.id, result.key
        )
    run.finish(outcome)


async def agent_result(
    services: Services, tenant: str, run_id: str, *, message: str = "", output: object = None
) -> AgentResult:
    """Return how a run of this loop stands, from the log; `output` is the type that was asked for.

    Cost and usage are those of the run with all its children.
    Errors: `NotFound`.
    """
    row = await run_row(services.store, tenant, run_id)
    result: Any = await shown_json(services, tenant, row.result)
    failure = await shown_json(services, tenant, row.message)
    fields = cast(dict[str, Any], result) if isinstance(result, dict) else {}
    text = (
        fields.get("text")
        or (result if result in (ERASED, LOCKED) else "")
        or (failure if isinstance(failure, str) else "")
        or message
    )
    value = fields.get("output")
    sums = (await totals(services.store, tenant, [run_id]))[run_id]
    return AgentResult(
        status=row.status,
        reason=row.reason,
        output=_convert(value, output),
        text=text,
        run_id=run_id,
        cost_microusd=sums.total_cost_microusd,
        artifact=fields.get("artifact") or "",
        usage=Usage(**sums.total_usage._asdict()),
    )


def _convert(value: Any, output: Any) -> object:
    """The recorded output as the type that the caller asked for; it was checked when it came."""
    if value is None or output is None or isinstance(output, Mapping):
        return value
    try:
        if hasattr(output, "model_validate"):
            return output.model_validate(value)
        return msgspec.convert(value, output)
    except ValueError:  # another type than the run was asked for: its data is still true
        return value


SAID_MAX = 50
"""Messages that operations see of a conversation."""


class Steps:
    """The operations of one run, step by step."""

    def __init__(self, stepping: AgentTurnHooks, attachments: tuple[Medium, ...]) -> None:
        """`attachments`: what the task came with."""
        self._stepping = stepping
        self._attachments = attachments
        self._step: AgentStep | None = None

    async def before(self, number: int, conversation: Conversation, *, text: str) -> None:
        """Errors: `StepFailed`, `InclusionFailed`; Flow."""
        last = len(conversation)
        first = max(conversation.first, last - SAID_MAX + 1)
        said = conversation.messages(first, last) if last >= first else []
        self._step = await self._stepping.before(number, said=said, text=text, attachments=self._attachments)

    def sections(self) -> list[Section]:
        """Return what artifacts and effects add to the prompt: all of it in the tail, where it does not break
        the prefix that providers cache.
        """
        if self._step is None:
            return []
        places = self._step.places
        found = [*places.before_system, *places.system, *places.after_system]
        found += [*places.before_user, *places.after_user]
        found += [section for _, section in places.at_depth]
        found += [*places.tail, *places.left_out]
        return [replace(section, stability="volatile", joined=False) for section in found]

    async def after(self, reply: str) -> None:
        """Errors: `StepFailed`; Flow."""
        if self._step is not None:
            await self._stepping.after(self._step, reply=reply)


def steps_of(run: Run, job: Job, desk: TenantScope, *, agent_id: str) -> Steps | None:
    """The operations of a run; None if it has no profile."""
    if not job.profile:
        return None
    from artelier.chat.turn.agent_turn_hooks import TURNS, AgentTurnHooks

    stepping = AgentTurnHooks(
        run,
        ref=job.profile,
        chat=job.session or run.id,
        model=job.model,
        principal=f"agent:{agent_id}",
        desk=desk,
        name=agent_id,
        refused=TURNS,
    )
    return Steps(stepping, stored_media(job.attachments))


async def save_if_new(desk: TenantScope, profile: OperationProfile | str | None) -> str:
    """The ref with its version of a profile that an agent was given, as a chat is given one; empty for none.

    Errors: `NotFound`, `InvalidProfile`, `AccessDenied`; `InvalidRequest` for anything else, and for
    one with effects that have no place around steps.
    """
    if profile is None:
        return ""
    from artelier.chat.session.settings import profile_given
    from artelier.chat.turn.agent_turn_hooks import TURNS, check_place

    _, ref = await profile_given(desk, profile, by="operator", check=lambda found: check_place(found, TURNS))
    return ref
