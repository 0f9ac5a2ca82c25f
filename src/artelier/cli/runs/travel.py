"""Time travel: fork, diff, replay, export, import."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from artelier.cli import plain
from artelier.cli.call import Call
from artelier.cli.command import command
from artelier.cli.runs.app import RunId, app
from artelier.errors import InvalidRequest


@command(app, name="fork", example="artelier fork q3-report --at 14 --model openai:gpt-5-mini")
async def fork(
    call: Call,
    run: RunId,
    at: Annotated[
        int | None,
        typer.Option("--at", metavar="SEQ", help="Last event that both share: else the newest."),
    ] = None,
    model: Annotated[
        str | None, typer.Option("--model", metavar="NAME", help="The model of every new step.")
    ] = None,
    changes: Annotated[
        list[str] | None,
        typer.Option(
            "--with", metavar="REF=REF", help="Use another ref in place of one; repeatable."
        ),
    ] = None,
    new_id: Annotated[
        str | None,
        typer.Option(
            "--run-id", metavar="ID", help="Name of the new run: else RUN.fork-1 and so on."
        ),
    ] = None,
) -> None:
    """Branch a new run off an earlier event of a run.

    They share what came before by reference; the fork pays only for what it does itself.
    """
    from artelier.cli.advice import next_steps

    differs: dict[str, Any] = _changes(changes or [])
    if model is not None:
        differs["model"] = model
    async with call.kernel() as kernel:
        runs = kernel.for_tenant(call.tenant)
        name = await runs.fork(run, at=at, with_=differs or None, new_id=new_id, by=call.person)
        shown = await runs.show(name)
        advice = await next_steps(call, kernel, shown)
    if call.as_json:
        call.screen.json(shown)
        return
    call.screen.line(f"{name} branches off {run} at {shown['origin_seq']}; it is {shown['status']}")
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
    call: Call,
    first: Annotated[str, typer.Argument(metavar="A", help="Id of a run.")],
    second: Annotated[str, typer.Argument(metavar="B", help="Id of another run.")],
) -> None:
    """Show where two runs part."""
    async with call.kernel() as kernel:
        found = await kernel.for_tenant(call.tenant).diff(first, second)
    if call.as_json:
        call.screen.json(found)
        return
    events = found["shared"]["events"]
    call.screen.line(
        f"shared by reference: {plain.count(events, 'event')};"
        f" equal after that: {plain.count(found['equal_steps'], 'step')}"
    )
    parting = found["first_divergence"]
    if parting is None:
        call.screen.line("no difference")
    else:
        _show_parting(call, parting)
    call.screen.line()
    rows = [(name, *(_total(found[side], name) for side in ("a", "b"))) for name in _TOTALS]
    call.screen.table(("", found["run_a"], found["run_b"]), rows, empty="")


def _show_parting(call: Call, parting: dict[str, Any]) -> None:
    section = f" in {parting['section']}" if parting["section"] else ""
    where = f"step {parting['key']}" if parting["key"] else "the end"
    call.screen.line(f"first difference at {where}: {parting['what']}{section}", "bold")
    for side in ("a", "b"):
        value = parting[side]
        shown = value if isinstance(value, str) else plain.json_text(value)
        call.screen.line(f"  {side}: {'nothing' if value is None else shown}")


_TOTALS = ("status", "model calls", "tokens in", "tokens out", "USD")


def _total(side: dict[str, Any], name: str) -> str:
    from artelier.cli.advice import standing
    from artelier.money import format_usd

    usage = side["usage"]
    totals = (
        standing(side), str(side["steps"]), f"{usage['input_tokens']:,}",
        f"{usage['output_tokens']:,}", format_usd(side["cost_microusd"]),
    )  # fmt: skip
    return totals[_TOTALS.index(name)]
