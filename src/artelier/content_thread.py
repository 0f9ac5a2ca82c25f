"""Threads that compute with content of outsiders beside the event loop: parsing, decoding, checking.

Threads that compute take turns at the interpreter, and whenever the event loop comes back from waiting, it
waits for a turn. Beside one such thread that is one, beside six it is six. So a user has one, and there are
few: whatever one user sends, another thread is free for what somebody else does.
"""

from __future__ import annotations

import asyncio
import contextvars
import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import Executor, Future
from functools import cache, partial
from typing import Any, ParamSpec, TypeVar

from artelier.owner_threads import OwnerThreads, content_owner

P = ParamSpec("P")
ReturnT = TypeVar("ReturnT")


BESIDE_BYTES = 64 * 1024
"""Larger content is read beside the event loop (guess: half a millisecond for usual content)."""
THREADS = 3
"""Of which a user has one (guess: as many users as send much at the same moment)."""

LOOK_S = 50e-6
BUSY_S = 250e-6
"""Whoever gets the interpreter back later than that has waited for the event loop (guess)."""
REST_S = 0.002
"""As long as two pieces take."""


class _Sized(Executor):
    """The threads, for content of this size. An event loop of tests may do without them."""

    def __init__(self, size_bytes: int) -> None:
        self._size_bytes = size_bytes

    def submit(self, fn: Callable[P, ReturnT], /, *args: P.args, **kwargs: P.kwargs) -> Future[ReturnT]:
        call = partial(fn, *args, **kwargs)
        return _threads().put(call, owner=content_owner.get(), size=self._size_bytes)


@cache
def _threads() -> OwnerThreads:
    return OwnerThreads(THREADS, name="artelier-content", owner_max=1, initializer=_begin)


class _Here(threading.local):
    is_content_thread = False


_here = _Here()


def _begin() -> None:
    _here.is_content_thread = True


def give_way() -> None:
    """Leave the interpreter to the event loop for a moment, if that is at work.

    For work in pieces, between two of them; on an event loop itself it does nothing. A thread that computes
    all the time takes the interpreter at every row that the loop reads and every packet that it sends, and
    keeps it for a turn: beside one document of 30 MB, a request took half a second (measured).
    """
    if not _here.is_content_thread:
        return
    began_s = time.perf_counter()
    time.sleep(LOOK_S)
    if time.perf_counter() - began_s > LOOK_S + BUSY_S:
        time.sleep(REST_S)


os.register_at_fork(after_in_child=_threads.cache_clear)  # a fork has no thread but its own


async def run_in_content_thread(size_bytes: int, work: Callable[..., ReturnT], *args: Any) -> ReturnT:
    """Return what `work` returns, which computes with content of this size.

    Users take turns, each by the size of what was read. For work that waits for nothing. A caller that is
    cancelled takes back what has not begun. Errors: those of `work`.
    """
    call = partial(contextvars.copy_context().run, work, *args)
    return await asyncio.get_running_loop().run_in_executor(_Sized(size_bytes), call)


async def read_beside_loop(size_bytes: int, work: Callable[..., ReturnT], *args: Any) -> ReturnT:
    """Return what `work` returns, which reads content of this size; what is small is read at once.

    Errors: those of `work`.
    """
    return work(*args) if size_bytes <= BESIDE_BYTES else await run_in_content_thread(size_bytes, work, *args)
