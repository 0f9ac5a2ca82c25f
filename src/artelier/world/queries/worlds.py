"""Reads of worlds, their agents, their events and their memory stores."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from artelier.log import Store, Stream, Tx
from artelier.log.queries import Look, fetch_all, fetch_column, fetch_first, fetch_value, sql_marks
from artelier.world.agent import WorldAgentRow
from artelier.world.events import Ancestor, WorldStatus, world_space


class WorldRow(msgspec.Struct, frozen=True):
    """A world as the view has it."""

    id: str
    tick: int
    """That passed last; 0 before the first."""
    seed: int
    config: str
    """A reference to the JSON of its settings."""
    paused: bool
    parent: str | None
    """The world that it is a fork of."""
    forked_at: int | None

    @property
    def status(self) -> WorldStatus:
        return WorldStatus.of(paused=self.paused)

    def __getitem__(self, name: str) -> str | int | None:
        """Return a field by name, as when `World.row` returned a dict. Deprecated."""
        if name not in self.__struct_fields__:
            raise KeyError(name)
        warnings.warn(f'row["{name}"] of a world is now row.{name}', DeprecationWarning, stacklevel=2)
        return getattr(self, name)


class ListedWorld(msgspec.Struct, frozen=True):
    """A world of a list, with how many agents act in it."""

    id: str
    tick: int
    """That passed last; 0 before the first."""
    seed: int
    paused: bool
    parent: str | None
    """The world that it is a fork of."""
    forked_at: int | None
    agents: int


def _with_bool(row: tuple[Any, ...], place: int) -> tuple[Any, ...]:
    """Return a row with the number at one place as a truth value; None stays."""
    value = row[place]
    return (*row[:place], None if value is None else bool(value), *row[place + 1 :])


_IS_WHOLE = (
    "NOT EXISTS (SELECT 1 FROM world_ancestors c WHERE c.tenant = w.tenant AND c.id = w.id AND c.n = -1)"
)
"""Not a fork whose history is still being copied."""


async def find_world(store: Store, tenant: str, world: str) -> WorldRow | None:
    """Return a world; None if there is none."""
    rows = await store.query(
        "SELECT id, tick, seed, config, paused, parent, forked_at FROM worlds w"
        f" WHERE tenant = ? AND id = ? AND {_IS_WHOLE}",
        (tenant, world),
    )
    return WorldRow(*_with_bool(rows[0], 4)) if rows else None


async def listed_worlds(store: Store, tenant: str) -> list[ListedWorld]:
    """Return the worlds of a tenant, by id."""
    rows = await store.query(
        "SELECT w.id, w.tick, w.seed, w.paused, w.parent, w.forked_at,"
        " (SELECT COUNT(*) FROM world_agents a WHERE a.tenant = w.tenant"
        " AND a.space = 'world:' || w.id AND a.active = 1)"
        f" FROM worlds w WHERE w.tenant = ? AND {_IS_WHOLE} ORDER BY w.id",
        (tenant,),
    )
    return [ListedWorld(*_with_bool(row, 3)) for row in rows]


def look_up_tick(look: Look, tenant: str, world: str) -> int:
    """Return the tick that a world passed last; 0 for none, and for no world. Does not wait."""
    rows = look("SELECT tick FROM worlds WHERE tenant = ? AND id = ?", (tenant, world))
    return rows[0][0] if rows else 0


async def count_forks(store: Store, tenant: str, world: str) -> int:
    """Return how many worlds are called like forks of a world, `<world>.fork-<n>`."""
    return await fetch_value(
        store,
        "SELECT count(*) FROM worlds WHERE tenant = ? AND id > ? AND id < ?",
        (tenant, f"{world}.fork-", f"{world}.fork-:"),
    )


async def unfinished_fork(store: Store, tenant: str, world: str) -> Ancestor | None:
    """Return the origin of a fork whose history is still being copied; None for others."""
    return await fetch_first(
        store,
        Ancestor,
        "SELECT ancestor, tick FROM world_ancestors WHERE tenant = ? AND id = ? AND n = -1",
        (tenant, world),
    )


async def unfinished_forks(store: Store, tenant: str) -> list[tuple[str, Ancestor]]:
    """Return forks whose history is still being copied, or whose copying was cut off, with their origin."""
    rows = await store.query(
        "SELECT id, ancestor, tick FROM world_ancestors WHERE tenant = ? AND n = -1 ORDER BY id", (tenant,)
    )
    return [(id_, Ancestor(world, tick)) for id_, world, tick in rows]


async def ancestors(store: Store, tenant: str, world: str) -> tuple[Ancestor, ...]:
    """Return the worlds whose history this one shares, the nearest first."""
    rows = await store.query(
        "SELECT ancestor, tick FROM world_ancestors WHERE tenant = ? AND id = ? AND n >= 0 ORDER BY n",
        (tenant, world),
    )
    return tuple(Ancestor(name, tick) for name, tick in rows)


# Agents


class AgentStanding(msgspec.Struct, frozen=True):
    """An agent that acts, with its money and how much it owns."""

    id: str
    balance: int
    owns: int
    """Artifacts."""
    state: str | None
    """Of its workflow; None without one."""
    ticks_in_state: int
    failures: int
    last_tick: int | None
    last_action: str | None
    last_ok: bool | None
    last_source: str | None
    """The source of the decision: a policy, a reflex, a workflow, a model."""


class JoinedAgent(NamedTuple):
    """An agent that acts in a world, or once did."""

    agent: str
    state: str | None
    active: bool


async def agent_rows(store: Store, tenant: str, space: str) -> list[WorldAgentRow]:
    """Return the agents that act, in the order in which they joined."""
    rows = await store.query(
        "SELECT agent, n, state, ticks_in_state, failures, last_tick, last_action, last_ok,"
        " last_result, last_source FROM world_agents"
        " WHERE tenant = ? AND space = ? AND active = 1 ORDER BY n, agent",
        (tenant, space),
    )
    return [WorldAgentRow(*_with_bool(row, 7)) for row in rows]


async def agent_standings(store: Store, tenant: str, space: str) -> list[AgentStanding]:
    """Return the agents that act, the richest first."""
    rows = await store.query(
        "SELECT g.agent, COALESCE(c.balance, 0) AS money,"
        " (SELECT COUNT(*) FROM artifact_heads a WHERE a.tenant = g.tenant AND a.space = g.space"
        " AND a.owner = g.agent AND a.deleted = 0),"
        " g.state, g.ticks_in_state, g.failures, g.last_tick, g.last_action, g.last_ok, g.last_source"
        " FROM world_agents g LEFT JOIN account_balances c ON c.tenant = g.tenant AND c.space = g.space"
        " AND c.account = 'principal:' || g.agent AND c.asset = 'scrip'"
        " WHERE g.tenant = ? AND g.space = ? AND g.active = 1 ORDER BY money DESC, g.n",
        (tenant, space),
    )
    return [AgentStanding(*_with_bool(row, 8)) for row in rows]


async def joined_agents(store: Store, tenant: str, space: str) -> list[JoinedAgent]:
    """Return all agents that ever joined, in the order in which they first did."""
    rows = await store.query(
        "SELECT agent, state, active FROM world_agents WHERE tenant = ? AND space = ? ORDER BY n",
        (tenant, space),
    )
    return [JoinedAgent(agent, state, bool(active)) for agent, state, active in rows]


async def has_joined(store: Store, tenant: str, space: str, agent: str) -> bool:
    """Return True if a principal is an agent of a world, or was one."""
    return bool(
        await store.query(
            "SELECT 1 FROM world_agents WHERE tenant = ? AND space = ? AND agent = ?", (tenant, space, agent)
        )
    )


def active_among(tx: Tx, tenant: str, space: str, agents: Sequence[str]) -> list[str]:
    """Return those of some principals that are agents of a world now, in a transaction."""
    rows = tx.execute(
        "SELECT agent FROM world_agents WHERE tenant = ? AND space = ? AND active = 1"
        f" AND agent IN ({sql_marks(agents)}) ORDER BY agent",
        (tenant, space, *agents),
    )
    return [agent for (agent,) in rows.fetchall()]


async def count_agents(store: Store, tenant: str, space: str, *, active: bool) -> int:
    """Return how many agents act, or do so no longer."""
    return await fetch_value(
        store,
        "SELECT COUNT(*) FROM world_agents WHERE tenant = ? AND space = ? AND active = ?",
        (tenant, space, int(active)),
    )


class UsageRow(NamedTuple):
    """The model calls of an agent over some ticks."""

    agent: str
    calls: int
    tokens: int


async def usage_after(store: Store, tenant: str, space: str, *, tick: int) -> list[UsageRow]:
    """Return what agents have asked of models after a tick. Cost: the ticks after it."""
    return await fetch_all(
        store,
        UsageRow,
        "SELECT agent, SUM(calls), SUM(tokens) FROM world_usage"
        " WHERE tenant = ? AND space = ? AND tick > ? GROUP BY agent",
        (tenant, space, tick),
    )


class InboxRow(NamedTuple):
    """A message or news that an agent sees; an empty agent stands for all of them."""

    agent: str
    sender: str
    text: str
    """A reference."""


async def inbox_of(store: Store, tenant: str, space: str, *, tick: int) -> list[InboxRow]:
    """Return what was sent in a tick, in order."""
    return await fetch_all(
        store,
        InboxRow,
        "SELECT agent, sender, text FROM world_inbox WHERE tenant = ? AND space = ? AND tick = ? ORDER BY n",
        (tenant, space, tick),
    )


# Money and checkpoints


class Checkpoint(NamedTuple):
    """The state at the end of a tick."""

    tick: int
    seq: int
    """Of its `tick.passed` in the world's own stream."""
    money: dict[str, int]
    """Scrip by account."""
    agents: dict[str, bool]
    """All who had joined, in the order in which they first did, and whether they act."""


