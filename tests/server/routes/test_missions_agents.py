"""Agents through the API: made, changed, told, and what each would be asked next."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from artelier import ModelRequest
from artelier.server.background_tasks import errands_of
from tests.missions.mission_stage import LINE, MISSION, Team
from tests.missions.task_stage import THINK, look, sales_of, title_of, write
from tests.server.routes.goals import Held, a_task, actors, an_agent, launched_by, planned_by, stands
from tests.server.routes.served import at, good, play, refused, serving

ANA = at("agents", "ana")
OWN = at("tasks", "tasks/own")


def test_agents_of_missions_stand_beside_those_that_just_have_runs(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(tmp_path, model=Team(LINE).model, tools=[sales_of]) as served:
            async with served.kernel.run("r1", agent="plain") as run:
                await run.step_tool("sales_of", {"city": "Oslo"})
            await launched_by(served.ada)
            await stands(served.ada, at("missions", MISSION), "completed", "failed")
            await an_agent(served.ada)

            listed = good(await served.ada.get("/agents"))["items"]
            assert [one["id"] for one in listed] == ["ana", "m1/by-figures", "m1/by-letter", "plain"]
            assert [one["is_assignable"] for one in listed] == [True, True, True, False]
            assert [one["status"] for one in listed] == ["idle", "done", "done", None]
            assert [one["runs"] for one in listed] == [0, 1, 1, 1]
            of = good(await served.ada.get(f"/agents?mission={MISSION}"))["items"]
            assert [one["id"] for one in of] == ["m1/by-figures", "m1/by-letter"]
            first = good(await served.ada.get("/agents?limit=2"))
            rest = good(await served.ada.get("/agents", params={"after": first["next"]}))
            assert [*first["items"], *rest["items"]] == listed and rest["next"] is None

    play(scenario())


def test_an_agent_is_shown_with_its_tools_steering_membranes_and_budget(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(tmp_path, model=Team(LINE).model, tools=[sales_of]) as served:
            await launched_by(served.ada)
            await stands(served.ada, at("missions", MISSION), "completed", "failed")
            shown = good(await served.ada.get(at("agents", "m1/by-letter")))

            assert (shown["mission"], shown["membranes"]) == (MISSION, ["m1/shared"])
            assert {one["name"] for one in shown["tools"]} >= {"sales_of", "read_artifact"}
            assert shown["steering"]["id"] == "m1/by-letter/steering"
            assert shown["budget"] == {"usd": None, "used": 0, "left": None}
            assert shown["next"] is None and shown["card"]["agent_id"] == "m1/by-letter"
            refused(await served.ada.get(at("agents", "nobody")), 404, "not_found")
            refused(await served.ada.get(at("agents", "m1/figures")), 404, "not_found")

    play(scenario())


def test_an_agent_is_made_with_a_budget_and_changed_by_a_person(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(tmp_path, model=Team().model, has_worker=False) as served:
            made = await an_agent(served.ada, budget_usd="0.60")
            assert (made["status"], made["budget"]["usd"]) == ("idle", 600_000)
            note = {"id": "handbook", "kind": "document", "content": "Oslo first.", "media": "text"}
            good(await served.ada.post("/artifacts", json=note), 201)

            asked = {"role": "Bold.", "memory_artifact_id": "handbook", "expected_version": 1}
            changed = good(await served.ada.patch(ANA, json=asked))
            assert (changed["role"], changed["memory"], changed["version"]) == ("Bold.", "handbook", 2)
            assert changed["name"] == "Ana" and changed["steering"]["version"] == 1
            refused(await served.ada.patch(ANA, json=asked), 409, "version_conflict")
            gone = good(await served.ada.patch(ANA, json={"memory_artifact_id": None}))
            assert gone["memory"] is None
            assert await actors(served, "artifact.written", stream="artifact:ana") == ["user:ada"] * 4

    play(scenario())


@pytest.mark.parametrize(
    ("asked", "status"),
    [
        ({"memory_artifact_id": "nothing"}, 404),
        ({"model": "no-such-model"}, 422),
        ({"name": ""}, 422),
        ({"tools": "all"}, 422),
        ({"steering_artifact_id": "x"}, 422),
        ({"name": None}, 422),
    ],
)
def test_a_change_that_cannot_be_changes_nothing(tmp_path: Path, asked: Any, status: int) -> None:
    async def scenario() -> None:
        async with serving(tmp_path, model=Team().model, has_worker=False) as served:
            await an_agent(served.ada)
            refused(await served.ada.patch(ANA, json=asked), status)
            assert good(await served.ada.get(ANA))["version"] == 1

    play(scenario())


def test_an_agent_below_a_mission_needs_that_mission(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(tmp_path, model=Team(LINE).model, has_worker=False) as served:
            asked = {"name": "Bo", "mission": "m9"}
            refused(await served.ada.post("/agents", json=asked), 404, "not_found")
            await planned_by(served.ada)
            made = good(await served.ada.post("/agents", json={**asked, "mission": MISSION}), 201)
            assert made["id"].startswith("m1/bo-")
            assert (made["mission"], made["model"]) == (MISSION, "m")
            for id_ in ("agents/x", "a b", "", "a@1"):
                refused(await served.ada.post("/agents", json={"name": "Bo", "id": id_}), 422)
            await an_agent(served.ada)
            refused(await served.ada.post("/agents", json={"name": "A", "id": "ana"}), 409)

    play(scenario())


# What people tell it


def test_an_agent_is_paused_stepped_told_and_goes_on(tmp_path: Path) -> None:
    async def scenario() -> None:
        held, team = Held(THINK), Team()
        team.scripts["own"] = [held, look(), write("Own")]
        async with serving(tmp_path, model=team.model, tools=[sales_of]) as served:
            await an_agent(served.ada)
            await a_task(served.ada)
            await held.asked.wait()
            told = good(await served.ada.post(f"{ANA}/pause", json={"note": "look first"}))
            assert [one["effect"] for one in told["effects"]] == ["run.paused"]
            held.go.set()
            await stands(served.ada, at("runs", "tasks/own"), "paused")

            good(await served.ada.post(f"{ANA}/note", json={"note": "Mind the kroner."}))
            stepped = good(await served.ada.post(f"{ANA}/step", json={}))
            assert stepped["effects"][0]["effect"] == "run.resumed"
            await stands(served.ada, at("runs", "tasks/own"), "paused")
            assert good(await served.ada.get(OWN))["iteration_count"] in (1, 2)

            good(await served.ada.post(f"{ANA}/resume", json={}))
            assert (await stands(served.ada, OWN, "done", "failed"))["status"] == "done"
            refused(await served.ada.post(f"{ANA}/pause", json={}), 409, "conflict")
            assert set(await actors(served, "command.given")) == {"user:ada"}
            assert any("Mind the kroner." in texts(asked) for asked in team.requests)

    play(scenario())


def test_an_agent_works_on_what_waits_for_it(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(tmp_path, model=Team().model, has_worker=False) as served:
            await an_agent(served.ada)
            await a_task(served.ada, "a")
            await a_task(served.ada, depends_on=["tasks/a"])
            good(await served.ada.post(f"{ANA}/run", json={}), 202)
            assert (await stands(served.ada, OWN, "done", "failed"))["status"] == "done"
            refused(await served.ada.post(at("agents", "nobody", "run"), json={}), 404)
            refused(await served.ada.post(at("agents", "nobody", "pause"), json={}), 404)

    play(scenario())


def test_an_agent_works_with_the_parameters_that_are_asked_for(tmp_path: Path) -> None:
    async def scenario() -> None:
        team = Team()
        async with serving(tmp_path, model=team.model, has_worker=False) as served:
            await an_agent(served.ada)
            await a_task(served.ada)
            refused(await served.ada.post(f"{ANA}/run", json={"params": {"temperature": 9}}), 422)
            good(await served.ada.post(f"{ANA}/run", json={"params": {"seed": 7}}), 202)
            assert (await stands(served.ada, OWN, "done", "failed"))["status"] == "done"
            assert {one.params.get("seed") for one in team.requests} == {7}

    play(scenario())


def test_an_agent_asked_again_while_its_drive_ends_works_on_what_came_meanwhile(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(tmp_path, model=Team().model, has_worker=False) as served:
            await an_agent(served.ada)
            await a_task(served.ada)
            good(await served.ada.post(f"{ANA}/run", json={}), 202)
            assert errands_of(served.app).at_work(("agent", "default", "ana")) is not None
            await stands(served.ada, OWN, "done", "failed")
            await a_task(served.ada, "late")
            good(await served.ada.post(f"{ANA}/run", json={}), 202)
            good(await served.ada.post(f"{ANA}/run", json={}), 202)
            assert (await stands(served.ada, at("tasks", "tasks/late"), "done", "failed"))["status"] == "done"

    play(scenario())


# What it would be asked


def texts(request: ModelRequest) -> str:
    return "\n\n".join(message.text for message in request.messages)


async def looked(client: Any, agent: str = "ana") -> Any:
    found = good(await client.get(at("agents", agent, "next-prompt")))
    assert (found["agent"], found["why"]) == (agent, None)
    return found["prompt"]


async def sent(served: Any, step: str, run: str = "tasks/own") -> Any:
    return good(await served.ada.get(at("runs", run, "manifest"), params={"step": step}))


def same(found: Any, manifest: Any) -> None:
    """Every section is the one that was sent, in the same order, from the same sources."""
    for name in ("tag", "tokens", "source", "stability", "trust", "cut", "reason"):
        shown = [one[name] for one in found["sections"] if one["tag"] != "conversation"]
        was = [one[name] for one in manifest["sections"] if one["tag"] != "conversation"]
        assert shown == was, name
    assert [one["tag"] for one in found["sections"]] == [one["tag"] for one in manifest["sections"]]
    assert [(one["tag"], one["why"]) for one in found["dropped"]] == [
        (one["tag"], one["why"]) for one in manifest["dropped"]
    ]
    assert found["tokens"] == manifest["tokens"]


def test_the_next_prompt_of_a_task_that_waits_is_what_is_asked_then(tmp_path: Path) -> None:
    async def scenario() -> None:
        team = Team()
        async with serving(tmp_path, model=team.model, tools=[sales_of], has_worker=False) as served:
            await an_agent(served.ada, budget_usd="0.60")
            note: dict[str, Any] = {"id": "handbook", "kind": "document", "content": "Oslo first."}
            note["access"] = {"allow": {"read": ["ana"]}}
            good(await served.ada.post("/artifacts", json=note), 201)
            await a_task(served.ada, inputs=["handbook"])
            before = (await served.kernel.store.root())[0]
            found = await looked(served.ada)
            assert (await served.kernel.store.root())[0] == before and not team.requests

            assert (found["task"], found["iteration"], found["is_begun"]) == ("tasks/own", 1, False)
            assert found["missing"] is None and "sales_of" in found["tools"]
            good(await served.ada.post(f"{OWN}/start", json={}), 202)
            await stands(served.ada, OWN, "done", "failed")
            same(found, await sent(served, "c1/decision"))
            asked = texts(next(one for one in team.requests if title_of(one) == "Decision"))
            for section in found["sections"]:
                assert section["text"] in asked, section["tag"]

    play(scenario())


def test_the_next_prompt_of_a_task_at_work_knows_results_notes_and_steering(tmp_path: Path) -> None:
    async def scenario() -> None:
        held, team = Held(look()), Team()
        team.scripts["own"] = [held, write("Own")]
        async with serving(tmp_path, model=team.model, tools=[sales_of]) as served:
            await an_agent(served.ada)
            await a_task(served.ada)
            await held.asked.wait()
            now = await looked(served.ada)
            assert (now["asked_now"], now["iteration"]) == ("c1/decision", 1)
            good(await served.ada.post(f"{ANA}/step", json={}))
            held.go.set()
            await stands(served.ada, at("runs", "tasks/own"), "paused")

            plain = await looked(served.ada)
            assert (plain["iteration"], plain["asked_now"], plain["is_begun"]) == (2, None, True)
            assert "4711" in str(plain["sections"])
            good(await served.ada.post(f"{ANA}/note", json={"note": "Mind the kroner."}))
            patch = {"xy": {"x": 1, "y": 0}, "tools": {"sales_of": False}}
            good(await served.ada.patch(at("steering", "ana"), json=patch))
            found = await looked(served.ada)
            assert "Mind the kroner." in str(found["sections"])
            assert found["temperature"] == 1.0 != plain["temperature"]
            assert "sales_of" in plain["tools"] and "sales_of" not in found["tools"]

            good(await served.ada.post(f"{ANA}/resume", json={}))
            await stands(served.ada, OWN, "done", "failed")
            same(found, await sent(served, "c2/decision"))
            request = [one for one in team.requests if title_of(one) == "Decision"][1]
            for section in found["sections"]:
                for said in section["messages"] or [section]:
                    assert said["text"] in texts(request), section["tag"]

    play(scenario())


def test_without_a_task_nothing_is_asked_next(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(tmp_path, model=Team().model, has_worker=False) as served:
            await an_agent(served.ada)
            none = good(await served.ada.get(f"{ANA}/next-prompt"))
            assert (none["agent"], none["prompt"]) == ("ana", None)
            assert "no open task" in none["why"]
            refused(await served.ada.get(at("agents", "nobody", "next-prompt")), 404, "not_found")
            await a_task(served.ada, inputs=["nothing-there"])
            assert (await looked(served.ada))["missing"] == "nothing-there"

    play(scenario())


def test_the_next_prompt_of_a_task_that_was_retried_is_what_is_asked_then(tmp_path: Path) -> None:
    async def scenario() -> None:
        team = Team(scripts={"own": [THINK, THINK, THINK, write("Own")]})
        async with serving(tmp_path, model=team.model, has_worker=False) as served:
            await an_agent(served.ada)
            await a_task(served.ada)
            good(await served.ada.post(f"{OWN}/start", json={}), 202)
            failed = await stands(served.ada, OWN, "done", "failed")
            assert (failed["reason"], failed["iteration_count"]) == ("stuck", 3)
            good(await served.ada.post(f"{OWN}/retry", json={}))
            found = await looked(served.ada)
            assert (found["iteration"], found["last_iteration"]) == (4, 8)

            good(await served.ada.post(f"{OWN}/start", json={}), 202)
            assert (await stands(served.ada, OWN, "done", "failed"))["status"] == "done"
            same(found, await sent(served, "c4/decision"))
            request = [one for one in team.requests if title_of(one) == "Decision"][3]
            for section in found["sections"]:
                for said in section["messages"] or [section]:
                    assert said["text"] in texts(request), section["tag"]

    play(scenario())
