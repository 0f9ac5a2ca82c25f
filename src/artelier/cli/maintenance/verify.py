"""`artelier verify` and `artelier head`: is the log what was written?"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Annotated

import typer

from artelier.cli.call import CliCall
from artelier.cli.command import alone, command
from artelier.cli.exit_codes import COMPLETED, CORRUPT
from artelier.errors import InvalidRequest

if TYPE_CHECKING:
    from artelier.log import Report

app = alone()

_HEAD = re.compile(r"[0-9a-f]{64}")


@command(app, example="artelier verify --head $(cat head.txt)")
def verify(
    call: CliCall,
    head: Annotated[
        str | None,
        typer.Option("--head", metavar="HASH", help="A head printed earlier: finds a cut-off end."),
    ] = None,
) -> int:
    """Check that the log is what was written.

    Every hash chain, commit and blob is checked; every view is rebuilt from the log and compared. It reads
    only. Without --head it cannot see that the newest events were cut off.
    """
    from artelier.app import VIEWS
    from artelier.log.places import label_of, verify_place
    from artelier.pii.vault import sealer_from

    if head is not None and not _HEAD.fullmatch(head):
        raise InvalidRequest(
            "--head is no head",
            expected="64 hexadecimal digits, as `artelier head` prints them",
            got=repr(head)[:80],
        )
    place = call.existing()
    with call.screen.working(f"verifying {label_of(place)}"):
        report = verify_place(place, VIEWS, head=head, sealer=sealer_from(os.environ))
    if not call.print_json(report, ok=report.ok):
        _show(call, report)
    return COMPLETED if report.ok else CORRUPT


def _show(call: CliCall, report: Report) -> None:
    found = len(report.findings)
    call.screen.facts(
        [
            ("events", f"{report.events:,} in {report.streams:,} streams"),
            ("commits", f"{report.commits:,}"),
            ("blobs", f"{report.blobs:,}"),
            ("views", ", ".join(report.views) + " rebuilt and compared"),
            ("not checked", ", ".join(report.unchecked)),
            ("head", report.head),
            ("truncation", _truncation(report)),
        ]
    )
    for finding in report.findings:
        call.screen.line(f"- {finding}", "red")
    call.screen.line("ok" if report.ok else f"damaged: {found} finding{'s' * (found > 1)}", "bold")


def _truncation(report: Report) -> str:
    if report.truncation == "excluded":
        return "excluded: the given head is part of this log"
    return "not excluded: give --head to find a cut-off end"


@command(app, example="artelier head > head.txt")
async def head(call: CliCall) -> None:
    """Print the root of the newest commit.

    Kept elsewhere, it proves later that nothing was cut off.
    """
    async with call.kernel() as kernel:
        position, root = await kernel.store.root()
    if not call.print_json({"head": root.hex(), "position": position}):
        call.screen.line(root.hex())
