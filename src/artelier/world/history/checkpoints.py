"""Checkpoints of a world's money and agents, so that figures of some ticks cost those ticks.

The view writes one each `CHECKPOINT_TICKS` ticks, in the transaction of the tick; `history_fold.py` goes on
from there. What the host did after that tick stands behind `seq` and is folded again.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from artelier.log import Store, Stream
from artelier.world.events import world_space
from artelier.world.history.streams import StreamReach, reaches

CHECKPOINT_TICKS = 50
"""Between two checkpoints: at most so many ticks are folded besides those that are asked for (a guess)."""


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


async def kinds_of(store: Store, tenant: str, world: str) -> dict[str, str]:
    """Return the kind of every artifact of a world: it is fixed, and ids are not given again."""
    rows = await store.query(
        "SELECT id, kind FROM artifacts WHERE tenant = ? AND space = ?", (tenant, world_space(world))
    )
    return dict(rows)


async def behind(
    store: Store, tenant: str, world: str, found: list[StreamReach], checkpoint: Checkpoint
) -> dict[Stream, int]:
    """Return the last event of each stream that the checkpoint covers."""
    if checkpoint.tick == 0:
        return {}
    covered = {one.stream: one.seq for one in await reaches(store, tenant, world, tick=checkpoint.tick)}
    own = world_space(world)
    return {
        one.stream: checkpoint.seq if one.stream.local == own else covered.get(one.stream, 0) for one in found
    }
