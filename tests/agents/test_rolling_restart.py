"""Workers that are replaced one after the other amid paying runs: nothing is done twice, nothing is lost."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from artelier import Kernel, ModelRequest, ToolContext, tool
from artelier.agents import Worker
from artelier.testing import ScriptedModel, tool_call
from tests.agents.family import asking, boss, open_family
from tests.kernel.stage import play

RUNS = int(os.environ.get("ARTELIER_TEST_ROLLING_RUNS", "40"))
"""Enough that each restart falls into work; more by hand."""
WORKERS, SLOTS = 4, 4


class Shop:
    """The outside: counts each payment by its idempotency key."""

    def __init__(self) -> None:
        self.paid: Counter[str] = Counter()

    def tool(self) -> Any:
        async def pay(to: str, ctx: ToolContext) -> str:
            "Pay."
            await asyncio.sleep(0.02)
            self.paid[ctx.idempotency_key] += 1
            return f"paid {to}"

        return tool(side_effect=True)(pay)


def _answer(request: ModelRequest) -> Any:
    """Ask a person, pay three times, end."""
    done = sum(message.role == "tool" for message in request.messages)
    if done == 0:
        return tool_call("sure")
    return tool_call("pay", {"to": f"p{done}"}) if done <= 3 else "done"


class Hand:
    """One process of the crew: a kernel and its worker."""

    def __init__(self, folder: Path, shop: Shop) -> None:
        self.kernel = open_family(folder, {"boss": ScriptedModel(_answer)}, tools=[asking(), shop.tool()])
        self.worker = Worker(self.kernel, self.kernel.services, slots=SLOTS)
        self.task = asyncio.ensure_future(self.worker.forever())

    async def leave(self) -> None:
        """What SIGTERM does."""
        await self.worker.drain(within_s=10)
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)
        await self.kernel.aclose()


async def _counts(kernel: Kernel) -> Counter[str]:
    rows = await kernel.store.query("SELECT status, count(*) FROM runs GROUP BY status")
    return Counter(dict(rows))


@pytest.mark.slow
def test_workers_are_replaced_one_by_one_and_every_run_pays_its_three_bills_once(tmp_path: Path) -> None:
    shop, restarts, caught = Shop(), 0, 0

    async def scenario() -> None:
        nonlocal restarts, caught
        tools = [asking(), shop.tool()]
        with open_family(tmp_path, {"boss": ScriptedModel(_answer)}, tools=tools) as desk:
            for number in range(RUNS):
                agent = boss(desk, *tools)
                await agent.run(run_id=f"r{number}", model="boss", prompt="Pay.", on_wait="return")
                await desk.for_tenant().approve(f"r{number}")
            crew = [Hand(tmp_path, shop) for _ in range(WORKERS)]
            while (await _counts(desk))["completed"] < RUNS:
                leaving = crew.pop(0)
                caught += bool(leaving.kernel.services.active)
                crew.append(Hand(tmp_path, shop))  # the new one first, as supervisors do
                await leaving.leave()
                restarts += 1
                assert not (await _counts(desk))["unknown_outcome"]
                await asyncio.sleep(0.1)
            for hand in crew:
                await hand.leave()

            assert await _counts(desk) == {"completed": RUNS}
            assert await desk.store.query("SELECT 1 FROM leases") == []

    play(scenario(), within_s=300)
    assert len(shop.paid) == 3 * RUNS, "every bill was paid"
    assert set(shop.paid.values()) == {1}, "and none twice"
    assert restarts >= WORKERS and caught, "it was in the middle of work"
