"""A small built-in loop for `test_step.py`, and a process that drives it until it kills itself.

    python -m tests.kernel.stepper FOLDER POINT

It goes on with run `r` and dies of `kill -9` the first time that it comes to POINT.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

from artelier import Run, RunSuspended
from artelier.app import TenantKernel
from artelier.errors import ArtelierError
from tests.kernel.stage import ask, open_kernel

CYCLES = 3


async def looping(runs: TenantKernel, run_id: str = "r", **opening: Any) -> str:
    """Drive a loop of three cycles, two model steps each; how it went."""
    opened = runs.run(run_id, loop="sample", from_snapshot=True, **opening)
    try:
        async with opened as run:
            await _cycles(run, (opened.snapshot or {}).get("cycle", 0))
    except RunSuspended as suspended:
        return suspended.status
    except ArtelierError as error:
        return error.code
    return (await runs.show(run_id))["status"]


async def _cycles(run: Run, cycle: int) -> None:
    while cycle < CYCLES:
        cycle += 1
        for part in ("a", "b"):
            await ask(run, f"{run.id} {cycle}{part}", key=f"c{cycle}/{part}")
        run.complete_cycle(cycle, {"cycle": cycle})
    run.finish(cycle)


async def cycles_of(runs: TenantKernel, run_id: str = "r") -> int:
    """How many cycles of a run the log has."""
    rows = await runs.services.store.query(
        "SELECT count(*) FROM events e JOIN runs r ON r.id = e.stream"
        " WHERE r.run = ? AND e.kind = 'cycle.completed'",
        (run_id,),
    )
    return rows[0][0]


async def main(folder: Path, deadly: str) -> None:
    def die(point: str) -> None:
        if point == deadly:
            os.kill(os.getpid(), signal.SIGKILL)

    with open_kernel(folder, fault=die) as kernel:
        await looping(kernel.for_tenant(), on_wait="suspend")


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
