"""The database file for its operators: `artelier db`, `verify`, `head`, `keys` and `gc`."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Annotated

import typer

from artelier.cli.call import CliCall
from artelier.cli.command import alone, command, group
from artelier.cli.display import count
from artelier.cli.exit_codes import COMPLETED, CORRUPT
from artelier.errors import InvalidRequest, MissingKey

if TYPE_CHECKING:
    from artelier.log import Report

_HEAD = re.compile(r"[0-9a-f]{64}")

NEW_KEY = "ARTELIER_VAULT_KEY_NEW"
"""The environment variable of the vault key to come."""

app = alone()
db = group("db", help="Look after the database file.")
keys = group("keys", help="Change the key that what is stored is encrypted by.")
for of in (db, keys):
    app.add_typer(of)


@command(db, name="backup", example="artelier db backup backup.db")
def backup(call: CliCall, file: Annotated[str, typer.Argument(metavar="FILE", help="A new file.")]) -> None:
    """Copy the database file as it is now, while others go on with it.

    Keep the head that is printed elsewhere: `artelier verify --head` holds the copy against it. PostgreSQL
    has tools of its own, and `artelier store copy` moves a database from there into a file.
    """
    from artelier.log.store_copy import back_up

    with call.screen.working(f"copying to {file}"):
        made = back_up(call.existing(call.database), file)
    if call.print_json(made):
        return
    call.screen.facts([("file", made.file), ("bytes", f"{made.size_bytes:,}"), ("head", made.head)])
    call.screen.note(f"check it: artelier verify --db {made.file} --head {made.head}")


@command(db, name="migrate", example="artelier db migrate --db state.db")
async def migrate(call: CliCall) -> None:
    """Make the database, or bring it to this version's schema.

    Harmless when it is up to date.
    """
    from artelier.log.places import exists

    path = call.database_label
    is_new = not exists(call.database)
    async with call.kernel(create=True) as kernel:
        views, schema = {view.name: view.version for view in kernel.store.views}, kernel.store.schema_version
    if call.print_json({"path": path, "schema": schema, "views": views, "created": is_new}):
        return
    listed = ", ".join(f"{name} {version}" for name, version in views.items())
    call.screen.line(f"{path}: {'made' if is_new else 'up to date'}, schema {schema}")
    call.screen.line(f"views: {listed}")


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
        _show_report(call, report)
    return COMPLETED if report.ok else CORRUPT


def _show_report(call: CliCall, report: Report) -> None:
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


@command(keys, name="rotate", example="artelier keys rotate")
async def rotate(call: CliCall) -> None:
    """Encrypt the keys of what is stored by another vault key.

    ARTELIER_VAULT_KEY is the one of now, ARTELIER_VAULT_KEY_NEW the one to come. Stop workers and servers
    first, and start them with the new one. Contents stay as they are, and backups keep the old key.
    """
    new = os.environ.get(NEW_KEY, "")
    if not new:
        raise MissingKey(
            "there is no new vault key",
            expected=f"{NEW_KEY}: 32 bytes in hex or base64, or at least 16 characters",
            hint='Make one, and keep it elsewhere: python -c "import secrets; print(secrets.token_hex(32))"',
        )
    async with call.kernel() as kernel:
        with call.screen.working("encrypting keys"):
            done = await kernel.rotate_keys(new)
    if call.print_json(done):
        return
    call.screen.line(f"{count(done.keys, 'key')} encrypted by the new vault key", "bold")
    if not done.cleaned:
        call.screen.note(
            "Another process still reads an older state of the file. End it, and call `artelier gc`."
        )
    call.screen.note(
        "From now on ARTELIER_VAULT_KEY is the new one. Keep the old one as long as backups need it."
    )


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
    if call.print_json(found, dry=dry_run):
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
