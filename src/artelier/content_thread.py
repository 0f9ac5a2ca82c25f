"""The one thread that reads large content of outsiders beside the event loop: parsing, decoding, counting.

Threads that compute take turns at the interpreter, five milliseconds each, and whenever the event loop comes
back from waiting, it waits for a turn. Beside one such thread that is one, beside six it is six.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from typing import ParamSpec, TypeVar

ArgsT = ParamSpec("ArgsT")
ReturnT = TypeVar("ReturnT")


@cache
def _thread() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(1, thread_name_prefix="artelier-content")


async def run_in_content_thread(
    work: Callable[ArgsT, ReturnT], *args: ArgsT.args, **options: ArgsT.kwargs
) -> ReturnT:
    """Return what `work` returns; it is run after all that was given before, of whichever tenant.

    For work that is quick for its size and waits for nothing. A caller that is cancelled takes back
    what has not begun. Errors: those of `work`.
    """
    call = partial(contextvars.copy_context().run, work, *args, **options)
    return await asyncio.get_running_loop().run_in_executor(_thread(), call)
