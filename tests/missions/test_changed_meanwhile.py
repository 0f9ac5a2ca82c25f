"""People who change tasks while their mission is at work, in every instant of it."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import Any

from artelier import tool
from artelier.agents import Worker
from artelier.errors import Conflict
from tests.missions.mission_stage import LINE, MISSION, Team, launched, opened, planned, statuses
from tests.missions.task_stage import DONE, approve, decide, play, reject, text_of, write


def test_a_dependency_that_is_added_is_waited_for_and_one_that_is_taken_away_is_not(tmp_path: Path) -> None:
    """The mission knew what a task waits for from its plan alone."""

    async def scenario() -> None:
        gates = {name: asyncio.Event() for name in ("a", "b")}

        @tool(side_effect=False)
        async def wait_for_gate(name: str) -> str:
            """Wait."""
            await gates[name].wait()
            return name

        waits = {
            name: [decide("use_tool", tool="wait_for_gate", input={"name": name}), write(f"Out {name}")]
            for name in gates
        }
        plan = planned(
            {"slug": "a"}, {"slug": "b"}, {"slug": "more", "after": ["a"]}, {"slug": "less", "after": ["b"]}
        )
        team = Team(plan, scripts=dict(waits))

        async def until(task: str, status: str) -> None:
            while statuses(await desk.mission(MISSION))[task] != status:
                await asyncio.sleep(0.01)

        with opened(tmp_path, team, tools=[wait_for_gate]) as kernel:
            desk = kernel.for_tenant("acme")
            mission = asyncio.ensure_future(launched(desk))
            while team.count("Decision") < 2:
                await asyncio.sleep(0.01)
            await desk.tasks.change(f"{MISSION}/less", depends_on=[])
            await until("less", "done")
            await desk.tasks.change(f"{MISSION}/more", depends_on=[f"{MISSION}/a", f"{MISSION}/b"])
            gates["a"].set()
            await until("a", "done")
            await asyncio.sleep(0.3)
            assert statuses(await desk.mission(MISSION))["more"] == "pending"
            gates["b"].set()
            ended = await mission
            assert ended["status"] == "completed"
            assert set(statuses(ended).values()) == {"done"}
            assert kernel.verify().findings == []
            assert (await desk.drive_mission(MISSION)).status == "completed"  # replays what was changed

    play(scenario())


def test_a_task_added_in_the_last_instant_of_its_mission_is_worked_on(tmp_path: Path) -> None:
    """It stood as pending for ever: its mission had looked for new tasks, and a worker left it to that."""

    async def once(folder: Path) -> str:
        folder.mkdir()
        team = Team(planned({"slug": "a"}))
        with opened(folder, team) as kernel:
            desk = kernel.for_tenant("acme")
            mission = asyncio.ensure_future(launched(desk))
            while (
                await asyncio.sleep(0)
                or not team.count("Verdict")
                or (await desk.show(f"{MISSION}/a"))["status"] != "completed"
            ):
                pass
            try:
                await desk.tasks.create(
                    goal="The goal of more.",
                    success_criteria="x",
                    assigned_agent_id=f"{MISSION}/by-a",
                    mission=MISSION,
                    id=f"{MISSION}/more",
                )
            except Conflict:
                return "refused"
            finally:
                await mission
            await Worker(kernel, kernel.services).once()
            found = await desk.mission(MISSION)
            assert statuses(found) == {"a": "done", "more": "done"}
            assert kernel.verify().findings == []
            return str(found["status"])

    found = {play(once(tmp_path / str(number))) for number in range(6)}
    assert found <= {"refused", "completed"}


def test_a_task_that_waits_for_one_outside_of_its_mission_is_worked_on_behind_that(tmp_path: Path) -> None:
    """Its mission broke down at its end."""

    async def scenario() -> None:
        team = Team(planned({"slug": "a"}))
        with opened(tmp_path, team) as kernel:
            desk = kernel.for_tenant("acme")
            mission = asyncio.ensure_future(launched(desk))
            while not team.count("Decision"):
                await asyncio.sleep(0.001)
            about: dict[str, Any] = {"success_criteria": "x", "assigned_agent_id": f"{MISSION}/by-a"}
            await desk.tasks.create(goal="The goal of outside.", id="outside", model="m", **about)
            await desk.tasks.create(
                goal="The goal of more.",
                mission=MISSION,
                id=f"{MISSION}/more",
                depends_on=["outside"],
                **about,
            )
            assert statuses(await mission) == {"a": "done", "more": "pending"}
            for _ in range(2):
                await Worker(kernel, kernel.services).once()
            found = await desk.mission(MISSION)
            assert (found["status"], statuses(found)) == ("completed", {"a": "done", "more": "done"})
            assert kernel.verify().findings == []

    play(scenario())


def test_a_task_that_was_cancelled_is_not_worked_on_whenever_it_was(tmp_path: Path) -> None:
    seed = random.randrange(1 << 30)
    draw = random.Random(seed)

    async def once(folder: Path, *, elsewhere: bool) -> None:
        folder.mkdir()
        team = Team(planned({"slug": "a"}, {"slug": "end", "after": ["a"]}))
        with opened(folder, team) as kernel, opened(folder, team) as other:
            desk = kernel.for_tenant("acme")
            mission = asyncio.ensure_future(launched(desk))
            while not team.count("Verdict"):
                await asyncio.sleep(0)
            await asyncio.sleep(draw.random() * 0.03)
            person = (other if elsewhere else kernel).for_tenant("acme")
            try:
                said = (await person.tasks.cancel(f"{MISSION}/end"))["status"]
            except Conflict:
                said = "done"
            ended = await mission
            assert statuses(ended)["end"] == said, f"seed {seed}"
            assert (ended["status"] == "completed") == (said == "done")
            assert kernel.verify().findings == []

    for number in range(12):
        play(once(tmp_path / str(number), elsewhere=bool(number % 2)))


def test_a_task_that_was_blocked_while_it_waited_to_go_on_is_freed_with_what_it_waits_for(
    tmp_path: Path,
) -> None:
    """And what a person has accepted is not done again by a mission that is retried."""

    async def scenario() -> None:
        bad = {"letter"}

        def judge(request: Any) -> Any:
            text = text_of(request)
            wrong = any(f"criteria of {slug}." in text for slug in bad)
            return reject(request) if wrong else approve(request)

        scripts = {"letter": [write("Out"), DONE], "figures": [write("Fig")]}
        team = Team(LINE, judge=judge, scripts=scripts)
        with opened(tmp_path, team) as kernel:
            desk = kernel.for_tenant("acme")
            await launched(desk)
            await desk.tasks.judge(f"{MISSION}/figures", accepted=False, by="user:kim", note="n")
            await desk.tasks.retry(f"{MISSION}/letter")
            bad.add("figures")
            team.scripts["figures"] = [write("Fig"), DONE]
            await desk.retry(MISSION)
            await desk.drive_mission(MISSION, on_wait="return")
            assert statuses(await desk.mission(MISSION)) == {"figures": "failed", "letter": "blocked"}

            await desk.tasks.judge(f"{MISSION}/figures", accepted=True, by="user:kim")
            assert statuses(await desk.mission(MISSION)) == {"figures": "done", "letter": "active"}
            bad.discard("letter")
            team.scripts["letter"] = [write("Better")]
            for _ in range(2):
                await Worker(kernel, kernel.services).once()
            found = await desk.mission(MISSION)
            assert statuses(found) == {"figures": "done", "letter": "done"}
            assert found["status"] == "completed"
            assert kernel.verify().findings == []

    play(scenario())


def test_a_retried_mission_does_what_was_rejected_also_while_another_task_is_open(tmp_path: Path) -> None:
    async def scenario() -> None:
        bad = {"b"}

        def judge(request: Any) -> Any:
            wrong = any(f"criteria of {slug}." in text_of(request) for slug in bad)
            return reject(request) if wrong else approve(request)

        team = Team(planned({"slug": "a"}, {"slug": "b"}), judge=judge, scripts={"b": [write("Out"), DONE]})
        with opened(tmp_path, team) as kernel:
            desk = kernel.for_tenant("acme")
            await launched(desk)
            await desk.tasks.judge(f"{MISSION}/a", accepted=False, by="user:kim", note="Too short.")
            await desk.tasks.retry(f"{MISSION}/b")
            assert statuses(await desk.mission(MISSION)) == {"a": "failed", "b": "active"}
            bad.clear()
            team.scripts |= {"a": [write("Longer"), DONE], "b": [write("Better")]}
            before = (await desk.tasks.show(f"{MISSION}/a"))["iteration_count"]
            await desk.retry(MISSION)
            await desk.drive_mission(MISSION)
            found = await desk.tasks.show(f"{MISSION}/a")
            assert found["iteration_count"] > before, "its agent has read what was wrong, and tried again"
            assert statuses(await desk.mission(MISSION))["b"] == "done"

    play(scenario())
