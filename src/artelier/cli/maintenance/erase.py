"""`artelier erase`: take what was stored of somebody out of the database for good."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from artelier.cli.call import CliCall
from artelier.cli.command import alone, command
from artelier.errors import InvalidRequest

if TYPE_CHECKING:
    from artelier.kernel.erasure import Erasure

app = alone()

REACH = (
    "Exports, backups and reports are files of their own: what was written into them before is still there."
)


@command(app, example="artelier erase --tenant acme --subject customer-17")
async def erase(
    call: CliCall,
    subject: Annotated[
        str | None,
        typer.Option(
            "--subject",
            metavar="V",
            help="The subject of runs, or a value that the vault knows. Else all of the tenant.",
        ),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would go.")] = False,
) -> None:
    """Erase what was stored of a tenant, or of one subject.

    Its keys are dropped and the bytes taken out of the file. Events, times, costs and hashes stay, and
    verify; where content was, [erased] is shown.
    """
    if call.named_tenant is None and subject is None:
        raise InvalidRequest(
            "no tenant is named, to erase all of", expected="--tenant ID, or ARTELIER_TENANT"
        )
    async with call.kernel() as kernel:
        desk = kernel.for_tenant(call.tenant)
        found = await desk.erase(subject=subject, by=call.person, dry=True)
        if not dry_run:
            if not yes and not found.again:
                _confirm(call, found, subject)
            found = await desk.erase(subject=subject, by=call.person)
    if call.print_json(found, not_reached=["exports", "backups", "reports"]):
        return
    _show(call, found)


def _confirm(call: CliCall, found: Erasure, subject: str | None) -> None:
    """Errors: `InvalidRequest` if nobody says yes."""
    if call.screen.asks:
        what = f"all of tenant {found.tenant}" if subject is None else "this subject"
        call.screen.note(f"Erase {what}: {found.blobs:,} contents, {found.values:,} values.")
        sys.stderr.write("Type yes to go on: ")
        sys.stderr.flush()
        if sys.stdin.readline().strip() == "yes":
            return
    raise InvalidRequest("nothing was erased", expected="a yes, or --yes")


def _show(call: CliCall, found: Erasure) -> None:
    call.screen.facts(
        [
            ("tenant", found.tenant),
            ("keys", f"{found.keys:,}"),
            ("contents", f"{found.blobs:,} ({found.size_bytes:,} bytes)"),
            ("values", f"{found.values:,}"),
            ("runs", ", ".join(found.runs)),
            ("in the file", "no byte of it is left" if found.cleaned else None),
        ]
    )
    if found.dry:
        call.screen.line("nothing was erased: this was a dry run", "bold")
        return
    call.screen.line("erased before; the file was cleaned" if found.again else "erased", "bold")
    call.screen.note(REACH)
