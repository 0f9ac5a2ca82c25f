"""`artelier runs compensate`: undo what a run that has ended has done."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from artelier.cli import exit_codes
from artelier.cli.brought_tools import BroughtTools, ToolFiles
from artelier.cli.call import CliCall
from artelier.cli.command import command
from artelier.cli.runs.app import RunId, app
from artelier.errors import RunSuspended

if TYPE_CHECKING:
    from artelier.kernel.run.status import CompensationResult


@command(app, name="compensate", example="artelier runs compensate refunds-march --tools refunds.py")
async def compensate(
    call: CliCall,
    run: RunId,
    tools: ToolFiles = None,
    upto: Annotated[
        str | None, typer.Option("--upto", metavar="STEP", help="Back to this step, with it, and no further.")
    ] = None,
    note: Annotated[str, typer.Option("--note", metavar="TEXT", help="Why; kept in the log.")] = "",
) -> int:
    """Undo what a run has done, the newest first.

    Its tools say how, with `compensate`. The run must have ended, and stays what it is. What is undone is
    undone once: after a failure, a question or an unknown outcome the same command goes on.
    """
    from artelier.kernel.tool_calls.compensation import CompensationFailed

    async with call.kernel(brought=BroughtTools.of(tools)) as kernel:
        runs = kernel.for_tenant(call.tenant)
        again = _again(call, run, tools, upto)
        try:
            done = await runs.compensate(run, upto=upto, note=note, by=call.person, on_wait="suspend")
        except RunSuspended as flow:
            return _report_suspended(call, again, flow)
        except CompensationFailed as error:
            error.hint = f"What came after it is undone. Try again: {again}"
            raise
        shown = await runs.show(run)
        _show(call, done)
        if done.not_undone and not tools:
            file = "FILE" if shown["loop"] else (shown["agent"] or "").partition(":")[0] or "FILE"
            call.screen.note(f"with the tools that made them: {_again(call, run, [file], upto)}")
    return exit_codes.COMPLETED


def _again(call: CliCall, run: str, tools: list[str] | None, upto: str | None) -> str:
    """The same command once more."""
    options = [*BroughtTools.of(tools).words, *(("--upto", upto) if upto else ())]
    return call.command_line("runs", "compensate", run, *options)


def _report_suspended(call: CliCall, again: str, flow: RunSuspended) -> int:
    """Something must be settled first."""
    told: dict[str, Any] = {"run_id": flow.run_id, "status": flow.status, "reason": flow.reason}
    if call.as_json:
        call.screen.json(told)
    call.screen.note(f"{flow.run_id}: {flow.status} {flow.reason or ''}".rstrip(), "bold yellow")
    step = flow.reason or "STEP"
    verb = "approve" if flow.status == "waiting_approval" else "reconcile"
    call.screen.note(f"settle it: {call.command_line(verb, flow.run_id, step)}")
    call.screen.note(f"then: {again}")
    return exit_codes.of_status(flow.status)


def _show(call: CliCall, done: CompensationResult) -> None:
    if call.as_json:
        call.screen.json({"run_id": done.run_id, "undone": done.undone, "not_undone": done.not_undone})
        return
    for step in done.undone:
        call.screen.line(f"undone {step}")
    for step in done.not_undone:
        call.screen.note(f"stays {step}", "yellow")
    if not done.undone and not done.not_undone:
        call.screen.note(f"nothing of {done.run_id} was left to undo")
