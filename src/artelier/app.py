"""The public `Kernel`: wires every package and holds no logic of its own.

Read next: `kernel/run/handle.py` for what a run can do, `docs/architecture.md` for where everything is.
Long because both public handles, `Kernel` and that of a tenant, have their documentation here.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterable, Mapping
from contextlib import aclosing, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from artelier.agents.agent_directory import AgentsHandle
from artelier.agents.artifact_tools import keep_result
from artelier.agents.card import adopt
from artelier.agents.schedules.view import schedules_view
from artelier.artifacts import MOVING as ARTIFACT_MOVING
from artelier.artifacts import Artifact, Artifacts, Space, artifacts_view
from artelier.chat.session.commands import ChatsHandle, CommandsHandle
from artelier.chat.view import operations_view
from artelier.clock import Clock, SystemClock
from artelier.errors import InvalidRequest, StoreClosed, StoreUnavailable
from artelier.ids import DEFAULT_TENANT, MAIN_SPACE, OPERATOR, VERSION, check_run_id
from artelier.kernel import (
    CAPPING,
    COUNTING,
    MOVING,
    AgentResult,
    Drive,
    Limits,
    Manifest,
    ModelResult,
    Opening,
    OpenRun,
    Policy,
    Renderer,
    Replayed,
    Run,
    RunCore,
    Services,
    Tenant,
    Tenants,
    TenantState,
    ToolResult,
    Transferred,
    check_grants,
    compare,
    export_run,
    find_driver,
    fork,
    import_run,
    kernel_view,
    rates_view,
    read_header,
    run_row,
)
from artelier.kernel import replay as replay_run
from artelier.kernel.erasure import Erasure, Preview, collect, erase, writing_key
from artelier.kernel.export.archive import SIZE_BYTES_MAX
from artelier.kernel.pii_scrubber import RESTORE
from artelier.kernel.policy import ANY_FOLDER, Workspaces, is_granted
from artelier.kernel.prompt.provider_cache import CacheForecast, cache_forecast
from artelier.kernel.queries import reports
from artelier.kernel.queries.content import content as read_content
from artelier.kernel.queries.tenants import patterns_of
from artelier.kernel.rates import Quotas
from artelier.kernel.run.detached_runs import DetachedRuns
from artelier.kernel.tenants.view import erasure_view, personal_view
from artelier.kernel.tool_calls.dispatches import Dispatches
from artelier.ledger import MoneyTransferred, ledger_view
from artelier.log import Collected, Event, FaultHook, Report, SqliteStore, Store, View, run_stream
from artelier.memory.store import LogMemoryStore
from artelier.memory.view import memory_view
from artelier.missions.handle import MissionsHandle, check_fork
from artelier.missions.view import missions_view
from artelier.models.registry import ModelRegistry
from artelier.pii.vault import check_sealing, sealer_from
from artelier.plugins import Plugins, activate
from artelier.ports.model import ModelPort, ModelRequest, Price
from artelier.ports.model_params import check_params
from artelier.ports.telemetry import Telemetry
from artelier.ports.tool import ToolPort
from artelier.ports.webhook import OutgoingWebhook
from artelier.process import has_ended, holder, is_dead, is_own, process_numbers, retire, uptime_us
from artelier.sandbox import MontySandbox
from artelier.tokens import ModelPrices, PartialWindow, Window, Windows
from artelier.tools.function import TOOL_POINT
from artelier.tools.skills.view import skills_view
from artelier.webhooks.delivery import register as register_deliveries
from artelier.world.events import MOVING as WORLD_MOVING
from artelier.world.view import world_view

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider

    from artelier.kernel.history.comparison import RunComparison
    from artelier.kernel.steps.stream_reader import ModelStream
    from artelier.missions.task.task_handle import Tasks

    Providers = tuple[TracerProvider, MeterProvider]

VIEWS: tuple[View, ...] = (
    ledger_view([*MOVING, *ARTIFACT_MOVING, *WORLD_MOVING, MoneyTransferred], CAPPING, COUNTING),
    kernel_view, personal_view, schedules_view, rates_view, artifacts_view, skills_view, memory_view,
    operations_view, missions_view, world_view, erasure_view,
)  # fmt: skip
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
        self._controls_seen = 0
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

        `path`: a path, `sqlite:///...` or `:memory:`. `models`: names or prefixes to ports, laid over the
        built-in ones. `prices` and `windows` override the tables, by model name. `telemetry`: True for
        spans and metrics by the process's own OpenTelemetry providers, others to use those instead.
        `workspaces`: the folders that shipped tools of each tenant may use; any, if nothing is said.
        `quotas`: how much of a server a tenant may take. `plugins`: distributions whose entry points may act
        here; one that cannot be used is left out with a `PluginWarning`. `params`: those of the model calls
        of new runs, such as `{"temperature": 0.2}`; a call's own stand over them. `webhooks`: for events.
        Errors: `CorruptStore`, `NewerSchema`, `StoreUnavailable`, and `InvalidConfig` for a policy with
        personal data and no ARTELIER_VAULT_KEY; nothing is changed by a refusal.
        """
        clock = clock or SystemClock()
        allowed = plugins if isinstance(plugins, Plugins) else Plugins(plugins)
        registry = ModelRegistry(models, environ=os.environ if environ is None else environ, plugins=allowed)
        table = _with_plugins(_by_name(tools), allowed)
        price_table, window_table = ModelPrices(prices, clock=clock), Windows(windows)
        watcher = _watcher(telemetry, environ)
        policy = policy or Policy.local()
        sealer = sealer_from(os.environ if environ is None else environ)
        if policy.pii:
            check_sealing(sealer)
        store = SqliteStore(_file_of(path), VIEWS, fault=fault, sealer=sealer)
        name = holder()
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
        self, *, run_id: str, tenant: Tenant | str | None = None, on_delta: Callable[[str], None],
        **call: Any,
    ) -> ModelResult:  # fmt: skip
        """Like `step_model`; `on_delta` is called with each piece of the text as it comes.

        What is recorded comes as one piece. Whoever cancels this leaves the stream: the step is cut off.
        """

        return await self._detached_step(
            run_id, tenant, lambda run: read_stream(run.stream_model(**call), on_delta), key=call.get("key")
        )

    async def step_tool(
        self, name: str, arguments: object = None, *, run_id: str,
        tenant: Tenant | str | None = None, **call: Any,
    ) -> ToolResult:  # fmt: skip
        """One tool step of a run that stays open until the kernel is closed; see `step_model`."""
        return await self._detached_step(
            run_id, tenant, lambda run: run.step_tool(name, arguments, **call), key=call.get("key")
        )

    async def _detached_step(
        self, run_id: str, tenant: Tenant | str | None, work: Callable[[Run], Awaitable[T]],
        *, key: str | None,
    ) -> T:  # fmt: skip
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


