"""Turns that were asked for and never begun: whoever asked was killed before the run had its first event."""

from __future__ import annotations

from typing import NamedTuple

from artelier.kernel.run.services import Services
from artelier.log import decode_stored
from artelier.operations.events import TurnAsked

RECENT_US = 60_000_000
"""For so long a turn counts as about to begin of which nobody recorded who asked for it (guess)."""

_UNBEGUN = (
    "SELECT c.tenant, c.chat, c.id, b.name, b.run FROM chat_branches b JOIN chats c ON c.id = b.chat"
    " WHERE b.run <> ''"
    " AND NOT EXISTS (SELECT 1 FROM runs r WHERE r.tenant = c.tenant AND r.run = b.run)"
    " AND NOT EXISTS (SELECT 1 FROM imports i WHERE i.tenant = c.tenant AND i.run = b.run)"
)


class Unbegun(NamedTuple):
    """A turn for which nobody will begin its run."""

    tenant: str
    chat: str
    branch: str
    run_id: str


async def left_unbegun(
    services: Services, *, tenant: str | None = None, chat: str | None = None, run: str | None = None
) -> list[Unbegun]:
    """Return the turns whose run never began and never will by itself: the process that asked has ended.

    Cost: O(branches of all chats), of one chat those of it.
    """
    where, values = "", list[str]()
    for column, value in (("c.tenant", tenant), ("c.chat", chat), ("b.run", run)):
        if value is not None:
            where, values = f"{where} AND {column} = ?", [*values, value]
    found: list[Unbegun] = []
    for owner, id_, stream, branch, run_id in await services.store.query(
        f"{_UNBEGUN}{where} ORDER BY c.id, b.n", values
    ):
        if await _is_left(services, stream, run_id, is_named=run is not None):
            found.append(Unbegun(owner, id_, branch, run_id))
    return found


async def _is_left(services: Services, stream: int, run_id: str, *, is_named: bool) -> bool:
    rows = await services.store.query(
        "SELECT data, at_us FROM events WHERE stream = ? AND kind = 'turn.asked'"
        " AND json_extract(data, '$.run') = ? ORDER BY seq DESC LIMIT 1",
        (stream, run_id),
    )
    if not rows:
        return False
    process = decode_stored(rows[0][0], type=TurnAsked).process
    if not process:  # an older history, or a file from elsewhere: begun only by who names it
        return is_named and services.clock.now_us() - rows[0][1] >= RECENT_US
    return services.dispatches.has_ended(process)
