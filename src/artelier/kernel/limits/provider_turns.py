"""The turn of a run's call to a provider: what it takes of rate limits, and what it gives back."""

from __future__ import annotations

import asyncio

from artelier.kernel.limits.provider_queue import QueuePlace, Turns
from artelier.kernel.limits.rates import claims_of
from artelier.kernel.run.context import RunCore
from artelier.log import Claim


async def take_turn(core: RunCore, key: str, claims: tuple[Claim, ...]) -> None:
    """Return when the call may be made. Commands, pauses and limits of time hold meanwhile.

    Errors: those of `RunCore.boundary`; those of the store.
    """
    if not claims:
        return
    services = core.services
    turns = services.turns = services.turns or Turns(services.store, services.clock, services.holder)
    queue = turns.queue()
    place = queue.place(core.tenant.id, core.run_id, claims)
    while True:
        since = core.turn
        await core.boundary()
        if place.turn.cancelled():
            place.turn = asyncio.get_running_loop().create_future()
        queue.join(place)
        try:
            await _wait_turn(core, place, since)
            turn = place.turn.result() if place.turn.done() else None
        except BaseException:
            queue.leave(place)
            raise
        if turn is not None:
            turns.hold((core.tenant.id, core.run_id, key), turn)
            return
        queue.leave(place)


async def _wait_turn(core: RunCore, place: QueuePlace, since: int) -> None:
    """Until it is the call's turn, a command took effect, or the run's time is up."""
    if core.turn != since:
        return
    told = asyncio.ensure_future(core.changed.wait())
    left_s = core.left_s()
    over = None if left_s is None else asyncio.ensure_future(core.clock.sleep(left_s))
    try:
        waiting = [one for one in (place.turn, told, over) if one is not None]
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    finally:
        told.cancel()
        if over is not None:
            over.cancel()


def end_turn(core: RunCore, key: str, *, tokens: int | None) -> None:
    """A call is over and used so many tokens; None if it was never made. Off costs one look."""
    if core.services.turns is not None:
        core.services.turns.end((core.tenant.id, core.run_id, key), tokens=tokens)


def claims_for(core: RunCore, model: str, tokens: int) -> tuple[Claim, ...]:
    """Return what a call takes of the windows that hold for this run. Errors: `LimitReached`. Cost: off, one
    look."""
    if not core.policy.rates and not core.tenant.rates:
        return ()
    return claims_of(
        model, tokens, rates=core.policy.rates, tenant=core.tenant.id, tenant_rates=core.tenant.rates
    )
