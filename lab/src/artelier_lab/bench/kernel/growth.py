"""One long run, measured at its beginning and at its end, beside the floor of the same disk.

Machines slow down and speed up while one measures. So the blocks of the long run alternate with blocks of
the floor and with blocks of young runs, and what is compared is neighbours.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from artelier.kernel import Conversation, Run
from artelier_lab.bench.figures import median
from artelier_lab.bench.floor import Floor
from artelier_lab.bench.kernel.cycle import CallingModel, Cost, Meter, begin, cycles, open_kernel

YOUNG = (50, 150)
"""Cycles between which a young run is measured: around cycle 100."""

BYTES_YOUNG = (40, 440)
BYTES_CYCLES = 2_000
"""Bytes are counted in pages, and pages of an index fill and split in turns: long stretches are compared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """The sizes of the measurement."""

    cycles: int = 10_000
    """Where the long run is old."""
    block: int = 200
    """Cycles in a block of the long run and of the floor."""
    floors: int = 9
    """Blocks compared with the floor, spread over the long run."""
    pairs: int = 12
    """Old blocks compared with young runs."""


def store_bytes(path: Path) -> int:
    """Size of a database with its log written back."""
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        pages, size = (db.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "page_size"))
        free = db.execute("PRAGMA freelist_count").fetchone()[0]
        return (pages - free) * size


def bench_growth(folder: Path, sizes: Sizes, progress: Callable[[str], None]) -> dict[str, float]:
    """Figures of one run: wall, commits and bytes per cycle, the floor, and the growth."""
    return asyncio.run(_Growth(folder, sizes, progress).figures())


class _Growth:
    def __init__(self, folder: Path, sizes: Sizes, progress: Callable[[str], None]) -> None:
        self._folder = folder
        self._sizes = sizes
        self._progress = progress
        self._path = folder / "long.db"
        self._done = 0

    async def figures(self) -> dict[str, float]:
        sizes = self._sizes
        young_bytes = await self._young_bytes()
        floor = Floor(self._folder / "floor.db")
        floor.warm_up(bytes_per_cycle=young_bytes)
        kernel = open_kernel(self._path, CallingModel())
        try:
            async with kernel.run("long") as run:
                conversation, meter = begin(run), Meter(kernel)
                await self._drive(run, conversation, sizes.block)
                blocks = await self._beside_the_floor(run, conversation, meter, floor, young_bytes)
                before, start = store_bytes(self._path), self._done
                pairs = await self._old_and_young(run, conversation, meter)
                old_bytes = (store_bytes(self._path) - before) / (self._done - start)
        finally:
            floor.close()
            kernel.close()
        return _summary(blocks, pairs, young_bytes, old_bytes)

    async def _drive(self, run: Run, conversation: Conversation, count: int) -> None:
        await cycles(run, conversation, count)
        self._done += count

    async def _block(self, run: Run, conversation: Conversation, meter: Meter, count: int) -> Cost:
        meter.start()
        await self._drive(run, conversation, count)
        return meter.stop(count)

    async def _beside_the_floor(
        self, run: Run, conversation: Conversation, meter: Meter, floor: Floor, bytes_per_cycle: float
    ) -> list[tuple[Cost, Cost]]:
        """Blocks of the run and of the floor in turns, up to where the run is old."""
        sizes = self._sizes
        until = sizes.cycles - max(BYTES_CYCLES, sizes.pairs * _young_cycles()) // 2
        found: list[tuple[Cost, Cost]] = []
        for index in range(sizes.floors):
            between = (until - self._done) // (sizes.floors - index) - sizes.block
            await self._drive(run, conversation, max(0, between))
            self._progress(f"kernel: cycle {self._done} of {sizes.cycles}")
            cost = await self._block(run, conversation, meter, sizes.block)
            found.append((cost, floor.cycles(sizes.block, bytes_per_cycle=bytes_per_cycle)))
        return found

    async def _old_and_young(
        self, run: Run, conversation: Conversation, meter: Meter
    ) -> list[tuple[Cost, Cost]]:
        """Blocks of the old run and of fresh ones in turns, around the size where the run is old."""
        start, found = self._done, list[tuple[Cost, Cost]]()
        for index in range(self._sizes.pairs):
            self._progress(f"kernel: old and young run, block {index + 1} of {self._sizes.pairs}")
            old = await self._block(run, conversation, meter, _young_cycles())
            found.append((old, await self._young(index)))
        left = min(BYTES_CYCLES, self._sizes.cycles) - (self._done - start)
        await self._drive(run, conversation, max(0, left))
        return found

    async def _young(self, index: int) -> Cost:
        path = self._folder / f"young-{index}.db"
        kernel = open_kernel(path, CallingModel())
        try:
            async with kernel.run("young") as run:
                conversation, meter = begin(run), Meter(kernel)
                await cycles(run, conversation, YOUNG[0])
                meter.start()
                await cycles(run, conversation, _young_cycles())
                return meter.stop(_young_cycles())
        finally:
            kernel.close()

    async def _young_bytes(self) -> float:
        """Bytes per cycle around cycle 100."""
        path = self._folder / "young.db"
        kernel = open_kernel(path, CallingModel())
        try:
            async with kernel.run("young") as run:
                conversation = begin(run)
                await cycles(run, conversation, BYTES_YOUNG[0])
                before = store_bytes(path)
                await cycles(run, conversation, BYTES_YOUNG[1] - BYTES_YOUNG[0])
                after = store_bytes(path)
        finally:
            kernel.close()
        return (after - before) / (BYTES_YOUNG[1] - BYTES_YOUNG[0])


def _young_cycles() -> int:
    return YOUNG[1] - YOUNG[0]


def _summary(
    blocks: list[tuple[Cost, Cost]], pairs: list[tuple[Cost, Cost]], young_bytes: float, old_bytes: float
) -> dict[str, float]:
    costs = [cost for cost, _ in blocks]
    floors = [cost for _, cost in blocks]
    return {
        "wall_ms_per_cycle": median([cost.wall_ms for cost in costs]),
        "commits_per_cycle": median([cost.commits for cost in costs]),
        "bytes_per_cycle": old_bytes,
        "floor_cpu_ms": median([cost.cpu_ms for cost in floors]),
        "floor_wall_ms": median([cost.wall_ms for cost in floors]),
        # Of neighbours, so that a machine that slows down slows both.
        "wall_over_floor": median([cost.wall_ms / bare.wall_ms for cost, bare in blocks]),
        "growth_cpu_10000_over_100": median([old.cpu_ms / young.cpu_ms for old, young in pairs]),
        "growth_bytes_10000_over_100": old_bytes / young_bytes,
    }
