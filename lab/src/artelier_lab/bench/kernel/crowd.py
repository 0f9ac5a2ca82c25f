"""Many runs at once on one store: how many cycles a second, and how many fsyncs they share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from artelier import Kernel
from artelier_lab.bench.kernel.cycle import CallingModel, Meter, begin, cycles, open_kernel

CYCLES = 10
MODEL_S = 0.05

FSYNCS_PER_CHECKPOINT = 3
"""Of the log before, of the database after, and of the new log's header (SQLite's `walCheckpoint`)."""


async def _one(kernel: Kernel, name: str) -> None:
    async with kernel.run(name) as run:
        await cycles(run, begin(run), CYCLES)


def bench_crowd(folder: Path, *, runs: int, progress: Callable[[str], None]) -> dict[str, float]:
    """Figures of `runs` runs of ten cycles at once, with a model that takes 50 ms."""
    progress(f"kernel: {runs} runs of {CYCLES} cycles at once")
    return asyncio.run(_crowd(folder / "crowd.db", runs))


async def _crowd(path: Path, runs: int) -> dict[str, float]:
    kernel = open_kernel(path, CallingModel(delay_s=MODEL_S))
    checkpoints = _Checkpoints(path)
    try:
        await _one(kernel, "warm")
        undo = kernel.store.listen(checkpoints.look)
        checkpoints.count = 0
        meter = Meter(kernel)
        meter.start()
        await asyncio.gather(*(_one(kernel, f"run-{number}") for number in range(runs)))
        cost = meter.stop(runs * CYCLES)
        undo()
    finally:
        kernel.close()
    per_cycle = checkpoints.count / (runs * CYCLES)
    return {
        "cycles_per_s_1000_runs": 1000 / cost.wall_ms,
        "cpu_ms_1000_runs": cost.cpu_ms,
        "fsyncs_per_cycle": cost.commits + FSYNCS_PER_CHECKPOINT * per_cycle,
    }


class _Checkpoints:
    """Counts checkpoints: nothing else writes the database file itself in WAL mode."""

    def __init__(self, path: Path) -> None:
        self.count = 0
        self._path = path
        self._changed_ns = path.stat().st_mtime_ns

    def look(self, position: int, abroad: bool) -> None:
        changed_ns = self._path.stat().st_mtime_ns
        if changed_ns != self._changed_ns:
            self._changed_ns = changed_ns
            self.count += 1
