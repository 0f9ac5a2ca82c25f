"""One call of an agent, and what it needs of a kernel."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol

from artelier.agents.conversation.waiting_turns import NONE_WAITING, WaitingTurns
from artelier.agents.run_config import Earlier
from artelier.kernel import AgentResult, Limits, OpenRun, Run, TenantState
from artelier.kernel.run.services import Services
from artelier.log import EventData
from artelier.ports.model import Delta

Sink = Callable[[Delta], Awaitable[None]]
"""Takes the pieces of replies as they come."""


class TenantRuns(Protocol):
    """The kernel bound to one tenant, as this package needs it."""

    @property
    def id(self) -> str: ...

    @property
    def services(self) -> Services: ...

    def run(self, run_id: str, **opening: Any) -> OpenRun: ...

    async def state(self) -> TenantState: ...

    async def resume(
        self,
        run_id: str,
        *,
        note: str = "",
        limits: Limits | None = None,
        max_iterations: int | None = None,
        stuck_after: int | None = None,
        by: str = "operator",
    ) -> EventData: ...


class Kernels(Protocol):
    """Something that gives kernels bound to a tenant."""

    def for_tenant(self, tenant: Any = None) -> TenantRuns: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """One call of `run`, `stream` or a chat's `send`."""

    run_id: str
    model: str
    prompt: str
    tenant: Any = None
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


class Starter(Protocol):
    """An agent whose runs somebody else words: a conversation, or whoever follows one as it happens."""

    @property
    def agent_id(self) -> str: ...

    @property
    def kernel(self) -> Kernels: ...

    async def start(self, wanted: Wanted, *, sink: Sink | None = None) -> AgentResult: ...

    @property
    def resume(self) -> Callable[..., Awaitable[AgentResult]]: ...
