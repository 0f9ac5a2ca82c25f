"""Thirty goals over ten folders: none is answered wrong, and a refusal names a question that works."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest

from artelier import Kernel
from artelier.errors import OfflineCannot
from artelier.tools.built_in import workspace_tools
from artelier_offline.mission import goal_from
from tests.offline.matcher import forbids, holds
from tests.offline.workspace import Workspace

HERE = Path(__file__).parent / "goals"
GOALS: list[dict[str, Any]] = json.loads((HERE / "goals.json").read_text(encoding="utf-8"))
MISSIONS = ("tickets-1", "contracts-3", "shop-3", "meters-1", "empty-1", "meetings-1")
"""Goals that run as whole missions too: four kinds of folders, one of them answered."""
ANSWERED = {"meetings-1"}


def folder_of(goal: dict[str, Any], tmp_path: Path) -> Path:
    if goal["folder"] != "empty":
        return HERE / goal["folder"]
    (tmp_path / "empty").mkdir(exist_ok=True)
    return tmp_path / "empty"


def proposed(message: str) -> str:
    assert "\n" not in message
    return message.rpartition("; try: ")[2]


@pytest.mark.parametrize("goal", GOALS, ids=[goal["id"] for goal in GOALS])
def test_a_goal_is_answered_right_or_refused_with_a_question_that_works(
    goal: dict[str, Any], tmp_path: Path
) -> None:
    workspace = Workspace(folder_of(goal, tmp_path))
    try:
        text = workspace.ask(goal_from(goal["question"]).question).text
    except OfflineCannot as refusal:
        text = ""
        assert workspace.ask(proposed(refusal.message)).text

    assert bool(text) == (goal["id"] in ANSWERED)
    assert not text or all(holds(text, item) for item in goal["answer"])
    assert not any(forbids(text, item) for item in goal["must_not"])


@pytest.mark.slow
@pytest.mark.parametrize("name", MISSIONS)
def test_a_refused_mission_is_blocked_and_the_proposed_one_completes(name: str, tmp_path: Path) -> None:
    goal = next(one for one in GOALS if one["id"] == name)
    folder = folder_of(goal, tmp_path)

    async def run(desk: Any, text: str, id_: str) -> tuple[str, list[Any], str]:
        await desk.plan(text, mission_id=id_, model="offline", workspace=str(folder), auto_launch=True)
        shown = await desk.mission(id_)
        tasks = [await desk.tasks.show(task["id"]) for task in shown["tasks"]]
        return shown["status"], tasks, shown["text"]

    async def scenario() -> None:
        with Kernel.open(tmp_path / "s.db", tools=workspace_tools(folder, writable=False)) as kernel:
            desk = kernel.for_tenant()
            status, tasks, text = await run(desk, goal["question"], "first")
            if name in ANSWERED:
                assert status == "completed" and all(holds(text, item) for item in goal["answer"])
                return
            assert {(task["status"]) for task in tasks} == {"blocked"}
            assert tasks[0]["reason"] == "missing_input" and tasks[0]["outputs"] == []
            found = re.search(r"; try: (.+[?])", tasks[0]["message"])
            assert found is not None
            status, tasks, text = await run(desk, found[1], "second")
            assert status == "completed" and text

    asyncio.run(scenario())
