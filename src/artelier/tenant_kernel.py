"""The kernel as one tenant sees it: `Kernel.for_tenant` makes one.

Its methods document a tenant's runs, artifacts, exports and time travel. Those of agents, chats and missions
stand in the handles that it inherits. It holds no logic of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

from artelier.agents.agent_directory import AgentsHandle
from artelier.agents.artifact_tools import keep_result
from artelier.agents.card import adopt
from artelier.artifacts import Artifact, Artifacts, Space
from artelier.artifacts.content import is_small
from artelier.chat.session.commands import ChatsHandle, CommandsHandle
from artelier.errors import InvalidRequest
from artelier.ids import DEFAULT_TENANT, MAIN_SPACE, OPERATOR, check_run_id
from artelier.kernel import (
    Drive,
    Limits,
    Manifest,
    Opening,
    OpenRun,
    Renderer,
    Replayed,
    Run,
    RunCore,
    Services,
    Tenant,
    Tenants,
    TenantState,
    Transferred,
    check_grants,
    compare,
    export_run,
    fork,
    import_run,
    run_row,
)
from artelier.kernel import replay as replay_run
from artelier.kernel.erasure import Erasure, Preview, erase, writing_key
from artelier.kernel.export.archive import SIZE_BYTES_MAX
from artelier.kernel.pii_scrubber import RESTORE
from artelier.kernel.policy import is_granted
from artelier.kernel.prompt.provider_cache import CacheForecast, cache_forecast
from artelier.kernel.queries import reports
from artelier.kernel.queries.content import content as read_content
from artelier.log import Store
from artelier.memory.store import LogMemoryStore
from artelier.missions.handle import MissionsHandle, check_fork
from artelier.ports.model import ModelRequest
from artelier.sandbox import MontySandbox
from artelier.threads import BESIDE_BYTES

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider

    from artelier.kernel.history.comparison import RunComparison

    Providers = tuple[TracerProvider, MeterProvider]

T = TypeVar("T")


class KernelParts(Protocol):
    """The parts of a kernel that the handle of a tenant works with."""

    memory: LogMemoryStore
    sandbox: MontySandbox
    tenants: Tenants

    @property
    def services(self) -> Services: ...

    @property
    def store(self) -> Store: ...

    def keep_alive(self) -> None: ...


class TenantKernel(AgentsHandle, ChatsHandle, MissionsHandle, CommandsHandle):
    """The kernel as one tenant sees it: nothing of another tenant is there."""

    def __init__(self, kernel: KernelParts, tenant: Tenant | str | None) -> None:
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
            run_id=check_run_id(run_id),
            on_wait=on_wait,
            replay=replay,
            limits=limits,
            grants=None if grants is None else check_grants(grants),
            parent=parent.core if parent is not None else None,
            **more,
        )
        self._kernel.keep_alive()
        return OpenRun(self._services, self.state, opening, self._store_result)

    async def _store_result(self, core: RunCore, key: str, content: bytes, /, *, media_type: str = "") -> str:
        """A large tool result, or what it shows, as an artifact of the run, in the batch of its event."""
        artifacts = self._artifacts(f"run:{core.run_id}")
        return await keep_result(artifacts, core, key, content, media_type=media_type)

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
            self._services.store,
            self._services.clock,
            self.id,
            MAIN_SPACE,
            principal,
            interpreter=self._kernel.sandbox,
            stages=HeldStage,
            key_of_run=partial(writing_key, self._services.store, self.id),
        )

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
            self._services.store,
            self._services.clock,
            self.id,
            MAIN_SPACE,
            principal,
            self._artifacts(principal),
        )

    # Runs

    async def runs(self, *, status: str | None = None, after: int = 0, limit: int = 100) -> reports.RunList:
        return await reports.list_runs(self._services, self.id, status=status, after=after, limit=limit)

    async def show(self, run_id: str) -> reports.RunDetail:
        return await reports.show_run(self._services, self.id, run_id)

    async def steps(
        self,
        run_id: str,
        *,
        after: int = 0,
        before: int | None = None,
        limit: int | None = None,
        last: bool = False,
    ) -> list[reports.StepReport]:
        """Return a run's steps that were asked for between two of its events, in that order.

        With `limit`, that many of the first, or of the `last`. Errors: `NotFound`.
        """
        return await reports.steps(
            self._services, self.id, run_id, after=after, before=before, limit=limit, last=last
        )

    async def tree(self, run_id: str) -> reports.RunFamily:
        return await reports.tree(self._services, self.id, run_id)

    async def cost(self, run_id: str, *, limit: int | None = None) -> reports.RunCost:
        """Return a run's cost; with `limit`, `steps` has its newest model steps alone. Errors: `NotFound`."""
        return await reports.cost(self._services, self.id, run_id, limit=limit)

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
        self,
        *,
        subject: str | None = None,
        by: str = "operator",
        dry: bool = False,
        preview: Preview | None = None,
    ) -> Erasure:
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
        size_bytes = 0 if is_small(value, bytes_max=BESIDE_BYTES) else BESIDE_BYTES + 1
        return cast("T", await personal(self.id).restored(value, size_bytes=size_bytes))

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
            self._services,
            await self.state(),
            run_id,
            at=at,
            changes=with_,
            new_id=new_id,
            effects=effects,
            by=by,
        )

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
