"""`/ledger`: accounts, postings, sums, and who has spent how much. It is only looked at."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query

from artelier.kernel.queries.reports import DAY_US, postings, spending
from artelier.ledger.queries import PAGE_MAX, accounts, sums
from artelier.server.deps import Desk
from artelier.server.routes import resource
from artelier.server.wire import ledger as wire
from artelier.server.wire.base import After, Limit, Page

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
