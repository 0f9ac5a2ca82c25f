"""Servers as real processes, and calls as the kernel makes them."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from artelier.ports.tool import ToolPort
from artelier.tools.mcp import McpServer
from tests.tools.contexts import Recorder

HERE = Path(__file__).parent

Rogue = Callable[..., McpServer]


@pytest.fixture
def rogue(tmp_path: Path) -> Rogue:
    """A server spoken by hand; its facts, and the options of `McpServer`."""

    def make(facts: dict[str, Any] | None = None, **options: Any) -> McpServer:
        given = json.dumps({"log": str(tmp_path / "calls"), **(facts or {})})
        command = [sys.executable, "-S", str(HERE / "rogue.py"), given]
        return McpServer("rogue", command=command, **{"timeout_s": 10.0, **options})

    return make


@pytest.fixture
def shop() -> Rogue:
    """A server made with the protocol's own package."""

    def make(**options: Any) -> McpServer:
        command = [sys.executable, str(HERE / "shop.py")]
        return McpServer("shop", command=command, **{"timeout_s": 30.0, **options})

    return make


async def by_name(server: McpServer) -> dict[str, ToolPort]:
    return {tool.name: tool for tool in await server.tools()}


async def call(tool: ToolPort, /, **arguments: Any) -> Any:
    return await tool.call(tool.validate(arguments), Recorder().context())
