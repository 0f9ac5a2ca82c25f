"""`artelier run FILE:FUNCTION`: a run of your own code."""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Any

import typer

from artelier.cli import display, exit_codes
from artelier.cli.call import CliCall, fresh_id
from artelier.cli.command import Subject, alone, command
from artelier.errors import ArtelierError, Conflict, Flow, InvalidRequest, NotFound
from artelier.pii.scrubber_registry import redact_output

if TYPE_CHECKING:
    from artelier.app import Kernel
    from artelier.kernel import Run
    from artelier.kernel.queries.reports import RunDetail

app = alone()

Replay = Annotated[
    str,
    typer.Option(
        "--replay",
        metavar="POLICY",
        help="Where the code has changed: strict, allow_prompt_drift, or fork_on_drift.",
    ),
]

Function = Callable[["Run"], Awaitable[Any]]


@command(app, example="artelier run refunds.py:main --run-id refunds-march")
async def run(
    call: CliCall,
    target: Annotated[
        str, typer.Argument(metavar="FILE:FUNCTION", help="A Python file, and an async function in it.")
    ],
    run_id: Annotated[
        str | None,
        typer.Option("--run-id", metavar="ID", help="Name of the run; one that exists is resumed."),
    ] = None,
    budget_usd: Annotated[
        str | None, typer.Option("--budget-usd", metavar="AMOUNT", help="Most that it may spend.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Approve whatever the run asks.")] = False,
    replay: Replay = "strict",
    subject: Subject = "",
) -> int:
    """Drive a run of your own code.

    FILE has an `async def FUNCTION(run)`; each of its steps is done once, however often it is started.
    Tools made with @tool in the file are there for its steps. What the function returns, or gives to
    run.finish, is the result.
    """
    from artelier.cli.work.sigterm import end_on_sigterm
    from artelier.kernel.run.status import FINAL
    from artelier.tools.adapters import tools_in

    usd = call.dollars(budget_usd)
    module, function, label = load(target)
    run_id = run_id or fresh_id(function.__name__)
    async with call.kernel(create=True, tools=tools_in(module)) as kernel:
        if replay == "fork_on_drift":
            run_id = await kernel.for_tenant(call.tenant).goes_on_as(run_id)
        standing = await _standing(call, kernel, run_id)
        has_ended = standing is not None and standing["status"] in FINAL
        if not has_ended:
            call.resumable = call.command_line("run", target, "--run-id", run_id)
            what = f"run {redact_output(run_id)}: {label}"
            call.screen.note(f"{what}, database {call.database_label}", "bold")
            end_on_sigterm()
            run_id = await _drive(
                call, kernel, run_id, function, label=label, usd=usd, yes=yes, replay=replay, subject=subject
            )
        return await _conclude(call, kernel, run_id, told=not has_ended)


async def _standing(call: CliCall, kernel: Kernel, run_id: str) -> RunDetail | None:
    """The run if it exists. Errors: `Conflict` if a built-in loop drives it."""
    try:
        shown = await kernel.for_tenant(call.tenant).show(run_id)
    except NotFound:
        return None
    if shown["loop"]:
        raise Conflict(
            f"run {run_id} is driven by the built-in agent",
            hint=f"Go on with: {call.command_line('resume', run_id)}",
        )
    return shown


async def _drive(
    call: CliCall,
    kernel: Kernel,
    run_id: str,
    function: Function,
    *,
    label: str,
    usd: str | None,
    yes: bool,
    replay: str,
    subject: str,
) -> str:
    """Run the function once through; the run that it was in the end. One that ends badly says so by its
    status."""
    from artelier.cli.approvals import ApprovalDesk

    limits = call.settings.limits(usd=usd)
    runs = kernel.for_tenant(call.tenant)
    if await _standing(call, kernel, run_id) is not None:
        limits = None  # the stored ones hold, whatever the settings say by now
        if usd is not None:
            await runs.limit(run_id, unit="usd", cap=usd, by=call.person)
    failure: Exception | None = None
    async with ApprovalDesk(call, kernel, run_id, yes=yes):
        try:
            async with runs.run(
                run_id, agent=label, limits=limits, principal=call.person, replay=replay, subject=subject
            ) as run:
                try:
                    result = await function(run)
                finally:
                    run_id = run.id
                if result is not None:
                    run.finish(result)
        except Flow:
            pass
        except Exception as error:  # the boundary between our code and theirs
            if not await _has_failed(call, kernel, run_id):
                raise
            failure = error
    if failure is not None and not isinstance(failure, ArtelierError):
        call.screen.note(f"raised {_place(failure)}", "red")
    return run_id


async def _has_failed(call: CliCall, kernel: Kernel, run_id: str) -> bool:
    """Return True if the log has the failure as the run's end: else it is an error of the command."""
    standing = await _standing(call, kernel, run_id)
    return standing is not None and standing["status"] == "failed"


def _place(error: Exception) -> str:
    """Return where in their code an exception came from: the line a person must look at."""
    frames = [
        frame for frame in traceback.extract_tb(error.__traceback__) if "/artelier/" not in frame.filename
    ]
    where = f"{frames[-1].filename}:{frames[-1].lineno} " if frames else ""
    return f"{where}{type(error).__name__}: {display.line(redact_output(str(error)), chars_max=500)}"


async def _conclude(call: CliCall, kernel: Kernel, run_id: str, *, told: bool) -> int:
    """Show how the run stands; `told` if its events were shown just now."""
    from artelier.cli.next_steps import next_steps, standing
    from artelier.money import format_usd

    shown = await kernel.for_tenant(call.tenant).show(run_id)
    head = await kernel.head()
    if call.as_json:
        call.screen.json({**shown, "head": head})
    elif shown["status"] == "completed" and shown["result"] is not None:
        call.screen.text(display.value_text(shown["result"]) or "")
    style = "bold green" if shown["status"] == "completed" else "bold yellow"
    cost = format_usd(shown["cost_microusd"])
    call.screen.note(f"{run_id} is {standing(shown)}: {cost} USD", style)
    if shown["status"] == "failed" and shown["message"] and not told:
        call.screen.note(display.line(str(shown["message"]), chars_max=1000), "red")
    for line in await next_steps(call, kernel, shown):
        call.screen.note(line)
    call.screen.note(f"head {head}", "dim")
    return exit_codes.of_status(shown["status"])


# Loading code


def load(target: str) -> tuple[ModuleType, Function, str]:
    """The module of a file, its function, and `name.py:function`.

    Errors: `InvalidRequest` for a target, file or function that cannot be used; `NotFound` for a file that
    is not there.
    """
    from artelier.tools.adapters import import_file

    file, _, name = target.rpartition(":")
    if not file or not name.isidentifier():
        raise InvalidRequest(
            "this names no function", expected="FILE:FUNCTION, such as refunds.py:main", got=target
        )
    path = Path(file)
    module = import_file(path)
    function = getattr(module, name, None)
    if not inspect.iscoroutinefunction(function):
        mine = [
            key
            for key, value in vars(module).items()
            if inspect.iscoroutinefunction(value) and value.__module__ == module.__name__
        ]
        raise InvalidRequest(
            f"{file} has no async function {name}",
            expected=", ".join(mine) or "async def main(run): ...",
            got="nothing of that name" if function is None else type(function).__name__,
        )
    return module, function, f"{path.name}:{name}"
