"""The plan of a compensation: the calls of a run that can be undone, their order, and what enters each."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, cast

import msgspec

from artelier.errors import Conflict, Erased, NotFound, ToolResultInvalid
from artelier.kernel import events as ev
from artelier.kernel.history.fork_lineage import dispatcher_of, key_of, lineage
from artelier.kernel.pii_scrubber import wants_values
from artelier.kernel.queries.content import blob_json, shown_fields
from artelier.kernel.queries.runs import RunRow, children_of, run_row
from artelier.kernel.queries.steps import (
    completion_before,
    find_record,
    has_failed_to_undo,
    newest_outcome,
    step_records,
    untouched_calls,
)
from artelier.kernel.run.context import RunCore
from artelier.kernel.run.services import Services
from artelier.kernel.run.status import DRIFTED, FINAL
from artelier.log.queries import stream_events
from artelier.ports.model import ToolSchema
from artelier.ports.tool import Compensate, PerCallTool, Reversible, Risk, ToolContext, ToolPort, for_call

DEPTH_MAX = 64
"""Generations of children whose steps are undone."""


class UndoItem(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One thing to undo: a completed call, or all that a child run has done."""

    child: str = ""
    key: str = ""
    run: str = ""
    """The run that has the step, if it is another one (see `DRIFTED`)."""
    undo: str = ""
    """Full key of the step that undoes it."""
    tool: str = ""
    arguments: str = ""
    result: str | None = None
    """Blob references of what the call was given and gave."""
    owner: str = ""
    """The run that dispatched the call, if it is another one: its undoing has that run's idempotency key."""

    @property
    def name(self) -> str:
        return self.child or (f"{self.run}:{self.key}" if self.run else self.key)


