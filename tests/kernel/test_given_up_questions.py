"""A side effect that gives up the question that it asks before it acts, or dies behind the answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from artelier import Kernel, Run, ToolContext, tool
from tests.kernel.crashes import Deaths
from tests.kernel.stage import (
    EAGER,
    World,
    all_others_are_dead,
    drive,
    has_status,
    kinds,
    open_kernel,
    play,
    result_of,
)


def hasty(world: World, *, timeout_s: float = 0.02, acted: Callable[[str], None] = print) -> Any:
    @tool(side_effect=True)
    async def pay(ctx: ToolContext) -> str:
        """Pay whatever a person says, and also if nobody says anything in time."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await ctx.ask("may I", before_acting=True)
        world.done.append(ctx.idempotency_key)
        acted("tool.acted")
        return "paid"

    return pay


async def pay_hastily(run: Run) -> Any:
    return (await run.step_tool("pay", key="c")).value


def test_a_tool_that_gives_its_question_up_acts_once_wherever_its_process_dies(tmp_path: Path) -> None:
    async def scenario() -> set[str]:
        world = World()
        deaths = Deaths(tmp_path / "s.db", world)
        with open_kernel(tmp_path, tools=[hasty(world, acted=deaths)], fault=deaths) as kernel:
            assert await drive(kernel.for_tenant(), pay_hastily) == "completed"
        ends: set[str] = set()
        for death in deaths.found:
            with Kernel.open(death.path, tools=[hasty(death.world)], policy=EAGER) as kernel:
                all_others_are_dead(kernel)
                end = await drive(kernel.for_tenant(), pay_hastily)
                assert len(death.world.done) <= 1, death.point
                assert len(death.world.done) == 1 or end == "unknown_outcome", death.point
                ends.add(end)
        return ends

    assert play(scenario()) == {"completed", "unknown_outcome"}


def test_a_call_that_is_cut_off_in_its_question_has_done_nothing(tmp_path: Path) -> None:
    async def code(run: Run) -> Any:
        try:
            async with asyncio.timeout(0.02):
                return await pay_hastily(run)
        except TimeoutError:
            return "given up"

    async def scenario() -> None:
        world = World()
        with open_kernel(tmp_path, tools=[hasty(world, timeout_s=60)]) as kernel:
            assert await drive(kernel.for_tenant(), code) == "completed"
            assert await result_of(kernel.for_tenant()) == "given up"
            assert "tool.question_left" in await kinds(kernel)
        assert world.done == []

    play(scenario())


@pytest.mark.parametrize("is_driven", [True, False], ids=["driven", "left"])
def test_an_answer_that_a_dying_process_did_not_tell_is_heard_once(tmp_path: Path, is_driven: bool) -> None:
    """It counted as heard from the moment at which its tool was entered again, or the answer recorded."""

    async def killed(deaths: Deaths) -> None:
        with open_kernel(tmp_path, tools=[hasty(World(), timeout_s=60)], fault=deaths) as kernel:
            runs = kernel.for_tenant()
            if is_driven:
                driven = asyncio.ensure_future(drive(runs, pay_hastily))
                await has_status(runs, "waiting_approval")
                await runs.approve("r")
                await driven
            else:
                await drive(runs, pay_hastily, on_wait="suspend")
                await runs.approve("r")
                await drive(runs, pay_hastily)

    async def scenario() -> int:
        deaths = Deaths(tmp_path / "s.db", World())
        await killed(deaths)
        count = 0
        for death in deaths.found:
            world = World()
            with Kernel.open(death.path, tools=[hasty(world, timeout_s=60)], policy=EAGER) as kernel:
                all_others_are_dead(kernel)
                told = await kinds(kernel)
                if "approval.given" in told and "approval.heard" not in told:
                    count += 1
                    assert await drive(kernel.for_tenant(), pay_hastily) == "completed", death.point
                    assert world.done == ["default/r:c"]
                    assert (await kinds(kernel)).count("approval.heard") == 1
        return count

    assert play(scenario())
