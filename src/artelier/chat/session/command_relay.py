"""Commands to runs, with what a turn of a chat needs beside: its chat gets all that there is of it.

Every command of a person to a run goes through here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from artelier.chat.turn.turn_config import LOOP, TurnJob, chat_of
from artelier.errors import ArtelierError, Conflict, LeaseHeld, RunStopped, RunSuspended
from artelier.kernel import run_row
from artelier.kernel.commands import control_stream
from artelier.kernel.queries.content import blob_json
from artelier.kernel.queries.runs import RunRow
from artelier.kernel.run.context import is_final
from artelier.log import EventData


async def give(desk: Any, run_id: str, verb: str, *, by: str, **command: Any) -> EventData:
    """Give a command and return its effect. `desk` is the kernel bound to the tenant.

    Errors: those of the kernel's `commands.give`; `Conflict` for a `retry` of a turn of a chat.
    """
    given = control_stream.Given(verb=verb, **command)
    return (await give_in_order(desk, run_id, [given], by=by))[0]


async def give_in_order(
    desk: Any, run_id: str, wanted: Sequence[control_stream.Given], *, by: str
) -> list[EventData]:
    """Give commands that belong together, and return their effects. Errors: as `give`."""
    for one in wanted:
        if one.verb != "cancel" and one.verb != "retry" and one.key != control_stream.REOPEN:
            continue
        row = await run_row(desk.services.store, desk.id, run_id)
        if row.loop == LOOP and one.verb != "cancel":
            raise _not_reopened(run_id)
        # A chat knows nothing of forks of its turns.
        if row.loop == LOOP and row.origin is None and not is_final(row.status):
            return [await _cancel_turn(desk, row, run_id, {"payload": one.payload, "by": by})]
    return await control_stream.give_in_order(desk.services, desk.id, run_id, wanted, by=by)


def _not_reopened(run_id: str) -> Conflict:
    """Return what a turn came to is recorded: reopened, it would fail again without trying anything."""
    chat = chat_of(run_id)
    return Conflict(
        f"run {run_id} is a turn of chat {chat!r}, which is not reopened",
        hint="Try the turn again as another variant: session.regenerate(), or /regenerate in"
        f" `artelier chat {chat}`.",
        refusal="turn_of_a_chat",
    )


async def _cancel_turn(desk: Any, row: RunRow, run_id: str, command: dict[str, Any]) -> EventData:
    """End a turn, and keep in its chat how far it came.

    Who drives it does that. If nobody does, it is driven here, with the command heard before its first
    step: what is recorded is passed over, nothing new begins, and the chat gets what there is.
    """
    from artelier.chat.turn.turn_loop import drive_turn

    services, settings = desk.services, await blob_json(desk.services, desk.id, row.settings)
    effect: EventData | None = None
    refusal: ArtelierError | None = None
    try:
        async with desk.run(run_id, loop=LOOP, settings=settings, on_wait="suspend") as run:
            try:
                effect = await control_stream.give(services, desk.id, run_id, "cancel", **command)
            except ArtelierError as error:  # it must not become a failure of the run
                refusal = error
                raise asyncio.CancelledError from None
            await run.core.hear()  # the effect is in the log; from here on the run knows it as well
            await drive_turn(run, TurnJob.from_stored(settings), desk=desk)
    except asyncio.CancelledError:
        if refusal is None:
            raise
        raise refusal from None
    except (LeaseHeld, RunStopped, RunSuspended):
        pass  # somebody drives it; or it has ended, as it was told to
    except ArtelierError:
        if effect is not None:
            return effect  # it has ended, even if no more could be kept than is recorded
    if effect is not None:
        return effect
    return await control_stream.give(services, desk.id, run_id, "cancel", **command)
