"""Sessions of agents with a profile: what operations keep stands beside the world, and does not travel."""

from __future__ import annotations

from artelier.errors import Conflict
from artelier.world.kernel_adapter import Host

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
