"""Tab in bash, zsh and fish: the scripts for the shells, and the values that a word can become.

A shell asks at each Tab, so values are read without opening a kernel, nothing heavy is imported and nothing
is written; after any error there is nothing to propose.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from artelier.cli.call import DATABASE
from artelier.errors import InvalidRequest

if TYPE_CHECKING:
    from typer._click.shell_completion import CompletionItem

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


def propose_commands(names: dict[str, str], incomplete: str) -> list[CompletionItem]:
    """Commands that a word can become, with their lines."""
    from typer._click.shell_completion import CompletionItem  # typer has no public name for it

    return [CompletionItem(name, help=line) for name, line in names.items() if name.startswith(incomplete)]


# Opening a kernel, or importing the owners of these tables, would cost each Tab a third of a second: these
# four statements name columns of other packages, and a database of another version proposes nothing.

PROPOSED_MAX = 100
_PLAIN = re.compile(r"[A-Za-z0-9._:/@#+-]+")
"""What a shell takes for one word, whatever it makes of the rest."""


def run_ids(ctx: typer.Context, incomplete: str) -> list[str]:
    """Ids of runs, the newest first."""
    return _query(
        ctx,
        incomplete,
        "SELECT run FROM runs WHERE tenant = ? AND run >= ? AND run < ? ORDER BY id DESC LIMIT ?",
    )


def artifact_ids(ctx: typer.Context, incomplete: str) -> list[str]:
    """Ids of artifacts of the main space, the newest first."""
    return _query(
        ctx,
        incomplete,
        "SELECT id FROM artifacts WHERE tenant = ? AND id >= ? AND id < ? AND space = 'main'"
        " AND NOT deleted ORDER BY position DESC LIMIT ?",
    )


def model_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """Models that runs have asked, and the one that is always there."""
    found = _query(
        ctx,
        incomplete,
        "SELECT DISTINCT model FROM runs WHERE tenant = ? AND model >= ? AND model < ? LIMIT ?",
    )
    offline = ["offline"] if "offline".startswith(incomplete) else []
    return list(dict.fromkeys([*sorted(found), *offline]))


def tenant_ids(ctx: typer.Context, incomplete: str) -> list[str]:
    """Ids of tenants."""
    return _query(
        ctx, incomplete, "SELECT tenant FROM tenants WHERE ? <> '' AND tenant >= ? AND tenant < ? LIMIT ?"
    )


def _query(ctx: typer.Context, incomplete: str, sql: str) -> list[str]:
    import sqlite3

    from artelier.log.places import file_of

    try:
        path = Path(file_of(_option_of(ctx, "db") or _configured_database() or DATABASE)).absolute()
        if not path.is_file():
            return []
        tenant = _option_of(ctx, "tenant") or os.environ.get("ARTELIER_TENANT") or "default"
        db = sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, timeout=0.2)
        try:
            rows = db.execute(sql, (tenant, incomplete, incomplete + "\U0010ffff", PROPOSED_MAX))
            return [str(row[0]) for row in rows if _PLAIN.fullmatch(str(row[0]))]
        finally:
            db.close()
    except Exception:  # the boundary to a shell, which cannot show an error in the middle of a line
        return []


def _option_of(ctx: Any, name: str) -> str | None:
    """A shared option, wherever it stands."""
    while ctx is not None:
        if ctx.params.get(name):
            return str(ctx.params[name])
        ctx = ctx.parent
    return None


def _configured_database() -> str | None:
    """The database that the environment or the settings name."""
    if named := os.environ.get("ARTELIER_DB", "").strip():
        return named
    import tomllib

    file = Path(os.environ.get("ARTELIER_CONFIG") or "artelier.toml")
    if not file.is_file():
        return None
    found = tomllib.loads(file.read_text("utf-8")).get("store", {}).get("path")
    return str(file.parent / found) if isinstance(found, str) else None
