"""The one thread that reads large content of outsiders beside the event loop: parsing, decoding, counting.

Threads that compute take turns at the interpreter, five milliseconds each, and whenever the event loop comes
back from waiting, it waits for a turn. Beside one such thread that is one, beside six it is six.
"""

from __future__ import annotations

import asyncio
import contextvars
import os
from collections.abc import Callable
from functools import cache, partial
from typing import Any, TypeVar

from artelier.owner_threads import OwnerThreads, content_owner

ReturnT = TypeVar("ReturnT")


BESIDE_BYTES = 64 * 1024
"""Larger content is read beside the event loop (guess: half a millisecond for usual content)."""


@cache
def _thread() -> OwnerThreads:
    return OwnerThreads(1, name="artelier-content")


os.register_at_fork(after_in_child=_thread.cache_clear)  # a fork has no thread but its own


async def run_in_content_thread(size_bytes: int, work: Callable[..., ReturnT], *args: Any) -> ReturnT:
    """Return what `work` returns, which reads content of this size.

    Users take turns, each by the size of what was read. For work that is quick for its size and waits for
    nothing. A caller that is cancelled takes back what has not begun. Errors: those of `work`.
    """
    call = partial(contextvars.copy_context().run, work, *args)
    return await asyncio.wrap_future(_thread().put(call, owner=content_owner.get(), size=size_bytes))


async def read_beside_loop(size_bytes: int, work: Callable[..., ReturnT], *args: Any) -> ReturnT:
    """Return what `work` returns, which reads content of this size; what is small is read at once.

    Errors: those of `work`.
    """
    return work(*args) if size_bytes <= BESIDE_BYTES else await run_in_content_thread(size_bytes, work, *args)
