"""A goal stands as its tasks stand: whoever worked on them last, and whatever its run has ended as."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from artelier import Price
from artelier.agents import Worker
from artelier.errors import (
    Conflict,
    ContextTooLong,
    MissingKey,
    ModelReplyBroken,
    ModelTimeout,
    OutputInvalid,
    PriceUnknown,
    UnknownModel,
)
from artelier.missions.status import TaskStatus, goal_status, reason_sentence
from artelier.tools.built_in import ask_tool
from tests.missions.mission_stage import (
    ASK,
    FORK,
    LINE,
    MISSION,
    Team,
    asking,
    launched,
    opened,
    planned,
    ready,
    replayed,
    statuses,
)
from tests.missions.task_stage import DONE, THINK, approve, decide, play, reject, text_of, write

FINAL = ("completed", "failed", "cancelled")
tasks = st.lists(st.sampled_from([one.value for one in TaskStatus]), min_size=1, max_size=6)


@given(tasks, st.sampled_from(FINAL), st.sampled_from(FINAL), st.randoms())
def test_the_status_of_an_ended_goal_is_a_pure_function_of_its_tasks(
    found: list[str], run: str, other: str, rng: Any
) -> None:
    """It depends neither on what its run ended as, nor on the order of the tasks."""
    status = goal_status(found, run_status=run)
    mixed = list(found)
    rng.shuffle(mixed)

    assert goal_status(mixed, run_status=other) == status
    assert (status == "completed") == all(one == "done" for one in found)
    assert (status in ("running", "pending")) == any(one in ("active", "pending") for one in found)
    is_over = set(found) <= {"done", "failed", "blocked", "cancelled"}
    assert (status == "failed") == (is_over and "failed" in found)
    assert (status == "blocked") == (is_over and "failed" not in found and "blocked" in found)
    assert status in (*FINAL, "running", "pending", "blocked")


@given(tasks, st.sampled_from(("running", "waiting_approval", "paused", "budget_exhausted")))
def test_while_its_run_goes_on_a_goal_is_what_its_run_is_at(found: list[str], run: str) -> None:
    assert goal_status(found, run_status=run) == run


def test_a_command_that_came_too_late_changes_a_task_as_little_as_it_always_did() -> None:
    """Stored logs are folded by the machine: the guards of old events follow from it."""
    assert TaskStatus.CANCELLED.predecessors == {"", "blocked"}
    assert TaskStatus.PENDING.predecessors == {"cancelled", "blocked"}
    assert TaskStatus.BLOCKED.predecessors == {""}
    assert not any(one.can_become(one) for one in TaskStatus)


MOVES = ("accept", "reject", "retry", "start", "cancel", "work")


@pytest.mark.parametrize("moves", list(product(MOVES, repeat=2)), ids="-".join)
def test_whatever_people_do_to_tasks_the_goal_and_the_list_of_goals_say_the_same(
    tmp_path: Path, moves: Sequence[str]
) -> None:
    """Each pair of moves over a goal of which one task has failed, one is done and one is blocked."""
    team = Team(FORK, judge=_judge(), scripts={"a": [write("Out a"), DONE, DONE, write("Out a")]})

    async def scenario() -> None:
        with opened(tmp_path, team) as kernel:
            desk = kernel.for_tenant("acme")
            await launched(desk)
            for place, move in enumerate(moves):
                for task in ("m1/a", "m1/b") if place else ("m1/a",):
                    await _move(kernel, desk, task, move)
                goal = await desk.mission(MISSION)
                expected = goal_status(statuses(goal).values(), run_status=goal["run_status"])
                assert goal["status"] == expected, statuses(goal)
                (line,) = (await desk.missions())["items"]
                (found,) = (await desk.missions(status=expected))["items"]
                assert line["status"] == expected and found == line
                assert bool(goal["text"]) == (expected == "completed")

    play(scenario())


def _judge() -> Any:
    """An evaluator that is against the first version of one task."""

    def judge(request: Any) -> Any:
        text = request.messages[-1].text
        return reject(request) if "m1/out-a@1" in text else approve(request)

    return judge


async def _move(kernel: Any, desk: Any, task: str, move: str) -> None:
    try:
        if move == "work":
            await Worker(kernel, kernel.services).once()
        elif move in ("accept", "reject"):
            await desk.tasks.judge(task, accepted=move == "accept")
        else:
            await getattr(desk.tasks, move)(task)
    except Conflict:
        pass


def test_a_retried_task_counts_in_the_cost_the_limits_and_the_end_of_its_goal(tmp_path: Path) -> None:
    """Neither the one that had failed nor the one that had never begun becomes a run of its own."""
    plan = planned({"slug": "a", "max_iterations": 1}, {"slug": "end", "after": ["a"]})
    team = Team(plan, scripts={"a": [THINK, write("Out a")]})
    team.model.price = Price(input=1, output=1)  # type: ignore[arg-type]

    async def scenario() -> None:
        with opened(tmp_path, team) as kernel:
            desk = kernel.for_tenant("acme")
            first = await launched(desk, budget_usd="1.00")
            await desk.tasks.retry("m1/a", by="user:kim")
            worker = Worker(kernel, kernel.services)
            while await worker.once():
                pass
            goal = await desk.mission(MISSION)

            assert (first["status"], statuses(first)) == ("failed", {"a": "failed", "end": "blocked"})
            assert (goal["status"], statuses(goal)) == ("completed", {"a": "done", "end": "done"})
            rows = await kernel.store.query("SELECT run, parent, cost FROM runs ORDER BY id")
            assert {run: parent for run, parent, _ in rows} == {
                MISSION: None,
                "m1/a": MISSION,
                "m1/end": MISSION,
            }
            assert goal["cost_microusd"] == sum(cost for *_, cost in rows) > first["cost_microusd"]
            used = await kernel.store.query("SELECT used FROM limits WHERE scope = 'run:m1' AND unit = 'usd'")
            assert used == [(goal["cost_microusd"],)]

    play(scenario())


def test_the_budget_of_an_ended_goal_stops_its_retried_task_and_can_be_raised(tmp_path: Path) -> None:
    plan = planned({"slug": "a", "max_iterations": 1})
    team = Team(plan, scripts={"a": [THINK, write("Out a")]})
    team.model.price = Price(input=1, output=1)  # type: ignore[arg-type]

    async def scenario() -> None:
        with opened(tmp_path, team) as kernel:
            desk = kernel.for_tenant("acme")
            first = await launched(desk, budget_usd="1.00")
            with pytest.raises(Conflict):
                await desk.limit(MISSION, unit="usd", cap=f"{first['cost_microusd'] / 1e6:.6f}")
            await desk.tasks.retry("m1/a", by="user:kim")
            await desk.limit(MISSION, unit="usd", cap=f"{first['cost_microusd'] / 1e6:.6f}")
            stopped = await desk.tasks.start("m1/a", on_wait="suspend")
            shown = await desk.mission(MISSION)
            await desk.limit(MISSION, unit="usd", cap="10")
            await desk.tasks.start("m1/a")

            assert stopped.status == "budget_exhausted"
            assert (shown["status"], shown["budget_microusd"]) == ("blocked", first["cost_microusd"])
            assert (await desk.mission(MISSION))["status"] == "completed"

    play(scenario())


def test_a_goal_whose_tasks_only_lack_something_is_blocked_and_its_retry_goes_on(tmp_path: Path) -> None:
    """Nothing has failed: the goal, the list of goals and its filter say what the tasks say."""
    plan = planned({"slug": "a"}, {"slug": "end", "after": ["a"]})
    lacks = decide("complete_task", target="the weather of Bergen")
    team = Team(plan, scripts={"a": [lacks, write("Out a")]})

    async def scenario() -> None:
        with opened(tmp_path, team) as kernel:
            desk = kernel.for_tenant("acme")
            goal = await launched(desk)
            (line,) = (await desk.missions(status="blocked"))["items"]
            failed = (await desk.missions(status="failed"))["items"]
            await desk.retry(MISSION, by="user:kim")
            result = await desk.drive_mission(MISSION)

            assert statuses(goal) == {"a": "blocked", "end": "blocked"}
            assert (goal["status"], goal["reason"]) == ("blocked", "tasks_blocked")
            assert (goal["run_status"], goal["text"]) == ("failed", "")
            assert goal["message"] == "It is next. Missing: the weather of Bergen"
            assert (line["status"], line["reason"], failed) == ("blocked", "tasks_blocked", [])
            assert result.status == (await desk.mission(MISSION))["status"] == "completed"

    play(scenario())


def test_a_fork_of_a_task_is_no_task_of_the_goal(tmp_path: Path) -> None:
    """It asks what would have been: neither its end nor its outputs change what is."""
    team = Team(FORK)

    async def scenario() -> None:
        with opened(tmp_path, team) as kernel:
            desk = kernel.for_tenant("acme")
            before = await launched(desk)
            waiting = await desk.fork("m1/end", at=3)
            stopped = await desk.fork("m1/a", at=3)
            await desk.cancel(stopped, by="user:kim")
            goal, (line,) = await desk.mission(MISSION), (await desk.missions())["items"]

            listed = (await desk.tasks.list(mission=MISSION))["items"]
            assert {one["id"]: one["origin"] for one in listed} == {
                **dict.fromkeys(("m1/a", "m1/b", "m1/end")),
                waiting: "m1/end",
                stopped: "m1/a",
            }
            assert statuses(goal) == {"a": "done", "b": "done", "end": "done"}
            for told in (before, goal):
                assert (told["status"], told["message"], told["outputs"]) == (
                    "completed",
                    "",
                    ["m1/out-end@1"],
                )
            assert (line["status"], line["tasks"], line["done"]) == ("completed", 3, 3)

            await desk.tasks.judge("m1/end", accepted=False, by="user:kim")
            assert (await desk.mission(MISSION))["message"] == "end was rejected by a person."

    play(scenario())


def test_a_mission_does_not_work_on_the_forks_of_its_tasks(tmp_path: Path) -> None:
    team = asking({"slug": "a"}, {"slug": "end", "after": ["a"]})

    async def scenario() -> None:
        with opened(tmp_path, team, tools=[ask_tool()]) as kernel:
            desk = kernel.for_tenant("acme")
            await ready(desk)
            await desk.drive_mission(MISSION, on_wait="return")
            name = await desk.fork("m1/a", at=3)
            await desk.approve("m1/a", by="user:kim")
            result = await desk.drive_mission(MISSION)

            assert (result.status, list(result.output["tasks"])) == ("completed", ["m1/a", "m1/end"])
            assert (await desk.show(name))["status"] == "pending"
            assert (await replayed(kernel, "acme")).status == "completed"

    play(scenario())


def test_a_fork_is_worked_on_beside_its_mission_whose_agents_do_not_see_what_it_makes(tmp_path: Path) -> None:
    scripts = {"letter": [ASK, write("Out letter")]}
    team = Team(LINE, scripts=scripts)

    async def scenario() -> None:
        with opened(tmp_path, team, tools=[ask_tool()]) as kernel:
            desk = kernel.for_tenant("acme")
            await ready(desk)
            await desk.drive_mission(MISSION, on_wait="return")
            name = await desk.fork("m1/figures", at=3)
            made = await desk.tasks.start(name)
            judged = await desk.tasks.judge(name, accepted=False, by="user:kim")
            again = await desk.tasks.retry(name, by="user:kim")
            before = len(team.requests)
            await desk.approve("m1/letter", by="user:kim")
            result = await desk.drive_mission(MISSION)

            assert (made.status, judged["status"], again["status"]) == ("completed", "failed", "active")
            assert judged["outputs"] == [f"forks/{name}/m1/out-figures@1"]
            assert result.status == "completed"
            asked = [text_of(request) for request in team.requests[before:]]
            assert any("m1/out-figures@1" in text for text in asked)
            assert not any("forks/" in text for text in asked)

    play(scenario())


@pytest.mark.parametrize(
    "failure",
    [ContextTooLong, MissingKey, ModelReplyBroken, ModelTimeout, OutputInvalid, PriceUnknown, UnknownModel],
)
def test_why_a_task_failed_is_said_in_words(failure: type[Any]) -> None:
    said = reason_sentence("figures", status="failed", reason=failure.code, blocked_by="")
    assert failure.code not in said and said.startswith("figures ")
