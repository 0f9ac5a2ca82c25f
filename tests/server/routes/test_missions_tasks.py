"""Tasks through the API: made, changed, worked on, retried, ended."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.missions.mission_stage import LINE, MISSION, Team
from tests.missions.task_stage import DONE, THINK, look, write
from tests.server.routes.goals import Held, a_task, actors, an_agent, planned_by, stands
from tests.server.routes.served import at, good, play, refused, serving

OWN = at("tasks", "tasks/own")


def test_a_task_with_an_agent_is_worked_on_and_its_iterations_are_told(tmp_path: Path) -> None:
    async def scenario() -> None:
        team = Team(scripts={"own": [THINK, write("Own")]})
        async with serving(tmp_path, model=team.model) as served:
            await an_agent(served.ada)
            made = await a_task(served.ada)
            assert (made["status"], made["assigned_agent_id"]) == ("pending", "ana")
            done = await stands(served.ada, OWN, "done", "failed")

            assert (done["status"], done["iteration_count"]) == ("done", 2)
            assert len(done["outputs"]) == 1
            told = good(await served.ada.get(f"{OWN}/iterations"))["items"]
            assert [one["action"] for one in told] == ["analyze", "create_artifact"]
            assert (told[1]["passed"], told[1]["artifact"]) == (True, done["outputs"][0])
            quote = told[1]["verdict"]["criteria"][0]["evidence"][0]
            read = await served.ada.get(at("artifacts", quote["ref"].partition("@")[0]))
            assert quote["quote"] in good(read)["content"]
            assert await actors(served, "task.created") == ["user:ada"]

    play(scenario())


def test_a_task_without_an_agent_waits_until_it_is_assigned(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(tmp_path, model=Team().model, has_worker=False) as served:
            await an_agent(served.ada)
            await a_task(served.ada, assigned_agent_id=None)
            refused(await served.ada.post(f"{OWN}/start", json={}), 422, "invalid_request")
            changed = good(
                await served.ada.patch(OWN, json={"assigned_agent_id": "ana", "max_iterations": 3})
            )
            assert (changed["assigned_agent_id"], changed["max_iterations"]) == ("ana", 3)
            assert changed["version"] == 2
            begun = good(await served.ada.post(f"{OWN}/start", json={}), 202)
            assert begun["status"] in ("active", "done")
            done = await stands(served.ada, OWN, "done", "failed")
            assert done["status"] == "done"
            refused(await served.ada.patch(OWN, json={"max_iterations": 4}), 409, "conflict")
            assert await actors(served, "task.changed") == ["user:ada"]

    play(scenario())


def test_a_task_waits_for_what_it_depends_on(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(tmp_path, model=Team().model, has_worker=False) as served:
            await an_agent(served.ada)
            await a_task(served.ada, "a", assigned_agent_id=None)
            await a_task(served.ada, depends_on=["tasks/a"])
            answer = await served.ada.post(f"{OWN}/start", json={})
            assert "tasks/a" in refused(answer, 409, "conflict")["message"]
            loop = await served.ada.patch(at("tasks", "tasks/a"), json={"depends_on": ["tasks/own"]})
            assert "wait for itself" in refused(loop, 422)["message"]

    play(scenario())


def test_a_failed_task_is_retried_and_a_cancelled_one_is_over(tmp_path: Path) -> None:
    async def scenario() -> None:
        team = Team(scripts={"own": [THINK, THINK, THINK, write("Own")]})
        async with serving(tmp_path, model=team.model, has_worker=False) as served:
            await an_agent(served.ada)
            await a_task(served.ada)
            good(await served.ada.post(f"{OWN}/start", json={}), 202)
            failed = await stands(served.ada, OWN, "done", "failed")
            assert (failed["status"], failed["reason"]) == ("failed", "stuck")
            good(await served.ada.post(f"{OWN}/retry", json={}))
            good(await served.ada.post(f"{OWN}/start", json={}), 202)
            done = await stands(served.ada, OWN, "done", "failed")
            assert (done["status"], done["iteration_count"]) == ("done", 4)
            refused(await served.ada.post(f"{OWN}/retry", json={}), 409, "conflict")

            await a_task(served.ada, "more")
            ended = good(await served.ada.post(at("tasks", "tasks/more", "cancel"), json={"note": "no"}))
            assert ended["status"] == "cancelled"
            refused(await served.ada.post(at("tasks", "tasks/more", "cancel"), json={}), 409)
            assert await actors(served, "task.cancelled") == ["user:ada"]

    play(scenario())


def test_a_person_accepts_and_rejects_an_output_by_name(tmp_path: Path) -> None:
    async def scenario() -> None:
        team = Team(scripts={"own": [write("Own"), DONE, write("Own")]})
        async with serving(tmp_path, model=team.model, has_worker=False) as served:
            await an_agent(served.ada)
            await a_task(served.ada)
            refused(await served.ada.post(f"{OWN}/accept", json={}), 409, "conflict")
            good(await served.ada.post(f"{OWN}/start", json={}), 202)
            done = await stands(served.ada, OWN, "done", "failed")
            (ref,) = done["outputs"]
            said = {"output": ref, "note": "Bergen is missing."}
            rejected = good(await served.ada.post(f"{OWN}/reject", json=said))
            assert (rejected["status"], rejected["reason"]) == ("failed", "rejected")
            good(await served.ada.post(f"{OWN}/retry", json={}))
            good(await served.ada.post(f"{OWN}/start", json={}), 202)
            again = await stands(served.ada, OWN, "done", "failed")
            assert again["outputs"] == [ref.replace("@1", "@2")]
            refused(await served.ada.post(f"{OWN}/accept", json={"output": "other@1"}), 404)
            refused(await served.ada.post(f"{OWN}/accept", json={"verdict": True}), 422)
            accepted = good(await served.ada.post(f"{OWN}/accept", json={}))
            assert (accepted["status"], accepted["reason"]) == ("done", "accepted")
            assert [(one["accepted"], one["by"], one["note"]) for one in accepted["judged"]] == [
                (False, "user:ada", "Bergen is missing."),
                (True, "user:ada", ""),
            ]
            assert await actors(served, "output.judged") == ["user:ada"] * 2

    play(scenario())


def test_a_task_that_is_at_work_is_cancelled_with_its_run(tmp_path: Path) -> None:
    async def scenario() -> None:
        held = Held(look())
        async with serving(tmp_path, model=Team(scripts={"own": [held]}).model) as served:
            await an_agent(served.ada)
            await a_task(served.ada)
            await held.asked.wait()
            good(await served.ada.post(f"{OWN}/cancel", json={}))
            held.go.set()
            assert (await stands(served.ada, OWN, "cancelled"))["run_status"] == "cancelled"

    play(scenario())


def test_tasks_of_a_mission_are_its_to_drive(tmp_path: Path) -> None:
    async def scenario() -> None:
        held = Held(write("Figures"))
        team = Team(LINE, scripts={"figures": [held]})
        async with serving(tmp_path, model=team.model) as served:
            await planned_by(served.ada)
            early = {"goal": "The goal of more.", "success_criteria": "c", "mission": MISSION}
            assert "not launched" in refused(await served.ada.post("/tasks", json=early), 409)["message"]
            await served.ada.post(at("god-mode", MISSION, "launch"), json={})
            await held.asked.wait()
            answer = await served.ada.post(at("tasks", "m1/letter", "start"), json={})
            assert "driven by its mission" in refused(answer, 409)["message"]
            added = good(
                await served.ada.post("/tasks", json={**early, "assigned_agent_id": "m1/by-letter"}), 201
            )
            assert added["id"].startswith("m1/")
            held.go.set()
            done = await stands(served.ada, at("missions", MISSION), "completed", "failed")
            assert {task["status"] for task in done["tasks"]} == {"done"}
            listed = good(await served.ada.get(f"/tasks?mission={MISSION}&status=done"))["items"]
            assert [one["id"] for one in listed] == ["m1/figures", "m1/letter", added["id"]]
            of = good(await served.ada.get("/tasks", params={"agent": "m1/by-letter", "limit": 1}))
            assert [one["id"] for one in of["items"]] == ["m1/letter"] and of["next"]
            rest = good(await served.ada.get("/tasks", params={"agent": "m1/by-letter", "after": of["next"]}))
            assert [one["id"] for one in rest["items"]] == [added["id"]] and not rest["next"]

    play(scenario())


@pytest.mark.parametrize(
    ("asked", "status"),
    [
        ({"goal": "", "success_criteria": "c"}, 422),
        ({"goal": "g", "success_criteria": "c", "max_iterations": 0}, 422),
        ({"goal": "g", "success_criteria": "c", "id": "a#b"}, 422),
        ({"goal": "g", "success_criteria": "c", "id": "../x", "mission": "m9"}, 422),
        ({"goal": "g", "success_criteria": "c", "mission": "m9"}, 404),
        ({"goal": "g", "success_criteria": "c", "assigned_agent_id": "nobody"}, 404),
        ({"goal": "g", "success_criteria": "c", "depends_on": ["nothing"]}, 404),
        ({"goal": "g", "success_criteria": "c", "checks": [{"kind": "regex"}]}, 422),
        ({"goal": "g", "success_criteria": "c", "workspace": "/etc"}, 403),
        ({"goal": "g", "success_criteria": "c", "by": "somebody"}, 422),
    ],
)
def test_a_task_that_cannot_be_is_refused_and_nothing_is_there(
    tmp_path: Path, asked: Any, status: int
) -> None:
    async def scenario() -> None:
        async with serving(tmp_path, has_worker=False) as served:
            refused(await served.ada.post("/tasks", json=asked), status)
            assert good(await served.ada.get("/tasks"))["items"] == []

    play(scenario())


def test_an_id_is_taken_once(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(tmp_path, has_worker=False) as served:
            await an_agent(served.ada)
            await a_task(served.ada)
            asked = {"goal": "g", "success_criteria": "c", "id": "tasks/own"}
            refused(await served.ada.post("/tasks", json=asked), 409, "version_conflict")
            refused(await served.ada.get("/tasks?status=odd"), 422, "invalid_request")

    play(scenario())
