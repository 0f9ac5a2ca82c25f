"""Membranes and steering through the API: who reads what, and what a person's word changes when."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.missions.mission_stage import LINE, MISSION, Team
from tests.missions.task_stage import THINK, look, sales_of, title_of, write
from tests.server.routes.goals import Held, a_task, actors, an_agent, launched_by, stands
from tests.server.routes.served import at, good, play, refused, serving

POOL = at("membranes", "pool")
STEERING = at("steering", "ana")


async def pool(client: Any, *members: str, **more: Any) -> Any:
    asked = {"id": "pool", "name": "The pool", "members": list(members), **more}
    return good(await client.post("/membranes", json=asked), 201)


async def document(client: Any, id_: str, content: str) -> None:
    asked = {"id": id_, "kind": "document", "content": content, "access": "private"}
    good(await client.post("/artifacts", json=asked), 201)


def test_members_read_what_is_shared_and_nothing_after_they_left(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(tmp_path, model=Team().model, has_worker=False) as served:
            await an_agent(served.ada)
            await document(served.ada, "handbook", "CANARY-1")
            await pool(served.ada)
            reader = served.kernel.for_tenant("default").as_principal("ana").artifacts

            shared = good(await served.ada.post(f"{POOL}/share", json={"artifact": "handbook"}))
            assert [one["id"] for one in shared["shared"]] == ["handbook"]
            assert not (await reader.access("handbook", "read")).allowed
            joined = good(await served.ada.post(f"{POOL}/join", json={"agent": "ana"}))
            assert joined["members"] == ["ana"]
            assert (await reader.read("handbook")).content == "CANARY-1"
            await a_task(served.ada)
            asked = await served.ada.get(at("agents", "ana", "next-prompt"))
            assert "CANARY-1" in str(good(asked)["prompt"]["sections"])

            good(await served.ada.post(f"{POOL}/leave", json={"agent": "ana"}))
            assert not (await reader.access("handbook", "read")).allowed
            asked = await served.ada.get(at("agents", "ana", "next-prompt"))
            assert good(asked)["prompt"] and "CANARY-1" not in asked.text
            good(await served.ada.post(f"{POOL}/unshare", json={"artifact": "handbook"}))
            assert good(await served.ada.get(f"{POOL}/shared"))["items"] == []
            assert await actors(served, "group.joined") == ["user:ada"]
            assert await actors(served, "group.left") == ["user:ada"]

    play(scenario())


def test_what_cannot_be_joined_or_shared_says_why(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(tmp_path, has_worker=False) as served:
            await pool(served.ada, "ana")
            await document(served.ada, "handbook", "x")
            for verb, body, status in (
                ("join", {"agent": "ana"}, 409),
                ("leave", {"agent": "bo"}, 409),
                ("join", {"agent": "a b"}, 422),
                ("join", {}, 422),
                ("share", {"artifact": "gone"}, 404),
                ("unshare", {"artifact": "handbook"}, 409),
                ("share", {"artifact": "handbook@1"}, 422),
            ):
                refused(await served.ada.post(f"{POOL}/{verb}", json=body), status)
            for verb in ("join", "leave"):
                refused(await served.ada.post(at("membranes", "none", verb), json={"agent": "ana"}), 404)
            refused(await served.ada.get(at("membranes", "handbook")), 422, "invalid_request")
            refused(await served.ada.post("/membranes", json={"name": "X", "id": "pool"}), 409)
            refused(await served.ada.post("/membranes", json={"name": "X", "mission": "m9"}), 404)

    play(scenario())


def test_a_membrane_is_renamed_and_its_budget_is_a_cap(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(tmp_path, has_worker=False) as served:
            made = await pool(served.ada, "ana", budget_usd="1.50")
            assert (made["budget_usd"], made["members"]) == ("1.50", ["ana"])
            desk = served.kernel.for_tenant("default")
            assert (await desk.used("membrane:pool"))["usd"]["cap"] == 1_500_000
            asked = {"name": "Analysts", "budget_usd": "2", "expected_version": 1}
            changed = good(await served.ada.patch(POOL, json=asked))
            assert (changed["name"], changed["budget_usd"], changed["version"]) == ("Analysts", "2.00", 2)
            assert (await desk.used("membrane:pool"))["usd"]["cap"] == 2_000_000
            assert changed["members"] == ["ana"]
            refused(await served.ada.patch(POOL, json=asked), 409, "version_conflict")
            refused(await served.ada.patch(POOL, json={"name": None}), 422)
            good(await served.ada.patch(POOL, json={"budget_usd": None}))
            assert (await desk.used("membrane:pool"))["usd"]["cap"] is None

    play(scenario())


def test_membranes_are_listed_by_mission_and_in_pages(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(tmp_path, model=Team(LINE).model) as served:
            await pool(served.ada)
            await launched_by(served.ada)
            await stands(served.ada, at("missions", MISSION), "completed", "failed")
            named = good(
                await served.ada.post("/membranes", json={"name": "Second pool", "mission": MISSION}), 201
            )
            assert named["id"].startswith("m1/second-pool")
            of = good(await served.ada.get(f"/membranes?mission={MISSION}"))["items"]
            assert [one["id"] for one in of] == sorted(["m1/shared", named["id"]])
            first = good(await served.ada.get("/membranes?limit=1"))
            assert [one["id"] for one in first["items"]] == ["pool"] and first["next"] == "pool"
            rest = good(await served.ada.get("/membranes?after=pool"))
            assert len(rest["items"]) == 2 and rest["next"] is None

    play(scenario())


# Steering


def test_steering_says_its_policy_its_version_and_who_changed_it(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(tmp_path, model=Team().model, has_worker=False) as served:
            await an_agent(served.ada)
            before = good(await served.ada.get(STEERING))
            assert (before["version"], before["about"], before["id"]) == (1, "ana", "ana/steering")
            patch = {"xy": {"x": 1}, "sliders": {"budget_usd": "0.60"}, "expected_version": 1}
            after = good(await served.ada.patch(STEERING, json=patch))

            assert (after["version"], after["changed_by"]) == (2, "user:ada")
            assert after["xy"] == {"x": 1.0, "y": 0.5} and after["tools"] == before["tools"]
            assert after["policy"]["text"] != before["policy"]["text"]
            assert after["policy"]["temperature"] > before["policy"]["temperature"]
            seen = good(await served.ada.get("/steering/preview", params={"x": 1, "y": 0.5}))
            assert seen == after["policy"] == after["policy_in_force"]
            desk = served.kernel.for_tenant("default")
            assert (await desk.used("agent:ana"))["usd"]["cap"] == 600_000
            stale = await served.ada.patch(STEERING, json=patch)
            refused(stale, 409, "version_conflict")
            back = good(await served.ada.patch(STEERING, json={"sliders": {"budget_usd": None}}))
            assert back["sliders"]["budget_usd"] is None
            assert good(await served.ada.get(at("steering", "ana/steering"))) == back
            listed = good(await served.ada.get("/steering"))["items"]
            assert [one["id"] for one in listed] == ["ana/steering"]

    play(scenario())


@pytest.mark.parametrize(
    ("patch", "says"),
    [
        ({"xy": {"x": 2}}, "/xy/x"),
        ({"xy": {"z": 1}}, "/xy"),
        ({"sliders": {"safety": "none", "iterations": 0}}, "/sliders/iterations"),
        ({"sliders": {"budget_usd": 1}}, "/sliders/budget_usd"),
        ({"sliders": {"output_bytes": 10**400}}, "/sliders/output_bytes"),
        ({"axes": {"x": ["a"]}}, "/axes/x"),
        ({"tools": {"": False}}, "/tools"),
        ({"temperature": 1}, "temperature"),
    ],
)
def test_steering_that_cannot_be_is_named_by_its_path_and_changes_nothing(
    tmp_path: Path, patch: Any, says: str
) -> None:
    async def scenario() -> None:
        async with serving(tmp_path, model=Team().model, has_worker=False) as served:
            await an_agent(served.ada)
            error = refused(await served.ada.patch(STEERING, json=patch), 422)
            assert says in error["message"]
            assert good(await served.ada.get(STEERING))["version"] == 1

    play(scenario())


def test_a_change_says_from_which_iteration_it_counts_and_counts_there(tmp_path: Path) -> None:
    async def scenario() -> None:
        held, team = Held(THINK), Team()
        team.scripts["own"] = [held, look(), write("Own")]
        async with serving(tmp_path, model=team.model, tools=[sales_of]) as served:
            await an_agent(served.ada)
            assert good(await served.ada.get(STEERING))["from_iteration"] == []
            await pool(served.ada, "ana")
            await a_task(served.ada)
            await held.asked.wait()
            changed = good(await served.ada.patch(STEERING, json={"xy": {"x": 1}}))
            from_ = [{"agent": "ana", "task": "tasks/own", "iteration": 2, "is_begun": True}]
            assert changed["from_iteration"] == from_
            of_pool = good(await served.ada.patch(at("steering", "pool"), json={"xy": {"y": 1}}))
            assert of_pool["from_iteration"] == from_
            held.go.set()
            await stands(served.ada, at("tasks", "tasks/own"), "done", "failed")

            temperatures = [one.params["temperature"] for one in team.requests if title_of(one) == "Decision"]
            assert temperatures[0] == 0.4 and temperatures[1] == 1.0
            told = good(await served.ada.get(at("tasks", "tasks/own", "iterations")))["items"]
            assert [one["steering"] for one in told[:2]] == ["ana/steering@1", "ana/steering@2"]

    play(scenario())


def test_only_agents_and_membranes_are_steered(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(tmp_path, has_worker=False) as served:
            await document(served.ada, "handbook", "x")
            refused(await served.ada.get(at("steering", "handbook")), 422, "invalid_request")
            refused(await served.ada.patch(at("steering", "handbook"), json={}), 422)
            refused(await served.ada.get(at("steering", "nobody")), 404, "not_found")
            for query in ("x=2", "y=nan", "x=-1", "safety=none", "x=a"):
                refused(await served.ada.get(f"/steering/preview?{query}"), 422)

    play(scenario())
