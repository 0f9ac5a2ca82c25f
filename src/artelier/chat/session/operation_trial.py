"""One operation of a turn, looked at and run again over what it saw.

What it saw is not stored: a replay of the turn's run makes it again, from what the run has recorded. Running
it again is a run of its own, a child of the turn's, with costs and a record; nothing of the chat changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from artelier.chat.rows import TRIAL
from artelier.chat.turn.turn_config import TurnJob, chat_of
from artelier.chat.turn.turn_loop import TurnParts, drive_turn
from artelier.chat.turn.turn_runner import record_keys
from artelier.errors import ArtelierError, Conflict, InvalidRequest, NotFound
from artelier.kernel import Run, run_row
from artelier.kernel.history.fork_lineage import lineage, part_key_id
from artelier.kernel.history.replay import replay
from artelier.kernel.queries.content import blob_json, shown_json
from artelier.kernel.queries.runs import children_of
from artelier.kernel.run.context import is_final
from artelier.kernel.tenants.registry import TenantScope
from artelier.operations.graph.orchestrator import Hooked, Surroundings
from artelier.operations.graph.plan import Slot
from artelier.operations.kinds.contract import OperationScope
from artelier.operations.profile.operation_profile import OperationProfile
from artelier.operations.profile.profile_reader import parse_with_content

TRIALS_MAX = 1_000
"""Of one turn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationTrial:
    """The outcome of an operation that was run again."""

    run_id: str
    """The run of its own that it was: a child of the turn's."""
    operation_id: str
    hook: str
    is_current: bool
    """Whether it ran as the chat's profile has it now, not as the turn had it."""
    status: str
    """`done`, `skipped`, `error` or `aborted`."""
    code: str = ""
    reason: str = ""
    message: str = ""
    """The error in full."""
    value: Any = None
    effects: tuple[Mapping[str, Any], ...] = ()
    """What it would change; nothing was."""
    scope: Mapping[str, Any]
    """The names that it saw."""
    cost_microusd: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class _ReplayedOperation:
    """An operation of a turn as a replay finds it."""

    slot: Slot
    scope: OperationScope
    hooked: Hooked
    profile: OperationProfile
    job: TurnJob


async def scope_of(desk: TenantScope, run_id: str, operation_id: str, *, hook: str = "") -> dict[str, Any]:
    """Return the names that an operation of a turn saw, or would have seen had it run; for operators alone.

    Errors: `NotFound` for no such operation, or one whose hook never began; `Erased`; `Conflict` for a turn
    that has not ended.
    """
    return dict((await _look(desk, run_id, operation_id, hook)).scope.names)


async def run_again(
    desk: TenantScope, run_id: str, operation_id: str, *, hook: str = "", current: bool = False, by: str = ""
) -> OperationTrial:
    """Run an operation of a turn again over what it saw, with the same draws of chance.

    `current`: as the chat's profile has it now. `hook` is needed for one that stands at both.
    Errors: as `scope_of`; `InvalidRequest` for a call of a tool that acts outside; those of opening a run.
    """
    seen = await _look(desk, run_id, operation_id, hook)
    if current:
        seen = await _as_it_is_now(desk, seen)
    _check_harmless(desk, seen.slot)
    began = await run_row(desk.services.store, desk.id, run_id)
    places = await lineage(desk.services, desk.id, run_id)
    keys = await record_keys(desk, run_id, chat=seen.job.chat)
    keys["part_key_id"] = await part_key_id(desk.services.store, places)
    children = await children_of(desk.services.store, desk.id, run_id)
    tried = [one for one in children if one.run.startswith(f"{run_id}{TRIAL}")]
    if len(tried) >= TRIALS_MAX:
        raise Conflict("an operation of this turn was run again too often", expected=f"at most {TRIALS_MAX}")
    opened = desk.run(
        f"{run_id}{TRIAL}{len(tried) + 1:04d}",
        model=seen.job.model,
        ended_parent=run_id,
        principal=f"chat:{seen.job.chat}",
        conversation=seen.job.chat,
        by=by,
        on_wait="suspend",
        **keys,
    )
    async with opened as run:
        around = Surroundings(
            run=run,
            profile=seen.profile,
            model=seen.job.model,
            principal=seen.job.principal,
            desk=desk,
            seed=f"{run_id}\0{began.started_us}",
        )
        finished = await seen.hooked.in_run(around).run_one(seen.slot, seen.scope)
        stored: dict[str, Any] = await run.core.load_json(finished.result) or {}
        run.finish({"status": finished.status, "code": finished.code})
    told = finished.message if finished.withheld is None else finished.withheld
    row = await run_row(desk.services.store, desk.id, run.id)
    return OperationTrial(
        run_id=run.id,
        operation_id=operation_id,
        hook=seen.slot.hook,
        is_current=current,
        status=finished.status,
        code=finished.code,
        reason=finished.reason,
        message=str(await shown_json(desk.services, desk.id, told) or ""),
        value=stored.get("value"),
        effects=tuple(stored.get("effects", ())),
        scope=dict(seen.scope.names),
        cost_microusd=row.cost,
    )


