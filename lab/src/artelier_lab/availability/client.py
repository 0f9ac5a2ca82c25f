"""A small HTTP client that can also misbehave: half-open connections, slow bodies, broken requests."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

ANSWER_S = 30.0
"""How long an answer may take before the client gives up."""
ANSWER_BYTES_MAX = 256 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a request; status 0 if there was none."""

    status: int
    body: bytes = b""

    @property
    def is_good(self) -> bool:
        return 200 <= self.status < 300

    def json(self) -> Any:
        return json.loads(self.body)


class Client:
    """Requests of one person, each on a connection of its own."""

    def __init__(self, port: int, *, token: str = "", address: str = "127.0.0.1") -> None:
        """`address`: which of this machine's loopback addresses the requests come from."""
        self.port = port
        self._address = address
        self._token = token

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection(
            "127.0.0.1", self.port, limit=1024 * 1024, local_addr=(self._address, 0)
        )

    def head(self, method: str, path: str, headers: Mapping[str, str]) -> bytes:
        """Return the first lines of a request, up to the empty line."""
        own = {"Host": f"127.0.0.1:{self.port}", **headers}
        if self._token:
            own.setdefault("Authorization", f"Bearer {self._token}")
        lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in own.items())]
        return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1", "replace")

    async def ask(
        self,
        method: str,
        path: str,
        *,
        json_: Any = None,
        body: bytes | None = None,
        chunks: Iterable[bytes] | None = None,
        size_bytes: int = 0,
        headers: Mapping[str, str] | None = None,
        within_s: float = ANSWER_S,
        base: str = "/api/v1",
    ) -> Answer:
        """Send a request and return the answer; `chunks` are a body of `size_bytes` in pieces."""
        sent = dict(headers or {})
        if json_ is not None:
            body = json.dumps(json_).encode()
        if body is not None:
            chunks, size_bytes = (body,), len(body)
            sent.setdefault("Content-Type", "application/json")
        if chunks is not None or method != "GET":
            sent["Content-Length"] = str(size_bytes)
        path = path if path == "/" else f"{base}{path}"
        try:
            async with asyncio.timeout(within_s):
                return await self._asked(self.head(method, path, {**sent, "Connection": "close"}), chunks)
        except (OSError, TimeoutError, asyncio.IncompleteReadError, ValueError):
            return Answer(0)

    async def _asked(self, head: bytes, chunks: Iterable[bytes] | None) -> Answer:
        reader, writer = await self.connect()
        try:
            writer.write(head)
            sending = asyncio.ensure_future(_send(writer, chunks or ()))
            try:
                return await read_answer(reader)
            finally:
                sending.cancel()
                await asyncio.gather(sending, return_exceptions=True)
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()

    async def get(self, path: str, **more: Any) -> Answer:
        return await self.ask("GET", path, **more)

    async def post(self, path: str, json_: Any = None, **more: Any) -> Answer:
        return await self.ask("POST", path, json_=json_, **more)


async def _send(writer: asyncio.StreamWriter, chunks: Iterable[bytes]) -> None:
    with suppress(OSError):  # it has answered before it had all, which is its right
        for chunk in chunks:
            writer.write(chunk)
            await writer.drain()


async def read_answer(reader: asyncio.StreamReader) -> Answer:
    """Errors: `IncompleteReadError`, `ValueError` for what is no answer."""
    head = await reader.readuntil(b"\r\n\r\n")
    lines = head.decode("latin-1").split("\r\n")
    status = int(lines[0].split(" ", 2)[1])
    fields = {
        name.strip().lower(): value.strip()
        for name, _, value in (line.partition(":") for line in lines[1:] if line)
    }
    if status in (204, 304):
        return Answer(status)
    if fields.get("transfer-encoding") == "chunked":
        return Answer(status, await _read_chunks(reader))
    size = int(fields.get("content-length", "0"))
    if size > ANSWER_BYTES_MAX:
        raise ValueError("the answer is too large")
    return Answer(status, await reader.readexactly(size))


async def _read_chunks(reader: asyncio.StreamReader) -> bytes:
    parts, size = list[bytes](), 0
    while True:
        length = int((await reader.readline()).split(b";")[0], 16)
        parts.append((await reader.readexactly(length + 2))[:-2])
        size += length
        if not length or size > ANSWER_BYTES_MAX:
            return b"".join(parts)
