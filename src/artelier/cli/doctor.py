"""`artelier doctor`: whether this machine has what Artelier needs."""

from __future__ import annotations

import asyncio
import http.client
import os
import platform
import shutil
import sqlite3
import ssl
import sys
import tempfile
import time
from collections.abc import Callable
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple
from urllib.parse import urlsplit

import typer

from artelier.cli import display
from artelier.cli.call import CliCall
from artelier.cli.command import alone, command
from artelier.cli.exit_codes import COMPLETED, FAILED
from artelier.clock import SystemClock
from artelier.errors import ArtelierError, InvalidConfig
from artelier.log.blobs import SECRET_BYTES
from artelier.log.places import exists, file_beside, file_of, is_address, read_server_facts
from artelier.log.queries import has_wrapped_keys, held_leases, newest_at_us
from artelier.plugins import IMPORTER_POINT, OWN, Plugin, PluginPoint, Plugins, installed, missing

if TYPE_CHECKING:
    from artelier.app import Kernel
    from artelier.log.postgres.store import ServerFacts

# The finding of one check by `artelier doctor`.

OK, NOTE, WRONG = "ok", "note", "wrong"


class Finding(NamedTuple):
    """The finding of one check."""

    what: str
    status: str
    """`ok`; `note`: something works not here; `wrong`: Artelier does not work."""
    said: str


def existing_parent(path: Path) -> Path:
    """The nearest folder above a path that is there."""
    return next(parent for parent in path.absolute().parents if parent.exists())


TIMEOUT_S = 5.0
SKEW_S_MAX = 30.0
"""Beyond it certificates and signatures begin to fail (a guess)."""


def check_limits(call: CliCall) -> list[Finding]:
    """Check personal data, allowed models, rates, approvals and the servers of `http_json`."""
    return [_personal(call), _check_models(call), _rates(call), _approvals(call), _http(call)]


def _personal(call: CliCall) -> Finding:
    if not call.settings.pii:
        said = "off: models and the store get it as it is (enabled under [pii] in artelier.toml)"
        return Finding("personal data", NOTE, said)
    more = ", ".join(sorted(call.settings.patterns))
    said = "replaced before a model or the store gets it"
    return Finding("personal data", OK, f"{said}; also looked for: {more}" if more else said)


def _check_models(call: CliCall) -> Finding:
    from artelier.tokens.model_info import canonical_name

    policy = call.settings.policy()
    if policy.models is None:
        return Finding("models", OK, "every model may be called")
    name = canonical_name(call.settings.model)
    listed = ", ".join(policy.models) or "none"
    if not policy.allows_model(name):
        return Finding(
            "models",
            WRONG,
            f"allowed: {listed}; the default {name!r} is not among them: change `default` or `allow` under"
            " [model]",
        )
    return Finding("models", OK, f"allowed: {listed}")


def _rates(call: CliCall) -> Finding:
    from artelier.models.vendors import VENDORS
    from artelier.tokens.model_info import BUILT_IN

    said = display.speeds({name: rate.plain() for name, rate in call.settings.rates.items()})
    known = {*VENDORS, *BUILT_IN}
    odd = [name for name in call.settings.rates if name not in known and not set(name) & set(":*?[")]
    if odd:
        why = f"no provider is called {', '.join(odd)}: this limits the models of openai that are called so"
        return Finding("rates", NOTE, f"a minute, {said}; {why}")
    return Finding("rates", OK, f"a minute, {said}" if said else "no limit of speed")


def _approvals(call: CliCall) -> Finding:
    risk = call.settings.approve_risk
    if risk is None:
        return Finding("approvals", OK, "no risk class of tools needs a person's yes")
    return Finding("approvals", OK, f"tools of risk {risk} and above need a person's yes")


def _http(call: CliCall) -> Finding:
    """Return which servers `http_json` may ask, and whether the secrets are there."""
    rules = call.settings.http_rules
    if not rules:
        said = "off: no URL is allowed ([tools.http] allow in artelier.toml)"
        return Finding("http_json", NOTE, said)
    missing: list[str] = []
    for rule in rules:
        try:
            rule.fill_headers(os.environ)
        except ArtelierError as error:
            missing.append(str(error))
    if missing:
        return Finding("http_json", WRONG, "; ".join(missing))
    return Finding("http_json", OK, ", ".join(rule.url for rule in rules))


def check_plugins(call: CliCall) -> list[Finding]:
    """Return a line for each distribution with plugins. Those that are allowed are loaded."""
    allowed = Plugins(call.settings.plugins)
    groups: dict[str, list[Plugin]] = {}
    for one in installed():
        if one.distribution != OWN:
            groups.setdefault(one.distribution, []).append(one)
    lines = [_check_plugin(name, those, allowed) for name, those in sorted(groups.items())]
    lines += [Finding("plugin", WRONG, str(missing(name))) for name in allowed.allow if name not in groups]
    return lines or [Finding("plugins", OK, "none installed")]


