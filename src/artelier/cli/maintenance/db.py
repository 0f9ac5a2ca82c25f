"""`artelier db`: the store's schema."""

from __future__ import annotations

from artelier.cli.call import CliCall
from artelier.cli.command import command, group

app = group("db", help="Look after the database file.")


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