START = Checkpoint(0, 0, {}, {})
"""Before anything has happened."""


async def checkpoint_before(store: Store, tenant: str, world: str, *, tick: int) -> Checkpoint:
    """Return the newest checkpoint before a tick. Cost: O(1)."""
    rows = await store.query(
        "SELECT tick, seq, money, agents FROM world_checkpoints"
        " WHERE tenant = ? AND space = ? AND tick < ? ORDER BY tick DESC LIMIT 1",
        (tenant, world_space(world), tick),
    )
    if not rows:
        return START
    at, seq, money, agents = rows[0]
    return Checkpoint(
        at,
        seq,
        msgspec.json.decode(money, type=dict[str, int]),
        {name: bool(active) for name, active in msgspec.json.decode(agents)},
    )


class PaidSteps(NamedTuple):
    """The amount that one step of one agent has moved on one account."""

    agent: str
    step: str
    account: str
    asset: str
    moved: int


async def paid_steps(store: Store, tenant: str, space: str) -> list[PaidSteps]:
    """Return what the prompts of the tick at hand have moved so far."""
    return await fetch_all(
        store,
        PaidSteps,
        "SELECT agent, step, account, asset, moved FROM world_paid WHERE tenant = ? AND space = ?",
        (tenant, space),
    )


_SETTLED = (
    "SELECT a.account, a.asset, a.balance - COALESCE((SELECT SUM(p.moved) FROM world_paid p"
    " WHERE p.tenant = a.tenant AND p.space = a.space AND p.account = a.account AND p.asset = a.asset), 0)"
    " FROM account_balances a WHERE a.tenant = ? AND a.space = ?"
)


