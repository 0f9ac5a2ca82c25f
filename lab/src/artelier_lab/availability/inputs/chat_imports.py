"""Exports of chats that come in again: small files of large content, and long chats."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

from artelier import Kernel, Session
from artelier.testing import ScriptedModel
from artelier_lab.availability.client import Answer
from artelier_lab.availability.inputs.builders import counted
from artelier_lab.availability.scene import Input, Scene


async def _export(folder: Path, name: str, turns: int, chars: int) -> bytes:
    """Return the file of a chat with so many turns, of so many characters each."""
    kernel = Kernel.open(folder / "own.db", models={"m": ScriptedModel(lambda _: "done")})
    with kernel:
        desk = kernel.for_tenant()
        session = await Session.open(desk, name, model="m")
        text = "word " * (chars // 5 - 2)
        await session.import_turns(
            [{"user": f"{number} {text}", "variants": ["done"]} for number in range(turns)]
        )
        await desk.export_chat(name, folder / "chat.artelier")
    return (folder / "chat.artelier").read_bytes()


async def _import(scene: Scene, turns: int, chars: int) -> Answer:
    with tempfile.TemporaryDirectory(prefix="artelier-") as folder:
        content = await asyncio.to_thread(asyncio.run, _export(Path(folder), f"c{scene.name}", turns, chars))
    return await scene.attacker.ask(
        "POST",
        "/sessions/import",
        body=content,
        headers={"Content-Type": "application/octet-stream"},
        within_s=60.0,
    )


def _imported(name: str, turns: int, chars: int) -> Input:
    async def attack(scene: Scene) -> str:
        return counted([await _import(scene, turns, chars)])

    async def twin(scene: Scene) -> bool:
        return (await _import(scene, 3, 100)).is_good

    return Input(name=f"chat-import-{name}", attack=attack, twin=twin)


async def _delete(scene: Scene, turns: int) -> list[Answer]:
    """Take a chat in and delete it again."""
    imported = await _import(scene, turns, 200)
    return [imported, await scene.attacker.ask("DELETE", f"/sessions/c{scene.name}", within_s=60.0)]


async def _delete_long(scene: Scene) -> str:
    return counted(await _delete(scene, 2_000))


async def _delete_short(scene: Scene) -> bool:
    return all(answer.is_good for answer in await _delete(scene, 3))


INPUTS = (
    _imported("of-240-mb", 252, 1_000_000 - 10),
    _imported("of-2000-turns", 2_000, 200),
    Input(name="chat-deleted-of-2000-turns", attack=_delete_long, twin=_delete_short),
)
