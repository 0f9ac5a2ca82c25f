"""A finished hand-written run is opened again: every step gives what was recorded, and nothing is called."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

from artelier import ModelReply, ModelRequest
from artelier.errors import ArtelierError
from artelier_lab.bench.kernel.cycle import CallingModel, begin, cycles, open_kernel

STEPS_PER_CYCLE = 2


class _SilentModel(CallingModel):
    async def complete(self, request: ModelRequest, /) -> ModelReply:
        raise ArtelierError("a replay called the model")


def bench_replay(folder: Path, *, steps: int, progress: Callable[[str], None]) -> dict[str, float]:
    progress(f"kernel: replay of {steps} steps")
    return asyncio.run(_replay(folder / "replay.db", steps // STEPS_PER_CYCLE))


async def _replay(path: Path, count: int) -> dict[str, float]:
    kernel = open_kernel(path, CallingModel())
    async with kernel.run("replay") as run:
        await cycles(run, begin(run), count)
        run.finish("done")
    kernel.close()
    kernel = open_kernel(path, _SilentModel())
    commits = kernel.store.commits
    start_s = time.perf_counter()
    async with kernel.run("replay") as run:
        await cycles(run, begin(run), count)
    wall_s = time.perf_counter() - start_s
    written = kernel.store.commits - commits
    kernel.close()
    assert written == 0, "a replay of a finished run wrote something"
    return {"replay_steps_per_s": count * STEPS_PER_CYCLE / wall_s}
