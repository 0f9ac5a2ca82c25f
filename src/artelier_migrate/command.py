"""`artelier migrate`: what older formats hold, as artifacts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer
from typer.core import TyperGroup

from artelier.cli import display, exit_codes
from artelier.cli.call import CliCall
from artelier.cli.command import alone, command, group
from artelier.cli.plugin_commands import allowed_plugins
from artelier.errors import NotFound
from artelier.ids import check_world
from artelier.log.places import exists
from artelier.plugins import IMPORTER_POINT, Plugins

if TYPE_CHECKING:
    from artelier.world.kernel_adapter import Host, Unbound
    from artelier_migrate import Outcome, Plan

app = group("migrate", help="Take over what older formats hold.")

STATUSES = ("created", "updated", "unchanged", "skipped", "failed")

STARTING = ("starting_scrip", "starting_credits")
"""Keys of what an agent begins with."""


def _register(holder: typer.Typer, name: str) -> None:
    """Add the command that takes over what the importer of this name reads."""

    @command(holder, name=name, example=f"artelier migrate {name} old/agents --world market --dry-run")
    async def migrate(  # pyright: ignore[reportUnusedFunction] - typer keeps it
        call: CliCall,
        folder: Annotated[
            Path, typer.Argument(metavar="DIR", help="Folder of folders with agent.yaml; or one of these.")
        ],
        world: Annotated[
            str | None, typer.Option("--world", metavar="NAME", help="Into this world: else the main space.")
        ] = None,
        dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be written.")] = False,
        include_disabled: Annotated[
            bool, typer.Option("--include-disabled", help="Also agents whose file says `enabled: false`.")
        ] = False,
        overwrite: Annotated[
            bool, typer.Option("--overwrite", help="Also replace what an agent has changed since.")
        ] = False,
    ) -> int:
        """Write the agents of a folder as artifacts.

        An agent owns its personality, prompts, workflow and memories. In a world it acts from the next tick
        on, with the scrip that its file gives it, else the world's start balance. What a file says and
        nothing here uses is named with its line. A second run changes nothing.
        """
        if world is not None:
            check_world(world)
        read = Plugins(call.settings.plugins).load(IMPORTER_POINT, name)
        plans = cast("list[Plan]", read(folder, include_disabled=include_disabled))
        outcomes = await _written(call, plans, world, dry_run=dry_run, overwrite=overwrite)
        counts = {status: sum(one.status == status for one in outcomes) for status in STATUSES}
        if call.as_json:
            _show_json(call, outcomes, counts, dry_run=dry_run)
        else:
            _show(call, outcomes, counts, dry_run=dry_run)
        return exit_codes.FAILED if counts["failed"] else exit_codes.COMPLETED


class ImporterGroup(TyperGroup):
    """One command for each importer: those of plugins are looked up when they are named."""

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return the command of an importer, or None. Errors: those of the settings."""
        if (found := super().get_command(ctx, cmd_name)) is not None:
            return found
        if not allowed_plugins(ctx).has(IMPORTER_POINT, cmd_name):
            return None
        holder = alone()
        _register(holder, cmd_name)
        return typer.main.get_command(holder)


_register(app, "agents")
app.info.cls = ImporterGroup


async def _written(
    call: CliCall, plans: list[Plan], world: str | None, *, dry_run: bool, overwrite: bool
) -> list[Outcome]:
    from artelier_migrate import fail_reserved, join_agents, write_agents

    if world is not None:
        plans = fail_reserved(plans)

    # A dry run leaves nothing behind, not even an empty database; a world is never made here.
    if not exists(call.database):
        if world is not None:
            raise no_world(world)
        if dry_run:
            return await write_agents(plans, None, dry_run=True)
    async with call.kernel(create=True) as kernel:
        tenant = kernel.for_tenant(call.tenant)
        if world is not None:
            await _check_world(tenant, world)
        outcomes = await write_agents(
            plans,
            lambda agent: tenant.as_principal(agent, world=world).artifacts,
            dry_run=dry_run,
            overwrite=overwrite,
        )
        if world is None:
            return outcomes
        return await join_agents(tenant, world, plans, outcomes, dry_run=dry_run, by=call.person)


def no_world(world: str) -> NotFound:
    return NotFound(f"there is no world {world}", hint=f"Make it first: artelier world new {world} --empty")


async def _check_world(tenant: Host | Unbound, world: str) -> None:
    """Errors: `NotFound` that says how to make one."""
    from artelier.world import World

    try:
        await World.open(tenant, world).row()
    except NotFound:
        raise no_world(world) from None


def _show(call: CliCall, outcomes: list[Outcome], counts: dict[str, int], *, dry_run: bool) -> None:
    rows = [
        (
            one.agent or one.folder,
            one.status,
            len(one.artifacts),
            sum(part.became in ("created", "updated") for part in one.artifacts),
            "" if one.joined is None else f"with {one.joined:,} scrip",
        )
        for one in outcomes
    ]
    columns = (
        "agent",
        "would be" if dry_run else "status",
        ">artifacts",
        ">written",
        "would join" if dry_run else "joined",
    )
    call.screen.table(columns, rows, empty="no folders here")
    told_before = 0
    for one in outcomes:
        # Whoever reads a second run has read the remarks on what has not changed.
        notes = [note for note in one.notes if one.status != "unchanged" or note.what == "failed"]
        told_before += len(one.notes) - len(notes)
        for note in notes:
            if one.joined is not None and note.what == "kept" and note.key in STARTING:
                continue  # it is paid, as the table says
            where = f"{note.place}: " + (f"{note.key}: " if note.key else "")
            call.screen.note(
                f"{display.line(where, chars_max=300)} {note.what}: {display.line(note.text, chars_max=400)}",
                "red" if note.what == "failed" else "",
            )
    if told_before:
        remarks = display.count(told_before, "remark")
        call.screen.note(f"{remarks} on agents that have not changed; --json has them")
    said = ", ".join(f"{number} {status}" for status, number in counts.items() if number)
    joined = sum(one.joined is not None for one in outcomes)
    if joined:
        said += f", {joined} joined" if said else f"{joined} joined"
    changes = counts["created"] + counts["updated"] + joined
    end = "" if changes or not outcomes else "; nothing changed"
    call.screen.note((f"dry run: {said}" if dry_run else said or "no agents") + end, "bold")


def _show_json(call: CliCall, outcomes: list[Outcome], counts: dict[str, int], *, dry_run: bool) -> None:
    import msgspec

    items: list[dict[str, Any]] = msgspec.to_builtins(outcomes)
    call.screen.json({"dry_run": dry_run, "counts": counts, "items": items})
