"""The MCP servers of the folder that a command is started in: approved once, then tools of its kernel."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Collection, Iterable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from artelier.errors import AccessDenied, ArtelierError, InvalidConfig
from artelier.tools.mcp.configuration import FILE, ServerApprovals, ServerEntry, merge, read_servers
from artelier.tools.mcp.server import McpServer, gather_tools

if TYPE_CHECKING:
    from artelier.cli.display import Screen
    from artelier.ports.tool import ToolPort

REFUSED_SHOWN_MAX = 5


async def open_servers(
    screen: Screen,
    settings: Iterable[ServerEntry],
    stack: AsyncExitStack,
    *,
    approves: bool,
    workspaces: Sequence[str],
    taken: Collection[str],
) -> list[ToolPort]:
    """Return the tools of all servers, which stay open as long as `stack`.

    `settings`: servers of `[mcp.servers]`. `approves`: whatever is not approved yet is, without a question.
    `taken`: names that tools have already.
    Errors: `InvalidConfig` for a file that is broken or stands in a workspace; `AccessDenied` for a server
    that nobody approved; those of `McpServer.tools`, with the server's name.
    """
    directory = Path.cwd()
    stated = _read_file(screen, directory, workspaces)
    entries = merge(stated, settings)
    approvals = ServerApprovals.of_person(os.environ, directory=directory)
    kept = [one for one in entries if await _is_approved(screen, approvals, one, approves=approves)]
    servers = [(one, one.server(os.environ)) for one in kept]
    for _, server in servers:
        stack.push_async_callback(server.aclose)
    # At the same time: each may fetch itself first.
    await asyncio.gather(*(_named(entry, server, ()) for entry, server in servers))
    found: list[ToolPort] = []
    used = set(taken)
    for entry, server in servers:
        tools = await _named(entry, server, used)
        used |= {tool.name for tool in tools}
        found += tools
        _report(screen, entry, server, tools)
    return found


def _read_file(screen: Screen, directory: Path, workspaces: Sequence[str]) -> list[ServerEntry]:
    """Return what stands in the folder's file. Errors: `InvalidConfig` if agents could have written it."""
    path = directory / FILE
    for workspace in workspaces:
        root = Path(workspace).resolve()
        if path.exists() and path.resolve().is_relative_to(root):
            raise InvalidConfig(
                f"{FILE} stands in a workspace, where agents can write",
                expected=f"a {FILE} in a folder outside of every workspace",
                got=str(path),
                hint="Start the command in another folder, or leave its servers out with --no-mcp.",
            )
        if (root / FILE).exists():
            screen.note(f"{root / FILE} is not read: agents can write there", "yellow")
    return read_servers(Path(FILE) if path.exists() else path)


async def _is_approved(
    screen: Screen, approvals: ServerApprovals, entry: ServerEntry, *, approves: bool
) -> bool:
    """Return False for a server that the person at the terminal does not want now. Errors: `AccessDenied`."""
    if approvals.has(entry):
        return True
    has_changed = approvals.had_another(entry)
    state = "has changed since it was approved" if has_changed else "is not approved here yet"
    if not approves and not screen.asks:
        raise AccessDenied(
            f"the MCP server {entry.name[:80]!r} of {entry.file} {state}",
            expected="a person's approval, once",
            got="; ".join(entry.describe())[:600],
            hint="Give --approve-mcp to approve it, or --no-mcp to go on without such servers.",
        )
    screen.note(f"MCP server {entry.name} of {entry.file} {state}", "bold")
    for line in entry.describe():
        screen.note(f"  {line}")
    if not approves and not await _ask(screen):
        screen.note(f"  {entry.name} is left out this time", "yellow")
        return False
    approvals.add(entry)
    return True


async def _ask(screen: Screen) -> bool:
    screen.note("Start it here, now and whenever it is unchanged? [y/N]")
    said = await asyncio.to_thread(input)
    return said.strip().lower() in ("y", "yes")


async def _named(entry: ServerEntry, server: McpServer, taken: Collection[str]) -> list[ToolPort]:
    """Return the tools of a server. Errors: its own, with what to do about it."""
    try:
        return await gather_tools(server, taken=taken)
    except ArtelierError as error:
        said = server.stderr.strip().splitlines()
        entry.name_in(error, said=said[-1] if said else "")
        raise


def _report(screen: Screen, entry: ServerEntry, server: McpServer, tools: Sequence[ToolPort]) -> None:
    screen.note(f"MCP server {entry.name}: {len(tools)} tools", "dim")
    for one in server.refused[:REFUSED_SHOWN_MAX]:
        screen.note(f"  not offered: {one.name}: {one.reason}", "yellow")
