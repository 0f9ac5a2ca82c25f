"""The clock of a world: its time is the tick."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class TickClock:
    """Tells the tick that passed last, which is what events between ticks are dated with."""

    def __init__(self, tick: Callable[[], int]) -> None:
        self._tick = tick

    @classmethod
    def at(cls, tick: int) -> TickClock:
        return cls(lambda: tick)

    def now_us(self) -> int:
        """The tick."""
        return self._tick()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
