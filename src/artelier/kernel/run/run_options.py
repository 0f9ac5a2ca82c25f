"""The options with which a run is opened, and what opens it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from artelier.kernel.run.context import ResultStore, RunCore
from artelier.kernel.run.results import Limits
from artelier.kernel.run.services import Services, TenantState
from artelier.ports.tool import ToolPort


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """The options with which a caller opens a run. Those for new runs are ignored if the run exists."""

    run_id: str
    on_wait: str = "await"
    replay: str = "strict"
    limits: Limits | None = None
    grants: tuple[str, ...] | None = None
    parent: RunCore | None = None
    parent_step: str | None = None
    ended_parent: str = ""
    """Id of a run that has ended and whose child a new run is all the same: it counts in its limits."""
    scopes: tuple[str, ...] = ()
    """In which it counts what it uses, beside its own, its ancestors' and the tenant's: `agent:<id>`, ..."""
    loop: str = ""
    agent: str = ""
    model: str = ""
    goal: Any = None
    settings: Any = None
    from_snapshot: bool = False
    """A built-in loop resumes from its newest snapshot instead of reading its whole history."""
    read_only: bool = False
    """Only replay: take no lease and record nothing."""
    principal: str = "kernel"
    by: str = ""
    """Who asked for it, as its first event says; empty for the principal."""
    tools: Mapping[str, ToolPort] | None = None
    """Tools of this run; None: those of the kernel."""
    is_detached: bool = False
    """It stays open beyond the code that opens it."""
    subject: str = ""
    """Whom its content is about: what it stores is sealed under a key of its own (see
    `privacy/erasure.py`)."""
    key_id: int | None = None
    """The subject's key that what it goes on from is stored under; a new run shares it."""
    compensating: bool = False
    """What an ended run has done is undone: it takes these steps, and stays what it is."""


class OpenedRun(Protocol):
    """A handle on a run that is open."""

    @property
    def core(self) -> RunCore: ...


class Opener(Protocol):
    """Opens a run: `OpenRun`, for what stands below it."""

    def __call__(
        self,
        services: Services,
        find_tenant: Callable[[], Awaitable[TenantState]],
        opening: Opening,
        store_result: ResultStore | None = None,
        /,
    ) -> AbstractAsyncContextManager[OpenedRun]: ...
