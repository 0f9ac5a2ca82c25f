"""Time travel: fork, diff, replay, export, import."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from artelier.cli import display
from artelier.cli.call import CliCall
from artelier.cli.command import command
from artelier.cli.runs.browse import RunId, app
from artelier.errors import InvalidRequest

if TYPE_CHECKING:
    from artelier.kernel import Drive, Run, Transferred
    from artelier.kernel.history.comparison import Divergence, RunTotals


@command(app, name="fork", example="artelier fork q3-report --at 14 --model openai:gpt-5-mini")
async def fork(
    call: CliCall,
    run: RunId,
    at: Annotated[
        int | None,
        typer.Option(
            "--at",
            metavar="SEQ",
            help="Last event that both share: else the one before what differs takes effect, or the newest.",
        ),
    ] = None,
    model: Annotated[
        str | None, typer.Option("--model", metavar="NAME", help="The model of every new step.")
    ] = None,
    changes: Annotated[
        list[str] | None,
        typer.Option("--with", metavar="REF=REF", help="Use another ref in place of one; repeatable."),
    ] = None,
    new_id: Annotated[
        str | None,
        typer.Option("--run-id", metavar="ID", help="Name of the new run: else RUN.fork-1 and so on."),
    ] = None,
    effects: Annotated[
        str,
        typer.Option(
            "--effects",
            metavar="MODE",
            help="Calls with a side effect: recorded (an equal recorded call is returned, any other asks"
            " you), stub (each is an error), or live (each is made).",
        ),
    ] = "recorded",
) -> None:
    """Branch a new run off an earlier event of a run.

    They share what came before by reference; the fork pays only for what it does itself. What the run did
    outside is not done again: see --effects, which holds for all runs below the fork too.
    """
    from artelier.cli.next_steps import next_steps

    differs: dict[str, Any] = _changes(changes or [])
    if model is not None:
        differs["model"] = model
    async with call.kernel() as kernel:
        runs = kernel.for_tenant(call.tenant)
        origin = await runs.show(run)
        name = await runs.fork(
            run, at=at, with_=differs or None, new_id=new_id, effects=effects, by=call.person
        )
        shown = await runs.show(name)
        advice = await next_steps(call, kernel, shown)
    if call.print_json(shown):
        return
    is_early = at is None and (changes or (model is not None and origin["status"] == "completed"))
    what = "--with" if changes else "--model"
    why = f", before the first step that {what} changes" if is_early else ""
    call.screen.line(f"{name} branches off {run} at {shown['origin_seq']}{why}; it is {shown['status']}")
    for line in advice:
        call.screen.note(line)


def _changes(given: list[str]) -> dict[str, str]:
    """`REF=REF` pairs. Errors: `InvalidRequest`."""
    found: dict[str, str] = {}
    for text in given:
        old, sign, new = text.partition("=")
        if not old or not sign or not new:
            raise InvalidRequest("--with takes two refs", expected="REF=REF", got=text)
        found[old] = new
    return found


@command(app, name="diff", example="artelier diff q3-report q3-report.fork-1")
async def diff(
    call: CliCall,
    first: Annotated[str, typer.Argument(metavar="A", help="Id of a run.")],
    second: Annotated[str, typer.Argument(metavar="B", help="Id of another run.")],
) -> None:
    """Show where two runs part."""
    async with call.kernel() as kernel:
        found = await kernel.for_tenant(call.tenant).diff(first, second)
    if call.print_json(found):
        return
    events = found["shared"]["events"]
    call.screen.line(
        f"shared by reference: {display.count(events, 'event')};"
        f" equal after that: {display.count(found['equal_steps'], 'step')}"
    )
    parting = found["first_divergence"]
    if parting is None:
        call.screen.line("no difference")
    else:
        _show_parting(call, parting)
    call.screen.line()
    rows = [(name, *(_total(found[side], name) for side in ("a", "b"))) for name in _TOTALS]
    call.screen.table(("", found["run_a"], found["run_b"]), rows, empty="")


def _show_parting(call: CliCall, parting: Divergence) -> None:
    section = f" in {parting['section']}" if parting["section"] else ""
    where = f"step {parting['key']}" if parting["key"] else "the end"
    call.screen.line(f"first difference at {where}: {parting['what']}{section}", "bold")
    for side in ("a", "b"):
        value = parting[side]
        shown = value if isinstance(value, str) else display.json_text(value)
        call.screen.line(f"  {side}: {'nothing' if value is None else shown}")


_TOTALS = ("status", "model calls", "tokens in", "tokens out", "USD")


def _total(side: RunTotals, name: str) -> str:
    from artelier.cli.next_steps import standing
    from artelier.money import format_usd

    usage = side["usage"]
    totals = (
        standing(side),
        str(side["steps"]),
        f"{usage['input_tokens']:,}",
        f"{usage['output_tokens']:,}",
        format_usd(side["cost_microusd"]),
    )
    return totals[_TOTALS.index(name)]


@command(app, name="replay", example="artelier replay q3-report.artelier")
async def replay(
    call: CliCall,
    target: Annotated[
        str, typer.Argument(metavar="RUN|FILE", help="Id of a run, or a file of `artelier export`.")
    ],
    code: Annotated[
        str | None, typer.Option("--code", metavar="FILE:FUNCTION", help="The code of a run of your own.")
    ] = None,
) -> None:
    """Run a run's code again over its record.

    Every step returns what was recorded; no model, tool or network is touched, and a difference is an
    error that names it. A file needs no database and no key.
    """
    import msgspec

    from artelier.app import Kernel
    from artelier.cli.next_steps import standing

    drive = drive_with(code)
    if _is_file(target):
        with call.screen.working(f"replaying {target}"):
            found = await Kernel.replay_file(target, drive)
    else:
        async with call.kernel() as kernel:
            with call.screen.working(f"replaying {target}"):
                found = await kernel.for_tenant(call.tenant).replay(target, drive)
    shown = msgspec.to_builtins(found)
    if call.print_json(shown):
        return
    result = display.result_text(found.result)
    if result is not None:
        call.screen.text(result)
    call.screen.note(
        f"{found.run_id} replays: {standing(shown)}, {display.count(found.steps_replayed, 'step')} from the"
        f" record, {display.count(found.model_calls, 'model call')},"
        f" {display.count(found.tool_calls, 'tool call')}",
        "bold green",
    )


def _is_file(target: str) -> bool:
    """Return True if a file is meant; a name that ends like an export is one even if it is not there."""
    return target.endswith(".artelier") or Path(target).is_file()


@command(app, name="export", example="artelier export q3-report q3-report.artelier")
async def export(
    call: CliCall,
    run: RunId,
    file: Annotated[str, typer.Argument(metavar="FILE", help="Where to write; it is replaced.")],
) -> None:
    """Write a run into one verifiable file.

    It holds the run's events, content and manifests, its children and the origins of its forks. Only you may
    read the file.
    """
    async with call.kernel() as kernel:
        with call.screen.working(f"exporting {run}"):
            done = await kernel.for_tenant(call.tenant).export(run, file)
        head = await kernel.head()
    _print_transfer(call, done, f"{file}: ", head)


@command(app, name="import", example="artelier import q3-report.artelier --tenant acme")
async def import_(
    call: CliCall, file: Annotated[str, typer.Argument(metavar="FILE", help="A file of `artelier export`.")]
) -> None:
    """Take the runs of an export into this database.

    They can be read, replayed, compared and forked here, and are driven no more.
    """
    async with call.kernel(create=True) as kernel:
        with call.screen.working(f"importing {file}"):
            done = await kernel.for_tenant(call.tenant).import_(file, by=call.person)
        head = await kernel.head()
    _print_transfer(call, done, "", head)


def _print_transfer(call: CliCall, done: Transferred, where: str, head: str) -> None:

    if call.print_json(done, head=head):
        return
    call.screen.line(
        f"{where}{display.count(len(done.runs), 'run')}, {display.count(done.events, 'event')},"
        f" {display.count(done.blobs, 'blob')}"
    )
    for run in done.runs:
        call.screen.line(f"- {run}")
    call.screen.note(f"sha256 {done.sha256}", "dim")
    call.screen.note(f"head {head}", "dim")


def drive_with(code: str | None) -> Drive:
    """The drive of a replay. Errors: those of loading `code`."""
    if code is None:
        return _built_in
    from artelier.cli.work.run import load

    function = load(code)[1]

    async def drive(run: Run) -> None:
        result = await function(run)
        if result is not None:
            run.finish(result)

    return drive


async def _built_in(run: Run) -> object:
    """Drive a run of the built-in loop. Errors: `InvalidRequest` for a run of somebody's own code."""
    from artelier.agents.loop_registry import replay_run
    from artelier.kernel import run_row
    from artelier.kernel.queries.content import blob_json

    services = run.core.services
    row = await run_row(services.store, run.tenant_id, run.id)
    if not row.loop:
        named = row.agent or "FILE:FUNCTION"
        raise InvalidRequest(f"run {run.id} is driven by code of its own", hint=f"Name it: --code {named}")
    return await replay_run(run, await blob_json(services, run.tenant_id, row.settings))
