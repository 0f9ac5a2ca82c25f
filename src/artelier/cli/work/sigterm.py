"""SIGTERM as commands take it: as Ctrl-C, or as the end of what they begin anew.

It imports nothing heavy: a command takes signals before it loads the kernel.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable


def end_on_sigterm() -> asyncio.Event:
    """Make SIGTERM end the current task as Ctrl-C does: the run at hand stays resumable.

    The event that it gives is set by the signal.
    """
    task, came = asyncio.current_task(), asyncio.Event()
    assert task is not None

    def end() -> None:
        came.set()
        task.cancel()

    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, end)
    return came


def drain_on_sigterm(drain: Callable[[], None]) -> None:
    """Call `drain` at the first SIGTERM; at the next one, end the current task as Ctrl-C does."""
    task, loop = asyncio.current_task(), asyncio.get_running_loop()
    assert task is not None

    def first() -> None:
        loop.add_signal_handler(signal.SIGTERM, task.cancel)
        drain()

    loop.add_signal_handler(signal.SIGTERM, first)
