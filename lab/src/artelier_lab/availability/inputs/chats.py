"""Chats whose texts cost more than they are long."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable
from typing import Any

from artelier_lab.availability.client import Answer
from artelier_lab.availability.inputs.builders import MIB, counted, many, upload
from artelier_lab.availability.scene import Input, Scene

AMPLIFIED = "{{setvar::a::}}" + f"{{{{addvar::a::{'x' * 1_900}}}}}" * 5 + "{{getvar::a}}" * 60_000


async def _play(scene: Scene, name: str, about: str) -> list[Answer]:
    """Open a chat with a character of such a description, and say something."""
    char = {"name": name, "description": about}
    opened = await scene.attacker.post(
        "/sessions", {"id": scene.name, "model": "reply:decent", "user": "Ann", "char": char}, within_s=60.0
    )
    said = await scene.attacker.post(f"/sessions/{scene.name}/turns", {"text": "Hi"}, within_s=60.0)
    return [opened, said]


def _played(name: str, about: Callable[[], str]) -> Input:
    async def attack(scene: Scene) -> str:
        return counted(await _play(scene, "Mira", about()))

    async def twin(scene: Scene) -> bool:
        return all(
            one.is_good for one in await _play(scene, "Mira", "{{char}} guards the {{random::gate,door}}.")
        )

    return Input(name=f"chat-{name}", attack=attack, twin=twin)


def _said(name: str, body: Callable[[], bytes], *, count: int = 1) -> Input:
    """A turn with such a body, in a chat."""

    async def send(scene: Scene, content: bytes) -> Answer:
        return await scene.attacker.ask("POST", f"/sessions/{scene.name}/turns", body=content, within_s=60.0)

    async def attack(scene: Scene) -> str:
        await _open(scene)
        content = body()
        return counted(await many(count, lambda _: send(scene, content), at_once=count))

    async def twin(scene: Scene) -> bool:
        await _open(scene)
        return (await send(scene, b'{"text":"Hi"}')).is_good

    return Input(name=f"chat-{name}", attack=attack, twin=twin)


def _deleted(name: str, *, stored_bytes: int, count: int) -> Input:
    """Chats that are deleted at once, from the database that holds a large file, too."""

    async def gone(scene: Scene, id: str) -> Answer:
        for _ in range(30):
            answer = await scene.attacker.ask("DELETE", f"/sessions/{id}", within_s=60.0)
            if answer.status != 409:
                return answer
            await asyncio.sleep(0.1)  # the reply is being written
        raise TimeoutError(id)

    async def delete(scene: Scene, count: int) -> list[Answer]:
        ids = [f"{scene.name}-{n}" for n in range(count)]
        for id in ids:
            await scene.attacker.post("/sessions", {"id": id, "model": "reply:decent"})
            await scene.attacker.post(f"/sessions/{id}/turns", {"text": "Hi"})
        return await many(count, lambda n: gone(scene, ids[n]), at_once=count)

    async def attack(scene: Scene) -> str:
        pieces = [random.randbytes(MIB) for _ in range(stored_bytes // MIB)]  # not to be compressed
        stored = await upload(scene, "large.bin", pieces)
        return counted([stored, *await delete(scene, count)])

    async def twin(scene: Scene) -> bool:
        return all(one.is_good for one in await delete(scene, 1))

    return Input(name=f"chat-{name}", attack=attack, twin=twin)


async def _open(scene: Scene) -> None:
    await scene.attacker.post("/sessions", {"id": scene.name, "model": "reply:decent"})


def _saying(**said: Any) -> bytes:
    return json.dumps(said, ensure_ascii=False).encode()


INPUTS = (
    _played("newlines", lambda: "<" + "\n" * 500_000),
    _played("macros", lambda: AMPLIFIED),
    _said("turn-31-mb", lambda: _saying(text="a\né" * (6 * MIB)), count=4),
    _said("attachment-31-mb", lambda: _saying(text="x", attachments=["a" * (31 * MIB)]), count=4),
    _deleted("deletions", stored_bytes=48 * MIB, count=12),
)
