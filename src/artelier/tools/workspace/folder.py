"""The workspace folder: every path that a model names is opened beneath it, or refused.

A path is cleaned as text, resolved, checked to lie inside, and then opened component by component
without following links, so that nothing swapped in between leads outside. Errors name the path as
it was given, never where the folder lies on the host.
"""

from __future__ import annotations

import os
import posixpath
import stat
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from artelier.errors import InvalidRequest, ToolFailed
from artelier.pii.vault import placeholders_in

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
