"""Tools of MCP servers. Needs the extra `mcp`; nothing of it is imported before a server is used."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

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


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
