"""Driving a run of the built-in agent from the command line, and what is shown and written when it ends."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from artelier.app import Kernel
from artelier.atomic_file import replace_file
from artelier.chat.turn.turn_config import LOOP as TURN
from artelier.cli import exit_codes
from artelier.cli.approvals import ApprovalDesk
from artelier.cli.call import CliCall
from artelier.cli.next_steps import goal_of, next_steps, standing
from artelier.cli.work.sigterm import end_on_sigterm
from artelier.kernel import AgentResult
from artelier.kernel.history.fork_effects import effects_of
from artelier.money import format_usd
from artelier.tools.workspace.files import OUT_FOLDER

if TYPE_CHECKING:
    from artelier.kernel.queries.reports import RunDetail
    from artelier.missions.reports import MissionDetail


async def drive(
    call: CliCall, kernel: Kernel, run_id: str, work: Callable[[str], Awaitable[AgentResult]], *, yes: bool
) -> AgentResult:
    """Do `work(on_wait)` while its events are told and its questions answered."""
    call.resumable = call.command_line("resume", run_id)
    end_on_sigterm()
    async with ApprovalDesk(call, kernel, run_id, yes=yes) as desk:
        return await work("await" if desk.answers else "return")


async def conclude(call: CliCall, kernel: Kernel, result: AgentResult, *, out: str | None) -> int:
    """Write the report, show the result; the exit code. Errors: `StoreUnavailable` for the file."""
    file: Path | None = None
    desk = kernel.for_tenant(call.tenant)
    run = await desk.show(result.run_id)
    goal = await goal_of(kernel, run)
    if goal is not None and (goal["status"] == "completed") != (result.status == "completed"):
        result = replace(
            result,
            status=goal["status"],
            reason=goal["reason"],
            text=goal["text"],
            artifact=goal["artifact"] or "" if goal["status"] == "completed" else "",
        )
    text, output = await desk.restored([result.text, result.output])  # for whoever may see it
    if result.status == "completed" and (out or run["loop"] != TURN):  # a reply is in its chat
        fork = await effects_of(kernel.services, call.tenant, result.run_id)
        is_fork = fork is not None and bool(fork.folder)
        file = Path(out) if out else default_out(result.run_id, is_fork=is_fork)
        write_report(file, text)
    head = await kernel.head()
    is_bad = goal is not None and goal["status"] != "completed"
    if call.as_json:
        said = {"message": goal["message"]} if goal is not None and is_bad else {}
        call.screen.json(
            {
                "run_id": result.run_id,
                "status": goal["status"] if goal is not None else result.status,
                "reason": goal["reason"] if goal is not None else result.reason,
                **said,
                "text": text,
                "output": output,
                "artifact": result.artifact or None,
                "file": str(file) if file else None,
                "usage": msgspec.to_builtins(result.usage),
                "cost_microusd": result.cost_microusd,
                "head": head,
            }
        )
    elif result.status == "completed":
        call.screen.text(text)
    await _summarize(call, kernel, run, result, file, run if goal is None else goal)
    call.screen.note(f"head {head}", "dim")
    return exit_codes.of_status(result.status)


async def _summarize(
    call: CliCall,
    kernel: Kernel,
    run: RunDetail,
    result: AgentResult,
    file: Path | None,
    goal: RunDetail | MissionDetail,
) -> None:
    """Tell how the run stands; of a mission that has ended, how its `goal` does."""
    note = call.screen.note
    note()
    usage = result.usage
    tokens = f"{usage.input_tokens:,} tokens in, {usage.output_tokens:,} out"
    cost = f"{format_usd(result.cost_microusd)} USD"
    style = "green" if result.status == "completed" else "yellow"
    note(f"{result.run_id} is {standing(goal)}: {tokens}, {cost}", f"bold {style}")
    if goal["status"] == "blocked":
        note(goal["message"])
    if file is not None:
        note(f"report {file}" + (f", artifact {result.artifact}" if result.artifact else ""))
    for line in await next_steps(call, kernel, run):
        note(line)


def default_out(run_id: str, *, is_fork: bool = False) -> Path:
    """Return where the report of a run goes if nobody says otherwise; below one folder, whatever the id."""
    folder = Path(OUT_FOLDER) / "forks" if is_fork else Path(OUT_FOLDER)
    return folder / f"{_plain_name(run_id, chars_max=120)}.md"


def report_id(run_id: str) -> str:
    """Id of the artifact that the report of a run becomes."""
    return f"reports/{_plain_name(run_id, chars_max=110)}"


def _plain_name(run_id: str, *, chars_max: int) -> str:
    """A run id without what means something in a path; ids that would collide get a digest."""
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", run_id).lstrip(".")
    if name == run_id and len(name) <= chars_max:
        return name
    return f"{name[: chars_max - 9]}-{sha256(run_id.encode()).hexdigest()[:8]}"


def write_report(path: Path, text: str) -> None:
    """Put a text in place at once. Errors: `StoreUnavailable` if the file cannot be written."""
    hint = "The run is complete; name another file with --out and resume it."
    with replace_file(
        path, "the report cannot be written", hint=hint, is_shared=True, makes_folder=True
    ) as file:
        file.write((text if text.endswith("\n") else f"{text}\n").encode())
