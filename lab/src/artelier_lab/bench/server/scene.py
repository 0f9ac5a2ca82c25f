"""The content of the canvas while it is measured: rooms of agents and of the artifacts they made."""

from __future__ import annotations

import asyncio
import time

from artelier import Kernel

ROOM_NODES = 20
ROOM_AGENTS = 4
"""The other nodes of a room are documents of its agents, shared in it."""


async def furnish(kernel: Kernel, *, first: int, rooms: int) -> None:
    """Make so many rooms of 20 nodes each, from number `first` on."""
    desk = kernel.for_tenant()
    for room in range(first, first + rooms):
        agents = [f"room{room}/agent{number}" for number in range(ROOM_AGENTS)]
        for number, agent in enumerate(agents):
            await desk.create_agent(agent, name=f"Agent {room}.{number}")
        await desk.membranes.create(f"room{room}/shared", name=f"Room {room}", members=agents)
        for number in range(ROOM_NODES - ROOM_AGENTS):
            await _write(kernel, room, number, text="Begun.")


async def settle(kernel: Kernel, *, agents: int) -> None:
    """Make so many agents, in rooms of ten."""
    desk = kernel.for_tenant()
    for room in range(-(-agents // 10)):
        members = [f"hall{room}/agent{number}" for number in range(min(10, agents - 10 * room))]
        for number, agent in enumerate(members):
            await desk.create_agent(agent, name=f"Agent {room}.{number}")
        await desk.membranes.create(f"hall{room}/shared", name=f"Hall {room}", members=members)


async def revise(kernel: Kernel, *, rooms: int, rate: float, events: int) -> None:
    """New versions of documents all over the rooms, each due at its own instant."""
    begun_s, documents = time.perf_counter(), ROOM_NODES - ROOM_AGENTS
    for number in range(events):
        due_s = begun_s + number / rate
        if (ahead_s := due_s - time.perf_counter()) > 0:
            await asyncio.sleep(ahead_s)
        await _write(kernel, number % rooms, number // rooms % documents, text=f"Line {number}.")


async def _write(kernel: Kernel, room: int, number: int, *, text: str) -> None:
    owner = f"room{room}/agent{number % ROOM_AGENTS}"
    access = {"allow": {"read": ["operator", f"membrane:room{room}/shared"]}}
    await (
        kernel.for_tenant()
        .as_principal(owner)
        .artifacts.write(f"room{room}/text{number}", kind="document", content=text, access=access)
    )