def _check_plugin(name: str, those: list[Plugin], allowed: Plugins) -> Finding:
    offered = ", ".join(f"{one.group.removeprefix('artelier.')} {one.name}" for one in those)
    title = f"{name} {those[0].version}: {offered}"
    if name not in allowed.allow:
        return Finding(
            "plugin", NOTE, f'{title}; installed, not allowed: [plugins] allow = ["{name}"] lets it act'
        )
    problems: list[str] = []
    points = plugin_points()
    for one in those:
        try:
            allowed.load(points[one.group], one.name)
        except ArtelierError as error:
            problems.append(str(error))
    if problems:
        return Finding("plugin", WRONG, f"{title}; allowed, broken: {' '.join(problems)}")
    return Finding("plugin", OK, f"{title}; allowed")


def plugin_points() -> dict[str, PluginPoint[Any]]:
    """Return every place where a plugin may add something, by its group of entry points."""
    from artelier.cli.plugin_commands import COMMAND_POINT
    from artelier.memory.embedders.registry import EMBEDDER_POINT
    from artelier.models.registry import MODEL_POINT
    from artelier.operations.kinds import KIND_POINT
    from artelier.tools.adapters import ADAPTER_POINT
    from artelier.tools.function import TOOL_POINT

    points = (
        MODEL_POINT,
        TOOL_POINT,
        ADAPTER_POINT,
        KIND_POINT,
        EMBEDDER_POINT,
        IMPORTER_POINT,
        COMMAND_POINT,
    )
    return {point.group: point for point in points}


def check_providers(call: CliCall) -> list[Finding]:
    """Ask the providers that have a key, and that of the model that holds."""
    from artelier.models.vendors import VENDORS
    from artelier.tokens.model_info import split_name

    wanted = split_name(call.settings.model)[0]
    found: list[Finding] = []
    for name, vendor in VENDORS.items():
        has_key = any(os.environ.get(key, "").strip() for key in vendor.key_names)
        own = os.environ.get(vendor.base_url_name or "", "").strip()
        if (url := own or vendor.base_url) and (has_key or own or name == wanted):
            found.append(_check_reachable(name, url))
    return found or [Finding("online", NOTE, "no provider has a key: nobody was called")]


def _check_reachable(name: str, url: str) -> Finding:
    """Send one request without a key: any answer will do."""
    what = f"online {name}"
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
        line = (
            http.client.HTTPConnection(host, port, timeout=TIMEOUT_S)
            if parts.scheme == "http"
            else http.client.HTTPSConnection(
                host, port, timeout=TIMEOUT_S, context=ssl.create_default_context()
            )
        )
        try:
            line.request("HEAD", parts.path or "/")
            response = line.getresponse()
            told = response.getheader("date")
        finally:
            line.close()
    except (OSError, ValueError, http.client.HTTPException) as error:
        return Finding(what, WRONG, f"{url.rpartition('@')[2]} does not answer: {error}")
    skew_s = _skew_s(told)
    if skew_s is not None and abs(skew_s) > SKEW_S_MAX:
        return Finding(what, NOTE, f"{host} answers; this machine's clock differs by {skew_s:,.0f} s")
    return Finding(what, OK, f"{host} answers")


def _skew_s(told: str | None) -> float | None:
    """Return the seconds that this clock is ahead of the other side's."""
    try:
        return time.time() - parsedate_to_datetime(told or "").timestamp()
    except (TypeError, ValueError):
        return None


# `artelier doctor`: the database, who holds its runs, its clock, and the key that seals it.

AHEAD_US_MAX = 5_000_000
"""An event so far in the future was written under another clock."""

CONNECTIONS_EACH = 3
"""Connections of a process: one writes, one reads, one listens."""

VERSION_MIN = 150_000
"""The oldest PostgreSQL that a store was tried with."""


class Looked(NamedTuple):
    """The findings from opening the database."""

    found: list[Finding]
    is_sealed: bool = False
    problem: ArtelierError | None = None


def check_database(call: CliCall) -> list[Finding]:
    """Return the findings on the database, if there is one, and on the key."""
    looked = _check_there(call)
    return [*looked.found, _vault(call, looked)]


def _check_there(call: CliCall) -> Looked:
    try:
        if exists(call.database):
            return _check_open(call)
    except ArtelierError as error:
        return Looked([Finding("database", WRONG, str(error))], problem=error)
    if is_address(call.database):
        return Looked([Finding("database", NOTE, f"none yet at {call.database_label}")])
    return Looked([_not_yet(Path(file_of(call.database)))])


def _not_yet(path: Path) -> Finding:
    """Return whether there can be one: the rights of a folder do not tell, so a file is made and gone
    again.
    """
    near = existing_parent(path)
    try:
        with tempfile.TemporaryFile(dir=near):
            return Finding("database", NOTE, f"none yet at {path}")
    except OSError as error:
        why = f"{near} cannot be written ({error.strerror}): change its rights, or name another --db"
        return Finding("database", WRONG, f"none yet at {path}; {why}")


def _check_open(call: CliCall) -> Looked:
    async def look() -> Looked:
        async with call.kernel() as kernel:
            found = [await _database(kernel, call), await _leases(kernel), await _clock(kernel)]
            if is_address(call.database):
                found += check_server(read_server_facts(call.database), SystemClock().now_us())
            return Looked(found, is_sealed=await has_wrapped_keys(kernel.store, secret_bytes=SECRET_BYTES))

    try:
        return asyncio.run(look())
    except ArtelierError as error:
        return Looked([Finding("database", WRONG, str(error))], problem=error)


