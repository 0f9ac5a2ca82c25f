"""Artifacts and runs for MCP clients. Needs the extra `mcp`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from artelier.ports.lazy_names import load_on_use

if TYPE_CHECKING:
    from artelier.server.mcp.client_view import Face
    from artelier.server.mcp.runs import RunDesk
    from artelier.server.mcp.transports import serve_http, serve_stdio

__all__ = ["Face", "RunDesk", "serve_http", "serve_stdio"]

_HOMES = {"Face": "client_view", "RunDesk": "runs", "serve_http": "transports", "serve_stdio": "transports"}

__getattr__ = load_on_use(__name__, _HOMES)
