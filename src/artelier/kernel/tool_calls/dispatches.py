"""Side effects that were dispatched: which of them may still act, as far as one machine can know.

A call that was cut off is not over because nobody waits for it any more: a thread goes on to its end, and
what an `async` function has left behind is seen by nobody. So a cut call counts as at work until its threads
have ended, or, where it has named none, until its process has.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import TypeVar

from artelier.kernel.events import ToolRequested, ToolRetried
from artelier.kernel.queries.steps import entries_into
from artelier.log import Store

T = TypeVar("T")

ProcessId = tuple[int, ...]
"""Numbers that name a process in events, see `ToolRequested.process`; empty where nobody recorded it."""


def _unknown(process: ProcessId) -> bool:
    return False


class Dispatches:
    """The calls at work in this process, whichever kernel made them; and what is known of other processes."""

    def __init__(
        self,
        *,
        is_own: Callable[[ProcessId], bool] = _unknown,
        has_ended: Callable[[ProcessId], bool] = _unknown,
    ) -> None:
        self._is_own = is_own
        self._has_ended = has_ended
        self._parts: Counter[tuple[ProcessId, str]] = Counter()
        """Of calls that may still act: awaited calls, threads, and what was cut and cannot be seen."""
        self._lock = threading.Lock()

    def begin(self, process: ProcessId, key: str) -> Dispatch:
        """Return a call that is about to be entered. `key`: its idempotency key."""
        self.add((process, key), 1)
        return Dispatch(self, (process, key))

    def add(self, name: tuple[ProcessId, str], count: int) -> None:
        """Count parts of a call that act, from any thread."""
        with self._lock:
            self._parts[name] += count
            if not self._parts[name]:
                del self._parts[name]

    def has_ended(self, process: ProcessId) -> bool:
        """Return whether a process is known to have ended."""
        return bool(process) and not self._is_own(process) and self._has_ended(process)

    def is_over(self, process: ProcessId, key: str) -> bool:
        """Return whether it is known that nothing of a call acts any more."""
        if not process:
            return False
        if self._is_own(process):
            with self._lock:
                return (process, key) not in self._parts
        return self._has_ended(process)


async def entered_by(store: Store, stream: int, key: str) -> ProcessId:
    """Return the process that entered a tool step of a run last. `stream`: the id of the run's stream."""
    for row in await entries_into(store, stream, key):
        entered = row.decode()
        if isinstance(entered, ToolRequested | ToolRetried) and entered.key == key:
            return entered.process
    return ()


class Dispatch:
    """One call at work."""

    def __init__(self, calls: Dispatches, name: tuple[ProcessId, str]) -> None:
        self._calls = calls
        self._name = name
        self._names_threads = False
        self.left_by: asyncio.CancelledError | None = None
        """The cancellation that cut it off in a question to a person."""

    async def follow(self, work: Awaitable[T]) -> T:
        """Return what the call returns, and note how it ended. Errors: those of the call."""
        try:
            value = await work
        except (asyncio.CancelledError, GeneratorExit):
            if self._names_threads:  # else what it has left behind is over only with the process
                self._calls.add(self._name, -1)
            raise
        except BaseException:
            self._calls.add(self._name, -1)
            raise
        self._calls.add(self._name, -1)
        return value

    def in_thread(self) -> Callable[[], None]:
        """Count a thread of the call; return what says that it has ended, once."""
        self._names_threads = True
        self._calls.add(self._name, 1)
        ended = threading.Lock()

        def end() -> None:
            if ended.acquire(blocking=False):
                self._calls.add(self._name, -1)

        return end