class TenantKernel(AgentsHandle, ChatsHandle, MissionsHandle, CommandsHandle):
    """The kernel as one tenant sees it: nothing of another tenant is there."""

    def __init__(self, kernel: Kernel, tenant: Tenant | str | None) -> None:
        self._kernel = kernel
        self._services = kernel.services
        self._tenant = tenant

    @property
    def id(self) -> str:
        if isinstance(self._tenant, Tenant):
            return self._tenant.id
        return self._tenant or DEFAULT_TENANT

    @property
    def services(self) -> Services:
        """The kernel's services, for the packages that build on it."""
        return self._services

    @property
    def keys(self) -> Store:
        """The store that keeps the keys of imported content."""
        return self._kernel.store

    async def state(self) -> TenantState:
        """Return the stored tenant, created on first use. See `Tenant`."""
        return await self._kernel.tenants.open(self._tenant)

    def run(
        self,
        run_id: str,
        *,
        on_wait: str = "await",
        replay: str = "strict",
        limits: Limits | None = None,
        grants: Iterable[str] | None = None,
        parent: Run | None = None,
        **more: Any,
    ) -> OpenRun:
        """See `Kernel.run`. Errors at the door: `InvalidRequest`."""
        if on_wait not in ("await", "suspend"):
            raise InvalidRequest("on_wait", expected="'await' or 'suspend'", got=repr(on_wait))
        if replay not in ("strict", "allow_prompt_drift", "fork_on_drift"):
            policies = "'strict', 'allow_prompt_drift' or 'fork_on_drift'"
            raise InvalidRequest("replay policy", expected=policies, got=repr(replay))
        opening = Opening(
            run_id=check_run_id(run_id), on_wait=on_wait, replay=replay, limits=limits,
            grants=None if grants is None else check_grants(grants),
            parent=parent.core if parent is not None else None, **more,
        )  # fmt: skip
        self._kernel.keep_alive()
        return OpenRun(self._services, self.state, opening, self._store_result)

    async def _store_result(self, core: RunCore, key: str, content: bytes) -> str:
        """A large tool result as an artifact of the run, in the batch of its event."""
        return await keep_result(self._artifacts(f"run:{core.run_id}"), core, key, content)

    # Artifacts

    @property
    def sandbox(self) -> MontySandbox:
        """Runs contracts and executable artifacts."""
        return self._kernel.sandbox

    @property
    def memory(self) -> LogMemoryStore:
        """The memories of agents in this store: `runs.memory.for_agent(runs.id, agent_id)`."""
        return self._kernel.memory

    def _artifacts(self, principal: str) -> Artifacts:
        from artelier.missions.membranes import HeldStage

        return Artifacts(
            self._services.store, self._services.clock, self.id, MAIN_SPACE, principal,
            interpreter=self._kernel.sandbox, stages=HeldStage,
            key_of_run=partial(writing_key, self._services.store, self.id),
        )  # fmt: skip

    def as_principal(self, principal: str, *, world: str | None = None) -> Space:
        """Return what one principal of this tenant can do with artifacts and money."""
        from artelier.operations.lore import register_writing
        from artelier.operations.profile.profile_reader import register_profiles
        from artelier.world.mind_artifacts import register_minds  # templates and conditions, on first use

        register_minds()
        register_profiles()
        register_writing()
        if world is not None:
            from artelier.world.world import space_of

            return space_of(self, self._kernel.store.look, world, principal)
        return Space(
            self._services.store, self._services.clock, self.id, MAIN_SPACE, principal,
            self._artifacts(principal),
        )  # fmt: skip

    # Runs

    async def runs(self, *, status: str | None = None, after: int = 0, limit: int = 100) -> reports.RunList:
        return await reports.list_runs(self._services, self.id, status=status, after=after, limit=limit)

    async def show(self, run_id: str) -> reports.RunDetail:
        return await reports.show_run(self._services, self.id, run_id)

    async def steps(self, run_id: str) -> list[reports.StepReport]:
        return await reports.steps(self._services, self.id, run_id)

    async def tree(self, run_id: str) -> reports.RunFamily:
        return await reports.tree(self._services, self.id, run_id)

    async def cost(self, run_id: str) -> reports.RunCost:
        return await reports.cost(self._services, self.id, run_id)

    async def approvals(self, run_id: str | None = None) -> list[reports.OpenQuestion]:
        return await reports.approvals(self._services, self.id, run_id=run_id)

    async def manifest(self, run_id: str, key: str) -> Manifest:
        """Return what a prompt was made of. Errors: `NotFound`."""
        renderer = await Renderer.open(self._services, self.id, run_id, forgiving=True)
        return await renderer.manifest(key)

    async def cache_forecast(self, run_id: str, key: str) -> CacheForecast | None:
        """Return what a model step reads and writes in its provider's prompt cache; None if nobody knows.

        Errors: `NotFound`.
        """
        return await cache_forecast(self._services, self.id, run_id, key)

    async def render(self, run_id: str, key: str) -> ModelRequest:
        """The exact request of a model step. Errors: `NotFound`, `CorruptStore`, `Erased`."""
        return await (await Renderer.open(self._services, self.id, run_id)).render(key)

    async def shown(self, run_id: str, key: str) -> tuple[ModelRequest, tuple[str, ...]]:
        """The request of a model step to look at, with `[erased]` for what was erased, and what that was.

        Errors: `NotFound`, `CorruptStore`.
        """
        renderer = await Renderer.open(self._services, self.id, run_id, forgiving=True)
        return await renderer.render(key), tuple(dict.fromkeys(renderer.erased))

    async def content(self, ref: str) -> Any:
        """Return stored content that an event names by its reference (`b:...`): JSON as data, else text or
        bytes.

        Errors: `InvalidRequest` for what is no reference, such as the ref of an artifact; `NotFound`, also
        for content of another tenant; `Erased`.
        """
        return await read_content(self._services, self.id, ref)

    async def erase(
        self, *, subject: str | None = None, by: str = "operator", dry: bool = False,
        preview: Preview | None = None,
    ) -> Erasure:  # fmt: skip
        """Erase what the tenant has stored, or what was stored of a subject: the `subject` of runs, or a
        value that the vault knows, in whatever spelling. With `dry`, only say how much that is; with
        `preview`, erase only what that has shown.

        Errors: `NotFound`; `Conflict` if something else would go than was shown; `LeaseHeld` while a run
        of it is driven; `StoreLocked`: see `kernel.erasure`.
        """
        store = self._kernel.store
        return await erase(self._services, store, self.id, subject=subject, by=by, dry=dry, preview=preview)

    async def restored(self, value: T) -> T:
        """JSON data (a result, a text) with the values that its placeholders stand for, to show a person.

        As it is, if the tenant has no grant `pii:restore`; `[erased]` for what was erased.
        """
        personal = self._services.personal
        if personal is None or not is_granted((await self.state()).grants, RESTORE):
            return value
        return personal(self.id).restore(value)

    # Time travel

    async def fork(
        self,
        run_id: str,
        *,
        at: int | None = None,
        with_: Mapping[str, Any] | None = None,
        new_id: str | None = None,
        effects: str = "recorded",
        by: str = "operator",
    ) -> str:
        """A new run that shares this one's history up to the event `at`; its id. Opening it drives it.

        `at` is a seq of the run's own stream. Without one, the fork begins just before the first step that
        used a ref which `with_` replaces, or that a completed run would take otherwise; else after the newest
        event. `with_` says what differs: `model` replaces the model of every new step, `steering` what the
        run's agent goes by; other names are refs. All are kept in `run.core.changes`.
        Without `new_id` it is called `<run>.fork-<n>`.
        `effects` holds for the fork and all runs below it: under `recorded` a side-effecting call that equals
        a recorded one (tool and arguments, each used once) returns its result and any other waits for a
        person's approval; under `stub` the call is an error that a model can read; under `live` it is made.
        Errors: `NotFound`, also for changes that no step of a completed origin, or none after `at`, would be
        another with, and for `steering` of a run that goes by none; `InvalidRequest`;
        `UnknownModel`; `Conflict` if a run has this id.
        """
        await check_fork(self, run_id, at=at, changes=with_)
        return await fork(
            self._services, await self.state(), run_id, at=at, changes=with_, new_id=new_id,
            effects=effects, by=by,
        )  # fmt: skip

    async def adopt(self, ref: str, *, to: str | None = None, principal: str = OPERATOR) -> Artifact:
        """Bring home an artifact that a fork has written: the newest version of `to`, else of what the fork's
        origin would have called it. Errors: see `agents.adoption.adopt`.
        """
        return await adopt(self._services, self.id, self._artifacts(principal), ref, to=to)

    async def diff(self, run_a: str, run_b: str) -> RunComparison:
        """Return what two runs share, and the first step at which they part.

        `{run_a, run_b, shared: {events, upto}, equal_steps, first_divergence, a, b}`. `shared` is what
        both have by reference; `equal_steps` counts those found equal after it. `first_divergence` is
        None or `{key, kind, what, section, a, b, at_a, at_b}`, where `what` is `missing`, `kind`, `model`,
        `tool`, `request` (with its `section`), `arguments`, `outcome`, `reply`, `result`, or, with the key
        None, the run's `status` or `reason`. `a` and `b` at the top hold status, steps, usage and cost.
        Errors: `NotFound`.
        """
        return await compare(self._services, self.id, run_a, run_b)

    async def replay(self, run_id: str, drive: Drive, *, replay: str = "strict") -> Replayed:
        """Run a run's code again over its record: `{run_id, status, reason, result, steps_replayed, ...}`.

        `drive` is the hand-written run function, or the drive of a built-in loop. No lease is taken,
        nothing is recorded, and models, tools and people are not there.
        Errors: `RunEnded` for a step that is not recorded; `ReplayMismatch` if the code asks for something
        else, asks for less, or comes to another end; the code's own failure if the run had none like it.
        """
        await run_row(self._services.store, self.id, run_id)
        return await replay_run(self._services, await self.state(), run_id, drive, policy=replay)

    async def export(self, run_id: str, path: str | Path) -> Transferred:
        """Write a run into one verifiable file, with its children, its artifacts, the origins of its forks
        and all content; the file is complete or not there, and only its owner may read it.

        Errors: `NotFound`; `CorruptStore` if what the run needs is damaged or was erased; `InvalidExport`
        if it holds what no import would take; `StoreUnavailable` if the file cannot be written.
        """
        return await export_run(self._services, self.id, run_id, path)

    async def import_(
        self, path: str | Path, *, size_max_bytes: int = SIZE_BYTES_MAX, by: str = "operator"
    ) -> Transferred:
        """Take the runs of an export into this tenant, hash for hash; they can be read, replayed, compared
        and forked here, and are driven no more.

        Units:  `size_max_bytes` bounds the unpacked size.
        Errors: `InvalidExport` that names what is wrong; `Conflict` if a run or artifact of that name is
        here; `NotFound`. Nothing is imported by a refusal.
        """
        await self.state()
        return await import_run(
            self._services, self._kernel.store, self.id, path, size_max_bytes=size_max_bytes, by=by
        )

    def keep_alive(self) -> None:
        """Renew the leases of the kernel's runs as long as some are at work in the current loop."""
        self._kernel.keep_alive()


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


def _file_of(path: str | Path) -> str:
    text = str(path)
    if text.startswith("sqlite:///"):
        return text.removeprefix("sqlite:///")
    if "://" in text:
        raise InvalidRequest(
            "this version opens SQLite files",
            expected="a path or sqlite:///path",
            got=text.partition("://")[0] + "://...",
        )
    return text
