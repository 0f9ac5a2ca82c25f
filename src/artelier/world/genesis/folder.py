"""A folder of agents or of a world: reads files inside it, bounded, and nothing that a link leads out to."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from artelier.errors import InvalidConfig, NotFound

FILE_BYTES_MAX = 256 * 1024
"""Of one file (guess: twenty times the largest agent that was ever seen)."""

FOLDERS_MAX = 2_000


class Folder:
    """The folder that is read."""

    def __init__(self, path: Path) -> None:
        """Errors: `NotFound` if there is no such folder."""
        if not path.is_dir():
            raise NotFound("there is no such folder", got=str(path))
        self.path = path
        self._root = path.resolve(strict=True)

    def agents(self) -> list[str]:
        """The names of the folders in it that may hold agents, sorted; `.` if it is one itself.

        What begins with `_` or `.` is none. Errors: `InvalidConfig` beyond `FOLDERS_MAX`.
        """
        if os.path.lexists(self.path / "agent.yaml"):
            return ["."]
        try:
            with os.scandir(self.path) as entries:
                names = sorted(
                    entry.name
                    for entry in entries
                    if not entry.name.startswith(("_", ".")) and (entry.is_dir() or entry.is_symlink())
                )
        except OSError as error:
            raise InvalidConfig(f"the folder cannot be read: {error.strerror}") from None
        if len(names) > FOLDERS_MAX:
            raise InvalidConfig("too many folders", expected=f"at most {FOLDERS_MAX}", got=len(names))
        return names

    def text(self, place: str) -> str | None:
        """A file below the folder as text; None if it is not there.

        Errors: `InvalidConfig` for one that is too large, no UTF-8, no plain file, or outside.
        """
        path = self.path / place
        if not os.path.lexists(path):
            return None
        try:
            real = path.resolve(strict=True)
            if not real.is_relative_to(self._root):
                raise InvalidConfig("the file is a link that leads out of the folder")
            if not stat.S_ISREG(real.stat().st_mode):
                raise InvalidConfig("this is no plain file")
            with real.open("rb") as file:
                data = file.read(FILE_BYTES_MAX + 1)
        except (OSError, RuntimeError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            raise InvalidConfig(f"the file cannot be read: {reason}") from None
        if len(data) > FILE_BYTES_MAX:
            raise InvalidConfig(f"the file is larger than {FILE_BYTES_MAX:,} bytes")
        try:
            text = data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            line = data.count(b"\n", 0, error.start) + 1
            raise InvalidConfig("the file is no UTF-8", line=line) from None
        return text.replace("\r\n", "\n")
