"""The public `Kernel`: wires every package and holds no logic of its own.

Read next: `kernel/run/handle.py` for what a run can do, `docs/architecture.md` for where everything is.
The handle of one tenant is `TenantKernel`, in `tenant_kernel.py`.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterable, Mapping
from contextlib import aclosing, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from artelier.agents.schedules.view import schedules_view
from artelier.artifacts import MOVING as ARTIFACT_MOVING
from artelier.artifacts import artifacts_view
from artelier.chat.view import operations_view
from artelier.clock import Clock, SystemClock
from artelier.errors import InvalidRequest, StoreClosed, StoreUnavailable
from artelier.ids import VERSION
from artelier.kernel import (
    CAPPING,
    COUNTING,
    MOVING,
    AgentResult,
    Drive,
    ModelResult,
    OpenRun,
    Policy,
    Replayed,
    Run,
    Services,
    Tenant,
    Tenants,
    ToolResult,
    find_driver,
    kernel_view,
    rates_view,
    read_header,
)
from artelier.kernel.erasure import Rotated, collect, rotate_keys
from artelier.kernel.policy import ANY_FOLDER, Workspaces
from artelier.kernel.queries.tenants import patterns_of
from artelier.kernel.rates import Quotas
from artelier.kernel.run.detached_runs import DetachedRuns
from artelier.kernel.tenants.view import erasure_view, personal_view
from artelier.kernel.tool_calls.dispatches import Dispatches
from artelier.ledger import MoneyTransferred, ledger_view
from artelier.log import Collected, Event, FaultHook, Report, Store, View, run_stream
from artelier.log.places import open_store
from artelier.memory.store import LogMemoryStore
from artelier.memory.view import memory_view
from artelier.missions.view import missions_view
from artelier.models.registry import ModelRegistry
from artelier.pii.vault import check_sealing, sealer_from
from artelier.plugins import Plugins, activate
from artelier.ports.model import ModelPort, Price
from artelier.ports.model_params import check_params
from artelier.ports.telemetry import Telemetry
from artelier.ports.tool import ToolPort
from artelier.ports.webhook import OutgoingWebhook
from artelier.process import has_ended, holder, is_dead, is_own, process_numbers, retire, uptime_us
from artelier.sandbox import MontySandbox
from artelier.tenant_kernel import TenantKernel
from artelier.tokens import ModelPrices, PartialWindow, Window, Windows
from artelier.tools.function import TOOL_POINT
from artelier.tools.skills.view import skills_view
from artelier.webhooks.delivery import register as register_deliveries
from artelier.world.events import MOVING as WORLD_MOVING
from artelier.world.view import world_view

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider

    from artelier.kernel.steps.stream_reader import ModelStream
    from artelier.missions.task.task_handle import Tasks

    Providers = tuple[TracerProvider, MeterProvider]

VIEWS: tuple[View, ...] = (
    ledger_view([*MOVING, *ARTIFACT_MOVING, *WORLD_MOVING, MoneyTransferred], CAPPING, COUNTING),
    kernel_view,
    personal_view,
    schedules_view,
    rates_view,
    artifacts_view,
    skills_view,
    memory_view,
    operations_view,
    missions_view,
    world_view,
    erasure_view,
)
"""Every shipped view, in the order in which they see an event."""

DISPATCHES = Dispatches(is_own=is_own, has_ended=has_ended)
"""Side effects at work in this process: a kernel that is closed may have left a thread behind."""

RENEW_S = 10.0
"""Seconds between signs of life of the runs of this process; a third of a lease."""


T = TypeVar("T")


class Kernel:
    """One store and everything that runs on it. `Kernel.open` makes one."""

    def __init__(self, store: Store, services: Services, registry: ModelRegistry) -> None:
        register_deliveries()
        self._store = store
        self._services = services
        self.models = registry
        self.tenants = Tenants(services)
        self.memory = LogMemoryStore(store, services.clock)
        """The memories of agents in this store: `kernel.memory.for_agent(tenant, agent_id)`."""
        self.sandbox = MontySandbox()
        """Runs contracts and executable artifacts; its workers start with the first of them."""
        self._detached = DetachedRuns()
        self._renewing: dict[asyncio.AbstractEventLoop, asyncio.Task[None]] = {}
        """In each loop that drives runs: one may end while runs of another are at work."""
        self._unlisten = store.listen(self._on_commit)
        self._loops: set[asyncio.AbstractEventLoop] = set()
        self._runner: asyncio.Runner | None = None
        """The event loop of `run_sync`, once it was used."""

    @classmethod
    def open(
        cls,
        path: str | Path = "./.artelier/state.db",
        *,
        models: Mapping[str, ModelPort] | ModelPort | None = None,
        tools: Iterable[ToolPort] = (),
        policy: Policy | None = None,
        params: Mapping[str, Any] | None = None,
        prices: Mapping[str, Price] | None = None,
        windows: Mapping[str, Window | PartialWindow] | None = None,
        clock: Clock | None = None,
        environ: Mapping[str, str] | None = None,
        fault: FaultHook | None = None,
        telemetry: Telemetry | TracerProvider | Providers | bool | None = None,
        workspaces: Workspaces | None = None,
        quotas: Quotas | None = None,
        plugins: Iterable[str] | Plugins = (),
        webhooks: Iterable[OutgoingWebhook] = (),
    ) -> Kernel:
        """Open a store, creating and migrating it.

        `path`: a path, `sqlite:///...`, `:memory:` or `postgresql://...`. `models`: ports by name, over the
        built-in ones. `prices` and `windows` override the tables, by model name. `telemetry`: True for
        spans and metrics by the process's own OpenTelemetry providers, others to use those instead.
        `workspaces`: the folders that shipped tools of each tenant may use; any, if nothing is said.
        `quotas`: how much of a server a tenant may take. `plugins`: distributions whose entry points may act
        here; one that cannot be used is left out with a `PluginWarning`. `params`: those of the model calls
        of new runs, such as `{"temperature": 0.2}`; a call's own stand over them. `webhooks`: for events.
        Errors: `CorruptStore`, `NewerSchema`, `StoreUnavailable`, and `InvalidConfig` for a policy with
        personal data and no ARTELIER_VAULT_KEY; nothing is changed by a refusal.
        """
        allowed = plugins if isinstance(plugins, Plugins) else Plugins(plugins)
        registry = ModelRegistry(models, environ=os.environ if environ is None else environ, plugins=allowed)
        table = _with_plugins(_by_name(tools), allowed)
        price_table, window_table = ModelPrices(prices, clock=clock or SystemClock()), Windows(windows)
        watcher = _watcher(telemetry, environ)
        policy = policy or Policy.local()
        sealer = sealer_from(os.environ if environ is None else environ)
        if policy.pii:
            check_sealing(sealer)
        store = open_store(path, VIEWS, fault=fault, sealer=sealer)
        name, clock = holder(), clock or store.clock or SystemClock()
        services = Services(
            store=store,
            clock=clock,
            holder=name,
            process=process_numbers(name),
            dispatches=DISPATCHES,
            is_dead=is_dead,
            uptime_us=(lambda _: None) if getattr(clock, "is_virtual", False) else uptime_us,
            resolve=registry.resolve,
            tools=table,
            price_of=price_table.price_of,
            window_of=window_table.of,
            policy=policy,
            params=check_params(params or {}),
            code_version=VERSION,
            fault=fault,
            telemetry=watcher,
            workspaces=workspaces or ANY_FOLDER,
            quotas=quotas or Quotas(),
            plugins=allowed,
            webhooks=tuple(webhooks),
        )
        if policy.pii:
            from artelier.pii.scrubber_registry import PersonalData  # its detectors take 60 ms to compile

            services.personal = PersonalData(store, policy.looked_for(), partial(patterns_of, store))
        return cls(store, services, registry)

    # The handle

    def add_tool(self, tool: ToolPort) -> None:
        """Offer one more tool to runs from now on. Errors: `InvalidRequest` for the name of another."""
        self._services.tools = _by_name([*self._services.tools.values(), tool])

    @property
    def services(self) -> Services:
        """The kernel's services, for the packages that build on it."""
        return self._services

    @property
    def store(self) -> Store:
        return self._store

    def for_tenant(self, tenant: Tenant | str | None = None) -> TenantKernel:
        """The kernel bound to one tenant."""
        return TenantKernel(self, tenant)

    def run(self, run_id: str, *, tenant: Tenant | str | None = None, **opening: Any) -> OpenRun:
        """`async with kernel.run(id) as run:` starts a run, or resumes it where it stopped.

        `on_wait="suspend"` raises `RunSuspended` instead of waiting in process; `replay` is `strict`,
        `allow_prompt_drift` or `fork_on_drift`; `limits` caps the run; `grants` narrows the tenant's.
        `params`: those of its model calls and its children's, such as `{"temperature": 0.2}`; they are
        recorded with the run, and a call's own stand over them.
        """
        return self.for_tenant(tenant).run(run_id, **opening)

    @property
    def tasks(self) -> Tasks:
        """The tasks of the default tenant; of another: `kernel.for_tenant(tenant).tasks`."""
        return self.for_tenant().tasks

    def run_sync(self, work: Coroutine[Any, Any, T]) -> T:
        """Return what a coroutine over this kernel returns, for scripts that have no event loop.

        `kernel.run_sync(agent.run(...))`. All of a kernel's calls share one loop, which `close` ends.
        Errors: its own; `InvalidRequest` where a loop is running.
        """
        if _is_in_loop():
            work.close()
            raise InvalidRequest(
                "run_sync is for code without an event loop", hint="Await what you have given it."
            )
        if self._runner is None:
            self._runner = asyncio.Runner()
        return self._runner.run(work)

    async def run_agent(
        self, agent_id: str, *, tenant: Tenant | str | None = None, on_wait: str = "await"
    ) -> list[AgentResult]:
        """See `TenantKernel.run_agent`."""
        return await self.for_tenant(tenant).run_agent(agent_id, on_wait=on_wait)

    async def step_model(
        self, *, run_id: str, tenant: Tenant | str | None = None, **call: Any
    ) -> ModelResult:
        """One model step of a run that stays open until the kernel is closed.

        Calls without a key queue in the order in which they are made. A key that is done gives what is
        recorded, in this process as in another. What is returned is durable.
        """
        return await self._detached_step(
            run_id, tenant, lambda run: run.step_model(**call), key=call.get("key")
        )

    async def stream_model(
        self, *, run_id: str, tenant: Tenant | str | None = None, on_delta: Callable[[str], None], **call: Any
    ) -> ModelResult:
        """Like `step_model`; `on_delta` is called with each piece of the text as it comes.

        What is recorded comes as one piece. Whoever cancels this leaves the stream: the step is cut off.
        """

        return await self._detached_step(
            run_id, tenant, lambda run: read_stream(run.stream_model(**call), on_delta), key=call.get("key")
        )

    async def step_tool(
        self,
        name: str,
        arguments: object = None,
        *,
        run_id: str,
        tenant: Tenant | str | None = None,
        **call: Any,
    ) -> ToolResult:
        """One tool step of a run that stays open until the kernel is closed; see `step_model`."""
        return await self._detached_step(
            run_id, tenant, lambda run: run.step_tool(name, arguments, **call), key=call.get("key")
        )

    async def _detached_step(
        self,
        run_id: str,
        tenant: Tenant | str | None,
        work: Callable[[Run], Awaitable[T]],
        *,
        key: str | None,
    ) -> T:
        state = await self.tenants.open(tenant)
        return await self._detached.step(
            (state.id, run_id),
            lambda: self.run(run_id, tenant=tenant, is_detached=True),
            lambda: find_driver(self._services, state.id, run_id),
            work,
            key=key,
        )

    async def signal(
        self, run_id: str, name: str, data: object = None, *, tenant: Tenant | str | None = None
    ) -> None:
        """Hand data to the next `wait_for(name)` of a run."""
        await self.for_tenant(tenant).signal(run_id, name, data)

    @classmethod
    async def replay_file(cls, path: str | Path, drive: Drive, *, policy: Policy | None = None) -> Replayed:
        """Replay an exported run in a store of its own that is gone afterwards: no key, no network.

        Errors: those of `TenantKernel.import_` and `TenantKernel.replay`.
        """
        header = await asyncio.to_thread(read_header, path)
        with cls.open(":memory:", environ={}, policy=policy) as kernel:
            runs = kernel.for_tenant(header.tenant)
            return await runs.replay((await runs.import_(path)).run_id, drive)

    # The log

    async def events(self, *, after: int = 0, follow: bool = False) -> AsyncGenerator[Event]:
        """Durable events of all tenants by position; with `follow`, new ones as they are committed."""
        changed, loop = asyncio.Event(), asyncio.get_running_loop()

        def on_commit(position: int, abroad: bool) -> None:
            loop.call_soon_threadsafe(changed.set)

        undo = self._store.listen(on_commit)
        try:
            while True:
                changed.clear()
                events = await self._store.read_all(after=after)
                for event in events:
                    after = event.position
                    yield event
                if not events and not follow:
                    return
                if not events:
                    await changed.wait()
        finally:
            undo()

    async def collect(self, *, dry: bool = False) -> Collected:
        """Remove stored content that nothing refers to; with `dry`, only look. Errors: `MissingKey`."""
        return await collect(self._services, self._store, dry=dry)

    async def rotate_keys(self, key: str) -> Rotated:
        """Wrap every data key by another vault key, in the form of ARTELIER_VAULT_KEY.

        What is stored stays as it is; open it with the new key from then on. Cost: O(keys).
        Errors: `InvalidConfig` for a key that is too short; `InvalidRequest` if it is the one of now;
        `LeaseHeld` while another process drives runs; `MissingKey` without the vault key of now.
        """
        return await rotate_keys(self._services, self._store, key)

    async def head(self) -> str:
        """The newest commit root, hex: keep it elsewhere, and `verify(head=...)` finds truncation."""
        return (await self._store.root())[1].hex()

    def verify(self, *, head: str | None = None) -> Report:
        """Check every chain, commit, blob and view of this store."""
        return self._store.verify(head=head)

    # Housekeeping

    def _on_commit(self, position: int, abroad: bool) -> None:
        """Notify the loops of commands and tenant changes by other processes. Runs on the writer's thread."""
        if not abroad:
            return
        for loop in tuple(self._loops):
            try:
                loop.call_soon_threadsafe(self._look_at_controls)
            except RuntimeError:
                self._loops.discard(loop)

    def _look_at_controls(self) -> None:
        self.tenants.forget_idle()
        for tenant, run_id in tuple(self._services.active):
            self._services.nudge(tenant, run_id)

    def keep_alive(self) -> None:
        """Renew the leases of this kernel as long as runs are at work in the current loop."""
        loop = asyncio.get_running_loop()
        self._loops.add(loop)
        task = self._renewing.get(loop)
        if task is None or task.done():
            for ended in [known for known in tuple(self._renewing) if known.is_closed()]:
                self._renewing.pop(ended, None)
            self._renewing[loop] = loop.create_task(self._renew())

    async def _renew(self) -> None:
        idle = 0
        while idle < 2:
            await asyncio.sleep(RENEW_S)
            idle = 0 if self._services.active else idle + 1
            # Only of what is driven: a lease that could not be given back must end by itself.
            driven = [run_stream(tenant, run_id) for tenant, run_id in self._services.active]
            if not driven:
                continue
            until = self._services.lease_end(3 * int(RENEW_S * 1_000_000))
            try:
                await self._store.renew(self._services.holder, until=until, streams=driven)
            except StoreClosed:
                return
            except StoreUnavailable:
                continue  # locked or full for now: a lease outlives two missed signs of life

    async def aclose(self) -> None:
        """Leave detached runs resumable, then close."""
        await self._let_go()
        self.close()

    async def _let_go(self) -> None:
        """End what belongs to an event loop."""
        await self._detached.aclose()
        await self.models.aclose()
        await self.sandbox.close()

    def close(self) -> None:
        """Commit what is queued and close the store."""
        runner, self._runner = self._runner, None
        if runner is not None and not _is_in_loop():
            with runner:
                runner.run(self._let_go())
        self._unlisten()
        for loop, task in tuple(self._renewing.items()):
            if not task.done():
                with suppress(RuntimeError):  # the loop was closed
                    loop.call_soon_threadsafe(task.cancel)
        for core in tuple(self._services.active.values()):  # those that are left open
            if core.actor is not None:
                core.actor.hand_over()
            if (telemetry := self._services.telemetry) is not None:
                telemetry.run_closed(core, status=core.status)
        self.sandbox.shut()
        self._store.close(holder=self._services.holder)
        retire(self._services.holder)

    def __enter__(self) -> Kernel:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _is_in_loop() -> bool:
    """Return True where an event loop is running in this thread."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


async def read_stream(stream: ModelStream, on_delta: Callable[[str], None]) -> ModelResult:
    """Return the result of a stream that is read to its end."""
    async with aclosing(stream) as items:
        async for item in items:
            if isinstance(item, ModelResult):
                return item
            on_delta(item.text)
    raise AssertionError("a stream ends with its result")


def _by_name(tools: Iterable[ToolPort]) -> dict[str, ToolPort]:
    table: dict[str, ToolPort] = {}
    for tool in tools:
        if tool.name in table:
            raise InvalidRequest("two tools have one name", got=tool.name)
        table[tool.name] = tool
    return table


def _watcher(
    telemetry: Telemetry | TracerProvider | Providers | bool | None, environ: Mapping[str, str] | None
) -> Telemetry | None:
    """Return what spans and metrics go to; OpenTelemetry is loaded only where somebody asks for it."""
    if telemetry is None:
        return None
    from artelier.telemetry.export import telemetry_of

    return telemetry_of(telemetry, environ=os.environ if environ is None else environ)


def _with_plugins(table: dict[str, ToolPort], plugins: Plugins) -> dict[str, ToolPort]:
    """Return the tools with those of plugins, and let profiles and embedders be read that name one."""
    activate(plugins.allow)  # no kernel stands behind these
    plugins.report_missing()
    return {**table, **plugins.load_all(TOOL_POINT, besides=table)}
