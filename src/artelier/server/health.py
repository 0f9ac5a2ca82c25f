"""The state of a process for whoever supervises it: `/livez`, `/readyz` and `/metrics` on a port of its own.

Supervisors ask by address, without a name or a login, so they have no place at the server's door: this port
answers nothing else, names no tenant, run or person, and is on loopback unless told otherwise. It needs no
web framework, so that a worker starts without one.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import time
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from artelier.agents import Worker
from artelier.app import Kernel
from artelier.errors import ArtelierError, InvalidConfig, InvalidRequest
from artelier.ids import VERSION
from artelier.ports.telemetry import Telemetry, WatchesLag

SAMPLE_S = 0.1
"""Between two samples: a timer ten times a second costs nothing that could be measured."""
SAMPLES_MAX = 600
"""A minute of samples."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lag:
    """The lag of the last minute, in milliseconds."""

    p99_ms: int
    max_ms: int
    worst_ms: int
    """The largest since the server began."""


class LoopLag:
    """A timer in the loop that it measures. `start` and `stop` are called in that loop."""

    def __init__(self, telemetry: Telemetry | None = None) -> None:
        self._watcher = telemetry if isinstance(telemetry, WatchesLag) else None
        self._samples: deque[float] = deque(maxlen=SAMPLES_MAX)
        self._worst_s = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(SAMPLE_S, self._sample, loop, loop.time() + SAMPLE_S)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _sample(self, loop: asyncio.AbstractEventLoop, due_s: float) -> None:
        late_s = max(0.0, loop.time() - due_s)
        self._samples.append(late_s)
        self._worst_s = max(self._worst_s, late_s)
        if self._watcher is not None:
            self._watcher.loop_lagged(late_s)
        self.start()

    def show(self) -> Lag:
        ordered = sorted(self._samples) or [0.0]
        p99_s = ordered[min(len(ordered) - 1, len(ordered) * 99 // 100)]
        return Lag(
            p99_ms=round(p99_s * 1000), max_ms=round(ordered[-1] * 1000), worst_ms=round(self._worst_s * 1000)
        )


HEAD_BYTES_MAX = 4096
"""Of a request: its line and headers. Bodies are not read."""
HEAD_S = 5.0
"""How long a request and its answer may take."""
AT_ONCE_MAX = 32
"""Connections at one time; others are closed."""
FRESH_S = 1.0
"""For so long an answer about the store is given again, so that a flood of questions costs it nothing."""

JSON, PROMETHEUS = "application/json", "text/plain; version=0.0.4; charset=utf-8"
REASONS = {200: "OK", 400: "Bad Request", 404: "Not Found", 405: "Method Not Allowed"} | {
    503: "Service Unavailable"
}


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthState:
    """The state of a process that serves or drives runs."""

    store: str
    """`ok`, or the code of the error with which it cannot be read."""
    schema: str
    """`ok`; `newer` when another process has brought the store to a schema that this one does not know."""
    is_draining: bool
    """Whether it takes no more runs, and is about to end."""
    backlog: int
    """Runs that somebody should drive now and nobody does, at most 1,000 of a kind."""
    active: int
    """Runs that this process drives."""
    slots: int
    """Runs that its worker drives side by side; 0 without a worker."""
    position: int
    """The newest event of the store."""
    commits: int
    """Durable commits of this process."""

    @property
    def is_ready(self) -> bool:
        """Return True if work that is sent here is done; a backlog is no reason to send it elsewhere."""
        return self.store == self.schema == "ok" and not self.is_draining


class Health:
    """The state of a kernel, read at most once a second."""

    def __init__(self, kernel: Kernel, *, slots: int) -> None:
        self._kernel = kernel
        self._slots = slots
        self._looks = Worker(kernel, kernel.services)
        """It drives nothing: it says what is due."""
        self._read: tuple[float, HealthState] | None = None
        self._turn = asyncio.Lock()

    async def state(self) -> HealthState:
        """Return the state, at most `FRESH_S` old."""
        async with self._turn:
            if self._read is None or time.monotonic() - self._read[0] > FRESH_S:
                self._read = (time.monotonic(), await self._look())
            return self._read[1]

    async def _look(self) -> HealthState:
        services, store = self._kernel.services, self._kernel.store
        said, schema, backlog, position = "ok", "ok", 0, 0
        try:
            schema = "ok" if store.is_current else "newer"
            position, _ = await store.root()
            backlog = len(await self._looks.due())
        except ArtelierError as error:
            said = error.code
        return HealthState(
            store=said,
            schema=schema,
            is_draining=services.draining.has_begun,
            backlog=backlog,
            active=len(services.active),
            slots=self._slots,
            position=position,
            commits=store.commits,
        )


async def answer(health: Health, lag: LoopLag, path: str) -> tuple[int, str, str]:
    """Return status, content type and body for a path."""
    if path == "/livez":
        return 200, JSON, '{"status": "alive"}\n'  # that the event loop comes to it is the proof
    if path == "/readyz":
        return _readiness(await health.state())
    if path == "/metrics":
        return 200, PROMETHEUS, _metrics(await health.state(), lag.show())
    return 404, JSON, '{"error": "there is /livez, /readyz and /metrics"}\n'


def _readiness(state: HealthState) -> tuple[int, str, str]:
    checks = {
        "store": state.store,
        "schema": state.schema,
        "draining": state.is_draining,
        "backlog": state.backlog,
    }
    body = {"status": "ready" if state.is_ready else "not ready", **checks}
    return (200 if state.is_ready else 503), JSON, f"{json.dumps(body)}\n"


def _metrics(state: HealthState, lag: Lag) -> str:
    """Return the figures as Prometheus reads them."""
    times = os.times()
    figures = (
        ("ready", "gauge", "1 if work that is sent here is done.", int(state.is_ready)),
        ("draining", "gauge", "1 if the process takes no more runs.", int(state.is_draining)),
        ("runs_due", "gauge", "Runs that nobody drives and somebody should.", state.backlog),
        ("runs_active", "gauge", "Runs that this process drives.", state.active),
        ("worker_slots", "gauge", "Runs that its worker drives side by side.", state.slots),
        ("store_position", "gauge", "The newest event of the store.", state.position),
        ("store_commits_total", "counter", "Durable commits of this process.", state.commits),
        ("loop_lag_p99_seconds", "gauge", "Lag of the event loop in the last minute.", lag.p99_ms / 1000),
        ("loop_lag_max_seconds", "gauge", "The largest of that minute.", lag.max_ms / 1000),
        ("process_cpu_seconds_total", "counter", "CPU of this process.", times.user + times.system),
        ("process_resident_bytes", "gauge", "Memory of this process.", _resident_bytes()),
    )
    lines = [f'# TYPE artelier_info gauge\nartelier_info{{version="{VERSION}"}} 1']
    for name, kind, text, value in figures:
        full = f"artelier_{name}"
        lines.append(f"# HELP {full} {text}\n# TYPE {full} {kind}\n{full} {value}")
    return "\n".join(lines) + "\n"


def _resident_bytes() -> int:
    with suppress(OSError, ValueError, IndexError):
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")
    return 0


def parse_address(text: str) -> tuple[str, int]:
    """Return host and port of `PORT` or `HOST:PORT`; without a host it is this machine alone.

    Errors: `InvalidRequest`.
    """
    host, _, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]") or "127.0.0.1"
    if not (port.isascii() and port.isdigit() and len(port) <= 5 and int(port) <= 65_535):
        raise InvalidRequest(
            "the address for health", expected="PORT or HOST:PORT, such as 9090", got=repr(text)[:80]
        )
    return host, int(port)


@asynccontextmanager
async def serving(kernel: Kernel, address: str, *, slots: int) -> AsyncGenerator[str]:
    """Answer on an address while it is open; its URL. Port 0 takes a free one.

    Errors: `InvalidRequest`; `InvalidConfig` for an address that cannot be had.
    """
    host, port = parse_address(address)
    health, lag, at_work = Health(kernel, slots=slots), LoopLag(), set[asyncio.Task[None]]()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        if len(at_work) >= AT_ONCE_MAX:
            writer.close()
            return
        at_work.add(task)
        try:
            await _serve_one(health, lag, reader, writer)
        finally:
            at_work.discard(task)
            writer.close()

    try:
        server = await asyncio.start_server(connected, host, port, limit=HEAD_BYTES_MAX)
    except (OSError, UnicodeError) as error:
        raise InvalidConfig(
            f"health cannot be served there: {getattr(error, 'strerror', None) or error}",
            expected="a free port of this machine",
            got=address[:80],
        ) from None
    bound = server.sockets[0].getsockname()
    shown = f"[{bound[0]}]" if server.sockets[0].family == socket.AF_INET6 else bound[0]
    lag.start()
    try:
        yield f"http://{shown}:{bound[1]}"
    finally:
        lag.stop()
        server.close()
        for task in tuple(at_work):
            task.cancel()
        await asyncio.gather(*at_work, return_exceptions=True)


async def _serve_one(
    health: Health, lag: LoopLag, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """Answer one request; a connection carries no second one."""
    with suppress(TimeoutError, ConnectionError, asyncio.IncompleteReadError):
        async with asyncio.timeout(HEAD_S):
            try:
                head = await reader.readuntil(b"\r\n\r\n")
                method, path, _ = head.split(b"\r\n", 1)[0].decode("ascii").split(" ")
            except (asyncio.LimitOverrunError, ValueError):  # UnicodeDecodeError is one
                method, path = "", ""
            if not method:
                status, kind, body = 400, JSON, '{"error": "this is no request"}\n'
            elif method not in ("GET", "HEAD"):
                status, kind, body = 405, JSON, '{"error": "GET or HEAD"}\n'
            else:
                status, kind, body = await answer(health, lag, path.partition("?")[0])
            content = body.encode()
            writer.write(
                f"HTTP/1.1 {status} {REASONS[status]}\r\nContent-Type: {kind}\r\n"
                f"Content-Length: {len(content)}\r\nCache-Control: no-store\r\n"
                f"X-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n".encode()
                + (b"" if method == "HEAD" else content)
            )
            await writer.drain()
