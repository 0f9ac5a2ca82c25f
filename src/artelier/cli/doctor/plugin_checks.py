"""Plugins: which are installed, which may act, and which of these are broken."""

from __future__ import annotations

from typing import Any

from artelier.cli.call import CliCall
from artelier.cli.doctor.result import NOTE, OK, WRONG, Finding
from artelier.errors import ArtelierError
from artelier.plugins import OWN, Plugin, PluginPoint, Plugins, installed, missing


def looks(call: CliCall) -> list[Finding]:
    """Return a line for each distribution with plugins. Those that are allowed are loaded."""
    allowed = Plugins(call.settings.plugins)
    groups: dict[str, list[Plugin]] = {}
    for one in installed():
        if one.distribution != OWN:
            groups.setdefault(one.distribution, []).append(one)
    lines = [_line(name, those, allowed) for name, those in sorted(groups.items())]
    lines += [Finding("plugin", WRONG, str(missing(name))) for name in allowed.allow if name not in groups]
    return lines or [Finding("plugins", OK, "none installed")]


def _line(name: str, those: list[Plugin], allowed: Plugins) -> Finding:
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
    from artelier.plugins import IMPORTER_POINT
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
