"""Commands of plugins: found for a name that Artelier has none for, and listed in `--help` from a cache.

Most command lines name a command of Artelier's own and read no entry points at all.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import Any

from artelier.errors import InvalidConfig, NotFound
from artelier.ids import VERSION
from artelier.plugins import (
    COMMANDS,
    OWN,
    PluginPoint,
    Plugins,
    import_value,
    installed,
    normalised,
    own_members,
)

LINE_CHARS_MAX = 64
"""Of a command's line in the list; longer ones are cut off there."""

_SETTLED_NS = 2_000_000_000
"""A folder that has changed within this time may change again without its time telling."""


def load_command(ctx: object, name: str) -> Any:
    """Return the command that an allowed plugin offers under a name; None if nobody has one.

    Errors: `PluginBroken`; `NotFound` that names the distribution, if it is installed and not allowed;
    those of the settings.
    """
    plugins = allowed_plugins(ctx)
    if plugins.has(COMMAND_POINT, name):
        return plugins.load(COMMAND_POINT, name)
    for one in installed():
        if one.group == COMMANDS and one.name == name:
            raise NotFound(
                f"the command {name!r} is of a plugin that is not allowed",
                expected=f"{one.distribution} in [plugins] allow",
                hint=f'Write [plugins] allow = ["{one.distribution}"] into artelier.toml.',
            )
    return None


def allowed_plugins(ctx: Any) -> Plugins:
    """Return the plugins that the settings of a command line allow. Errors: those of the settings."""
    from artelier.cli.settings.file import load_settings

    config = None
    while ctx is not None and config is None:
        config, ctx = ctx.params.get("config"), ctx.parent
    return Plugins(load_settings(config, environ=os.environ).plugins)


def load_member(name: str, *, distribution: str) -> Any:
    """Return a command of the table that comes with a distribution of Artelier's own.

    Errors: `NotFound` that says how to get the distribution.
    """
    members = own_members() if distribution == OWN else installed()
    for one in members:
        if (one.group, one.name, one.distribution) == (COMMANDS, name, distribution):
            return _accepted(name, import_value(one.value))
    raise NotFound(
        f"the command {name!r} comes with {distribution}, which is not installed",
        hint=f"Install it beside Artelier (`pip install {distribution}`; `make setup` in a checkout).",
    )


def command_lines(settings: str) -> dict[str, str]:
    """Return the commands of the plugins that a file of settings allows, with their lines; none is imported.

    Nothing is raised: the list of commands is shown whatever is wrong with the settings.
    """
    allow = _allowed(Path(settings))
    if not allow:
        return {}
    found: dict[str, str] = {}
    for group, name, _, distribution, _, summary in _remembered():
        if group == COMMANDS and distribution in allow and name not in _own():
            line = summary or f"A command of {distribution}."
            found[name] = line if len(line) <= LINE_CHARS_MAX else line[: LINE_CHARS_MAX - 3] + "..."
    return found


def _allowed(file: Path) -> frozenset[str]:
    """Return `[plugins] allow` as it stands in the file, without checking the rest of it."""
    try:
        text = file.read_text("utf-8")
        if "plugins" not in text:
            return frozenset()
        import tomllib

        return frozenset(normalised(str(name)) for name in tomllib.loads(text)["plugins"]["allow"])
    except (OSError, ValueError, KeyError, TypeError):
        return frozenset()


def _remembered() -> list[list[str]]:
    """Return what is installed, from a file that holds as long as no folder of packages has changed."""
    import json  # 3 ms that most lists of commands need not spend
    import time

    folders = _folders()
    state = {"artelier": VERSION, "folders": [list(one) for one in folders]}
    base = os.environ.get("XDG_CACHE_HOME", "").strip()
    file = (Path(base) if base else Path.home() / ".cache") / "artelier" / "plugins.json"
    with suppress(OSError, ValueError, KeyError, TypeError):
        kept = json.loads(file.read_text("utf-8"))
        if kept["state"] == state:
            return kept["plugins"]
    found = [list(one) for one in installed()]
    if all(time.time_ns() - changed > _SETTLED_NS for _, changed in folders):
        with suppress(OSError):
            file.parent.mkdir(parents=True, exist_ok=True)
            fresh = file.with_suffix(f".{os.getpid()}")
            fresh.write_text(json.dumps({"state": state, "plugins": found}), encoding="utf-8")
            fresh.replace(file)
    return found


def _folders() -> list[tuple[str, int]]:
    """Return what tells that nothing was installed since: the folders of packages and when they changed."""
    folders: list[tuple[str, int]] = []
    for place in sys.path:
        # The working directory changes all the time, and nobody installs into it.
        if place and place != os.getcwd():
            with suppress(OSError):
                folders.append((place, os.stat(place).st_mtime_ns))
    return folders


def _own() -> Collection[str]:
    from artelier.cli.command_table import COMMANDS as own

    return own


def _accepted(name: str, loaded: object) -> object:
    import typer
    from typer.main import get_command

    if not isinstance(loaded, typer.Typer):
        raise InvalidConfig(
            f"{name!r} is no command",
            expected="a Typer of artelier.cli.command (alone or group)",
            got=repr(loaded)[:80],
        )
    command = get_command(loaded)
    command.name = name
    return command


COMMAND_POINT = PluginPoint(COMMANDS, _accepted, taken=_own)
"""A command at the top, beside Artelier's own."""
