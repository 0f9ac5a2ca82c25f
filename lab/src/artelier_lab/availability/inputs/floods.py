"""Floods: many requests that are decent one by one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

from artelier_lab.availability.client import Answer
from artelier_lab.availability.inputs.builders import counted, many
from artelier_lab.availability.scene import Input, Scene

HELD_S = 3.0


def _flood(
    name: str, count: int, ask: Callable[[Scene, int], Awaitable[Answer]], *, at_once: int = 20
) -> Input:
    async def attack(scene: Scene) -> str:
        return counted(await many(count, lambda number: ask(scene, number), at_once=at_once))

    async def twin(scene: Scene) -> bool:
        return (await ask(scene, 0)).status in (200, 201, 202)

    return Input(name=name, attack=attack, twin=twin)


async def _write(scene: Scene, number: int) -> Answer:
    asked = {"id": f"docs/{scene.name}-{number}", "kind": "document", "content": f"note {number}"}
    return await scene.attacker.post("/artifacts", asked)


async def _chat(scene: Scene, number: int) -> Answer:
    return await scene.attacker.post("/sessions", {"id": f"{scene.name}-{number}", "model": "reply:decent"})


async def _turn(scene: Scene, number: int) -> Answer:
    chat = f"{scene.name}-{number}"
    await scene.attacker.post("/sessions", {"id": chat, "model": "reply:decent"})
    return await scene.attacker.post(f"/sessions/{chat}/turns", {"text": "We ride north."})


async def _task(scene: Scene, number: int) -> Answer:
    asked = {
        "goal": f"Write note {number}.",
        "success_criteria": "It is there.",
        "id": f"tasks/{scene.name}-{number}",
    }
    return await scene.attacker.post("/tasks", asked)


async def _schedule(scene: Scene, number: int) -> Answer:
    asked = {
        "id": f"{scene.name}-{number}"[-40:],
        "goal": "Say done.",
        "cron": "0 3 * * *",
        "model": "reply:decent",
        "solo": True,
    }
    return await scene.attacker.post("/schedules", asked)


async def _list(scene: Scene, number: int) -> Answer:
    return await scene.attacker.get("/events?limit=1000")


async def _openapi(scene: Scene, number: int) -> Answer:
    return await scene.attacker.get("/openapi.json")


async def _graph(scene: Scene, number: int) -> Answer:
    return await scene.attacker.get(f"/graph?at={number * 50}" if number % 2 else "/graph")


async def _limit(scene: Scene, cap: str) -> Answer:
    """Set a limit of a run that is not there; what is wrong with it is said in an error that repeats it."""
    return await scene.attacker.post("/runs/none/limit", {"unit": "usd", "cap": cap})


async def _large_errors(scene: Scene) -> str:
    return counted([await _limit(scene, "4111 1111 1111 1112 " * 50_000) for _ in range(5)])


async def _small_error(scene: Scene) -> bool:
    return (await _limit(scene, "0.60")).status == 404


async def _nothing(scene: Scene, number: int) -> Answer:
    answer = await scene.attacker.get(f"/runs/none-{number}")
    return Answer(200 if answer.status == 404 else answer.status)


async def _world(scene: Scene, number: int) -> Answer:
    world = f"{scene.name}-{number}"
    made = await scene.attacker.post("/worlds", {"id": world, "template": "market", "seed": 3})
    if not made.is_good:
        return made
    return await scene.attacker.post(f"/worlds/{world}/tick", {"count": 10})


async def _society(scene: Scene, agents: int) -> str:
    """Make a world of so many agents, and pass a few ticks."""
    rules = {"agents": [{"id": "idle_{n}", "count": agents, "policy": "nobody"}], "settle": False}
    made = await scene.attacker.post("/worlds", {"id": scene.name, "world": rules})
    passed = await scene.attacker.post(f"/worlds/{scene.name}/tick", {"count": 3})
    return counted([made, passed])


async def _large_society(scene: Scene) -> str:
    refused = await _society(replace(scene, name=f"{scene.name}-larger"), 200_000)
    return f"{refused}; {await _society(scene, 900)}"


async def _small_society(scene: Scene) -> bool:
    return await _society(scene, 3) == "200 x 1, 201 x 1"


async def _ticks(scene: Scene, count: int) -> Answer:
    await scene.attacker.post("/worlds", {"id": scene.name, "template": "market", "seed": 3})
    answer = await scene.attacker.post(f"/worlds/{scene.name}/run", {"ticks": count})
    await asyncio.sleep(HELD_S)
    await scene.attacker.post(f"/worlds/{scene.name}/pause", {})
    return answer


async def _many_ticks(scene: Scene) -> str:
    return counted([await _ticks(scene, 100_000)])


async def _few_ticks(scene: Scene) -> bool:
    await scene.attacker.post("/worlds", {"id": scene.name, "template": "market", "seed": 3})
    return (await scene.attacker.post(f"/worlds/{scene.name}/tick", {"count": 2})).is_good


async def _streams(scene: Scene, count: int, *, reads: bool) -> str:
    """Open live streams and hold them, while something is written to them."""
    head = scene.attacker.head("GET", "/api/v1/events/stream", {"Accept": "text/event-stream"})
    opened: list[asyncio.StreamWriter] = []
    answers: list[Answer] = []
    try:
        for _ in range(count):
            try:
                reader, writer = await scene.attacker.connect()
            except OSError:
                answers.append(Answer(0))
                continue
            opened.append(writer)
            writer.write(head)
            if reads:
                async with asyncio.timeout(10):
                    answers.append(Answer(int((await reader.readline()).split()[1])))
        written = await many(100, lambda number: _write(scene, number))
        return f"{counted(answers)}; written {counted(written)}"
    finally:
        for writer in opened:
            writer.close()


async def _many_streams(scene: Scene) -> str:
    return await _streams(scene, 300, reads=True)


async def _unread_streams(scene: Scene) -> str:
    return await _streams(scene, 60, reads=False)


async def _one_stream(scene: Scene) -> bool:
    return (await _streams(scene, 1, reads=True)).startswith("200 x 1; written 201")


INPUTS = (
    _flood("events-flood", 400, _write),
    _flood("chats-flood", 200, _chat),
    _flood("turns-flood", 60, _turn),
    _flood("tasks-flood", 150, _task),
    _flood("schedules-flood", 100, _schedule),
    _flood("lists-flood", 60, _list),
    _flood("graphs-flood", 60, _graph),
    _flood("openapi-flood", 200, _openapi),
    _flood("errors-flood", 600, _nothing, at_once=50),
    Input(name="errors-large", attack=_large_errors, twin=_small_error),
    _flood("worlds-flood", 8, _world, at_once=4),
    Input(name="worlds-large", attack=_large_society, twin=_small_society),
    Input(name="ticks-flood", attack=_many_ticks, twin=_few_ticks),
    Input(name="streams-flood", attack=_many_streams, twin=_one_stream),
    Input(name="streams-unread", attack=_unread_streams, twin=_one_stream),
)
