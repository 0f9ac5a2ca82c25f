"""Tenants: what they may use and spend, stored once and changed only by name.

The kernel bound to one tenant, as the packages above the kernel need it.

`artelier.app.TenantKernel` is the implementation; each package declares what it adds to that in a Protocol
of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Protocol, TypedDict, runtime_checkable

from artelier.errors import (
    Conflict,
    InsufficientFunds,
    InvalidRequest,
    NotFound,
    SequenceConflict,
    StoreUnavailable,
)
from artelier.ids import check_tenant
from artelier.kernel import events as ev
from artelier.kernel.budget import TENANT, UNLIMITED
from artelier.kernel.pii_scrubber import patterns_changed
from artelier.kernel.policy import check_grants, narrow
from artelier.kernel.queries.tenants import find_tenant, patterns_of, rates_of, tenant_ids
from artelier.kernel.rates import QuotaUse, Rate, check_rates, rates_changed, stored_rates
from artelier.kernel.run.services import Services, TenantState
from artelier.ledger import AMOUNT_MAX, DEBT, Posting, check_available
from artelier.ledger.queries import balances_of
from artelier.log import Batch, DataKey, Draft, EventData, StreamAppend, Tx, decode_stored, tenant_stream
from artelier.log.queries import newest_event
from artelier.money import USD, format_usd, parse_usd

if TYPE_CHECKING:
    from artelier.artifacts import Space
    from artelier.kernel.export.transfer import KeyStore
    from artelier.kernel.run.lifecycle import OpenRun
    from artelier.kernel.run.status import Limits


ATTEMPTS_MAX = 10
"""Changes of one tenant by others that an update waits out."""

BUDGET = "source:budget"
"""The account that budgets are issued from."""

DEFAULT_GRANTS = ("artifacts:*", "tools:*")


@dataclass(frozen=True, slots=True)
class Tenant:
    """A tenant: the owner of data and money. The fields are defaults for a new tenant.

    An existing tenant keeps what is stored, which only `kernel.tenants.update` and `artelier tenants update`
    change; its grants are the stored ones that are also given here, never more.
    """

    id: str
    grants: frozenset[str] | set[str] | tuple[str, ...] | list[str] | None = field(default=None, kw_only=True)
    """Patterns such as `tools:*`, `payments:send`, `models:openai:*`, `pii:restore`."""
    budget_usd: str | Decimal | None = field(default=None, kw_only=True)
    """Dollars, such as `"5.00"`. None: no limit."""
    allow_unknown_price: bool | None = field(default=None, kw_only=True)


def TenantContext(
    *,
    tenant_id: str,
    capabilities: set[str] | frozenset[str] | None = None,
    budget_usd_limit: float | str | Decimal | None = None,
) -> Tenant:
    """A `Tenant` by its older argument names."""
    grants = None if capabilities is None else frozenset(capabilities) | set(DEFAULT_GRANTS)
    budget = None if budget_usd_limit is None else str(budget_usd_limit)
    return Tenant(tenant_id, grants=grants, budget_usd=budget)


class TenantReport(TypedDict):
    """The settings and the money of a tenant, as the API and `--json` show them. Amounts are USD as text."""

    id: str
    grants: list[str]
    budget_usd: str | None
    spent_usd: str
    held_usd: str
    debt_usd: str
    available_usd: str | None
    allow_unknown_price: bool
    rates: dict[str, dict[str, int | None]]
    patterns: dict[str, str]
    quotas: QuotaUse


class Tenants:
    """Opens, lists and changes tenants. Errors: `InvalidRequest` for a bad id or amount."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._open: dict[str, dict[tuple[str, ...] | None, TenantState]] = {}
        """By tenant and the grants that were said: handles that say other ones share nothing."""
        self._declared: dict[str, ev.TenantDeclared] = {}
        """What was said last of each tenant that is stored otherwise."""
        self._refreshing: set[asyncio.Task[None]] = set()

    def forget_idle(self) -> None:
        """Another process may have changed something: idle tenants are read on next use, others now."""
        busy = {tenant for tenant, _ in (*self._services.active, *self._services.opening)}
        for tenant in self._open.keys() - busy:
            del self._open[tenant]
        for tenant in self._open:
            task = asyncio.get_running_loop().create_task(self._refresh(tenant))
            self._refreshing.add(task)
            task.add_done_callback(self._refreshing.discard)

    async def _refresh(self, tenant: str) -> None:
        """Runs at work hold the tenant's state: they see a change at their next step."""
        with suppress(StoreUnavailable):  # closed meanwhile, or the next step says it
            fresh = await self._load(tenant)
            if fresh is None:
                return
            for live in self._open.get(tenant, {}).values():
                live.grants, live.budget = narrow_grants(fresh.grants, live.said), fresh.budget
                live.allow_unknown_price = fresh.allow_unknown_price
                live.rates = fresh.rates
            self._services.money_came(tenant)

    async def open(self, tenant: Tenant | str | None) -> TenantState:
        """Return the tenant as it is stored, made with what is said of it if it is new.

        What is said of one that exists changes nothing that is stored: its grants are those stored and those
        said, its budget is the stored one. Where the two differ, `tenant.declared` records what was said.
        """
        if tenant is None or isinstance(tenant, str):
            tenant = Tenant(check_tenant(tenant or "default"))
        check_tenant(tenant.id)
        said = ev.TenantDeclared(
            grants=None if tenant.grants is None else check_grants(tenant.grants),
            budget=None if tenant.budget_usd is None else _budget(tenant.budget_usd),
            allow_unknown_price=tenant.allow_unknown_price,
        )
        states = self._open.get(tenant.id, {})
        state = states.get(said.grants) or await self._load(tenant.id)
        if state is None:
            state = await self._create(tenant.id, said)
        await self._declare(tenant.id, said, self._open.get(tenant.id, {}).get(None) or state)
        state.said, state.grants = said.grants, narrow_grants(state.grants, said.grants)
        self._open.setdefault(tenant.id, {})[said.grants] = state
        state.key = await self._services.store.data_key(tenant.id)  # it may have been dropped
        return state

    async def _declare(self, tenant: str, said: ev.TenantDeclared, state: TenantState) -> None:
        """Record what a program says of a tenant, once, if it is not what is stored."""
        stored = ev.TenantDeclared(
            grants=tuple(sorted(state.grants)),
            budget=state.budget,
            allow_unknown_price=state.allow_unknown_price,
        )
        names = ev.TenantDeclared.__struct_fields__
        is_stored = all(getattr(said, name) in (None, getattr(stored, name)) for name in names)
        if is_stored or self._declared.get(tenant) == said:
            return
        newest = await newest_event(self._services.store, tenant_stream(tenant), said.KIND)
        if newest is None or newest.read(ev.TenantDeclared) != said:
            await self._append(tenant, said, expected_seq=None, by="program")
        self._declared[tenant] = said

    async def _load(self, tenant: str, *, key: DataKey | None = None) -> TenantState | None:
        """Return what is stored of a tenant; `key` stands for its own, for who needs none."""
        store = self._services.store
        row = await find_tenant(store, tenant)
        if row is None:
            return None
        return TenantState(
            id=tenant,
            grants=decode_stored(row.grants, type=tuple[str, ...]),
            budget=row.budget,
            allow_unknown_price=bool(row.allow_unknown_price),
            key=key or await store.data_key(tenant),
            rates=stored_rates(await rates_of(store, tenant)),
        )

    async def _create(self, tenant: str, said: ev.TenantDeclared) -> TenantState:
        created = ev.TenantCreated(
            grants=said.grants if said.grants is not None else DEFAULT_GRANTS,
            budget=said.budget,
            allow_unknown_price=bool(said.allow_unknown_price),
            postings=_change(0, 0, said.budget),
        )
        try:
            await self._append(tenant, created, expected_seq=0)
        except SequenceConflict:
            pass  # another process created it first: what it stored holds
        state = await self._load(tenant)
        assert state is not None
        return state

    async def update(
        self,
        tenant: str,
        *,
        budget_usd: str | Decimal | None = None,
        unlimited: bool = False,
        grants: set[str] | frozenset[str] | tuple[str, ...] | list[str] | None = None,
        allow_unknown_price: bool | None = None,
        rates: Mapping[str, Rate] | None = None,
        patterns: Mapping[str, str] | None = None,
        by: str = "operator",
    ) -> TenantReport:
        """Change what is given; the tenant's new settings. A higher budget pays the debt first, and so does
        `unlimited`, which lifts it. `rates` replace all that the tenant has, beside which those of the policy
        always hold. `patterns` are regular expressions of personal data by kind; they replace the tenant's,
        and hold for runs that are opened from now on.

        Errors: `NotFound`; `InsufficientFunds` if a lower budget is already spent or held.
        """
        more: list[EventData] = []
        if rates is not None:
            more.append(rates_changed(check_rates(rates)))
        if patterns is not None:
            more.append(patterns_changed(patterns))
        stream = tenant_stream(check_tenant(tenant))
        for _ in range(ATTEMPTS_MAX):
            seq, _ = await self._services.store.head(stream)
            state = await self._load(tenant)
            if state is None:
                raise NotFound(f"no tenant {tenant!r}")
            budget = state.budget if budget_usd is None else _budget(budget_usd)
            if unlimited:
                budget = None
            unknown = state.allow_unknown_price
            updated = ev.TenantUpdated(
                grants=state.grants if grants is None else check_grants(grants),
                budget=budget,
                allow_unknown_price=unknown if allow_unknown_price is None else allow_unknown_price,
                postings=_change(*await self._read_issued(tenant), budget),
            )
            guard = _lowering_guard(tenant, updated.postings, budget=budget)
            with suppress(SequenceConflict):  # somebody else changed it: decide anew
                await self._append(tenant, updated, *more, expected_seq=seq, by=by, guard=guard)
                break
        else:
            raise Conflict(f"tenant {tenant!r} is changed by others all the time", hint="Try again.")
        await self._refresh(tenant)
        return await self.show(tenant)

    async def _read_issued(self, tenant: str) -> tuple[int, int]:
        """Return the micro-dollars that budgets have issued so far, and the debt."""
        balances = await balances_of(self._services.store, tenant)
        return -balances.get(BUDGET, 0), -balances.get(DEBT, 0)

    async def show(self, tenant: str) -> TenantReport:
        """`{id, grants, budget_usd, spent_usd, held_usd, debt_usd, available_usd, allow_unknown_price, rates,
        patterns, quotas}`. `debt_usd` is what providers billed beyond what was reserved; it is taken off
        `available_usd`, which is negative while a budget is exceeded. What was spent while the tenant was
        unlimited, and the debt that this lifted, stay in `spent_usd` and count against no later budget."""
        state = await self._load(check_tenant(tenant), key=DataKey(None, b""))
        if state is None:
            raise NotFound(f"no tenant {tenant!r}")
        balances = await balances_of(self._services.store, tenant)
        debt = -balances.get(DEBT, 0)
        held = sum(amount for name, amount in balances.items() if name.startswith("hold:"))
        return {
            "id": tenant,
            "grants": sorted(state.grants),
            "budget_usd": None if state.budget is None else format_usd(state.budget),
            "spent_usd": format_usd(balances.get("spent", 0)),
            "held_usd": format_usd(held),
            "debt_usd": format_usd(debt),
            "available_usd": (None if state.budget is None else format_usd(balances.get(TENANT, 0) - debt)),
            "allow_unknown_price": state.allow_unknown_price,
            "rates": {name: rate.plain() for name, rate in state.rates.items()},
            "patterns": dict(patterns_of(self._services.store, tenant)),
            "quotas": await self._services.quotas.describe(self._services.store, tenant),
        }

    async def list(self) -> list[TenantReport]:
        return [await self.show(tenant) for tenant in await tenant_ids(self._services.store)]

    async def _append(
        self,
        tenant: str,
        *data: Any,
        expected_seq: int | None,
        by: str = "operator",
        guard: Callable[[Tx], None] | None = None,
    ) -> None:
        drafts = [Draft(item, self._services.clock.now_us(), by) for item in data]
        append = StreamAppend(tenant_stream(tenant), drafts, expected_seq=expected_seq)
        await self._services.store.append(Batch(appends=[append], guard=guard))


