"""A tool that asks a person and is tried again has asked once."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from artelier import Kernel, Run, ToolContext, tool
from artelier.errors import TransientError
from tests.kernel.stage import drive, has_status, kinds, open_kernel, play, result_of


def consulting(failures: int = 0) -> Any:
    left = [failures]

    @tool(side_effect=False)
    async def consult(ctx: ToolContext) -> str:
        """Ask, then answer."""
        answer = await ctx.ask("may I", {"what": "this"})
        if left[0]:
            left[0] -= 1
            raise TransientError("busy")
        return answer.decision

    return consult


async def code(run: Run) -> Any:
    return (await run.step_tool("consult", key="c")).value


async def settled(kernel: Kernel, driven: asyncio.Task[str]) -> tuple[str, Any, int]:
    """Status, result, and how often people were asked."""
    status = await driven
    result = await result_of(kernel.for_tenant())
    asked = (await kinds(kernel)).count("approval.requested")
    kernel.close()
    return status, result, asked


def test_a_stopped_tool_takes_the_answer_that_came_meanwhile(tmp_path: Path) -> None:
    async def scenario() -> tuple[str, Any, int]:
        kernel = open_kernel(tmp_path, tools=[consulting()])
        runs = kernel.for_tenant()
        driven = asyncio.ensure_future(drive(runs, code))
        await has_status(runs, "waiting_approval")
        await runs.stop("r")
        await runs.approve("r")
        await runs.resume("r")
        return await settled(kernel, driven)

    assert play(scenario()) == ("completed", "approve", 1)


def test_a_stopped_tool_waits_again_for_the_answer_to_its_question(tmp_path: Path) -> None:
    async def scenario() -> tuple[str, Any, int]:
        kernel = open_kernel(tmp_path, tools=[consulting()])
        runs = kernel.for_tenant()
        driven = asyncio.ensure_future(drive(runs, code))
        await has_status(runs, "waiting_approval")
        await runs.stop("r")
        await runs.resume("r")
        await runs.approve("r", deny=True)
        return await settled(kernel, driven)

    assert play(scenario()) == ("completed", "deny", 1)


def test_a_tool_that_fails_after_its_question_is_tried_again_with_the_answer(
    tmp_path: Path,
) -> None:
    async def scenario() -> tuple[str, Any, int]:
        kernel = open_kernel(tmp_path, tools=[consulting(failures=2)])
        runs = kernel.for_tenant()
        driven = asyncio.ensure_future(drive(runs, code))
        await has_status(runs, "waiting_approval")
        await runs.approve("r")
        return await settled(kernel, driven)

    assert play(scenario()) == ("completed", "approve", 1)
