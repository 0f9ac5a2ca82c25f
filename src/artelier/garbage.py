"""Memory of a process that serves many: what is there for good, and what goes back to the system.

Looks for garbage leave out the objects that are there for good, since each look stops everybody.
"""

from __future__ import annotations

import ctypes
import gc
import sys
from contextlib import suppress
from functools import cache
from weakref import WeakSet

USUAL_EACH, WHOLE_EACH = gc.get_threshold()[2], 50
"""One look at all is made for so many at what is young, usually and while objects are left out. It takes
100 ms where 24 worlds of 900 agents are in memory (measured), and there came two a second.
"""

_HOLDERS: WeakSet[object] = WeakSet()
"""Those for whom objects are left out at this time."""


LARGE_BYTES = 1024 * 1024
"""From this size on, memory is the system's own again as soon as it is free."""
_M_MMAP_THRESHOLD = -3  # of malloc.h


@cache
def give_large_back() -> None:
    """Have the C library give large pieces of memory back at once; where it is not glibc, do nothing.

    By itself it keeps ever larger pieces for later: after bodies of 30 MB a server with 20 MB of objects held
    500 MB for good.
    """
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).mallopt(ctypes.c_int(_M_MMAP_THRESHOLD), ctypes.c_int(LARGE_BYTES))


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
        gc.set_threshold(*gc.get_threshold()[:2], WHOLE_EACH)


def look_again(who: object) -> None:
    """Look through everything again, unless somebody else or the process itself leaves it out."""
    _HOLDERS.discard(who)
    if not _HOLDERS and not _is_left_out_by_others():
        gc.unfreeze()
        gc.set_threshold(*gc.get_threshold()[:2], USUAL_EACH)
