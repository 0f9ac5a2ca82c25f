"""The workspace folder, and the tools `read_file`, `write_file` and `list_dir` over it.

Every path that a model names is opened beneath the folder, or refused: it is cleaned as text, resolved,
checked to lie inside, and then opened component by component without following links, so that nothing
swapped in between leads outside. Errors name the path as it was given, never where the folder lies on the
host.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import posixpath
import stat
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypeVar

import msgspec

from artelier.errors import InvalidRequest, ToolFailed
from artelier.pii.vault import placeholders_in
from artelier.ports.tool import ToolContext
from artelier.tools.function import Tool, tool
from artelier.tools.worker.tables import UnknownEncoding, decode

T = TypeVar("T")
Parts = tuple[str, ...]

PATH_CHARS_MAX = 1_024
DEPTH_MAX = 64
OUT_FOLDER = "artelier-out"
"""Where reports are written; no tool reads it, or a run would find the answers of earlier ones."""

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Opening a fifo for reading would wait for a writer; with O_NONBLOCK it returns and is then
# refused.
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@dataclass(frozen=True, slots=True, kw_only=True)
class FileState:
    """The state of a file when it was opened."""

    path: str
    """Relative to the workspace, with `/`."""
    size_bytes: int
    mtime_ns: int


class WorkspaceFolder:
    """A folder on this machine that tools may use, and nothing outside of it."""

    def __init__(self, root: str | Path, *, is_confined: bool = False) -> None:
        """Open nothing yet. With `is_confined`, files with hard links are refused.

        Errors: `InvalidRequest` if the root is no folder.
        """
        self._root = os.path.realpath(root)
        self._is_confined = is_confined
        if not os.path.isdir(self._root):
            raise InvalidRequest("not a workspace", expected="a folder that exists", got=str(root))

    @property
    def identity(self) -> str:
        """The real place of the folder and its rule; for this process only, never for a model."""
        return f"{self._root}\0confined" if self._is_confined else self._root

    def clean(self, path: str) -> Parts:
        """The components of a path inside the workspace, without looking at the disk.

        Errors: `ToolFailed` for absolute paths, paths that leave it, hidden and impossible names.
        """
        if not path or len(path) > PATH_CHARS_MAX or "\0" in path or "\\" in path:
            raise path_error(path, "is not a path", hint="Use a path such as `data/sales.csv`.")
        if path.startswith(("/", "~")):
            raise path_error(path, "is not relative", hint="Start at the workspace, not at `/`.")
        normal = posixpath.normpath(path)
        parts: Parts = () if normal == "." else tuple(normal.split("/"))
        if ".." in parts:
            raise path_error(path, "is outside the workspace")
        self._check_visible(path, parts)
        return parts

    @contextmanager
    def file(self, path: str) -> Generator[tuple[int, FileState]]:
        """A regular file, open for reading: its descriptor and its state.

        Errors: `ToolFailed` if it is missing, outside, hidden, a folder or no regular file.
        """
        parts = self._resolve(path)
        descriptor = self._io(path, lambda: self._open(parts, _FILE))
        try:
            info = os.fstat(descriptor)
            if stat.S_ISDIR(info.st_mode):
                raise path_error(path, "is a folder", hint="List it with list_dir.")
            if not stat.S_ISREG(info.st_mode):
                raise path_error(path, "is no regular file")
            if self._is_confined and info.st_nlink > 1:
                raise path_error(path, "has another name, which may be outside the workspace")
            state = FileState(
                path="/".join(self.clean(path)), size_bytes=info.st_size, mtime_ns=info.st_mtime_ns
            )
            yield descriptor, state
        finally:
            os.close(descriptor)

    @contextmanager
    def directory(self, path: str) -> Generator[int]:
        """A folder, open for listing. Errors: as `file`."""
        parts = self._resolve(path)
        descriptor = self._io(path, lambda: self._open(parts, _DIRECTORY))
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    @contextmanager
    def parent(self, path: str) -> Generator[tuple[int, str]]:
        """The folder in which a file shall be written, made if need be, and the file's name."""
        parts = self.clean(path)
        if not parts:
            raise path_error(path, "is a folder", hint="Name a file.")
        above = self._resolve("/".join(parts[:-1]) or ".")
        descriptor = self._io(path, lambda: self._open(above, _DIRECTORY, make=True))
        try:
            yield descriptor, parts[-1]
        finally:
            os.close(descriptor)

    def inside(self, path: str) -> bool:
        """Return True if a path, links followed, ends at something inside that may be seen."""
        try:
            self._resolve(path)
        except ToolFailed:
            return False
        return True

    def _resolve(self, path: str) -> Parts:
        """The real components, links followed. Errors: `ToolFailed` if they lead outside."""
        real = os.path.realpath(os.path.join(self._root, *self.clean(path)))
        if real == self._root:
            return ()
        beneath = os.path.join(self._root, "")
        if not real.startswith(beneath):
            raise path_error(path, "leads outside the workspace")
        parts = tuple(real.removeprefix(beneath).split(os.sep))
        self._check_visible(path, parts)
        return parts

    def _check_visible(self, path: str, parts: Parts) -> None:
        if len(parts) > DEPTH_MAX:
            raise path_error(path, f"is deeper than {DEPTH_MAX} folders")
        for part in parts:
            if part.startswith(".") or part == OUT_FOLDER:
                hint = "Names with a leading dot and artelier-out are off limits."
                raise path_error(path, "is hidden", hint=hint)

    def _open(self, parts: Parts, flags: int, *, make: bool = False) -> int:
        """Open beneath the root, one component at a time; no component may be a link by now."""
        descriptor = os.open(self._root, _DIRECTORY)
        for index, part in enumerate(parts):
            last = index == len(parts) - 1
            try:
                if make:
                    _make_folder(part, descriptor)
                below = os.open(part, flags if last else _DIRECTORY, dir_fd=descriptor)
            finally:
                os.close(descriptor)
            descriptor = below
        return descriptor

    def _io(self, path: str, action: Callable[[], T]) -> T:
        try:
            return action()
        except OSError as error:
            raise system_error(path, error) from None


