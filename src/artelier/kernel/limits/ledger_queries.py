"""The books of a tenant: accounts, sums, limits, postings, and who has spent how much on models.

Read-only queries of views and events; nothing here moves money. Every answer is bounded.
"""

from __future__ import annotations

from typing import Any

import msgspec

from artelier.errors import InvalidRequest
from artelier.kernel.events import BILLING
from artelier.ledger import Posting, may_owe
from artelier.log import Store, decode_stored

PAGE_MAX = 1_000
LOOKED_MAX = 100_000
"""Positions of the log that one page of postings looks through."""
DAY_US = 86_400_000_000

_ACCOUNT_CHARS_MAX = 700


async def accounts(
    store: Store,
    tenant: str,
    *,
    space: str | None = None,
    asset: str | None = None,
    after: str = "",
    limit: int = 100,
) -> dict[str, Any]:
    """`{items: [{space, account, asset, balance}], next}`, by space, account and asset.

    Units: `balance` in the asset's smallest unit; negative for sources and mints, by what they have issued.
    Errors: `InvalidRequest` for an `after` that is no `next`.
    """
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
    items = [_row_as_dict(("space", "account", "asset", "balance"), row) for row in rows[:limit]]
    return {"items": items, "next": "|".join(rows[limit - 1][:3]) if len(rows) > limit else None}


async def sums(store: Store, tenant: str) -> list[dict[str, Any]]:
    """`{space, asset, accounts, sum, issued}` of each asset. `sum` is zero, or money was made from nothing.

    `issued` is what sources and mints have put into circulation.
    """
    rows = await store.query(
        "SELECT space, asset, account, balance FROM accounts WHERE tenant = ?", (tenant,)
    )
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for space, asset, account, balance in rows:
        one = found.setdefault(
            (space, asset), {"space": space, "asset": asset, "accounts": 0, "sum": 0, "issued": 0}
        )
        one["accounts"] += 1
        one["sum"] += balance
        if may_owe(account):
            one["issued"] -= balance
    return [found[key] for key in sorted(found)]


async def limits(store: Store, tenant: str, *, scope: str) -> list[dict[str, Any]]:
    """`{scope, unit, cap, reserved, used}` of a scope such as `tenant` or `run:<id>`; `cap` None is none."""
    names = ("scope", "unit", "cap", "reserved", "used")
    rows = await store.query(
        f"SELECT {', '.join(names)} FROM limits WHERE tenant = ? AND scope = ? ORDER BY unit", (tenant, scope)
    )
    return [_row_as_dict(names, row) for row in rows]


class _Moved(msgspec.Struct, frozen=True):
    """An event that moved money, as far as this needs it."""

    postings: tuple[Posting, ...] = ()
    key: str = ""


async def postings(
    store: Store,
    tenant: str,
    *,
    run: str | None = None,
    agent: str | None = None,
    account: str | None = None,
    before: int | None = None,
    limit: int = 100,
) -> dict[str, Any]:
    """`{items, next}`: what was moved, newest first, of one run, one agent's runs or one account.

    Shapes: items are `{position, space, stream, seq, kind, at_us, actor, step}` of the event with
    `{source, target, asset, amount}`; those of one event stay together. `next` is the `before` of the next
    page, which may be empty and not the last: one page looks through `LOOKED_MAX` positions.
    """
    limit = max(1, min(limit, PAGE_MAX))
    end = (await store.root())[0] + 1
    end = end if before is None else min(before, end)
    start = max(0, end - LOOKED_MAX)
    # The text narrows what is read; the postings themselves decide below.
    where = "s.tenant = ? AND e.position < ? AND e.position >= ? AND instr(e.data, '\"postings\"')"
    parameters: list[Any] = [tenant, end, start]
    if run is not None:
        where, parameters = f"{where} AND s.name = ?", [*parameters, f"run:{run}"]
    if agent is not None:
        where += " AND s.id IN (SELECT id FROM runs WHERE tenant = ? AND agent = ?)"
        parameters += [tenant, agent]
    if account is not None:
        if len(account) > _ACCOUNT_CHARS_MAX:
            raise InvalidRequest(
                "account", expected=f"at most {_ACCOUNT_CHARS_MAX} characters", got=len(account)
            )
        where, parameters = f"{where} AND instr(e.data, ?)", [*parameters, account]
    rows = await store.query(
        "SELECT e.position, s.space, s.name, e.seq, e.kind, e.at_us, e.actor, e.data"
        f" FROM events e JOIN streams s ON s.id = e.stream WHERE {where}"
        " ORDER BY e.position DESC LIMIT ?",
        (*parameters, limit),
    )
    items = [posting for row in rows for posting in _posting_rows(row, account)]
    seen = rows[-1][0] if len(rows) == limit else start
    return {"items": items, "next": seen if seen > 1 else None}


def _posting_rows(row: tuple[Any, ...], account: str | None) -> list[dict[str, Any]]:
    names = ("position", "space", "stream", "seq", "kind", "at_us", "actor")
    moved = decode_stored(row[-1], type=_Moved)
    return [
        {**_row_as_dict(names, row), "step": moved.key, **msgspec.structs.asdict(one)}
        for one in moved.postings
        if account in (None, one.source, one.target)
    ]


_SPENT = (
    "SELECT agent, model, day, count(*), sum(input_tokens), sum(output_tokens), sum(cost) FROM ("
    " SELECT r.agent AS agent, e.at_us / ? AS day,"
    " coalesce(json_extract(q.data, '$.model'), '') AS model,"
    " coalesce(json_extract(e.data, '$.input_tokens'), 0) AS input_tokens,"
    " coalesce(json_extract(e.data, '$.output_tokens'), 0) AS output_tokens,"
    " coalesce(json_extract(e.data, '$.cost'), 0) AS cost"
    " FROM runs r JOIN events e ON e.stream = r.id"
    f" AND e.kind IN ({', '.join('?' * len(BILLING))})"
    " LEFT JOIN steps s ON s.run = r.id AND s.key = json_extract(e.data, '$.key')"
    " LEFT JOIN events q ON q.stream = r.id AND q.seq = s.requested"
    " WHERE r.tenant = ? AND e.at_us >= ? AND (r.ended_us IS NULL OR r.ended_us >= ?))"
    " GROUP BY agent, model, day ORDER BY day DESC, sum(cost) DESC, agent, model LIMIT ?"
)


async def spending(
    store: Store, tenant: str, *, since_us: int, limit: int = PAGE_MAX
) -> list[dict[str, Any]]:
    """`{agent, model, day_us, calls, input_tokens, output_tokens, cost_microusd}`, the newest day first.

    `model` is empty for what tools have cost, `agent` for runs of nobody. `day_us` is the beginning of a day
    in UTC. Cost: the events of runs that have not ended before `since_us`.
    """
    rows = await store.query(
        _SPENT, (DAY_US, *BILLING, tenant, since_us, since_us, max(1, min(limit, PAGE_MAX)))
    )
    names = ("agent", "model", "day_us", "calls", "input_tokens", "output_tokens", "cost_microusd")
    return [{**(one := _row_as_dict(names, row)), "day_us": one["day_us"] * DAY_US} for row in rows]


def _row_as_dict(names: tuple[str, ...], row: tuple[Any, ...]) -> dict[str, Any]:
    return dict(zip(names, row, strict=False))
