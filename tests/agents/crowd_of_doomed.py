"""A worker over runs of which one, `bad`, ends its process; the others wait long for their models.

`python -m tests.agents.crowd_of_doomed FOLDER NUMBER` is the process of that number: the first one starts the
runs, the later ones go on with what is there. Whoever is asked in process 4 gets an answer at once.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

from artelier import AutonomousAgent, Kernel, ModelRequest
from artelier.agents import Worker
from artelier.clock import SystemClock
from artelier.testing import ScriptedModel
from tests.agents.family import statuses

CALM = ("calm-1", "calm-2")
LAST = 4
LOOKS = 3
"""After so many looks of the worker `bad` waits for the others no longer."""


class CountingClock(SystemClock):
    """The system's clock, which tells how often the worker has rested between its looks."""

    def __init__(self) -> None:
        self.left = LOOKS
        self.is_over = asyncio.Event()

    async def sleep(self, seconds: float) -> None:
        self.left -= 1
        if self.left <= 0:
            self.is_over.set()
        await super().sleep(min(seconds, 0.01))


class Crowd:
    def __init__(self, number: int) -> None:
        self._number = number
        self.asked = {name: asyncio.Event() for name in ("bad", *CALM)}
        self.clock = CountingClock()

    async def answer(self, request: ModelRequest) -> str:
        name = request.messages[-1].text.split()[-1]
        self.asked[name].set()
        if name in CALM and self._number == LAST:
            return "done"
        if name in CALM:
            await asyncio.Event().wait()
        others = [asyncio.ensure_future(self.asked[name].wait()) for name in CALM]
        await asyncio.wait(
            [asyncio.gather(*others), asyncio.ensure_future(self.clock.is_over.wait())],
            return_when=asyncio.FIRST_COMPLETED,
        )
        os.kill(os.getpid(), signal.SIGKILL)
        return ""


async def main(folder: str, number: int) -> None:
    crowd = Crowd(number)
    models: dict[str, Any] = {"m": ScriptedModel(crowd.answer)}
    with Kernel.open(Path(folder) / "s.db", models=models, clock=crowd.clock) as kernel:
        if number == 1:
            agent = AutonomousAgent(kernel=kernel)
            starts = list[Any]()
            for name in ("bad", *CALM):  # in this order a worker takes them up
                work = agent.run(run_id=name, model="m", prompt=f"I am {name}", on_wait="return")
                starts.append(asyncio.ensure_future(work))
                await crowd.asked[name].wait()
            await asyncio.gather(*starts)
        drives = Worker(kernel, kernel.services)
        working = asyncio.ensure_future(drives.forever())
        while not {"running", "pending"}.isdisjoint((await statuses(kernel)).values()):
            await crowd.clock.sleep(0.01)
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
