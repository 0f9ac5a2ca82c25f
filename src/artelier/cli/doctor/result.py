"""The finding of one check by `artelier doctor`."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

OK, NOTE, WRONG = "ok", "note", "wrong"


class Finding(NamedTuple):
    """The finding of one check."""

    what: str
    status: str
    """`ok`; `note`: something works not here; `wrong`: Artelier does not work."""
    said: str


def existing_parent(path: Path) -> Path:
    """The nearest folder above a path that is there."""
    return next(parent for parent in path.absolute().parents if parent.exists())
