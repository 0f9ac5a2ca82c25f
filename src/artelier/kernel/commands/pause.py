"""Parking: a run that must not be driven now is paused, with a reason that people read.

A person who resumes it lets a worker try again; nothing else does.
"""

from __future__ import annotations

from artelier.kernel import events as ev
from artelier.kernel.commands.control_stream import append_if_idle
from artelier.kernel.queries.runs import run_row
from artelier.kernel.run.context import is_final
from artelier.kernel.run.services import Services
from artelier.log import Draft, run_stream

REASON_CHARS_MAX = 200


async def park(services: Services, tenant: str, run_id: str, *, reason: str) -> bool:
    """Pause a run that nobody drives; return whether it is parked now.

    `reason` is stored as it is, so it must not hold text of users. Errors: `NotFound`.
    """
    stream = run_stream(tenant, run_id)
    head, _ = await services.store.head(stream)
    row = await run_row(services.store, tenant, run_id)
    if is_final(row.status):
        return False
    if row.status == "paused" and row.reason == reason[:REASON_CHARS_MAX]:
        return True
    paused = ev.RunSuspendedEvent(status="paused", reason=reason[:REASON_CHARS_MAX])
    draft = Draft(paused, services.clock.now_us(), "kernel")
    return await append_if_idle(services, stream, [draft], head=head)
