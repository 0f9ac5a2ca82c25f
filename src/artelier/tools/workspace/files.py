"""Files of the workspace: `read_file` and `write_file`."""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
from collections.abc import Iterator
from typing import Annotated, Any, NamedTuple

from artelier.errors import ToolFailed
from artelier.ports.tool import ToolContext
from artelier.tools.function import Tool, tool
from artelier.tools.worker.text_files import UnknownEncoding, decode
from artelier.tools.workspace.folder import (
    DEPTH_MAX,
    OUT_FOLDER,
    FileState,
    WorkspaceFolder,
    path_error,
    system_error,
)

READ_BYTES_MAX = 32 * 1024 * 1024
"""A larger file is searched or queried, not read."""

_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def read_text(
    folder: WorkspaceFolder, path: str, *, bytes_max: int = READ_BYTES_MAX
) -> tuple[str, FileState]:
    """A whole text file; a byte order mark is left out.

    Errors: `ToolFailed` if it can't be opened, is too large, or is no text of a known encoding.
    """
    text, state, _ = read_noted_text(folder, path, bytes_max=bytes_max)
    return text, state


def read_noted_text(
    folder: WorkspaceFolder, path: str, *, bytes_max: int = READ_BYTES_MAX
) -> tuple[str, FileState, str]:
    """As `read_text`, with a note on the encoding where it could only be guessed."""
    with folder.file(path) as (descriptor, state):
        if state.size_bytes > bytes_max:
            raise path_error(
                path,
                f"has {state.size_bytes} bytes, more than {bytes_max}",
                hint="Use search_text, or query_sql for tables.",
            )
        with os.fdopen(descriptor, "rb", closefd=False) as stream:
            raw = stream.read(bytes_max + 1)
    try:
        text, note = decode(raw)
    except UnknownEncoding as problem:
        raise path_error(path, problem.args[0].removeprefix("the file ").removeprefix("it ")) from None
    return text, state, note


def write_text(folder: WorkspaceFolder, path: str, text: str, *, token: str) -> dict[str, Any]:
    """Put a file in place at once: a reader sees the old content or the new one, never a part.

    Shapes: `token` names this write; a repeated write with the same token replaces its own
    leftovers.
    Errors: `ToolFailed` if nothing was written.
    """
    raw = text.encode()
    with folder.parent(path) as (descriptor, name):
        mode = _mode_of(path, name, descriptor)
        draft = f".{hashlib.sha256(f'{token}/{name}'.encode()).hexdigest()[:24]}.artelier"
        try:
            _write_draft(descriptor, draft, raw, mode=mode)
            os.replace(draft, name, src_dir_fd=descriptor, dst_dir_fd=descriptor)
        except OSError as error:
            with contextlib.suppress(OSError):
                os.unlink(draft, dir_fd=descriptor)
            raise system_error(path, error) from None
        # From here on the write has happened: a failure is no longer "nothing happened".
        os.fsync(descriptor)
    return _receipt("/".join(folder.clean(path)), raw)


def _mode_of(path: str, name: str, descriptor: int) -> int | None:
    """The permissions to keep, None for a new file."""
    try:
        info = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise system_error(path, error) from None
    if not stat.S_ISREG(info.st_mode):
        raise path_error(path, "is a folder, a link or a device; only files are written")
    return stat.S_IMODE(info.st_mode)


def _write_draft(descriptor: int, draft: str, raw: bytes, *, mode: int | None) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(draft, dir_fd=descriptor)
    opened = os.open(draft, _CREATE, 0o666, dir_fd=descriptor)
    with os.fdopen(opened, "wb") as stream:
        stream.write(raw)
        stream.flush()
        if mode is not None:
            os.fchmod(stream.fileno(), mode)
        os.fsync(stream.fileno())


def _receipt(path: str, raw: bytes) -> dict[str, Any]:
    return {"path": path, "size_bytes": len(raw), "sha256": hashlib.sha256(raw).hexdigest()}


def settle_write(folder: WorkspaceFolder, path: str, text: str) -> dict[str, Any]:
    """The receipt of a write, if the file now holds that text. Errors: `ToolFailed` if it does not."""
    raw = text.encode()
    with folder.file(path) as (descriptor, _), os.fdopen(descriptor, "rb", closefd=False) as stream:
        if stream.read(len(raw) + 1) != raw:
            raise path_error(path, "was not written: it has other content")
    return _receipt("/".join(folder.clean(path)), raw)


def file_tools(folder: WorkspaceFolder, *, writable: bool) -> list[Tool[..., Any]]:
    from pydantic import Field

    @tool(side_effect=False, timeout_s=60)
    def read_file(
        path: str,
        offset: Annotated[int, Field(ge=0, description="First character, counted from 0.")] = 0,
        limit: Annotated[int, Field(ge=1, le=200_000, description="Characters at most.")] = 20_000,
    ) -> dict[str, Any]:
        """Read a text file of the workspace; `line` is the number of the line with which the text begins.
        Goes on at `next_offset` if the file is longer."""
        text, state, note = read_noted_text(folder, path)
        end = min(offset + limit, len(text))
        answer: dict[str, Any] = {
            "path": state.path,
            "text": text[offset:end],
            "line": text.count("\n", 0, offset) + 1,
            "offset": offset,
            "total_chars": len(text),
            "next_offset": end if end < len(text) else None,
        }
        return answer | ({"note": note} if note else {})

    def probe(idempotency_key: str, arguments: dict[str, Any]) -> dict[str, Any]:
        return settle_write(folder, arguments["path"], arguments["text"])

    @tool(side_effect=True, probe=probe, risk="medium", trust="trusted", timeout_s=60)
    def write_file(path: str, text: str, ctx: ToolContext) -> dict[str, Any]:
        """Write a text file of the workspace, replacing what was there. Folders are made as needed."""
        if path.endswith("/"):
            raise ToolFailed("a path that ends in `/` is a folder", hint="Name a file.")
        return write_text(folder, path, text, token=ctx.idempotency_key)

    return [read_file, write_file] if writable else [read_file]


# --------------------------------------------------------------------------- listing
# The listing of the workspace: `list_dir`, and the walk that search and tables share.


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
