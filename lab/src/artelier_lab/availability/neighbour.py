"""The other tenant: its requests at a fixed rate, whatever becomes of those before, and how long each took.

A process of its own, so that what the attack costs its client is not measured. A line `begin` starts an
interval, `end` ends it; the answer is one line of JSON. Run as `python -m ... PORT TOKEN`.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import sys
from collections import Counter
from contextlib import suppress
from typing import Any

from artelier_lab.availability.client import Client, read_answer

RATE = 50
"""Requests a second, begun on time however many are open (an open loop)."""
GIVEN_UP_S = 10.0
"""A request without an answer counts as this long, and as failed."""
OPEN_MAX = 600
ADDRESS = "127.0.0.2"
"""Not the attacker's: what an address may hold open is limited."""

REQUESTS: tuple[tuple[str, str, Any], ...] = (
    ("GET", "/me", None),
    ("GET", "/artifacts/notes%2Fneighbour", None),
    ("GET", "/runs?limit=20", None),
    ("POST", "/artifacts", {"id": "notes/NEW", "kind": "document", "content": "what the neighbour writes"}),
    ("GET", "/events?limit=20", None),
    ("POST", "/profiles/validate", {"profile": {"profile_id": "trial", "operations": []}}),
)
"""What a person at a page asks for, one after the other. The last needs a thread beside the event loop."""


class Neighbour(Client):
    """Its connections are kept and used again, as a browser does."""

    def __init__(self, port: int, token: str) -> None:
        super().__init__(port, token=token, address=ADDRESS)
        self._idle: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []
        self._open: set[asyncio.Task[None]] = set()
        self.took_s: list[float] = []
        self.failed: Counter[int] = Counter()
        """Answers that were no success, by status; 0 for none."""
        self._number = 0
        self._own = secrets.token_hex(4)
        """Of ids: another process was here before a server was killed."""

    async def forever(self) -> None:
        loop = asyncio.get_running_loop()
        began_s, number = loop.time(), 0
        while True:
            due_s = began_s + number / RATE
            if (ahead_s := due_s - loop.time()) > 0:
                await asyncio.sleep(ahead_s)
            number += 1
            if len(self._open) >= OPEN_MAX:
                self.took_s.append(GIVEN_UP_S)
                self.failed[0] += 1
                continue
            task = asyncio.ensure_future(self._one(due_s))
            self._open.add(task)
            task.add_done_callback(self._open.discard)

    async def settled(self) -> None:
        """Wait for the requests that are open, each for its time at most."""
        if self._open:
            await asyncio.wait(tuple(self._open), timeout=GIVEN_UP_S)

    async def _one(self, due_s: float) -> None:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout_at(due_s + GIVEN_UP_S):
                status = await self._exchanged()
        except (OSError, TimeoutError, asyncio.IncompleteReadError, ValueError):
            status = 0
        if not 200 <= status < 300:
            self.failed[status] += 1
        self.took_s.append(loop.time() - due_s if status else GIVEN_UP_S)

    async def _exchanged(self) -> int:
        self._number += 1
        method, path, asked = REQUESTS[self._number % len(REQUESTS)]
        body, headers = b"", dict[str, str]()
        if asked is not None:
            body = json.dumps(asked).replace("NEW", f"{self._own}-{self._number}").encode()
            headers = {"Content-Type": "application/json", "Content-Length": str(len(body))}
        asked_for = self.head(method, f"/api/v1{path}", headers) + body
        while self._idle:
            reader, writer = self._idle.pop()
            if reader.at_eof() or writer.is_closing():
                writer.close()
                continue
            # A server may close a connection that was idle: then the request goes out again, as a browser's.
            with suppress(ConnectionError, asyncio.IncompleteReadError):
                return await self._exchange(reader, writer, asked_for)
        return await self._exchange(*await self.connect(), asked_for)

    async def _exchange(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: bytes
    ) -> int:
        try:
            writer.write(request)
            status = (await read_answer(reader)).status
        except BaseException:
            writer.close()
            raise
        self._idle.append((reader, writer))
        return status


def figures(took_s: list[float]) -> tuple[float, float]:
    """Return the 99th percentile and the maximum, in milliseconds."""
    ordered = sorted(took_s) or [0.0]
    return ordered[min(len(ordered) - 1, len(ordered) * 99 // 100)] * 1000, ordered[-1] * 1000


async def main(port: int, token: str) -> None:
    neighbour = Neighbour(port, token)
    asking: asyncio.Task[None] | None = None
    print("{}", flush=True)
    while line := (await asyncio.to_thread(sys.stdin.readline)).strip():
        if line == "begin":
            neighbour.took_s, neighbour.failed = [], Counter()
            asking = asyncio.ensure_future(neighbour.forever())
        elif asking is not None:
            asking.cancel()
            await neighbour.settled()
            p99_ms, max_ms = figures(neighbour.took_s)
            told = {"p99_ms": p99_ms, "max_ms": max_ms, "failed": dict(neighbour.failed)}
            print(json.dumps({**told, "requests": len(neighbour.took_s)}), flush=True)


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), sys.argv[2]))
