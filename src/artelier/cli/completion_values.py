"""The completions of a word on the command line: ids from the database, read without opening a kernel.

A shell asks at each Tab, so nothing heavy is imported and nothing is written; after any error there is
nothing to propose.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import typer

from artelier.cli.call import DATABASE, file_of

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
