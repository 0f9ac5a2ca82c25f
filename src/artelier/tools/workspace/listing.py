"""The listing of the workspace: `list_dir`, and the walk that search and tables share."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from typing import Any, NamedTuple

from artelier.errors import ToolFailed
from artelier.tools.function import Tool, tool
from artelier.tools.workspace.folder import DEPTH_MAX, OUT_FOLDER, WorkspaceFolder

ENTRIES_MAX = 1_000
VISITED_MAX = 100_000
"""Entries looked at in one walk; a larger tree is reported as truncated."""


class FolderEntry(NamedTuple):
    path: str
    type: str
    """`file` or `dir`; a link counts as what it leads to, anything else is left out."""
    size_bytes: int
    """Of a file; 0 for a folder."""


def walk(folder: WorkspaceFolder, path: str, *, recursive: bool) -> tuple[list[FolderEntry], bool]:
    """All visible entries below a path, sorted by path, and whether some were left out for their number.

    Links to folders are listed and not entered. Errors: `ToolFailed` if the path is no folder.
    """
    found: list[FolderEntry] = []
    visited = 0
    pending = ["/".join(folder.clean(path)) or "."]
    with folder.directory(path):
        pass  # The start must exist; folders that vanish during the walk are only missed.
    while pending:
        here = pending.pop()
        for entry, is_link in _scan(folder, here):
            visited += 1
            if visited > VISITED_MAX:
                return sorted(found), True
            found.append(entry)
            if recursive and entry.type == "dir" and not is_link:
                pending.append(entry.path)
    return sorted(found), False


def _scan(folder: WorkspaceFolder, here: str) -> Iterator[tuple[FolderEntry, bool]]:
    if here.count("/") >= DEPTH_MAX - 1:
        return
    try:
        with folder.directory(here) as descriptor:
            names = sorted(item for item in os.listdir(descriptor) if _is_visible(item))
            infos = [(name, _stat(folder, here, name, descriptor)) for name in names]
    except ToolFailed:
        return
    for name, (info, is_link) in infos:
        path = _text(name if here == "." else f"{here}/{name}")
        if info is None:
            continue
        if stat.S_ISDIR(info.st_mode):
            yield FolderEntry(path, "dir", 0), is_link
        elif stat.S_ISREG(info.st_mode):
            yield FolderEntry(path, "file", info.st_size), is_link


def _is_visible(name: str) -> bool:
    return not name.startswith(".") and name != OUT_FOLDER


def _stat(
    folder: WorkspaceFolder, here: str, name: str, descriptor: int
) -> tuple[os.stat_result | None, bool]:
    try:
        info = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
        if not stat.S_ISLNK(info.st_mode):
            return info, False
        if not folder.inside(f"{here}/{name}"):
            return None, True
        return os.stat(name, dir_fd=descriptor), True
    except OSError:
        return None, False


def _text(name: str) -> str:
    """A name that is not UTF-8 is shown with escapes: it can't be opened, but it is not concealed."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")


def list_tool(folder: WorkspaceFolder) -> Tool[..., Any]:
    @tool(side_effect=False, timeout_s=60)
    def list_dir(path: str = ".", recursive: bool = False) -> dict[str, Any]:
        """List files and folders of the workspace, sorted by path. `recursive` goes into folders.
        Hidden files are left out; at most 1000 entries come back."""
        entries, cut = walk(folder, path, recursive=recursive)
        return {
            "path": "/".join(folder.clean(path)) or ".",
            "entries": [entry._asdict() for entry in entries[:ENTRIES_MAX]],
            "truncated": cut or len(entries) > ENTRIES_MAX,
        }

    return list_dir
