"""A server to measure, in a process of its own: its kernel also holds the writers.

One line of JSON comes in, one goes out: `{"write": {"rate": 500, "events": 5000, "name_chars": 0}}` has so
many events written, evenly at that rate (0: as fast as they go); `furnish`, `settle` and `revise` make and
change what stands on the canvas (`scene.py`). The answer comes when all is durable.
"""

from __future__ import annotations

import asyncio
import json
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from artelier import Kernel
from artelier.kernel import Run
from artelier.server.app import create_app
from artelier.server.http_server import Server, address_of, bind
from artelier.server.live_hub import Hub
from artelier.server.settings import ServerSettings
from artelier_lab.bench.server.scene import furnish, revise, settle

SEND_BYTES = 64 * 1024
"""Of a socket's buffer: else megabytes of it hide that somebody does not read."""

WRITERS = 10
"""Runs that are written to side by side."""


async def _write(kernel: Kernel, *, name: str, rate: float, events: int, name_chars: int) -> None:
    """Steps of several runs, each due at its own instant; a late one is made up for at once."""
    begun_s, each = time.perf_counter(), events // WRITERS
    rest = "x" * name_chars

    async def one(run: Run, writer: int) -> None:
        for number in range(each):
            due_s = begun_s + (number * WRITERS + writer) / rate if rate else begun_s
            if (ahead_s := due_s - time.perf_counter()) > 0:
                await asyncio.sleep(ahead_s)
            await run.step(f"s{number}{rest}", lambda: None)

    async def writer(number: int) -> None:
        async with kernel.run(f"{name}-{number}") as run:
            await one(run, number)

    await asyncio.gather(*(writer(number) for number in range(WRITERS)))


class _Desk:
    """Answers the lines."""

    def __init__(self, kernel: Kernel, hub: Hub) -> None:
        self._kernel = kernel
        self._hub = hub
        self._written = 0

    async def answer(self, asked: dict[str, Any]) -> dict[str, Any]:
        begun_s = time.process_time()
        if (write := asked.get("write")) is not None:
            self._written += 1
            await _write(self._kernel, name=f"w{self._written}", **write)
        if (rooms := asked.get("furnish")) is not None:
            await furnish(self._kernel, **rooms)
        if (agents := asked.get("settle")) is not None:
            await settle(self._kernel, agents=agents)
        if (documents := asked.get("revise")) is not None:
            await revise(self._kernel, **documents)
        cpu_s = time.process_time() - begun_s
        head, _ = await self._kernel.store.root()
        return {"head": head, "cpu_s": cpu_s, "encoded": self._hub.encoded}


async def serve(path: Path, *, queue_max: int, told: Callable[[str], None]) -> None:
    """Serve a database until standard input ends. The first line that is told has address and token."""
    kernel = Kernel.open(path, environ={})
    settings = ServerSettings(has_worker=False, queue_max=queue_max)
    app = create_app(kernel, settings=settings)
    bound = bind("127.0.0.1", 0)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BYTES)
    server = Server(app)
    serving = asyncio.create_task(server.serve(sockets=[bound]))
    try:
        token = app.state.gate.sessions.link()
        told(json.dumps({"address": address_of(bound, settings), "token": token}))
        desk = _Desk(kernel, app.state.hub)
        while line := await asyncio.to_thread(sys.stdin.readline):
            told(json.dumps(await desk.answer(json.loads(line))))
    finally:
        server.should_exit = True
        await serving
        bound.close()
        await kernel.aclose()


if __name__ == "__main__":
    asyncio.run(
        serve(Path(sys.argv[1]), queue_max=int(sys.argv[2]), told=lambda line: print(line, flush=True))
    )
