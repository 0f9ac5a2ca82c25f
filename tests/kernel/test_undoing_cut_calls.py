"""A call that code has cut off may have happened: it is undone where its result is known, else it is told."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from artelier import ModelRequest, Run, ToolContext, not_happened, tool
from artelier.ports.tool import ToolPort
from artelier.testing import ScriptedModel
from tests.kernel.stage import World, drive, events, open_kernel, play, result_of, user


class Shelf:
    """The outside: what stands there, and an instant in which a call is cut off."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.begun = asyncio.Event()
        self.goes_on = asyncio.Event()

    def tools(self) -> list[ToolPort]:
        async def take(arguments: dict[str, Any], result: Any, ctx: ToolContext) -> None:
            self.world.done.append(f"take {arguments['what']} from {result}")

        @tool(side_effect=True, idempotent=True, compensate=take)
        async def put(what: str) -> str:
            "Put something where a second time changes nothing."
            self.world.done.append(f"put {what}")
            self.begun.set()
            await self.goes_on.wait()
            return f"shelf of {what}"

        return [put]


async def cut(run: Run, shelf: Shelf) -> Any:
    putting = asyncio.ensure_future(run.step_tool("put", {"what": "cup"}, key="cup"))
    await shelf.begun.wait()
    putting.cancel()
    await asyncio.wait([putting])
    return putting.cancelled()


@pytest.mark.parametrize("by", ["code", "person"])
def test_a_call_that_is_cut_off_before_its_result_stays_and_is_told(tmp_path: Path, by: str) -> None:
    shelf = Shelf(World())

    async def code(run: Run) -> Any:
        is_cut = await cut(run, shelf)
        back = await run.compensate() if by == "code" else None
        return [is_cut, None if back is None else [list(back.undone), list(back.not_undone)]]

    async def scenario() -> None:
        with open_kernel(tmp_path, tools=shelf.tools()) as kernel:
            runs = kernel.for_tenant()
            assert await drive(runs, code) == "completed"
            assert await result_of(runs) == [True, [[], ["cup"]] if by == "code" else None]
            if by == "person":
                back = await runs.compensate("r")
                assert (back.undone, back.not_undone) == ((), ("cup",))
        assert shelf.world.done == ["put cup"]

    play(scenario())


@pytest.mark.parametrize("by", ["code", "person"])
def test_a_call_that_is_cut_off_behind_its_result_is_undone_with_that(tmp_path: Path, by: str) -> None:
    """It waits for its turn behind an outcome that code reacts to, and is cancelled there."""
    shelf = Shelf(World())

    def answer(request: ModelRequest) -> str:
        shelf.goes_on.set()
        return "hello"

    async def code(run: Run) -> Any:
        putting = asyncio.ensure_future(run.step_tool("put", {"what": "cup"}, key="cup"))
        await shelf.begun.wait()
        await run.step_model(model="m", messages=[user("hi")], key="hi")
        for _ in range(5):
            await asyncio.sleep(0)  # it has its result, and the code is still to react to the reply
        putting.cancel()
        await asyncio.wait([putting])
        back = await run.compensate() if by == "code" else None
        return [putting.cancelled(), None if back is None else [list(back.undone), list(back.not_undone)]]

    async def scenario() -> None:
        with open_kernel(tmp_path, ScriptedModel(answer), tools=shelf.tools()) as kernel:
            runs = kernel.for_tenant()
            assert await drive(runs, code) == "completed"
            of_cup = [one.kind for one in await events(kernel) if getattr(one.decode(), "key", "") == "cup"]
            assert of_cup == ["tool.requested", "tool.completed", "step.cancelled"]
            assert await result_of(runs) == [True, [["cup"], []] if by == "code" else None]
            if by == "person":
                back = await runs.compensate("r")
                assert (back.undone, back.not_undone) == (("cup",), ())
            assert shelf.world.done == ["put cup", "take cup from shelf of cup"]
            assert (await runs.compensate("r")).undone == (), "it is undone"

    play(scenario())


def test_a_call_at_work_that_a_crash_cut_off_is_told_once_its_run_is_cancelled(tmp_path: Path) -> None:
    shelf = Shelf(World())

    async def code(run: Run) -> Any:
        return (await run.step_tool("put", {"what": "cup"}, key="cup")).value

    async def scenario() -> None:
        with open_kernel(tmp_path, tools=shelf.tools()) as kernel:
            runs = kernel.for_tenant()
            driving = asyncio.ensure_future(drive(runs, code))
            await shelf.begun.wait()
            driving.cancel()
            await asyncio.wait([driving])
            await runs.cancel("r")
            assert (await runs.compensate("r")).not_undone == ("cup",)

    play(scenario())


def test_a_payment_that_is_known_not_to_have_happened_is_nothing_that_stays(tmp_path: Path) -> None:
    """Its code cuts it off while its probe is asked."""
    entered, asked, answers = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def probe(key: str, arguments: dict[str, Any]) -> Any:
        asked.set()
        await answers.wait()
        return not_happened

    @tool(side_effect=True, probe=probe)
    async def pay() -> str:
        "Pay, and lose the connection."
        entered.set()
        raise ConnectionError("lost")

    async def code(run: Run) -> Any:
        paying = asyncio.ensure_future(run.step_tool("pay", key="pay"))
        await asked.wait()
        paying.cancel()
        asyncio.get_running_loop().call_soon(answers.set)
        await asyncio.wait([paying])
        return paying.cancelled()

    async def scenario() -> None:
        with open_kernel(tmp_path, tools=[pay]) as kernel:
            runs = kernel.for_tenant()
            assert await drive(runs, code) == "completed"
            assert [step["status"] for step in await runs.steps("r")] == ["cancelled"]
            assert (await runs.compensate("r")).not_undone == ()

    play(scenario())
