"""The threads in which plain (not async) tools run, so that they do not block the event loop.

The threads are daemons: the loop's own executor is joined when a program ends, and one hung tool
would then keep the whole process alive after its run was stopped.
"""

from __future__ import annotations

import asyncio
import contextvars
import queue
import threading
from collections.abc import Callable
from typing import Any

THREADS_MAX = 64
"""Plain tools that run at once; more wait for a free thread. A guess: they mostly wait for I/O."""

Job = Callable[[], None]


class DaemonThreads:
    """A bounded set of reused daemon threads."""

    def __init__(self, *, size_max: int = THREADS_MAX) -> None:
        self._jobs: queue.SimpleQueue[Job] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._size_max = size_max
        self._size = 0
        self._pending = 0
        """Jobs that wait or run; a thread is added while there are more of them than threads."""

    async def run(self, function: Callable[[], Any], *, ended: Callable[[], None] = lambda: None) -> Any:
        """The function's result, or its exception, computed in a thread with this task's context.

        A cancelled caller stops waiting; the thread goes on to the end and its result is dropped. What has
        not begun by then never does. `ended` is called when the function acts no more, by the thread.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        context = contextvars.copy_context()
        is_given_up = threading.Event()

        def job() -> None:
            if is_given_up.is_set():
                ended()
                return
            try:
                result, error = context.run(function), None
            # A thread is a boundary: whatever leaves the function belongs to the waiting caller.
            except BaseException as raised:
                result, error = None, raised
            ended()
            try:
                loop.call_soon_threadsafe(_deliver, future, result, error)
            except RuntimeError:
                return  # The loop has closed; nobody waits any more.

        self._submit(job)
        try:
            return await future
        except asyncio.CancelledError:
            is_given_up.set()
            raise

    def _submit(self, job: Job) -> None:
        with self._lock:
            self._pending += 1
            grow = self._size < min(self._pending, self._size_max)
            if grow:
                self._size += 1
                name = f"artelier-tool-{self._size}"
                threading.Thread(target=self._work, name=name, daemon=True).start()
        self._jobs.put(job)

    def _work(self) -> None:
        while True:
            job = self._jobs.get()
            try:
                job()
            finally:
                with self._lock:
                    self._pending -= 1
            del job


def _deliver(future: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
    if future.cancelled():
        return
    if error is None:
        future.set_result(result)
    elif isinstance(error, StopIteration | SystemExit | KeyboardInterrupt):
        # A future can't hold StopIteration, and the other two would end the program, not the tool.
        future.set_exception(RuntimeError(f"the tool raised {type(error).__name__}"))
    else:
        future.set_exception(error)
