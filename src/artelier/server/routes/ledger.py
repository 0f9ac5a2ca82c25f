"""`/ledger`: accounts, postings, sums and spending. `/tenants/me`: what a tenant may do and spend."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query

from artelier.errors import InvalidRequest
from artelier.kernel import Tenants
from artelier.kernel.queries.costs import DAY_US, postings, spending
from artelier.ledger.queries import PAGE_MAX, accounts, scope_limits, sums
from artelier.money import parse_usd
from artelier.server.deps import Admin, Core, Desk
from artelier.server.routes import resource
from artelier.server.wire import ledger as wire
from artelier.server.wire.base import After, Limit, Page
from artelier.server.wire.ledger import TenantChange, TenantShown

router = resource("ledger")

Space = Annotated[str | None, Query(max_length=200, description="`main` or `world:<id>`: else all.")]
Asset = Annotated[str | None, Query(max_length=40, description="`usd` or `scrip`: else all.")]
DAYS = 30


@router.get("/accounts", operation_id="ledger_accounts")
async def list_accounts(
    desk: Desk, space: Space = None, asset: Asset = None, after: After = None, limit: Limit = 100
) -> Page[wire.Account]:
    """Accounts with their balances, by space, account and asset."""
    found = await accounts(
        desk.services.store, desk.id, space=space, asset=asset, after=after or "", limit=limit
    )
    return Page[wire.Account].model_validate(found)


@router.get("/postings", operation_id="ledger_postings")
async def list_postings(
    desk: Desk,
    run: Annotated[str | None, Query(max_length=512, description="Of this run.")] = None,
    agent: Annotated[str | None, Query(max_length=512, description="Of its runs.")] = None,
    account: Annotated[str | None, Query(max_length=700, description="From or to it.")] = None,
    before: Annotated[
        int | None, Query(ge=1, le=2**53, description="A page's `next`, for older ones.")
    ] = None,
    limit: Limit = 100,
) -> Page[wire.PostingLine]:
    """Return what was moved, newest first. A page may be short, or empty, and not the last."""
    found = await postings(
        desk.services.store, desk.id, run=run, agent=agent, account=account, before=before, limit=limit
    )
    return Page[wire.PostingLine].model_validate(found)


@router.get("/totals", operation_id="ledger_totals")
async def totals(desk: Desk) -> wire.Sums:
    """The sum of all accounts of each asset, which is zero."""
    found = await sums(desk.services.store, desk.id)
    return wire.Sums.model_validate({"items": found, "conserved": all(one.sum == 0 for one in found)})


@router.get("/costs", operation_id="ledger_costs")
async def costs(
    desk: Desk, days: Annotated[int, Query(ge=1, le=3_660, description="How far back, in days.")] = DAYS
) -> wire.Spending:
    """Return what was spent on models and tools, by agent, model and day."""
    since_us = max(0, desk.services.clock.now_us() // DAY_US - days + 1) * DAY_US
    found = await spending(desk.services.store, desk.id, since_us=since_us)
    return wire.Spending.model_validate(
        {
            "items": found,
            "since_us": since_us,
            "is_cut": len(found) == PAGE_MAX,
            "total_microusd": sum(one.cost_microusd for one in found),
        }
    )


tenants_router = resource("tenants")


@tenants_router.get("/me", operation_id="tenants_me")
async def me(desk: Desk) -> TenantShown:
    """Grants, budget, what is spent, held and left, and the tenant's other limits and rates."""
    found = await Tenants(desk.services).show(desk.id)
    return TenantShown.model_validate(
        {
            **{name: found[name] for name in ("id", "grants", "allow_unknown_price")},
            "budget_microusd": _micro(found["budget_usd"]),
            "spent_microusd": _micro(found["spent_usd"]),
            "held_microusd": _micro(found["held_usd"]),
            "debt_microusd": _micro(found["debt_usd"]),
            "available_microusd": _micro(found["available_usd"]),
            "limits": await scope_limits(desk.services.store, desk.id, "tenant"),
            "rates": [{"name": name, **rate} for name, rate in found["rates"].items()],
            "patterns": sorted(found["patterns"]),
            "quotas": found["quotas"],
        }
    )


@tenants_router.patch("/me", operation_id="tenants_update")
async def update(desk: Desk, who: Admin, kernel: Core, asked: TenantChange) -> TenantShown:
    """Change grants and budget; only admins may. Runs at work see it at their next step."""
    changed = asked.given_fields()
    if not changed:
        raise InvalidRequest("nothing to change", expected="budget_usd or grants")
    unlimited = "budget_usd" in changed and changed["budget_usd"] is None
    await kernel.tenants.update(desk.id, **changed, unlimited=unlimited, by=who.actor)
    return await me(desk)


def _micro(amount: str | None) -> int | None:
    if amount is None:
        return None
    return parse_usd(amount.removeprefix("-")) * (-1 if amount.startswith("-") else 1)
