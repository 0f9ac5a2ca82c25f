"""What all tenants share: the threads beside the event loop, and the workers that run stored code."""

from __future__ import annotations

import asyncio
from typing import Any
from urllib.parse import quote

from artelier_lab.availability.client import Answer, Client
from artelier_lab.availability.inputs.builders import MIB, counted, many
from artelier_lab.availability.neighbour import ADDRESS
from artelier_lab.availability.scene import Input, Scene
from artelier_lab.availability.served import NEIGHBOUR, TOKENS

ENDLESS = "def run():\n    n = 0\n    while True:\n        n = n + 1\n"
SHORT = "def run():\n    return 1\n"
HELD_S = 6.0
"""After which the attacker waits no longer for what it has asked for."""


def _chain(count: int) -> dict[str, Any]:
    """A profile of so many operations, each of which shows the value of the next."""
    operations: list[dict[str, Any]] = []
    for number in range(1, count + 1):
        is_last = number == count
        shown = "last" if is_last else f"{{{{ deps.op{number + 1} }}}}"
        operations.append(
            {
                "operation_id": f"op{number}",
                "kind": "template",
                "hooks": ["after_main_llm"],
                "order": 1,
                "depends_on": [] if is_last else [f"op{number + 1}"],
                "params": {"template": shown, "effects": []},
            }
        )
    return {"profile_id": "trial", "operations": operations}


async def _check(client: Client, count: int) -> Answer:
    return await client.post("/profiles/validate", {"profile": _chain(count)}, within_s=HELD_S)


async def _check_many(scene: Scene) -> str:
    return counted(await many(60, lambda _: _check(scene.attacker, 490), at_once=60))


async def _check_one(scene: Scene) -> bool:
    return (await _check(scene.attacker, 3)).is_good


async def _send_signs(client: Client, size_bytes: int) -> Answer:
    said = [{"role": "user", "content": "<" * size_bytes}]
    asked = {"model": "openai-chat:gpt-4o", "messages": said, "max_tokens": 50}
    return await client.post("/chat/completions", asked, base="/v1")


async def _compute_together(scene: Scene) -> str:
    """All users of a tenant send what takes long to read, each a few times."""
    asked = [
        ask
        for client in scene.colleagues
        for ask in (*(_check(client, 490) for _ in range(6)), _send_signs(client, 4 * MIB))
    ]
    return counted(await asyncio.gather(*asked))


async def _compute_a_little(scene: Scene) -> bool:
    asked = [ask for client in scene.colleagues for ask in (_check(client, 3), _send_signs(client, 10))]
    return all(answer.is_good for answer in await asyncio.gather(*asked))


async def _invoke(client: Client, id: str, code: str, *, count: int = 1) -> list[Answer]:
    tool = {"id": id, "kind": "tool", "content": {"code": code}}
    stored = await client.post("/artifacts", tool)
    address = f"/artifacts/{quote(id, safe='')}/invoke"
    ask = many(count, lambda _: client.post(address, {"args": {}}, within_s=HELD_S), at_once=count)
    return await ask if stored.is_good else [stored]


async def _spin(scene: Scene) -> str:
    """Another tenant has a program run while those of the attacker do; say how long that took."""
    other = Client(scene.attacker.port, token=TOKENS[NEIGHBOUR], address=ADDRESS)
    loop = asyncio.get_running_loop()
    spinning = asyncio.ensure_future(_invoke(scene.attacker, f"tools/{scene.name}", ENDLESS, count=12))
    await asyncio.sleep(0.5)
    began_s = loop.time()
    answers = await _invoke(other, f"tools/other-{scene.name}", SHORT)
    took_ms = (loop.time() - began_s) * 1000
    return f"{counted(await spinning)}; another {counted(answers)} in {took_ms:,.0f} ms"


async def _run_short(scene: Scene) -> bool:
    return all(answer.is_good for answer in await _invoke(scene.attacker, f"tools/{scene.name}", SHORT))


INPUTS = (
    Input(name="profiles-checked-60", attack=_check_many, twin=_check_one),
    Input(name="colleagues-8", attack=_compute_together, twin=_compute_a_little),
    Input(name="programs-endless-12", attack=_spin, twin=_run_short),
)
