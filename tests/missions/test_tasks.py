"""Tasks as handles: made, changed, worked on, cancelled and retried, with a mission or without."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from artelier import Price
from artelier.agents import Worker
from artelier.app import TenantKernel
from artelier.errors import ArtelierError, Conflict, InvalidRequest, NotFound, VersionConflict
from artelier.missions.mission_agents import change_membrane
from artelier.missions.reports import TaskDetail
from artelier.missions.steering_document import SteeringStore
from artelier.missions.task.preview import next_prompt
from tests.missions.mission_stage import MISSION, Team, launched, opened, planned, replayed
from tests.missions.task_stage import DONE, THINK, decide, look, play, reject, text_of, write


async def agent(desk: TenantKernel, id: str = "staff/ana", **more: Any) -> str:
    await desk.create_agent(id, name="Ana", role="You are careful.", model="m", **more)
    return id


def own(slug: str = "own", **more: Any) -> dict[str, Any]:
    return {
        "goal": f"The goal of {slug}.",
        "success_criteria": f"The criteria of {slug}.",
        "id": f"tasks/{slug}",
        **more,
    }


def test_a_task_is_made_shown_and_worked_on(tmp_path: Path) -> None:
    async def scenario() -> None:
        with opened(tmp_path, Team()) as kernel:
            desk = kernel.for_tenant("acme")
            ana = await agent(desk)

            made = await desk.tasks.create(**own(), assigned_agent_id=ana, by="user:kim")
            result = await desk.tasks.start("tasks/own")
            shown = await desk.tasks.show("tasks/own")

            assert (made["status"], made["iteration_count"], made["run_status"]) == ("pending", 0, None)
            assert result.status == "completed"
            assert shown["status"] == "done"
            assert shown["outputs"] == ["tasks/own/out-own@1"]
            assert shown["iteration_count"] == 1
            (one,) = shown["iterations"]
            assert one["action"] == "create_artifact"
            assert one["passed"] is True
            assert one["verdict"]["criteria"][0]["evidence"]
            assert (await replayed(kernel, "acme", "tasks/own")).status == "completed"

    play(scenario())


def test_an_agent_works_on_its_tasks_in_order(tmp_path: Path) -> None:
    team = Team()

    async def scenario() -> None:
        with opened(tmp_path, team) as kernel:
            desk = kernel.for_tenant()
            ana = await agent(desk)
            await kernel.tasks.create(**own("a"), assigned_agent_id=ana)
            await desk.tasks.create(**own("b"), assigned_agent_id=ana, depends_on=["tasks/a"])
            await desk.tasks.create(**own("more"))

            results = await kernel.run_agent(ana)

            assert [(r.run_id, r.status) for r in results] == [
                ("tasks/a", "completed"),
                ("tasks/b", "completed"),
            ]
            assert (await desk.tasks.show("tasks/more"))["status"] == "pending"
            assert await desk.run_agent(ana) == []

    play(scenario())


def test_a_worker_begins_with_tasks_that_wait_for_nothing(tmp_path: Path) -> None:
    team = Team()

    async def scenario() -> None:
        with opened(tmp_path, team) as kernel:
            desk = kernel.for_tenant("acme")
            ana = await agent(desk)
            await desk.tasks.create(**own("a"), assigned_agent_id=ana)
            await desk.tasks.create(**own("b"), assigned_agent_id=ana, depends_on=["tasks/a"])
            await desk.tasks.create(**own("more"))  # nobody's
            worker = Worker(kernel, kernel.services)

            assert await worker.due() == [("acme", "tasks/a")]
            await worker.once()
            assert await worker.due() == [("acme", "tasks/b")]
            await worker.once()
            assert await worker.due() == []

            assert (await desk.tasks.list(status="done"))["items"][1]["id"] == "tasks/b"

    play(scenario())


def test_two_workers_do_each_task_once(tmp_path: Path) -> None:
    team = Team()

    async def scenario() -> None:
        with opened(tmp_path, team) as kernel, opened(tmp_path, team) as other:
            desk = kernel.for_tenant("acme")
            ana = await agent(desk)
            for slug in ("a", "b", "end", "own"):
                await desk.tasks.create(**own(slug), assigned_agent_id=ana)

            workers = [Worker(one, one.services) for one in (kernel, other)]
            await asyncio.gather(*(worker.once() for worker in workers))
            while any([await worker.once() for worker in workers]):
                pass

            assert [task["status"] for task in (await desk.tasks.list())["items"]] == ["done"] * 4
            assert team.count("Decision") == 4

    play(scenario())


def test_a_worker_drives_a_retried_task_of_an_ended_mission(tmp_path: Path) -> None:
    plan = planned({"slug": "a", "max_iterations": 1}, {"slug": "end", "after": ["a"]})
    team = Team(plan, scripts={"a": [THINK, write("Out a")]})

    async def scenario() -> None:
        with opened(tmp_path, team) as kernel:
            desk = kernel.for_tenant("acme")
            await launched(desk)
            worker = Worker(kernel, kernel.services)
            assert await worker.due() == []

            await desk.tasks.retry("m1/a", by="user:kim")
            await desk.tasks.retry("m1/end", by="user:kim")
            assert await worker.due() == [("acme", "m1/a")]
            await worker.once()
            assert await worker.due() == [("acme", "m1/end")]
            await worker.once()

            tasks = (await desk.tasks.list(mission=MISSION))["items"]
            assert [task["status"] for task in tasks] == ["done", "done"]
            assert await worker.due() == []

    play(scenario())


def test_a_worker_goes_on_with_a_mission_that_was_launched(tmp_path: Path) -> None:
    async def scenario() -> None:
        with opened(tmp_path, Team(planned({"slug": "a"}))) as kernel:
            desk = kernel.for_tenant("acme")
            await desk.plan("The goal.", mission_id=MISSION, model="m")
            worker = Worker(kernel, kernel.services)
            assert await worker.due() == []

            await desk.launch(MISSION)
            await worker.once()

            assert (await desk.mission(MISSION))["status"] == "completed"

    play(scenario())


def test_a_task_is_changed_while_nobody_works_on_it(tmp_path: Path) -> None:
    async def scenario() -> None:
        with opened(tmp_path, Team()) as kernel:
            desk = kernel.for_tenant("acme")
            ana = await agent(desk)
            await desk.tasks.create(**own())

            changed = await desk.tasks.change(
                "tasks/own", assigned_agent_id=ana, max_iterations=3, by="user:kim"
            )
            await desk.tasks.start("tasks/own")

            assert (changed["assigned_agent_id"], changed["max_iterations"]) == (ana, 3)
            assert changed["version"] == 2
            with pytest.raises(Conflict, match="is done"):
                await desk.tasks.change("tasks/own", max_iterations=4)

    play(scenario())


def test_a_cancelled_task_blocks_nobody_who_does_not_need_it(tmp_path: Path) -> None:
    async def scenario() -> None:
        with opened(tmp_path, Team()) as kernel:
            desk = kernel.for_tenant("acme")
            ana = await agent(desk)
            await desk.tasks.create(**own(), assigned_agent_id=ana)

            cancelled = await desk.tasks.cancel("tasks/own", by="user:kim")
            due = await Worker(kernel, kernel.services).due()
            with pytest.raises(Conflict, match="is cancelled"):
                await desk.tasks.start("tasks/own")
            with pytest.raises(Conflict, match="has ended"):
                await desk.tasks.cancel("tasks/own")
            again = await desk.tasks.retry("tasks/own")
            result = await desk.tasks.start("tasks/own")

            assert (cancelled["status"], due) == ("cancelled", [])
            assert again["status"] == "pending"
            assert result.status == "completed"

    play(scenario())


def test_a_failed_task_is_retried_with_more_iterations(tmp_path: Path) -> None:
    team = Team(scripts={"own": [THINK, write("Out own"), DONE]})

    async def scenario() -> None:
        with opened(tmp_path, team) as kernel:
            desk = kernel.for_tenant("acme")
            ana = await agent(desk)
            await desk.tasks.create(**own(), assigned_agent_id=ana, max_iterations=1)

            failed = await desk.tasks.start("tasks/own")
            await desk.tasks.retry("tasks/own", by="user:kim")
            done = await desk.tasks.start("tasks/own")

            assert (failed.status, failed.reason) == ("failed", "max_iterations")
            assert done.status == "completed"

    play(scenario())


CITIES = [look(city) for city in ("Oslo", "Bergen", "Molde", "Voss", "Hamar", "Moss", "Bodø", "Narvik")]

Way = Callable[[TenantKernel], Awaitable[object]]


async def _change_and_retry(desk: TenantKernel) -> None:
    await desk.tasks.change("tasks/own", max_iterations=3)
    await desk.retry("tasks/own")


WAYS: dict[str, Way] = {
    "retry": lambda desk: desk.tasks.retry("tasks/own", max_iterations=3),
    "change": _change_and_retry,
    "resume": lambda desk: desk.resume("tasks/own", max_iterations=5),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_task_has_as_many_iterations_as_a_person_allows_it_after_its_limit(
    tmp_path: Path, way: str
) -> None:
    """It had as many as it began with, whatever was asked for and shown."""
    team = Team(scripts={"own": CITIES})

    async def scenario() -> None:
        with opened(tmp_path, team) as kernel:
            desk = kernel.for_tenant("acme")
            ana = await agent(desk)
            await desk.tasks.create(**own(), assigned_agent_id=ana, max_iterations=2)
            assert (await desk.tasks.start("tasks/own")).reason == "max_iterations"

            await WAYS[way](desk)
            ahead = await next_prompt(desk, ana)
            before = await desk.tasks.show("tasks/own")
            again = await desk.tasks.start("tasks/own")
            after = await desk.tasks.show("tasks/own")

            assert (again.status, again.reason) == ("failed", "max_iterations")
            assert after["message"] == "not done after 3 iterations"
            assert (before["iteration_count"], after["iteration_count"]) == (2, 5)
            assert (before["last_iteration"], after["last_iteration"], ahead.last_iteration) == (5, 5, 5)
            assert team.count("Decision") == 5
            assert "Iteration 5 of 5" in text_of(team.requests[-1])
            assert (await replayed(kernel, "acme", "tasks/own")).reason == "max_iterations"

            await desk.resume("tasks/own", max_iterations=6)
            last = await desk.tasks.start("tasks/own")
            assert (last.reason, team.count("Decision")) == ("max_iterations", 6)
            assert (await replayed(kernel, "acme", "tasks/own")).reason == "max_iterations"

    play(scenario())


def test_steering_as_it_was_planned_yields_to_a_raised_limit_and_a_persons_does_not(tmp_path: Path) -> None:
    """A plan allows its agents five iterations at least: a task that was given eight had five."""
    task = {"slug": "figures", "max_iterations": 2}
    team = Team(planned(task), scripts={"figures": [*CITIES, look("Skien"), look("Lom"), THINK]})

    async def scenario() -> None:
        with opened(tmp_path, team) as kernel:
            desk = kernel.for_tenant("acme")
            await launched(desk)
            await desk.tasks.retry("m1/figures", max_iterations=8)
            result = await desk.tasks.start("m1/figures")
            shown = await desk.tasks.show("m1/figures")
            assert (result.reason, shown["message"]) == ("max_iterations", "not done after 8 iterations")
            assert (shown["iteration_count"], shown["last_iteration"]) == (10, 10)
            assert (await replayed(kernel, "acme", "m1/figures")).reason == "max_iterations"

            patch = {"sliders": {"iterations": 6}}
            await SteeringStore(desk).change("m1/by-figures", patch, by="user:kim")
            for wish in (
                desk.tasks.retry("m1/figures", max_iterations=7),
                desk.resume("m1/figures", max_iterations=17),
            ):
                with pytest.raises(Conflict, match="steering of 'm1/by-figures' allows") as refused:
                    await wish
                assert refused.value.expected == "at most 6"
            after = await desk.tasks.retry("m1/figures", max_iterations=6)
            assert (after["status"], after["last_iteration"]) == ("active", 16)

    play(scenario())


def test_a_limit_of_iterations_that_a_task_cannot_have_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    team = Team(scripts={"own": CITIES})

    async def scenario() -> None:
        with opened(tmp_path, team) as kernel:
            desk = kernel.for_tenant("acme")
            ana = await agent(desk)
            await desk.tasks.create(**own(), assigned_agent_id=ana, max_iterations=2)
            with pytest.raises(Conflict, match="is pending"):
                await desk.tasks.retry("tasks/own", max_iterations=6)
            assert (await desk.tasks.show("tasks/own"))["max_iterations"] == 2
            await desk.tasks.start("tasks/own")

            for most, error in ((2, Conflict), (23, InvalidRequest), (0, InvalidRequest)):
                with pytest.raises(error):
                    await desk.resume("tasks/own", max_iterations=most)
            with pytest.raises(InvalidRequest, match="no limit stuck_after"):
                await desk.resume("tasks/own", stuck_after=4)
            with pytest.raises(InvalidRequest, match="max_iterations"):
                await desk.tasks.retry("tasks/own", max_iterations=21)
            shown = await desk.tasks.show("tasks/own")

            assert (shown["status"], shown["max_iterations"], shown["version"]) == ("failed", 2, 1)

    play(scenario())


def test_while_its_mission_works_a_task_is_the_missions(tmp_path: Path) -> None:
    from artelier.tools.built_in import ask_tool

    ask = decide("use_tool", tool="ask_person", input={"question": "Which year?"})
    team = Team(planned({"slug": "a"}, {"slug": "b"}), scripts={"a": [ask]}, judge=reject)

    async def scenario() -> None:
        with opened(tmp_path, team, tools=[ask_tool()]) as kernel:
            desk = kernel.for_tenant("acme")
            await desk.plan("The goal.", mission_id=MISSION, model="m")
            await desk.launch(MISSION)
            await desk.drive_mission(MISSION, on_wait="return")

            for wish in (desk.tasks.start("m1/a"), desk.tasks.retry("m1/b")):
                with pytest.raises(Conflict, match="mission"):
                    await wish

    play(scenario())


@pytest.mark.parametrize(
    ("asked", "error"),
    [
        ({"goal": ""}, InvalidRequest),
        ({"success_criteria": "x" * 20_001}, InvalidRequest),
        ({"assigned_agent_id": "nobody"}, NotFound),
        ({"depends_on": ["tasks/none"]}, NotFound),
        ({"max_iterations": 21}, InvalidRequest),
        ({"checks": [{"kind": "regex"}]}, InvalidRequest),
        ({"id": "a b"}, InvalidRequest),
        ({"id": "tasks/there"}, VersionConflict),
        ({"mission": "m9"}, InvalidRequest),
        ({"mission": "m9", "id": "m9/x"}, NotFound),
        ({"workspace": "/gone"}, NotFound),
    ],
)
def test_a_task_that_makes_no_sense_is_refused(
    tmp_path: Path, asked: dict[str, Any], error: type[ArtelierError]
) -> None:
    async def scenario() -> None:
        with opened(tmp_path, Team()) as kernel:
            desk = kernel.for_tenant("acme")
            await desk.tasks.create(**own("there"))

            with pytest.raises(error):
                await desk.tasks.create(**{**own(), **asked})

            assert len((await desk.tasks.list())["items"]) == 1

    play(scenario())


def test_tasks_that_would_wait_for_each_other_are_refused(tmp_path: Path) -> None:
    async def scenario() -> None:
        with opened(tmp_path, Team()) as kernel:
            desk = kernel.for_tenant("acme")
            await desk.tasks.create(**own("a"))
            await desk.tasks.create(**own("b"), depends_on=["tasks/a"])

            with pytest.raises(InvalidRequest, match="wait for itself"):
                await desk.tasks.change("tasks/a", depends_on=["tasks/b"])

    play(scenario())


def test_lists_are_paged_and_filtered_and_of_one_tenant(tmp_path: Path) -> None:
    async def scenario() -> None:
        with opened(tmp_path, Team()) as kernel:
            desk = kernel.for_tenant("acme")
            ana = await agent(desk)
            for slug in ("a", "b", "more"):
                await desk.tasks.create(**own(slug), assigned_agent_id=ana if slug == "b" else None)

            first = await desk.tasks.list(limit=2)
            rest = await desk.tasks.list(after=first["next"] or 0)

            assert [task["id"] for task in first["items"]] == ["tasks/a", "tasks/b"]
            assert ([task["id"] for task in rest["items"]], rest["next"]) == (["tasks/more"], None)
            assert [t["id"] for t in (await desk.tasks.list(agent=ana))["items"]] == ["tasks/b"]
            assert (await kernel.for_tenant("globex").tasks.list())["items"] == []
            with pytest.raises(NotFound):
                await kernel.for_tenant("globex").tasks.show("tasks/a")
            with pytest.raises(InvalidRequest):
                await desk.tasks.list(status="nearly")

    play(scenario())


def test_an_agent_shows_its_tools_and_why_some_are_off(tmp_path: Path) -> None:
    async def scenario() -> None:
        with opened(tmp_path, Team()) as kernel:
            desk = kernel.for_tenant("acme")
            ana = await agent(desk, tools=["read_artifact"], budget_usd="0.50")

            shown = await desk.mission_agent(ana)

            off = {tool["name"]: tool["why_off"] for tool in shown["tools"] if not tool["enabled"]}
            assert off == {"sales_of": "switched off by steering"}
            assert shown["status"] == "idle"
            assert shown["budget"] == {"usd": 500_000, "used": 0, "left": 500_000}
            assert shown["steering"] is not None and shown["steering"]["id"] == "staff/ana/steering"
            with pytest.raises(NotFound):
                await desk.mission_agent("nobody")
            with pytest.raises(VersionConflict):
                await agent(desk)

    play(scenario())


def test_the_tools_of_an_agent_are_those_of_its_next_prompt(tmp_path: Path) -> None:
    """Those that the loop brings are among them, and one without room to delegate says why it cannot."""

    async def scenario() -> None:
        team = Team()
        with opened(tmp_path, team) as kernel:
            desk = kernel.for_tenant("acme")
            ana = await agent(desk)
            idle = await tools_of(desk, ana)
            await desk.tasks.create(**own(), assigned_agent_id=ana)

            assert idle == {"sales_of": None, "read_artifact": None, "delegate_task": None}
            assert await tools_of(desk, ana) == idle
            assert set((await next_prompt(desk, ana)).tools) == set(idle)

            patch = {"sliders": {"delegation_depth": 0}, "tools": {"read_artifact": False}}
            await SteeringStore(desk).change(ana, patch, by="user:kim")
            found = await tools_of(desk, ana)
            ahead = await next_prompt(desk, ana)
            await desk.tasks.start("tasks/own")

            assert found == {
                "sales_of": None,
                "read_artifact": "switched off by steering",
                "delegate_task": "steering allows no more delegation",
            }
            assert ahead.tools == ("sales_of",)
            asked = text_of(team.requests[0])
            assert "### sales_of" in asked
            assert "### read_artifact" not in asked and "### delegate_task" not in asked

    play(scenario())


def test_a_shipped_tool_without_a_list_of_servers_is_shown_as_off_with_the_reason(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "a.txt").write_text("hello")

    async def scenario() -> None:
        with opened(tmp_path, Team()) as kernel:
            desk = kernel.for_tenant("acme")
            ana = await agent(desk)
            await desk.tasks.create(**own(), assigned_agent_id=ana, workspace=str(folder))

            shown = await desk.mission_agent(ana)
            [one] = [tool for tool in shown["tools"] if tool["name"] == "http_json"]

            assert one == {
                "name": "http_json",
                "risk": "high",
                "side_effect": True,
                "enabled": False,
                "why_off": "no server is allowed: [tools.http] allow in artelier.toml",
            }
            assert "http_json" not in (await next_prompt(desk, ana)).tools

    play(scenario())


async def tools_of(desk: Any, agent: str) -> dict[str, str | None]:
    shown = await desk.mission_agent(agent)
    return {tool["name"]: tool["why_off"] for tool in shown["tools"]}


def test_what_work_stands_on_is_not_deleted_before_it_is_over(tmp_path: Path) -> None:
    """Whoever asks and by which door; an idle agent, a task that has ended and an idle membrane go."""

    async def scenario() -> None:
        with opened(tmp_path, Team()) as kernel:
            desk = kernel.for_tenant("acme")
            artifacts = desk.as_principal("operator").artifacts
            ana = await agent(desk)
            await desk.membranes.create("lab", name="Lab", members=[ana])
            await desk.tasks.create(**own(), assigned_agent_id=ana)

            said: list[str] = []
            for id in ("lab", ana, "tasks/own"):
                with pytest.raises(Conflict) as refused:
                    await artifacts.delete(id)
                said.append(str(refused.value))

            assert "its member staff/ana works on task tasks/own" in said[0]
            assert "task tasks/own is assigned to it" in said[1]
            assert "artelier tasks cancel tasks/own" in said[2]
            assert (await desk.tasks.start("tasks/own")).status == "completed"
            for id in ("lab", ana, "tasks/own"):
                await artifacts.delete(id)
            with pytest.raises(NotFound):
                await artifacts.read("lab")

    play(scenario())


def test_an_idle_member_and_a_cancelled_task_hold_nothing(tmp_path: Path) -> None:
    async def scenario() -> None:
        with opened(tmp_path, Team()) as kernel:
            desk = kernel.for_tenant("acme")
            artifacts = desk.as_principal("operator").artifacts
            ana, bob = await agent(desk), await agent(desk, "staff/bob")
            await desk.membranes.create("lab", name="Lab", members=[ana, bob])
            await desk.tasks.create(**own(), assigned_agent_id=ana)

            await artifacts.delete(bob)
            await desk.membranes.leave("lab", ana)
            await artifacts.delete("lab")
            await desk.tasks.cancel("tasks/own")
            await artifacts.delete("tasks/own")
            await artifacts.delete(ana)

            assert await desk.membranes.list() == []

    play(scenario())


def test_the_budget_of_a_membrane_holds_from_its_making_on(tmp_path: Path) -> None:
    """Its members stop where it is used up, and go on when it is raised; what they spent is told."""

    async def scenario() -> None:
        team = Team()
        team.model.price = Price(input=Decimal(1), output=Decimal(2))
        with opened(tmp_path, team) as kernel:
            desk = kernel.for_tenant("acme")
            ana = await agent(desk)
            made = await desk.membranes.create(
                "lab", name="Lab", members=[ana], budget_usd="0.000001", by="user:kim"
            )
            await desk.tasks.create(**own(), assigned_agent_id=ana)
            await desk.tasks.start("tasks/own", on_wait="return")
            stopped = await desk.tasks.show("tasks/own")

            assert (made.budget_usd, made.used_microusd) == ("0.000001", 0)
            assert (stopped["status"], stopped["reason"]) == ("blocked", "budget_exhausted")
            assert team.asked == []

            await change_membrane(desk, "lab", {"budget_usd": "5"}, by="user:kim")
            await desk.resume("tasks/own")
            await desk.tasks.start("tasks/own")
            shown = await desk.membranes.show("lab")

            assert (await desk.tasks.show("tasks/own"))["status"] == "done"
            spent = (await desk.tasks.show("tasks/own"))["cost_microusd"]
            assert shown.used_microusd == spent > 0
            (cap, *_) = [event async for event in kernel.events() if event.kind == "limit.set"]
            assert cap.actor == "user:kim"

    play(scenario())


def test_a_task_whose_dependency_is_not_done_is_blocked_until_it_is_tried_again(tmp_path: Path) -> None:
    """And so is what waits for that; a task that is made or changed later as well."""
    team = Team(scripts={"a": [THINK, THINK, THINK, write("Out a")]})

    async def scenario() -> None:
        with opened(tmp_path, team) as kernel:
            desk = kernel.for_tenant("acme")
            ana = await agent(desk)

            async def made(slug: str, *after: str) -> TaskDetail:
                before = [f"tasks/{one}" for one in after]
                return await desk.tasks.create(**own(slug), assigned_agent_id=ana, depends_on=before)

            async def stand() -> dict[str, tuple[str, str, str | None]]:
                return {
                    task["id"].partition("/")[2]: (task["status"], task["reason"], task["blocked_by"])
                    for task in (await desk.tasks.list())["items"]
                }

            await made("a")
            await made("b", "a")
            await made("end", "b")
            await desk.tasks.start("tasks/a")
            late = await made("more", "a")

            why = "dependency_failed"
            assert late["status"] == "blocked"
            assert await stand() == {
                "a": ("failed", "stuck", ""),
                "b": ("blocked", why, "tasks/a"),
                "end": ("blocked", why, "tasks/b"),
                "more": ("blocked", why, "tasks/a"),
            }
            with pytest.raises(Conflict, match="depends on a task that is not done"):
                await desk.tasks.retry("tasks/b")
            await desk.tasks.change("tasks/more", depends_on=[])
            await desk.tasks.retry("tasks/a")
            assert [(await stand())[one][0] for one in ("b", "end", "more")] == ["pending"] * 3

            await desk.run_agent(ana)
            await desk.tasks.start("tasks/a")
            await desk.run_agent(ana)

            assert {status for status, _, _ in (await stand()).values()} == {"done"}

    play(scenario())


def test_what_waits_for_a_task_that_people_cancel_is_blocked(tmp_path: Path) -> None:
    async def scenario() -> None:
        with opened(tmp_path, Team()) as kernel:
            desk = kernel.for_tenant("acme")
            ana = await agent(desk)
            await desk.tasks.create(**own("a"), assigned_agent_id=ana)
            await desk.tasks.create(**own("b"), assigned_agent_id=ana, depends_on=["tasks/a"])

            await desk.tasks.cancel("tasks/a")
            blocked = await desk.tasks.show("tasks/b")
            await desk.tasks.retry("tasks/a")

            assert (blocked["status"], blocked["blocked_by"]) == ("blocked", "tasks/a")
            assert (await desk.tasks.show("tasks/b"))["status"] == "pending"

    play(scenario())
