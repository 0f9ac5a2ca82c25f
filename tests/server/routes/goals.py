"""What tests of missions through the server share: a held answer, waiting for a status, who acted."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx

from tests.missions.mission_stage import GOAL, MISSION
from tests.server.house import until
from tests.server.routes.served import Served, at, good


class Held:
    """A step of a script that is given when the test says so."""

    def __init__(self, step: Any) -> None:
        self.asked, self.go = asyncio.Event(), asyncio.Event()
        self._step = step

    async def __call__(self, request: Any) -> Any:
        self.asked.set()
        await self.go.wait()
        return self._step(request) if callable(self._step) else self._step


async def planned_by(client: httpx.AsyncClient, **more: Any) -> Any:
    """A mission that waits for its launch."""
    asked = {"goal": GOAL, "model": "m", "mission_id": MISSION, **more}
    return good(await client.post("/god-mode/plan?wait=60", json=asked))


async def launched_by(client: httpx.AsyncClient, plan: Any = None) -> Any:
    await planned_by(client)
    body = {} if plan is None else {"plan": plan}
    return good(await client.post(at("god-mode", MISSION, "launch"), json=body))


async def stands(client: httpx.AsyncClient, address: str, *statuses: str) -> Any:
    """Wait until something has one of these statuses; what it is then."""
    found: dict[str, Any] = {}

    async def look() -> bool:
        found.update(good(await client.get(address)))
        return found["status"] in statuses

    await until(look)
    return found


async def actors(served: Served, kind: str, *, stream: str = "") -> list[str]:
    """Who was behind the events of a kind."""
    return [
        event.actor
        async for event in served.kernel.events()
        if event.kind == kind and stream in event.stream.local
    ]


async def an_agent(client: httpx.AsyncClient, id: str = "ana", **more: Any) -> Any:
    asked = {"id": id, "name": "Ana", "model": "m", "role": "A careful analyst.", **more}
    return good(await client.post("/agents", json=asked), 201)


async def a_task(client: httpx.AsyncClient, slug: str = "own", **more: Any) -> Any:
    asked = {
        "id": f"tasks/{slug}",
        "goal": f"The goal of {slug}.",
        "assigned_agent_id": "ana",
        "success_criteria": f"The criteria of {slug}.",
        **more,
    }
    return good(await client.post("/tasks", json=asked), 201)
