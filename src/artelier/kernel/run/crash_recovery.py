"""Crash recovery: what dead processes left behind, runs not to be driven again, unknown outcomes settled.

A command is recorded before it is obeyed, and a driven run is cancelled before its children end and its
money comes back. A process that dies in between leaves the rest to a worker, or to the next command.

The watchdog: input that freezes the interpreter, or uses up the memory, ends the process that drives it; no
thread of that process can do anything about it. The proof stands in the store: the lease of a drive that
ended without giving it back, with how far the run had come when it was taken. Such a run is parked: paused,
with a reason that people read, until a person resumes it. Why so: docs/decisions/0035-watchdog.md.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, cast

from artelier.errors import Conflict, NotFound, RunSuspended, StoreUnavailable, ToolFailed
from artelier.kernel import events as ev
from artelier.kernel.budget import abandon
from artelier.kernel.control_stream import append_if_idle, apply_if_idle, finish_cancelled, give
from artelier.kernel.history.fork_lineage import dispatcher_of
from artelier.kernel.pii_scrubber import is_known, wants_values
from artelier.kernel.queries.runs import controls_after, find_run, holds_child, leased_runs, run_row
from artelier.kernel.queries.steps import newest_step, run_steps, unsettled_calls
from artelier.kernel.run.context import RunCore, is_final
from artelier.kernel.run.services import Services, TenantState
from artelier.kernel.run.status import RunStatus
from artelier.kernel.steps.failures import is_own, words
from artelier.kernel.tool_calls.dispatches import entered_by
from artelier.log import (
    Batch,
    Draft,
    EventData,
    Fence,
    LeaseRequest,
    StreamAppend,
    Tx,
    control_stream,
    decode_stored,
    run_stream,
    stored_blob,
)
from artelier.log.queries import newest_seq_but, read_newest_seq_but
from artelier.ports.tool import Happened, ToolPort, fit_arguments, not_happened, unsure

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
        is_driving = services.driving_check()
        # A lease is given back in the driver's last batch: these drivers have not let go.
        for left in await leased_runs(services.store, status=RunStatus.CANCELLED.value, limit=PAGE):
            if self._tenant in (None, left.tenant) and not is_driving(left.holder, left.end):
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
    return [
        abandon(request, key=key, is_sent=key not in core.unsent, capped=core.capped)
        for key, request in held.items()
    ]


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


async def park_stalled(services: Services, fence: Fence) -> RunSuspended:
    """Pause a stalled run under its lease, release that, and return what its opener is told.

    Nothing of the run is read or driven before: a replay could freeze this process too.
    """
    stream = fence.stream
    step = await newest_step(services.store, stream.tenant, stream.id)
    where = f"at step {step.key}" if step is not None else "before the first step"
    reason = f"{STALLED} {where}"[:200]
    parked = ev.RunSuspendedEvent(status=RunStatus.PAUSED.value, reason=reason)
    append = StreamAppend(stream, [Draft(parked, services.clock.now_us(), "kernel")])
    await services.store.append(Batch(appends=[append], fence=fence, release=fence))
    return RunSuspended(stream.id, status=RunStatus.PAUSED.value, reason=reason)


async def left_behind(services: Services) -> dict[tuple[str, str], bool]:
    """Return the runs whose drivers vanished, by `(tenant, run id)`; true for those that had stalled.

    Cost: a row per run that is driven or was left.
    """
    kinds = [kind.KIND for kind in OF_RESUMING]
    is_driving = services.driving_check()
    found: dict[tuple[str, str], bool] = {}
    for left in await leased_runs(services.store):
        if not is_driving(left.holder, left.end):
            stream = run_stream(left.tenant, left.run)
            come = await read_newest_seq_but(services.store, stream, kinds)
            found[left.tenant, left.run] = come == left.progress and come > 0
    return found


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
    if row.status == RunStatus.PAUSED and row.reason == reason[:REASON_CHARS_MAX]:
        return True
    paused = ev.RunSuspendedEvent(status=RunStatus.PAUSED.value, reason=reason[:REASON_CHARS_MAX])
    draft = Draft(paused, services.clock.now_us(), "kernel")
    return await append_if_idle(services, stream, [draft], head=head)


# --------------------------------------------------------------------------- reconciliation
# Reconciliation: a step whose outcome is unknown is settled by a person, or by the tool's own probe.

PROBE_TIMEOUT_S = 60.0
"""For the probe of a tool without a timeout of its own; a probe that hangs cannot tell."""

REDISPATCHES_MAX = 3
"""How often a step is entered again because its probe says that it has not happened."""

MAY_LAND = (
    "The probe says that the call has not happened, but it may still: it is not known that the process which"
    " made it has ended."
)
NOT_OURS = (
    "The probe says that the call has not happened, but it is a call of the run that this was forked from,"
    " which may make it as well."
)
NO_ANSWER = (
    "The probe returned None, which says nothing: let it return happened() or happened(result), not_happened"
    " or unsure."
)
TOO_OFTEN = f"The probe has said {REDISPATCHES_MAX} times that the call has not happened."


@dataclass(frozen=True, slots=True, kw_only=True)
class Probed:
    """The answer of a probe."""

    answer: Literal["happened", "failed", "not_happened", "unsure"]
    value: Any = None
    """The result of a call that happened; the `ToolFailed` of one that failed."""
    error: str = ""
    """Why the probe cannot tell, if it raised."""


async def ask_probe(tool: ToolPort, key: str, arguments: dict[str, Any]) -> Probed:
    """Ask what became of the call with this idempotency key. A tool without a probe is unsure."""
    if tool.probe is None:
        return Probed(answer="unsure")
    timeout_s = tool.timeout_s or PROBE_TIMEOUT_S
    limit = asyncio.timeout(timeout_s)
    try:
        async with limit:
            answer = await tool.probe(key, arguments)
    except ToolFailed as error:
        return Probed(answer="failed", value=error)
    except asyncio.CancelledError as error:
        if not is_own(error):
            raise
        return Probed(answer="unsure", error="CancelledError: the probe was cancelled from within")
    except (KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException as error:  # whatever went wrong: it cannot tell
        if limit.expired():
            return Probed(answer="unsure", error=f"the probe gave no answer within {timeout_s:g} s")
        return Probed(answer="unsure", error=f"{type(error).__name__}: {words(error)[:1000]}")
    if answer is unsure:
        return Probed(answer="unsure")
    if answer is not_happened:
        return Probed(answer="not_happened")
    if answer is None:  # such as `bookings.get(key)` that found nothing: nobody has said that it happened
        return Probed(answer="unsure", error=NO_ANSWER)
    return Probed(answer="happened", value=answer.result if isinstance(answer, Happened) else answer)


async def reconcile(
    services: Services,
    tenant: TenantState,
    run_id: str,
    step: str,
    *,
    answer: str,
    result: object = None,
    by: str,
) -> EventData:
    """Give one answer: `succeeded` with a result, `failed` with a message, `retry`, or `probe`.

    Errors: see `TenantKernel.reconcile`.
    """
    payload = result if answer == "succeeded" else None
    if answer == "failed":
        payload = {"error": ToolFailed(str(result)).to_wire()}
    elif answer == "probe":
        answer, payload = await _probe(services, tenant, run_id, step)
    return await give(
        services, tenant.id, run_id, "reconcile", by=by, key=step, choice=answer, payload=payload
    )


async def _probe(services: Services, tenant: TenantState, run_id: str, step: str) -> tuple[str, object]:
    """Ask the tool what became of the call; answer and payload of the command that says so.

    Errors: `NotFound` without a probe, `Conflict` if it cannot tell.
    """
    row = await run_row(services.store, tenant.id, run_id)
    has_ended = is_final(row.status)
    unsettled = await unsettled_calls(services.store, row.id, has_ended=has_ended)
    found = next((call for call in unsettled if call.step.key == step), None)
    if found is None:
        raise Conflict(f"step {step!r} of run {run_id!r} has no unknown outcome")
    request = found.request.read(ev.ToolRequested)
    tool = services.tools.get(request.name) if not request.undoes else None
    if tool is None or tool.probe is None:
        raise NotFound(
            f"{'the undoing of ' if request.undoes else ''}tool {request.name!r} has no probe here",
            hint="Name the file that has it (--tools), or settle it with --succeeded, --failed or --retry.",
        )
    stored = decode_stored(await stored_blob(services.store, tenant.id, request.arguments))
    if services.personal is not None and wants_values(tool.grant or ""):  # as it was called
        may = partial(is_known, services.store, tenant.id, run_id)
        stored = services.personal(tenant.id).restore(stored, may)
    arguments = fit_arguments(tool, stored)
    owner = await dispatcher_of(services, tenant.id, run_id, step)
    key = f"{tenant.id}/{owner}:{step}"
    told = await ask_probe(tool, key, arguments)
    if told.answer == "happened":
        return "succeeded", told.value
    if told.answer == "failed":
        return "failed", {"error": told.value.to_wire()}
    error = told.error or "it is unsure"
    if told.answer == "not_happened":
        process = await entered_by(services.store, row.id, step)
        if services.dispatches.is_over(process, key):
            if has_ended:
                gone = ToolFailed("the call has not happened, and nobody asks for it any more")
                return "failed", {"error": gone.to_wire()}
            return "retry", None
        error = MAY_LAND
    raise Conflict(
        f"the probe of {request.name!r} cannot tell: {error[:300]}",
        hint="Ask again later, or settle it with --succeeded, --failed or --retry.",
    )
