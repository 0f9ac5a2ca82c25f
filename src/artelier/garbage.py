"""Memory of a process that serves many: what is there for good, and what goes back to the system.

Looks for garbage leave out the objects that are there for good, since each look stops everybody.
"""

from __future__ import annotations

import ctypes
import gc
import sys
import time
from contextlib import suppress
from functools import cache
from weakref import WeakSet

USUAL_EACH, WHOLE_EACH = gc.get_threshold()[2], 50
"""One look at all is made for so many at what is young, usually and while objects are left out. It takes
100 ms where 24 worlds of 900 agents are in memory (measured), and there came two a second.
"""

LONG_S = 0.03
"""A whole look that took longer leaves out for the next ones what it has seen."""
WHOLE_LOOKS = 10
"""Of so many long looks one is at everything: what has become garbage after it was left out is found then."""

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


class _LongLooks:
    """Whole looks that stop everybody for long, as one at 1.8 million objects does for 0.4 s (measured)."""

    def __init__(self) -> None:
        self._began_s = 0.0
        self._count = 0

    def note(self, phase: str, info: dict[str, int]) -> None:
        """Measure a look, and leave out what a long one has seen."""
        if info["generation"] < 2:
            return
        now_s = time.perf_counter()
        if phase == "start":
            self._began_s = now_s
        elif now_s - self._began_s > LONG_S:
            self._count += 1
            if self._count % WHOLE_LOOKS:
                gc.freeze()
            else:
                gc.unfreeze()  # the next look is at everything


_long_looks = _LongLooks()


def leave_out(who: object) -> None:
    """Leave out of looks for garbage what is there now, until all who asked say `look_again`.

    A process that does so by itself decides what: more each time would be memory that is never free again.
    """
    if not _is_left_out_by_others():  # seen before it is done here
        _HOLDERS.add(who)
        gc.freeze()
        gc.set_threshold(*gc.get_threshold()[:2], WHOLE_EACH)
        if _long_looks.note not in gc.callbacks:
            gc.callbacks.append(_long_looks.note)


def look_again(who: object) -> None:
    """Look through everything again, unless somebody else or the process itself leaves it out."""
    _HOLDERS.discard(who)
    if not _HOLDERS and not _is_left_out_by_others():
        with suppress(ValueError):  # it was not there, or is gone already
            gc.callbacks.remove(_long_looks.note)
        gc.unfreeze()
        gc.set_threshold(*gc.get_threshold()[:2], USUAL_EACH)
