"""The history of a world: its streams, how far a tick reaches in each, and the runs of its agents.

A tick is passed when its `tick.passed` is durable. What the host does between two ticks is dated with the one
that passed last and belongs to it. What prompts of an unfinished tick have cost is dated with that tick, and
belongs to no history yet.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import cast

from artelier.errors import Conflict, InvalidRequest, NotFound
from artelier.kernel.queries.runs import find_run, is_imported
from artelier.log import Event, Store
from artelier.world.events import Ancestor, world_space, world_stream
from artelier.world.kernel_adapter import Host, continuation_of, run_id_of
from artelier.world.queries.history import StreamReach, begins_by, stream_reaches
from artelier.world.queries.worlds import ancestors, find_world, joined_agents

PAGE = 1000
"""Events in memory of a stream that is read through."""


async def tick_of(host: Host, world: str, at: int | None) -> int:
    """A tick that has passed: `at`, or the newest. Errors: `NotFound`, `InvalidRequest`."""
    found = await find_world(host.services.store, host.id, world)
    if found is None:
        raise NotFound(f"there is no world {world}", hint="`artelier world list` shows the worlds there are.")
    newest = found.tick
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
    return await stream_reaches(store, tenant, world_space(world), tick=tick)


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
    agents = [one.agent for one in await joined_agents(store, host.id, world_space(world))]
    upto = {world: position}
    for one in await ancestors(store, host.id, world):
        upto.setdefault(one.world, await _position(store, host.id, one) or position)
    found: dict[str, int] = {}
    for name, last in upto.items():
        for agent in agents:
            for run in await _own_runs(host, name, agent):
                if await begins_by(store, host.id, run, position=last):
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
    while await find_run(host.services.store, host.id, run) is not None:
        found.append(run)
        if not await is_imported(host.services.store, host.id, run):
            break
        run = continuation_of(run)
    return found


# --------------------------------------------------------------------------- session check
# Sessions of agents with a profile: what operations keep stands beside the world, and does not travel.


NAMED_MAX = 5
"""Agents that an error names."""

_TICK_US = 1_000_000


async def check_no_sessions(host: Host, world: str, *, tick: int, what: str) -> None:
    """Errors: `Conflict` that names agents whose operations have kept artifacts by the end of a tick.

    Cost: one query over the names of chats that begin like the runs of the world.
    """
    from artelier.chat.queries.chats import opened_chats  # loads pydantic, and few worlds are forked

    chats = await opened_chats(
        host.services.store,
        host.id,
        after=f"{world}/",
        before=f"{world}0",
        upto_us=tick * _TICK_US,
        limit=NAMED_MAX,
    )
    if chats:
        agents = ", ".join(chat.removeprefix(f"{world}/") for chat in chats)
        raise Conflict(
            f"world {world} cannot be {what} after tick {tick}: operations of agents keep artifacts in"
            " sessions of their own, which do not go with it",
            got=f"agents with a profile: {agents}"[:1_000],
            hint="Fork at a tick before their first one with operations, or use agents without a profile.",
        )
