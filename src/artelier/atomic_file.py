"""A file that is replaced whole or not at all, whoever writes it."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from artelier.errors import StoreUnavailable


@contextmanager
def replace_file(
    path: Path, failure: str, *, hint: str | None = None, is_shared: bool = False, makes_folder: bool = False
) -> Generator[BinaryIO]:
    """Open a file that takes the place of `path` when it is complete and on disk.

    Only its owner may read it, and a folder that is made for it, unless it `is_shared`.
    Errors: `StoreUnavailable` in the words of `failure`. What stood at `path` stays after any error.
    """
    draft: str | None = None
    try:
        if makes_folder:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o777 if is_shared else 0o700)
        if "\0" in str(path):
            raise OSError(errno.EINVAL, "embedded null byte")
        handle, draft = tempfile.mkstemp(dir=path.parent, prefix=".artelier-")  # made 0600
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if is_shared:
            os.chmod(draft, 0o644)
        os.replace(draft, path)
    except OSError as error:
        name = str(path)
        got = (name if name.isprintable() else repr(name))[:200]
        raise StoreUnavailable(f"{failure}: {error.strerror or error}", got=got, hint=hint) from error
    finally:
        if draft is not None:
            Path(draft).unlink(missing_ok=True)
