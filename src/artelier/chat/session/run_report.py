"""One run of a chat explained: what was planned, what each operation came to, what the prompt was made of.

Statuses, codes and names only. What operations found stays where it is: a value that belongs to the run
alone, or that nobody is meant to see, cannot be read here.
"""

from __future__ import annotations

from typing import Any

import msgspec

from artelier.chat.turn.main_call import STEP
from artelier.errors import NotFound
from artelier.kernel import Renderer, run_row
from artelier.kernel.queries.content import shown_fields, shown_json
from artelier.kernel.queries.reports import run_object
from artelier.kernel.run.context import is_final
from artelier.kernel.tenants.registry import TenantScope
from artelier.log.queries import stream_events
from artelier.operations import events as ev

EVENTS_MAX = 10_000

_KINDS = (ev.PhaseChanged, ev.SessionRead, ev.OperationStarted, ev.OperationFinished, ev.CommitReported)


async def show_run(desk: TenantScope, run_id: str, *, internal: bool = False) -> dict[str, Any]:
    """`{id, status, ..., phase, turn, trigger, plan, operations, reports, prompt, dropped, failed}`.

    `internal`, for operators alone: an operation that failed has its error in full, and under `scope` the
    names that it saw; one that is done has its `result`. Errors: `NotFound`.
    """
    services, tenant = desk.services, desk.id
    row = await run_row(services.store, tenant, run_id)
    kinds = {kind.KIND: kind for kind in _KINDS}
    events = await stream_events(services.store, row.id, *kinds, limit=EVENTS_MAX)
    shown: dict[str, Any] = {
        **run_object(row),
        "phase": "",
        "turn": 0,
        "plan": [],
        "operations": [],
        "reports": [],
    }
    for event in events:
        await _add(desk, shown, event.read(kinds[event.kind]), internal)
    job = await shown_fields(services, tenant, row.settings)
    for name in ("chat", "branch", "trigger", "profile", "session_id"):
        shown[name] = job.get(name, "generate" if name == "trigger" else "")
    if is_final(row.status):
        _close(shown)
    result = await shown_fields(services, tenant, row.result)
    shown["failed"] = result.get("failed") if row.status == "failed" else None
    shown["finish_reason"] = result.get("finish_reason", "")
    return shown | await _prompt(desk, run_id)


async def _add(desk: TenantScope, shown: dict[str, Any], event: object, internal: bool) -> None:
    if isinstance(event, ev.PhaseChanged):
        shown["phase"] = event.phase
        if event.plan:
            shown["plan"] = [msgspec.to_builtins(one) for one in event.plan]
    elif isinstance(event, ev.SessionRead):
        shown["turn"] = event.turn
        shown["artifacts"] = [{"tag": one.tag, "version": one.version} for one in event.artifacts]
    elif isinstance(event, ev.OperationStarted):
        shown["operations"].append(
            {"operation_id": event.operation_id, "hook": event.hook, "status": "running"}
        )
    elif isinstance(event, ev.OperationFinished):
        ended = await _operation_end(desk, event)
        if internal:
            ended |= await _internals(desk, event)
        _end(shown["operations"], ended)
    elif isinstance(event, ev.CommitReported):
        for report in event.reports:
            plain = msgspec.to_builtins(report)
            plain.pop("value", None)
            shown["reports"].append({"hook": event.hook, **plain})


async def _operation_end(desk: TenantScope, event: ev.OperationFinished) -> dict[str, Any]:
    ended: dict[str, Any] = {
        "operation_id": event.operation_id,
        "hook": event.hook,
        "status": event.status,
        "reason": event.reason,
        "code": event.code,
        "message": await shown_json(desk.services, desk.id, event.message),
    }
    if event.status == "skipped":  # the values that a condition saw
        ended["details"] = await shown_json(desk.services, desk.id, event.details)
    return ended


async def _internals(desk: Any, event: ev.OperationFinished) -> dict[str, Any]:
    """Return what people who are no operators never see of an operation."""
    own: dict[str, Any] = {"scope": await shown_json(desk.services, desk.id, event.scope)}
    if event.withheld is not None:
        own["message"] = await shown_json(desk.services, desk.id, event.withheld)
    if event.result is not None:
        own["result"] = await shown_json(desk.services, desk.id, event.result)
    return own


def _end(operations: list[dict[str, Any]], ended: dict[str, Any]) -> None:
    for one in operations:
        if (one["operation_id"], one["hook"]) == (ended["operation_id"], ended["hook"]):
            one.update(ended)
            return
    operations.append(ended)


def _close(shown: dict[str, Any]) -> None:
    """The run is over: whatever is planned or was started, and has no end, was aborted with it."""
    for one in shown["operations"]:
        if one["status"] == "running":
            one.update(status="aborted", reason="", code="cancelled", message=None)
    known = {(one["operation_id"], one["hook"]) for one in shown["operations"]}
    for planned in shown["plan"]:
        if (planned["operation_id"], planned["hook"]) in known:
            continue
        skipped = planned.get("skipped", "")
        shown["operations"].append(
            {
                "operation_id": planned["operation_id"],
                "hook": planned["hook"],
                "status": "skipped" if skipped else "aborted",
                "reason": skipped,
                "code": "" if skipped else "cancelled",
                "message": None,
            }
        )


async def _prompt(desk: TenantScope, run_id: str) -> dict[str, Any]:
    """Sections of the main call's prompt with their sources, from its manifest."""
    try:
        renderer = await Renderer.open(desk.services, desk.id, run_id)
        manifest = await renderer.manifest(STEP)
    except NotFound:
        return {"prompt": [], "dropped": []}
    names = ("tag", "tokens", "src", "trust", "cut", "stability")
    return {
        "prompt": [{name: getattr(part, name) for name in names} for part in manifest.parts],
        "dropped": [msgspec.to_builtins(one) for one in manifest.dropped],
    }
