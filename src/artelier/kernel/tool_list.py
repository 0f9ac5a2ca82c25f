"""The list of tools that a run sees, as the log has it: written at its start, and when it has changed."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

import msgspec

from artelier.kernel import events as ev
from artelier.kernel.core import RunCore
from artelier.kernel.manifest import canonical
from artelier.log import make_blob


def tool_list(core: RunCore) -> list[dict[str, Any]]:
    """Names, hashes and schemas of the tools that a run sees."""
    listed: list[dict[str, Any]] = []
    for schema in core.visible_tools():
        body = schema.canonical()
        listed.append(
            {
                "name": schema.name,
                "hash": sha256(body).hexdigest(),
                "schema": msgspec.to_builtins(schema),
            }
        )
    return listed


def note_tools(core: RunCore) -> None:
    """Record the tools that the run sees now, unless the log has them. Cost: nothing while grants stay."""
    if core.listed_under == core.tenant.grants:
        return
    core.listed_under = core.tenant.grants
    if not core.tools:
        return
    ref, blob = make_blob(core.tenant.id, core.key, canonical(tool_list(core)))
    if ref != core.listed:
        core.listed = ref
        core.writer.note(ev.ToolsChanged(tools=ref), [blob])