async def settled_balances(
    store: Store, tenant: str, space: str, side: tuple[str, str] | None = None
) -> dict[tuple[str, str], int]:
    """Return balances by account and asset as the tick before left them: without what prompts have paid.

    All of them, or of one `side`, an account and an asset.
    """
    where: Sequence[str] = () if side is None else side
    more = "" if side is None else " AND a.account = ? AND a.asset = ?"
    rows = await store.query(_SETTLED + more, (tenant, space, *where))
    return {(account, asset): balance for account, asset, balance in rows}


# --------------------------------------------------------------------------- events and runs
# Reads of a world's events and of its agents' runs, through the views that log and kernel publish.


_REACHES = """
WITH RECURSIVE halved(stream, low, high) AS (
  SELECT s.stream_id, CAST(0 AS INTEGER), (SELECT max(e.seq) FROM event_log e WHERE e.stream_id = s.stream_id)
    FROM event_streams s WHERE s.tenant = ? AND s.space = ?
  UNION ALL
  SELECT h.stream, iif(e.at_us <= ?, e.seq, h.low), iif(e.at_us <= ?, h.high, e.seq - 1)
    FROM halved h JOIN event_log e ON e.stream_id = h.stream AND e.seq = (h.low + h.high + 1) / 2
   WHERE h.low < h.high)
SELECT s.name, h.low, e.position FROM halved h JOIN event_streams s ON s.stream_id = h.stream
  JOIN event_log e ON e.stream_id = h.stream AND e.seq = h.low
 WHERE h.low = h.high AND h.low > 0 ORDER BY s.name
"""


