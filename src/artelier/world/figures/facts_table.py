"""A table of results: what expressions over an agent's facts are worth, one row for each tick and agent.

The facts are folded on demand from the world's events, so every row is exact for the end of its tick. What a
column may say is in `columns.py`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from artelier.world.figures.columns import Cell, Columns
from artelier.world.history.history_fold import AgentNow, SocietyState, history_of, span_of
from artelier.world.world import World


async def collect(
    world: World, columns: Columns, *, from_tick: int = 1, to_tick: int | None = None
) -> AsyncIterator[tuple[Cell, ...]]:
    """The rows of some ticks, by default of all: by tick, agents in the order of their joining.

    Shapes: each row is as long as `columns.names`. Cost: every event up to `to_tick` is read once; memory is
    O(agents + artifacts). Errors: `NotFound`; `InvalidRequest` for ticks that have not passed.
    """
    span = await span_of(world.host, world.id, from_tick=from_tick, to_tick=to_tick)
    if span.last < span.first:
        return
    society = SocietyState()
    tick = 0
    async for event in history_of(world.host, world.id, to_tick=span.last):
        while tick < event.at_us:
            if tick >= span.first:
                for agent in society.agents:
                    yield columns.row(_facts(tick, agent, society))
            tick += 1
        society.take(event)
    for agent in society.agents:
        yield columns.row(_facts(tick, agent, society))


def _facts(tick: int, agent: AgentNow, society: SocietyState) -> dict[str, Any]:
    return {
        "tick": tick,
        "agent_id": agent.id,
        "balance": society.balance(agent.id),
        "owns": society.owned.get(agent.id, 0),
        "current_state": agent.state,
        "ticks_in_state": agent.ticks_in_state,
        "failure_count": agent.failures,
        "last_action": {"type": agent.last_action, "success": agent.last_ok},
    }
