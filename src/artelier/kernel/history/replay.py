"""Replay: the code of a run again, over what was recorded. Nothing outside is called, nothing is written."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NoReturn

import msgspec

from artelier.errors import ArtelierError, ReplayMismatch
from artelier.kernel import events as ev
from artelier.kernel.history.fork_lineage import key_of, lineage
from artelier.kernel.history.step_history import belongs_elsewhere
from artelier.kernel.prompt.manifest import comparable
from artelier.kernel.queries.runs import RunRow, run_row
from artelier.kernel.run.context import RunCore
from artelier.kernel.run.handle import Run
from artelier.kernel.run.lifecycle import OpenRun
from artelier.kernel.run.services import Services, TenantState
from artelier.kernel.run_limits import Opening
from artelier.kernel.steps.failures import own_cancellation, unwrap
from artelier.kernel.tool_calls.tool_list import ListedTool
from artelier.log import decode_stored, stored_blob
from artelier.log.queries import stream_events
from artelier.ports.model import ToolSchema
from artelier.ports.tool import Risk, ToolContext, ToolPort

Drive = Callable[[Run], Awaitable[Any]]
"""A run's own code, or the drive of a built-in loop."""


class Replayed(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a replay."""

    run_id: str
    status: str
    """The recorded one: `completed`, or `failed` if the code failed again in the same way."""
    reason: str = ""
    result: Any = None
    steps_replayed: int = 0
    model_calls: int = 0
    """Always 0: a step that is not recorded ends the replay before anything is called."""
    tool_calls: int = 0
    """Always 0, as above."""


class RecordedTool:
    """A tool as the log knows it: a schema that a model was shown, and nothing that could run."""

    side_effect = True
    idempotent = False
    grant: str | None = None
    timeout_s: float | None = None
    heartbeat_timeout_s: float | None = None
    risk: Risk = "low"
    trust = "untrusted"
    probe = None

    def __init__(self, schema: ToolSchema, *, poll: bool = False) -> None:
        self.name = schema.name
        self.description = schema.description
        self.schema = schema
        self.poll = poll

    def validate(self, arguments: object) -> dict[str, Any]:
        return {"arguments": arguments}

    async def call(self, arguments: dict[str, Any], context: ToolContext) -> NoReturn:
        raise AssertionError(f"a replay has called tool {self.name}")


async def replay(
    services: Services, tenant: TenantState, run_id: str, drive: Drive, *, policy: str = "strict"
) -> Replayed:
    """Drive a run over its record. Errors: see `TenantKernel.replay`."""
    row = await run_row(services.store, tenant.id, run_id)

    async def find_tenant() -> TenantState:
        return tenant

    places = await lineage(services, tenant.id, run_id)
    await key_of(services, places)  # what was erased is refused by that name
    tools = await _recorded_tools(services, tenant.id, run_id, row.tools)
    opening = Opening(
        run_id=run_id, on_wait="suspend", replay=policy, read_only=True, tools=tools, principal="replay"
    )
    opened = OpenRun(services, find_tenant, opening)
    async with opened as run:
        core = run.core
        failure = await _drive(run, drive)
        if core.refused_step is not None:
            raise core.refused_step  # even if the code went on without the step
        if failure is not None and not _is_recorded(row, failure):
            raise failure
        await _check_left(core)
        if failure is None:
            await _check_end(core, row, run)
        return Replayed(
            run_id=run_id,
            status=row.status,
            reason=row.reason,
            result=run.outcome[0],
            steps_replayed=core.history.found,
        )


async def _recorded_tools(
    services: Services, tenant: str, run_id: str, first: str | None
) -> Mapping[str, ToolPort]:
    """Every tool that the run has ever seen, the newest schema of each."""
    refs: list[str] = [first] if first is not None else []
    for place in reversed(await lineage(services, tenant, run_id)):
        changed = await stream_events(services.store, place.stream_id, ev.ToolsChanged.KIND, upto=place.upto)
        refs += [row.read(ev.ToolsChanged).tools for row in changed]
    tools: dict[str, ToolPort] = {}
    for ref in refs:
        content = await stored_blob(services.store, tenant, ref)
        for item in decode_stored(content, type=list[ListedTool]):
            tools[item.name] = RecordedTool(item.schema, poll=item.poll)
    return tools


async def _drive(run: Run, drive: Drive) -> BaseException | None:
    """Run the code; the failure in which it ended, if it did."""
    task = asyncio.current_task()
    before = 0 if task is None else task.cancelling()
    try:
        value = await drive(run)
        if not run.finished and value is not None:
            run.finish(value)
    except (Exception, asyncio.CancelledError) as error:
        # A process boundary: whether the run has failed like this before is decided by its record.
        if isinstance(failure := own_cancellation(unwrap(error), cancelling=before), Exception):
            return failure
        raise
    return None


async def _check_left(core: RunCore) -> None:
    """Errors: `ReplayMismatch` for a recorded step that the code has not asked for."""
    for step in await core.history.read_unasked():
        if step.status == "completed" and not step.may_be_past and not belongs_elsewhere(step):
            raise ReplayMismatch(
                f"the code of {core.run_id} never asked for step {step.key}, which is recorded",
                expected=f"a {step.kind} step",
                got="the end of the code",
                hint="Run the code that recorded it.",
                section="steps",
                key=step.key,
            )


def _is_recorded(row: RunRow, failure: BaseException) -> bool:
    """Return True if the run failed of this. A recorded error of somebody else keeps the name of its
    class.
    """
    names = {type(failure).__name__}
    if isinstance(failure, ArtelierError):
        names = {failure.code, str(failure.facts.get("name", failure.code))}
    return row.status == "failed" and row.reason in names


async def _check_end(core: RunCore, row: RunRow, run: Run) -> None:
    """Errors: `ReplayMismatch` if the run ended otherwise."""
    result, failed = run.outcome
    status = "completed" if failed is None else "failed"
    reason = "" if failed is None else failed[0]
    if (row.status, row.reason) != (status, reason):
        raise ReplayMismatch(
            f"the code of {core.run_id} ends otherwise than was recorded",
            expected=f"{row.status} {row.reason}".strip(),
            got=f"{status} {reason}".strip(),
            section="status",
        )
    recorded = b"null" if row.result is None else await core.load(row.result)
    if comparable(result) != recorded:
        raise ReplayMismatch(
            f"the code of {core.run_id} gives another result than was recorded",
            expected=recorded.decode()[:300],
            got=comparable(result).decode()[:300],
            section="result",
        )
