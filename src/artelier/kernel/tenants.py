"""Tenants: what they may use and spend, stored once and changed only by name."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from artelier.errors import (
    Conflict,
    NotFound,
    SequenceConflict,
    StoreUnavailable,
    TenantConflict,
)
from artelier.ids import MAIN_SPACE, check_tenant
from artelier.kernel import events as ev
from artelier.kernel.budget import TENANT, UNLIMITED
from artelier.kernel.core import TenantState
from artelier.kernel.personal import patterns_changed
from artelier.kernel.policy import check_grants
from artelier.kernel.rates import RATES_SQL, Rate, check_rates, rates_changed, stored_rates
from artelier.kernel.services import Services
from artelier.ledger import DEBT, Posting, check_available
from artelier.log import (
    Batch,
    DataKey,
    Draft,
    EventData,
    StreamAppend,
    Tx,
    decode_stored,
    tenant_stream,
)
from artelier.money import USD, format_usd, parse_usd
from artelier.pii.vault import PATTERNS_SQL

ATTEMPTS_MAX = 10
"""Changes of one tenant by others that an update waits out."""

BUDGET = "source:budget"
"""The account that budgets are issued from."""

DEFAULT_GRANTS = ("artifacts:*", "tools:*")


@dataclass(frozen=True, slots=True)
class Tenant:
    """Whose data, whose money. Opening an existing tenant with other limits is a `TenantConflict`."""

    id: str
    grants: frozenset[str] | set[str] | tuple[str, ...] | list[str] | None = field(
        default=None, kw_only=True
    )
    """Patterns such as `tools:*`, `payments:send`, `models:openai:*`, `pii:restore`."""
    budget_usd: str | Decimal | None = field(default=None, kw_only=True)
    """Dollars, such as `"5.00"`. None: no limit (for a new tenant), as stored (for an existing one)."""
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


class Tenants:
    """Opens, lists and changes tenants. Errors: `InvalidRequest` for a bad id or amount."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._open: dict[str, TenantState] = {}
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
            live = self._open.get(tenant)
            if fresh is None or live is None:
                return
            live.grants, live.budget = fresh.grants, fresh.budget
            live.allow_unknown_price = fresh.allow_unknown_price
            live.rates = fresh.rates
            self._services.money_came(tenant)

    async def open(self, tenant: Tenant | str | None) -> TenantState:
        """The stored tenant, created on first use. Errors: `TenantConflict`."""
        if tenant is None or isinstance(tenant, str):
            tenant = Tenant(check_tenant(tenant or "default"))
        check_tenant(tenant.id)
        state = self._open.get(tenant.id) or await self._load(tenant.id)
        if state is None:
            state = await self._create(tenant)
        self._open[tenant.id] = state
        state.key = await self._services.store.data_key(tenant.id)  # it may have been dropped
        self._same(tenant, state)
        return state

    def _same(self, tenant: Tenant, state: TenantState) -> None:
        asked = {
            "grants": None if tenant.grants is None else check_grants(tenant.grants),
            "budget_usd": None if tenant.budget_usd is None else parse_usd(tenant.budget_usd),
            "allow_unknown_price": tenant.allow_unknown_price,
        }
        stored = {
            "grants": tuple(sorted(state.grants)),
            "budget_usd": state.budget,
            "allow_unknown_price": state.allow_unknown_price,
        }
        for name, value in asked.items():
            if value is not None and value != stored[name]:
                raise TenantConflict(
                    f"tenant {tenant.id!r} exists with another {name}",
                    expected=_shown(name, stored[name]),
                    got=_shown(name, value),
                    hint="Open it by its id alone, or change it with kernel.tenants.update(...).",
                )

    async def _load(self, tenant: str, *, key: DataKey | None = None) -> TenantState | None:
        """What is stored of a tenant; `key` stands for its own, for who needs none."""
        rows = await self._services.store.query(
            "SELECT grants, budget, allow_unknown_price FROM tenants WHERE tenant = ?", (tenant,)
        )
        if not rows:
            return None
        grants, budget, unknown = rows[0]
        return TenantState(
            id=tenant, grants=decode_stored(grants, type=tuple[str, ...]), budget=budget,
            allow_unknown_price=bool(unknown),
            key=key or await self._services.store.data_key(tenant),
            rates=stored_rates(await self._services.store.query(RATES_SQL, (tenant,))),
        )  # fmt: skip

    async def _create(self, tenant: Tenant) -> TenantState:
        grants = check_grants(tenant.grants if tenant.grants is not None else DEFAULT_GRANTS)
        budget = None if tenant.budget_usd is None else parse_usd(tenant.budget_usd)
        created = ev.TenantCreated(
            grants=grants, budget=budget, allow_unknown_price=bool(tenant.allow_unknown_price),
            postings=_change(0, 0, budget),
        )  # fmt: skip
        try:
            await self._append(tenant.id, created, expected_seq=0)
        except SequenceConflict:
            pass  # another process created it first: what it stored is compared by the caller
        state = await self._load(tenant.id)
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
    ) -> dict[str, Any]:
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
            budget = state.budget if budget_usd is None else parse_usd(budget_usd)
            if unlimited:
                budget = None
            unknown = state.allow_unknown_price
            updated = ev.TenantUpdated(
                grants=state.grants if grants is None else check_grants(grants), budget=budget,
                allow_unknown_price=unknown if allow_unknown_price is None else allow_unknown_price,
                postings=_change(*await self._issued(tenant), budget),
            )  # fmt: skip
            guard = _lowering_guard(tenant, updated.postings)
            with suppress(SequenceConflict):  # somebody else changed it: decide anew
                await self._append(tenant, updated, *more, expected_seq=seq, by=by, guard=guard)
                break
        else:
            raise Conflict(
                f"tenant {tenant!r} is changed by others all the time", hint="Try again."
            )
        self._open.setdefault(tenant, state)
        await self._refresh(tenant)
        return await self.show(tenant)

    async def _issued(self, tenant: str) -> tuple[int, int]:
        """Return the micro-dollars that budgets have issued so far, and the debt."""
        balances = await self._balances(tenant)
        return -balances.get(BUDGET, 0), -balances.get(DEBT, 0)

    async def _balances(self, tenant: str) -> dict[str, int]:
        rows = await self._services.store.query(
            "SELECT account, balance FROM accounts WHERE tenant = ? AND space = ? AND asset = ?",
            (tenant, MAIN_SPACE, USD),
        )
        return {account: int(balance) for account, balance in rows}

    async def show(self, tenant: str) -> dict[str, Any]:
        """`{id, grants, budget_usd, spent_usd, held_usd, debt_usd, available_usd, allow_unknown_price, rates,
        patterns}`. `debt_usd` is what providers billed beyond what was reserved; it is taken off
        `available_usd`, which is negative while a budget is exceeded."""
        state = await self._load(check_tenant(tenant), key=DataKey(None, b""))
        if state is None:
            raise NotFound(f"no tenant {tenant!r}")
        balances = await self._balances(tenant)
        debt = -balances.get(DEBT, 0)
        held = sum(amount for name, amount in balances.items() if name.startswith("hold:"))
        return {
            "id": tenant,
            "grants": sorted(state.grants),
            "budget_usd": None if state.budget is None else format_usd(state.budget),
            "spent_usd": format_usd(balances.get("spent", 0)),
            "held_usd": format_usd(held),
            "debt_usd": format_usd(debt),
            "available_usd": (
                None if state.budget is None else format_usd(balances.get(TENANT, 0) - debt)
            ),
            "allow_unknown_price": state.allow_unknown_price,
            "rates": {name: rate.plain() for name, rate in state.rates.items()},
            "patterns": dict(await self._services.store.query(PATTERNS_SQL, (tenant,))),
        }

    async def list(self) -> list[dict[str, Any]]:
        rows = await self._services.store.query("SELECT tenant FROM tenants ORDER BY tenant")
        return [await self.show(tenant) for (tenant,) in rows]

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


def _change(issued: int, debt: int, budget: int | None) -> tuple[Posting, ...]:
    """Return the postings after which a budget is issued. What is added pays the debt first."""
    source = UNLIMITED if budget is None else BUDGET
    added = debt if budget is None else budget - issued
    paid = max(0, min(debt, added))
    if added < 0:
        return (Posting(TENANT, BUDGET, USD, -added),)
    parts = ((DEBT, paid), (TENANT, added - paid))
    return tuple(Posting(source, target, USD, amount) for target, amount in parts if amount > 0)


def _lowering_guard(tenant: str, postings: Sequence[Posting]) -> Callable[[Tx], None] | None:
    """Return a guard for a lower budget: what is owed is spent already, too."""
    taken = sum(posting.amount for posting in postings if posting.source == TENANT)
    return (lambda tx: check_available(tx, tenant, TENANT, taken)) if taken else None


def _shown(name: str, value: Any) -> str:
    if name == "budget_usd":
        return "no limit" if value is None else f"{format_usd(value)} USD"
    return str(value)
