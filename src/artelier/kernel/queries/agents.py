"""Reads of the runs of one agent: which of them is at work, and what was said, lost and recorded in them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from artelier.log import Store, Tx
from artelier.log.queries import EventRow, events_at, newest_events, stored_keys, streams_begun

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


class AgentUsage(NamedTuple):
    """The runs that an agent has had, and what they cost."""

    agent: str
    runs: int
    cost_microusd: int
    last_run: str
    last_us: int
    """Start of the run that was started last."""


async def agent_usage(
    store: Store, tenant: str, *, after: str = "", below: str = "", limit: int
) -> list[AgentUsage]:
    """Return the agents that have runs, by id: those behind `after`, with a name that begins with `below`."""
    condition = "agent > ? AND substr(agent, 1, ?) = ?"
    return await _usage(store, tenant, condition, (after, len(below), below), limit=limit)


async def usage_of(store: Store, tenant: str, agent: str) -> AgentUsage | None:
    """Return the usage of one agent; None if it has had no run."""
    found = await _usage(store, tenant, "agent = ?", (agent,), limit=1)
    return found[0] if found else None


async def _usage(
    store: Store, tenant: str, condition: str, values: Sequence[str | int], *, limit: int
) -> list[AgentUsage]:
    rows = await store.query(
        "SELECT agent, runs, cost, (SELECT l.run FROM runs l WHERE l.id = newest), last_us FROM"
        " (SELECT agent, count(*) AS runs, sum(cost) AS cost, max(id) AS newest, max(started_us) AS last_us"
        f" FROM runs WHERE tenant = ? AND agent <> '' AND {condition} GROUP BY agent ORDER BY agent LIMIT ?)",
        (tenant, *values, limit),
    )
    return [AgentUsage(*row) for row in rows]


class LoopSettings(NamedTuple):
    """What a run of a built-in loop was started with, as references."""

    settings: str
    tools: str | None


async def newest_settings(store: Store, tenant: str, agent: str, loop: str) -> LoopSettings | None:
    """Return the settings and the tools of the newest run of an agent in a loop."""
    rows = await store.query(
        "SELECT settings, tools FROM runs WHERE tenant = ? AND agent = ? AND loop = ?"
        " AND settings IS NOT NULL ORDER BY id DESC LIMIT 1",
        (tenant, agent, loop),
    )
    return LoopSettings(*rows[0]) if rows else None


async def newest_outcome_like(store: Store, tenant: str, agent: str, pattern: str) -> EventRow | None:
    """Return the outcome of the newest step, of the newest run, whose key matches a pattern of LIKE."""
    rows = await store.query(
        "SELECT s.run, s.completed FROM steps s JOIN runs r ON r.id = s.run"
        " WHERE r.tenant = ? AND r.agent = ? AND s.key LIKE ? AND s.completed IS NOT NULL"
        " ORDER BY r.id DESC, s.completed DESC LIMIT 1",
        (tenant, agent, pattern),
    )
    if not rows:
        return None
    stream_id, seq = rows[0]
    return (await events_at(store, stream_id, [seq])).get(seq)


# An agent and its sub-agents


_KIN_RUN = f"SELECT run FROM runs WHERE tenant = ? AND {KIN} LIMIT 1"


async def kin_run(store: Store, tenant: str, agent: str) -> str | None:
    """Return a run of an agent or one of its sub-agents."""
    rows = await store.query(_KIN_RUN, (tenant, *kin_of(agent)))
    return rows[0][0] if rows else None


def kin_run_in(tx: Tx, tenant: str, agent: str) -> str | None:
    """Return the same as `kin_run`, in a transaction."""
    row = tx.one(_KIN_RUN, (tenant, *kin_of(agent)))
    return row[0] if row else None


async def kin_runs(store: Store, tenant: str, agent: str, *, upto: int) -> list[str]:
    """Return the runs of an agent and its sub-agents that had begun at a position, oldest first.

    Those whose key was destroyed are left out; of an imported run, the key is a row in the store that it
    came from.
    """
    rows = await store.query(
        "SELECT r.id, r.run, (SELECT k.key_id FROM keyed k WHERE k.run = r.id AND NOT EXISTS"
        "  (SELECT 1 FROM imports i WHERE i.tenant = r.tenant AND i.run = r.run))"
        f" FROM runs r WHERE r.tenant = ? AND {KIN} ORDER BY r.id",
        (tenant, *kin_of(agent)),
    )
    begun = await streams_begun(store, [row[0] for row in rows], upto=upto)
    keys = await stored_keys(store, sorted({row[2] for row in rows if row[2] is not None}))
    return [run for id_, run, key in rows if id_ in begun and (key is None or key in keys)]
