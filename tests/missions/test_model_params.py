"""The parameters of a mission reach the calls of its tasks; its temperature stands over that of steering."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from artelier import Kernel
from artelier.kernel.queries.runs import run_row


@pytest.mark.parametrize(
    ("params", "expected"), [({"temperature": 0.35, "seed": 7}, (0.35, 7)), ({}, (0.4, None))]
)
def test_the_tasks_of_a_mission_are_asked_with_its_parameters(
    tmp_path: Path, params: dict[str, float], expected: tuple[float, int | None]
) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "sales.csv").write_text("region,sales\nnorth,10\nsouth,30\n")
    goal = "Which region sold most? Write a report about it and a letter."

    async def scenario() -> None:
        with Kernel.open(tmp_path / "s.db") as kernel:
            desk = kernel.for_tenant()
            await desk.plan(
                goal, mission_id="m", model="offline", workspace=str(folder), auto_launch=True, params=params
            )
            tree = await desk.tree("m")
            task = tree["children"][0]["id"]
            assert (await run_row(kernel.store, "default", task)).parent == "m"
            asked = (await desk.render(task, "c1/decision")).params
            assert (asked["temperature"], asked.get("seed")) == expected

    asyncio.run(scenario())
