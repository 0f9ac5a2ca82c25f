"""Requests of a few bytes whose answers are made of something large: searches, differences, long chats."""

from __future__ import annotations

import json
from typing import Any

from artelier_lab.availability.client import Answer
from artelier_lab.availability.inputs.builders import MIB, counted, many
from artelier_lab.availability.scene import Input, Scene

WITHIN_S = 30.0


async def _compare(scene: Scene, before: Any, after: Any) -> Answer:
    """Write two versions, and ask for what differs."""
    id, place = f"docs/{scene.name}", f"/artifacts/docs%2F{scene.name}"
    await scene.attacker.post("/artifacts", {"id": id, "kind": "document", "content": before})
    await scene.attacker.ask("PATCH", place, json_={"content": after, "expected_version": 1})
    return await scene.attacker.get(f"{place}/diff?a=1&b=2", within_s=WITHIN_S)


async def _compare_below_long_key(scene: Scene) -> str:
    """Each pair had the whole path, which was two gigabytes together."""
    before, after = ({"k" * 200_000: {str(n): number for n in range(5_000)}} for number in (0, 1))
    return counted([await _compare(scene, before, after)])


async def _compare_small(scene: Scene) -> bool:
    answer = await _compare(scene, {"a": [1, 2]}, {"a": [1, 3]})
    return answer.is_good and answer.json()["text"] == "~ /a/1: 2 -> 3"


def _chat(turns: int, chars: int) -> bytes:
    lines = [json.dumps({"user_name": "Ann", "character_name": "Mira"})]
    for number in range(2 * turns):
        text = f"word {number} ".ljust(chars, "x")
        lines.append(
            json.dumps({"name": ("Ann", "Mira")[number % 2], "is_user": not number % 2, "mes": text})
        )
    return "\n".join(lines).encode()


async def _take_chat(scene: Scene, content: bytes) -> str:
    answer = await scene.attacker.ask(
        "POST",
        "/sessions/files?name=chat.jsonl",
        chunks=(content[at : at + MIB] for at in range(0, len(content), MIB)),
        size_bytes=len(content),
        headers={"Content-Type": "application/octet-stream"},
        within_s=WITHIN_S,
    )
    return answer.json()["chat_id"] if answer.is_good else "none"


def _chat_read(name: str, route: str, *, turns: int, chars: int, times: int) -> Input:
    """A chat that came as a file, and many requests for it at once."""

    async def attack(scene: Scene) -> str:
        path = f"/sessions/{await _take_chat(scene, _chat(turns, chars))}{route}"
        asked = many(times, lambda _: scene.attacker.get(path, within_s=WITHIN_S), at_once=times)
        return counted(await asked)

    async def twin(scene: Scene) -> bool:
        id = await _take_chat(scene, _chat(2, 100))
        return (await scene.attacker.get(f"/sessions/{id}{route}")).is_good

    return Input(name=f"chat-{name}", attack=attack, twin=twin)


async def _search(scene: Scene, *, texts: int, chars: int, times: int) -> list[Answer]:
    """Write so many documents, and look for a word in them so often."""
    text = "The quick brown fox jumps over it. " * (chars // 35)

    async def write(number: int) -> Answer:
        new = {"id": f"docs/{scene.name}-{number}", "kind": "document", "content": f"{number} {text}"}
        return await scene.attacker.post("/artifacts", new, within_s=WITHIN_S)

    await many(texts, write, at_once=8)
    path = f"/artifacts?q={scene.name}+zzzz"
    return await many(times, lambda _: scene.attacker.get(path, within_s=WITHIN_S), at_once=times)


async def _search_many(scene: Scene) -> str:
    return counted(await _search(scene, texts=80, chars=60_000, times=10))


async def _search_few(scene: Scene) -> bool:
    return all(one.is_good for one in await _search(scene, texts=2, chars=100, times=1))


INPUTS = (
    Input(name="search-documents", attack=_search_many, twin=_search_few),
    Input(name="diff-long-key", attack=_compare_below_long_key, twin=_compare_small),
    _chat_read("large-shown", "?limit=200", turns=75, chars=199_000, times=8),
    _chat_read("large-exported", "/export?format=jsonl", turns=75, chars=199_000, times=8),
    _chat_read("far-back", "?limit=200&before=3", turns=8_000, chars=20, times=40),
    _chat_read("searched", "/search?words=zzz", turns=2_000, chars=20, times=8),
)
