"""Ctrl-C in a conversation: the first ends the reply that is being written, the second the conversation."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager


class Interrupts:
    """`with interrupts.during(cancel)`: the first Ctrl-C within calls `cancel`. All others end the task."""

    def __init__(self) -> None:
        self._cancel: Callable[[], Awaitable[None]] | None = None
        self._at_work: asyncio.Task[None] | None = None

    def install(self) -> None:
        """Install the handler for the current task, until the event loop ends."""
        task, loop = asyncio.current_task(), asyncio.get_running_loop()
        assert task is not None

        def came() -> None:
            cancel, self._cancel = self._cancel, None
            if cancel is None:
                task.cancel()
            else:
                self._at_work = asyncio.ensure_future(cancel())
                # If nobody waits for it any more, its error is nobody's.
                self._at_work.add_done_callback(lambda done: done.cancelled() or done.exception())

        loop.add_signal_handler(signal.SIGINT, came)
        loop.add_signal_handler(signal.SIGTERM, task.cancel)

    @contextmanager
    def during(self, cancel: Callable[[], Awaitable[None]]) -> Generator[None]:
        self._cancel = cancel
        try:
            yield
        finally:
            self._cancel = None

    async def settle(self) -> None:
        """After a cancel that was begun: what it came to. Errors: those of `cancel`; `CancelledError` if the
        conversation was to end meanwhile, and what was awaited then ended well."""
        at_work, self._at_work = self._at_work, None
        if at_work is not None:
            await at_work
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise asyncio.CancelledError
