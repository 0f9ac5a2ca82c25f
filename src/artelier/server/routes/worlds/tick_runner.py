"""Ticks of a world as an errand: one at a time in each world, until they are done, held, or it is paused."""

from __future__ import annotations

import asyncio
from typing import Any

from artelier.errors import Conflict, RunSuspended
from artelier.server.background_tasks import LET_GO_S, Errand, Errands
from artelier.server.errors import TooLarge
from artelier.server.wire.worlds import Held, Passing
from artelier.world import Passed, World
from artelier.world.genesis import shipped_policies

ATTEMPTS_MAX = 10
"""At a tick, while the world is changed from outside."""


def key_of(desk: Any, id: str) -> tuple[str, str, str]:
    return ("world", desk.id, id)


def world_of(desk: Any, id: str) -> World:
    """A world with the rule agents that are shipped. Errors: `InvalidRequest` for what names none."""
    return World.open(desk, id, policies=shipped_policies())


async def start_passing(errands: Errands, desk: Any, id: str, ticks: int) -> Errand:
    """Begin to pass ticks. Errors: `NotFound`; `TooLarge`; `Conflict` if the world is paused or at work."""
    world = world_of(desk, id)
    if (going := errands.at_work(key_of(desk, id))) is not None and going.about.is_over:
        await asyncio.wait({going.task}, timeout=LET_GO_S)  # its last tick is seen a moment before it ends
    most = desk.services.quotas.of(desk.id).ticks_max
    if ticks > most:
        raise TooLarge(
            "too many ticks for one request",
            expected=f"at most {most}",
            got=ticks,
            hint="Ask for fewer, and again when they have passed.",
        )
    if (await world.row()).paused:
        raise Conflict(f"world {id} is paused", hint="Resume it first.")
    about = Passing(asked=ticks)
    return errands.start(key_of(desk, id), _pass(world, about), about=about)


async def _pass(world: World, about: Passing) -> None:
    async with world:
        while about.passed < about.asked and not (await world.row()).paused:
            try:
                done = await _tick(world)
            except RunSuspended as stopped:
                about.held = Held(run_id=stopped.run_id, status=stopped.status, reason=stopped.reason)
                return
            if done is None:
                return
            about.passed, about.tick = about.passed + 1, done.tick
            about.acted += done.acted
            about.rejected += done.rejected


async def _tick(world: World) -> Passed | None:
    """One tick, passed again if somebody paused the world or told it something meanwhile; None if paused."""
    for _ in range(ATTEMPTS_MAX):
        try:
            return await world.tick()
        except Conflict as conflict:
            if type(conflict) is not Conflict:
                raise  # another process drives its agents
            if (await world.row()).paused:
                return None
    return await world.tick()