class KeptEffect(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A side effect that stays."""

    key: str
    tool: str
    why: str
    """`no_compensate`, `no_tool`, `unknown_outcome`, `result_lost`: it gave what is no JSON, and its
    undoing would need that; or `erased`: nobody knows any more what it was.
    """
    run: str = ""
    """The run that has it, if it is another one; with those between, `child:grandchild`."""

    @property
    def name(self) -> str:
        return f"{self.run}:{self.key}" if self.run else self.key


class UndoPlan(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The steps to undo, in that order, and those that cannot be undone."""

    items: tuple[UndoItem, ...] = ()
    not_undone: tuple[KeptEffect, ...] = ()
    since: int = 0
    """Position in the log from which on; for children."""
    upto: str = ""
    note: str = ""


class _RecordedToolStep(msgspec.Struct, kw_only=True):
    """A tool step as the log has it."""

    stream: int
    key: str
    status: str
    position: int
    request: ev.ToolRequested
    result: str | None
    is_error: bool
    is_result_lost: bool = False
    """Whether it has acted, and only its result is an error."""


async def has_left_to_undo(services: Services, tenant: str, run_id: str) -> bool:
    """Return True if some of what was to be undone last still stands: it has failed, or was not reached."""
    row = await run_row(services.store, tenant, run_id)
    planned = await stream_events(services.store, row.id, ev.CompensationPlanned.KIND, newest=1)
    if not planned:
        return False
    event = planned[0].read(ev.CompensationPlanned)
    shown = await shown_fields(services, tenant, event.plan)  # empty if it was erased: nobody undoes more
    for item in msgspec.convert(shown, UndoPlan).items:
        key = f"{event.key}/{item.child}" if item.child else item.undo
        found = await find_record(services.store, row.id, key)
        if found is None or found.outcome is None or has_failed_to_undo(found.outcome):
            return True
    return False


async def plan_compensation(
    services: Services,
    tenant: str,
    run_id: str,
    tools: Mapping[str, ToolPort],
    *,
    upto: str | None = None,
    since: int = 0,
    depth: int = 0,
) -> UndoPlan:
    """Return what can be undone of a run and of those below it, the newest first.

    `upto`: no further back than to this step, with it. `since`: nor than to this position.
    Errors: `NotFound` for a step that the run has not asked for; `Conflict` for a child that has not ended.
    Cost: O(tool steps of the run).
    """
    row = await run_row(services.store, tenant, run_id)
    runs = await _owned_streams(services, tenant, row)
    if upto is not None:
        since = await position_of(services, tenant, run_id, upto)
    calls: list[_RecordedToolStep] = []
    for stream in runs:
        calls += await _calls(services, tenant, stream, has_ended=row.status in FINAL)
    attempts = _attempts(calls, runs)
    taken = {call.key for call in calls if call.stream == row.id}
    found: list[tuple[int, UndoItem]] = []
    kept: list[tuple[int, KeptEffect]] = []
    is_erased = bool(calls) and await _is_erased(services, tenant, run_id)
    for call in calls:
        name = "" if call.stream == row.id else runs[call.stream]
        tried = attempts[runs[call.stream], call.key]
        if call.request.undoes or call.position < since or any(map(_has_undone, tried)):
            continue
        why = _stays(call, await _tool_of(services, tenant, call, tools))
        if why is not None or is_erased:
            why = "erased" if why is None else why
            if why:
                stays = KeptEffect(key=call.key, tool=call.request.name, why=why, run=name)
                kept.append((call.position, stays))
            continue
        item = UndoItem(
            key=call.key,
            run=name,
            undo=_undo_key(call.key, name, tried, taken),
            tool=call.request.name,
            arguments=call.request.arguments,
            result=call.result,
        )
        if row.origin is not None and not name:
            owner = await dispatcher_of(services, tenant, run_id, call.key)
            item = msgspec.structs.replace(item, owner="" if owner == run_id else owner)
        found.append((call.position, item))
    for at, child in await _children(services, tenant, run_id, tools, since, depth):
        if isinstance(child, UndoItem):
            found.append((at, child))
        else:
            kept.append((at, child))
    found.sort(key=lambda one: -one[0])
    kept.sort(key=lambda one: -one[0])
    return UndoPlan(
        items=tuple(item for _, item in found), not_undone=tuple(one for _, one in kept), since=since
    )


async def _is_erased(services: Services, tenant: str, run_id: str) -> bool:
    """Return True if what a run has stored is gone, and with it what its calls were given."""
    try:
        await key_of(services, await lineage(services, tenant, run_id))
    except Erased:
        return True
    return False


async def _owned_streams(services: Services, tenant: str, row: RunRow) -> dict[int, str]:
    """The runs whose steps are this one's to undo, by stream: itself, and those that it goes on for.

    What another fork inherited is its origin's to undo.
    """
    found = {row.id: row.run}
    while row.origin is not None:
        row = await run_row(services.store, tenant, row.origin)
        if row.status != "cancelled" or row.reason != DRIFTED:
            break
        found[row.id] = row.run
    return found


async def position_of(services: Services, tenant: str, run_id: str, key: str) -> int:
    """Return where in the log a step was asked for, by the run or by one that it was forked from."""
    for place in await lineage(services, tenant, run_id):
        found = await find_record(services.store, place.stream_id, key, upto=place.upto)
        if found is not None:
            return found.request.position
    raise NotFound(f"run {run_id!r} has no step {key[:200]!r} to go back to")


async def _calls(
    services: Services, tenant: str, stream: int, *, has_ended: bool = False
) -> list[_RecordedToolStep]:
    """All tool steps of a run that were entered; of one that `has_ended`, those that may have acted."""
    found: list[_RecordedToolStep] = []
    untouched = await untouched_calls(services.store, stream) if has_ended else frozenset[str]()
    for step, asked, outcome in await step_records(services.store, stream, "tool", "undo"):
        request = asked.decode()
        if isinstance(request, ev.ToolRefused):
            request = ev.ToolRequested(
                key=step.key, name=request.name, arguments=request.result, undoes=request.undoes
            )
        if not isinstance(request, ev.ToolRequested):
            continue
        end = None if outcome is None else outcome.decode()
        status = step.status
        if status == "requested" and step.key in untouched:
            continue
        if isinstance(end, ev.Cut) and (done := await completion_before(services.store, stream, step)):
            end, outcome, status = done.decode(), done, "completed"
        if isinstance(end, ev.ToolCompleted) and end.recorded is not None:
            continue  # the origin did it, and whether it is undone is decided there
        is_error = isinstance(end, ev.ToolRefused)
        result: str | None = None
        if isinstance(end, ev.ToolCompleted):
            result, is_error = end.result, end.is_error
        elif isinstance(end, ev.ToolReconciled):
            result, is_error = end.result, end.answer == "failed"
        found.append(
            _RecordedToolStep(
                stream=stream,
                key=step.key,
                status=status,
                position=asked.position if outcome is None else outcome.position,
                request=request,
                result=result,
                is_error=is_error,
                is_result_lost=is_error and await _is_result_lost(services, tenant, end),
            )
        )
    return found


async def _is_result_lost(services: Services, tenant: str, end: object) -> bool:
    """Return True for a call that has returned, with a result that could not be recorded."""
    if not isinstance(end, ev.ToolCompleted | ev.ToolReconciled) or end.result is None:
        return False
    error = (await shown_fields(services, tenant, end.result)).get("error")
    return isinstance(error, dict) and cast("dict[str, Any]", error).get("code") == ToolResultInvalid.code


def _attempts(
    calls: list[_RecordedToolStep], runs: Mapping[int, str]
) -> defaultdict[tuple[str, str], list[_RecordedToolStep]]:
    """Return the calls that were to undo a step, by run and step."""
    found: defaultdict[tuple[str, str], list[_RecordedToolStep]] = defaultdict(list)
    for call in calls:
        if call.request.undoes:
            found[call.request.undoes_in or runs[call.stream], call.request.undoes].append(call)
    return found


def _has_undone(attempt: _RecordedToolStep) -> bool:
    return attempt.status == "completed" and not attempt.is_error


async def _tool_of(
    services: Services, tenant: str, call: _RecordedToolStep, tools: Mapping[str, ToolPort]
) -> ToolPort | None:
    """The tool that was called, with the facts of this call: of some tools, some calls do nothing."""
    tool = tools.get(call.request.name)
    if isinstance(tool, PerCallTool) and not call.is_error:
        with suppress(Erased):
            return for_call(tool, await blob_json(services, tenant, call.request.arguments))
    return tool


def _stays(call: _RecordedToolStep, tool: ToolPort | None) -> str | None:
    """Return why a call is not undone; empty if there is nothing to undo, None if it is to be undone."""
    acts = call.request.side_effect or (tool is not None and tool.side_effect)
    if not acts or call.is_error:
        return "result_lost" if acts and call.is_result_lost else ""
    if call.status in ("cancelled", "timed_out") and call.request.side_effect:
        return ""  # what must not be repeated ends so only when it is known not to have happened
    if call.status != "completed":
        return "unknown_outcome"
    if tool is None:
        return "no_tool"
    return None if compensate_of(tool) is not None else "no_compensate"


def compensate_of(tool: ToolPort) -> Compensate | None:
    """Return what undoes a completed call of a tool."""
    return tool.compensate if isinstance(tool, Reversible) else None


def _undo_key(key: str, run: str, tried: list[_RecordedToolStep], taken: set[str]) -> str:
    """The key of an attempt that is without an outcome, or of the next one."""
    open_ = [attempt.key for attempt in tried if attempt.status != "completed"]
    base = f"{run}:{key}/undo" if run else f"{key}/undo"
    if open_:
        return open_[-1]
    if base not in taken:
        return base
    number = 2
    while f"{base}/{number}" in taken:
        number += 1
    return f"{base}/{number}"


async def _children(
    services: Services, tenant: str, run_id: str, tools: Mapping[str, ToolPort], since: int, depth: int
) -> list[tuple[int, UndoItem | KeptEffect]]:
    """Children that have something to undo, each where the newest of it stands; of others, what stays."""
    found: list[tuple[int, UndoItem | KeptEffect]] = []
    for row in await children_of(services.store, tenant, run_id):
        child = row.run
        if depth >= DEPTH_MAX:
            raise Conflict(f"run {run_id!r} has more generations below it than can be undone")
        plan = await plan_compensation(services, tenant, child, tools, since=since, depth=depth + 1)
        if plan.items and row.status not in FINAL:
            raise Conflict(
                f"run {child!r} has not ended, and what it has done cannot be undone yet",
                got=row.status,
                hint="Let it end, or cancel it.",
            )
        at = await newest_outcome(services.store, row.id)
        found += [(at, UndoItem(child=child))] if plan.items else _below(child, plan, at)
    return found


def _below(child: str, plan: UndoPlan, at: int) -> list[tuple[int, UndoItem | KeptEffect]]:
    """Return what stays of a child, as its parent tells it."""
    return [
        (at, msgspec.structs.replace(one, run=f"{child}:{one.run}" if one.run else child))
        for one in plan.not_undone
    ]


class Undoing:
    """The undoing of one call, as a tool that the kernel drives."""

    side_effect = True
    idempotent = False
    probe = None

    def __init__(self, tool: ToolPort, undo: Compensate, result: object) -> None:
        self.name, self.description, self.trust = tool.name, tool.description, tool.trust
        self.risk: Risk = tool.risk
        self.grant: str | None = tool.grant
        self.timeout_s: float | None = tool.timeout_s
        self.heartbeat_timeout_s: float | None = tool.heartbeat_timeout_s
        self._tool, self._undo, self._result = tool, undo, result

    @property
    def schema(self) -> ToolSchema:
        return self._tool.schema

    def validate(self, arguments: object) -> dict[str, Any]:
        return self._tool.validate(arguments)

    async def call(self, arguments: dict[str, Any], context: ToolContext) -> object:
        return await self._undo(arguments, self._result, context)


async def undoing_of(core: RunCore, request: ev.ToolRequested) -> ToolPort | None:
    """Return what a recorded undoing would enter; None if its tool, or what it undoes, is not at hand."""
    tool = core.tools.get(request.name)
    undo = compensate_of(tool) if tool is not None else None
    row = await run_row(core.services.store, core.tenant.id, request.undoes_in or core.run_id)
    for call in await _calls(core.services, core.tenant.id, row.id):
        if tool is not None and undo is not None and call.key == request.undoes:
            result = await core.load_json(call.result)
            if core.pii is not None and wants_values(tool.grant or ""):
                if core.pii.find_erased(result):
                    return None
                result = core.pii.restore(result)
            return Undoing(tool, undo, result)
    return None


async def undone_since(services: Services, tenant: str, run_id: str, since: int) -> list[tuple[int, str]]:
    """Steps of a run and of those below it that were undone after a position, with the position of each."""
    row = await run_row(services.store, tenant, run_id)
    found = [
        (call.position, call.request.undoes)
        for call in await _calls(services, tenant, row.id)
        if call.request.undoes and _has_undone(call) and call.position > since
    ]
    for child in [one.run for one in await children_of(services.store, tenant, run_id)]:
        below = await undone_since(services, tenant, child, since)
        found += [(position, f"{child}:{name}") for position, name in below]
    return found
