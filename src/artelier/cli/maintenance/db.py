"""`artelier db`: the schema of the store, and backups of its file."""

from __future__ import annotations

from typing import Annotated

import typer

from artelier.cli.call import CliCall
from artelier.cli.command import command, group

app = group("db", help="Look after the database file.")


@command(app, name="backup", example="artelier db backup backup.db")
def backup(call: CliCall, file: Annotated[str, typer.Argument(metavar="FILE", help="A new file.")]) -> None:
    """Copy the database file as it is now, while others go on with it.

    Keep the head that is printed elsewhere: `artelier verify --head` holds the copy against it. PostgreSQL
    has tools of its own, and `artelier store copy` moves a database from there into a file.
    """
    from artelier.log.store_copy import back_up

    with call.screen.working(f"copying to {file}"):
        made = back_up(call.existing(call.database), file)
    if call.as_json:
        import msgspec

        call.screen.json(msgspec.to_builtins(made))
        return
    call.screen.facts([("file", made.file), ("bytes", f"{made.size_bytes:,}"), ("head", made.head)])
    call.screen.note(f"check it: artelier verify --db {made.file} --head {made.head}")


@command(app, name="migrate", example="artelier db migrate --db state.db")
async def migrate(call: CliCall) -> None:
    """Make the database, or bring it to this version's schema.

    Harmless when it is up to date.
    """
    from artelier.log.places import exists

    path = call.database_label
    is_new = not exists(call.database)
    async with call.kernel(create=True) as kernel:
        views, schema = {view.name: view.version for view in kernel.store.views}, kernel.store.schema_version
    if call.as_json:
        call.screen.json({"path": path, "schema": schema, "views": views, "created": is_new})
        return
    listed = ", ".join(f"{name} {version}" for name, version in views.items())
    call.screen.line(f"{path}: {'made' if is_new else 'up to date'}, schema {schema}")
    call.screen.line(f"views: {listed}")
