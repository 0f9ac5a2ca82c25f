"""Many agents of one program, started at once: each pass of the event loop begins a few of them."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

from artelier import AutonomousAgent, Kernel, ModelRequest
from artelier.log.rate_windows import AT_ONCE
from artelier.testing import ScriptedModel

AGENTS = 60


def test_a_pass_of_the_event_loop_begins_a_few_runs_and_wakes_a_few(tmp_path: Path) -> None:
    begun, answered = Counter[int](), Counter[int]()
    passes = 0

    def reached(point: str) -> None:
        if point == "run.started":
            begun[passes] += 1

    def reply(request: ModelRequest) -> str:
        answered[passes] += 1
        return "done"

    async def count_passes() -> None:
        nonlocal passes
        while True:
            passes += 1
            await asyncio.sleep(0)

    async def scenario() -> list[str]:
        counting = asyncio.ensure_future(count_passes())
        with Kernel.open(tmp_path / "s.db", models={"m": ScriptedModel(reply)}, fault=reached) as kernel:
            agents = [AutonomousAgent(kernel=kernel) for _ in range(AGENTS)]
            ended = await asyncio.gather(
                *(agent.run(run_id=f"r{at}", model="m", prompt="Go.") for at, agent in enumerate(agents))
            )
        counting.cancel()
        return [one.status for one in ended]

    assert asyncio.run(scenario()) == ["completed"] * AGENTS
    assert sum(begun.values()) == sum(answered.values()) == AGENTS
    assert max(begun.values()) <= 2 * AT_ONCE
    assert max(answered.values()) <= 2 * AT_ONCE