async def _look(desk: TenantScope, run_id: str, operation_id: str, hook: str) -> _ReplayedOperation:
    row = await run_row(desk.services.store, desk.id, run_id)
    if row.loop != "chat":
        raise NotFound(f"run {run_id!r} is no turn of a chat")
    if not is_final(row.status):
        raise Conflict(
            f"run {run_id} of chat {chat_of(run_id)!r} has not ended", hint="Wait for it, or cancel it."
        )
    job = TurnJob.from_stored(await blob_json(desk.services, desk.id, row.settings))
    hooks: list[tuple[Hooked, TurnParts]] = []

    async def drive(run: Run) -> None:
        await drive_turn(run, job, watch=lambda hooked, turn: hooks.append((hooked, turn)))

    try:
        await replay(desk.services, await desk.state(), run_id, drive)
    except ArtelierError:  # a turn that was cut off replays as far as it came
        if not hooks:
            raise
    found = [
        (hooked, turn, slot)
        for hooked, turn in hooks
        for slot in hooked.slots
        if slot.id == operation_id and hook in ("", slot.hook)
    ]
    if not found:
        known = sorted({slot.id for hooked, _ in hooks for slot in hooked.slots})
        raise NotFound(
            f"the turn has no operation {operation_id[:100]!r} that came to its hook",
            expected=", ".join(known)[:300] or "none",
        )
    if len(found) > 1:
        raise InvalidRequest(
            f"operation {operation_id!r} stands at two hooks", expected="before_main_llm or after_main_llm"
        )
    hooked, turn, slot = found[0]
    scope = hooked.scope_of(slot)
    if scope is None or turn.profile is None:
        raise NotFound(f"operation {operation_id!r} never came to run: what it depends on had not ended")
    return _ReplayedOperation(slot=slot, scope=scope, hooked=hooked, profile=turn.profile, job=job)


async def _as_it_is_now(desk: TenantScope, seen: _ReplayedOperation) -> _ReplayedOperation:
    """The same, with the operation as the newest version of the turn's profile has it."""
    from artelier.operations.profile.store import read_profile

    ref = seen.job.profile.partition("@")[0]
    stored, _ = await read_profile(desk, ref, by=seen.job.principal or "operator")
    profile = parse_with_content(stored)[0]
    operation = next((one for one in profile.operations if one.operation_id == seen.slot.id), None)
    if operation is None:
        raise NotFound(f"profile {ref!r} has no operation {seen.slot.id!r} any more")
    return replace(seen, slot=replace(seen.slot, operation=operation), profile=profile)


def _check_harmless(desk: TenantScope, slot: Slot) -> None:
    """Errors: `InvalidRequest` for an operation that would act outside a second time."""
    if slot.operation.kind != "tool":
        return
    tool = desk.services.tools.get(slot.operation.params.name)
    if tool is not None and tool.side_effect:
        raise InvalidRequest(
            f"operation {slot.id!r} calls {tool.name}, which acts outside: it is not called to try something",
            hint="Run the turn again instead.",
        )
