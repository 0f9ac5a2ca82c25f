"""The list of tools that a run sees, as the log has it: written at its start, and when it has changed."""

from __future__ import annotations

from hashlib import sha256

import msgspec

from artelier.kernel import events as ev
from artelier.kernel.prompt.manifest import canonical
from artelier.kernel.queries.runs import RunRow, run_row
from artelier.kernel.run.context import RunCore
from artelier.kernel.run.services import Services
from artelier.log import BlobRef, decode_stored, make_blob
from artelier.log.queries import stream_events
from artelier.ports.model import ToolSchema


class ListedTool(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A tool as the log has it."""

    name: str
    hash: str = ""
    """SHA-256 of the schema's canonical JSON, hex."""
    schema: ToolSchema
    poll: bool = False


def tool_list(core: RunCore) -> list[ListedTool]:
    """Names, hashes and schemas of the tools that a run sees."""
    return [
        ListedTool(
            name=schema.name,
            hash=sha256(schema.canonical()).hexdigest(),
            schema=schema,
            poll=bool(getattr(core.tools.get(schema.name), "poll", False)),
        )
        for schema in core.visible_tools()
    ]


async def listed_polls(core: RunCore) -> dict[str, bool]:
    """Return for each tool that a run was started with whether it was declared `poll=True` then."""
    row = await run_row(core.services.store, core.tenant.id, core.run_id)
    if row.tools is None:
        return {}
    listed = decode_stored(await core.load(row.tools), type=list[ListedTool])
    return {item.name: item.poll for item in listed}


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
