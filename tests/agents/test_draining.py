"""A worker that is told to end: it begins nothing more, lets tools end, and gives its runs back."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from artelier import Kernel
from artelier.agents import Worker
from artelier.testing import ManualClock, ScriptedModel, tool_call
from tests.agents.family import Bank, Gate, asking, boss, hand, open_family, statuses, work
from tests.agents.family import worker as sub_agent
from tests.kernel.stage import kinds, play

PAY = tool_call("pay", {"to": "ana"})


async def _approved(kernel: Kernel, *tools: Any, run_id: str = "r") -> None:
    """A run of which a person has answered the first question, so that it waits for a worker."""
    assert (await work(boss(kernel, *tools), run_id)).status == "waiting_approval"
    await kernel.for_tenant().approve(run_id)


async def _leases(kernel: Kernel) -> list[Any]:
    return await kernel.store.query("SELECT stream FROM leases")


async def _ended(*tasks: asyncio.Task[Any]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def _begun(worker: Worker, *, within_s: float = 20.0) -> asyncio.Task[None]:
    ending = asyncio.create_task(worker.drain(within_s=within_s))
    for _ in range(5):  # until its time runs
        await asyncio.sleep(0)
    return ending


def test_a_tool_that_ends_in_time_is_recorded_and_the_run_given_back(tmp_path: Path) -> None:
    bank, clock = Bank(), ManualClock()
    models = {"boss": ScriptedModel([tool_call("sure"), tool_call("sure"), PAY, "paid", "late"])}
    tools = [bank.tool(), asking()]

    async def first() -> None:
        with open_family(tmp_path, models, tools=tools, clock=clock) as kernel:
            await _approved(kernel, *tools)
            await _approved(kernel, *tools, run_id="late")
            await kernel.for_tenant().pause("late")
            drives = Worker(kernel, kernel.services)
            working = asyncio.create_task(drives.forever())
            await bank.entered.wait()
            asked = len(models["boss"].requests)

            ending = await _begun(drives)
            await kernel.for_tenant().resume("late")
            for _ in range(4):  # the worker looks again, and takes nothing
                clock.advance(1)
                await asyncio.sleep(0)
            assert not ending.done()
            assert await drives.due() == [("default", "late")]
            bank.opened.set()
            await ending
            await _ended(working)

            assert "tool.unresolved" not in await kinds(kernel, "r")
            assert await statuses(kernel) == {"r": "pending", "late": "pending"}
            assert await _leases(kernel) == []
            assert len(models["boss"].requests) == asked, "the next step was not begun"

    async def second() -> None:
        with open_family(tmp_path, models, tools=tools, clock=clock) as kernel:
            await Worker(kernel, kernel.services).once()
            assert await statuses(kernel) == {"r": "completed", "late": "completed"}

    play(first())
    play(second())
    assert len(bank.paid) == 1


def test_a_tool_that_does_not_end_in_time_is_cut_off(tmp_path: Path) -> None:
    bank, clock = Bank(), ManualClock()
    models = {"boss": ScriptedModel([tool_call("sure"), PAY, "paid"])}
    tools = [bank.tool(), asking()]

    async def scenario() -> None:
        with open_family(tmp_path, models, tools=tools, clock=clock) as kernel:
            await _approved(kernel, *tools)
            drives = Worker(kernel, kernel.services)
            working = asyncio.create_task(drives.forever())
            await bank.entered.wait()
            ending = await _begun(drives)
            clock.advance(19.9)
            await asyncio.sleep(0)
            assert not ending.done()
            clock.advance(0.2)
            await ending
            await _ended(working)
            assert await statuses(kernel) == {"r": "unknown_outcome"}
            assert await _leases(kernel) == []

    play(scenario())
    assert bank.paid == []


def test_a_model_call_is_interrupted_at_once_and_asked_again(tmp_path: Path) -> None:
    gate = Gate("done")
    models = {"boss": ScriptedModel([tool_call("sure"), gate, "done again"])}
    tools = [asking()]

    async def scenario() -> None:
        with open_family(tmp_path, models, tools=tools, clock=ManualClock()) as kernel:
            await _approved(kernel, *tools)
            drives = Worker(kernel, kernel.services)
            working = asyncio.create_task(drives.forever())
            await gate.asked.wait()
            await drives.drain(within_s=20.0)  # time stands still
            await _ended(working)
            assert await statuses(kernel) == {"r": "pending"}

        with open_family(tmp_path, models, tools=tools) as kernel:
            await Worker(kernel, kernel.services).once()
            assert await statuses(kernel) == {"r": "completed"}

    play(scenario())


def test_the_tool_of_a_sub_agent_ends_and_nobody_waits_for_the_sub_agent(tmp_path: Path) -> None:
    """Else each end of a worker would take all of its time: the parent's call ends only with the child."""
    bank = Bank()
    models = {
        "boss": ScriptedModel([tool_call("sure"), hand("pay ana"), "end"]),
        "worker": ScriptedModel([PAY, "paid"]),
    }

    async def scenario() -> None:
        later: dict[str, Any] = {}

        class Later:
            def __getattr__(self, name: str) -> Any:
                return getattr(later["kernel"], name)

        below = sub_agent(Later(), tools=[bank.tool()])  # pyright: ignore[reportArgumentType] - made later
        tools = [below, asking()]
        with open_family(tmp_path, models, tools=tools, clock=ManualClock()) as kernel:
            later["kernel"] = kernel
            await _approved(kernel, *tools)
            drives = Worker(kernel, kernel.services)
            working = asyncio.create_task(drives.forever())
            await bank.entered.wait()
            ending = await _begun(drives)
            assert not ending.done()
            bank.opened.set()
            await ending  # although no time passes
            await _ended(working)
            (child,) = set(await statuses(kernel)) - {"r"}
            assert await statuses(kernel) == {"r": "pending", child: "pending"}
            assert "tool.completed" in await kinds(kernel, child)
            assert len(models["worker"].requests) == 1

        with open_family(tmp_path, models, tools=tools) as kernel:
            later["kernel"] = kernel
            await Worker(kernel, kernel.services).once()
            assert set((await statuses(kernel)).values()) == {"completed"}

    play(scenario())
    assert len(bank.paid) == 1


def test_a_second_word_ends_it_at_once(tmp_path: Path) -> None:
    bank = Bank()
    models = {"boss": ScriptedModel([tool_call("sure"), PAY])}
    tools = [bank.tool(), asking()]

    async def scenario() -> None:
        with open_family(tmp_path, models, tools=tools, clock=ManualClock()) as kernel:
            await _approved(kernel, *tools)
            drives = Worker(kernel, kernel.services)
            working = asyncio.create_task(drives.forever())
            await bank.entered.wait()
            ending = await _begun(drives)
            kernel.services.draining.hurry()
            await ending
            await _ended(working)
            assert await statuses(kernel) == {"r": "unknown_outcome"}
            assert await _leases(kernel) == []

    play(scenario())
