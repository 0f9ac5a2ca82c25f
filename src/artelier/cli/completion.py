"""`--install-completion` and `--show-completion`: Tab in bash, zsh and fish."""

from __future__ import annotations

from typing import Any

import typer

from artelier.errors import InvalidRequest

SHELLS = ("bash", "zsh", "fish")
PROGRAM = "artelier"
VARIABLE = "_ARTELIER_COMPLETE"
"""What the scripts set when they ask for proposals."""

_WHOLE_WORDS = "COMP_WORDBREAKS=${COMP_WORDBREAKS//:}\n"
"""Bash cuts words at colons, which stand in ids and in names of models."""


def prepare() -> None:
    """Make the shells known that may ask."""
    from typer.completion import completion_init  # pyright: ignore[reportPrivateImportUsage] - typer's own

    completion_init()


def script(shell: str) -> str:
    """Return what a shell must read. Errors: `InvalidRequest`."""
    from typer.completion import get_completion_script  # pyright: ignore[reportPrivateImportUsage] - typer's own

    text = get_completion_script(prog_name=PROGRAM, complete_var=VARIABLE, shell=_check_shell(shell))
    return (_WHOLE_WORDS if shell == "bash" else "") + text


def show(context: typer.Context, wanted: str | None) -> None:
    """Callback of `--show-completion`."""
    if wanted and not context.resilient_parsing:
        print(script(wanted))
        raise typer.Exit()


def install(context: typer.Context, wanted: str | None) -> None:
    """Callback of `--install-completion`: writes into the home of the person who asks."""
    if not wanted or context.resilient_parsing:
        return
    from typer.completion import install as put  # pyright: ignore[reportPrivateImportUsage] - typer's own

    shell, path = put(shell=_check_shell(wanted), prog_name=PROGRAM, complete_var=VARIABLE)
    if shell == "bash":
        path.write_text(script(shell) + "\n", encoding="utf-8")
    print(f"{shell}: {path}, in force in the next terminal")
    raise typer.Exit()


def _check_shell(shell: str) -> str:
    if shell not in SHELLS:
        raise InvalidRequest("a shell", expected=", ".join(SHELLS), got=shell[:40])
    return shell


def propose_commands(names: dict[str, str], incomplete: str) -> list[Any]:
    """Commands that a word can become, with their lines."""
    from typer._click.shell_completion import CompletionItem  # typer has no public name for it

    return [CompletionItem(name, help=line) for name, line in names.items() if name.startswith(incomplete)]
