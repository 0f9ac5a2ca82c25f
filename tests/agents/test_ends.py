"""Runs of the agent end honestly: gates, repairs, limits, empty and cut-off replies, loops."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, Field

from artelier import AgentResult, AutonomousAgent, ContextBuilder, Kernel, ModelReply, tool
from artelier.errors import Conflict, InvalidRequest
from artelier.testing import ScriptedModel, tool_call

outcomes: list[Any] = []


@tool(side_effect=False)
def run_tests() -> dict[str, Any]:
    """Run the tests."""
    return outcomes.pop(0)


@tool(side_effect=False)
def look(at: str) -> str:
    """Look."""
    return f"saw {at}"


class Count(BaseModel):
    items: int = Field(ge=0)


def play(path: Path, script: list[Any], **more: Any) -> tuple[AgentResult, ScriptedModel]:
    """One run of an agent over a script, replayed under strict; its result."""
    model = ScriptedModel(script)
    options = {name: more.pop(name) for name in ("acceptance", "max_iterations") if name in more}

    async def scenario() -> AgentResult:
        with Kernel.open(path, models={"m": model}, tools=[run_tests, look]) as kernel:
            agent = AutonomousAgent(kernel=kernel, identity="You count.", **options)
            result = await agent.run(run_id="r", model="m", prompt="Count.", **more)
            calls = len(model.requests)
            replayed = await kernel.for_tenant().replay("r", agent.drive)
            assert (replayed.status, replayed.reason) == (result.status, result.reason)
            assert len(model.requests) == calls
            return result

    return asyncio.run(scenario()), model


def test_an_end_is_held_back_until_the_gate_has_passed(tmp_path: Path) -> None:
    outcomes[:] = [{"passed": False}, {"passed": True}]

    result, model = play(
        tmp_path / "s.db",
        ["done!", tool_call("run_tests", {}), "now done!", tool_call("run_tests", {}), "truly done"],
        acceptance=["run_tests"],
    )

    assert (result.status, result.text) == ("completed", "truly done")
    held = [r.messages[-1].text for r in model.requests if "must have passed" in r.messages[-1].text]
    assert len(held) == 2 and all("run_tests" in text for text in held)


def test_a_gate_that_never_passes_is_no_success(tmp_path: Path) -> None:
    result, _ = play(
        tmp_path / "s.db", ["done!", "done!!", "done!!!"], acceptance=["run_tests"], max_iterations=3
    )

    assert (result.status, result.reason) == ("failed", "max_iterations")


def test_output_that_does_not_fit_is_repaired_and_comes_as_the_type_asked_for(tmp_path: Path) -> None:
    result, model = play(tmp_path / "s.db", ["five", '{"items": -3}', {"items": 5}], output_schema=Count)

    assert result.output == Count(items=5)
    assert "greater than or equal to 0" in model.requests[2].messages[-1].text


def test_output_that_never_fits_fails_with_its_reason(tmp_path: Path) -> None:
    result, _ = play(tmp_path / "s.db", ["a", "b", "c"], output_schema=Count)

    assert (result.status, result.reason) == ("failed", "output_invalid")


def test_empty_replies_are_asked_again_and_then_fail(tmp_path: Path) -> None:
    result, _ = play(tmp_path / "one.db", ["  ", "something"])
    assert (result.status, result.text) == ("completed", "something")

    result, _ = play(tmp_path / "all.db", ["", "", ""])
    assert (result.status, result.reason) == ("failed", "empty_reply")


def test_a_reply_that_was_cut_off_is_never_a_result(tmp_path: Path) -> None:
    cut = ModelReply(text="The answer is", finish_reason="length")

    result, _ = play(tmp_path / "one.db", [cut, "The answer is 4."])
    assert (result.status, result.text) == ("completed", "The answer is 4.")

    # The limit of a model that nobody knows is assumed: each cut answer is asked for once more, with more.
    result, _ = play(tmp_path / "all.db", [cut, cut, cut, cut, cut, cut])
    assert (result.status, result.reason) == ("failed", "output_cut")


def test_a_tool_call_with_empty_text_is_no_failure_of_structured_output(tmp_path: Path) -> None:
    """Hole 14."""
    result, _ = play(tmp_path / "s.db", [tool_call("look", {"at": "x"}), {"items": 1}], output_schema=Count)

    assert result.output == Count(items=1)


def test_the_same_call_with_the_same_result_three_times_is_stuck(tmp_path: Path) -> None:
    result, _ = play(tmp_path / "s.db", [tool_call("look", {"at": "x"})] * 3)

    assert (result.status, result.reason) == ("failed", "stuck")


def test_invented_tools_and_arguments_are_answers_the_model_can_read(tmp_path: Path) -> None:
    """Hole 5 and 6 at the level of the agent."""
    result, model = play(
        tmp_path / "s.db",
        [
            tool_call("teleport", {}),
            tool_call("look", {"where": "x"}),
            ModelReply(tool_calls=(tool_call("look", {"at": "x"}), tool_call("fly", {}))),
            "done",
        ],
    )

    assert result.status == "completed"
    assert "there is no tool" in model.requests[1].messages[-1].text
    assert "where" in model.requests[2].messages[-1].text


def test_an_agent_has_one_identity_and_a_run_needs_a_model(tmp_path: Path) -> None:
    with Kernel.open(tmp_path / "s.db") as kernel:
        with pytest.raises(InvalidRequest, match="one identity"):
            AutonomousAgent(kernel=kernel, identity="A", context_builder=ContextBuilder(identity="B"))
        agent = AutonomousAgent(kernel=kernel)
        with pytest.raises(InvalidRequest, match="needs a model"):
            asyncio.run(agent.run(run_id="r", prompt="x"))
        with pytest.raises(InvalidRequest, match="two models"):
            asyncio.run(agent.run(run_id="r", model="a", llm_model="b", prompt="x"))


def test_a_run_that_was_asked_something_else_answers_for_nothing_else(tmp_path: Path) -> None:
    """Hole 17: the reply of an earlier task is never handed out as that of another."""

    async def scenario() -> None:
        with Kernel.open(tmp_path / "s.db", models={"m": ScriptedModel(["four"])}) as kernel:
            agent = AutonomousAgent(kernel=kernel)
            await agent.run(run_id="r", model="m", prompt="2 + 2?")
            assert (await agent.run(run_id="r", model="m", prompt="2 + 2?")).text == "four"
            with pytest.raises(Conflict, match="asked something else"):
                await agent.run(run_id="r", model="m", prompt="3 + 3?")
            async with kernel.run("mine") as run:
                run.finish(1)
            with pytest.raises(Conflict, match="code of its own"):
                await agent.run(run_id="mine", model="m", prompt="x")

    asyncio.run(scenario())


@pytest.mark.parametrize(
    "wrong",
    [
        {"compaction": {}},
        {"context_builder": "x"},
        {"tools": [print]},
        {"tools": "abc"},
        {"max_iterations": "5"},
        {"max_iterations": 0},
        {"acceptance": "run_tests"},
    ],
)
def test_a_wrong_argument_is_named_before_anything_begins(tmp_path: Path, wrong: dict[str, Any]) -> None:
    with Kernel.open(tmp_path / "s.db") as kernel, pytest.raises(InvalidRequest):
        AutonomousAgent(kernel=kernel, **wrong)


@pytest.mark.parametrize(
    "wrong", [{"identity": 5}, {"memory_store": "x.db"}, {"recall_limit": -1}, {"extra_sections": [7]}]
)
def test_a_wrong_argument_of_a_builder_is_named(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest, match=next(iter(wrong))):
        ContextBuilder(**wrong)


def test_a_gate_of_a_tool_that_is_not_there_costs_nothing(tmp_path: Path) -> None:
    async def scenario() -> None:
        with Kernel.open(tmp_path / "s.db", models={"m": ScriptedModel([])}) as kernel:
            agent = AutonomousAgent(kernel=kernel, acceptance=["nope"])
            with pytest.raises(InvalidRequest, match="gate"):
                await agent.run(run_id="r", model="m", prompt="x")

    asyncio.run(scenario())
