"""Undoing what a run has done: the plan is recorded first, then each undoing is a tool step of its own.

A step `3` is undone by the step `3/undo`, in the two phases of any side effect: requested, then its outcome.
So each happens once, and one whose outcome is unknown waits for `reconcile` like any other call. What undoes

"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import msgspec

from artelier.errors import Conflict, Erased, InvalidRequest
from artelier.kernel import events as ev
from artelier.kernel.pii_scrubber import wants_values
from artelier.kernel.queries.runs import run_row
from artelier.kernel.run.context import ResultStore, RunCore, is_final
from artelier.kernel.run.services import Services, TenantState
from artelier.kernel.run.status import DRIFTED, CompensationResult, ToolResult
from artelier.kernel.run_limits import Opener, Opening
from artelier.kernel.steps.failures import raise_recorded, words
from artelier.kernel.tool_calls.compensation_plan import (
    Undoing,
    UndoItem,
    UndoPlan,
    compensate_of,
    plan_compensation,
    position_of,
    undone_since,
)
from artelier.kernel.tool_calls.tool_outcome import ToolAsk, Undo
from artelier.kernel.tool_calls.tool_step import step_with_key
from artelier.log import decode_stored
from artelier.ports.tool import ToolPort

NOTE_CHARS_MAX = 4_000


class CompensationFailed(Conflict):
    """A step could not be undone: those after it are, those before it are not."""

    code = "compensation_failed"


async def compensate(
    core: RunCore, key: str, *, upto: str | None = None, since: int = 0, note: str = "", asked: bool = False
) -> CompensationResult:
    """Undo what the run has done. `key` is the full key of the plan. Errors: see `Run.compensate`."""
    if core.compensating:
        raise Conflict(f"run {core.run_id} is being compensated already", hint="Wait until that is done.")
    core.compensating = True
    try:
        recorded = await core.find_recorded(key, "compute")
        outcome = recorded.outcome if recorded is not None else None
        if recorded is not None and isinstance(outcome, ev.CompensationPlanned):
            plan = decode_stored(await core.load(outcome.plan), type=UndoPlan)
            return await _carry_out(core, key, plan, inherited=recorded.inherited, asked=asked)
        await core.boundary()
        if len(note) > NOTE_CHARS_MAX:
            raise InvalidRequest(
                "a note is too long", expected=f"at most {NOTE_CHARS_MAX} characters", got=len(note)
            )
        await core.writer.commit()  # the plan is made of what is in the log
        plan = await plan_compensation(
            core.services, core.tenant.id, core.run_id, core.tools, upto=upto, since=since
        )
        plan = msgspec.structs.replace(plan, note=note, upto=upto or "")
        if plan.items or not asked:
            ref, blobs = core.keep_json(plan)
            planning = ev.CompensationPlanned(key=key, plan=ref, asked=asked)
            await core.writer.commit(planning, blobs=blobs)
        return await _carry_out(core, key, plan, inherited=False, asked=asked)
    finally:
        core.compensating = False


# The plan


# Carrying it out


async def _carry_out(
    core: RunCore, key: str, plan: UndoPlan, *, inherited: bool, asked: bool
) -> CompensationResult:
    """Undo what a plan says, one after the other. With `inherited`, only what the origin had begun with."""
    undone: list[str] = []
    kept = [one.name for one in plan.not_undone]
    for item in plan.items:
        step = f"{key}/{item.child}" if item.child else item.undo
        if inherited and not await core.history.knows(step):
            kept.append(item.name)
        elif item.child:
            below = await _undo_child(core, step, item, plan, plan_key=key, asked=asked)
            undone += [f"{item.child}:{name}" for name in below.undone]
            kept += [f"{item.child}:{name}" for name in below.not_undone]
        else:
            result = await _undo(core, item)
            if result.is_error and _error_of(result).get("code") != Erased.code:
                raise _failure_of(core, item, result, undone)
            (kept if result.is_error else undone).append(item.name)
    return CompensationResult(run_id=core.run_id, undone=tuple(undone), not_undone=tuple(kept))


async def _undo(core: RunCore, item: UndoItem) -> ToolResult:
    tool = core.tools.get(item.tool)
    undo = compensate_of(tool) if tool is not None else None
    port: ToolPort | None = None
    arguments = await core.load_json(item.arguments)
    gone: Sequence[str] = ()
    if tool is not None and undo is not None:
        result = await core.load_json(item.result)
        if core.pii is not None and wants_values(tool.grant or ""):
            gone = core.pii.find_erased([arguments, result])
            result = core.pii.restore(result)
        port = Undoing(tool, undo, result)
    if item.owner or item.run:
        core.owners[item.undo] = item.owner or item.run
    asked = ToolAsk(
        name=item.tool,
        arguments=arguments,
        undo=Undo(step=item.key, port=port, run_id=item.run, gone=tuple(gone)),
    )
    return await step_with_key(core, asked, item.undo)


def _failure_of(core: RunCore, item: UndoItem, result: ToolResult, undone: list[str]) -> CompensationFailed:
    said = _error_of(result)
    return CompensationFailed(
        f"step {item.name} of {core.run_id} was not undone: {str(said.get('message'))[:500]}",
        got=str(said.get("code", "error")),
        hint=f"What came after it is undone. Try again: `artelier runs compensate {core.run_id}`.",
        run=core.run_id,
        step=item.name,
        undone=tuple(undone),
    )


def _error_of(result: ToolResult) -> dict[str, Any]:
    """Return what a tool's error says."""
    return cast(dict[str, Any], result.value).get("error", {})


