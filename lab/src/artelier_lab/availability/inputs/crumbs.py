"""Requests whose parts are small and many: pieces of a body, fields of a query, mistakes, memories."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress

from artelier_lab.availability.client import Answer, Client
from artelier_lab.availability.inputs.builders import MIB, counted, many
from artelier_lab.availability.scene import Input, Scene

CRUMBS = (b"40\r\n" + b"x" * 64 + b"\r\n") * 900
HELD_S = 4.0
FIELDS = 29_000
MISTAKES = 49_000


async def _blast(client: Client, until_s: float) -> int:
    """Send a login whose body has no end, and what no server reads of it; return the bytes."""
    loop, sent = asyncio.get_running_loop(), 0
    with suppress(OSError, TimeoutError):
        _, writer = await client.connect()
        try:
            as_json = {"Transfer-Encoding": "chunked", "Content-Type": "application/json"}
            writer.write(client.head("POST", "/api/v1/login", as_json))
            while loop.time() < until_s:
                writer.write(CRUMBS)
                await asyncio.wait_for(writer.drain(), max(0.05, until_s - loop.time()))
                sent += len(CRUMBS)
        finally:
            writer.transport.abort()
    return sent


async def _pieces(scene: Scene) -> str:
    loop = asyncio.get_running_loop()
    until_s = loop.time() + HELD_S

    async def again() -> int:
        sent = 0
        while loop.time() < until_s:
            sent += await _blast(scene.stranger, until_s)
            await asyncio.sleep(0.01)
        return sent

    return f"{sum(await asyncio.gather(*(again() for _ in range(10)))) / MIB:,.0f} MB"


async def _login(scene: Scene) -> bool:
    asked = {"user": "nobody", "password": "wrong"}
    return (await scene.stranger.ask("POST", "/login", json_=asked)).status == 401


async def _queries(scene: Scene) -> str:
    path = f"/runs?{'&'.join(['a'] * FIELDS)}"
    return counted(await many(200, lambda _: scene.attacker.get(path), at_once=8))


async def _query(scene: Scene) -> bool:
    return (await scene.attacker.get("/runs?limit=5&status=failed")).is_good


def _misfits(name: str, path: str, body: Callable[[], bytes]) -> Input:
    async def attack(scene: Scene) -> str:
        sent = body()
        return counted(await many(24, lambda _: scene.attacker.ask("POST", path, body=sent), at_once=8))

    async def twin(scene: Scene) -> bool:
        asked = {"id": f"docs/{scene.name}", "kind": "document", "content": "word " * 20_000}
        return (await scene.attacker.post("/artifacts", asked)).is_good

    return Input(name=name, attack=attack, twin=twin)


def _many_prices() -> bytes:
    prices = {str(number): "x" for number in range(MISTAKES)}
    return json.dumps({"id": "docs/none", "kind": "document", "content": "x", "prices": prices}).encode()


def _many_fields() -> bytes:
    return json.dumps({f"{number:06}": 1 for number in range(MISTAKES)}).encode()


def _many_stops() -> bytes:
    return json.dumps({"text": "x", "params": {"stop": [1] * MISTAKES}}).encode()


async def _tell(scene: Scene, text: str) -> Answer:
    """Let an agent hear a text over A2A, which begins its memory."""
    message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": text}], "contextId": scene.name}
    params = {"message": message, "metadata": {"artelier": {"model": "reply:decent"}}}
    asked = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": params}
    body = json.dumps(asked, ensure_ascii=False).encode()
    return await scene.attacker.ask("POST", "/a2a", body=body, headers={"A2A-Version": "1.0"})


async def _long_tells(scene: Scene) -> str:
    text = "\U0001f600" + "word ab " * (31 * MIB // 8 - 1000)
    return counted(await many(4, lambda _: _tell(scene, text), at_once=4))


async def _short_tell(scene: Scene) -> bool:
    return b'"error"' not in (await _tell(scene, "Go.")).body


async def _remember(scene: Scene, entries: int, chars: int) -> list[Answer]:
    """Fill a memory, and search it four times at once."""
    await _tell(scene, "Go.")

    async def keep(number: int) -> Answer:
        dice = random.Random(f"{scene.name}{number}")
        text = " ".join(f"{dice.randrange(10**7):x}" for _ in range(chars // 7))[:chars]
        return await scene.attacker.post("/memory/a2a/entries", {"text": text})

    kept = await many(entries, keep, at_once=4)
    asked: list[Awaitable[Answer]] = [
        scene.attacker.get(f"/memory/a2a/search?q=word{number}") for number in range(4)
    ]
    return [*kept, *(await asyncio.gather(*asked))]


async def _long_memories(scene: Scene) -> str:
    return counted(await _remember(scene, 200, 7_900))


async def _short_memories(scene: Scene) -> bool:
    return all(answer.is_good for answer in await _remember(scene, 2, 100))


INPUTS = (
    Input(name="login-in-crumbs", attack=_pieces, twin=_login),
    Input(name="query-of-fields", attack=_queries, twin=_query),
    _misfits("mistakes-prices", "/artifacts", _many_prices),
    _misfits("mistakes-fields", "/artifacts", _many_fields),
    _misfits("mistakes-stops", "/sessions/none/turns", _many_stops),
    Input(name="a2a-texts-31-mb", attack=_long_tells, twin=_short_tell),
    Input(name="memories-long", attack=_long_memories, twin=_short_memories),
)
