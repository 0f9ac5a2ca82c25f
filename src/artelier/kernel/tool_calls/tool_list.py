"""The list of tools that a run sees, as the log has it: written at its start, and when it has changed."""

from __future__ import annotations

from hashlib import sha256
from typing import Any, NotRequired, TypedDict

import msgspec

from artelier.kernel import events as ev
from artelier.kernel.prompt.manifest import canonical
from artelier.kernel.queries.runs import RunRow, run_row
from artelier.kernel.run.context import RunCore
from artelier.kernel.run.services import Services
from artelier.log import BlobRef, make_blob
from artelier.log.queries import stream_events


class ListedTool(TypedDict):
    """A tool as the log has it."""

    name: str
    hash: str
    schema: dict[str, Any]
    """JSON."""
    poll: NotRequired[bool]


def tool_list(core: RunCore) -> list[ListedTool]:
    """Names, hashes and schemas of the tools that a run sees."""
    listed: list[ListedTool] = []
    for schema in core.visible_tools():
        body = schema.canonical()
        item: ListedTool = {
            "name": schema.name,
            "hash": sha256(body).hexdigest(),
            "schema": msgspec.to_builtins(schema),
        }
        if getattr(core.tools.get(schema.name), "poll", False):
            item["poll"] = True
        listed.append(item)
    return listed


async def listed_polls(core: RunCore) -> dict[str, bool]:
    """Return for each tool that a run was started with whether it was declared `poll=True` then."""
    row = await run_row(core.services.store, core.tenant.id, core.run_id)
    listed: list[dict[str, Any]] = await core.load_json(row.tools) or []
    return {str(item["name"]): bool(item.get("poll")) for item in listed}


async def newest_list(services: Services, row: RunRow) -> BlobRef | None:
    """The list of tools that the log has last of a run, or of the run that it was forked from."""
    rows = await stream_events(services.store, row.id, ev.ToolsChanged.KIND, newest=1)
    return rows[0].read(ev.ToolsChanged).tools if rows else row.tools


def note_tools(core: RunCore) -> None:
    """Record the tools that the run sees now, unless the log has them.

    Cost: nothing while grants stay and nothing is switched off or on.
    """
    if core.listed_under == (sight := core.sight):
        return
    core.listed_under = sight
    if not core.tools:
        return
    ref, blob = make_blob(core.tenant.id, core.key, canonical(tool_list(core)))
    if ref != core.listed:
        core.listed = ref
        core.writer.note(ev.ToolsChanged(tools=ref), [blob])
