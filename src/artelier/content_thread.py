"""The one thread that reads large content of outsiders beside the event loop: parsing, decoding, counting.

Threads that compute take turns at the interpreter, five milliseconds each, and whenever the event loop comes
back from waiting, it waits for a turn. Beside one such thread that is one, beside six it is six.
"""

from __future__ import annotations

import asyncio
import contextvars
import itertools
import os
import threading
from collections.abc import Callable
from concurrent.futures import Future
from functools import cache, partial
from queue import PriorityQueue
from typing import Any, TypeVar

ReturnT = TypeVar("ReturnT")


class _ContentThread:
    """Does the work on small content first: what takes long keeps only what is as large waiting."""

    def __init__(self) -> None:
        self._numbers = itertools.count()
        self._waiting: PriorityQueue[tuple[int, int, Future[Any], Callable[[], Any]]] = PriorityQueue()
        threading.Thread(target=self._work, name="artelier-content", daemon=True).start()

    def submit(self, size_bytes: int, work: Callable[[], ReturnT]) -> Future[ReturnT]:
        done = Future[ReturnT]()
        self._waiting.put((size_bytes, next(self._numbers), done, work))
        return done

    def _work(self) -> None:
        while True:
            _, _, done, work = self._waiting.get()
            if done.set_running_or_notify_cancel():
                try:
                    done.set_result(work())
                except BaseException as error:
                    done.set_exception(error)
            del done, work  # the next may be long in coming


@cache
def _thread() -> _ContentThread:
    return _ContentThread()


os.register_at_fork(after_in_child=_thread.cache_clear)  # a fork has no thread but its own


async def run_in_content_thread(size_bytes: int, work: Callable[..., ReturnT], *args: Any) -> ReturnT:
    """Return what `work` returns, which reads content of this size; what is smaller comes first.

    For work that is quick for its size and waits for nothing. A caller that is cancelled takes back what has
    not begun. Errors: those of `work`.
    """
    call = partial(contextvars.copy_context().run, work, *args)
    return await asyncio.wrap_future(_thread().submit(size_bytes, call))
