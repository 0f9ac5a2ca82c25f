"""`artelier runs compactions`: what summaries stand for, and taking the newest one back."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from artelier.cli.call import CliCall
from artelier.cli.command import command
from artelier.cli.runs.app import RunId, app
from artelier.errors import InvalidRequest


@command(app, name="compactions", example="artelier runs compactions q3-report")
async def compactions(
    call: CliCall,
    run: RunId,
    undo: Annotated[
        bool, typer.Option("--undo", help="Show the newest block again, from the run's next cycle on.")
    ] = False,
    at_messages: Annotated[
        int | None,
        typer.Option("--at-messages", metavar="N", help="With --undo: compact anew from N messages."),
    ] = None,
    keep_recent: Annotated[
        int | None, typer.Option("--keep-recent", metavar="N", help="With --undo: keep N messages verbatim.")
    ] = None,
    summarize_with: Annotated[
        str | None, typer.Option("--summarize-with", metavar="MODEL", help="With --undo: who summarises.")
    ] = None,
) -> None:
    """Show which messages were summarised, and what was lost.

    Nothing was deleted: --undo brings the newest block back, optionally under another strategy.
    """
    wished: dict[str, Any] = {
        "trigger_at_messages": at_messages,
        "keep_recent_messages": keep_recent,
        "summarize_with_model": summarize_with,
    }
    given: dict[str, Any] = {name: value for name, value in wished.items() if value is not None}
    if given and not undo:
        raise InvalidRequest("these options belong to an undo", expected="--undo beside them")
    async with call.kernel() as kernel:
        runs = kernel.for_tenant(call.tenant)
        if undo:
            from artelier.context import CompactionStrategy

            policy = CompactionStrategy(**given) if given else None
            await runs.undo_compaction(run, policy=policy, by=call.person)
        found = await runs.compactions(run)
    if call.as_json:
        call.screen.json({"items": found, "next": None})
        return
    rows = [_row(receipt) for receipt in found]
    columns = ("step", "messages", "by", "why", ">tokens before", ">after", ">lost")
    call.screen.table(columns, rows, empty="this run was never compacted")
    if undo:
        call.screen.line("the newest block comes back at the run's next cycle")


def _row(receipt: dict[str, Any]) -> tuple[object, ...]:
    if receipt["kind"] == "context.restored":
        return (
            receipt["step"],
            f"{receipt['start']}- again",
            "",
            f"undo {receipt['compaction']}",
            "",
            "",
            "",
        )
    by = receipt.get("model") or receipt["how"]
    if failure := receipt.get("failure"):
        by = f"extract ({failure}: {by})"
    return (
        receipt["step"],
        f"{receipt['start']}-{receipt['end']}",
        by,
        receipt.get("why", ""),
        receipt.get("tokens_before", 0),
        receipt.get("tokens_after", 0),
        receipt.get("lost", 0),
    )
