"""Reads of the runs of one agent: which of them is at work, and what was said, lost and recorded in them."""

from __future__ import annotations

from typing import NamedTuple

from artelier.log import Store, Tx
from artelier.log.queries import newest_events

KIN = "(agent = ? OR substr(agent, 1, ?) = ?)"
"""In SQL: an agent or one of its sub-agents. Parameters: `kin_of`."""

_DRIVEN = (
    "SELECT r.run FROM runs r JOIN held_leases l"
    " ON l.stream = r.tenant || '/main/run:' || r.run"
    " WHERE r.tenant = ? AND r.agent = ? AND l.expires_us > ? LIMIT 1"
)


def kin_of(agent: str) -> tuple[str, int, str]:
    """Return the parameters of `KIN`."""
    return agent, len(agent) + 1, f"{agent}/"


async def driven_run(store: Store, tenant: str, agent: str, *, now_us: int) -> str | None:
    """Return a run of an agent that some process drives now."""
    rows = await store.query(_DRIVEN, (tenant, agent, now_us))
    return rows[0][0] if rows else None


def driven_run_in(tx: Tx, tenant: str, agent: str, *, now_us: int) -> str | None:
    """Return the same as `driven_run`, in a transaction."""
    row = tx.one(_DRIVEN, (tenant, agent, now_us))
    return row[0] if row else None


async def has_runs(store: Store, tenant: str, agent: str) -> bool:
    """Return True if a store holds a run of an agent."""
    return bool(
        await store.query("SELECT 1 FROM runs WHERE tenant = ? AND agent = ? LIMIT 1", (tenant, agent))
    )


class CompactionRow(NamedTuple):
    """The receipt of a compaction."""

    stream_id: int
    run: str
    data: str


async def newest_compactions(
    store: Store, tenant: str, agent: str, *, after: int, runs: int, limit: int
) -> list[CompactionRow]:
    """Return compactions in the newest `runs` of an agent, newest first, behind a position.

    Cost: the events of those runs.
    """
    newest = await store.query(
        "SELECT id, run FROM runs WHERE tenant = ? AND agent = ? ORDER BY id DESC LIMIT ?",
        (tenant, agent, runs),
    )
    names: dict[int, str] = dict(newest)
    found = await newest_events(store, list(names), "context.compacted", after=after, limit=limit)
    return [CompactionRow(stream_id, names[stream_id], event.data) for stream_id, event in found]


class SpokenRun(NamedTuple):
    """A run whose messages can be searched: `status`, `steps` or `control_seq` change with what is said."""

    id: int
    run: str
    goal: str | None
    result: str | None
    status: str
    steps: int
    control_seq: int


async def spoken_runs(
    store: Store, tenant: str, agent: str, *, subject: int | None, limit: int
) -> list[SpokenRun]:
    """Return the newest runs of an agent, newest first.

    Shapes: `subject` is a row of `keys`: then runs about other subjects are left out; None for all runs.
    """
    # Of an imported run, the key is a row in the store that it came from.
    rows = await store.query(
        f"SELECT {', '.join(SpokenRun._fields)} FROM runs r WHERE tenant = ? AND agent = ?"
        " AND (? IS NULL OR NOT EXISTS (SELECT 1 FROM keyed k WHERE k.run = r.id AND (k.key_id <> ? OR EXISTS"
        " (SELECT 1 FROM imports i WHERE i.tenant = r.tenant AND i.run = r.run))))"
        " ORDER BY id DESC LIMIT ?",
        (tenant, agent, subject, subject, limit),
    )
    return [SpokenRun(*row) for row in rows]


async def origin_before(store: Store, stream_id: int) -> int | None:
    """Return the row of the run that a run was forked from; None for one that was not, or is older."""
    rows = await store.query(
        "SELECT o.id FROM runs r JOIN runs o ON o.tenant = r.tenant AND o.run = r.origin"
        " WHERE r.id = ? AND o.id < r.id",
        (stream_id,),
    )
    return rows[0][0] if rows else None
