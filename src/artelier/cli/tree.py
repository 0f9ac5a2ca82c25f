"""Every command by name, and the module that holds it: nothing is imported before it is needed."""

from __future__ import annotations

import importlib
import os
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from artelier.cli import completion
from artelier.cli.command import AsJson, Config, Database, TenantName, alone
from artelier.cli.command_table import COMMANDS

if TYPE_CHECKING:
    from typer._click.shell_completion import CompletionItem

ABOUT = "Run LLM agents that survive crashes, keep to a budget and explain every prompt."


class LazyGroup(TyperGroup):
    """The top of the tree: a command's module is imported when the command is used or listed."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = dict.fromkeys(COMMANDS)  # pyright: ignore[reportAttributeAccessIssue] - filled on use

    def get_command(self, ctx: object, cmd_name: str) -> Any:
        """The command of that name, or None. Errors: those of `plugin_commands.load_command`."""
        if cmd_name not in COMMANDS:
            from artelier.cli.plugin_commands import load_command

            return load_command(ctx, cmd_name)
        if self.commands[cmd_name] is None:
            self.commands[cmd_name] = _load(COMMANDS[cmd_name][0], cmd_name)
        return self.commands[cmd_name]

    def shell_complete(self, ctx: Any, incomplete: str) -> list[CompletionItem]:
        """Return what a word can become, without importing any command."""
        if incomplete.startswith("-"):
            return super().shell_complete(ctx, incomplete)
        names = {name: line for name, (_, line) in COMMANDS.items()} | _offered(ctx)
        return completion.propose_commands(names, incomplete)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """The list of commands, from their lines alone."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in COMMANDS.items()])
        if offered := _offered(ctx):
            with formatter.section("Commands of plugins"):
                formatter.write_dl(sorted(offered.items()))


def _offered(ctx: Any) -> dict[str, str]:
    """Return the commands of allowed plugins with their lines; without a file of settings there are none."""
    named = ctx.params.get("config") if ctx is not None else None
    file = named or os.environ.get("ARTELIER_CONFIG") or "artelier.toml"
    if not os.path.isfile(file):
        return {}
    from artelier.cli.plugin_commands import command_lines  # 4 ms that most calls need not spend

    return command_lines(file)


def _load(home: str, name: str) -> object:
    if home.startswith("@"):
        from artelier.cli.plugin_commands import load_member

        return load_member(name, distribution=home[1:])
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
        bool, typer.Option("--version", help="Print the version.", is_eager=True, callback=_show_version)
    ] = False,
    install: Annotated[
        str | None,
        typer.Option(
            "--install-completion",
            metavar="SHELL",
            help="Let Tab complete in bash, zsh or fish.",
            is_eager=True,
            callback=completion.install,
        ),
    ] = None,
    show: Annotated[
        str | None,
        typer.Option(
            "--show-completion",
            metavar="SHELL",
            help="Print the script for it instead.",
            is_eager=True,
            callback=completion.show,
        ),
    ] = None,
) -> None:
    del db, tenant, config, json, version, install, show  # a command looks them up in its context
