"""Nobody is given the name of somebody who acts: an agent's id is its principal and its actor."""

from __future__ import annotations

from pathlib import Path

import pytest

from artelier.errors import InvalidRequest
from tests.missions.mission_stage import GOAL, LINE, Team
from tests.server.routes.goals import a_task, actors, an_agent, planned_by
from tests.server.routes.served import good, play, refused, serving

RESERVED = [
    "operator",
    "system",
    "kernel",
    "user:adm",
    "user:ada/x",
    "system:x",
    "tenant:default",
    "membrane:m1/shared",
    "main:x",
    "mission:m1",
    "chat:c1",
    "run:m1",
]


@pytest.mark.parametrize("id_", RESERVED)
def test_no_agent_task_or_mission_gets_a_reserved_name(tmp_path: Path, id_: str) -> None:
    async def scenario() -> None:
        async with serving(tmp_path, model=Team(LINE).model, has_worker=False) as served:
            asked = {"id": id_, "name": "Eve", "model": "m"}
            refused(await served.ada.post("/agents", json=asked), 422, "invalid_request")
            task = {"id": id_, "goal": "g", "success_criteria": "c"}
            refused(await served.ada.post("/tasks", json=task), 422, "invalid_request")
            goal = {"goal": GOAL, "model": "m", "mission_id": id_}
            refused(await served.ada.post("/god-mode/plan", json=goal), 422, "invalid_request")
            desk = served.kernel.for_tenant("default")
            with pytest.raises(InvalidRequest):
                await desk.create_agent(id_, name="Eve", model="m")
            assert await actors(served, "artifact.written") == []
            assert await actors(served, "run.started") == []

    play(scenario())


def test_what_was_written_as_an_agent_by_hand_is_given_no_work_under_such_a_name(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(tmp_path, model=Team(LINE).model, has_worker=False) as served:
            written = {"id": "operator", "kind": "agent", "content": {"name": "Eve", "model": "m"}}
            made = await served.ada.post("/artifacts", json=written)
            assert made.status_code in (201, 422)
            task = {"goal": "g", "success_criteria": "c", "assigned_agent_id": "operator"}
            refused(await served.ada.post("/tasks", json=task), 422, "invalid_request")

    play(scenario())


def test_names_that_only_resemble_one_are_free(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(tmp_path, model=Team(LINE).model, has_worker=False) as served:
            for id_ in ("operators", "systems/ana", "team/operator", "agent:ana"):
                await an_agent(served.ada, id_)
            await a_task(served.ada, assigned_agent_id="team/operator")
            assert good(await served.ada.get("/tasks"))["items"]
            assert (await planned_by(served.ada))["status"]

    play(scenario())
