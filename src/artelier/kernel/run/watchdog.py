"""The watchdog: a run whose drives die without progress is paused instead of driven again.

Input that freezes the interpreter, or uses up the memory, ends the process that drives it; no thread of that
process can do anything about it. So the proof stands in the store: the lease of a drive that ended without
giving it back, with how far the run had come when it was taken. Why so: docs/decisions/0035-watchdog.md.
"""

from __future__ import annotations

from dataclasses import replace

from artelier.errors import RunSuspended
from artelier.kernel import events as ev
from artelier.kernel.queries.runs import holds_child, leased_runs
from artelier.kernel.queries.steps import newest_step
from artelier.kernel.run.services import Services
from artelier.log import Batch, Draft, Fence, LeaseRequest, StreamAppend, Tx, run_stream
from artelier.log.queries import newest_seq_but, read_newest_seq_but

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


def with_stall_count(request: LeaseRequest) -> LeaseRequest:
    """Return a request for a run's lease that counts the drives before it which have stalled."""
    stream = request.stream
    kinds = [kind.KIND for kind in OF_RESUMING]

    def progress(tx: Tx) -> int:
        return newest_seq_but(tx, stream, kinds)

    def is_excused(tx: Tx, holder: str) -> bool:
        # A parent only waits while a child is driven: what stopped the process is counted there.
        return holds_child(tx, stream, holder)

    return replace(request, progress=progress, is_excused=is_excused)


async def park(services: Services, fence: Fence) -> RunSuspended:
    """Pause a stalled run under its lease, release that, and return what its opener is told.

    Nothing of the run is read or driven before: a replay could freeze this process too.
    """
    stream = fence.stream
    step = await newest_step(services.store, stream.tenant, stream.id)
    where = f"at step {step.key}" if step is not None else "before the first step"
    reason = f"{STALLED} {where}"[:200]
    parked = ev.RunSuspendedEvent(status="paused", reason=reason)
    append = StreamAppend(stream, [Draft(parked, services.clock.now_us(), "kernel")])
    await services.store.append(Batch(appends=[append], fence=fence, release=fence))
    return RunSuspended(stream.id, status="paused", reason=reason)


async def left_behind(services: Services) -> dict[tuple[str, str], bool]:
    """Return the runs whose drivers vanished, by `(tenant, run id)`; true for those that had stalled.

    Cost: a row per run that is driven or was left.
    """
    kinds = [kind.KIND for kind in OF_RESUMING]
    found: dict[tuple[str, str], bool] = {}
    for left in await leased_runs(services.store):
        if not services.is_driving(left.holder, left.end):
            stream = run_stream(left.tenant, left.run)
            come = await read_newest_seq_but(services.store, stream, kinds)
            found[left.tenant, left.run] = come == left.progress and come > 0
    return found
