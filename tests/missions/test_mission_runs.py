"""A launched mission: tasks side by side, ends that are honest, waits that hold up nobody else."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from artelier import Limits, ModelRequest
from artelier.app import TenantKernel
from artelier.errors import Conflict, NotFound
from artelier.kernel import run_row
from artelier.missions.steering_document import SteeringStore
from artelier.ports.model import FREE
from artelier.tools.built_in import ask_tool
from tests.missions.mission_stage import (
    ASK,
    FORK,
    GOAL,
    LINE,
    MISSION,
    Team,
    asking,
    kinds,
    launched,
    opened,
    planned,
    ready,
    replayed,
    statuses,
)
from tests.missions.task_stage import DONE, THINK, decide, play, reject, sales_of, text_of, write


async def until(desk: TenantKernel, run: str, status: str, *, of: str = "status") -> None:
    """Wait, bounded, until a run stands so."""
    async with asyncio.timeout(30):
        while True:
            try:
                if getattr(await run_row(desk.services.store, desk.id, run), of) == status:
                    return
            except NotFound:
                pass  # it has not begun
            await asyncio.sleep(0.01)


def test_tasks_run_in_the_order_of_what_they_depend_on(tmp_path: Path) -> None:
    team = Team(FORK)

    async def scenario() -> None:
        with opened(tmp_path, team) as kernel:
            mission = await launched(kernel.for_tenant("acme"))

            order = [slug for what, slug in team.asked if what == "Decision"]
            assert mission["status"] == "completed"
            assert set(order[:2]) == {"a", "b"}
            assert order[2] == "end"
            assert mission["text"].startswith("# The letter of end")
            assert mission["outputs"] == ["m1/out-end@1"]
            shown = next(text_of(r) for r in team.requests if "The goal of end." in text_of(r))
            assert "m1/out-a@1" in shown and "m1/out-b@1" in shown

    play(scenario())


def test_a_mission_replays_without_asking_anybody(tmp_path: Path) -> None:
    team = Team(FORK)

    async def scenario() -> None:
        with opened(tmp_path, team) as kernel:
            await launched(kernel.for_tenant("acme"))
            asked = len(team.asked)

            again = await replayed(kernel, "acme")
            child = await replayed(kernel, "acme", "m1/a")

            assert (again.status, child.status) == ("completed", "completed")
            assert len(team.asked) == asked

    play(scenario())


def test_what_depends_on_a_failed_task_is_blocked_all_the_way_down(tmp_path: Path) -> None:
    plan = planned({"slug": "a"}, {"slug": "b", "after": ["a"]}, {"slug": "end", "after": ["b"]})
    team = Team(plan, judge=reject, scripts={"a": [write("A"), DONE, DONE, DONE]})

    async def scenario() -> None:
        with opened(tmp_path, team) as kernel:
            mission = await launched(kernel.for_tenant("acme"))

            tasks = {task["id"]: task for task in mission["tasks"]}
            assert (mission["status"], mission["reason"]) == ("failed", "tasks_failed")
            assert tasks["m1/a"]["status"] == "failed"
            assert (tasks["m1/b"]["status"], tasks["m1/b"]["blocked_by"]) == ("blocked", "m1/a")
            assert (tasks["m1/end"]["reason"], tasks["m1/end"]["blocked_by"]) == ("dependency_failed", "m1/b")
            assert mission["message"].startswith(
                "a decided the same again and again without new evidence. b waits for a"
            )
            assert (await replayed(kernel, "acme")).reason == "tasks_failed"

    play(scenario())


def test_one_failed_task_does_not_hold_up_the_others(tmp_path: Path) -> None:
    plan = planned({"slug": "a", "max_iterations": 1}, {"slug": "b"})
    team = Team(plan, scripts={"a": [THINK]})

    async def scenario() -> None:
        with opened(tmp_path, team) as kernel:
            mission = await launched(kernel.for_tenant("acme"))

            assert statuses(mission) == {"a": "failed", "b": "done"}
            assert mission["status"] == "failed"

    play(scenario())


def waiting_plan() -> dict[str, Any]:
    return planned({"slug": "a"}, {"slug": "b"}, {"slug": "end", "after": ["b"]})


def test_a_task_that_asks_a_person_lets_the_others_finish_first(tmp_path: Path) -> None:
    team = Team(waiting_plan(), scripts={"a": [ASK, write("Out a")]})

    async def scenario() -> None:
        with opened(tmp_path, team, tools=[ask_tool()]) as kernel:
            desk = kernel.for_tenant("acme")
            await ready(desk)

            waiting = await desk.drive_mission(MISSION, on_wait="return")
            before = await desk.mission(MISSION)
            (asked,) = before["approvals"]
            await desk.approve(asked["run_id"], asked["step"], note="2024", by="user:kim")
            done = await desk.drive_mission(MISSION, on_wait="return")

            assert waiting.status == "waiting_approval"
            assert statuses(before) == {"a": "active", "b": "done", "end": "done"}
            assert asked["run_id"] == "m1/a"
            assert done.status == "completed"
            assert (await replayed(kernel, "acme")).status == "completed"

    play(scenario())


def test_an_answer_lets_a_task_go_on_while_others_are_at_work(tmp_path: Path) -> None:
    """Task `b` is held in its model call until `a`, which had asked a person, is done."""
    team = asking({"slug": "a"}, {"slug": "b"})
    held = asyncio.Event()

    class Held:
        price = FREE

        async def complete(self, request: ModelRequest) -> Any:
            if "The goal of b." in text_of(request):
                await held.wait()
            return await team.model.complete(request)

    async def scenario() -> None:
        with opened(tmp_path, team, model=Held(), tools=[ask_tool()]) as kernel:
            desk = kernel.for_tenant("acme")
            driving = asyncio.ensure_future(desk.plan(GOAL, mission_id=MISSION, model="m", auto_launch=True))
            await until(desk, "m1/a", "waiting_approval")
            await desk.approve("m1/a", by="user:kim")
            await until(desk, "m1/a", "completed")
            held.set()
            await driving

            assert (await desk.mission(MISSION))["status"] == "completed"

    play(scenario())


def test_pause_reaches_the_tasks_and_resume_lets_them_go_on(tmp_path: Path) -> None:
    team = asking({"slug": "a"})

    async def scenario() -> None:
        with opened(tmp_path, team, tools=[ask_tool()]) as kernel:
            desk = kernel.for_tenant("acme")
            await ready(desk)
            await desk.drive_mission(MISSION, on_wait="return")

            await desk.pause(MISSION, by="user:kim")
            paused = (await run_row(desk.services.store, "acme", "m1/a")).status
            await desk.approve("m1/a")
            held = await desk.drive_mission(MISSION, on_wait="return")
            await desk.resume(MISSION)
            done = await desk.drive_mission(MISSION, on_wait="return")

            assert paused == "paused"
            assert held.status == "paused"
            assert done.status == "completed"

    play(scenario())


def test_a_cancel_ends_the_tasks_and_begins_no_other(tmp_path: Path) -> None:
    plan = planned({"slug": "a"}, {"slug": "end", "after": ["a"]})
    team = Team(plan, scripts={"a": [ASK, write("Out a")]})

    async def scenario() -> None:
        with opened(tmp_path, team, tools=[ask_tool()]) as kernel:
            desk = kernel.for_tenant("acme")
            await ready(desk)
            driving = asyncio.ensure_future(desk.drive_mission(MISSION))
            await until(desk, "m1/a", "waiting_approval")

            await desk.cancel(MISSION, by="user:kim")
            result = await driving

            assert result.status == "cancelled"
            mission = await desk.mission(MISSION)
            assert statuses(mission) == {"a": "cancelled", "end": "cancelled"}
            assert team.count("Decision", "end") == 0

    play(scenario())


def test_a_task_that_is_cancelled_alone_blocks_what_needs_it(tmp_path: Path) -> None:
    team = Team(waiting_plan(), scripts={"b": [ASK]})

    async def scenario() -> None:
        with opened(tmp_path, team, tools=[ask_tool()]) as kernel:
            desk = kernel.for_tenant("acme")
            await ready(desk)
            driving = asyncio.ensure_future(desk.drive_mission(MISSION))
            await until(desk, "m1/b", "waiting_approval")

            await desk.tasks.cancel("m1/b", by="user:kim")
            result = await driving

            assert (result.status, result.reason) == ("failed", "tasks_failed")
            assert statuses(await desk.mission(MISSION)) == {"a": "done", "b": "cancelled", "end": "blocked"}
            assert (await replayed(kernel, "acme")).reason == "tasks_failed"

    play(scenario())


def test_the_budget_of_a_mission_stops_its_tasks_until_it_is_raised(tmp_path: Path) -> None:
    from artelier import Price

    team = Team(LINE)

    async def scenario() -> None:
        with opened(tmp_path, team, prices={"m": Price(input=Decimal(1), output=Decimal(1))}) as kernel:
            desk = kernel.for_tenant("acme")
            await desk.plan(GOAL, mission_id=MISSION, model="m", plan=LINE, budget_usd="0.000001")
            await desk.launch(MISSION)

            stopped = await desk.drive_mission(MISSION)
            blocked = await desk.mission(MISSION)
            await desk.limit(MISSION, unit="usd", cap="5")
            done = await desk.drive_mission(MISSION)

            assert stopped.status == "budget_exhausted"
            assert statuses(blocked)["figures"] == "blocked"
            assert blocked["tasks"][0]["reason"] == "budget_exhausted"
            assert team.count("Decision", "figures") == 1
            assert done.status == "completed"
            assert 0 < done.cost_microusd <= 5_000_000

    play(scenario())


def test_a_task_that_is_created_while_the_mission_works_is_taken_up(tmp_path: Path) -> None:
    team = asking({"slug": "a"})

    async def scenario() -> None:
        with opened(tmp_path, team, tools=[ask_tool()]) as kernel:
            desk = kernel.for_tenant("acme")
            await desk.plan(GOAL, mission_id=MISSION, model="m")
            with pytest.raises(Conflict, match="not launched yet"):
                await desk.tasks.create(goal="x", success_criteria="y", mission=MISSION)
            await desk.launch(MISSION)
            driving = asyncio.ensure_future(desk.drive_mission(MISSION))
            await until(desk, "m1/a", "waiting_approval")

            await desk.tasks.create(
                goal="The goal of more.",
                success_criteria="The criteria of more.",
                assigned_agent_id="m1/by-a",
                mission=MISSION,
                id="m1/more",
                by="user:kim",
            )
            await until(desk, "m1/more", "completed")
            await desk.approve("m1/a")
            result = await driving

            assert result.status == "completed"
            assert result.output["tasks"]["m1/more"]["status"] == "done"
            assert (await replayed(kernel, "acme")).status == "completed"
            with pytest.raises(Conflict, match="has ended"):
                await desk.tasks.create(goal="x", success_criteria="y", mission=MISSION)

    play(scenario())


def failing_once() -> Callable[[ModelRequest], Any]:
    """An evaluator that says no until it is told otherwise."""
    from tests.missions.task_stage import approve

    says = [reject]

    def judge(request: ModelRequest) -> Any:
        return says[0](request)

    judge.relent = lambda: says.__setitem__(0, approve)  # type: ignore[attr-defined]
    return judge


def test_retry_of_a_mission_tries_what_failed_and_goes_on_with_what_was_blocked(tmp_path: Path) -> None:
    judge = failing_once()
    team = Team(LINE, judge=judge)

    async def scenario() -> None:
        with opened(tmp_path, team) as kernel:
            desk = kernel.for_tenant("acme")
            failed = await launched(desk)
            judge.relent()  # type: ignore[attr-defined]

            await desk.retry(MISSION)
            result = await desk.drive_mission(MISSION)

            assert statuses(failed) == {"figures": "failed", "letter": "blocked"}
            assert result.status == "completed"
            assert statuses(await desk.mission(MISSION)) == {"figures": "done", "letter": "done"}
            assert team.count("Plan") == 1
            assert (await replayed(kernel, "acme")).status == "completed"

    play(scenario())


def test_a_resumed_task_says_once_which_tools_it_sees(tmp_path: Path) -> None:
    again = decide("use_tool", tool="ask_person", input={"question": "And which month?"})
    team = Team(planned({"slug": "a"}), scripts={"a": [ASK, again, write("Out a")]})
    off = {"tools": {"sales_of": False}}

    async def life(work: Callable[[TenantKernel], Awaitable[Any]]) -> int:
        """A process of its own; how often the task has said so far that its tools have changed."""
        with opened(tmp_path, team, tools=[sales_of, ask_tool()]) as kernel:
            desk = kernel.for_tenant("acme")
            await work(desk)
            await desk.drive_mission(MISSION, on_wait="return")
            return (await kinds(kernel, "m1/a")).count("tools.changed")

    async def steered(desk: TenantKernel) -> None:
        await SteeringStore(desk).change("m1/by-a", off, by="operator")
        await desk.approve("m1/a")

    async def nothing(desk: TenantKernel) -> None:
        pass

    async def answered(desk: TenantKernel) -> None:
        await desk.approve("m1/a")

    async def scenario() -> None:
        told = [await life(work) for work in (ready, steered, nothing, answered, nothing)]
        assert told == [0, 1, 1, 1, 1]
        with opened(tmp_path, team) as kernel:
            assert (await kernel.for_tenant("acme").show(MISSION))["status"] == "completed"

    play(scenario())


def test_a_task_that_fails_of_itself_is_not_tried_for_ever_by_retries_of_its_mission(tmp_path: Path) -> None:
    judge = failing_once()
    team = Team(LINE, judge=judge)

    async def scenario() -> None:
        with opened(tmp_path, team) as kernel:
            desk = kernel.for_tenant("acme")
            await launched(desk)
            asked = [team.count("Decision", "figures")]
            for _ in range(5):
                await desk.retry(MISSION)
                assert (await desk.drive_mission(MISSION)).status == "failed"
                asked.append(team.count("Decision", "figures"))
            # The first attempt, three more, and from then on none.
            assert asked == sorted(asked) and len(set(asked)) == 4
            said = (await desk.show(MISSION))["message"]
            assert said.endswith("`artelier tasks retry m1/figures`")

            judge.relent()  # type: ignore[attr-defined]
            await desk.tasks.retry("m1/figures", by="user:kim")
            await desk.retry(MISSION, by="user:kim")
            assert (await desk.drive_mission(MISSION)).status == "completed"
            assert statuses(await desk.mission(MISSION)) == {"figures": "done", "letter": "done"}
            assert (await replayed(kernel, "acme")).status == "completed"

    play(scenario())


def test_a_task_of_an_ended_mission_is_retried_on_its_own(tmp_path: Path) -> None:
    judge = failing_once()
    team = Team(LINE, judge=judge)

    async def scenario() -> None:
        with opened(tmp_path, team) as kernel:
            desk = kernel.for_tenant("acme")
            await launched(desk)
            judge.relent()  # type: ignore[attr-defined]

            await desk.tasks.retry("m1/figures", by="user:kim")
            first = await desk.tasks.start("m1/figures")
            await desk.tasks.retry("m1/letter")
            second = await desk.tasks.start("m1/letter")

            assert (first.status, second.status) == ("completed", "completed")
            assert statuses(await desk.mission(MISSION)) == {"figures": "done", "letter": "done"}
            assert (await desk.show(MISSION))["status"] == "failed"
            assert (await replayed(kernel, "acme")).reason == "tasks_failed"

    play(scenario())


def test_a_finished_mission_gives_its_result_again_without_a_call(tmp_path: Path) -> None:
    team = Team(LINE)

    async def scenario() -> None:
        with opened(tmp_path, team) as kernel:
            desk = kernel.for_tenant("acme")
            first = await launched(desk)
            asked = len(team.asked)

            again = await desk.drive_mission(MISSION)
            planned_again = await desk.plan(GOAL, mission_id=MISSION, model="m")

            assert again.text == first["text"]
            assert planned_again["status"] == "completed"
            assert len(team.asked) == asked
            with pytest.raises(Conflict, match="another goal"):
                await desk.plan("Something else.", mission_id=MISSION, model="m")

    play(scenario())


def test_a_mission_travels_with_its_tasks_and_artifacts(tmp_path: Path) -> None:
    async def scenario() -> None:
        with opened(tmp_path, Team(LINE)) as kernel:
            first = await launched(kernel.for_tenant("acme"))
            await kernel.for_tenant("acme").export(MISSION, tmp_path / "m1.artelier")
        (tmp_path / "other").mkdir()
        with opened(tmp_path / "other", Team()) as kernel:
            desk = kernel.for_tenant("globex")
            await desk.import_(tmp_path / "m1.artelier")

            there = await desk.mission(MISSION)

            for name in ("goal", "status", "plan", "text", "outputs", "agents", "membranes"):
                assert there[name] == first[name], name
            assert statuses(there) == statuses(first)
            assert (await replayed(kernel, "globex")).status == "completed"
            assert (await replayed(kernel, "globex", "m1/letter")).status == "completed"

    play(scenario())


def test_tree_and_cost_show_the_mission_with_its_tasks(tmp_path: Path) -> None:
    async def scenario() -> None:
        with opened(tmp_path, Team(LINE)) as kernel:
            desk = kernel.for_tenant("acme")
            mission = await launched(desk)

            tree = await desk.tree(MISSION)
            cost = await desk.cost(MISSION)

            assert [child["id"] for child in tree["children"]] == ["m1/figures", "m1/letter"]
            assert cost["runs"] == 3
            assert cost["total_usage"] == mission["usage"]

    play(scenario())


def test_a_limit_of_steps_holds_for_all_tasks_together(tmp_path: Path) -> None:
    async def scenario() -> None:
        with opened(tmp_path, Team(FORK)) as kernel:
            desk = kernel.for_tenant("acme")

            found = await launched(desk, limits=Limits(steps=4))

            assert found["status"] == "budget_exhausted"
            assert "run.exhausted" in await kinds(kernel, "m1/a") + await kinds(kernel, "m1/b")

    play(scenario())


def test_the_budget_of_one_agent_stops_that_agent_alone(tmp_path: Path) -> None:
    from artelier import Price

    plan = planned(
        {"slug": "a", "agent": "poor"},
        {"slug": "b", "agent": "rich"},
        agents=[{"slug": "poor", "name": "Poor", "budget_usd": "0.000001"}, {"slug": "rich", "name": "Rich"}],
    )

    async def scenario() -> None:
        with opened(tmp_path, Team(plan), prices={"m": Price(input=Decimal(1), output=Decimal(1))}) as kernel:
            desk = kernel.for_tenant("acme")

            stopped = await launched(desk)
            shown = await desk.mission_agent("m1/poor")
            await desk.cap("agent:m1/poor", unit="usd", cap="1")
            done = await desk.drive_mission(MISSION)

            assert stopped["status"] == "budget_exhausted"
            assert statuses(stopped) == {"a": "blocked", "b": "done"}
            assert shown["budget"] == {"usd": 1, "used": 0, "left": 1}
            assert done.status == "completed"

    play(scenario())


def test_a_plan_shares_what_was_there_before(tmp_path: Path) -> None:
    plan = planned({"slug": "a"}) | {
        "membranes": [{"slug": "study", "name": "Study", "members": ["by-a"], "shared": ["notes", "gone"]}]
    }

    async def scenario() -> None:
        with opened(tmp_path, Team(plan)) as kernel:
            desk = kernel.for_tenant("acme")
            await desk.as_principal("operator").artifacts.write(
                "notes", kind="document", content="The key is blue.", access="private"
            )

            mission = await launched(desk)

            assert mission["status"] == "completed"
            read = await desk.as_principal("m1/by-a").artifacts.read("notes")
            assert read.content == "The key is blue."
            assert [one.id for one in (await desk.membranes.show("m1/study")).shared] == ["m1/out-a", "notes"]

    play(scenario())


def test_the_first_event_of_a_mission_names_who_asked_for_it(tmp_path: Path) -> None:
    """What the mission does by itself is told in its own name."""

    async def scenario() -> None:
        with opened(tmp_path, Team(LINE)) as kernel:
            desk = kernel.for_tenant("acme")
            await desk.plan(GOAL, mission_id=MISSION, model="m", budget_usd="5", by="user:kim")

            said = [
                (event.kind, event.actor)
                async for event in kernel.events()
                if event.kind in ("run.started", "limit.set", "mission.planned")
            ]
            assert said == [
                ("run.started", "user:kim"),
                ("limit.set", "user:kim"),
                ("mission.planned", "mission:m1"),
            ]

    play(scenario())