async def _database(kernel: Kernel, call: CliCall) -> Finding:
    """Opened and migrated by now; an empty batch says whether somebody else has it locked."""
    from artelier.log import Batch

    await kernel.store.append(Batch())
    head = (await kernel.head())[:16]
    said = f"schema {kernel.store.schema_version}, head {head}"
    if is_address(call.database):
        return Finding("database", OK, f"{call.database_label}, {said}")
    path = Path(file_of(call.database))
    size = path.stat().st_size / 1024**2
    return Finding("database", OK, f"{path}, {size:,.1f} MiB, {said}")


async def _leases(kernel: Kernel) -> Finding:
    leases = await held_leases(kernel.store)
    alive = [one for one in leases if kernel.services.is_driving(one.holder, one.end)]
    if len(alive) == len(leases):
        return Finding("leases", OK, f"{len(alive)} runs are driven now")
    left = len(leases) - len(alive)
    return Finding(
        "leases", NOTE, f"{left} runs were left by a process that is gone: `artelier worker` goes on"
    )


async def _clock(kernel: Kernel) -> Finding:
    newest_us = await newest_at_us(kernel.store)
    ahead_us = 0 if newest_us is None else newest_us - kernel.services.clock.now_us()
    if ahead_us <= AHEAD_US_MAX:
        return Finding("clock", OK, "no event is of the future")
    said = f"the newest event is {ahead_us / 1e6:,.0f} s ahead of this machine's clock"
    return Finding("clock", NOTE, f"{said}: set it, or waits last longer")


def check_server(facts: ServerFacts, now_us: int) -> list[Finding]:
    """Return what is wrong with a database server; a single line if nothing is."""
    wrong: list[str] = []
    notes: list[str] = []
    if facts.version < VERSION_MIN:
        wrong.append(f"PostgreSQL {facts.version // 10_000} is too old: 15 or newer is needed")
    if not facts.is_fsync_on:
        wrong.append("fsync is off: what was committed is lost when the machine fails; set fsync = on")
    if facts.synchronous_commit == "off":
        wrong.append(
            "synchronous_commit is off: the newest commits are lost when the server fails; set it on"
        )
    if not facts.is_writing_full_pages:
        wrong.append("full_page_writes is off: a torn page damages the database; set full_page_writes = on")
    if facts.asynchronous_standbys:
        notes.append(
            f"{facts.asynchronous_standbys} standbys are asynchronous: one that takes over may lack commits,"
            " and processes that saw them then stop with history_lost"
        )
    if facts.connections_left < CONNECTIONS_EACH:
        notes.append(
            f"{max(0, facts.connections_left)} connections are left, and a process takes {CONNECTIONS_EACH}:"
            " raise max_connections"
        )
    if not facts.is_told:
        notes.append(
            "a pooler is in between, so each process looks for commits of others ten times a second: name the"
            " server in the address, too, with listen=HOST:PORT"
        )
    if abs(apart_us := facts.at_us - now_us) > AHEAD_US_MAX:
        way = "ahead of" if apart_us > 0 else "behind"
        notes.append(f"its clock is {abs(apart_us) / 1e6:,.0f} s {way} this machine's, and it counts")
    found = [
        *(Finding("server", WRONG, one) for one in wrong),
        *(Finding("server", NOTE, one) for one in notes),
    ]
    said = f"PostgreSQL {facts.version // 10_000}, {facts.connections_left} connections left"
    return found or [Finding("server", OK, said)]


def _vault(call: CliCall, looked: Looked) -> Finding:
    """Return whether the key is there and can be used; never what it is."""
    from artelier.pii.vault import VARIABLE, sealer_from

    try:
        cipher = sealer_from(os.environ)
    except ArtelierError as error:
        return Finding("vault key", WRONG, str(error))
    if cipher is not None:
        if isinstance(looked.problem, InvalidConfig):
            said = f"{VARIABLE} is not the key that this database was written with: set that one"
            return Finding("vault key", WRONG, said)
        return Finding("vault key", OK, f"{VARIABLE} seals what is stored")
    if looked.is_sealed:
        said = f"what is stored is sealed, and shown as [locked]: set the {VARIABLE} that it was written with"
        return Finding("vault key", WRONG, said)
    if call.settings.pii:
        return Finding("vault key", WRONG, f"personal data is to be replaced: set {VARIABLE}")
    return Finding("vault key", NOTE, f"no {VARIABLE}: what is stored is not encrypted")


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
    looks: tuple[Callable[[], list[Finding]], ...] = (
        _python,
        lambda: check_database(call),
        lambda: _disk(call),
        lambda: _models(call),
        lambda: check_plugins(call),
        lambda: check_limits(call),
        _sandbox,
        _confinement,
        _web,
        lambda: _port(port),
        lambda: check_providers(call) if online else [],
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
    from artelier.models.registry import ModelRegistry
    from artelier.models.vendors import VENDORS

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
