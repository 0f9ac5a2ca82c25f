"""`artelier doctor`: whether this machine has what Artelier needs."""

from __future__ import annotations

import os
import platform
import shutil
import sqlite3
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from artelier.cli.call import Call, file_of
from artelier.cli.command import alone, command
from artelier.cli.exits import COMPLETED, FAILED

app = alone()

FREE_BYTES_MIN = 1024**3
"""Below this a store may soon be full (a guess: a long run writes some 4 KB a cycle)."""

OK, NOTE, WRONG = "ok", "note", "wrong"


class Finding(NamedTuple):
    """What one look found."""

    what: str
    status: str
    """`ok`; `note`: something works not here; `wrong`: Artelier does not work."""
    said: str


@command(app, example="artelier doctor")
def doctor(
    call: Call,
    port: Annotated[
        int, typer.Option("--port", metavar="N", min=0, max=65535, help="Of `artelier up`.")
    ] = 8321,
) -> int:
    """Check this machine: what is missing, and what to do.

    Nobody is called. Of keys only the names are shown. The database is opened as every command opens it.
    """
    looks: tuple[Callable[[], list[Finding]], ...] = (
        _python, lambda: _database(call), lambda: _disk(call), lambda: _models(call), _web,
        lambda: _port(port),
    )  # fmt: skip
    found = [finding for look in looks for finding in look()]
    is_well = all(finding.status != WRONG for finding in found)
    if call.as_json:
        call.screen.json({"ok": is_well, "findings": [one._asdict() for one in found]})
    else:
        call.screen.table(("what", "", "found"), found, empty="nothing was looked at")
    return COMPLETED if is_well else FAILED


def _python() -> list[Finding]:
    is_new = sys.version_info >= (3, 11)
    said = f"{platform.python_version()}, SQLite {sqlite3.sqlite_version}"
    return [Finding("python", OK if is_new else WRONG, said)]


def _database(call: Call) -> list[Finding]:
    from artelier.errors import ArtelierError

    path = Path(file_of(call.database))
    if not path.exists():
        near = _existing_parent(path)
        can_write = os.access(near, os.W_OK)
        said = f"none yet at {path}" + ("" if can_write else f"; {near} cannot be written")
        return [Finding("database", NOTE if can_write else WRONG, said)]
    import asyncio

    async def head() -> str:
        async with call.kernel() as kernel:
            return await kernel.head()

    try:
        return [Finding("database", OK, f"{path}, head {asyncio.run(head())[:16]}")]
    except ArtelierError as error:
        return [Finding("database", WRONG, str(error))]


def _existing_parent(path: Path) -> Path:
    return next(parent for parent in path.absolute().parents if parent.exists())


def _disk(call: Call) -> list[Finding]:
    free = shutil.disk_usage(_existing_parent(Path(file_of(call.database)))).free
    said = f"{free / 1024**3:,.1f} GiB free"
    return [Finding("disk", OK if free >= FREE_BYTES_MIN else NOTE, said)]


def _models(call: Call) -> list[Finding]:
    """Whether the model that holds can be used, and which providers have a key. Only names are shown."""
    from artelier.errors import ArtelierError
    from artelier.models.registry import ModelRegistry
    from artelier.models.vendors import VENDORS

    name = call.settings.model
    try:
        ModelRegistry(None, environ=os.environ).resolve(name)
        found = [Finding("model", OK, name)]
    except ArtelierError as error:
        found = [Finding("model", WRONG, f"{name}: {error}")]
    names = {key for vendor in VENDORS.values() for key in vendor.key_names}
    keys = sorted(key for key in names if os.environ.get(key))
    said = ", ".join(keys) if keys else "none set; the offline model needs none"
    return [*found, Finding("keys", OK if keys else NOTE, said)]


def _web() -> list[Finding]:
    from artelier.server.settings import STATIC

    if (STATIC / "index.html").is_file():
        return [Finding("web", OK, "the application is built")]
    return [Finding("web", NOTE, "not built: `make setup` in a checkout; the API works without")]


def _port(port: int) -> list[Finding]:
    from artelier.errors import ArtelierError
    from artelier.server.serving import bind

    try:
        bind("127.0.0.1", port).close()
    except ArtelierError:
        return [Finding("port", NOTE, f"{port} is taken: `artelier up --port 0` takes a free one")]
    return [Finding("port", OK, f"{port} is free")]
