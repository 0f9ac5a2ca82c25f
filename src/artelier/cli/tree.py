"""Every command by name, and the module that holds it: nothing is imported before it is needed."""

from __future__ import annotations

import importlib
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from artelier.cli.command import AsJson, Config, Database, TenantName, alone

ABOUT = "Run LLM agents that survive crashes, keep to a budget and explain every prompt."

HOMES: dict[str, str] = {
    "do": "do",
    "run": "run",
    "worker": "worker",
    "runs": "runs",
    "resume": "runs resume",
    "retry": "runs retry",
    "cancel": "runs cancel",
    "pause": "runs pause",
    "approve": "runs approve",
    "reconcile": "runs reconcile",
    "signal": "signal",
    "fork": "runs fork",
    "diff": "runs diff",
    "replay": "runs replay",
    "export": "runs export",
    "import": "runs import",
    "artifacts": "artifacts",
    "manifest": "manifest",
    "tenants": "tenants",
    "verify": "verify verify",
    "head": "verify head",
    "db": "db",
    "bench": "bench",
    "torture": "torture",
}
"""Command to its module in this package, and its name there if the module has several."""


class LazyGroup(TyperGroup):
    """The top of the tree: a command's module is imported when the command is used or listed."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = dict.fromkeys(HOMES)  # pyright: ignore[reportAttributeAccessIssue] - filled on use

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of that name, or None."""
        if cmd_name in HOMES and self.commands[cmd_name] is None:
            self.commands[cmd_name] = _load(HOMES[cmd_name])
        return self.commands.get(cmd_name)


def _load(home: str) -> Any:
    module, _, inner = home.partition(" ")
    loaded: Any = typer.main.get_command(importlib.import_module(f"artelier.cli.{module}").app)
    return loaded.commands[inner] if inner else loaded


def root_command() -> Any:
    """The command `artelier` itself."""
    app = alone()
    app.callback(
        cls=LazyGroup,
        help=ABOUT,
        epilog="Start with: artelier do 'What is in here?' --workspace .",
        no_args_is_help=True,
    )(_root)
    return typer.main.get_command(app)


def _show_version(wanted: bool) -> None:
    if wanted:
        from artelier.ids import VERSION

        print(f"artelier {VERSION}")
        raise typer.Exit()


def _root(
    db: Database = None,
    tenant: TenantName = None,
    config: Config = None,
    json: AsJson = False,
    version: Annotated[
        bool,
        typer.Option("--version", help="Print the version.", is_eager=True, callback=_show_version),
    ] = False,
) -> None:
    del db, tenant, config, json, version  # a command looks them up in its context
