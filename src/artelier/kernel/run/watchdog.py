"""The watchdog: a run whose drives die without progress is paused instead of driven again.

Input that freezes the interpreter, or uses up the memory, ends the process that drives it; no thread of that
process can do anything about it. So the proof stands in the store: the lease of a drive that ended without
giving it back, with how far the run had come when it was taken. Why so: docs/decisions/0035-watchdog.md.
"""

from __future__ import annotations

from dataclasses import replace

from artelier.errors import RunSuspended
from artelier.kernel import events as ev
from artelier.kernel.run.services import Services
from artelier.log import Batch, Draft, Fence, LeaseRequest, StreamAppend, Tx, run_stream

STALLED_MAX = 2
"""Drives without progress, in a row, after which a run is not driven any more until a person resumes it."""

OF_RESUMING = (
    ev.RunResumed,
    ev.RunSuspendedEvent,
    ev.ToolsChanged,
    ev.PromptDrifted,
    ev.ModelAttempted,
    ev.ToolRetried,
)
"""What every drive records again before it gets anywhere: none of it is progress."""

STALLED = "two drives ended without progress"
"""The beginning of the reason of a run that was parked."""

_PROGRESS = (
    "SELECT e.seq FROM events e JOIN streams s ON s.id = e.stream"
    " WHERE s.tenant = ? AND s.space = ? AND s.name = ?"
    f" AND e.kind NOT IN ({', '.join('?' * len(OF_RESUMING))}) ORDER BY e.seq DESC LIMIT 1"
)

_CHILD_HELD = (
    "SELECT 1 FROM runs c JOIN leases l ON l.stream = c.tenant || '/main/run:' || c.run"
    " WHERE c.tenant = ? AND c.parent = ? AND l.holder = ? LIMIT 1"
)


def with_stall_count(request: LeaseRequest) -> LeaseRequest:
    """Return a request for a run's lease that counts the drives before it which have stalled."""
    stream = request.stream
    kinds = [kind.KIND for kind in OF_RESUMING]

    def progress(tx: Tx) -> int:
        row = tx.one(_PROGRESS, (*stream, *kinds))
        return row[0] if row is not None else 0

    def is_excused(tx: Tx, holder: str) -> bool:
        # A parent only waits while a child is driven: what stopped the process is counted there.
        return tx.one(_CHILD_HELD, (stream.tenant, stream.id, holder)) is not None

    return replace(request, progress=progress, is_excused=is_excused)


async def park(services: Services, fence: Fence) -> RunSuspended:
    """Pause a stalled run under its lease, release that, and return what its opener is told.

    Nothing of the run is read or driven before: a replay could freeze this process too.
    """
    stream = fence.stream
    rows = await services.store.query(
        "SELECT s.key FROM steps s JOIN runs r ON r.id = s.run WHERE r.tenant = ? AND r.run = ?"
        " ORDER BY s.status NOT IN ('requested', 'open'), s.requested DESC LIMIT 1",
        (stream.tenant, stream.id),
    )
    where = f"at step {rows[0][0]}" if rows else "before the first step"
    reason = f"{STALLED} {where}"[:200]
    parked = ev.RunSuspendedEvent(status="paused", reason=reason)
    append = StreamAppend(stream, [Draft(parked, services.clock.now_us(), "kernel")])
    await services.store.append(Batch(appends=[append], fence=fence, release=fence))
    return RunSuspended(stream.id, status="paused", reason=reason)


_LEFT = (
    "SELECT r.tenant, r.run, l.holder, l.progress, l.expires_us, l.expires_uptime_us"
    " FROM leases l JOIN runs r ON l.stream = r.tenant || '/main/run:' || r.run"
)


async def left_behind(services: Services) -> dict[tuple[str, str], bool]:
    """Return the runs whose drivers vanished, by `(tenant, run id)`; true for those that had stalled.

    Cost: a row per run that is driven or was left.
    """
    kinds = [kind.KIND for kind in OF_RESUMING]
    found: dict[tuple[str, str], bool] = {}
    for tenant, run, holder, progress, *end in await services.store.query(_LEFT):
        if not services.is_driving(holder, end):
            rows = await services.store.query(_PROGRESS, (*run_stream(tenant, run), *kinds))
            found[tenant, run] = bool(rows) and rows[0][0] == progress
    return found