def path_error(path: str, problem: str, *, hint: str | None = None) -> ToolFailed:
    return ToolFailed(f"`{_printable_path(path)}` {problem}", hint=hint)


def system_error(path: str, error: OSError) -> ToolFailed:
    """Return what the system said about a path, without the path of the host that it also says."""
    if isinstance(error, FileNotFoundError):
        return path_error(path, "does not exist", hint="See what is there with list_dir.")
    if isinstance(error, NotADirectoryError):
        return path_error(path, "is not a folder, or goes through a file or a link")
    return path_error(path, f"can't be used: {os.strerror(error.errno or 0)}")


def _printable_path(path: str) -> str:
    printable = "".join(char if char.isprintable() else "?" for char in path[:200])
    return printable + ("..." if len(path) > 200 else "")


def _make_folder(name: str, descriptor: int) -> None:
    try:
        os.mkdir(name, dir_fd=descriptor)
    except FileExistsError:
        return


# --------------------------------------------------------------------------- pii guard
# Personal data that a tool is not given: no file has its placeholder, so a search would find nothing.


def refuse_placeholders(text: str) -> None:
    """Let no condition on a placeholder pass: the 0 that it finds would be taken for a figure.

    Errors: `ToolFailed` that says how to ask instead.
    """
    found = dict.fromkeys(placeholders_in(text))
    if found:
        raise ToolFailed(
            f"{', '.join(found)[:300]} stands for personal data whose value this tool is not given; files"
            " hold the value, so nothing would be found",
            hint="Ask without that condition, for each value of the column or for the text around it: in what"
            " comes back the same value is the same placeholder.",
        )


# --------------------------------------------------------------------------- the tools


READ_BYTES_MAX = 32 * 1024 * 1024
"""A larger file is searched or queried, not read."""

_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def read_noted_text(
    folder: WorkspaceFolder, path: str, *, bytes_max: int = READ_BYTES_MAX
) -> tuple[str, FileState, str]:
    """Read a whole text file, with a note on the encoding where it could only be guessed.

    A byte order mark is left out. Errors: `ToolFailed` if the file can't be opened, is too large, or is no
    text of a known encoding.
    """
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


def write_text(folder: WorkspaceFolder, path: str, text: str, *, token: str) -> FileReceipt:
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


class FileReceipt(msgspec.Struct, frozen=True, kw_only=True):
    """A file that was written."""

    path: str
    size_bytes: int
    sha256: str
    """Of its content, in hex."""


def _receipt(path: str, raw: bytes) -> FileReceipt:
    return FileReceipt(path=path, size_bytes=len(raw), sha256=hashlib.sha256(raw).hexdigest())


def settle_write(folder: WorkspaceFolder, path: str, text: str) -> FileReceipt:
    """The receipt of a write, if the file now holds that text. Errors: `ToolFailed` if it does not."""
    raw = text.encode()
    with folder.file(path) as (descriptor, _), os.fdopen(descriptor, "rb", closefd=False) as stream:
        if stream.read(len(raw) + 1) != raw:
            raise path_error(path, "was not written: it has other content")
    return _receipt("/".join(folder.clean(path)), raw)


def file_tools(folder: WorkspaceFolder, *, writable: bool) -> list[Tool[..., object]]:
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
        return msgspec.to_builtins(settle_write(folder, arguments["path"], arguments["text"]))

    @tool(side_effect=True, probe=probe, risk="medium", trust="trusted", timeout_s=60)
    def write_file(path: str, text: str, ctx: ToolContext) -> dict[str, Any]:
        """Write a text file of the workspace, replacing what was there. Folders are made as needed."""
        if path.endswith("/"):
            raise ToolFailed("a path that ends in `/` is a folder", hint="Name a file.")
        return msgspec.to_builtins(write_text(folder, path, text, token=ctx.idempotency_key))

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


def list_tool(folder: WorkspaceFolder) -> Tool[..., object]:
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
