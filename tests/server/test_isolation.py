"""Nothing crosses a tenant: whoever belongs to another one finds nothing, changes nothing, sees no word."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx

from artelier import ModelRequest
from artelier.testing import ScriptedModel
from tests.missions.mission_stage import LINE, MISSION
from tests.missions.task_stage import approve, title_of, write
from tests.operations.profiles import tavern
from tests.server.filling import filled
from tests.server.house import asking, openapi
from tests.server.routes.goals import a_task, an_agent, stands
from tests.server.routes.served import Served, at, good, play, refused, serving

CANARY = "CANARY-4711"

LEFT_OUT = ("auth_logout", "auth_login", "auth_choose", "events_stream", "graph_stream_rows", "agui_follow")
"""They are about the own session, or have no end."""

DOCUMENT: dict[str, Any] = openapi()
OPERATIONS = [
    (method.upper(), path, spec)
    for path, methods in DOCUMENT["paths"].items()
    for method, spec in methods.items()
    if spec["operationId"] not in LEFT_OUT
]

THEIRS = {
    "runs": "m1/letter",
    "artifacts": "secret",
    "sessions": "chat",
    "missions": MISSION,
    "god-mode": MISSION,
    "tasks": "m1/figures",
    "agents": "m1/by-letter",
    "membranes": "m1/shared",
    "steering": "m1/by-letter",
    "worlds": "w",
    "memory": "m1/by-letter",
    "profiles": "tavern",
    "skills": "pdf",
    "schedules": "nightly",
}
"""What is there in the tenant `default`, by resource."""

STEP = "c1/decision"
NAMES = {"entry": "1", "label": "persona", "change": "1", "tag": "mood", "turn": "1", "number": "1"}


def said(request: ModelRequest) -> Any:
    """A model whose every word is a secret of its tenant."""
    title = title_of(request)
    if title == "Plan":
        return json.loads(json.dumps(LINE).replace("The goal", f"The {CANARY} goal"))
    if title == "Verdict":
        return approve(request)
    if title == "Decision":
        return {**write(f"Out {CANARY}"), "reason": CANARY}
    return f"# {CANARY}\n\nOslo sold more than every other city."


@asynccontextmanager
async def two_tenants(folder: Path) -> AsyncIterator[Served]:
    """A server where `default` has something of everything, and `other` has nothing."""
    workspace = folder / "desk"
    workspace.mkdir()
    (workspace / "note.txt").write_text(CANARY)
    async with serving(folder, model=ScriptedModel(said)) as served:
        ada = served.ada
        asked = {"goal": CANARY, "model": "m", "mission_id": MISSION}
        good(await ada.post("/god-mode/plan?wait=60", json=asked))
        good(await ada.post(at("god-mode", MISSION, "launch"), json={}))
        await stands(ada, at("missions", MISSION), "completed", "failed")
        await an_agent(ada, role=CANARY)
        await a_task(ada, assigned_agent_id=None, goal=CANARY)
        await asking(served.kernel, "asks")
        secret = {"id": "secret", "kind": "document", "content": CANARY}
        good(await ada.post("/artifacts", json=secret), 201)
        good(await ada.post(at("memory", "m1/by-letter", "entries"), json={"text": CANARY}), 201)
        good(await ada.post("/profiles", json={"profile": tavern().data()}), 201)
        nightly = {"id": "nightly", "goal": CANARY, "every": "1d", "model": "m"}
        good(await ada.post("/schedules", json=nightly), 201)
        good(await ada.post("/sessions", json={"id": "chat", "profile": "rp-basic", "model": "m"}), 201)
        world = {"world": {"start_balance": 50}, "agents": [{"id": "idle", "policy": "nobody"}]}
        good(await ada.post("/worlds", json={"id": "w", "world": world}), 201)
        yield served


def address_of(path: str) -> str:
    """An operation's address, about what belongs to `default`."""
    resource = path.split("/")[3]
    pieces = [
        quote(NAMES.get(piece[1:-1], THEIRS.get(resource, "x")), safe="") if "{" in piece else piece
        for piece in path.removeprefix("/api/v1/").split("/")
    ]
    return "/" + "/".join(pieces)


async def asked_of(client: httpx.AsyncClient, method: str, path: str, spec: Any) -> httpx.Response:
    wanted = [one for one in spec.get("parameters", ()) if one["in"] == "query" and one["required"]]
    known = {
        "world": "w",
        "step": STEP,
        "a": STEP,
        "b": STEP,
        "q": CANARY,
        "words": CANARY,
        "run_id": "chat/r000001",
        "with": "chat/r000001",
        "other": "w",
        "operation": "any",
        "kind": "chat",
    }
    if spec["operationId"] == "artifacts_diff":
        known |= {"a": "1", "b": "1"}
    params = {one["name"]: known[one["name"]] for one in wanted}
    body = filled(spec, DOCUMENT)
    if spec["operationId"] == "artifacts_change":
        body |= {"access": "private"}  # without a wish there is nothing to refuse
    return await client.request(method, address_of(path), params=params, json=body)