_IN_SPACE = "SELECT 1 FROM event_streams WHERE tenant = ? AND space = ? LIMIT 1"


class StreamReach(NamedTuple):
    """The last event of a stream that belongs to a tick or one before it."""

    stream: Stream
    seq: int
    position: int


class AgentRun(NamedTuple):
    """A run that asks models for an agent."""

    stream_id: int
    agent: str


class StoredCall(NamedTuple):
    """The event of a model call, its data as it was stored."""

    seq: int
    data: str


async def stream_reaches(store: Store, tenant: str, space: str, *, tick: int) -> list[StreamReach]:
    """Return every stream of a space that begins by the end of `tick`, by name, and how far it counts.

    Cost: O(streams * log events): ticks never go back within a stream, so that they are halved.
    """
    rows = await store.query(_REACHES, (tenant, space, tick, tick))
    return [StreamReach(Stream(tenant, space, name), seq, position) for name, seq, position in rows]


async def is_space_used(store: Store, tenant: str, space: str) -> bool:
    """Return True if a space has a stream."""
    return bool(await store.query(_IN_SPACE, (tenant, space)))


def is_space_taken(tx: Tx, tenant: str, space: str) -> bool:
    """Return True if a space has a stream, as the transaction sees it."""
    return tx.one(_IN_SPACE, (tenant, space)) is not None


async def agent_runs(store: Store, tenant: str, *, first: str, before: str) -> list[AgentRun]:
    """Return the runs with `first <= id < before`, in the order of their streams."""
    return await fetch_all(
        store,
        AgentRun,
        "SELECT stream_id, agent FROM run_status WHERE tenant = ? AND run >= ? AND run < ?"
        " ORDER BY stream_id",
        (tenant, first, before),
    )


async def begins_by(store: Store, tenant: str, run: str, *, position: int) -> bool:
    """Return True if the first event of a run is at `position` or before it."""
    return bool(
        await store.query(
            "SELECT 1 FROM run_status r JOIN event_log e ON e.stream_id = r.stream_id AND e.seq = 1"
            " WHERE r.tenant = ? AND r.run = ? AND e.position <= ?",
            (tenant, run, position),
        )
    )


async def newest_seq_before(store: Store, stream_id: int, *, position: int) -> int:
    """Return the last event of a stream before a position; 0 for none. Cost: the events behind it."""
    return await fetch_value(
        store,
        "SELECT seq FROM event_log WHERE stream_id = ? AND position < ? ORDER BY seq DESC LIMIT 1",
        (stream_id, position),
        default=0,
    )


async def model_calls_after(
    store: Store, stream_id: int, kinds: Sequence[str], *, after: int, limit: int
) -> list[StoredCall]:
    """Return events of some kinds of a run, a page of them."""
    return await fetch_all(
        store,
        StoredCall,
        "SELECT seq, data FROM event_log WHERE stream_id = ? AND seq > ?"
        f" AND kind IN ({', '.join('?' * len(kinds))}) ORDER BY seq LIMIT ?",
        (stream_id, after, *kinds, limit),
    )


