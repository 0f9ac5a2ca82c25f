"""The pages of the documentation that are made from the commands and settings themselves.

`make docs` writes them, a test compares them: help that changes without its page does not pass.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from artelier.cli.exit_codes import MEANINGS
from artelier.cli.tree import root_command

WIDTH = 96
"""Columns of the help texts on the page."""


def cli_page() -> str:
    """Markdown with the help of every command, the verbs at the top named once."""
    root = root_command()
    lines = [
        "# Commands",
        "",
        "Generated from the help texts; `make docs` writes it, a test compares it.",
        "",
        "The options `--db`, `--tenant`, `--config` and `--json` may stand before or after a command's name."
        " [Settings](settings.md)",
        "come from `artelier.toml` and the environment. Data goes to stdout, everything else to stderr. With"
        " `--json`, lists are",
        "`{items, next}` and errors `{error: {code, message, expected, got, hint}}`.",
        "",
        "| exit code | meaning |",
        "|---|---|",
        *(f"| {code} | {meaning} |" for code, meaning in MEANINGS.items()),
        "",
    ]
    for path, help_text in _helps(root, "artelier", None):
        lines += [f"## {path}", "", "```text", help_text, "```", ""]
    return "\n".join(lines)


def _helps(command: Any, path: str, parent: Any) -> Iterator[tuple[str, str]]:
    context = command.context_class(
        command,
        info_name=path.rpartition(" ")[2],
        parent=parent,
        terminal_width=WIDTH,
        help_option_names=["-h", "--help"],
    )
    help_text: str = command.get_help(context)
    yield path, "\n".join(line.rstrip() for line in help_text.splitlines())
    if hasattr(command, "list_commands"):
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            if parent is None and name in _verbs(command, context):
                continue  # the same command stands in its group
            yield from _helps(below, f"{path} {name}", context)


def _verbs(root: Any, context: Any) -> set[str]:
    """Commands at the top that also stand in `runs`."""
    runs = root.get_command(context, "runs")
    return set(runs.commands)


def settings_page() -> str:
    """Markdown table of every key of `artelier.toml`."""
    from artelier.cli.settings.schema import setting_rows

    lines = [
        "# Settings",
        "",
        "Generated from their declarations; `make docs` writes it, a test compares it.",
        "",
        "Settings come from `artelier.toml` in the working directory (or `--config FILE`, or"
        " `ARTELIER_CONFIG`); a variable of the",
        "environment goes over the file, an option of the command line over both. An unknown key is an error"
        " with its line.",
        "They hold for commands. A program hands what it wants to `Kernel.open` and to its agents.",
        "`ARTELIER_TENANT` names the tenant, `ARTELIER_DEBUG=1` shows tracebacks, `NO_COLOR=1` turns colours"
        " off, `ARTELIER_VAULT_KEY`",
        "encrypts what is stored ([erasing](guides/erasing.md)); it is never a setting.",
        "",
        "| key | default | variable | meaning |",
        "|---|---|---|---|",
    ]
    for row in setting_rows():
        default, variable = (f"`{text}`" if text else "" for text in (row.default, row.variable))
        lines.append(f"| `{row.key}` | {default} | {variable} | {row.meaning} |")
    lines += [
        "",
        "```toml",
        "[model]",
        'default = "openai:gpt-5-mini"',
        "",
        "[limits]",
        'usd = "0.50"',
        "",
        '[prices."ollama:qwen3"]',
        "input = 0",
        "output = 0",
        "```",
    ]
    return "\n".join(lines) + "\n"
