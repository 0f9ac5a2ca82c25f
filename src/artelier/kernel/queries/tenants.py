"""Reads of tenants (grants, rates, patterns, data subjects, erasures), and of the runs of one agent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from artelier.log import Store, Tx
from artelier.log.queries import EventRow, events_at, newest_events, sql_marks, stored_keys, streams_begun

# --------------------------------------------------------------------------- tenants
# Reads of tenants: grants, rates, patterns, the keys of data subjects, erasures.


class TenantRow(NamedTuple):
    """A tenant as the view has it."""

    grants: str
    """JSON."""
    budget: int | None
    allow_unknown_price: int


async def find_tenant(store: Store, tenant: str) -> TenantRow | None:
    """Return a tenant; None if there is none."""
    rows = await store.query(
        "SELECT grants, budget, allow_unknown_price FROM tenants WHERE tenant = ?", (tenant,)
    )
    return TenantRow(*rows[0]) if rows else None


def has_budget(tx: Tx, tenant: str) -> bool:
    """Return True if a tenant has a budget, in a transaction."""
    return tx.one("SELECT 1 FROM tenants WHERE tenant = ? AND budget IS NOT NULL", (tenant,)) is not None


async def tenant_ids(store: Store, *, limit: int = -1) -> list[str]:
    """Return the tenants of the store, sorted; with `limit`, that many of the first."""
    rows = await store.query("SELECT tenant FROM tenants ORDER BY tenant LIMIT ?", (limit,))
    return [tenant for (tenant,) in rows]


class RateRow(NamedTuple):
    """A rate of a tenant for a provider or a pattern of models."""

    name: str
    """A provider such as `openai`, or a pattern such as `openai:gpt-5*`."""
    requests: int | None
    """In any minute."""
    tokens: int | None
    """In any minute, input and output."""


async def rates_of(store: Store, tenant: str) -> list[RateRow]:
    """Return the rates of a tenant by name."""
    rows = await store.query(
        "SELECT name, requests, tokens FROM tenant_rates WHERE tenant = ? ORDER BY name", (tenant,)
    )
    return [RateRow(*row) for row in rows]


def patterns_of(store: Store, tenant: str) -> list[tuple[str, str]]:
    """Return `(kind, expression)` of what is looked for in a tenant's texts.

    It is read when a run is opened, so that what an administrator added holds for the next run everywhere.
    """
    rows = store.look(
        "SELECT kind, expression FROM tenant_patterns WHERE tenant = ? ORDER BY kind", (tenant,)
    )
    return [(kind, expression) for kind, expression in rows]


# Data subjects

_KEYED = (
    "FROM keyed k JOIN runs r ON r.id = k.run WHERE r.tenant = ?"
    # Of an imported run, the number is a row in the store that it came from.
    " AND NOT EXISTS (SELECT 1 FROM imports i WHERE i.tenant = r.tenant AND i.run = r.run)"
)


async def run_key(store: Store, tenant: str, run_id: str) -> int | None:
    """Return the row in `keys` of the subject's key that a run stores under; None if it has no subject."""
    rows = await store.query(f"SELECT k.key_id {_KEYED} AND r.run = ?", (tenant, run_id))
    return rows[0][0] if rows else None


def is_keyed(tx: Tx, tenant: str, run_id: str, keys: Sequence[int]) -> bool:
    """Return True if a run stores under one of these keys."""
    row = tx.one(f"SELECT k.key_id {_KEYED} AND r.run = ?", (tenant, run_id))
    return row is not None and row[0] in keys


async def runs_keyed(store: Store, tenant: str, keys: Sequence[int], *, limit: int) -> list[str]:
    """Return the runs that store under one of these keys, by id."""
    rows = await store.query(
        f"SELECT r.run {_KEYED} AND k.key_id IN ({sql_marks(keys)}) ORDER BY r.run LIMIT ?",
        (tenant, *keys, limit),
    )
    return [run for (run,) in rows]


async def imported_key(store: Store, tenant: str, run_ids: Sequence[str]) -> tuple[int | None] | None:
    """Return the key that an import brought with one of these runs; None if none was imported."""
    rows = await store.query(
        f"SELECT key_id FROM imports WHERE tenant = ? AND run IN ({sql_marks(run_ids)}) LIMIT 1",
        (tenant, *run_ids),
    )
    return (rows[0][0],) if rows else None


async def own_key(store: Store, stream_id: int) -> int | None:
    """Return the key of a subject that a run was begun with."""
    rows = await store.query("SELECT key_id FROM keyed WHERE run = ?", (stream_id,))
    return rows[0][0] if rows else None


