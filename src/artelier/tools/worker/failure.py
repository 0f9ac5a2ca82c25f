"""The failure that the helper process answers instead of a result."""

from __future__ import annotations

import re

_PLACE = re.compile(r"\(?(?:/dev/fd|/proc/self/fd)/\d+\)?|/nonexistent\S*")


class Failure(Exception):
    """A text for the model, with an optional hint."""

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint


def first_line(error: BaseException, *, chars_max: int = 200) -> str:
    """The first line of what a library says, without places of this process in it."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return _PLACE.sub("the file", lines[0] if lines else type(error).__name__)[:chars_max]
