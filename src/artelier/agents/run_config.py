"""The job of one run of the loop: stored with the run, so that any process can go on with it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import Any, Protocol

from artelier.agents.state import STUCK_AFTER
from artelier.chat.session.agent_conversation import NONE_WAITING, AgentTurn, Earlier, WaitingTurns
from artelier.context import CompactionStrategy
from artelier.context.builder import shipped_text
from artelier.errors import CorruptStore
from artelier.kernel import AgentResult, Limits, Run
from artelier.kernel.tenants.scope import TenantRef, TenantScopes
from artelier.ports.model import Delta
from artelier.tokens import estimate_tokens


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
    context: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Settings of the context builder."""
    compaction: Mapping[str, Any] = field(default_factory=dict[str, Any])
    window_tokens: int = 128_000
    max_output_tokens: int = 1_024
    """Of the model when the run began: what a prompt may take is decided by these alone."""
    acceptance: tuple[str, ...] = ()
    """Tools whose last call must have passed before the run may end."""
    stuck_after: int = STUCK_AFTER
    """Equal calls with equal results in a row that end the run; 0 for any number."""
    verbatim_tokens: int = 0
    """Up to which the prompt stands verbatim; 0 as in runs begun before this was said: a quarter of the
    window."""
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
        if self.verbatim_tokens:
            stored["verbatim_tokens"] = self.verbatim_tokens
        if self.is_chat:
            stored["is_chat"] = True
        if self.profile:
            stored |= {"profile": self.profile, "session": self.session}
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
        for name in ("acceptance", "waiting_turns", "news"):
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
