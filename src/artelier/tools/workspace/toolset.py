"""The tools that ship, bound to one folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from artelier.ports.sandbox import Sandbox
from artelier.tools.built_in import ask_tool, calculator_tool, python_tool
from artelier.tools.function import Tool
from artelier.tools.workspace.files import file_tools, list_tool
from artelier.tools.workspace.folder import WorkspaceFolder
from artelier.tools.workspace.search import search_tool
from artelier.tools.workspace.tables import table_tools


def workspace_tools(
    root: str | Path, *, sandbox: Sandbox | None = None, writable: bool = True, is_confined: bool = False
) -> list[Tool[..., Any]]:
    """Every shipped tool that works on a folder, ordered by name.

    Shapes: without `sandbox` the tool `python` uses one that all such tools of the process share, started
    on first use; without `writable` there is no `write_file`. With `is_confined` a file with a second
    name (a hard link) is not opened, since it may be another tenant's.
    Errors: `InvalidRequest` if the root is no folder.
    """
    folder = WorkspaceFolder(root, is_confined=is_confined)
    tools = [
        ask_tool(),
        calculator_tool(),
        list_tool(folder),
        python_tool(sandbox),
        search_tool(folder),
        *file_tools(folder, writable=writable),
        *table_tools(folder),
    ]
    return sorted(tools, key=lambda item: item.name)
