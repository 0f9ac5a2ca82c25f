"""Time that a test moves by hand: nothing waits for real, and every instant is chosen."""

from __future__ import annotations

import asyncio
import heapq
import itertools
import threading

START_US = 1_600_000_000_000_000
"""Where a manual clock begins: 2020-09-13, so that stored times look like times."""

_Sleeper = tuple[int, int, "asyncio.Future[None]"]


class ManualClock:
    """A `Clock` that stands still until `advance`. Sleepers wake in the order of their time.

    Safe to read and move from any thread; each sleeper wakes in its own event loop.
    """

    is_virtual = True
    """Leases end by this clock, too."""

    def __init__(self, *, start_us: int = START_US) -> None:
        self._now_us = start_us
        self._sleepers: list[_Sleeper] = []
        self._order = itertools.count()
        self._lock = threading.Lock()

    def now_us(self) -> int:
        return self._now_us

    async def sleep(self, seconds: float) -> None:
        """Wait until the clock has been moved that far; at once for zero and less."""
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        waiting = asyncio.get_running_loop().create_future()
        with self._lock:
            until_us = self._now_us + round(seconds * 1_000_000)
            heapq.heappush(self._sleepers, (until_us, next(self._order), waiting))
        await waiting

    @property
    def next_us(self) -> int | None:
        """The time when the next sleeper wakes; None if nobody sleeps."""
        with self._lock:
            while self._sleepers and self._sleepers[0][2].done():
                heapq.heappop(self._sleepers)
            return self._sleepers[0][0] if self._sleepers else None

    def advance(self, seconds: float) -> None:
        """Move time forward and wake everybody whose time has come."""
        assert seconds >= 0, "time does not go back"
        self._move_to(self._now_us + round(seconds * 1_000_000))

    def advance_to_next(self) -> bool:
        """Move to the next sleeper's time; False if nobody sleeps."""
        next_us = self.next_us
        if next_us is not None:
            self._move_to(next_us)
        return next_us is not None

    def _move_to(self, until_us: int) -> None:
        with self._lock:
            self._now_us = max(self._now_us, until_us)
            due: list[asyncio.Future[None]] = []
            while self._sleepers and self._sleepers[0][0] <= self._now_us:
                due.append(heapq.heappop(self._sleepers)[2])
        for waiting in due:
            loop = waiting.get_loop()
            if not loop.is_closed():
                loop.call_soon_threadsafe(_wake, waiting)


def _wake(waiting: asyncio.Future[None]) -> None:
    if not waiting.done():  # its sleeper was cancelled meanwhile
        waiting.set_result(None)
