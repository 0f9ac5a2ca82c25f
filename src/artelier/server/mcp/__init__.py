"""Artifacts and runs for MCP clients. Needs the extra `mcp`."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from artelier.server.mcp.client_view import Face
    from artelier.server.mcp.runs import RunDesk
    from artelier.server.mcp.transports import serve_http, serve_stdio

__all__ = ["Face", "RunDesk", "serve_http", "serve_stdio"]

_HOMES = {"Face": "client_view", "RunDesk": "runs", "serve_http": "transports", "serve_stdio": "transports"}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