async def received_alone(store: Store, tenant: str, keys: Sequence[int]) -> list[str]:
    """Return the placeholders that only runs under these keys were ever shown."""
    if not keys:
        return []
    mine = f"SELECT k.run {_KEYED} AND k.key_id IN ({sql_marks(keys)})"
    rows = await store.query(
        "SELECT DISTINCT p.placeholder FROM received p JOIN runs r ON r.id = p.run"
        f" WHERE r.tenant = ? AND p.run IN ({mine}) AND NOT EXISTS (SELECT 1 FROM received o"
        f" JOIN runs q ON q.id = o.run WHERE o.placeholder = p.placeholder AND q.tenant = ?"
        f" AND o.run NOT IN ({mine}))",
        (tenant, tenant, *keys, tenant, tenant, *keys),
    )
    return [placeholder for (placeholder,) in rows]


_FAMILY = (
    "WITH RECURSIVE family(run) AS (SELECT ? UNION"
    " SELECT coalesce(r.parent, r.origin) FROM runs r JOIN family f ON r.run = f.run"
    " WHERE r.tenant = ? AND coalesce(r.parent, r.origin) IS NOT NULL)"
    " SELECT {} FROM family f JOIN runs r ON r.run = f.run AND r.tenant = ?"
)
_ASKED_AT_ONCE = 500
"""Placeholders that one statement asks for."""


def received_of(store: Store, tenant: str, run_id: str, placeholders: Sequence[str]) -> set[str]:
    """Return those of these placeholders that a run received, or one that it comes from: its parents, its
    origins.
    """
    found = set[str]()
    for start in range(0, len(placeholders), _ASKED_AT_ONCE):
        some = placeholders[start : start + _ASKED_AT_ONCE]
        rows = store.look(
            f"{_FAMILY.format('DISTINCT p.placeholder')} JOIN received p ON p.run = r.id"
            f" WHERE p.placeholder IN ({sql_marks(some)})"
            # What a file says that an imported run has received proves nothing here.
            " AND NOT EXISTS (SELECT 1 FROM imports i WHERE i.tenant = r.tenant AND i.run = r.run)",
            (run_id, tenant, tenant, *some),
        )
        found.update(placeholder for (placeholder,) in rows)
    return found


def has_said(store: Store, tenant: str, run_id: str, text: str) -> bool:
    """Return True if an event of a run has a text, or one of a run that it comes from."""
    rows = store.look(
        f"{_FAMILY.format('1')} JOIN event_log e ON e.stream_id = r.id WHERE instr(e.data, ?) > 0 LIMIT 1",
        (run_id, tenant, tenant, text),
    )
    return bool(rows)


# Erasures


async def is_erased_since_begin(store: Store, tenant: str, stream_id: int) -> bool:
    """Return True if the whole tenant was erased after a run began."""
    begun = (await events_at(store, stream_id, [1])).get(1)
    rows = begun and await store.query(
        "SELECT 1 FROM erasures WHERE tenant = ? AND whole = 1 AND position > ? LIMIT 1",
        (tenant, begun.position),
    )
    return bool(rows)


async def erasures_of(store: Store, tenant: str, *, whole: bool, what: str) -> list[EventRow]:
    """Return the events of the erasures of a whole tenant, or of a subject by its keyed hash."""
    rows = await store.query(
        "SELECT e.seq, e.position, e.kind, e.version, e.at_us, e.actor, e.cause, e.data FROM erasures g"
        " JOIN event_log e ON e.position = g.position WHERE g.tenant = ? AND g.whole = ? AND g.what = ?",
        (tenant, whole, what),
    )
    return [EventRow(*row) for row in rows]


# --------------------------------------------------------------------------- agents
# Reads of the runs of one agent: which of them is at work, and what was said, lost and recorded in them.

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
        " AND (CAST(? AS INTEGER) IS NULL OR NOT EXISTS (SELECT 1 FROM keyed k WHERE k.run = r.id"
        " AND (k.key_id <> ? OR EXISTS"
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
    rows = await store.survey(
        "SELECT agent, runs, cost, (SELECT l.run FROM runs l WHERE l.id = newest), last_us FROM"
        " (SELECT agent, count(*) AS runs, sum(cost) AS cost, max(id) AS newest, max(started_us) AS last_us"
        f" FROM runs WHERE tenant = ? AND agent <> '' AND {condition} GROUP BY agent ORDER BY agent LIMIT ?)",
        (tenant, *values, limit),
    )
    return [AgentUsage(*row) for row in rows]


class LoopSettings(NamedTuple):
    """The settings that a run of a built-in loop was started with, as references."""

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