async def completed_calls(
    store: Store, stream_id: int, *, first: str, before: str, beside: str, kind: str
) -> list[str]:
    """Return the stored outcomes of the model steps with `first <= key < before`, but for `beside`."""
    return await fetch_column(
        store,
        "SELECT e.data FROM run_steps s JOIN event_log e ON e.stream_id = s.stream_id AND e.seq = s.completed"
        " WHERE s.stream_id = ? AND s.key >= ? AND s.key < ? AND s.key <> ? AND s.kind = 'model'"
        " AND e.kind = ?",
        (stream_id, first, before, beside, kind),
    )


# --------------------------------------------------------------------------- memory stores
# Reads of the entries of memory stores.


ALIKE_MAX = 8
"""Newest entries that say the same and are looked at (a guess)."""


class StoreEntry(NamedTuple):
    """One entry, its text, tags and vector behind references."""

    n: int
    """Seq of its event; entries are in this order. One that no event has made yet is newer than all."""
    id: str
    tick: int
    text: str
    tags: str | None
    importance: int
    vector: str
    embedder: str
    mark: str


class EntryCounts(NamedTuple):
    """The seed of the world, and how many entries a store has had and has."""

    seed: int
    added: int
    entries: int


async def _entries(store: Store, key: tuple[str, str, str], more: str, *values: Any) -> list[StoreEntry]:
    return await fetch_all(
        store,
        StoreEntry,
        "SELECT n, entry, tick, text, tags, importance, vector, embedder, mark FROM store_entries"
        f" WHERE tenant = ? AND space = ? AND store = ?{more}",
        (*key, *values),
    )


async def oldest_entries(store: Store, key: tuple[str, str, str], *, limit: int) -> list[StoreEntry]:
    """Return entries of a memory store, the oldest first. Shapes: `key` is tenant, space and store."""
    return await _entries(store, key, " ORDER BY n LIMIT ?", limit)


async def least_entries(store: Store, key: tuple[str, str, str], *, limit: int) -> list[StoreEntry]:
    """Return the least important entries, of equal ones the oldest first."""
    return await _entries(store, key, " ORDER BY importance, n LIMIT ?", limit)


async def find_entry(store: Store, key: tuple[str, str, str], entry: str) -> StoreEntry | None:
    """Return an entry; None if there is none."""
    found = await _entries(store, key, " AND entry = ?", entry)
    return found[0] if found else None


async def entries_marked(store: Store, key: tuple[str, str, str], mark: str) -> list[StoreEntry]:
    """Return the newest entries of a mark, the newest first."""
    return await _entries(store, key, " AND mark = ? ORDER BY n DESC LIMIT ?", mark, ALIKE_MAX)


async def entries_between(
    store: Store, key: tuple[str, str, str], *, after: int, upto: int, limit: int
) -> list[StoreEntry]:
    """Return entries with `after < n <= upto`, the oldest first."""
    return await _entries(store, key, " AND n > ? AND n <= ? ORDER BY n LIMIT ?", after, upto, limit)


async def removed_between(store: Store, key: tuple[str, str, str], *, after: int, upto: int) -> list[str]:
    """Return the ids of entries that were removed by events with `after < seq <= upto`."""
    return await fetch_column(
        store,
        "SELECT entry FROM store_removals WHERE tenant = ? AND space = ? AND store = ? AND n > ? AND n <= ?",
        (*key, after, upto),
    )


async def changed_at(store: Store, key: tuple[str, str, str]) -> int:
    """Return the seq of the newest change of a memory store; 0 if it never had an entry."""
    return await fetch_value(
        store, "SELECT changed FROM store_counts WHERE tenant = ? AND space = ? AND store = ?", key, default=0
    )


async def entry_counts(store: Store, key: tuple[str, str, str], *, world: str) -> EntryCounts:
    """Return the counts of a memory store; zeros outside of a world."""
    tenant, space, name = key
    rows: Sequence[tuple[Any, ...]] = await store.query(
        "SELECT w.seed, COALESCE(c.added, 0), COALESCE(c.entries, 0) FROM worlds w"
        " LEFT JOIN store_counts c ON c.tenant = w.tenant AND c.space = ? AND c.store = ?"
        " WHERE w.tenant = ? AND w.id = ?",
        (space, name, tenant, world),
    )
    return EntryCounts(*rows[0]) if rows else EntryCounts(0, 0, 0)
