"""One run of a chat explained: what was planned, what each operation came to, what the prompt was made of.

Statuses, codes and names only. What operations found stays where it is: a value that belongs to the run
alone, or that nobody is meant to see, cannot be read here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NotRequired, TypedDict

import msgspec

from artelier.chat.turn.main_call import reply_step
from artelier.errors import NotFound
from artelier.kernel import Renderer, run_row
from artelier.kernel.queries.content import shown_fields, shown_json
from artelier.kernel.queries.reports import RunReport, run_object
from artelier.kernel.run.context import is_final
from artelier.kernel.tenants.registry import TenantScope
from artelier.log.queries import stream_events
from artelier.operations import events as ev

EVENTS_MAX = 10_000

_KINDS = (ev.PhaseChanged, ev.SessionRead, ev.OperationStarted, ev.OperationFinished, ev.CommitReported)


class TurnOperation(TypedDict):
    """An operation of a turn, with what became of it."""

    operation_id: str
    hook: str
    status: str
    """`running`, or how it ended."""
    reason: NotRequired[str]
    code: NotRequired[str]
    message: NotRequired[Any]
    """Words, as JSON; None if there are none."""
    details: NotRequired[Any]
    """Of one that was skipped: the values that its condition saw, as JSON."""
    scope: NotRequired[Any]
    """For operators: the names that it saw, as JSON."""
    result: NotRequired[Any]
    """For operators: what it found, as JSON."""


class ReadVersion(TypedDict):
    """The version of an artifact that a turn began with."""

    tag: str
    version: int


class PromptPart(TypedDict):
    """A section of the main call's prompt."""

    tag: str
    tokens: int
    src: Sequence[str]
    trust: str
    cut: str
    stability: str


class PromptReport(TypedDict):
    """The sections of the main call's prompt, and those that were left out."""

    prompt: list[PromptPart]
    dropped: list[dict[str, Any]]
    """The fields of `manifest.Dropped`."""


class TurnReport(RunReport, PromptReport):
    """A run of a chat, explained. Reports are dictionaries, because callers index them."""

    phase: str
    turn: int
    plan: list[dict[str, Any]]
    """The fields of `operations.events.Planned`."""
    operations: list[TurnOperation]
    reports: list[dict[str, Any]]
    """The fields of `operations.events.EffectReport` without values, and the `hook`."""
    artifacts: list[ReadVersion]
    chat: str
    branch: str
    trigger: str
    profile: str
    session_id: str
    failed: Any
    """JSON data."""
    finish_reason: str


@dataclass(slots=True)
class _Course:
    """The course of a turn, as its events tell it."""

    phase: str = ""
    turn: int = 0
    plan: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    operations: list[TurnOperation] = field(default_factory=list[TurnOperation])
    reports: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    artifacts: list[ReadVersion] = field(default_factory=list[ReadVersion])


async def show_run(desk: TenantScope, run_id: str, *, internal: bool = False) -> TurnReport:
    """Return a run of a chat, explained.

    `internal`, for operators alone: an operation that failed has its error in full, and under `scope` the
    names that it saw; one that is done has its `result`. Errors: `NotFound`.
    """
    services, tenant = desk.services, desk.id
    row = await run_row(services.store, tenant, run_id)
    kinds = {kind.KIND: kind for kind in _KINDS}
    course = _Course()
    for event in await stream_events(services.store, row.id, *kinds, limit=EVENTS_MAX):
        await _add(desk, course, event.read(kinds[event.kind]), internal)
    if is_final(row.status):
        _close(course)
    job = await shown_fields(services, tenant, row.settings)
    result = await shown_fields(services, tenant, row.result)
    return {
        **run_object(row),
        "phase": course.phase,
        "turn": course.turn,
        "plan": course.plan,
        "operations": course.operations,
        "reports": course.reports,
        "artifacts": course.artifacts,
        "chat": job.get("chat", ""),
        "branch": job.get("branch", ""),
        "trigger": job.get("trigger", "generate"),
        "profile": job.get("profile", ""),
        "session_id": job.get("session_id", ""),
        "failed": result.get("failed") if row.status == "failed" else None,
        "finish_reason": result.get("finish_reason", ""),
        **await _prompt(desk, run_id),
    }


async def _add(desk: TenantScope, course: _Course, event: object, internal: bool) -> None:
    if isinstance(event, ev.PhaseChanged):
        course.phase = event.phase
        if event.plan:
            course.plan = [msgspec.to_builtins(one) for one in event.plan]
    elif isinstance(event, ev.SessionRead):
        course.turn = event.turn
        course.artifacts = [{"tag": one.tag, "version": one.version} for one in event.artifacts]
    elif isinstance(event, ev.OperationStarted):
        course.operations.append(
            {"operation_id": event.operation_id, "hook": event.hook, "status": "running"}
        )
    elif isinstance(event, ev.OperationFinished):
        _end(course.operations, await _operation_end(desk, event, internal))
    elif isinstance(event, ev.CommitReported):
        for report in event.reports:
            plain = msgspec.to_builtins(report)
            plain.pop("value", None)
            course.reports.append({"hook": event.hook, **plain})


async def _operation_end(desk: TenantScope, event: ev.OperationFinished, internal: bool) -> TurnOperation:
    """Return how an operation ended; `internal` adds what people who are no operators never see."""

    async def read(ref: str | None) -> Any:
        return await shown_json(desk.services, desk.id, ref)

    is_whole = internal and event.withheld is not None
    ended: TurnOperation = {
        "operation_id": event.operation_id,
        "hook": event.hook,
        "status": event.status,
        "reason": event.reason,
        "code": event.code,
        "message": await read(event.withheld if is_whole else event.message),
    }
    if event.status == "skipped":
        ended["details"] = await read(event.details)
    if internal:
        ended["scope"] = await read(event.scope)
        if event.result is not None:
            ended["result"] = await read(event.result)
    return ended


def _end(operations: list[TurnOperation], ended: TurnOperation) -> None:
    for one in operations:
        if (one["operation_id"], one["hook"]) == (ended["operation_id"], ended["hook"]):
            one.update(ended)
            return
    operations.append(ended)


def _close(course: _Course) -> None:
    """The run is over: whatever is planned or was started, and has no end, was aborted with it."""
    for one in course.operations:
        if one["status"] == "running":
            one.update({"status": "aborted", "reason": "", "code": "cancelled", "message": None})
    known = {(one["operation_id"], one["hook"]) for one in course.operations}
    for planned in course.plan:
        if (planned["operation_id"], planned["hook"]) in known:
            continue
        skipped = planned.get("skipped", "")
        course.operations.append(
            {
                "operation_id": planned["operation_id"],
                "hook": planned["hook"],
                "status": "skipped" if skipped else "aborted",
                "reason": skipped,
                "code": "" if skipped else "cancelled",
                "message": None,
            }
        )


async def _prompt(desk: TenantScope, run_id: str) -> PromptReport:
    """Return the main call's prompt by its manifest; nothing before the call."""
    try:
        renderer = await Renderer.open(desk.services, desk.id, run_id)
        manifest = await renderer.manifest(await reply_step(desk.services.store, desk.id, run_id))
    except NotFound:
        return {"prompt": [], "dropped": []}
    parts: list[PromptPart] = [
        {
            "tag": part.tag,
            "tokens": part.tokens,
            "src": part.src,
            "trust": part.trust,
            "cut": part.cut,
            "stability": part.stability,
        }
        for part in manifest.parts
    ]
    return {"prompt": parts, "dropped": [msgspec.to_builtins(one) for one in manifest.dropped]}
