"""Requests made up from our own OpenAPI document: whatever comes, none is a server error.

One server for all, so that what one request leaves behind is there for the next; `test_fuzz_known.py` asks
about things that are there.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings

from tests.server.house import PATIENCE_S, asking, house, on_a_port, openapi, spoken

SCHEMA: Any = schemathesis.openapi.from_dict(openapi())
OPERATIONS = [found.ok() for found in SCHEMA.get_all_operations()]
SLOW = (HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large)
LEFT_OUT = ("auth_logout", "events_stream", "graph_stream_rows", "agui_follow")
"""The session is needed further; a stream has no end."""
LAST = "tenants_update"
"""Without the grants that it takes away, the others would not come far."""


Asks = Callable[[Any], Any]


def named(operation: Any) -> str:
    return operation.definition.raw["operationId"]


@pytest.fixture(scope="module")
def ask(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asks]:
    """Sends a case to one server in a thread, in a session; its store is verified at the end."""
    folder = tmp_path_factory.mktemp("fuzz")
    ready, over = threading.Event(), threading.Event()
    told: dict[str, Any] = {}

    async def serve() -> None:
        async with house(folder, "hello") as home, on_a_port(home.app) as address:
            await spoken(home.kernel, "m1", "hi")
            await asking(home.kernel, "0")
            cookies = "; ".join(f"{name}={value}" for name, value in home.client.cookies.items())
            token = home.client.headers["X-CSRF-Token"]
            told["headers"] = {"Cookie": cookies, "X-CSRF-Token": token}
            told["address"] = address
            ready.set()
            await asyncio.to_thread(over.wait)
            told["report"] = await asyncio.to_thread(home.kernel.verify)

    thread = threading.Thread(target=lambda: asyncio.run(serve()), daemon=True)
    thread.start()
    assert ready.wait(PATIENCE_S)
    yield lambda case: case.call(base_url=told["address"], headers=told["headers"], timeout=PATIENCE_S)
    over.set()
    thread.join(PATIENCE_S)
    assert told["report"].ok, told["report"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "operation",
    sorted((one for one in OPERATIONS if named(one) not in LEFT_OUT), key=lambda one: named(one) == LAST),
    ids=named,
)
def test_no_request_is_a_server_error(ask: Asks, operation: Any) -> None:
    # Without shrinking: the server has changed by the time that a case is tried again.
    @settings(
        max_examples=settings().max_examples // 4,
        derandomize=True,
        phases=[Phase.generate],
        database=None,
        suppress_health_check=SLOW,
    )
    @given(case=operation.as_strategy())
    def each(case: Any) -> None:
        answer = ask(case)
        assert answer.status_code < 500, answer.text
        if answer.status_code >= 400:
            assert set(answer.json()["error"]) - {"errors"} == {"code", "message", "expected", "got", "hint"}

    each()
