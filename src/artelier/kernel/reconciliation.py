"""Reconciliation: a step whose outcome is unknown is settled by a person, or by the tool's own probe."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from artelier.errors import Conflict, NotFound, ToolFailed
from artelier.kernel import events as ev
from artelier.kernel.control_stream import give
from artelier.kernel.history.fork_lineage import dispatcher_of
from artelier.kernel.pii_scrubber import is_known, wants_values
from artelier.kernel.queries.runs import run_row
from artelier.kernel.queries.steps import find_record
from artelier.kernel.run.services import Services, TenantState
from artelier.kernel.steps.failures import is_own, words
from artelier.kernel.tool_calls.dispatches import entered_by
from artelier.log import EventData, decode_stored, stored_blob
from artelier.ports.tool import Happened, ToolPort, not_happened, unsure

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
    return Probed(answer="happened", value=answer.result if isinstance(answer, Happened) else answer)


async def reconcile(
    services: Services,
    tenant: TenantState,
    run_id: str,
    step: str,
    *,
    answer: str,
    result: Any = None,
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


async def _probe(services: Services, tenant: TenantState, run_id: str, step: str) -> tuple[str, Any]:
    """Ask the tool what became of the call; answer and payload of the command that says so.

    Errors: `NotFound` without a probe, `Conflict` if it cannot tell.
    """
    row = await run_row(services.store, tenant.id, run_id)
    found = await find_record(services.store, row.id, step)
    if found is None or found.step.status != "unknown":
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
    arguments = tool.validate(stored)
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
            return "retry", None
        error = MAY_LAND
    raise Conflict(
        f"the probe of {request.name!r} cannot tell: {error[:300]}",
        hint="Ask again later, or settle it with --succeeded, --failed or --retry.",
    )
