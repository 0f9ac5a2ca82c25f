"""Settling a step whose outcome is unknown: a person's word, or the tool's own probe."""

from __future__ import annotations

from functools import partial
from typing import Any

from artelier.errors import Conflict, NotFound, ToolFailed
from artelier.kernel import events as ev
from artelier.kernel.commands import control_stream
from artelier.kernel.history.fork_lineage import dispatcher_of
from artelier.kernel.privacy.pii_scrubber import is_known, wants_values
from artelier.kernel.queries.runs import run_row
from artelier.kernel.queries.steps import find_record
from artelier.kernel.run.services import Services, TenantState
from artelier.kernel.tool_calls.dispatches import entered_by
from artelier.kernel.tool_calls.probe import MAY_LAND, ask_probe
from artelier.log import EventData, decode_stored, stored_blob


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
    return await control_stream.give(
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
