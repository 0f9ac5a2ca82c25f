"""Detached steps: calls without code around them queue on one run, and a key that is done is recorded."""

from __future__ import annotations

import asyncio
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from artelier import ModelReply, Price, Tenant
from artelier.errors import ReplayMismatch, StoreClosed
from artelier.kernel import find_driver
from artelier.ports.model import Usage
from artelier.testing import ScriptedModel
from tests.kernel.stage import GateModel, echo, open_kernel, play, user
from tests.kernel.test_tools import tool


@tool(side_effect=False)
async def look(value: int) -> int:
    """Give back what was given."""
    return value


def test_calls_on_a_new_run_queue(tmp_path: Path) -> None:
    async def scenario() -> None:
        with open_kernel(tmp_path, tools=[look]) as kernel:
            calls = [
                kernel.step_model(run_id="r", model="m", messages=[user(str(number))]) for number in range(5)
            ]
            seen = await asyncio.gather(*calls, kernel.step_tool("look", {"value": 7}, run_id="r", key="k"))
            assert [one.text for one in seen[:5]] == [f"re: {number}" for number in range(5)]  # pyright: ignore[reportAttributeAccessIssue]
            core = find_driver(kernel.services, "default", "r")
            assert core is not None and core.actor is not None
            await core.actor.commit()
            keys = [step["key"] for step in await kernel.for_tenant().steps("r")]
            assert sorted(keys) == ["1", "2", "3", "4", "5", "k"]
            await kernel.aclose()

    play(scenario())


def test_calls_with_keys_of_their_own_run_beside_each_other(tmp_path: Path) -> None:
    async def scenario() -> None:
        model = GateModel()
        with open_kernel(tmp_path, model) as kernel:
            calls = [
                asyncio.ensure_future(
                    kernel.step_model(run_id="r", model="m", messages=[user(text)], key=text)
                )
                for text in "ab"
            ]
            await model.asked("a")
            await model.asked("b")
            model.answer("b")
            model.answer("a")
            assert [one.text for one in await asyncio.gather(*calls)] == ["re: a", "re: b"]
            await kernel.aclose()

    play(scenario())


def test_a_completed_key_gives_its_recorded_value_in_the_same_process_as_in_another(tmp_path: Path) -> None:
    async def scenario() -> None:
        model = echo()
        with open_kernel(tmp_path, model, tools=[look]) as kernel:
            first = await kernel.step_model(run_id="r", model="m", messages=[user("x")], key="a")
            again = await kernel.step_model(run_id="r", model="m", messages=[user("x")], key="a")
            assert (first.replayed, again.replayed) == (False, True)
            assert again.text == first.text
            with pytest.raises(ReplayMismatch):
                await kernel.step_model(run_id="r", model="m", messages=[user("y")], key="a")
            one = await kernel.step_tool("look", {"value": 1}, run_id="r", key="t")
            two = await kernel.step_tool("look", {"value": 1}, run_id="r", key="t")
            assert (one.value, two.value, two.replayed) == (1, 1, True)
            await kernel.aclose()
        with open_kernel(tmp_path, model, tools=[look]) as kernel:
            other = await kernel.step_model(run_id="r", model="m", messages=[user("x")], key="a")
            assert (other.replayed, other.text) == (True, first.text)
            await kernel.aclose()
        assert len(model.requests) == 1

    play(scenario())


def test_the_same_key_twice_at_once_is_asked_once(tmp_path: Path) -> None:
    async def scenario() -> None:
        model = GateModel()
        with open_kernel(tmp_path, model) as kernel:
            calls = [
                asyncio.ensure_future(kernel.step_model(run_id="r", model="m", messages=[user("x")], key="a"))
                for _ in range(3)
            ]
            await model.asked("x")
            model.answer("x")
            assert [one.text for one in await asyncio.gather(*calls)] == ["re: x"] * 3
            assert len(model.requests) == 1
            await kernel.aclose()

    play(scenario())


def test_a_run_that_other_code_drives_gives_its_recorded_steps(tmp_path: Path) -> None:
    async def scenario() -> None:
        with open_kernel(tmp_path) as kernel:
            async with kernel.run("r") as run:
                mine = await run.step_model(model="m", messages=[user("x")], key="a")
                same = await kernel.step_model(run_id="r", model="m", messages=[user("x")], key="a")
                assert (same.replayed, same.text) == (True, mine.text)

    play(scenario())


def test_a_detached_step_is_recorded_before_it_gives_its_value(tmp_path: Path) -> None:
    """Right after it, the kernel is closed as every example does it: at the end of its `with`."""
    complaints: list[dict[str, Any]] = []

    async def process(model: ScriptedModel) -> tuple[bool, bool]:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: complaints.append(context))
        with open_kernel(tmp_path, model, tools=[look]) as kernel:
            asked = await kernel.step_model(
                run_id="r",
                tenant=Tenant("acme", budget_usd="10"),
                model="m",
                messages=[user("q")],
                key="k",
                max_output_tokens=100,
            )
            seen = await kernel.step_tool("look", {"value": 1}, run_id="r", tenant="acme", key="t")
        await asyncio.sleep(0)
        return asked.replayed, seen.replayed

    async def figures() -> tuple[str, str]:
        with open_kernel(tmp_path) as kernel:
            shown = await kernel.tenants.show("acme")
            return shown["spent_usd"], shown["held_usd"]

    reply = ModelReply(text="x", usage=Usage(output_tokens=100))
    model = ScriptedModel(lambda _: reply, price=Price(output=Decimal(1000)))
    assert play(process(model)) == (False, False)
    assert play(figures()) == ("0.10", "0.00")
    assert play(process(model)) == (True, True)
    assert play(figures()) == ("0.10", "0.00")
    assert len(model.requests) == 1 and not complaints


def test_closing_the_kernel_in_a_run_keeps_what_the_run_has_noted(tmp_path: Path) -> None:
    complaints: list[dict[str, Any]] = []
    model = echo()

    async def interrupted() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: complaints.append(context))
        kernel = open_kernel(tmp_path, model)
        with pytest.raises(StoreClosed):
            async with kernel.run("r") as run:
                await run.step_model(model="m", messages=[user("x")], key="k")
                kernel.close()
        await asyncio.sleep(0)

    async def again() -> bool:
        with open_kernel(tmp_path, model) as kernel:
            async with kernel.run("r") as run:
                return (await run.step_model(model="m", messages=[user("x")], key="k")).replayed

    play(interrupted())
    assert play(again()) is True
    assert not complaints
