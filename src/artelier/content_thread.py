"""The one thread that reads large content of outsiders beside the event loop: parsing, decoding, counting.

Threads that compute take turns at the interpreter, five milliseconds each, and whenever the event loop comes
back from waiting, it waits for a turn. Beside one such thread that is one, beside six it is six.
"""

from __future__ import annotations

import asyncio
import contextvars
import heapq
import itertools
import os
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextvars import ContextVar
from functools import cache, partial
from typing import Any, TypeVar

ReturnT = TypeVar("ReturnT")


BESIDE_BYTES = 64 * 1024
"""Larger content is read beside the event loop (guess: half a millisecond for usual content)."""

content_owner: ContextVar[str] = ContextVar("content_owner", default="")
"""The user whose request brought the content. Users take turns, each by the size of what was read."""


class _ContentThread:
    """Does the work of each owner in its order, and that of the owner first of whom least was read."""

    def __init__(self) -> None:
        self._numbers = itertools.count()
        self._changed = threading.Condition()
        self._waiting: list[tuple[int, int, Future[Any], Callable[[], Any]]] = []
        self._now_bytes = 0
        self._ends_bytes: dict[str, int] = {}
        """Of each owner: where the last of its work ends, if all took turns byte by byte."""
        threading.Thread(target=self._work, name="artelier-content", daemon=True).start()

    def submit(self, size_bytes: int, work: Callable[[], ReturnT]) -> Future[ReturnT]:
        done, owner = Future[ReturnT](), content_owner.get()
        with self._changed:
            end_bytes = max(self._now_bytes, self._ends_bytes.get(owner, 0)) + size_bytes
            self._ends_bytes[owner] = end_bytes
            heapq.heappush(self._waiting, (end_bytes, next(self._numbers), done, work))
            self._changed.notify()
        return done

    def _work(self) -> None:
        while True:
            done, work = self._next()
            if done.set_running_or_notify_cancel():
                try:
                    done.set_result(work())
                except BaseException as error:
                    done.set_exception(error)
            del done, work  # the next may be long in coming

    def _next(self) -> tuple[Future[Any], Callable[[], Any]]:
        with self._changed:
            while not self._waiting:
                self._ends_bytes.clear()  # nobody waits, so nobody is ahead of others
                self._changed.wait()
            self._now_bytes, _, done, work = heapq.heappop(self._waiting)
            return done, work


@cache
def _thread() -> _ContentThread:
    return _ContentThread()


os.register_at_fork(after_in_child=_thread.cache_clear)  # a fork has no thread but its own


async def run_in_content_thread(size_bytes: int, work: Callable[..., ReturnT], *args: Any) -> ReturnT:
    """Return what `work` returns, which reads content of this size; see `content_owner` for the order.

    For work that is quick for its size and waits for nothing. A caller that is cancelled takes back what has
    not begun. Errors: those of `work`.
    """
    call = partial(contextvars.copy_context().run, work, *args)
    return await asyncio.wrap_future(_thread().submit(size_bytes, call))


async def read_beside_loop(size_bytes: int, work: Callable[..., ReturnT], *args: Any) -> ReturnT:
    """Return what `work` returns, which reads content of this size; what is small is read at once.

    Errors: those of `work`.
    """
    return work(*args) if size_bytes <= BESIDE_BYTES else await run_in_content_thread(size_bytes, work, *args)
