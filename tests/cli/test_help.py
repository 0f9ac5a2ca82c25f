"""Help: every command has it, nothing heavy is loaded for it, and the pages in docs/ are made of it."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from artelier.cli.command_table import COMMANDS
from artelier.cli.tree import root_command
from artelier_lab.command_pages import cli_page, settings_page
from tests.cli.conftest import Shell
from tests.repository.sources import ROOT


def commands(command: Any = None, path: str = "artelier") -> Iterator[tuple[str, Any]]:
    """Every command that is no group, with its path."""
    command = command or root_command()
    if not hasattr(command, "list_commands"):
        yield path, command
        return
    for name in command.list_commands(None):
        yield from commands(command.get_command(None, name), f"{path} {name}")


def test_help_lists_every_command(shell: Shell) -> None:
    ran = shell("--help")

    listed = {line.split()[0] for line in ran.out.split("Commands:")[1].splitlines() if line.strip()}
    assert ran.code == 0
    assert set(COMMANDS) <= listed


@pytest.mark.parametrize(("path", "command"), list(commands()), ids=lambda item: str(item)[:40])
def test_every_command_says_what_it_does_and_gives_an_example(path: str, command: Any) -> None:
    first = command.help.split(".")[0]

    assert 10 <= len(first) <= 64, "longer is cut off in the list of commands"
    assert path.split()[-1] in command.epilog
    assert all(param.help for param in command.params if param.name != "help")


def test_help_is_plain_and_loads_nothing_heavy() -> None:
    code = (
        "import sys; from artelier.cli import main; main(['--help']);"
        "print([m for m in ('rich', 'pydantic', 'asyncio', 'sqlite3', 'artelier.app')"
        " if m in sys.modules], file=sys.stderr)"
    )

    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert ran.stderr.strip() == "[]"


def test_the_list_of_commands_imports_none_of_them() -> None:
    code = (
        "import sys; from artelier.cli import main; main(['--help']);"
        "print(sorted(m for m in sys.modules if m.startswith('artelier.cli.')), file=sys.stderr)"
    )

    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    homes = {f"artelier.cli.{home.split()[0]}" for home, _ in COMMANDS.values()}
    assert not homes & set(ast.literal_eval(ran.stderr))


@pytest.mark.parametrize("name", COMMANDS)
def test_a_line_of_the_list_is_the_first_sentence_of_its_command(name: str) -> None:
    command = root_command().get_command(None, name)

    assert COMMANDS[name][1] == command.get_short_help_str(64)


def test_the_page_of_commands_is_made_of_the_help() -> None:
    assert (ROOT / "docs/cli.md").read_text(encoding="utf-8") == cli_page()


def test_the_page_of_settings_is_made_of_their_declarations() -> None:
    assert (ROOT / "docs/settings.md").read_text(encoding="utf-8") == settings_page()


def test_a_misspelt_command_is_answered_with_the_nearest(shell: Shell) -> None:
    ran = shell("verfy")

    assert ran.code == 2
    assert "Did you mean 'verify'?" in ran.err


@pytest.mark.parametrize("words", [[], ["runs"], ["manifest"]], ids=["top", "group", "another"])
def test_a_group_alone_shows_its_help(shell: Shell, words: list[str]) -> None:
    ran = shell(*words)

    assert ran.code == 2
    assert "Commands:" in ran.err


def test_usage_errors_are_json_on_stdout_if_asked(shell: Shell) -> None:
    missing = shell("do", "--json")
    unknown = shell("runs", "list", "--json", "--colour", "red")

    assert (missing.code, unknown.code) == (2, 2)
    assert missing.error["code"] == unknown.error["code"] == "invalid_request"
    assert "--colour" in unknown.error["message"]
    assert "artelier runs list --help" in unknown.error["hint"]


def test_version_is_that_of_the_distribution() -> None:
    from importlib.metadata import version

    ran = subprocess.run(
        [sys.executable, "-m", "artelier", "--version"],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ},
    )

    assert ran.stdout == f"artelier {version('artelier')}\n"
