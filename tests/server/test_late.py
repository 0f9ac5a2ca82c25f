"""A start: the page opens before what it does not need is loaded, and before waiting runs are driven."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path

from artelier.agents import Worker
from artelier.app import Kernel
from artelier.server.app import LAST
from artelier.testing import ManualClock, ScriptedModel
from tests.processes import PATIENCE_S
from tests.server.house import house

FIRST_PAGE = """
import asyncio, json, sys
from artelier.app import Kernel
from artelier.server.app import create_app

async def main(path):
    with Kernel.open(path, environ={}) as kernel:
        app, told, asked = create_app(kernel), [], []
        async def receive():
            if asked:
                await asyncio.Event().wait()  # it stays connected
            asked.append(True)
            return {"type": "http.request", "body": b"", "more_body": False}
        async def send(message):
            if message["type"] == "http.response.start":
                told.append({"status": message["status"], "modules": sorted(sys.modules)})
        scope = {
            "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "GET",
            "scheme": "http", "path": "/", "raw_path": b"/", "query_string": b"", "root_path": "",
            "headers": [(b"host", b"127.0.0.1")], "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 2),
        }
        await app(scope, receive, send)
        await app.state.late.begin()
        await app.state.late.loading_last
        print(json.dumps({**told[0], "after": sorted(sys.modules)}))

asyncio.run(main(sys.argv[1]))
"""

LATE = frozenset(
    (
        "ag_ui",
        "artelier_offline",
        "artelier.server.routes.events",
        "artelier.server.routes.runs",
        "artelier.server.wire.runs",
        "artelier.world.tick.tick",
        "cryptography",
        "duckdb",
        "genai_prices",
        "pydantic_monty",
        "rich",
    )
)


def test_the_first_page_is_served_before_the_api_is_loaded(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FIRST_PAGE, str(tmp_path / "s.db")],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["status"] in (200, 503)  # without a build of the page it says so
    assert LATE & set(told["modules"]) == set()
    assert {"artelier.server.routes.runs", "ag_ui"} <= set(told["after"])
    assert {*LAST} - set(told["modules"])
    assert {*LAST} <= set(told["after"])


def test_requests_at_once_after_the_start_all_find_their_route(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with house(tmp_path) as home:
            asked = [
                home.client.get(f"/api/v1/{path}")
                for path in ("runs", "me", "nothing-here", "runs", "openapi.json")
            ]
            statuses = [answer.status_code for answer in await asyncio.gather(*asked)]
            assert statuses == [200, 200, 404, 200, 200]
            assert (await home.client.get("/somewhere")).status_code in (200, 503)

    asyncio.run(scenario())


def test_a_run_that_waited_for_the_start_is_driven_after_the_page_has_opened(tmp_path: Path) -> None:
    """One that is started later is driven at once."""

    async def scenario() -> None:
        clock = ManualClock()
        with Kernel.open(tmp_path / "state.db", models=ScriptedModel([]), clock=clock, environ={}) as kernel:
            worker = Worker(kernel, kernel.services)
            old, new = ("default", "old"), ("default", "new")
            let_in = worker._let_in  # pyright: ignore[reportPrivateUsage] - what a look lets in
            worker._paces = True  # pyright: ignore[reportPrivateUsage]
            worker._settled_us = clock.now_us() + 3_000_000  # pyright: ignore[reportPrivateUsage]
            assert await let_in([old]) == []
            assert await let_in([old, new]) == [new]
            clock.advance(3)
            assert await let_in([old]) == [old]
            assert await let_in([old]) == [old]

    asyncio.run(scenario())
