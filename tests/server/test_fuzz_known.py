"""Requests made up from our OpenAPI document about things that are there: none is a server error.

One server for all, so that what one request leaves behind is there for the next.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.missions.mission_stage import LINE, MISSION, Team
from tests.operations.profiles import tavern
from tests.server.house import PATIENCE_S, asking, on_a_port, openapi
from tests.server.routes.goals import a_task, an_agent, launched_by, stands
from tests.server.routes.served import at, good, serving

SCHEMA: Any = schemathesis.openapi.from_dict(openapi())
OPERATIONS = [found.ok() for found in SCHEMA.get_all_operations()]
LEFT_OUT = ("auth_logout", "auth_login", "events_stream", "graph_stream_rows", "agui_follow")
"""They end the session, or have no end."""

EXAMPLES = 5
"""For each operation: together they take some twenty seconds; `test_fuzz.py` goes deeper."""

KNOWN = {
    "runs": ["asks", "m1", "m1/letter"],
    "artifacts": ["secret", "m1/by-letter", "m1/letter"],
    "sessions": ["chat"],
    "missions": ["m1"],
    "god-mode": ["m1", "planned"],
    "tasks": ["tasks/own", "m1/letter"],
    "agents": ["ana", "m1/by-letter", "bo"],
    "membranes": ["m1/shared", "pool"],
    "steering": ["ana", "m1/shared", "secret"],
    "worlds": ["w"],
    "memory": ["m1/by-letter"],
    "profiles": ["tavern", "rp-basic"],
    "schedules": ["nightly"],
}

SLOW = (HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large)

Asks = Callable[[Any], Any]


async def furnished(served: Any) -> None:
    ada = served.ada
    await launched_by(ada)
    await stands(ada, at("missions", MISSION), "completed", "failed")
    asked = {"goal": "Another.", "model": "m", "mission_id": "planned"}
    good(await ada.post("/god-mode/plan?wait=60", json=asked))
    await an_agent(ada)
    await an_agent(ada, "bo")
    await a_task(ada, assigned_agent_id="bo", depends_on=["m1/letter"])
    await asking(served.kernel, "asks")
    good(await ada.post("/membranes", json={"id": "pool", "name": "P", "members": ["ana"]}), 201)
    secret = {"id": "secret", "kind": "document", "content": "x"}
    good(await ada.post("/artifacts", json=secret), 201)
    good(await ada.post("/profiles", json={"profile": tavern().data()}), 201)
    nightly = {"id": "nightly", "goal": "g", "every": "1d", "model": "m"}
    good(await ada.post("/schedules", json=nightly), 201)
    chat = {"id": "chat", "profile": "rp-basic", "model": "m"}
    good(await ada.post("/sessions", json=chat), 201)
    world = {"world": {"start_balance": 50}, "agents": [{"id": "idle", "policy": "nobody"}]}
    good(await ada.post("/worlds", json={"id": "w", "world": world}), 201)


@pytest.fixture(scope="module")
def ask(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asks]:
    """Sends a case to one server, which is at work in a thread; its store is verified at the end."""
    folder: Path = tmp_path_factory.mktemp("fuzz")
    ready, over = threading.Event(), threading.Event()
    told: dict[str, Any] = {}

    async def serve() -> None:
        team = Team(LINE, LINE)
        async with serving(folder, model=team.model) as served:
            await furnished(served)
            team.plans = [LINE] * 1_000
            async with on_a_port(served.app) as told["address"]:
                ready.set()
                await asyncio.to_thread(over.wait)
            told["report"] = await asyncio.to_thread(served.kernel.verify)

    thread = threading.Thread(target=lambda: asyncio.run(serve()), daemon=True)
    thread.start()
    assert ready.wait(PATIENCE_S)
    headers = {"Authorization": "Bearer ada-token"}
    yield lambda case: case.call(base_url=told["address"], headers=headers, timeout=PATIENCE_S)
    over.set()
    thread.join(PATIENCE_S)
    assert told["report"].ok, told["report"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "operation",
    [one for one in OPERATIONS if one.definition.raw["operationId"] not in LEFT_OUT],
    ids=lambda one: one.definition.raw["operationId"],
)
def test_no_request_about_what_is_there_is_a_server_error(ask: Asks, operation: Any) -> None:
    known = KNOWN.get(operation.path.split("/")[3], [])

    @settings(
        max_examples=EXAMPLES,
        derandomize=True,
        phases=[Phase.generate],
        database=None,
        suppress_health_check=SLOW,
    )
    @given(case=operation.as_strategy(), which=st.integers(0, 2 * len(known)))
    def each(case: Any, which: int) -> None:
        for name in case.path_parameters if which < len(known) else ():
            case.path_parameters[name] = quote(known[which], safe="")
        answer = ask(case)
        assert answer.status_code < 500, answer.text
        if answer.status_code >= 400:
            assert set(answer.json()["error"]) - {"errors"} == {"code", "message", "expected", "got", "hint"}

    each()
