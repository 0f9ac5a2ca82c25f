"""Leftovers of dead processes: commands that nobody obeyed, and cancelled runs that were not finished.

A command is recorded before it is obeyed, and a driven run is cancelled before its children end and its
money comes back. A process that dies in between leaves the rest to a worker, or to the next command.
"""

from __future__ import annotations

from contextlib import suppress
from typing import cast

from artelier.errors import NotFound, StoreUnavailable
from artelier.kernel import events as ev
from artelier.kernel.commands.control_stream import apply_if_idle, finish_cancelled
from artelier.kernel.limits.budget import abandon
from artelier.kernel.run.context import RunCore, run_row
from artelier.kernel.run.services import Services
from artelier.log import EventData, control_stream

PAGE = 1000
"""Commands that one look takes up."""

_CANCELLED = (
    "SELECT r.tenant, r.run, l.holder, l.expires_us FROM runs r"
    " JOIN leases l ON l.stream = r.tenant || '/main/run:' || r.run"
    " WHERE r.status = 'cancelled' ORDER BY r.id LIMIT ?"
)
"""Cancelled runs whose driver has not let go: a lease is given back in the driver's last batch."""


class Leftovers:
    """The search for leftovers. Cost of a look: the commands given since the last one."""

    def __init__(self, services: Services, *, tenant: str | None = None) -> None:
        """`tenant`: look at that one's runs alone."""
        self._services = services
        self._tenant = tenant
        self._seen = 0
        """Position of the last command that was looked at."""
        self._unread: dict[tuple[str, str], None] = {}
        """Runs with commands that a driver has not obeyed yet, or had not at the last look."""

    async def clear(self) -> None:
        """Obey commands and finish cancellations that no living process takes care of."""
        services = self._services
        rows = await services.store.query(
            "SELECT position, tenant, run FROM controls WHERE position > ? ORDER BY position LIMIT ?",
            (self._seen, PAGE),
        )
        for position, tenant, run_id in rows:
            self._seen = position
            if self._tenant in (None, tenant):
                self._unread[tenant, run_id] = None
        for key in tuple(self._unread):
            if await self._has_obeyed(*key):
                del self._unread[key]
        now_us = services.clock.now_us()
        for tenant, run_id, holder, expires_us in await services.store.query(_CANCELLED, (PAGE,)):
            is_over = expires_us <= now_us or services.is_dead(holder)
            if is_over and self._tenant in (None, tenant):
                with suppress(StoreUnavailable):  # the next look tries it again
                    await finish_cancelled(services, tenant, run_id)

    async def _has_obeyed(self, tenant: str, run_id: str) -> bool:
        services = self._services
        head, _ = await services.store.head(control_stream(tenant, run_id))
        try:
            row = await run_row(services, tenant, run_id)
            if head > row["control_seq"] and services.driver(tenant, run_id) is None:
                await apply_if_idle(services, tenant, run_id)
                row = await run_row(services, tenant, run_id)
        except NotFound:
            return True
        except StoreUnavailable:
            return False
        return head <= row["control_seq"]


async def abandoned_calls(core: RunCore) -> list[EventData]:
    """Return events that give money back that is held for model calls which nobody will ask for again."""
    held = {
        step.key: cast(ev.ModelRequested, step.request)
        for step in await core.history.left()
        if step.kind == "model" and step.status == "requested" and not step.inherited
    }
    if core.held:
        # A request whose commit was cancelled may or may not be there: the log knows.
        await core.writer.commit()
        asked = await core.store.query(
            "SELECT s.key FROM steps s JOIN runs r ON r.id = s.run WHERE r.tenant = ? AND r.run = ?"
            " AND s.kind = 'model' AND s.status = 'requested'",
            (core.tenant.id, core.run_id),
        )
        held |= {key: core.held[key] for (key,) in asked if key in core.held}
    return [abandon(request, key=key, is_sent=key not in core.unsent) for key, request in held.items()]