async def written(served: Served, tenant: str) -> int:
    return sum([1 async for event in served.kernel.events() if event.stream.tenant == tenant])


def test_every_address_about_another_tenants_things_is_not_found(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with two_tenants(tmp_path) as served:
            before = await written(served, "default")
            for method, path, spec in OPERATIONS:
                answer = await asked_of(served.eve, method, path, spec)
                assert CANARY not in answer.text, (method, path)
                if "{" in path:
                    assert answer.status_code == 404, (method, path, answer.text[:500])
                    refused(answer, 404, "not_found")
            assert await written(served, "default") == before

    play(scenario(), within_s=300)


def test_the_same_addresses_are_there_for_who_belongs_to_it(tmp_path: Path) -> None:
    """Otherwise the test above would be content with addresses that nobody has."""

    async def scenario() -> None:
        async with two_tenants(tmp_path) as served:
            found: set[str] = set()
            for method, path, spec in OPERATIONS:
                if method == "GET" and "{" in path:
                    answer = await asked_of(served.ada, method, path, spec)
                    if answer.status_code == 200:
                        found.add(path.split("/")[3])
            assert found >= set(THEIRS) - {"god-mode", "skills"}
            told = [await asked_of(served.ada, *one) for one in OPERATIONS if one[0] == "GET"]
            assert sum(CANARY in one.text for one in told) > 15

    play(scenario(), within_s=300)


def test_another_tenants_ids_are_of_no_use_in_a_body(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with two_tenants(tmp_path) as served:
            eve = served.eve
            task = {"goal": "g", "success_criteria": "c"}
            good(await eve.post("/membranes", json={"id": "mine", "name": "Mine"}), 201)
            good(await eve.post("/agents", json={"id": "bo", "name": "Bo"}), 201)
            for address, body in (
                ("/god-mode/launch", {"mission": MISSION}),
                ("/tasks", {**task, "mission": MISSION}),
                ("/tasks", {**task, "assigned_agent_id": "ana"}),
                ("/tasks", {**task, "depends_on": ["tasks/own"]}),
                ("/agents", {"name": "Bo", "mission": MISSION}),
                ("/membranes", {"name": "Bo", "mission": MISSION}),
                (at("membranes", "mine", "share"), {"artifact": "secret"}),
                (f"/runs/pause-all?mission={MISSION}", {}),
            ):
                refused(await eve.post(address, json=body), 404, "not_found")
            attached = await eve.patch(at("agents", "bo"), json={"memory_artifact_id": "secret"})
            refused(attached, 404, "not_found")
            refused(await eve.get("/artifacts?world=w"), 404, "not_found")

            good(await eve.post(at("membranes", "mine", "join"), json={"agent": "ana"}))
            ana = served.kernel.for_tenant("default").as_principal("ana").artifacts
            assert await ana.groups_of() == ()
            good(
                await eve.post("/tasks", json={**task, "inputs": ["secret"], "assigned_agent_id": "bo"}), 201
            )
            seen = good(await eve.get(at("agents", "bo", "next-prompt")))["prompt"]
            assert seen["missing"] == "secret" and CANARY not in str(seen)

    play(scenario(), within_s=300)


def test_the_same_ids_in_two_tenants_are_two_things(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with two_tenants(tmp_path) as served:
            asked = {"goal": "Mine.", "model": "m", "mission_id": MISSION}
            found = good(await served.eve.post("/god-mode/plan?wait=60", json=asked))
            assert found["status"] == "waiting_approval"
            mine = good(await served.eve.get(at("missions", MISSION)))
            theirs = good(await served.ada.get(at("missions", MISSION)))
            assert (mine["goal"], theirs["goal"]) == ("Mine.", CANARY)
            assert (mine["status"], theirs["status"]) == ("waiting_approval", "completed")
            good(await served.eve.post("/runs/stop-all", json={}))
            assert good(await served.ada.get(at("runs", "asks")))["status"] == "waiting_approval"

    play(scenario(), within_s=300)


def test_a_header_opens_no_other_tenant(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with two_tenants(tmp_path) as served:
            served.eve.headers["X-Artelier-Tenant"] = "default"
            for method, path, spec in OPERATIONS:
                if spec["operationId"] in ("auth_me", "steering_preview", "profiles_validate"):
                    continue
                answer = await asked_of(served.eve, method, path, spec)
                refused(answer, 404, "not_found")

    play(scenario(), within_s=300)


def test_who_only_looks_changes_nothing_of_a_mission(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with two_tenants(tmp_path) as served:
            before = await written(served, "default")
            for method, path, spec in OPERATIONS:
                if method == "GET":
                    continue
                answer = await asked_of(served.vic, method, path, spec)
                refused(answer, 403, "access_denied")
            assert await written(served, "default") == before
            assert good(await served.vic.get(at("missions", MISSION)))["goal"] == CANARY

    play(scenario(), within_s=300)
