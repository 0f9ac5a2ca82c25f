"""A goal through the API: planned, launched, at work, and what came of it."""

from __future__ import annotations

import asyncio
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest

from artelier.ports.media import MediaRules
from artelier.server.background_tasks import errands_of
from artelier.testing import ScriptedMediaModel, ScriptedModel
from artelier.tokens.estimate import IMAGES
from tests.media.samples import png
from tests.missions.mission_stage import FORK, GOAL, LINE, MISSION, Team, planned
from tests.missions.task_stage import look, write
from tests.server.routes.goals import Held, actors, launched_by, planned_by, stands
from tests.server.routes.served import at, good, play, refused, serving


def test_a_goal_becomes_a_plan_with_an_estimate_and_nothing_is_launched(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(tmp_path, model=Team(LINE).model) as served:
            found = await planned_by(served.ada)

            assert (found["mission"], found["status"]) == (MISSION, "waiting_approval")
            assert [task["slug"] for task in found["plan"]["tasks"]] == ["figures", "letter"]
            assert found["estimate"]["calls"] > 0 and found["estimate"]["cost_microusd"] == 0
            shown = good(await served.ada.get(at("missions", MISSION)))
            assert shown["launched_us"] is None and shown["tasks"] == [] == shown["agents"]
            assert [one["step"] for one in shown["approvals"]] == ["launch"]

    play(scenario())


def test_planning_is_answered_at_once_and_goes_on_beside_the_answer(tmp_path: Path) -> None:
    async def scenario() -> None:
        held = Held(LINE)
        team = Team(held)
        async with serving(tmp_path, model=team.model, has_worker=False) as served:
            asked = {"goal": GOAL, "model": "m", "mission_id": MISSION}
            begun = good(await served.ada.post("/god-mode/plan", json=asked), 202)
            assert (begun["status"], begun["plan"]) == ("running", None)
            assert good(await served.ada.get("/runs"))["items"][0]["id"] == MISSION
            refused(await served.ada.post("/god-mode/plan", json=asked), 409, "conflict")
            held.go.set()
            done = await stands(served.ada, at("missions", MISSION), "waiting_approval")
            assert done["plan"] == good(await served.ada.post("/god-mode/plan?wait=60", json=asked))["plan"]
        assert team.count("Plan") == 1

    play(scenario())


def test_an_id_is_one_goal_at_all_servers_of_a_store(tmp_path: Path) -> None:
    """While one server plans, another is asked for the same, and for something else under that id."""

    async def scenario() -> None:
        held = Held(LINE)
        team = Team(held)
        async with (
            serving(tmp_path, model=team.model, has_worker=False) as one,
            serving(tmp_path, model=team.model, has_worker=False) as two,
            serving(tmp_path, model=team.model, has_worker=False) as three,
        ):
            asked = {"goal": GOAL, "model": "m", "mission_id": MISSION}
            good(await one.ada.post("/god-mode/plan", json=asked), 202)
            other = {**asked, "goal": "Paint the house."}
            answer = refused(await two.ada.post("/god-mode/plan", json=other), 409, "conflict")
            assert "another goal" in answer["message"]
            refused(await one.ada.post("/god-mode/plan", json=other), 409, "conflict")
            same = good(await three.ada.post("/god-mode/plan", json=asked), 202)
            assert (same["mission"], same["status"]) == (MISSION, "running")
            held.go.set()
            await stands(one.ada, at("missions", MISSION), "waiting_approval")
        assert team.count("Plan") == 1

    play(scenario())


def test_of_two_goals_under_one_id_at_two_servers_at_once_one_is_refused(tmp_path: Path) -> None:
    async def scenario() -> None:
        plans = [Held(LINE) for _ in range(5)]  # a plan that is there is answered with 200
        model = Team(*plans).model
        async with (
            serving(tmp_path, model=model, has_worker=False) as one,
            serving(tmp_path, model=model, has_worker=False) as two,
        ):
            for n, plan in enumerate(plans):
                asked = {"model": "m", "mission_id": f"m{n}"}
                answers = await asyncio.gather(
                    one.ada.post("/god-mode/plan", json={**asked, "goal": GOAL}),
                    two.ada.post("/god-mode/plan", json={**asked, "goal": "Paint the house."}),
                )
                assert sorted(answer.status_code for answer in answers) == [202, 409]
                plan.go.set()

    play(scenario())


def test_of_two_budgets_under_one_id_at_two_servers_at_once_none_is_lost(tmp_path: Path) -> None:
    """Both were told 202, and the mission had the first one's cap, or none at all."""

    async def scenario() -> None:
        plans = [Held(LINE) for _ in range(5)]  # a plan that is there is answered with 200
        model = Team(*plans).model
        async with (
            serving(tmp_path, model=model, has_worker=False) as one,
            serving(tmp_path, model=model, has_worker=False) as two,
        ):
            for n, plan in enumerate(plans):
                asked = {"model": "m", "mission_id": f"m{n}", "goal": GOAL}
                free, capped = await asyncio.gather(
                    one.ada.post("/god-mode/plan", json=asked),
                    two.ada.post("/god-mode/plan", json={**asked, "budget_usd": "0.01"}),
                )
                budget = good(await one.ada.get(at("missions", f"m{n}")))["budget_microusd"]
                assert free.status_code == 202  # who asks for no cap goes on under that of the other
                assert (capped.status_code, budget) in ((202, 10_000), (409, None))
                if budget is None:
                    assert "other limits" in refused(capped, 409, "conflict")["message"]
                plan.go.set()

    play(scenario())


def test_the_goal_of_the_run_is_taken_by_a_server_that_is_losing_with_another_one(tmp_path: Path) -> None:
    """It was told that the mission is being worked on, by a server where that was another goal."""

    async def scenario() -> None:
        model = Team(*[LINE] * 8).model
        async with (
            serving(tmp_path, model=model, has_worker=False) as one,
            serving(tmp_path, model=model, has_worker=False) as two,
        ):
            for n in range(8):
                asked = {"goal": GOAL, "model": "m", "mission_id": f"m{n}"}
                answers = await asyncio.gather(
                    one.ada.post("/god-mode/plan", json=asked),
                    two.ada.post("/god-mode/plan", json={**asked, "goal": "Paint the house."}),
                    two.ada.post("/god-mode/plan", json=asked),
                )
                lost = [answer.status_code == 409 for answer in answers]
                assert lost in ([False, True, False], [True, False, True])

    play(scenario())


def test_who_sees_that_planning_has_stopped_is_answered_though_its_drive_has_not_let_go(
    tmp_path: Path,
) -> None:
    async def scenario() -> None:
        async with serving(tmp_path, model=Team(LINE).model, has_worker=False) as served:
            asked = {"goal": GOAL, "model": "m", "mission_id": MISSION}
            good(await served.ada.post("/god-mode/plan?wait=60", json=asked))
            errands, key = errands_of(served.app), ("mission", "default", MISSION)
            while (drive := errands.at_work(key)) is not None:
                await asyncio.wait({drive.task})
            ending = asyncio.Event()
            errands.start(key, ending.wait())
            asyncio.get_running_loop().call_later(0.05, ending.set)
            good(await served.ada.post("/god-mode/plan?wait=60", json=asked))

    play(scenario())


def test_a_launched_mission_is_driven_to_its_end_and_says_who_launched_it(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(tmp_path, model=Team(LINE).model) as served:
            await launched_by(served.ada)
            done = await stands(served.ada, at("missions", MISSION), "completed", "failed")

            assert (done["status"], done["outputs"]) == ("completed", ["m1/out-letter@1"])
            assert [task["status"] for task in done["tasks"]] == ["done", "done"]
            assert [agent["status"] for agent in done["agents"]] == ["done", "done"]
            assert [one["id"] for one in done["membranes"]] == ["m1/shared"]
            assert await actors(served, "approval.given") == ["user:ada"]
            assert set(await actors(served, "task.created")) == {"user:ada"}
            line = good(await served.ada.get("/missions"))["items"][0]
            assert (line["tasks"], line["done"], line["goal"]) == (2, 2, GOAL)

    play(scenario())


def test_an_edited_plan_is_launched_in_place_of_the_models(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(tmp_path, model=Team(LINE).model) as served:
            await planned_by(served.ada)
            asked = {"mission": MISSION, "plan": planned({"slug": "own"})}
            good(await served.ada.post("/god-mode/launch", json=asked))
            done = await stands(served.ada, at("missions", MISSION), "completed", "failed")

            assert done["edited"] and [task["id"] for task in done["tasks"]] == ["m1/own"]

    play(scenario())


def circle() -> Any:
    return planned({"slug": "a", "after": ["b"]}, {"slug": "b", "after": ["a"]})


@pytest.mark.parametrize(
    ("plan", "says"),
    [
        (circle(), "wait for each other"),
        ({**LINE, "agents": []}, "agents"),
        ({**LINE, "extra": 1}, "extra"),
        (planned({"slug": "a", "max_iterations": 99}), "max_iterations"),
        (planned({"slug": "own"}, agents=[{"slug": "x", "name": "X"}]), "there is no agent"),
        (planned({"slug": "own"}, agents=[{"slug": "by-own", "name": "X", "tools": ["fly"]}]), "fly"),
    ],
)
def test_mistakes_of_an_edited_plan_are_named_and_nothing_is_launched(
    tmp_path: Path, plan: Any, says: str
) -> None:
    async def scenario() -> None:
        async with serving(tmp_path, model=Team(LINE).model, has_worker=False) as served:
            await planned_by(served.ada)
            answer = await served.ada.post(at("god-mode", MISSION, "launch"), json={"plan": plan})

            error = refused(answer, 422)
            assert says in f"{error['message']} {error['got']}"
            shown = good(await served.ada.get(at("missions", MISSION)))
            assert shown["status"] == "waiting_approval" and shown["tasks"] == []

    play(scenario())


def test_a_mission_is_launched_once(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(tmp_path, model=Team(LINE).model) as served:
            await launched_by(served.ada)
            for address in (at("god-mode", MISSION, "launch"), at("god-mode", "nobody", "launch")):
                status = 409 if MISSION in address else 404
                refused(await served.ada.post(address, json={}), status)
            await stands(served.ada, at("missions", MISSION), "completed")
            again = await served.ada.post(at("god-mode", MISSION, "launch"), json={})
            assert "launched already" in refused(again, 409, "conflict")["message"]

    play(scenario())


@pytest.mark.parametrize(
    ("asked", "status", "code"),
    [
        ({"goal": "  "}, 422, "invalid_request"),
        ({"goal": ""}, 422, "invalid_request"),
        ({"goal": GOAL, "model": "no-such-model"}, 422, "missing_key"),
        ({"goal": GOAL, "model": "m", "mission_id": "a b"}, 422, "invalid_request"),
        ({"goal": GOAL, "model": "m", "mission_id": "x" * 400}, 422, "invalid_request"),
        ({"goal": GOAL, "model": "m", "budget_usd": "-1"}, 422, "invalid_request"),
        ({"goal": GOAL, "model": "m", "budget_usd": "1e3"}, 422, "invalid_request"),
        ({"goal": GOAL, "model": "m", "workspace": "/etc"}, 403, "access_denied"),
        ({"goal": GOAL, "model": "m", "workspace": "../.."}, 403, "access_denied"),
        ({"goal": GOAL, "model": "m", "workspace": "gone"}, 404, "not_found"),
        ({"goal": GOAL, "model": "m", "workspace": "a\0b"}, 422, "invalid_request"),
    ],
)
def test_a_goal_that_cannot_be_planned_leaves_no_run(
    tmp_path: Path, asked: Any, status: int, code: str
) -> None:
    async def scenario() -> None:
        folder = tmp_path / "desk"
        folder.mkdir()
        async with serving(tmp_path, model=Team(LINE).model, workspace=str(folder)) as served:
            refused(await served.ada.post("/god-mode/plan", json=asked), status, code)
            assert good(await served.ada.get("/runs"))["items"] == []

    play(scenario())


def test_a_folder_of_the_servers_workspace_may_be_named(tmp_path: Path) -> None:
    async def scenario() -> None:
        folder = tmp_path / "desk"
        (folder / "sales").mkdir(parents=True)
        (folder / "out").symlink_to("/etc")
        async with serving(tmp_path, model=Team(LINE).model, workspace=str(folder)) as served:
            await planned_by(served.ada, workspace="sales")
            shown = good(await served.ada.get(at("missions", MISSION)))
            assert shown["workspace"] == "desk/sales", "no path of the host"
            link = {"goal": GOAL, "model": "m", "workspace": "out"}
            refused(await served.ada.post("/god-mode/plan", json=link), 403, "access_denied")

    play(scenario())


def test_a_plan_that_fails_says_why(tmp_path: Path) -> None:
    async def scenario() -> None:
        model = ScriptedModel([{"agents": []}, {"agents": []}])
        async with serving(tmp_path, model=model) as served:
            asked = {"goal": GOAL, "model": "m"}
            found = good(await served.ada.post("/god-mode/plan?wait=60", json=asked))
            assert (found["status"], found["reason"]) == ("failed", "plan_invalid")
            assert found["message"] and found["plan"] is None

    play(scenario())


def test_a_budget_is_a_cap_of_the_mission(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(tmp_path, model=Team(LINE).model) as served:
            await planned_by(served.ada, budget_usd="0.25")
            shown = good(await served.ada.get(at("missions", MISSION)))
            assert shown["budget_microusd"] == 250_000

    play(scenario())


def test_all_that_is_at_work_is_paused_and_goes_on(tmp_path: Path) -> None:
    async def scenario() -> None:
        held = {slug: Held(look()) for slug in ("a", "b")}
        team = Team(FORK, scripts={slug: [one, write(slug)] for slug, one in held.items()})
        async with serving(tmp_path, model=team.model) as served:
            await launched_by(served.ada)
            for one in held.values():
                await one.asked.wait()

            paused = good(await served.ada.post("/runs/pause-all?mission=m1", json={}))
            assert [one["run_id"] for one in paused["items"]] == ["m1"]
            for one in held.values():
                one.go.set()
            for slug in held:
                await stands(served.ada, at("runs", f"m1/{slug}"), "paused")
            await stands(served.ada, at("runs", "m1"), "paused")
            again = good(await served.ada.post("/runs/pause-all", json={}))
            assert again["items"] == []

            resumed = good(await served.ada.post("/runs/resume-all", params={"mission": "m1"}))
            assert {one["effect"] for one in resumed["items"]} == {"run.resumed"}
            done = await stands(served.ada, at("missions", "m1"), "completed", "failed")
            assert done["status"] == "completed"
            assert set(await actors(served, "command.given")) == {"user:ada"}

    play(scenario())


def test_what_is_stopped_goes_on_where_it_was(tmp_path: Path) -> None:
    async def scenario() -> None:
        held = Held(look())
        team = Team(planned({"slug": "own"}), scripts={"own": [held, write("Own")]})
        async with serving(tmp_path, model=team.model) as served:
            await launched_by(served.ada)
            await held.asked.wait()
            assert good(await served.ada.post("/runs/stop-all", json={"note": "lunch"}))["items"]
            await stands(served.ada, at("runs", "m1/own"), "paused")
            await stands(served.ada, at("runs", "m1"), "paused")
            good(await served.ada.post("/runs/resume-all"))
            done = await stands(served.ada, at("missions", "m1"), "completed", "failed")
            assert done["status"] == "completed"

    play(scenario())


def test_a_run_that_is_no_mission_is_none_here(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(tmp_path, has_worker=False) as served:
            async with served.kernel.run("plain") as run:
                await run.step_model(model="m", messages=[{"role": "user", "content": "hi"}])
            for method, address in (
                ("GET", "/missions/plain"),
                ("POST", "/god-mode/plain/launch"),
                ("POST", "/runs/pause-all?mission=plain"),
                ("GET", "/missions/nobody"),
                ("POST", "/runs/stop-all?mission=nobody"),
            ):
                answer = await served.ada.request(method, address, json={})
                assert answer.status_code in (404, 409), answer.text
            assert good(await served.ada.get("/missions"))["items"] == []

    play(scenario())


def test_goals_are_listed_from_either_end_and_pages_go_on(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(tmp_path, model=Team(LINE, LINE, LINE).model, has_worker=False) as served:
            for number in range(3):
                await planned_by(served.ada, mission_id=f"m{number}")

            async def listed(query: str) -> tuple[list[str], Any]:
                page = good(await served.ada.get(f"/missions?{query}"))
                return [one["id"] for one in page["items"]], page["next"]

            assert await listed("limit=9") == (["m0", "m1", "m2"], None)
            newest, following = await listed("newest_first=true&limit=2")
            assert newest == ["m2", "m1"]
            assert await listed(f"newest_first=true&limit=2&after={following}") == (["m0"], None)

    play(scenario())


def test_parameters_of_a_mission_and_of_an_agent_come_over_http(tmp_path: Path) -> None:
    async def scenario() -> None:
        team = Team(LINE)
        async with serving(tmp_path, model=team.model, has_worker=False) as served:
            await planned_by(served.ada, params={"temperature": 0.25, "seed": 7})
            assert [one.params["seed"] for one in team.requests] == [7]
            asked = {"goal": GOAL, "model": "m", "mission_id": "other", "params": {"temprature": 1}}
            answer = refused(await served.ada.post("/god-mode/plan", json=asked), 422, "invalid_request")
            assert "there is no field 'temprature'; did you mean 'temperature'?" in answer["message"]
            for params in ({"seeds": 1, "x": 2}, {"temperature": 9}, {"seed": -1}, {"extra": {"model": "x"}}):
                asked = {"goal": GOAL, "model": "m", "mission_id": "other", "params": params}
                refused(await served.ada.post("/god-mode/plan", json=asked), 422, "invalid_request")
            refused(await served.ada.get(at("missions", "other")), 404)

    play(scenario())


def test_what_comes_with_a_goal_is_a_data_url_or_an_artifact_and_a_bad_one_is_refused(tmp_path: Path) -> None:
    def url(content: bytes, media_type: str = "image/png") -> str:
        return f"data:{media_type};base64,{b64encode(content).decode()}"

    async def scenario() -> None:
        model = ScriptedMediaModel([LINE], rules=MediaRules(types=IMAGES, bound=lambda medium: 1_000))
        async with serving(tmp_path, model=model) as served:
            for bad in ("https://example.com/a.png", url(png()[:-6]), url(b"\0", "text/plain"), "no ref!"):
                asked = {"goal": GOAL, "model": "m", "mission_id": MISSION, "attachments": [bad]}
                refused(await served.ada.post("/god-mode/plan", json=asked), 422)
            refused(await served.ada.get(at("missions", MISSION)), 404, "not_found")

            note = url(b"region,amount\nOslo,12\n", "text/csv")
            file = ("red.png", png(5, 5))
            (item,) = good(await served.ada.post("/uploads", files={"file": file}), 201)["items"]
            gone = {"goal": GOAL, "model": "m", "mission_id": MISSION, "attachments": ["uploads/gone.png"]}
            refused(await served.ada.post("/god-mode/plan", json=gone), 404, "not_found")
            await planned_by(served.ada, attachments=[f"{item['id']}@{item['version']}", note])
            shown = good(await served.ada.get(at("missions", MISSION)))["attachments"]
            assert [(one["media_type"], one["pixels"]) for one in shown] == [
                ("image/png", [5, 5]),
                ("text/plain", None),
            ]
            address = at("runs", MISSION, "media", shown[0]["blob"])
            sent = await served.ada.get(address, params={"step": "plan"})
            assert (sent.content, sent.headers["content-type"]) == (png(5, 5), "image/png")
            assert model.media == [(png(5, 5),)]

    play(scenario())
