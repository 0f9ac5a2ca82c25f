"""The services that all runs of a kernel share: the store, the clock, models, tools, prices, policy.

It is handed in; the kernel reads no environment, clock or registry of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol
from weakref import WeakKeyDictionary, WeakValueDictionary

from artelier.clock import Clock
from artelier.errors import UnknownModel
from artelier.kernel.policy import ANY_FOLDER, Policy, ScrubberOf, Workspaces
from artelier.kernel.rates import NO_RATES, Quotas, Rates, Turns
from artelier.kernel.run.pending_steps import Draining
from artelier.kernel.tool_calls.dispatches import Dispatches, ProcessId
from artelier.log import DataKey, LeaseEnd, LeaseRequest, Store, Stream, TenantTurns
from artelier.plugins import Plugins
from artelier.ports.model import ModelPort, Price, Sending
from artelier.ports.telemetry import Telemetry
from artelier.ports.tool import ToolPort
from artelier.ports.webhook import OutgoingWebhook
from artelier.tokens import Window

if TYPE_CHECKING:
    from artelier.kernel.history.step_history import ForkEffects

FaultPoint = Callable[[str], None]

LEASE_TTL_US = 30_000_000
"""A holder that gave no sign of life for this long has lost its runs."""

GRACE_US = 1_000_000
"""For this long before its lease ends a holder begins no side effect: clocks of machines differ a little."""


@dataclass(slots=True, kw_only=True)
class TenantState:
    """A tenant as the kernel sees it while a run is at work."""

    id: str
    grants: tuple[str, ...]
    budget: int | None
    allow_unknown_price: bool
    key: DataKey
    rates: Rates = field(default_factory=lambda: NO_RATES)
    """How fast it may ask models."""
    said: tuple[str, ...] | None = None
    """Grants that the program has named: `grants` are no more than these."""


class OwnWriter(Protocol):
    """The writer of a run that is at work."""

    def hand_over(self) -> None: ...


class DrivenRun(Protocol):
    """A run that this kernel drives, as others see it."""

    counted: frozenset[tuple[str, str]]
    pending_caps: frozenset[tuple[str, str]]
    deadlines: dict[str, int]
    sendings: dict[str, Sending]

    @property
    def run_id(self) -> str: ...

    @property
    def tenant(self) -> TenantState: ...

    @property
    def status(self) -> str: ...

    @property
    def scopes(self) -> tuple[str, ...]: ...

    @property
    def loop(self) -> asyncio.AbstractEventLoop: ...

    @property
    def actor(self) -> OwnWriter | None: ...

    def announce(self) -> None: ...

    def came_back(self) -> None: ...

    def nudge(self) -> None: ...


@dataclass(slots=True, kw_only=True)
class Services:
    """The kernel's surroundings."""

    store: Store
    clock: Clock
    holder: str
    """Names this process in leases; unique per kernel."""
    is_dead: Callable[[str], bool]
    """Whether the process behind a holder is known to be gone."""
    uptime_us: Callable[[str], int | None] = lambda holder: None
    """The time since this machine was started, if the holder is on it. None where time is virtual."""
    process: ProcessId = ()
    """Names this process in events of side effects; unique per kernel."""
    dispatches: Dispatches = field(default_factory=Dispatches)
    """The side effects at work in this process."""
    draining: Draining = field(default_factory=Draining)
    """The tool calls at work in this kernel, and whether it is about to end."""
    resolve: Callable[[str], tuple[str, ModelPort]]
    """Canonical name and port of a model. Errors: `UnknownModel`, `MissingKey`."""
    tools: Mapping[str, ToolPort]
    price_of: Callable[[str], Price | None]
    window_of: Callable[[str], Window]
    policy: Policy
    params: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Of the model calls of new runs, such as `temperature`; a child has those of its parent."""
    code_version: str = ""
    fault: FaultPoint | None = None
    """Called at named instants where a crash hurts; tests stop there."""
    telemetry: Telemetry | None = None
    """Who watches; None costs nothing."""
    personal: ScrubberOf | None = None
    """Replaces personal data of a tenant; None where the policy does not ask for it."""
    workspaces: Workspaces = ANY_FOLDER
    """The folders that tools of a tenant may work on."""
    quotas: Quotas = field(default_factory=Quotas)
    """How much of this server a tenant may take."""
    plugins: Plugins = field(default_factory=Plugins)
    """The plugins that may act here."""
    webhooks: tuple[OutgoingWebhook, ...] = ()
    """Where events are sent."""
    webhook_looks: dict[str, tuple[int, list[str]]] = field(default_factory=dict[str, tuple[int, list[str]]])
    """Of each webhook: up to where this process has looked for events, and deliveries that wait to begin."""
    turns: Turns | None = None
    """Calls that wait for a rate limit, and those that took of one; None as long as none has."""
    active: dict[tuple[str, str], DrivenRun] = field(default_factory=dict["tuple[str, str]", "DrivenRun"])
    """Runs driven by this kernel, by (tenant, run id)."""
    fork_effects: WeakValueDictionary[tuple[str, str], ForkEffects] = field(
        default_factory=WeakValueDictionary["tuple[str, str]", "ForkEffects"]
    )
    """Of forks at work that do not simply act, by (tenant, run id): all runs below one take turns."""
    opening: set[tuple[str, str]] = field(default_factory=set["tuple[str, str]"])
    """Runs that this kernel is about to drive."""
    _openings: WeakKeyDictionary[asyncio.AbstractEventLoop, TenantTurns] = field(
        default_factory=WeakKeyDictionary["asyncio.AbstractEventLoop", "TenantTurns"]
    )
    """Of tenants whose runs are opened, per event loop."""
    _settled: dict[str, tuple[asyncio.AbstractEventLoop, asyncio.Event]] = field(
        default_factory=dict["str", "tuple[asyncio.AbstractEventLoop, asyncio.Event]"]
    )
    """Per tenant: what calls wait for that need money, in the loop that drives them."""

    orphans: set[tuple[str, str]] = field(default_factory=set["tuple[str, str]"])
    """Runs whose loop was closed under them: the lease is this kernel's, and nobody drives them."""

    async def turn_to_open(self, tenant: str) -> None:
        """Wait until a run of this tenant may be opened: a few in each pass of the event loop."""
        loop = asyncio.get_running_loop()
        await self._openings.setdefault(loop, TenantTurns()).take(tenant)

    def lease(self, stream: Stream, *, holder: str = "") -> LeaseRequest:
        """Return the request for the lease of a run's stream, from now on."""
        return LeaseRequest(
            stream=stream,
            holder=holder or self.holder,
            now_us=self.clock.now_us(),
            ttl_us=LEASE_TTL_US,
            is_dead=self.is_dead,
            uptime_us=self.uptime_us,
        )

    def lease_end(self, ttl_us: int = LEASE_TTL_US) -> LeaseEnd:
        """Return when a lease of this kernel ends that is taken or renewed now."""
        uptime_us = self.uptime_us(self.holder)
        return LeaseEnd(self.clock.now_us() + ttl_us, None if uptime_us is None else uptime_us + ttl_us)

    def is_driving(self, holder: str | None, end: Sequence[Any]) -> bool:
        """Return whether a stored lease holds: `end` is its `expires_us` and `expires_uptime_us`."""
        return self.driving_check()(holder, end)

    def driving_check(self) -> Callable[[str | None, Sequence[Any]], bool]:
        """Return `is_driving` for one look at many leases: each holder's process is looked for once."""
        is_dead, uptime_us, now_us = cache(self.is_dead), cache(self.uptime_us), self.clock.now_us()

        def is_driving(holder: str | None, end: Sequence[Any]) -> bool:
            if holder is None or is_dead(holder):
                return False
            end = end if isinstance(end, LeaseEnd) else LeaseEnd(*end)
            return not end.is_over(now_us=now_us, uptime_us=uptime_us(holder))

        return is_driving

    def is_ending(self, end: LeaseEnd) -> bool:
        """Return whether a lease of this kernel has ended, or is about to."""
        uptime_us, soon_us = self.uptime_us(self.holder), self.clock.now_us() + GRACE_US
        return end.is_over(now_us=soon_us, uptime_us=None if uptime_us is None else uptime_us + GRACE_US)

    def driver(self, tenant: str, run_id: str) -> DrivenRun | None:
        """The run if this kernel drives it; one whose loop was closed is driven no more."""
        core = self.active.get((tenant, run_id))
        if core is not None and core.loop.is_closed():
            self.orphans.add((tenant, run_id))
            self.active.pop((tenant, run_id), None)
            return None
        return core

    def nudge(self, tenant: str, run_id: str) -> bool:
        """Have the run's driver read its commands; False if this kernel does not drive it."""
        core = self.driver(tenant, run_id)
        if core is None:
            return False
        try:
            core.loop.call_soon_threadsafe(core.nudge)
        except RuntimeError:  # closed in between
            return self.driver(tenant, run_id) is not None
        return True

    def money_event(self, tenant: str) -> asyncio.Event:
        """Set when money or room of this tenant comes back."""
        loop = asyncio.get_running_loop()
        home, event = self._settled.get(tenant, (None, None))
        if event is None or home is not loop:
            event = asyncio.Event()
            self._settled[tenant] = (loop, event)
        return event

    def money_came(self, tenant: str) -> None:
        """Wake calls of a tenant that wait for money or for room under a limit."""
        if (found := self._settled.pop(tenant, None)) is not None:
            found[1].set()

    def escape_placeholders(self, tenant: str, value: object) -> Any:
        """Text or JSON data of a person, in which what looks like a placeholder is none."""
        if self.personal is None:
            return value
        return self.personal(tenant).escape_lookalikes(value, lambda _: False)

    def is_stored(self, tenant: str, name: str, text: str, *, as_: object) -> bool:
        """Return True if a stored field is this text, be it as it was given or with placeholders in it."""
        if text == as_ or self.personal is None:
            return text == as_
        for scrubber in (self.personal(tenant), self.personal(tenant).under(1)):
            for one in (text, self.escape_placeholders(tenant, text)):
                if as_ in (one, scrubber.text(one), scrubber.value({name: one})[name]):
                    return True
        return False

    def at(self, point: str) -> None:
        if self.fault is not None:
            self.fault(point)

    def model(self, name: str) -> tuple[str, ModelPort]:
        if not name:
            raise UnknownModel("no model was named", expected='a name such as "openai:gpt-5-mini"')
        return self.resolve(name)
