from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from artelier.tools import Tool, workspace_tools

from .contexts import Recorder

Call = Callable[..., Any]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A workspace inside a folder that also holds what no tool may reach."""
    (tmp_path / "secret.txt").write_text("top secret")
    folder = tmp_path / "workspace"
    folder.mkdir()
    return folder


@pytest.fixture
def tools(root: Path) -> dict[str, Tool[..., Any]]:
    return {item.name: item for item in workspace_tools(root)}


@pytest.fixture
def call(tools: dict[str, Tool[..., Any]]) -> Call:
    """Calls a shipped tool by name as the kernel does: arguments checked, result as JSON data."""

    def run(name: str, /, **arguments: Any) -> Any:
        subject = tools[name]

        async def once() -> Any:
            return await subject.call(subject.validate(arguments), Recorder().context())

        return asyncio.run(once())

    return run
