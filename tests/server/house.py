"""A server for tests: a real kernel, the real application, and a client that is signed in."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import httpx
from fastapi import FastAPI

from artelier.app import Kernel, TenantKernel
from artelier.clock import Clock
from artelier.kernel import Policy
from artelier.server.app import create_app
from artelier.server.http_server import Server, address_of, bind
from artelier.server.settings import ServerSettings
from artelier.testing import ScriptedModel

PATIENCE_S = 60.0
"""How long a test waits for what takes moments."""


def openapi() -> dict[str, Any]:
    """Read the committed OpenAPI document, which `test_committed_document.py` compares with the real one."""
    return json.loads((Path(__file__).parents[2] / "web/openapi.json").read_text("utf-8"))


@cache
def documented() -> dict[str, dict[str, Any]]:
    """Return the operations by address and method, as the OpenAPI document lists them."""
    return openapi()["paths"]


ADDRESS = "http://localhost:8321"


def nobody() -> httpx.AsyncClient:
    """A client for where none is used: certificates of one that could be would take 20 ms to read."""
    return httpx.AsyncClient(verify=False)


@dataclass
class House:
    """`client` is signed in and sends the CSRF token with everything."""

    kernel: Kernel
    app: FastAPI
    client: httpx.AsyncClient
    model: ScriptedModel

    @property
    def desk(self) -> TenantKernel:
        return self.kernel.for_tenant("default")

    def stranger(self, *, address: str = "127.0.0.1", **headers: str) -> httpx.AsyncClient:
        """A client that nobody knows."""
        transport = httpx.ASGITransport(app=self.app, client=(address, 5000))
        return httpx.AsyncClient(transport=transport, base_url=ADDRESS, headers=headers)

    async def signed_in(self) -> httpx.AsyncClient:
        """Another browser, which has opened a link of its own."""
        client = self.stranger()
        token = self.app.state.gate.sessions.link()
        assert (await client.get("/", params={"token": token})).status_code == 303
        me = (await client.get("/api/v1/me")).json()
        client.headers["X-CSRF-Token"] = me["csrf_token"]
        return client


@asynccontextmanager
async def house(
    folder: Path,
    *replies: Any,
    clock: Clock | None = None,
    policy: Policy | None = None,
    environ: Mapping[str, str] | None = None,
    model: ScriptedModel | None = None,
    **settings: Any,
) -> AsyncIterator[House]:
    """An application in this process. `replies` are those of the scripted model, in order."""
    model = model or ScriptedModel(list(replies))
    kernel = Kernel.open(folder / "state.db", models=model, clock=clock, policy=policy, environ=environ or {})
    settings.setdefault("has_worker", False)
    settings.setdefault("secret_file", folder / "sessions")
    try:
        app = create_app(kernel, settings=ServerSettings(**settings))
        async with app.router.lifespan_context(app):
            made = House(kernel, app, nobody(), model)
            is_local = settings.get("users") is None
            made.client = await made.signed_in() if is_local else made.stranger()
            try:
                yield made
            finally:
                await made.client.aclose()
    finally:
        await kernel.aclose()


@asynccontextmanager
async def on_a_port(app: FastAPI) -> AsyncIterator[str]:
    """The application behind a real port of uvicorn; its address."""
    bound = bind("127.0.0.1", 0)
    server = Server(app)
    task = asyncio.create_task(server.serve(sockets=[bound]))
    try:
        await until(lambda: server.started)
        yield address_of(bound, app.state.settings)
    finally:
        server.should_exit = True
        await asyncio.wait_for(task, PATIENCE_S)
        bound.close()


async def until(holds: Callable[[], bool | Awaitable[bool]]) -> None:
    """Wait for something that takes moments."""

    async def look() -> None:
        while True:
            found = holds()
            if (await found) if not isinstance(found, bool) else found:
                return
            await asyncio.sleep(0.01)

    await asyncio.wait_for(look(), PATIENCE_S)


async def asking(kernel: Kernel, run_id: str, *, tenant: str = "default") -> None:
    """A run that waits for a person."""
    from artelier.errors import RunSuspended

    try:
        async with kernel.run(run_id, tenant=tenant, on_wait="suspend") as run:
            await run.approve("Send it?", key="ask", details={"to": "eve"})
    except RunSuspended:
        pass


async def spoken(kernel: Kernel, run_id: str, *texts: str, tenant: str = "default") -> None:
    """A run that has asked the scripted model."""
    async with kernel.run(run_id, tenant=tenant) as run:
        for text in texts:
            await run.step_model(model="scripted", messages=[{"role": "user", "content": text}])


def frames_of(text: str) -> list[dict[str, Any]]:
    """Events of a piece of a stream, whose ids and data must agree."""
    found: list[dict[str, Any]] = []
    for block in text.split("\n\n"):
        lines = dict(line.split(": ", 1) for line in block.split("\n") if ": " in line)
        if "data" in lines and "event" not in lines:  # what has a name is none of the log
            event = json.loads(lines["data"])
            assert str(event["position"]) == lines["id"]
            found.append(event)
    return found


def assert_fault(response: httpx.Response, status: int, code: str) -> dict[str, Any]:
    """The one shape of errors; the error."""
    body = response.json()
    assert (response.status_code, body["error"]["code"]) == (status, code), response.text
    assert set(body) == {"error"}
    assert set(body["error"]) - {"errors"} == {"code", "message", "expected", "got", "hint"}
    return body["error"]
