"""A process for `test_rates_processes.py`: it drives runs that ask a model under one rate and one budget.

    python -m tests.kernel.rated FOLDER NAME COUNT BEGAN_US

Its clock runs ten times as fast as the machine's from BEGAN_US on, so that a minute passes in six seconds.
Each turn that it takes or gives back is a line `NAME AT_US REQUESTS` of `turns`, each call a line of `calls`.
It begins when there is `go`.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Awaitable, Sequence
from pathlib import Path
from typing import Any

from artelier import Kernel, ModelReply, ModelRequest, Policy, Price, Rate, Tenant, Usage
from artelier.errors import LeaseHeld
from artelier.log import Asked, Taken
from artelier.log.rate_windows import Change
from tests.kernel.stage import PRICE, ask, last

SPEED = 10
REQUESTS = 24
"""In any minute, over all processes."""
COST = 30
"""Of a call, in micro-dollars."""
PATIENCE_S = 120.0
ACME = Tenant("acme", budget_usd="0.0045")
"""Enough for all calls, and not for the upper bounds of many at once."""


class FastClock:
    """The machine's clock since an instant, ten times as fast."""

    def __init__(self, began_us: int) -> None:
        self._began_us = began_us

    def now_us(self) -> int:
        return self._began_us + (time.time_ns() // 1000 - self._began_us) * SPEED

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds / SPEED)


def noted(path: Path, line: str) -> None:
    """One line, whole, whoever else writes."""
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(file, f"{line}\n".encode())
    os.close(file)


class Slow:
    """A model that takes a virtual second."""

    price: Price | None = PRICE

    def __init__(self, folder: Path, clock: FastClock) -> None:
        self._calls = folder / "calls"
        self._clock = clock

    async def complete(self, request: ModelRequest, /) -> ModelReply:
        noted(self._calls, last(request))
        await self._clock.sleep(1)
        return ModelReply(text="yes", usage=Usage(input_tokens=10, output_tokens=10))


def opened(folder: Path, began_us: int) -> Kernel:
    clock = FastClock(began_us)
    policy = Policy(rates={"openai": Rate(requests=REQUESTS)}, funds_wait_s=100_000.0)
    return Kernel.open(
        folder / "state.db", models=Slow(folder, clock), clock=clock, environ={}, policy=policy
    )


def watch(kernel: Kernel, folder: Path, name: str) -> None:
    """Note what this process takes of the store, and gives back because there is no money yet."""
    store: Any = kernel.store
    take = store.take_turns

    async def take_turns(asked: Sequence[Asked], *, now_us: int, holder: str) -> list[Taken]:
        answers: list[Taken] = await take(asked, now_us=now_us, holder=holder)
        for one, taken in zip(asked, answers, strict=True):
            if taken.at_us is not None:
                requests = sum(claim.amount for claim in one.claims if claim.unit == "requests")
                noted(folder / "turns", f"{name} {taken.at_us} {requests}")
        return answers

    change = store.change_turns

    def change_turns(changes: Sequence[Change]) -> Awaitable[None]:
        for _, unit, at_us, amount in changes:
            if unit == "requests":
                noted(folder / "turns", f"{name} {at_us} {amount}")
        return change(changes)

    store.take_turns, store.change_turns = take_turns, change_turns


async def child(kernel: Kernel, run_id: str) -> None:
    """Drive a run to its end, also one that a dead process has left."""
    while True:
        try:
            async with kernel.run(run_id, tenant=ACME) as run:
                await ask(run, run_id, max_output_tokens=100)
                run.finish("done")
            return
        except LeaseHeld:
            await asyncio.sleep(0.05)


async def main(folder: Path, name: str, count: int, began_us: int) -> None:
    with opened(folder, began_us) as kernel:
        watch(kernel, folder, name)
        (folder / f"{name}-ready").touch()
        async with asyncio.timeout(PATIENCE_S):
            while not (folder / "go").exists():
                await asyncio.sleep(0.01)
            await asyncio.gather(*(child(kernel, f"{name}{n}") for n in range(count)))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))
