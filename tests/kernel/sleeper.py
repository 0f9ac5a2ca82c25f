"""A process for `test_sleepers.py`: it stops itself when its payment is asked for and not yet made.

    python -m tests.kernel.sleeper FOLDER

The clock is the system's plus the seconds in `late`, as if a process that was stopped had slept so long.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

from artelier import Kernel, Run, tool
from artelier.clock import SystemClock
from artelier.errors import ArtelierError


class LateClock(SystemClock):
    """The system's clock, moved on by a file, and the time by which leases end with it."""

    is_virtual = True

    def __init__(self, folder: Path) -> None:
        self._late = folder / "late"

    def now_us(self) -> int:
        late_s = int(self._late.read_text()) if self._late.exists() else 0
        return super().now_us() + late_s * 1_000_000


def open_paying(folder: Path, *, sleeps: bool = False) -> Kernel:
    """A kernel on the folder's store whose payments are lines of `paid`."""

    @tool(side_effect=True)
    async def pay(amount: int) -> str:
        """Pay."""
        with (folder / "paid").open("a") as book:
            book.write(f"{amount}\n")
        return "paid"

    def stop(point: str) -> None:
        if point == "tool.requested":
            os.kill(os.getpid(), signal.SIGSTOP)

    return Kernel.open(folder / "s.db", tools=[pay], clock=LateClock(folder), fault=stop if sleeps else None)


async def paying(run: Run) -> Any:
    return (await run.step_tool("pay", {"amount": 3})).value


async def main(folder: Path) -> str:
    with open_paying(folder, sleeps=True) as kernel:
        try:
            async with kernel.for_tenant().run("r") as run:
                run.finish(await paying(run))
        except ArtelierError as error:
            return error.code
    return "paid"


if __name__ == "__main__":
    sys.stdout.write(asyncio.run(main(Path(sys.argv[1]))))
