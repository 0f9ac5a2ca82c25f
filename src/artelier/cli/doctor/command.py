"""`artelier doctor`: whether this machine has what Artelier needs."""

from __future__ import annotations

import os
import platform
import shutil
import sqlite3
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from artelier.cli.call import CliCall
from artelier.cli.command import alone, command
from artelier.cli.doctor.checks import NOTE, OK, WRONG, Finding, existing_parent
from artelier.cli.exit_codes import COMPLETED, FAILED
from artelier.log.places import file_beside

app = alone()

FREE_BYTES_MIN = 1024**3
"""Below this a store may soon be full (a guess: a long run writes some 4 KB a cycle)."""


@command(app, example="artelier doctor")
def doctor(
    call: CliCall,
    port: Annotated[
        int, typer.Option("--port", metavar="N", min=0, max=65535, help="Of `artelier up`.")
    ] = 8321,
    online: Annotated[
        bool, typer.Option("--online", help="Also call the providers that have a key; no key is sent.")
    ] = False,
    settings: Annotated[
        bool, typer.Option("--settings", help="Show every setting instead, and where it comes from.")
    ] = False,
) -> int:
    """Check this machine: what is missing, and what to do.

    Nobody is called without --online. Of keys only the names are shown. The database is opened as every
    command opens it.
    """
    if settings:
        return _settings(call)
    from artelier.cli.doctor import checks

    looks: tuple[Callable[[], list[Finding]], ...] = (
        _python,
        lambda: checks.looks(call),
        lambda: _disk(call),
        lambda: _models(call),
        lambda: checks.check_plugins(call),
        lambda: checks.check_limits(call),
        _sandbox,
        _confinement,
        _web,
        lambda: _port(port),
        lambda: checks.check_providers(call) if online else [],
    )
    found = [finding for look in looks for finding in look()]
    is_well = all(finding.status != WRONG for finding in found)
    if call.as_json:
        from artelier.confinement import standing

        walls = [{"wall": wall, "stands": not why, "why": why} for wall, why in standing().items()]
        told = [one._asdict() for one in found]
        call.screen.json({"ok": is_well, "findings": told, "walls": walls})
    else:
        call.screen.table(("what", "", "found"), found, empty="nothing was looked at")
    return COMPLETED if is_well else FAILED


def _python() -> list[Finding]:
    is_new = sys.version_info >= (3, 11)
    said = f"{platform.python_version()}, SQLite {sqlite3.sqlite_version}"
    return [Finding("python", OK if is_new else WRONG, said if is_new else f"{said}: install 3.11")]


def _disk(call: CliCall) -> list[Finding]:
    free = shutil.disk_usage(existing_parent(Path(file_beside(call.database)))).free
    said = f"{free / 1024**3:,.1f} GiB free"
    if free >= FREE_BYTES_MIN:
        return [Finding("disk", OK, said)]
    return [Finding("disk", NOTE, f"{said}: make room, a full disk stops every run")]


def _sandbox() -> list[Finding]:
    """Return whether code of models can be run in its cage."""
    import asyncio

    from artelier.errors import ArtelierError
    from artelier.ports.sandbox import SandboxLimits
    from artelier.sandbox import MontySandbox

    async def run() -> object:
        sandbox = MontySandbox()
        try:
            return (await sandbox.run("6 * 7", limits=SandboxLimits(time_ms=5_000))).value
        finally:
            await sandbox.close()

    try:
        is_right = asyncio.run(run()) == 42
    except (ArtelierError, OSError) as error:
        return [Finding("sandbox", WRONG, f"code cannot be run: {error}")]
    return [Finding("sandbox", OK if is_right else WRONG, "code runs in its cage")]


def _confinement() -> list[Finding]:
    """Return which walls of the kernel stand around processes that run untrusted code."""
    from artelier.confinement import OFF, REQUIRED, landlock_abi, mode, standing

    chosen = mode()
    if chosen == OFF:
        return [Finding("confinement", NOTE, "switched off: a broken sandbox has no second wall")]
    walls = standing()
    names = {wall: f"landlock (ABI {landlock_abi()})" if wall == "landlock" else wall for wall in walls}
    said = ", ".join(names[wall] for wall, why in walls.items() if not why) or "no wall"
    missing = [f"no {wall}: {why}" for wall, why in walls.items() if why]
    if not missing:
        return [Finding("confinement", OK, f"{said} stand around untrusted code")]
    if chosen == REQUIRED:
        return [Finding("confinement", WRONG, "; ".join(["all walls are required", *missing]))]
    return [Finding("confinement", NOTE, "; ".join([f"{said} stand", *missing]))]


def _models(call: CliCall) -> list[Finding]:
    """Return whether the model that holds can be used, and which providers have a key. Only names are
    shown.
    """
    from artelier.errors import ArtelierError
    from artelier.models.registry import ModelRegistry
    from artelier.models.vendors import VENDORS
    from artelier.plugins import Plugins

    name = call.settings.model
    try:
        ModelRegistry(None, environ=os.environ, plugins=Plugins(call.settings.plugins)).resolve(name)
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
    way = "`make setup` in a checkout" + ("" if shutil.which("node") else ", which needs node")
    return [Finding("web", NOTE, f"not built: {way}; the API works without")]


def _port(port: int) -> list[Finding]:
    from artelier.errors import ArtelierError
    from artelier.server.http_server import bind

    try:
        bind("127.0.0.1", port).close()
    except ArtelierError:
        return [Finding("port", NOTE, f"{port} is taken: `artelier up --port 0` takes a free one")]
    return [Finding("port", OK, f"{port} is free")]


def _settings(call: CliCall) -> int:
    """Every setting, its value and its source. Errors: as of `load_settings`."""
    from artelier.cli.settings.file import sources

    found = sources(call.config, environ=os.environ)
    if call.as_json:
        items = [{"key": one.key, "value": one.value, "source": one.source} for one in found]
        call.screen.json({"items": items, "next": None})
        return COMPLETED
    call.screen.table(("key", "value", "from"), found, empty="no settings")
    return COMPLETED
