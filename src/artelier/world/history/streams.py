"""The history of a world: its streams, how far a tick reaches in each, and the runs of its agents.

A tick is passed when its `tick.passed` is durable. What the host does between two ticks is dated with the one
that passed last and belongs to it. What prompts of an unfinished tick have cost is dated with that tick, and
belongs to no history yet.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, NamedTuple, cast

from artelier.errors import Conflict, InvalidRequest, NotFound
from artelier.kernel.queries.runs import is_imported
from artelier.log import Event, Store, Stream
from artelier.world.events import Ancestor, world_space, world_stream
from artelier.world.kernel_adapter import Host, continuation_of, run_id_of

PAGE = 1000
"""Events in memory of a stream that is read through."""

_REACHES = """
WITH RECURSIVE halved(stream, low, high) AS (
  SELECT s.id, 0, (SELECT max(e.seq) FROM events e WHERE e.stream = s.id) FROM streams s
   WHERE s.tenant = ? AND s.space = ?
  UNION ALL
  SELECT h.stream, iif(e.at_us <= ?, e.seq, h.low), iif(e.at_us <= ?, h.high, e.seq - 1)
    FROM halved h JOIN events e ON e.stream = h.stream AND e.seq = (h.low + h.high + 1) / 2
   WHERE h.low < h.high)
SELECT s.name, h.low, e.position FROM halved h JOIN streams s ON s.id = h.stream
  JOIN events e ON e.stream = h.stream AND e.seq = h.low
 WHERE h.low = h.high AND h.low > 0 ORDER BY s.name
"""


class StreamReach(NamedTuple):
    """The last event of a stream that belongs to a tick or one before it."""

    stream: Stream
    seq: int
    position: int


async def tick_of(host: Host, world: str, at: int | None) -> int:
    """A tick that has passed: `at`, or the newest. Errors: `NotFound`, `InvalidRequest`."""
    rows = await host.services.store.query(
        "SELECT tick FROM worlds WHERE tenant = ? AND id = ?", (host.id, world)
    )
    if not rows:
        raise NotFound(f"there is no world {world}", hint="`artelier world list` shows the worlds there are.")
    newest: int = rows[0][0]
    if at is None:
        return newest
    if isinstance(at, bool) or not isinstance(cast(object, at), int) or not 0 <= at <= newest:
        raise InvalidRequest(
            f"world {world} has not passed this tick",
            expected=f"a tick from 0 to {newest}",
            got=repr(at)[:80],
        )
    return at


async def reaches(store: Store, tenant: str, world: str, *, tick: int) -> list[StreamReach]:
    """Every stream of the world that begins by the end of `tick`, by name, and how far it counts.

    Cost: O(streams * log events): ticks never go back within a stream, so that they are halved.
    """
    space = world_space(world)
    rows = await store.query(_REACHES, (tenant, space, tick, tick))
    return [StreamReach(Stream(tenant, space, name), seq, position) for name, seq, position in rows]


async def events_of(store: Store, reach: StreamReach) -> AsyncIterator[Event]:
    """The events of a stream up to its reach, page by page."""
    after = 0
    while after < reach.seq:
        page = await store.read(reach.stream, after=after, limit=min(PAGE, reach.seq - after))
        if not page:
            return
        for event in page:
            yield event
        after = page[-1].seq
        await asyncio.sleep(0)


async def ancestors(store: Store, tenant: str, world: str) -> tuple[Ancestor, ...]:
    """Worlds whose history this one shares, the nearest first."""
    rows = await store.query(
        "SELECT ancestor, tick FROM world_ancestors WHERE tenant = ? AND id = ? ORDER BY n", (tenant, world)
    )
    return tuple(Ancestor(name, tick) for name, tick in rows)


async def runs_of(host: Host, world: str, agent: str) -> list[str]:
    """The runs that hold an agent's prompts, the newest first: those of the world, then of its ancestors."""
    names = [world, *(one.world for one in await ancestors(host.services.store, host.id, world))]
    found: list[str] = []
    for name in names:
        found += reversed([run for run in await _own_runs(host, name, agent) if run not in found])
    return found


async def run_reaches(host: Host, world: str, *, position: int) -> dict[str, int]:
    """Every run with prompts of the world's agents, and the position up to which it counts."""
    store = host.services.store
    agents = [
        row[0]
        for row in await store.query(
            "SELECT agent FROM world_agents WHERE tenant = ? AND space = ? ORDER BY n",
            (host.id, world_space(world)),
        )
    ]
    upto = {world: position}
    for one in await ancestors(store, host.id, world):
        upto.setdefault(one.world, await _position(store, host.id, one) or position)
    found: dict[str, int] = {}
    for name, last in upto.items():
        for agent in agents:
            for run in await _own_runs(host, name, agent):
                if await _begins(store, host.id, run, by=last):
                    found[run] = max(last, found.get(run, 0))
        await asyncio.sleep(0)
    return found


async def _position(store: Store, tenant: str, ancestor: Ancestor) -> int:
    """Return the position of the last event of an ancestor's tick; 0 if that world is not here."""
    found = await reaches(store, tenant, ancestor.world, tick=ancestor.tick)
    own = world_stream(tenant, ancestor.world)
    return max((one.position for one in found if one.stream == own), default=0)


async def _own_runs(host: Host, world: str, agent: str) -> list[str]:
    """The run of an agent, then those in which it goes on where the one before is a record."""
    found: list[str] = []
    run = run_id_of(world, agent)
    while await _is_there(host, run):
        found.append(run)
        if not await is_imported(host.services.store, host.id, run):
            break
        run = continuation_of(run)
    return found


async def _is_there(host: Host, run: str) -> bool:
    rows: list[Any] = await host.services.store.query(
        "SELECT 1 FROM runs WHERE tenant = ? AND run = ?", (host.id, run)
    )
    return bool(rows)


async def _begins(store: Store, tenant: str, run: str, *, by: int) -> bool:
    rows = await store.query(
        "SELECT 1 FROM runs r JOIN events e ON e.stream = r.id AND e.seq = 1"
        " WHERE r.tenant = ? AND r.run = ? AND e.position <= ?",
        (tenant, run, by),
    )
    return bool(rows)


# --------------------------------------------------------------------------- session check
# Sessions of agents with a profile: what operations keep stands beside the world, and does not travel.


NAMED_MAX = 5
"""Agents that an error names."""

_TICK_US = 1_000_000


async def check_no_sessions(host: Host, world: str, *, tick: int, what: str) -> None:
    """Errors: `Conflict` that names agents whose operations have kept artifacts by the end of a tick.

    Cost: one query over the names of chats that begin like the runs of the world.
    """
    rows = await host.services.store.query(
        "SELECT chat FROM chats WHERE tenant = ? AND chat > ? AND chat < ? AND opened_us <= ?"
        " ORDER BY chat LIMIT ?",
        (host.id, f"{world}/", f"{world}0", tick * _TICK_US, NAMED_MAX),
    )
    if rows:
        agents = ", ".join(chat.removeprefix(f"{world}/") for (chat,) in rows)
        raise Conflict(
            f"world {world} cannot be {what} after tick {tick}: operations of agents keep artifacts in"
            " sessions of their own, which do not go with it",
            got=f"agents with a profile: {agents}"[:1_000],
            hint="Fork at a tick before their first one with operations, or use agents without a profile.",
        )
