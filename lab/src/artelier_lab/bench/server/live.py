"""The delay of an event to its listeners, the number of listeners, and the server's cost of one frame."""

from __future__ import annotations

import asyncio
import http.client
import json
import subprocess
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from artelier_lab.bench.figures import median
from artelier_lab.bench.processes import compiling_environ, python
from artelier_lab.bench.server.clients import Client, Crowd

SLOW_RECEIVE_BYTES = 4096
FLOOD = 2_000
"""Events that fill the sockets of one who does not read, and then its queue in the server."""
FLOOD_NAME_CHARS = 150
QUEUE_MAX = 1000
SLOW_QUEUE_MAX = 200
"""Where one is slow on purpose: what sockets hold comes on top of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """Clients that all hear `rate` events a second, for so many of them."""

    clients: int
    rate: int
    events: int
    rounds: int = 3


class Served:
    """The server's process, and the cookie of a person who is signed in."""

    def __init__(self, database: Path, *, queue_max: int = QUEUE_MAX) -> None:
        self._process = subprocess.Popen(
            [*python("-m", "artelier_lab.bench.server.served"), str(database), str(queue_max)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=compiling_environ(),
        )
        told = self._read()
        self.address: str = told["address"]
        self.cookie = _signed_in(self.address, told["token"])

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the server's process ended"
        return json.loads(line)

    async def ask(self, **asked: Any) -> dict[str, Any]:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        return await asyncio.to_thread(self._read)

    def close(self) -> None:
        process = self._process
        if process.stdin is not None:
            process.stdin.close()
        try:
            process.wait(60)
        finally:
            process.kill()
            process.wait()
            if process.stdout is not None:
                process.stdout.close()


def _signed_in(address: str, token: str) -> str:
    """The cookie that the link gives, which works once."""
    connection = http.client.HTTPConnection(urlsplit(address).netloc, timeout=60)
    try:
        connection.request("GET", f"/?token={token}")
        return str(connection.getresponse().getheader("Set-Cookie")).partition(";")[0]
    finally:
        connection.close()


@asynccontextmanager
async def _listening(served: Served, count: int) -> AsyncGenerator[tuple[Crowd, list[Client]]]:
    """Clients that have all there is."""
    crowd = Crowd(served.address, served.cookie)
    clients = [Client(crowd) for _ in range(count)]
    try:
        for client in clients:
            await client.connect()
        head = (await served.ask(write={"rate": 0, "events": 10, "name_chars": 0}))["head"]
        await crowd.until_all(clients, head)
        yield crowd, clients
    finally:
        for client in clients:
            client.close()


def percentile(ascending: Sequence[int], share: float) -> float:
    return float(ascending[min(len(ascending) - 1, int(share * len(ascending)))])


def missed(clients: Sequence[Client]) -> int:
    """Positions that somebody did not get, or got twice, or in the wrong order."""
    most = max((client.last for client in clients), default=0)
    return sum(client.positions.tolist() != [*range(1, most + 1)] for client in clients)


async def under(served: Served, load: Load) -> dict[str, float]:
    """Delays, misses and CPU with so many clients; no one of them is slow. Delays: the median of rounds."""
    async with _listening(served, load.clients) as (crowd, clients):
        before = await served.ask()
        p50s, p99s, cpu_s = list[float](), list[float](), 0.0
        for _ in range(load.rounds):
            begun = [len(client.delays_us) for client in clients]
            told = await served.ask(write={"rate": load.rate, "events": load.events, "name_chars": 0})
            await crowd.until_all(clients, told["head"])
            delays = sorted(
                delay
                for client, start in zip(clients, begun, strict=True)
                for delay in client.delays_us[start:]
            )
            p50s.append(percentile(delays, 0.5) / 1000)
            p99s.append(percentile(delays, 0.99) / 1000)
            cpu_s += told["cpu_s"]
        after = await served.ask()
        events = after["head"] - before["head"]
        return {
            "p50_ms": median(p50s),
            "p99_ms": median(p99s),
            "cpu_us_per_frame": cpu_s * 1e6 / (events * load.clients),
            "encodes_per_event": (after["encoded"] - before["encoded"]) / events,
            "missed": missed(clients),
        }


async def slow_one(database: Path, clients: int) -> dict[str, float]:
    """One of many stops reading until the server has dropped it; then it comes back.

    Everybody gets everything: that one as well, and others that the flood overtook.
    """
    served = Served(database, queue_max=SLOW_QUEUE_MAX)
    try:
        return await _slow_one(served, clients)
    finally:
        served.close()


async def _slow_one(served: Served, clients: int) -> dict[str, float]:
    async with _listening(served, clients) as (crowd, others):
        slow = Client(crowd, receive_bytes=SLOW_RECEIVE_BYTES)
        try:
            await slow.connect()
            await crowd.until_all([slow], others[0].last)
            slow.pause()
            told = await served.ask(write={"rate": 0, "events": FLOOD, "name_chars": FLOOD_NAME_CHARS})
            await crowd.until_all(others, told["head"])
            slow.resume()
            await crowd.until_all([slow], told["head"])
        finally:
            slow.close()
        return {"dropped": slow.connections - 1, "missed": missed([*others, slow])}
