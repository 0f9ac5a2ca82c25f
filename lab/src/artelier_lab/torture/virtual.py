"""Virtual time: an event loop that never waits, but moves its clock to the next thing that will happen.

Every timer of the process (sleeps, timeouts, backoff, leases) goes through the loop, so a day of a run
takes milliseconds, and a run that waits for nothing at all is found at once.
"""

from __future__ import annotations

import asyncio
import itertools
import selectors
import time
from collections.abc import Callable
from typing import Any, TypeVar, TypeVarTuple

from artelier.errors import ArtelierError

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

CPU_S_MAX = 120.0
"""Of the thread of one simulation or its checks, a hundred times what they take: whoever waits for ever is
found, and other programs of the machine do not count."""

START_US = 1_700_000_000_000_000
"""Where virtual time begins: 2023-11-14, so that stored times look like times."""


class Stuck(ArtelierError):
    """Nothing is ready, and nothing ever will be: everybody waits for something that nobody does."""

    code = "stuck"


class _Selector(selectors.DefaultSelector):
    """Polls; instead of waiting it moves the loop's clock."""

    loop: VirtualLoop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        # Alone in it is the loop's own pipe, by which other threads wake one that waits: this one never does.
        ready = super().select(0) if len(self.get_map()) > 1 else []
        if ready or (timeout is not None and timeout <= 0):
            return ready
        if timeout is None:
            raise Stuck("everybody waits for something that nobody does")
        if time.thread_time() > self.loop.cpu_end_s:
            raise Stuck(f"{CPU_S_MAX:.0f} seconds of CPU were not enough")
        self.loop.now_s += timeout
        return ready


_numbers = itertools.count()


class _Numbered:
    """Hashed by a number of its own: sets of tasks are in an order that does not depend on addresses."""

    _number: int

    def __hash__(self) -> int:
        try:
            return self._number
        except AttributeError:
            self._number = next(_numbers)
            return self._number


class VirtualFuture(_Numbered, asyncio.Future[Any]):
    """A future of a `VirtualLoop`."""


class VirtualTask(_Numbered, asyncio.Task[Any]):
    """A task of a `VirtualLoop`."""


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop in virtual time. One thread only: what asks for another is done at once, in no time."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.cpu_end_s = time.thread_time() + CPU_S_MAX
        selector = _Selector()
        selector.loop = self
        super().__init__(selector)

    def create_future(self) -> asyncio.Future[Any]:
        return VirtualFuture(loop=self)

    def time(self) -> float:
        return self.now_s

    def run_in_executor(self, executor: object, func: Callable[[*Ts], T], *args: *Ts) -> asyncio.Future[T]:
        done: asyncio.Future[T] = self.create_future()
        try:
            done.set_result(func(*args))
        except Exception as error:
            done.set_exception(error)
        return done

    def shut(self) -> None:
        """End what is left and close."""
        self.cpu_end_s = float("inf")
        left = asyncio.all_tasks(self)
        for task in left:
            task.cancel()
        if left:
            self.run_until_complete(asyncio.gather(*left, return_exceptions=True))
        self.close()


class VirtualClock:
    """A `Clock` of the running loop's time."""

    is_virtual = True

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop

    def now_us(self) -> int:
        return START_US + round(self._loop.now_s * 1_000_000)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
