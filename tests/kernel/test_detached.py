"""Detached steps: calls without code around them queue on one run, and a key that is done is recorded."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from artelier.errors import ReplayMismatch
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
                kernel.step_model(run_id="r", model="m", messages=[user(str(number))])
                for number in range(5)
            ]
            seen = await asyncio.gather(
                *calls, kernel.step_tool("look", {"value": 7}, run_id="r", key="k")
            )
            assert [one.text for one in seen[:5]] == [f"re: {number}" for number in range(5)]  # pyright: ignore[reportAttributeAccessIssue]
            core = kernel.services.driver("default", "r")
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


def test_a_completed_key_gives_its_recorded_value_in_the_same_process_as_in_another(
    tmp_path: Path,
) -> None:
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
                asyncio.ensure_future(
                    kernel.step_model(run_id="r", model="m", messages=[user("x")], key="a")
                )
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
