"""Tools of MCP servers. Needs the extra `mcp`; nothing of it is imported before a server is used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from artelier.ports.lazy_names import load_on_use

if TYPE_CHECKING:
    from artelier.tools.mcp.failures import CallLost, ServerUnavailable
    from artelier.tools.mcp.listing import RefusedTool
    from artelier.tools.mcp.server import McpServer, gather_tools
    from artelier.tools.mcp.tool import McpTool, definition_hash

__all__ = [
    "CallLost",
    "McpServer",
    "McpTool",
    "RefusedTool",
    "ServerUnavailable",
    "definition_hash",
    "gather_tools",
]

_HOMES = {
    "CallLost": "failures",
    "McpServer": "server",
    "McpTool": "tool",
    "RefusedTool": "listing",
    "ServerUnavailable": "failures",
    "definition_hash": "tool",
    "gather_tools": "server",
}

__getattr__ = load_on_use(__name__, _HOMES)
