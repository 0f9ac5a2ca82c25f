"""Objects that are there for good: looks for garbage leave them out, since each look stops everybody."""

from __future__ import annotations

import gc
from functools import cache
from weakref import WeakSet

_HOLDERS: WeakSet[object] = WeakSet()
"""Those for whom objects are left out at this time."""


@cache
def _is_left_out_by_others() -> bool:
    """Return whether this process leaves objects out by itself, as a session of tests does.

    Counting them walks through all: 0.1 s for the millions of a session.
    """
    return gc.get_freeze_count() > 0


def leave_out(who: object) -> None:
    """Leave out of looks for garbage what is there now, until all who asked say `look_again`.

    A process that does so by itself decides what: more each time would be memory that is never free again.
    """
    if not _is_left_out_by_others():  # seen before it is done here
        _HOLDERS.add(who)
        gc.freeze()


def look_again(who: object) -> None:
    """Look through everything again, unless somebody else or the process itself leaves it out."""
    _HOLDERS.discard(who)
    if not _HOLDERS and not _is_left_out_by_others():
        gc.unfreeze()