def narrow_grants(stored: tuple[str, ...], said: tuple[str, ...] | None) -> tuple[str, ...]:
    """Return the grants that are both stored and said; None says nothing of them."""
    return stored if said is None else narrow(stored, said)


def _budget(usd: str | Decimal) -> int:
    """Return a budget in micro-dollars. Errors: `InvalidRequest`, as for one that no ledger takes."""
    micro = parse_usd(usd)
    if micro > AMOUNT_MAX:
        raise InvalidRequest(
            "too large a budget",
            expected=f"at most {format_usd(AMOUNT_MAX)} USD",
            got=repr(usd)[:80],
            hint="Say unlimited instead.",
        )
    return micro


def _change(issued: int, debt: int, budget: int | None) -> tuple[Posting, ...]:
    """Return the postings after which a budget is issued. What is added pays the debt first."""
    source = UNLIMITED if budget is None else BUDGET
    added = debt if budget is None else budget - issued
    paid = max(0, min(debt, added))
    if added < 0:
        return (Posting(TENANT, BUDGET, USD, -added),)
    parts = ((DEBT, paid), (TENANT, added - paid))
    return tuple(Posting(source, target, USD, amount) for target, amount in parts if amount > 0)


def _lowering_guard(
    tenant: str, postings: Sequence[Posting], *, budget: int | None
) -> Callable[[Tx], None] | None:
    """Return a guard for a lower budget: what is owed is spent already, too."""
    taken = sum(posting.amount for posting in postings if posting.source == TENANT)

    def check(tx: Tx) -> None:
        try:
            check_available(tx, tenant, TENANT, taken)
        except InsufficientFunds as error:
            least = (budget or 0) + taken - error.facts["have"]
            raise InsufficientFunds(
                "a budget cannot be lower than what is spent, held and owed",
                expected=f"at least {format_usd(least)} USD",
                got=f"{format_usd(budget or 0)} USD",
                **error.facts,
            ) from None

    return check if taken else None


TenantRef = Tenant | str | None
"""A tenant, its id, or None for the default tenant."""


class TenantScope(Protocol):
    """One tenant's kernel: nothing of another tenant is reached through it."""

    @property
    def id(self) -> str:
        """The tenant's id."""
        ...

    @property
    def services(self) -> Services: ...

    @property
    def keys(self) -> KeyStore:
        """The store that keeps the keys of imported content."""
        ...

    async def state(self) -> TenantState:
        """Return the stored tenant, created on first use."""
        ...

    def keep_alive(self) -> None: ...

    def as_principal(self, principal: str, *, world: str | None = None) -> Space:
        """Return the artifacts as one principal may reach them."""
        ...

    def run(self, run_id: str, **opening: Any) -> OpenRun: ...

    async def cancel(self, run_id: str, *, by: str = "operator", note: str = "") -> EventData: ...

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

    async def retry(self, run_id: str, *, by: str = "operator") -> EventData: ...

    async def signal(
        self, run_id: str, name: str, data: object = None, *, by: str = "operator"
    ) -> EventData: ...


@runtime_checkable
class TenantScopes(Protocol):
    """A kernel: it gives scopes, each bound to one tenant."""

    def for_tenant(self, tenant: TenantRef = None) -> TenantScope: ...
