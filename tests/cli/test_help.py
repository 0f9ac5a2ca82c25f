"""Help: every command has it, nothing heavy is loaded for it, and the pages in docs/ are made of it."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from artelier.cli.reference import cli_page, settings_page
from artelier.cli.tree import HOMES, root_command
from tests.cli.conftest import Shell
from tests.repository.sources import ROOT

LATER = ("up", "chat", "mcp", "doctor", "schedule", "gc", "world", "worlds", "memory", "skills")
"""Commands of later versions: one that is listed must work."""

HELP_CPU_S = 0.25
"""CPU that `artelier --help` may take above `python -c pass`."""


def commands(command: Any = None, path: str = "artelier") -> Iterator[tuple[str, Any]]:
    """Every command that is no group, with its path."""
    command = command or root_command()
    if not hasattr(command, "list_commands"):
        yield path, command
        return
    for name in command.list_commands(None):
        yield from commands(command.get_command(None, name), f"{path} {name}")


def cpu_s(*words: str) -> float:
    """The least of three runs."""
    taken: list[float] = []
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        taken.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(taken)


def test_help_lists_every_command_and_none_of_later_versions(shell: Shell) -> None:
    ran = shell("--help")

    listed = {
        line.split()[0] for line in ran.out.split("Commands:")[1].splitlines() if line.strip()
    }
    assert ran.code == 0
    assert set(HOMES) <= listed
    assert not listed & set(LATER)


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


def test_help_costs_less_than_a_quarter_of_a_second_of_cpu() -> None:
    help_s = cpu_s(sys.executable, "-m", "artelier", "--help")
    nothing_s = cpu_s(sys.executable, "-c", "pass")

    assert help_s - nothing_s < HELP_CPU_S


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
        [sys.executable, "-m", "artelier", "--version"], capture_output=True, text=True, check=True,
        env={**os.environ},
    )  # fmt: skip

    assert ran.stdout == f"artelier {version('artelier')}\n"
