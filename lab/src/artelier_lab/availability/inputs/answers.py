"""Requests of a few bytes for what is large: contents, and answers that nobody takes."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

from artelier_lab.availability.client import Answer
from artelier_lab.availability.inputs.builders import MIB, counted, many, upload
from artelier_lab.availability.scene import Input, Scene

FILE_MIB = 20
"""Less than a server takes, so that most of the time is the attack's."""
HELD_S = 3.0


async def _address(scene: Scene, mib: int) -> str:
    """Return the address of a new file of so many MiB, or of a note."""
    answer = await upload(scene, "file.txt", [b"word ab " * (MIB // 8)] * mib or [b"A note."])
    return f"/artifacts/{answer.json()['items'][0]['id'].replace('/', '%2F')}"


async def _unread(scene: Scene) -> str:
    """Ask for a file forty times, and take nothing of it."""
    path = await _address(scene, FILE_MIB)
    async with AsyncExitStack() as open_:
        for _ in range(40):
            _, writer = await scene.attacker.connect()
            open_.callback(writer.transport.abort)
            writer.transport.pause_reading()  # type: ignore[attr-defined] - a socket's has it
            writer.write(scene.attacker.head("GET", f"/api/v1{path}/content", {}))
        await asyncio.sleep(HELD_S)
    return "40 held"


async def _read(scene: Scene) -> bool:
    return (await scene.attacker.get(f"{await _address(scene, 0)}/content")).body == b"A note."


async def _change(scene: Scene, path: str, number: int) -> Answer:
    change = {"expected_version": number + 1, "metadata": {"number": number}}
    return await scene.attacker.ask("PATCH", path, json_=change)


async def _changes(scene: Scene) -> str:
    path = await _address(scene, FILE_MIB)
    return counted(await many(30, lambda number: _change(scene, path, 0), at_once=30))


async def _one_change(scene: Scene) -> bool:
    return (await _change(scene, await _address(scene, 0), 0)).is_good


async def _turn(scene: Scene, ref: str) -> Answer:
    await scene.attacker.post("/sessions", {"id": scene.name, "model": "reply:decent"})
    said = {"text": "Look.", "attachments": [ref]}
    return await scene.attacker.post(f"/sessions/{scene.name}/turns", said)


def _ref(path: str) -> str:
    return path.removeprefix("/artifacts/").replace("%2F", "/")


async def _turns(scene: Scene) -> str:
    ref = _ref(await _address(scene, FILE_MIB))
    return counted(await many(30, lambda number: _turn(scene, ref), at_once=30))


async def _one_turn(scene: Scene) -> bool:
    return (await _turn(scene, _ref(await _address(scene, 0)))).is_good


PROMPT_BYTES = 7_400_000
_WORDS = "word \u00e9 "


async def _prompt(scene: Scene, size_bytes: int, times: int) -> list[Answer]:
    """Ask a model with a prompt of this size, and read that prompt so often at once."""
    text = _WORDS * (size_bytes // len(_WORDS.encode()))
    said = {"model": "openai-chat:gpt-4o", "messages": [{"role": "user", "content": text}], "max_tokens": 50}
    headers = {"Artelier-Run": scene.name}
    asked = await scene.attacker.post("/chat/completions", said, headers=headers, base="/v1")
    if not asked.is_good:
        return [asked]
    path = f"/runs/{scene.name}/prompt?step={asked.json()['artelier']['step']}"
    return await many(times, lambda number: scene.attacker.get(path), at_once=times)


async def _prompts(scene: Scene) -> str:
    return counted(await _prompt(scene, PROMPT_BYTES, 20))


async def _one_prompt(scene: Scene) -> bool:
    return all(answer.is_good for answer in await _prompt(scene, 100, 1))


GRANTS = ["tools:*", "artifacts:*", "media:send", "pii:restore"]


async def _people(scene: Scene, count: int, times: int) -> list[Answer]:
    """Read a document of so many people so often at once, as somebody who may see them."""
    granted = await scene.attacker.ask("PATCH", "/tenants/me", json_={"grants": GRANTS})
    text = "\n".join(f"p{number}@ex{number % 97}.com" for number in range(count))
    made = {"id": f"docs/{scene.name}-{count}", "kind": "document", "content": text}
    written = await scene.attacker.post("/artifacts", made, within_s=60.0)
    path = f"/artifacts/docs%2F{scene.name}-{count}"
    read = await many(times, lambda _: scene.attacker.get(path, within_s=60.0), at_once=4)
    return [granted, written, *read]


async def _see_many(scene: Scene) -> str:
    return counted(await _people(scene, 40_000, 12))


async def _see_few(scene: Scene) -> bool:
    answers = await _people(scene, 3, 1)
    return all(answer.is_good for answer in answers) and b"p1@ex1.com" in answers[-1].body


LONG_NAMES = [f"a{number:03}{'x' * 500}" for number in range(900)]


async def _listed(scene: Scene, count: int, names: list[str]) -> list[Answer]:
    """Write so many artifacts that these may read, and list all eight times at once."""

    async def write(number: int) -> Answer:
        asked = {"id": f"docs/{scene.name}-{number}", "kind": "document", "content": "A note."}
        return await scene.attacker.post("/artifacts", asked | {"access": {"allow": {"read": names}}})

    written = await many(count, write, at_once=4)
    return written + await many(8, lambda number: scene.attacker.get("/artifacts?limit=500"), at_once=8)


async def _list_policies(scene: Scene) -> str:
    return counted(await _listed(scene, 60, ["operator", *LONG_NAMES]))


async def _list_notes(scene: Scene) -> bool:
    return all(answer.is_good for answer in await _listed(scene, 2, ["operator"]))


INPUTS = (
    Input(name="content-unread", attack=_unread, twin=_read),
    Input(name="content-kept", attack=_changes, twin=_one_change),
    Input(name="content-attached", attack=_turns, twin=_one_turn),
    Input(name="prompt-read", attack=_prompts, twin=_one_prompt),
    Input(name="people-shown-40000", attack=_see_many, twin=_see_few),
    Input(name="list-policies", attack=_list_policies, twin=_list_notes),
)
