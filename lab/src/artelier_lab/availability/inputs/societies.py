"""Worlds of many agents, many at once: each tick is one large batch, and each world a task at work."""

from __future__ import annotations

import asyncio

from artelier_lab.availability.client import Answer
from artelier_lab.availability.inputs.builders import counted
from artelier_lab.availability.scene import Input, Scene

WORLDS = 24
AGENTS = 900
RUNNING = 64


async def _make(scene: Scene, number: int, agents: int) -> Answer:
    rules = {"agents": [{"id": "idle_{n}", "count": agents, "policy": "nobody"}], "settle": False}
    asked = {"id": f"{scene.name}-{number}", "world": rules}
    return await scene.attacker.post("/worlds", asked)


async def _pass_ticks(scene: Scene, number: int, agents: int) -> Answer:
    made = await _make(scene, number, agents)
    if not made.is_good:
        return made
    return await scene.attacker.post(f"/worlds/{scene.name}-{number}/tick", {"count": 3})


async def _many_societies(scene: Scene) -> str:
    return counted(await asyncio.gather(*(_pass_ticks(scene, number, AGENTS) for number in range(WORLDS))))


async def _one_society(scene: Scene) -> bool:
    return (await _pass_ticks(scene, 0, 3)).is_good


INPUTS = (Input(name="societies-24", attack=_many_societies, twin=_one_society),)
