"""Pages of an agent's numbered runs, in the order of their last changes of status, the newest first.

A page is found through two indexes of the view, which `kernel/view.py` makes in the words of this module.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from artelier.kernel.queries.runs import SELECT_RUN, RunRow
from artelier.log import Store

NUMBERED = f"run GLOB '*/{'[0-9]' * 6}'"
"""Of runs of a conversation, `<name>/000001` and on, for SQL: the condition of both indexes."""

CONVERSATION = "rtrim(run, '0123456789')"
"""Of such runs: the name of the conversation and its slash."""

COUNTED_MAX = 100_000
"""Runs that are counted beside a page: 15 ms."""


class Place(NamedTuple):
    """A run's place in the order: the time of its status, and its row."""

    status_us: int
    id: int


class RunPage(NamedTuple):
    """Runs, those first whose status changed last."""

    rows: list[RunRow]
    total: int
    """Of all pages, up to `COUNTED_MAX`."""
    next: Place | None
    """`behind` of the next page; None behind the last."""


async def runs_by_status_time(
    store: Store,
    tenant: str,
    *,
    agent: str,
    prefix: str,
    conversation: str | None = None,
    statuses: Sequence[str],
    since_us: int | None = None,
    behind: Place | None = None,
    limit: int,
) -> RunPage:
    """Return a page of the runs of an agent that have these statuses, and ids that begin with a prefix.

    `conversation`: the name of one, without its slash; None for all. `since_us`: statuses since then.
    A run whose status changes while somebody pages goes to the front: no page shows it twice.
    Cost: O(limit) for each status, and the count.
    """
    # SQLite, which knows nothing of how many there are, would go through all of the tenant's by their ids.
    index = "runs_by_status_time" if conversation is None else "runs_of_conversation"
    where = f"INDEXED BY {index} WHERE tenant = ? AND agent = ? AND {NUMBERED} AND run > ? AND run < ?"
    given: list[str | int] = [tenant, agent, prefix, prefix[:-1] + chr(ord(prefix[-1]) + 1)]
    if conversation is not None:
        where, given = f"{where} AND {CONVERSATION} = ?", [*given, f"{conversation}/"]
    if since_us is not None:
        where, given = f"{where} AND status_us >= ?", [*given, since_us]
    counted = f"status IN ({', '.join('?' * len(statuses))}) LIMIT {COUNTED_MAX}"
    [[total]] = await store.query(
        f"SELECT count(*) FROM (SELECT 1 FROM runs {where} AND {counted}) AS counted", [*given, *statuses]
    )
    if behind is not None:
        where, given = f"{where} AND (status_us, id) < (?, ?)", [*given, *behind]
    order = "ORDER BY status_us DESC, id DESC LIMIT ?"
    # One ordered piece for each status: the index has them in this order, and none is read beyond a page.
    piece = f"SELECT * FROM (SELECT id, status_us FROM runs {where} AND status = ? {order}) AS piece"
    found = await store.query(
        f"{SELECT_RUN} WHERE id IN (SELECT id FROM ({' UNION ALL '.join([piece] * len(statuses))}) AS pieces"
        f" {order}) {order}",
        [*(value for status in statuses for value in (*given, status, limit + 1)), limit + 1, limit + 1],
    )
    rows = [RunRow(*row) for row in found[:limit]]
    return RunPage(rows, int(total), Place(rows[-1].status_us, rows[-1].id) if len(found) > limit else None)
