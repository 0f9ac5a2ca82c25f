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
from artelier.kernel.queries.runs import controls_after, find_run, leased_runs, run_row
from artelier.kernel.queries.steps import run_steps
from artelier.kernel.run.context import RunCore
from artelier.kernel.run.services import Services
from artelier.log import EventData, control_stream

PAGE = 1000
"""Commands that one look takes up."""


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
        for position, tenant, run_id in await controls_after(services.store, self._seen, limit=PAGE):
            self._seen = position
            if self._tenant in (None, tenant):
                self._unread[tenant, run_id] = None
        for key in tuple(self._unread):
            if await self._has_obeyed(*key):
                del self._unread[key]
        now_us = services.clock.now_us()
        # A lease is given back in the driver's last batch: these drivers have not let go.
        for left in await leased_runs(services.store, status="cancelled", limit=PAGE):
            is_over = left.end.expires_us <= now_us or services.is_dead(left.holder)
            if is_over and self._tenant in (None, left.tenant):
                with suppress(StoreUnavailable):  # the next look tries it again
                    await finish_cancelled(services, left.tenant, left.run)

    async def _has_obeyed(self, tenant: str, run_id: str) -> bool:
        services = self._services
        head, _ = await services.store.head(control_stream(tenant, run_id))
        try:
            row = await run_row(services.store, tenant, run_id)
            if head > row.control_seq and services.driver(tenant, run_id) is None:
                await apply_if_idle(services, tenant, run_id)
                row = await run_row(services.store, tenant, run_id)
        except NotFound:
            return True
        except StoreUnavailable:
            return False
        return head <= row.control_seq


async def abandoned_calls(core: RunCore) -> list[EventData]:
    """Return events that give money back that is held for model calls which nobody will ask for again."""
    held = {
        step.key: cast(ev.ModelRequested, step.request)
        for step in await core.history.read_unasked()
        if step.kind == "model" and step.status == "requested" and not step.inherited
    }
    if core.held:
        # A request whose commit was cancelled may or may not be there: the log knows.
        await core.writer.commit()
        run = await find_run(core.store, core.tenant.id, core.run_id)
        open_steps = [] if run is None else await run_steps(core.store, run.id, status="requested")
        asked = {step.key: step for step in open_steps}
        held |= {key: core.held[key] for key in core.held if key in asked and asked[key].kind == "model"}
    return [abandon(request, key=key, is_sent=key not in core.unsent) for key, request in held.items()]
