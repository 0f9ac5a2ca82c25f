"""A goal becomes a plan: repaired once, estimated, shown, edited, launched or refused."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from artelier import Kernel, ModelReply, ModelRequest, Price, Tenant, tool
from artelier.errors import Conflict, InvalidRequest, NotFound
from artelier.missions.plan.commands import mission_job
from artelier.missions.plan.planner import is_plain_question, plain_plan
from artelier.missions.reports import MissionDetail
from artelier.tools.built_in import workspace_tools
from tests.missions.mission_stage import (
    GOAL,
    LINE,
    MISSION,
    Team,
    kinds,
    launched,
    opened,
    planned,
    replayed,
    statuses,
)
from tests.missions.task_stage import play, text_of

UNKNOWN = planned({"slug": "figures", "agent": "x"}, agents=[{"slug": "x", "name": "X", "tools": ["abacus"]}])


def budgeted(**budgets: str) -> dict[str, Any]:
    """A plan whose first agent or membrane may spend this much."""
    plan = planned({"slug": "figures", "agent": "ana"}, agents=[{"slug": "ana", "name": "Ana"}])
    plan["membranes"] = [{"slug": "study", "name": "Study", "members": ["ana"]}]
    for what, budget in budgets.items():
        plan[what][0]["budget_usd"] = budget
    return plan


def test_a_plan_waits_for_its_launch_with_an_estimate(tmp_path: Path) -> None:
    team = Team(LINE)

    async def scenario() -> None:
        with opened(tmp_path, team, prices={"m": Price(input=Decimal(1), output=Decimal(2))}) as kernel:
            desk = kernel.for_tenant("acme")

            found = await desk.plan(GOAL, mission_id=MISSION, model="m")

            assert found["status"] == "waiting_approval"
            assert [task["slug"] for task in found["plan"]["tasks"]] == ["figures", "letter"]
            estimate = found["estimate"]
            assert estimate is not None and estimate["calls"] == 2 * 5 * 3
            assert (estimate["cost_microusd"] or 0) > 0
            assert (await desk.mission(MISSION))["tasks"] == []
            assert await desk.as_principal("operator").artifacts.list(kind="task") == []

    play(scenario())


class Unpriced:
    """A model that nobody knows the price of."""

    def __init__(self, team: Team) -> None:
        self._team = team

    async def complete(self, request: ModelRequest) -> ModelReply:
        return await self._team.model.complete(request)


def test_an_unknown_price_is_no_zero_in_the_estimate(tmp_path: Path) -> None:
    model = Unpriced(Team(LINE))

    async def scenario() -> None:
        with Kernel.open(tmp_path / "s.db", models={"n": model}, environ={}) as kernel:
            desk = kernel.for_tenant("acme")
            await desk.state()
            await kernel.tenants.update("acme", allow_unknown_price=True)

            found = await desk.plan(GOAL, model="n")

            assert found["estimate"] == {"calls": 30, "cost_microusd": None}

    play(scenario())


def test_a_plan_with_mistakes_is_repaired_once_and_told_all_of_them(tmp_path: Path) -> None:
    team = Team(UNKNOWN, LINE)

    async def scenario() -> None:
        with opened(tmp_path, team) as kernel:
            found = await kernel.for_tenant("acme").plan(GOAL, mission_id=MISSION, model="m")

            assert found["status"] == "waiting_approval"
            assert "there is no tool 'abacus'" in text_of(team.requests[1])

    play(scenario())


@pytest.mark.parametrize(
    "reply", [UNKNOWN, {"agents": [], "tasks": []}, "no plan at all", {"tasks": "x" * 50_000}]
)
def test_a_plan_that_stays_wrong_fails_the_mission(tmp_path: Path, reply: Any) -> None:
    team = Team(reply, reply)

    async def scenario() -> None:
        with opened(tmp_path, team) as kernel:
            desk = kernel.for_tenant("acme")

            found = await desk.plan(GOAL, mission_id=MISSION, model="m")

            assert (found["status"], found["reason"]) == ("failed", "plan_invalid")
            assert found["message"]
            assert team.count("Plan") == 2
            assert (await replayed(kernel, "acme")).reason == "plan_invalid"

    play(scenario())


def test_a_launch_makes_everything_in_one_batch(tmp_path: Path) -> None:
    async def scenario() -> None:
        with opened(tmp_path, Team(LINE)) as kernel:
            desk = kernel.for_tenant("acme")

            mission = await launched(desk)

            by_commit = await kernel.store.query(
                "SELECT count(DISTINCT c.last_position) FROM events e JOIN streams s ON s.id = e.stream"
                " JOIN commits c ON e.position BETWEEN c.first_position AND c.last_position"
                " WHERE s.name LIKE 'artifact:m1/%' AND e.seq = 1 AND e.actor = 'operator'"
            )
            assert by_commit[0][0] == 1
            assert [agent["id"] for agent in mission["agents"]] == ["m1/by-figures", "m1/by-letter"]
            assert mission["membranes"][0]["members"] == ["m1/by-figures", "m1/by-letter"]

    play(scenario())


def test_an_edited_plan_is_what_is_launched(tmp_path: Path) -> None:
    team = Team(LINE)
    edited = planned({"slug": "figures"}, {"slug": "more", "after": ["figures"]})

    async def scenario() -> None:
        with opened(tmp_path, team) as kernel:
            desk = kernel.for_tenant("acme")
            await desk.plan(GOAL, mission_id=MISSION, model="m")

            await desk.launch(MISSION, edited, by="user:kim")
            result = await desk.drive_mission(MISSION)

            mission = await desk.mission(MISSION)
            assert result.status == "completed"
            assert statuses(mission) == {"figures": "done", "more": "done"}
            assert mission["edited"]
            (launch,) = [e async for e in kernel.events() if e.kind == "mission.launched"]
            created = [e async for e in kernel.events() if e.kind == "task.created"]
            assert launch.plain()["edited"]
            assert {event.actor for event in created} == {"user:kim"}

    play(scenario())


def test_an_edited_plan_with_mistakes_is_refused_with_all_of_them(tmp_path: Path) -> None:
    bad = planned(
        {"slug": "figures", "agent": "x"},
        {"slug": "letter", "agent": "y"},
        agents=[
            {"slug": "x", "name": "X", "tools": ["abacus"]},
            {"slug": "y", "name": "Y", "tools": ["loom"]},
        ],
    )

    async def scenario() -> None:
        with opened(tmp_path, Team(LINE)) as kernel:
            desk = kernel.for_tenant("acme")
            await desk.plan(GOAL, mission_id=MISSION, model="m")

            with pytest.raises(InvalidRequest, match=r"abacus.*loom"):
                await desk.launch(MISSION, bad)
            tasks = planned(
                {"slug": "a", "agent": "nobody", "after": ["b"]},
                {"slug": "b", "agent": "noone", "after": ["a", "gone"]},
            )
            with pytest.raises(InvalidRequest) as refused:
                await desk.launch(MISSION, tasks | {"agents": [{"slug": "x", "name": "X"}]})
            for mistake in ("no agent 'nobody'", "no agent 'noone'", "no task 'gone'", "wait for each other"):
                assert mistake in str(refused.value)

            assert (await desk.mission(MISSION))["status"] == "waiting_approval"

    play(scenario())


def test_an_agent_that_could_not_read_its_input_is_refused_before_the_launch(tmp_path: Path) -> None:
    def plan(*rooms: list[str]) -> dict[str, Any]:
        tasks = planned(
            {"slug": "figures", "agent": "x"},
            {"slug": "letter", "agent": "y", "depends_on": ["figures"]},
            agents=[{"slug": "x", "name": "X"}, {"slug": "y", "name": "Y"}],
        )
        membranes = [{"slug": f"r{n}", "name": "R", "members": members} for n, members in enumerate(rooms)]
        return tasks | {"membranes": membranes}

    async def scenario() -> None:
        with opened(tmp_path, Team(LINE)) as kernel:
            desk = kernel.for_tenant("acme")
            await desk.plan(GOAL, mission_id=MISSION, model="m")

            for apart in (plan(["x"], ["y"]), plan(["x"])):
                with pytest.raises(InvalidRequest, match=r"tasks\.1\.depends_on: agent 'y' could not read"):
                    await desk.launch(MISSION, apart)
            assert (await desk.mission(MISSION))["status"] == "waiting_approval"
            await desk.launch(MISSION, plan(["x"], ["x", "y"]))

    play(scenario())


def test_an_edit_past_the_door_is_asked_again_with_what_is_wrong(tmp_path: Path) -> None:
    """`artelier approve m1 launch --arguments` goes straight to the run."""

    async def scenario() -> None:
        with opened(tmp_path, Team(LINE)) as kernel:
            desk = kernel.for_tenant("acme")
            await desk.plan(GOAL, mission_id=MISSION, model="m")
            await desk.approve(MISSION, "launch", arguments=UNKNOWN)

            again = await desk.drive_mission(MISSION, on_wait="return")
            (asked,) = await desk.approvals(MISSION)
            await desk.approve(MISSION, asked["step"], arguments={"plan": LINE})
            result = await desk.drive_mission(MISSION)

            assert again.status == "waiting_approval"
            assert "abacus" in asked["details"]["problem"]
            assert result.status == "completed"
            assert (await replayed(kernel, "acme")).status == "completed"

    play(scenario())


def test_a_plan_that_is_denied_ends_the_mission_as_cancelled(tmp_path: Path) -> None:
    async def scenario() -> None:
        with opened(tmp_path, Team(LINE)) as kernel:
            desk = kernel.for_tenant("acme")
            await desk.plan(GOAL, mission_id=MISSION, model="m")
            await desk.approve(MISSION, deny=True, note="not now", by="user:kim")

            result = await desk.drive_mission(MISSION)

            assert result.status == "cancelled"
            assert "mission.launched" not in await kinds(kernel)
            with pytest.raises(Conflict, match="has ended"):
                await desk.launch(MISSION)

    play(scenario())


def test_a_mission_is_launched_once(tmp_path: Path) -> None:
    async def scenario() -> None:
        with opened(tmp_path, Team(LINE)) as kernel:
            desk = kernel.for_tenant("acme")
            await launched(desk)

            with pytest.raises(Conflict, match="was launched already"):
                await desk.launch(MISSION)
            with pytest.raises(NotFound):
                await desk.launch("nobody")

    play(scenario())


def test_a_fork_works_before_the_launch_and_is_refused_after_it(tmp_path: Path) -> None:
    team = Team(LINE)

    async def scenario() -> None:
        with opened(tmp_path, team) as kernel:
            desk = kernel.for_tenant("acme")
            await desk.plan(GOAL, mission_id=MISSION, model="m")
            fork = await desk.fork(MISSION)
            await desk.launch(MISSION)
            await desk.drive_mission(MISSION)

            with pytest.raises(Conflict, match="was launched") as refused:
                await desk.fork(MISSION)
            await desk.drive_mission(fork, on_wait="return")
            await desk.launch(fork)
            result = await desk.drive_mission(fork)

            assert "Fork one of its tasks" in str(refused.value)
            assert result.status == "completed"
            assert team.count("Plan") == 1
            assert [t["id"] for t in (await desk.mission(fork))["tasks"]] == [
                f"{fork}/figures",
                f"{fork}/letter",
            ]

            assert any(f"- forks/{fork}/out-figures@1" in text_of(one) for one in team.requests)
            (written,) = (await desk.mission(fork))["outputs"]
            home = await desk.adopt(written, principal="m1/by-letter")
            assert (written, home.id, home.version) == (f"forks/{fork}/out-letter@1", "m1/out-letter", 2)

    play(scenario())


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"goal": " "}, "the goal is empty"),
        ({"goal": "x" * 100_001}, "too long"),
        ({"mission_id": "a b"}, "invalid run id"),
        ({"mission_id": "x" * 65}, "invalid mission id"),
        ({"mission_id": ".."}, "invalid mission id"),
        ({"mission_id": "team/../study"}, "invalid mission id"),
        ({"mission_id": "study/"}, "invalid mission id"),
        ({"mission_id": "membrane:m1"}, "reserved"),
        ({"mission_id": "main:x"}, "reserved"),
        ({"mission_id": "system"}, "reserved"),
        ({"mission_id": "operator"}, "reserved"),
        ({"model": None}, "needs a model"),
        ({"model": "nobody:knows"}, "no model is called"),
        ({"workspace": "/gone"}, "is not there"),
        ({"plan": {"agents": []}}, "the plan cannot be used"),
        ({"budget_usd": "-1"}, "not an amount"),
        ({"plan": budgeted(agents="\u0663")}, "agents.0.budget_usd"),
        ({"plan": budgeted(membranes="1.\uff15")}, "membranes.0.budget_usd"),
    ],
)
def test_a_goal_that_cannot_be_worked_on_is_refused_before_anything_is_recorded(
    tmp_path: Path, asked: dict[str, Any], said: str
) -> None:
    async def scenario() -> None:
        with opened(tmp_path, Team()) as kernel:
            desk = kernel.for_tenant("acme")
            given: dict[str, Any] = {"goal": GOAL, "model": "m", **asked}

            with pytest.raises((InvalidRequest, NotFound), match=said):
                await desk.plan(given.pop("goal"), **given)

            assert (await desk.runs())["items"] == []

    play(scenario())


def test_a_plan_without_a_model_call(tmp_path: Path) -> None:
    team = Team()

    async def scenario() -> None:
        with opened(tmp_path, team) as kernel:
            mission = await launched(kernel.for_tenant("acme"), plan=LINE)

            assert mission["status"] == "completed"
            assert team.count("Plan") == 0

    play(scenario())


def test_an_estimate_that_says_at_most_is_the_budget_of_the_goal(tmp_path: Path) -> None:
    """What planning has cost comes on top; a budget that is lower stays."""

    async def capped(folder: Path, **more: Any) -> tuple[MissionDetail, list[str]]:
        team = Team(LINE)
        team.model.price = Price(input=Decimal(1), output=Decimal(1))
        folder.mkdir()
        with opened(folder, team) as kernel:
            goal = await launched(kernel.for_tenant("acme"), **more)
            assert (await replayed(kernel, "acme")).status == goal["run_status"]
            return goal, await kinds(kernel)

    async def scenario() -> None:
        free, _ = await capped(tmp_path / "free")
        held, events = await capped(tmp_path / "held", at_most=True)
        low, _ = await capped(tmp_path / "low", at_most=True, budget_usd="0.02")

        assert free["estimate"] is not None and held["estimate"] is not None
        assert ("is_limit" in free["estimate"], free["budget_microusd"]) == (False, None)
        planning = free["cost_microusd"] - sum(one["cost_microusd"] for one in free["tasks"])
        assert held["estimate"].get("is_limit")
        assert held["budget_microusd"] == (held["estimate"]["cost_microusd"] or 0) + planning
        assert held["cost_microusd"] <= (held["budget_microusd"] or 0)
        assert events.count("limit.set") == 1
        assert low["budget_microusd"] == 20_000

    play(scenario())


def test_a_plan_of_unknown_price_is_not_held_to_an_estimate(tmp_path: Path) -> None:
    async def scenario() -> None:
        team = Team(LINE)
        team.model.price = None  # type: ignore[assignment]
        with opened(tmp_path, team) as kernel:
            tenant = Tenant("acme", allow_unknown_price=True)
            goal = await launched(kernel.for_tenant(tenant), at_most=True)

            assert (goal["status"], goal["reason"]) == ("failed", "unknown_price")
            assert goal["tasks"] == []

    play(scenario())


@pytest.mark.parametrize(
    ("goal", "is_plain"),
    [
        ("Which city sold most?", True),
        ("What do the notes say about Oslo? Quote the sentence.", True),
        ("Which city sold most? Write a report.", False),
        ("Which city sold most? Then please draft a letter.", False),
        ("Find out which city sold most.", False),
        ("Which city sold most?\n- and which least?", False),
        ("Which city sold most? " * 5, False),
        ("Which city sold most, of " + "those " * 80 + "?", False),
    ],
)
def test_a_plain_question_asks_for_nothing_to_be_made(goal: str, is_plain: bool) -> None:
    assert is_plain_question(goal) is is_plain


def test_the_agent_of_a_plain_question_has_the_tools_that_people_bring(tmp_path: Path) -> None:
    """A function that does not say what it is counts as a side effect."""

    @tool(side_effect=True)
    async def shop_hours(city: str) -> str:
        "When a shop is open."
        return "nine to five"

    plan = plain_plan("When is the shop in Graz open?", [shop_hours, *workspace_tools(tmp_path)])

    names = plan.agents[0].tools
    assert "shop_hours" in names and "query_sql" in names and "write_file" not in names


def test_a_question_with_more_tools_than_an_agent_can_have_is_planned(tmp_path: Path) -> None:
    def opening(number: int) -> Any:
        @tool(name=f"opening_{number}")
        async def opening_hours(city: str) -> str:
            "When a shop is open."
            return "nine to five"

        return opening_hours

    async def plan_with(count: int) -> Any:
        with Kernel.open(":memory:", tools=[opening(n) for n in range(count)], environ={}) as kernel:
            desk = kernel.for_tenant("acme")
            await desk.state()
            options: Any = {
                "model": "offline",
                "workspace": str(tmp_path),
                "auto_launch": True,
                "is_plain": True,
            }
            return mission_job(desk, "When is the shop in Graz open?", **options).plan

    async def scenario() -> None:
        assert await plan_with(20) is not None
        assert await plan_with(201) is None
        with pytest.raises(InvalidRequest, match="more tools than a mission can have"):
            await plan_with(501)

    play(scenario())