async def _undo_child(
    core: RunCore, key: str, item: UndoItem, plan: UndoPlan, *, plan_key: str, asked: bool
) -> CompensationResult:
    """Undo what a child has done, in its own stream; the outcome is journaled for this run's code."""
    recorded = None if asked else await core.find_recorded(key, "compute")
    outcome = recorded.outcome if recorded is not None else None
    if isinstance(outcome, ev.StepCompleted):
        told: Any = await core.load_json(outcome.result)
        return CompensationResult(
            run_id=item.child, undone=tuple(told["undone"]), not_undone=tuple(told["not_undone"])
        )
    if isinstance(outcome, ev.StepFailed):
        await raise_recorded(core, outcome.code, outcome.message)
    await core.boundary()
    try:
        below = await core.compensate_below(item.child, plan.since, plan.note)
    except Erased:  # since the plan was made
        left = await plan_compensation(
            core.services, core.tenant.id, item.child, core.tools, since=plan.since
        )
        kept = tuple(one.name for one in left.not_undone)
        below = CompensationResult(run_id=item.child, undone=(), not_undone=kept)
    except CompensationFailed as error:
        if not asked:
            ref, blobs = core.keep_json(words(error))
            failed = ev.StepFailed(key=key, name="compensate", code=error.code, message=ref)
            core.writer.note(failed, blobs)
        raise
    # All that was undone since the plan, before a crash as well.
    since = await position_of(core.services, core.tenant.id, core.run_id, plan_key)
    undone = sorted(await undone_since(core.services, core.tenant.id, item.child, since))
    below = replace(below, undone=tuple(name for _, name in undone))
    if not asked:
        value = {"undone": below.undone, "not_undone": below.not_undone}
        ref, blobs = core.keep_json(value)
        core.writer.note(ev.StepCompleted(key=key, name="compensate", result=ref), blobs)
    return below


# Runs that have ended


async def compensate_ended(
    services: Services,
    tenant: TenantState,
    run_id: str,
    *,
    open_run: Opener,
    tools: Mapping[str, ToolPort] | None = None,
    upto: str | None = None,
    since: int = 0,
    note: str = "",
    by: str = "operator",
    on_wait: str = "await",
    store_result: ResultStore | None = None,
) -> CompensationResult:
    """Undo what a run has done after it has ended: its lease is taken, its status stays what it is.

    `open_run` is `OpenRun`. Errors: see `TenantKernel.compensate`.
    """
    row = await run_row(services.store, tenant.id, run_id)
    if not is_final(row.status):
        raise Conflict(
            f"run {run_id!r} has not ended, and would go on as if nothing had been undone",
            expected="a run that is completed, failed or cancelled",
            got=row.status,
            hint="Cancel it first, or call `run.compensate()` in its code.",
        )
    if row.status == "cancelled" and row.reason == DRIFTED:
        raise Conflict(
            f"run {run_id!r} goes on as a fork of itself, which answers for what it has done",
            hint=f"Compensate the newest of `{run_id}.drift-1`, ...",
        )

    async def find_tenant() -> TenantState:
        return tenant

    opening = Opening(run_id=run_id, on_wait=on_wait, principal=by, tools=tools, compensating=True)
    async with open_run(services, find_tenant, opening, store_result) as run:
        core = run.core
        head, _ = await core.store.head(core.stream)
        return await compensate(core, f"compensate/{head}", upto=upto, since=since, note=note, asked=True)
