"""Two tenants in one process: nothing that one of them tries shows, fills or names what the other has."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from artelier.kernel.policy import Workspaces
from artelier.server import deps
from artelier.tools import tool, workspace_tools
from tests.missions.mission_stage import MISSION
from tests.server.routes.served import at
from tests.server.routes.served import play as run_scenario
from tests.tenants.attempts import OTHER, PUBLISHED, Attempt, addressed, everything, lists, tools, workspaces
from tests.tenants.beside import ATTACKER, CANARY, Stage, play, send, two_tenants


def breaches(folder: Path, attempts: Iterable[Attempt], plant: Any = None, **more: Any) -> list[str]:
    """What succeeds; `plant` takes a check away before."""

    async def scenario() -> list[str]:
        async with two_tenants(folder, **more) as stage:
            if plant is not None:
                plant(stage)
            return [str(one) for one in await play(stage, attempts)]

    return run_scenario(scenario(), within_s=600)


def reads() -> list[Attempt]:
    """Everything that is only looked at, but for the streams that have no end."""
    endless = ("GET /agui", "GET /events/stream", "GET /graph/stream")
    return [
        one for one in (*addressed(), *lists()) if one.call.startswith("GET ") and one.call not in endless
    ]


def test_of_all_attempts_on_another_tenant_none_succeeds(tmp_path: Path) -> None:
    attempts = everything()

    found = breaches(tmp_path, attempts)

    assert len(attempts) >= 500 and len({one.title for one in attempts}) == len(attempts)
    assert found == [], f"{len(found)} of {len(attempts)}:\n" + "\n".join(found)


def test_the_published_list_is_played(tmp_path: Path) -> None:
    lines = PUBLISHED.read_text(encoding="utf-8").splitlines()
    made = {json.dumps(asdict(one), ensure_ascii=True, sort_keys=True) for one in everything()}

    assert len(lines) >= 500
    gone = [line for line in lines if line not in made]
    assert not gone, f"run `python -m tests.tenants.attempts`: {gone[:3]}"


def test_whoever_belongs_to_the_tenant_sees_the_secret(tmp_path: Path) -> None:
    """Otherwise the attempts would fail because there is nothing."""

    def as_ada(stage: Stage) -> None:
        stage.served.client("eve").headers["Authorization"] = "Bearer ada-token"

    seen = [one for one in breaches(tmp_path, reads(), as_ada) if "the secret is in the answer" in one]

    assert len(seen) > 40
    for resource in ("runs", "artifacts", "sessions", "missions", "tasks", "agents", "memory", "worlds"):
        assert any(f" /{resource}/" in one for one in seen), resource


def test_a_route_without_the_tenants_check_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def anybodys(*of: Any) -> list[str]:
        return [OTHER]

    def plant(stage: Stage) -> None:
        monkeypatch.setattr(deps, "tenants_of", anybodys)

    artifacts = [one for one in addressed() if one.call.startswith("GET /artifacts")]
    found = breaches(tmp_path, artifacts, plant)

    assert any("the secret is in the answer" in one for one in found)


def test_a_workspace_without_the_check_is_found(tmp_path: Path) -> None:
    class Believing(Workspaces):
        def check(self, tenant: str, workspace: str) -> str:
            return os.path.realpath(os.path.join(self.root(tenant), workspace))

    (tmp_path / "desks").mkdir()
    found = breaches(tmp_path, workspaces(), workspaces=Believing(base=tmp_path / "desks"))

    for door in ("POST /god-mode/plan", "POST /tasks", "POST /schedules", "program plan"):
        assert any(door in one for one in found), door


def test_a_tool_without_the_check_is_found(tmp_path: Path) -> None:
    def plant(stage: Stage) -> None:
        own = stage.desks / ATTACKER

        @tool(side_effect=False)
        def read_file(path: str) -> str:
            """Read."""
            return (own / path).read_text()

        stage.tools["read_file"] = read_file

    files = [one for one in tools() if one.call == "read_file"]
    found = breaches(tmp_path, files, plant)

    assert sum("the secret is in the answer" in one for one in found) > 5


def test_a_tool_that_opens_hard_links_is_found(tmp_path: Path) -> None:
    def plant(stage: Stage) -> None:
        stage.tools |= {one.name: one for one in workspace_tools(stage.desks / ATTACKER)}

    names = ("read_file", "search_text", "describe_tables")
    found = breaches(tmp_path, [one for one in tools() if one.call in names], plant)

    assert len(found) >= 4 and CANARY in "".join(found)


def test_no_answer_names_a_path_of_the_machine(tmp_path: Path) -> None:
    """A viewer and an operator read everything that there is; the mission has a workspace."""

    async def scenario() -> list[str]:
        found: list[str] = []
        async with two_tenants(tmp_path) as stage:
            for person in ("vic", "ada"):
                stage.served.client("eve").headers["Authorization"] = f"Bearer {person}-token"
                for one in reads():
                    answer = await send(stage, one, one.name)
                    if str(tmp_path) in answer.text:
                        found.append(f"{person}: {one.title}")
            shown = (await stage.served.ada.get(at("missions", MISSION))).json()
            assert shown["workspace"] == OTHER
        return found

    assert run_scenario(scenario()) == []
