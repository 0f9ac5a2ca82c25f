"""The lag of the event loop: how late it does what is due, for every tenant alike.

A loop that something holds measures nothing meanwhile: the sample that was due is late by all of it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass

from artelier.ports.telemetry import Telemetry, WatchesLag

SAMPLE_S = 0.1
"""Between two samples: a timer ten times a second costs nothing that could be measured."""
SAMPLES_MAX = 600
"""A minute of samples."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lag:
    """The lag of the last minute, in milliseconds."""

    p99_ms: int
    max_ms: int
    worst_ms: int
    """The largest since the server began."""


class LoopLag:
    """A timer in the loop that it measures. `start` and `stop` are called in that loop."""

    def __init__(self, telemetry: Telemetry | None = None) -> None:
        self._watcher = telemetry if isinstance(telemetry, WatchesLag) else None
        self._samples: deque[float] = deque(maxlen=SAMPLES_MAX)
        self._worst_s = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(SAMPLE_S, self._sample, loop, loop.time() + SAMPLE_S)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _sample(self, loop: asyncio.AbstractEventLoop, due_s: float) -> None:
        late_s = max(0.0, loop.time() - due_s)
        self._samples.append(late_s)
        self._worst_s = max(self._worst_s, late_s)
        if self._watcher is not None:
            self._watcher.loop_lagged(late_s)
        self.start()

    def show(self) -> Lag:
        ordered = sorted(self._samples) or [0.0]
        p99_s = ordered[min(len(ordered) - 1, len(ordered) * 99 // 100)]
        return Lag(
            p99_ms=round(p99_s * 1000), max_ms=round(ordered[-1] * 1000), worst_ms=round(self._worst_s * 1000)
        )
