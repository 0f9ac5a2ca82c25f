"""The planner, the tasks and the evaluators of a mission ask its next model when the first one fails."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from artelier import Kernel, ModelReply, ModelRequest, Policy
from artelier.errors import Conflict, InvalidRequest, ProviderUnavailable, UnknownModel
from artelier.testing import ScriptedModel
from tests.missions.mission_stage import GOAL, MISSION, Team, launched, planned, replayed, statuses
from tests.missions.task_stage import sales_of

ONE = planned({"slug": "figures"})
TASK = f"{MISSION}/figures"
DOWN = ProviderUnavailable("down")


def open_with(folder: Path, **models: ScriptedModel) -> Kernel:
    policy = Policy(backoff_s=0, attempts_max=1)
    return Kernel.open(folder / "s.db", models=models, tools=[sales_of], environ={}, policy=policy)


def test_each_call_of_a_mission_falls_back_and_a_replay_calls_nothing(tmp_path: Path) -> None:
    team, down = Team(ONE), ScriptedModel([DOWN], repeat_last=True)

    async def scenario() -> None:
        with open_with(tmp_path, m=down, n=team.model) as kernel:
            desk = kernel.for_tenant()
            mission = await launched(desk, fallbacks=["n"])
            assert statuses(mission) == {"figures": "done"}
            assert mission["fallbacks"] == ["n"]
            for run, key in ((MISSION, "plan"), *((TASK, f"c1/{one}") for one in ("decision", "content"))):
                assert (await desk.manifest(run, key)).model == "openai:m"
                assert (await desk.manifest(run, f"{key}/fallback-1")).model == "openai:n"
            assert [what for what, _ in team.asked] == ["Plan", "Decision", "content", "Verdict"]
            for run in (MISSION, TASK):
                assert (await replayed(kernel, "default", run)).status == "completed"
        assert len(down.requests) == len(team.asked) == 4

    asyncio.run(scenario())


def test_a_task_whose_models_have_all_failed_is_retried_from_the_first_one(tmp_path: Path) -> None:
    team, is_down = Team(ONE), True

    async def answer(request: ModelRequest) -> ModelReply:
        if is_down:
            raise DOWN
        return await team.model.complete(request)

    async def scenario() -> None:
        nonlocal is_down
        with open_with(
            tmp_path, m=ScriptedModel(answer), n=ScriptedModel([DOWN], repeat_last=True)
        ) as kernel:
            desk = kernel.for_tenant()
            assert statuses(await launched(desk, fallbacks=["n"], plan=ONE)) == {"figures": "failed"}
            is_down = False
            await desk.retry(MISSION)
            await desk.drive_mission(MISSION)
            assert statuses(await desk.mission(MISSION)) == {"figures": "done"}
            assert (await replayed(kernel, "default", TASK)).status == "completed"

    asyncio.run(scenario())


def test_an_agent_with_a_model_of_its_own_falls_back_to_the_others(tmp_path: Path) -> None:
    agent = {"slug": "by-figures", "name": "Ana", "model": "n"}
    team, down = Team(), ScriptedModel([DOWN], repeat_last=True)

    async def scenario() -> None:
        with open_with(tmp_path, m=ScriptedModel([]), n=down, o=team.model) as kernel:
            desk = kernel.for_tenant()
            plan = planned({"slug": "figures"}, agents=[agent])
            mission = await launched(desk, fallbacks=["n", "o"], plan=plan)
            assert statuses(mission) == {"figures": "done"}
            asked = [await desk.manifest(TASK, f"c1/decision{end}") for end in ("", "/fallback-1")]
            assert [one.model for one in asked] == ["openai:n", "openai:o"]

    asyncio.run(scenario())


def test_models_to_fall_back_on_are_checked_before_anything_is_recorded(tmp_path: Path) -> None:
    async def scenario() -> None:
        with open_with(tmp_path, m=ScriptedModel([]), n=Team(ONE).model) as kernel:
            desk = kernel.for_tenant()
            for wrong in (["m"], ["n", "n"], ["n"] * 8):
                with pytest.raises(InvalidRequest, match="models to fall back on"):
                    await desk.plan(GOAL, mission_id=MISSION, model="m", fallbacks=wrong)
            with pytest.raises(UnknownModel):
                await desk.plan(GOAL, mission_id=MISSION, model="m", fallbacks=["zzz:x"])
            assert (await desk.missions())["items"] == []
            await desk.plan(GOAL, mission_id=MISSION, model="n", fallbacks=["m"])
            with pytest.raises(Conflict, match="another model"):
                await desk.plan(GOAL, mission_id=MISSION, model="n")

    asyncio.run(scenario())
