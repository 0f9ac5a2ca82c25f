"""Requests made up from our own OpenAPI document: whatever comes, none is a server error."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings

from artelier.server.openapi import document
from tests.server.house import PATIENCE_S, asking, house, on_a_port, spoken

SCHEMA: Any = schemathesis.openapi.from_dict(json.loads(document()))
OPERATIONS = [found.ok() for found in SCHEMA.get_all_operations()]
SLOW = (HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large)
LEFT_OUT = ("auth_logout", "events_stream", "agui_follow")
"""The session is needed further; a stream has no end."""


@contextmanager
def served(folder: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """A server in a thread; its address, and the headers of a session."""
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
            while not over.is_set():
                await asyncio.sleep(0.05)

    thread = threading.Thread(target=lambda: asyncio.run(serve()), daemon=True)
    thread.start()
    assert ready.wait(PATIENCE_S)
    try:
        yield told["address"], told["headers"]
    finally:
        over.set()
        thread.join(PATIENCE_S)


@pytest.mark.slow
@pytest.mark.parametrize(
    "operation",
    [one for one in OPERATIONS if one.definition.raw["operationId"] not in LEFT_OUT],
    ids=lambda one: one.definition.raw["operationId"],
)
def test_no_request_is_a_server_error(tmp_path: Path, operation: Any) -> None:
    with served(tmp_path) as (address, headers):

        @settings(suppress_health_check=SLOW)
        @given(case=operation.as_strategy())
        def ask(case: Any) -> None:
            answer = case.call(base_url=address, headers=headers, timeout=PATIENCE_S)
            assert answer.status_code < 500, answer.text
            if answer.status_code >= 400:
                assert set(answer.json()["error"]) == {"code", "message", "expected", "got", "hint"}

        ask()
