"""Reads of the ledger's tables: balances of accounts and counters of limits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from artelier.errors import InvalidRequest
from artelier.ids import MAIN_SPACE
from artelier.ledger.posting import SOURCES
from artelier.log import Store, Tx
from artelier.log.queries import fetch_all, fetch_value, sql_marks
from artelier.money import USD

PAGE_MAX = 1000

PUBLISHED = (
    """CREATE TEMP VIEW IF NOT EXISTS account_balances AS
        SELECT tenant, space, account, asset, balance FROM accounts""",
    """CREATE TEMP VIEW IF NOT EXISTS scope_limits AS
        SELECT tenant, scope, unit, cap, reserved, used FROM limits""",
)
"""The ledger's published views."""


class AccountRow(NamedTuple):
    """The balance of an account, in the asset's smallest unit."""

    space: str
    """`main`, or `world:<id>`."""
    account: str
    asset: str
    """`usd` (in micro-dollars) or `scrip`."""
    balance: int
    """Negative for sources and mints, by what they have issued."""


class AccountPage(NamedTuple):
    """Accounts by space, account and asset."""

    items: list[AccountRow]
    next: str | None


class AssetSum(NamedTuple):
    """All accounts of an asset together."""

    space: str
    asset: str
    accounts: int
    sum: int
    """Zero, or money was made from nothing."""
    issued: int
    """What sources and mints have put into circulation."""


class LimitRow(NamedTuple):
    """A limit of a scope such as `tenant` or `run:<id>`, and what of it is used."""

    scope: str
    unit: str
    """`usd` (micro-dollars), `tokens`, `steps` or `ms`."""
    cap: int | None
    """None: only counted."""
    reserved: int
    used: int


async def accounts(
    store: Store,
    tenant: str,
    *,
    space: str | None = None,
    asset: str | None = None,
    after: str = "",
    limit: int = 100,
) -> AccountPage:
    """Return a page of accounts. Errors: `InvalidRequest` for an `after` that is no `next`."""
    limit, start = max(1, min(limit, PAGE_MAX)), after.split("|") if after else ["", "", ""]
    if len(start) != 3:
        raise InvalidRequest("after", expected="the `next` of a page", got=after[:100])
    where, parameters = "tenant = ? AND (space, account, asset) > (?, ?, ?)", [tenant, *start]
    for name, value in (("space", space), ("asset", asset)):
        if value is not None:
            where, parameters = f"{where} AND {name} = ?", [*parameters, value]
    rows = await store.query(
        f"SELECT space, account, asset, balance FROM accounts WHERE {where}"
        " ORDER BY space, account, asset LIMIT ?",
        (*parameters, limit + 1),
    )
    items = [AccountRow(*row) for row in rows[:limit]]
    return AccountPage(items, "|".join(rows[limit - 1][:3]) if len(rows) > limit else None)


async def sums(store: Store, tenant: str) -> list[AssetSum]:
    """Return the sum of each asset of a tenant."""
    owing = " OR ".join(f"substr(account, 1, {len(prefix)}) = '{prefix}'" for prefix in SOURCES)
    return await fetch_all(
        store,
        AssetSum,
        "SELECT space, asset, count(*), sum(balance),"
        f" coalesce(-sum(balance) FILTER (WHERE {owing}), 0)"
        " FROM accounts WHERE tenant = ? GROUP BY space, asset ORDER BY space, asset",
        (tenant,),
    )


async def balances_of(
    store: Store, tenant: str, *, space: str = MAIN_SPACE, asset: str = USD
) -> dict[str, int]:
    """Return the balances of an asset in a space by account."""
    rows = await store.query(
        "SELECT account, balance FROM accounts WHERE tenant = ? AND space = ? AND asset = ?",
        (tenant, space, asset),
    )
    return dict(rows)


def balances_in(tx: Tx, tenant: str, space: str, asset: str) -> dict[str, int]:
    """Return the balances of an asset in a space, by account in alphabetical order, in a transaction."""
    rows = tx.execute(
        "SELECT account, balance FROM accounts WHERE tenant = ? AND space = ? AND asset = ? ORDER BY account",
        (tenant, space, asset),
    )
    return dict(rows.fetchall())


async def account_balance(
    store: Store, tenant: str, account: str, *, space: str = MAIN_SPACE, asset: str = USD
) -> int | None:
    """Return the balance of an account; None if nothing was ever moved there."""
    return await fetch_value(
        store,
        "SELECT balance FROM accounts WHERE tenant = ? AND space = ? AND account = ? AND asset = ?",
        (tenant, space, account, asset),
    )


async def sum_of(store: Store, tenant: str, names: Sequence[str], *, prefix: str) -> int:
    """Return what the accounts with these names, and those with a prefix, hold together in micro-dollars."""
    return await fetch_value(
        store,
        "SELECT coalesce(sum(balance), 0) FROM accounts WHERE tenant = ? AND asset = ?"
        f" AND (account IN ({sql_marks(names)}) OR account LIKE ?)",
        (tenant, USD, *names, f"{prefix}%"),
    )


_LIMIT = "SELECT scope, unit, cap, reserved, used FROM limits WHERE tenant = ?"


async def scope_limits(store: Store, tenant: str, *scopes: str) -> list[LimitRow]:
    """Return the limits of some scopes, capped or only counted, by scope and unit."""
    return await fetch_all(
        store,
        LimitRow,
        f"{_LIMIT} AND scope IN ({sql_marks(scopes)}) ORDER BY scope, unit",
        (tenant, *scopes),
    )


def cap_in(tx: Tx, tenant: str, scope: str, unit: str) -> LimitRow | None:
    """Return a limit as a transaction sees it."""
    row = tx.one(f"{_LIMIT} AND scope = ? AND unit = ?", (tenant, scope, unit))
    return None if row is None else LimitRow(*row)


def exceeded_limit(tx: Tx, tenant: str, scopes: Sequence[str], units: Sequence[str]) -> LimitRow | None:
    """Return the first limit of these scopes and units of which more is used than it allows."""
    row = tx.one(
        f"{_LIMIT} AND used > cap AND scope IN ({sql_marks(scopes)}) AND unit IN ({sql_marks(units)})"
        " ORDER BY scope, unit LIMIT 1",
        (tenant, *scopes, *units),
    )
    return None if row is None else LimitRow(*row)
