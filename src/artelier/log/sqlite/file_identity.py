"""The check that the file that a store has open is still the one that its path names.

SQLite does not check this in WAL mode: it continues in the unlinked file, and whatever it commits there is
lost when the process that holds it ends.
"""

from __future__ import annotations

import os
from pathlib import Path

from artelier.errors import StoreUnavailable


class FileIdentity:
    """The file that `path` names now; `check` tells when it names another.

    Errors: `StoreUnavailable` if there is none.
    Cost: one `stat` per check, about 2 us.
    """

    def __init__(self, path: Path) -> None:
        self._path = os.fspath(path.absolute())
        """Absolute: the process may change its folder."""
        self._opened = self._read()

    def check(self) -> None:
        """Errors: `StoreUnavailable` if the file is gone, or its name belongs to another."""
        if self._read() != self._opened:
            raise self._lost_error("another file")

    def _read(self) -> tuple[int, int]:
        try:
            found = os.stat(self._path)
        except FileNotFoundError:
            raise self._lost_error("no file") from None
        except OSError as error:
            raise self._lost_error(error.strerror or "a file that cannot be looked at") from None
        return found.st_dev, found.st_ino

    def _lost_error(self, got: str) -> StoreUnavailable:
        return StoreUnavailable(
            "the database file was removed or replaced while it was open; nothing was written",
            expected=f"the file that was opened as {self._path}",
            got=got,
            hint="Put the file back if it was moved, or restore it, and open the store again.",
        )
