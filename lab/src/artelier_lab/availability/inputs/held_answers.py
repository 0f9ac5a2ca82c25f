"""Answers that are held: streams that stay open, and files of the page of which nothing is read."""

from __future__ import annotations

import asyncio
import json
import re
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress

from artelier_lab.availability.client import Client
from artelier_lab.availability.inputs.builders import many
from artelier_lab.availability.scene import Input, Scene

HELD_S = 3.0
SUBSCRIBERS = 1_000
UNREAD = 1_050
RECEIVED_BYTES = 4096
"""What the system keeps for a client of what it has not read."""


async def _hold(count: int, ask: Callable[[int], Awaitable[asyncio.StreamWriter]]) -> str:
    """Hold so many requests open."""
    opened = list[asyncio.StreamWriter]()

    async def one(number: int) -> None:
        with suppress(OSError, TimeoutError):
            opened.append(await ask(number))

    try:
        for first in range(0, count, 50):
            await asyncio.gather(*(one(number) for number in range(first, min(count, first + 50))))
        await asyncio.sleep(HELD_S)
        return f"{len(opened)} held"
    finally:
        for writer in opened:
            writer.transport.abort()


def _subscription(task: str) -> bytes:
    params = {"id": task}
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": "SubscribeToTask", "params": params}).encode()


async def _begin_task(scene: Scene) -> str:
    """Let an agent begin what takes a while; return the id of the task."""
    message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "Go."}], "contextId": scene.name}
    params = {
        "message": message,
        "metadata": {"artelier": {"model": "reply:slow"}},
        "configuration": {"returnImmediately": True},
    }
    asked = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": params}
    answer = await scene.attacker.post("/a2a", asked, headers={"A2A-Version": "1.0"})
    return str(answer.json()["result"]["task"]["id"])


async def _subscribe(client: Client, task: str) -> asyncio.StreamWriter:
    body = _subscription(task)
    _, writer = await client.connect()
    headers = {"A2A-Version": "1.0", "Content-Type": "application/json", "Content-Length": str(len(body))}
    writer.write(client.head("POST", "/api/v1/a2a", headers) + body)
    return writer


async def _subscribers(scene: Scene) -> str:
    task = await _begin_task(scene)
    return await _hold(SUBSCRIBERS, lambda _: _subscribe(scene.attacker, task))


async def _subscriber(scene: Scene) -> bool:
    return bool(await _begin_task(scene))


async def _largest(client: Client) -> str:
    """Return the path of the page's program."""
    page = (await client.get("/")).body.decode()
    return re.findall(r'src="([^"]+\.js)"', page)[0]


async def _ask_unread(client: Client, path: str) -> asyncio.StreamWriter:
    own = socket.socket()
    own.setblocking(False)
    own.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVED_BYTES)
    await asyncio.get_running_loop().sock_connect(own, ("127.0.0.1", client.port))
    reader, writer = await asyncio.open_connection(sock=own)
    writer.write(client.head("GET", path, {}))
    writer.transport.pause_reading()  # type: ignore[attr-defined]
    del reader
    return writer


async def _unread_files(scene: Scene) -> str:
    path = await _largest(scene.stranger)
    return await _hold(UNREAD, lambda _: _ask_unread(scene.stranger, path))


async def _read_files(scene: Scene) -> bool:
    path = await _largest(scene.stranger)
    return all(one.is_good for one in await many(6, lambda _: scene.stranger.get(path, base=""), at_once=6))


INPUTS = (
    Input(name="subscribers-flood", attack=_subscribers, twin=_subscriber),
    Input(name="files-unread", attack=_unread_files, twin=_read_files),
)
