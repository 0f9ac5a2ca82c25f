"""What the model of a parent is told of its children, and what a replay tells again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from artelier import AutonomousAgent
from artelier.errors import ToolFailed
from artelier.testing import ScriptedModel, tool_call
from tests.agents.family import CHILD, boss, hand, open_family, statuses, task_of, told, work, worker
from tests.kernel.stage import play


class Finding(BaseModel):
    title: str
    score: int


def error_of(text: str) -> dict[str, Any]:
    return json.loads(text)["error"]


# What the parent's model is told


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ([tool_call("nothing"), tool_call("nothing", {"n": 2})], "max_iterations"),
        ([ToolFailed("the provider is down")], "tool_failed"),
    ],
)
def test_a_child_that_fails_is_an_error_that_the_parent_reads(
    tmp_path: Path, script: list[Any], reason: str
) -> None:
    models = {"boss": ScriptedModel([hand("a"), "I will do without."]), "worker": ScriptedModel(script)}

    async def scenario() -> None:
        with open_family(tmp_path, models) as kernel:
            agent = boss(kernel, worker(kernel, max_iterations=2))
            result = await work(agent)

            error = error_of(told(models["boss"])[0])
            assert (result.status, result.text) == ("completed", "I will do without.")
            assert (await statuses(kernel))[CHILD] == "failed"
            assert error["message"].startswith("worker has no result: it failed")
            assert error["got"] == reason

            replayed = await kernel.for_tenant().replay("r", agent.drive)
            assert replayed.result["text"] == result.text

    play(scenario())


def test_a_child_with_an_unknown_model_is_refused_before_it_is_a_run(tmp_path: Path) -> None:
    models = {"boss": ScriptedModel([hand("a"), "ok"])}

    async def scenario() -> None:
        with open_family(tmp_path, models) as kernel:
            result = await work(boss(kernel, worker(kernel, model="nobody:x")))

            assert result.status == "completed"
            assert error_of(told(models["boss"])[0])["code"] == "unknown_model"
            assert list(await statuses(kernel)) == ["r"]

    play(scenario())


def test_a_child_is_not_called_without_a_task(tmp_path: Path) -> None:
    models = {"boss": ScriptedModel([hand("  "), "ok"]), "worker": ScriptedModel([])}

    async def scenario() -> None:
        with open_family(tmp_path, models) as kernel:
            await work(boss(kernel, worker(kernel)))

            assert "told nothing" in error_of(told(models["boss"])[0])["message"]
            assert list(await statuses(kernel)) == ["r"]

    play(scenario())


def test_the_output_of_a_child_reaches_its_parent_as_json(tmp_path: Path) -> None:
    models = {
        "boss": ScriptedModel([hand("a"), "ok"]),
        "worker": ScriptedModel(["no json", {"title": "Found", "score": 7}]),
    }

    async def scenario() -> None:
        with open_family(tmp_path, models) as kernel:
            await work(boss(kernel, worker(kernel, output_schema=Finding)))

            assert json.loads(told(models["boss"])[0]) == {"title": "Found", "score": 7}
            assert len(models["worker"].requests) == 2

    play(scenario())


def test_output_that_never_fits_is_an_error_after_the_repairs(tmp_path: Path) -> None:
    models = {
        "boss": ScriptedModel([hand("a"), "ok"]),
        "worker": ScriptedModel(["no json"], repeat_last=True),
    }

    async def scenario() -> None:
        with open_family(tmp_path, models) as kernel:
            await work(boss(kernel, worker(kernel, output_schema=Finding)))

            assert error_of(told(models["boss"])[0])["got"] == "output_invalid"
            assert len(models["worker"].requests) == 3

    play(scenario())


# Replay


def test_parent_and_child_replay_each_by_itself_without_a_call(tmp_path: Path) -> None:
    models = {"boss": ScriptedModel([[hand("a"), hand("b")], "done"]), "worker": ScriptedModel(task_of)}

    async def scenario() -> None:
        with open_family(tmp_path, models) as kernel:
            helper = worker(kernel)
            agent = boss(kernel, helper)
            await work(agent)
            calls = [len(model.requests) for model in models.values()]
            before = await kernel.head()

            parent = await kernel.for_tenant().replay("r", agent.drive)
            other = AutonomousAgent(kernel=kernel, identity="You work.")
            child = await kernel.for_tenant().replay(CHILD, other.drive)

            assert parent.result["text"] == "done"
            assert child.result["text"] == "a"
            assert [len(model.requests) for model in models.values()] == calls
            assert await kernel.head() == before

    play(scenario())
