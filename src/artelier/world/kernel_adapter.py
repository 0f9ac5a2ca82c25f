"""The parts of the kernel that a world needs, and the runs in which its agents call models."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Protocol, TypeVar, runtime_checkable

from artelier.artifacts import Interpreter
from artelier.errors import Flow
from artelier.kernel import ModelResult, OpenRun, Prompt, Run
from artelier.kernel.queries.runs import is_imported
from artelier.kernel.queries.steps import step_of
from artelier.kernel.run_limits import count_also, counters_of
from artelier.kernel.tenants.registry import TenantScope
from artelier.log import StreamAppend
from artelier.tokens import Window
from artelier.world.agent import GOES_ON

T = TypeVar("T")


class Host(TenantScope, Protocol):
    """The kernel bound to a tenant, with the sandbox of its code."""

    @property
    def sandbox(self) -> Interpreter: ...


@runtime_checkable
class Unbound(Protocol):
    """A kernel that is bound to a tenant when one is named, or to its default tenant."""

    def for_tenant(self) -> Host: ...


def host_of(kernel: Host | Unbound) -> Host:
    """Return the bound kernel: a tenant's handle as it is, a kernel bound to its default tenant."""
    return kernel.for_tenant() if isinstance(kernel, Unbound) else kernel


def run_id_of(world: str, agent: str) -> str:
    """The run in which an agent of a world asks its models; its steps are named by ticks."""
    # No world has a slash in its id, so two worlds never share a run.
    return f"{world}/{agent}"


def scope_of(world: str) -> str:
    """Return the scope in which the runs of a world's agents count together, once it has a cap."""
    return f"world:{world}"


def continuation_of(run_id: str) -> str:
    """The run in which an agent goes on whose run came out of a file: such a run is a record."""
    return f"{run_id}{GOES_ON}"


async def drivable(host: Host, run_id: str) -> str:
    """The run itself, or the one in which it goes on."""
    while await is_imported(host.services.store, host.id, run_id):
        run_id = continuation_of(run_id)
    return run_id


class Runs:
    """The runs of a world's agents: each is opened when it first asks, and stays open."""

    def __init__(self, host: Host, world: str) -> None:
        self._host = host
        self._world = world
        self._open: dict[str, tuple[OpenRun, Run]] = {}

    async def ask(
        self,
        agent: str,
        prompt: Prompt,
        *,
        key: str,
        model: str,
        aside: Sequence[StreamAppend] = (),
        params: Mapping[str, Any] | None = None,
    ) -> ModelResult:
        """A model step of an agent: asked once, then recorded for ever. `aside` is what the prompt costs.

        Errors: those of `Run.step_model`; a run that cannot go on is closed, and opened anew next time.
        """

        async def ask_model(run: Run) -> ModelResult:
            return await run.step_model(
                model=model, messages=prompt, key=key, aside=aside, **dict(params or {})
            )

        return await self.within(agent, ask_model)

    async def within(self, agent: str, work: Callable[[Run], Awaitable[T]]) -> T:
        """Return what comes of work in the run of an agent; a run that cannot go on is closed."""
        run = await self._run(agent)
        try:
            return await work(run)
        except (Flow, asyncio.CancelledError) as ended:
            await self._drop(agent, ended)
            raise

    @property
    def host(self) -> Host:
        return self._host

    def window_of(self, model: str) -> Window:
        """Return how much a model can read and write."""
        return self._host.services.window_of(model)

    async def has_failed(self, agent: str, key: str) -> bool:
        """Return True if the log has a failure as the end of a model step."""
        run_id = await drivable(self._host, run_id_of(self._world, agent))
        step = await step_of(self._host.services.store, self._host.id, run_id, key)
        return step is not None and step.status == "failed"

    async def _run(self, agent: str) -> Run:
        held = self._open.get(agent)
        if held is None:
            # What was asked before a crash stands, even if the prompt would be another one now.
            opened = self._host.run(
                await drivable(self._host, run_id_of(self._world, agent)),
                replay="allow_prompt_drift",
                on_wait="suspend",
                is_detached=True,
                agent=run_id_of(self._world, agent),
            )
            run = await opened.__aenter__()
            held = self._open[agent] = (opened, run)
            services, scope = self._host.services, scope_of(self._world)
            count_also(run.core, await counters_of(services, self._host.id, [scope]))
        return held[1]

    async def _drop(self, agent: str, error: BaseException) -> None:
        held = self._open.pop(agent, None)
        if held is None:
            return
        with suppress(Exception, Flow, asyncio.CancelledError):  # it says again what is raised already
            await held[0].__aexit__(type(error), error, error.__traceback__)

    async def close(self) -> None:
        """Leave the runs resumable: an agent's run ends only with its world."""
        for agent in tuple(self._open):
            await self._drop(agent, asyncio.CancelledError())
