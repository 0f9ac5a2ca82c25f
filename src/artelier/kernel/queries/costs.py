"""Reads of the books of a tenant: what was moved, and who has spent how much on models.

Nothing here moves money. Every answer is bounded. Accounts, sums and limits are in `ledger/queries.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, NamedTuple

import msgspec

from artelier.errors import InvalidRequest
from artelier.kernel.events import BILLING
from artelier.ledger import Posting
from artelier.ledger.queries import PAGE_MAX
from artelier.log import Store, decode_stored

LOOKED_MAX = 100_000
"""Positions of the log that one page of postings looks through."""
LOOKED_AT_ONCE = 5_000
"""Of them, in one query: 100,000 took half a second of the event loop."""
DAY_US = 86_400_000_000

_ACCOUNT_CHARS_MAX = 700


class _Moved(msgspec.Struct, frozen=True):
    """An event that moved money, as far as this needs it."""

    postings: tuple[Posting, ...] = ()
    key: str = ""


class PostingRow(NamedTuple):
    """Money that an event moved from one account to another."""

    position: int
    """Of its event in the log."""
    space: str
    stream: str
    seq: int
    kind: str
    at_us: int
    """In a world the tick."""
    actor: str
    step: str
    """Key of the step of a run; empty for none."""
    source: str
    target: str
    asset: str
    amount: int


class PostingPage(NamedTuple):
    """A page of postings, newest first; those of one event stay together."""

    items: list[PostingRow]
    next: int | None
    """The `before` of the next page, which may be empty and not the last."""


async def postings(
    store: Store,
    tenant: str,
    *,
    run: str | None = None,
    agent: str | None = None,
    account: str | None = None,
    before: int | None = None,
    limit: int = 100,
) -> PostingPage:
    """Return what was moved of one run, one agent's runs or one account.

    One page looks through `LOOKED_MAX` positions.
    """
    limit = max(1, min(limit, PAGE_MAX))
    end = (await store.root())[0] + 1
    end = end if before is None else min(before, end)
    start = max(0, end - LOOKED_MAX)
    # The text narrows what is read; the postings themselves decide below.
    where = "s.tenant = ? AND instr(e.data, '\"postings\"')"
    parameters: list[Any] = [tenant]
    if run is not None:
        where, parameters = f"{where} AND s.name = ?", [*parameters, f"run:{run}"]
    if agent is not None:
        where += " AND s.stream_id IN (SELECT id FROM runs WHERE tenant = ? AND agent = ?)"
        parameters += [tenant, agent]
    if account is not None:
        if len(account) > _ACCOUNT_CHARS_MAX:
            raise InvalidRequest(
                "account", expected=f"at most {_ACCOUNT_CHARS_MAX} characters", got=len(account)
            )
        where, parameters = f"{where} AND instr(e.data, ?)", [*parameters, account]
    select = (
        "SELECT e.position, s.space, s.name, e.seq, e.kind, e.at_us, e.actor, e.data"
        f" FROM event_log e JOIN event_streams s ON s.stream_id = e.stream_id WHERE {where}"
        " AND e.position < ? AND e.position >= ? ORDER BY e.position DESC LIMIT ?"
    )
    rows: list[tuple[Any, ...]] = []
    for upto in range(end, start, -LOOKED_AT_ONCE):
        after = max(start, upto - LOOKED_AT_ONCE)
        rows += await store.query(select, (*parameters, upto, after, limit - len(rows)))
        if len(rows) == limit:
            break
        await asyncio.sleep(0)  # others have their turn
    items: list[PostingRow] = []
    for position, space, stream, seq, kind, at_us, actor, data in rows:
        moved = decode_stored(data, type=_Moved)
        items += [
            PostingRow(
                position=position,
                space=space,
                stream=stream,
                seq=seq,
                kind=kind,
                at_us=at_us,
                actor=actor,
                step=moved.key,
                source=one.source,
                target=one.target,
                asset=one.asset,
                amount=one.amount,
            )
            for one in moved.postings
            if account in (None, one.source, one.target)
        ]
    seen = rows[-1][0] if len(rows) == limit else start
    return PostingPage(items, seen if seen > 1 else None)


_SPENT = (
    "SELECT agent, model, day * ?, count(*), sum(input_tokens), sum(output_tokens), sum(cost) FROM ("
    " SELECT r.agent AS agent, e.at_us / ? AS day,"
    " coalesce(json_extract(q.data, '$.model'), '') AS model,"
    " coalesce(CAST(json_extract(e.data, '$.input_tokens') AS INTEGER), 0) AS input_tokens,"
    " coalesce(CAST(json_extract(e.data, '$.output_tokens') AS INTEGER), 0) AS output_tokens,"
    " coalesce(CAST(json_extract(e.data, '$.cost') AS INTEGER), 0) AS cost"
    " FROM runs r JOIN event_log e ON e.stream_id = r.id AND e.seq > ? AND e.seq <= ?"
    f" AND e.kind IN ({', '.join('?' * len(BILLING))})"
    " LEFT JOIN steps s ON s.run = r.id AND s.key = json_extract(e.data, '$.key')"
    " LEFT JOIN event_log q ON q.stream_id = r.id AND q.seq = s.requested"
    " WHERE r.tenant = ? AND r.id >= ? AND r.id <= ? AND e.at_us >= ?"
    " AND (r.ended_us IS NULL OR r.ended_us >= ?)) AS spent"
    " GROUP BY agent, model, day"
)

RUNS_AT_ONCE = 1_000
EVENTS_AT_ONCE = 10_000
"""Of runs, summed before others have a turn (guess: 10 ms)."""


class SpendingRow(NamedTuple):
    """The spending of one agent on one model in one day."""

    agent: str
    """Empty for runs of no agent."""
    model: str
    """Empty for what tools have cost."""
    day_us: int
    """Beginning of the day, UTC."""
    calls: int
    input_tokens: int
    output_tokens: int
    cost_microusd: int


async def spending(store: Store, tenant: str, *, since_us: int) -> list[SpendingRow]:
    """Return what was spent by agent, model and day, the newest day first.

    Cost: the events of runs that have not ended before `since_us`; others have turns between.
    """
    found: dict[tuple[str, str, int], SpendingRow] = {}
    async for part in _parts(store, tenant, since_us=since_us):
        parameters = (DAY_US, DAY_US, part.after, part.upto, *BILLING)
        within = (tenant, part.first, part.last, since_us, since_us)
        for row in await store.query(_SPENT, (*parameters, *within)):
            one = SpendingRow(*row)
            before = found.get(one[:3])
            found[one[:3]] = one if before is None else _add(before, one)
        await asyncio.sleep(0)
    rows = sorted(found.values(), key=lambda one: (-one.day_us, -one.cost_microusd, one.agent, one.model))
    return rows[:PAGE_MAX]


def _add(before: SpendingRow, more: SpendingRow) -> SpendingRow:
    sums = (a + b for a, b in zip(before[3:], more[3:], strict=True))
    return SpendingRow(*before[:3], *sums)


class _RunRange(NamedTuple):
    """Events of neighbouring runs, or a stretch of a long one."""

    first: int
    last: int
    after: int = 0
    upto: int = 2**53


async def _parts(store: Store, tenant: str, *, since_us: int) -> AsyncIterator[_RunRange]:
    """Yield parts of at most `EVENTS_AT_ONCE` events."""
    last = 0
    while rows := await store.query(
        "SELECT r.id, (SELECT max(seq) FROM event_log e WHERE e.stream_id = r.id) FROM runs r"
        " WHERE r.tenant = ? AND r.id > ? AND (r.ended_us IS NULL OR r.ended_us >= ?) ORDER BY r.id LIMIT ?",
        (tenant, last, since_us, RUNS_AT_ONCE),
    ):
        first, events = rows[0][0], 0
        for run, seq in rows:
            if events and events + seq > EVENTS_AT_ONCE:
                yield _RunRange(first, last)
                first, events = run, 0
            last, events = run, events + seq
            if seq > EVENTS_AT_ONCE:
                for after in range(0, seq, EVENTS_AT_ONCE):
                    yield _RunRange(run, run, after, after + EVENTS_AT_ONCE)
                first, events = run + 1, 0
        if events:
            yield _RunRange(first, last)
