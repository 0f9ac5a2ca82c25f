"""Clients of live events as cheap as they can be, so that the server is what is measured.

Each is one socket that reads server-sent events in chunks, remembers the last id, and comes back with it
when the server ends the stream, as a browser does.
"""

from __future__ import annotations

import asyncio
import re
import time
from array import array
from urllib.parse import urlsplit

PATIENCE_S = 120.0
"""For anything to arrive at all."""
WIDE_BYTES = 1 << 20
"""The receive buffer of one that has been slow and is no longer."""

_FRAME = re.compile(rb'id: (\d+)\ndata: .*?"at_us":(\d+)')


class Crowd:
    """The address of the server, and the state that all clients share."""

    def __init__(self, address: str, cookie: str) -> None:
        place = urlsplit(address)
        self.host, self.port = str(place.hostname), int(place.port or 0)
        self.cookie = cookie
        self.changed = asyncio.Event()
        self.refused = ""
        """What the server answered to one that it did not let in."""

    async def until_all(self, clients: list[Client], position: int) -> None:
        """Wait until each of them has the event at a position. Errors: `TimeoutError`."""
        async with asyncio.timeout(PATIENCE_S):
            while any(client.last < position for client in clients):
                assert not self.refused, f"a stream was refused: {self.refused}"
                self.changed.clear()
                await self.changed.wait()


class Client(asyncio.Protocol):
    """One stream after another. `positions` and `delays_us` are of every frame that came, in order."""

    def __init__(self, crowd: Crowd, *, receive_bytes: int = 0) -> None:
        self._crowd = crowd
        self._receive_bytes = receive_bytes
        self.positions = array("q")
        self.delays_us = array("q")
        self.connections = 0
        self.is_over = False
        self._transport: asyncio.Transport | None = None
        self._again: asyncio.Task[None] | None = None
        self._raw = self._text = b""
        self._has_head = False

    @property
    def last(self) -> int:
        return self.positions[-1] if self.positions else 0

    async def connect(self) -> None:
        loop = asyncio.get_running_loop()
        await loop.create_connection(lambda: self, self._crowd.host, self._crowd.port)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport, self._raw, self._text, self._has_head = transport, b"", b"", False
        self.connections += 1
        if self._receive_bytes:
            _set_receive_bytes(transport, self._receive_bytes)
        seen = f"Last-Event-ID: {self.last}\r\n" if self.positions else ""
        transport.write(
            f"GET /api/v1/events/stream HTTP/1.1\r\nHost: {self._crowd.host}:{self._crowd.port}\r\n"
            f"Accept: text/event-stream\r\nCookie: {self._crowd.cookie}\r\n{seen}\r\n".encode()
        )

    def data_received(self, data: bytes) -> None:
        self._raw += data
        if not self._has_head:
            head, end, self._raw = self._raw.partition(b"\r\n\r\n")
            if not end:
                self._raw = head
                return
            if not head.startswith(b"HTTP/1.1 200"):
                self._crowd.refused = head.partition(b"\r\n")[0].decode("latin-1")
                self._crowd.changed.set()
                self.close()
                return
            self._has_head = True
        self._unchunk()
        whole, end, rest = self._text.rpartition(b"\n\n")
        if end:
            self._text = rest
            now_us = time.time_ns() // 1000
            for frame in _FRAME.finditer(whole):
                self.positions.append(int(frame[1]))
                self.delays_us.append(now_us - int(frame[2]))
            self._crowd.changed.set()

    def _unchunk(self) -> None:
        raw, at = self._raw, 0
        while (end := raw.find(b"\r\n", at)) >= 0:
            size = int(raw[at:end], 16)
            if len(raw) < end + 4 + size:
                break
            self._text += raw[end + 2 : end + 2 + size]
            at = end + 4 + size
        self._raw = raw[at:]

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.is_over:
            self._again = asyncio.ensure_future(self.connect())

    def eof_received(self) -> bool:
        return False

    def pause(self) -> None:
        """Read nothing, as somebody whose line is too slow."""
        assert self._transport is not None
        self._transport.pause_reading()

    def resume(self) -> None:
        """Read again, and as fast as anybody: four kilobytes at a time would take half a minute."""
        assert self._transport is not None
        if self._receive_bytes:
            self._receive_bytes = 0
            _set_receive_bytes(self._transport, WIDE_BYTES)
        self._transport.resume_reading()

    def close(self) -> None:
        self.is_over = True
        if self._transport is not None:
            self._transport.abort()


def _set_receive_bytes(transport: asyncio.Transport, count: int) -> None:
    import socket

    transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, count)
