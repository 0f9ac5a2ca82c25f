"""The request of a model call on its way into the log, with the hold of what it may cost."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from artelier.errors import Exhausted
from artelier.kernel import events as ev
from artelier.kernel.budget import (
    BudgetChanged,
    OutputRoom,
    Reservation,
    abandon,
    claims_for,
    end_turn,
    funds_guard,
    output_room,
    read_budget,
    reserve,
    take_turn,
    when_it_fits,
)
from artelier.kernel.prompt.renderer import Assembled, with_output_max
from artelier.kernel.queries.steps import step_of
from artelier.kernel.run.context import RunCore
from artelier.log import StreamAppend, Tx
from artelier.ports.model import Price


async def ask(
    core: RunCore,
    assembled: Assembled,
    *,
    model: str,
    price: Price | None,
    room: OutputRoom | None = None,
    aside: Sequence[StreamAppend] = (),
) -> tuple[Assembled, Reservation]:
    """Make a request durable together with the hold of what it may cost, and with what stands aside.

    Where `room` has chosen how much may be written and that does not fit, less is asked for: what was left
    when it was chosen may have gone to the calls beside it.
    Errors: `RunSuspended` if it does not fit the budget; `LimitReached` if no minute of a rate is enough.
    """
    pending = _PendingRequest(core, assembled, model=model, price=price, room=room, aside=aside)
    core.services.at("model.before_request")
    if pending.reservation.is_limited:
        try:
            await when_it_fits(core, pending.attempt, ask_for_less=pending.ask_for_less)
        except Exhausted as error:
            await core.end_refused(error)
    else:
        await pending.attempt()
    core.services.at("model.requested")
    return pending.assembled, pending.reservation


class _PendingRequest:
    """A request on its way into the log."""

    def __init__(
        self,
        core: RunCore,
        assembled: Assembled,
        *,
        model: str,
        price: Price | None,
        room: OutputRoom | None,
        aside: Sequence[StreamAppend],
    ) -> None:
        self._core, self._model, self._price, self._room, self._aside = core, model, price, room, aside
        self._set(assembled)

    def _set(self, assembled: Assembled) -> None:
        core = self._core
        self.assembled = assembled
        self._claims = claims_for(core, self._model, assembled.size.tokens_max)
        held = self.reservation = reserve(core, price=self._price, size=assembled.size)
        self._requested = ev.ModelRequested(
            key=assembled.event.key,
            model=self._model,
            postings=held.postings,
            counts=held.counts,
            **held.estimate,
        )

    async def ask_for_less(self) -> bool:
        """Choose anew how much may be written; return False if that is no less."""
        room, now = self._room, self.assembled
        if room is None:
            return False
        room = await output_room(
            self._core, model=self._model, price=self._price, limit=room.limit, after_cut=room.after_cut
        )
        output = room.output_tokens(now.measured.size_bytes, now.media)
        if output >= now.size.output_max:
            return False
        self._set(with_output_max(self._core, now, output))
        return True

    async def attempt(self) -> None:
        while True:
            try:
                return await self._commit()
            except BudgetChanged:  # another account pays now
                await read_budget(self._core)
                self._set(self.assembled)

    async def _commit(self) -> None:
        # No money is held while the call waits for its turn, and no turn while it waits for money.
        core, key, assembled = self._core, self.assembled.event.key, self.assembled
        await take_turn(core, key, self._claims)
        core.held[key] = self._requested
        core.unsent.add(key)
        try:
            await core.writer.commit(
                assembled.event,
                self._requested,
                blobs=assembled.blobs,
                aside=self._aside,
                refusable=self.reservation.is_limited or bool(self._aside),
                guard=guard_of(core, self.reservation, self.reservation.amount),
            )
        except BaseException:
            end_turn(core, key, tokens=None)
            raise


def guard_of(core: RunCore, reservation: Reservation, amount: int) -> Callable[[Tx], None] | None:
    """Return what refuses to commit while `amount` micro-dollars are not there; None without a limit."""
    if not reservation.is_limited:
        return None
    return funds_guard(core, source=reservation.source, amount=amount, is_free=reservation.is_free)


async def take_back(core: RunCore, request: ev.ModelRequested, key: str) -> None:
    """Settle a request that its code cancelled on its way into the log: nothing was sent.

    Whether it is in the log is known when what was queued is decided. What its code asked for meanwhile is
    decided too before this is recorded: the place of the cancellation is counted back from here.
    """
    await core.writer.wait_decided()
    step = await step_of(core.store, core.tenant.id, core.run_id, key)
    await core.writer.wait_decided()
    if step is not None and step.status == "requested":
        core.writer.note(abandon(request, key=key, is_sent=key not in core.unsent, capped=core.capped))
        core.writer.flush()
        core.came_back()
