"""`artelier gc`: take content out of the database that nothing refers to any more."""

from __future__ import annotations

from typing import Annotated

import typer

from artelier.cli.call import CliCall
from artelier.cli.command import alone, command

app = alone()


@command(app, example="artelier gc --dry-run")
async def gc(
    call: CliCall, dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would go.")] = False
) -> None:
    """Remove stored content that nothing refers to.

    Of all tenants; the file shrinks. Content from before there was a vault key is sealed. Prompts, artifacts
    and exports are as before.
    """
    async with call.kernel() as kernel:
        with call.screen.working("looking for what is referred to"):
            found = await kernel.collect(dry=dry_run)
    if call.as_json:
        import msgspec

        call.screen.json({**msgspec.to_builtins(found), "dry": dry_run})
        return
    call.screen.facts(
        [
            ("garbage", f"{found.blobs:,} contents ({found.size_bytes:,} bytes)"),
            ("sealed", f"{found.resealed:,} contents from before the vault key"),
            ("rate windows", f"{found.rates:,} rows"),
            ("left for now", ", ".join(found.busy)),
        ]
    )
    if dry_run:
        call.screen.line("nothing was removed: this was a dry run", "bold")
    elif found.cleaned:
        something = found.blobs or found.resealed or found.rates
        call.screen.line("removed" if something else "there was nothing to remove", "bold")
    else:
        call.screen.line("removed; another process still reads an older state of the file", "bold")
        call.screen.note("Call it again when that process is done, to give the bytes back.")
