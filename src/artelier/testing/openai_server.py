"""A real OpenAI-compatible HTTP server on loopback, for tests of everything above the socket.

It runs in a thread of its own, so it works from plain code, from async code and for child processes:

    with OpenAIServer(["hello", Fault.status(503), {"answer": 42}]) as server:
        environ = {"OPENAI_API_KEY": "test", "OPENAI_BASE_URL": server.base_url}
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import struct
import threading
from collections.abc import Callable, Sequence
from typing import Any, cast

from artelier.models.scripted import PlainStep, reply_from
from artelier.testing import openai_wire as wire
from artelier.testing.faults import Fault, Received, ServerStep, Slow
from artelier.testing.openai_wire import embeddings

__all__ = ["Fault", "OpenAIServer", "Received", "Slow"]

_BODY_BYTES_MAX = 64 * 1024 * 1024
_START_S = 5.0


class OpenAIServer:
    """Serves `POST .../chat/completions`, plain and streamed, from a script.

    `script` is a list of steps (what `ScriptedModel` takes as a reply, a `Fault` or a `Slow`), or one
    function of the request's JSON body to a step. Beyond the end of a list it answers 500.
    Use it as a context manager, plain or async.
    """

    def __init__(
        self,
        script: Sequence[ServerStep] | Callable[[dict[str, Any]], ServerStep],
        *,
        repeat_last: bool = False,
        embed: Callable[[dict[str, Any]], dict[str, Any] | Fault] = embeddings,
    ) -> None:
        """`embed`: answers `POST .../embeddings`, from the request's JSON body; no step of the script."""
        self._script = script
        self._embed = embed
        self._repeat_last = repeat_last
        self.requests: list[Received] = []
        self.connections_total = 0
        self.connections_open = 0
        self.aborted = 0
        """Answers that the client did not wait for."""
        self._changed = threading.Condition()
        self._taken = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._port = 0

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self._port}/v1"

    def wait_until(self, fact: Callable[[OpenAIServer], bool], *, timeout_s: float = 2.0) -> bool:
        """Block until `fact(server)` holds; False if it does not within `timeout_s`."""
        with self._changed:
            return self._changed.wait_for(lambda: fact(self), timeout_s)

    def __enter__(self) -> OpenAIServer:
        started = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(started,), daemon=True)
        self._thread.start()
        if not started.wait(_START_S):
            raise RuntimeError("the test server did not start")
        return self

    def __exit__(self, *_: object) -> None:
        assert self._loop is not None and self._thread is not None
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(_START_S)

    async def __aenter__(self) -> OpenAIServer:
        return self.__enter__()

    async def __aexit__(self, *exc: object) -> None:
        await asyncio.to_thread(self.__exit__, *exc)

    def _run(self, started: threading.Event) -> None:
        asyncio.run(self._serve(started))

    async def _serve(self, started: threading.Event) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        tasks: set[asyncio.Task[None]] = set()

        def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.ensure_future(self._connection(reader, writer))
            tasks.add(task)
            task.add_done_callback(tasks.discard)

        server = await asyncio.start_server(accept, "127.0.0.1", 0)
        self._port = server.sockets[0].getsockname()[1]
        started.set()
        await self._stop.wait()
        server.close()
        for task in tuple(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._count(total=1, open=1)
        try:
            while (received := await _read_request(reader)) is not None:
                with self._changed:
                    self.requests.append(received)
                    self._changed.notify_all()
                if not await self._answer_unless_gone(received, reader, writer):
                    break
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # the client went away: what a test with cancellation wants
        finally:
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()
            self._count(open=-1)

    async def _answer_unless_gone(
        self, received: Received, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        """Answer while watching for the client's end of the connection; False ends the connection."""
        answer = asyncio.ensure_future(self._answer(received, writer))
        gone = asyncio.ensure_future(reader.read(1))
        try:
            await asyncio.wait((answer, gone), return_when=asyncio.FIRST_COMPLETED)
            if answer.done():
                return answer.result()
            self._count(aborted=1)
            return False
        finally:
            for task in (answer, gone):
                task.cancel()
            await asyncio.gather(answer, gone, return_exceptions=True)

    async def _answer(self, received: Received, writer: asyncio.StreamWriter) -> bool:
        if received.path.endswith("/embeddings"):
            found = self._embed(received.body)
            if not isinstance(found, Fault):
                found = Fault(kind="answer", body=json.dumps(found).encode())
            return await _misbehave(found, writer)
        step = self._next(received)
        between_s = 0.0
        if isinstance(step, Slow):
            await asyncio.sleep(step.delay_s)
            between_s, step = step.between_s, step.step
        if isinstance(step, Fault) and step.kind != "truncated":
            return await _misbehave(step, writer)
        if not received.path.endswith("/chat/completions"):
            return await _misbehave(Fault.status(404, f"no such path: {received.path}"), writer)
        cut = isinstance(step, Fault)
        clean = not cut or step.clean
        reply = reply_from(cast(PlainStep, step.step if isinstance(step, Fault) else step))
        number = len(self.requests)
        if received.body.get("stream"):
            pieces = [*wire.chunks(reply, received.body, number=number)]
            pieces = pieces[: len(pieces) // 2] if cut else pieces
            await _send_events(writer, pieces, between_s=between_s, done=not cut, end=clean)
            return clean
        whole = json.dumps(wire.completion(reply, received.body, number=number)).encode()
        writer.write(_head(200, len(whole), (("Content-Type", "application/json"),)))
        writer.write(whole[: len(whole) // 2] if cut else whole)
        await writer.drain()
        return not cut

    def _next(self, received: Received) -> ServerStep:
        if callable(self._script):
            return self._script(received.body)
        steps = self._script
        with self._changed:
            self._taken += 1
            if self._taken <= len(steps):
                return steps[self._taken - 1]
        if self._repeat_last and steps:
            return steps[-1]
        return Fault.status(500, f"unexpected request: only {len(steps)} steps were scripted")

    def _count(self, *, total: int = 0, open: int = 0, aborted: int = 0) -> None:
        with self._changed:
            self.connections_total += total
            self.connections_open += open
            self.aborted += aborted
            self._changed.notify_all()


async def _read_request(reader: asyncio.StreamReader) -> Received | None:
    """One HTTP/1.1 request with a JSON body, or None at the end of the connection."""
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.rstrip("\r\n").split("\r\n")
    method, path, _ = first.split(" ", 2)
    headers = {
        name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)
    }
    size_bytes = min(int(headers.get("content-length", "0")), _BODY_BYTES_MAX)
    raw = await reader.readexactly(size_bytes)
    body = cast(dict[str, Any], json.loads(raw or b"{}"))
    return Received(method=method, path=path, headers=headers, body=body)


async def _misbehave(fault: Fault, writer: asyncio.StreamWriter) -> bool:
    if fault.kind == "reset":
        sock = cast(socket.socket, writer.get_extra_info("socket"))
        # Linger of zero seconds makes close() send RST instead of FIN.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()
        return False
    headers = fault.headers
    if not any(name.lower() == "content-type" for name, _ in headers):
        headers = (("Content-Type", "application/json"), *headers)
    writer.write(_head(fault.status_code, len(fault.body), headers) + fault.body)
    await writer.drain()
    return True


async def _send_events(
    writer: asyncio.StreamWriter, pieces: list[dict[str, Any]], *, between_s: float, done: bool, end: bool
) -> None:
    """Server-sent events, chunked. `done`: with the mark `[DONE]`; `end`: with HTTP's last chunk."""
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
    for piece in [*map(json.dumps, pieces), *(["[DONE]"] if done else [])]:
        data = f"data: {piece}\n\n".encode()
        writer.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        await writer.drain()
        if between_s:
            await asyncio.sleep(between_s)
    if end:
        writer.write(b"0\r\n\r\n")
        await writer.drain()


def _head(code: int, size_bytes: int, headers: Sequence[tuple[str, str]]) -> bytes:
    lines = [f"HTTP/1.1 {code} Scripted", f"Content-Length: {size_bytes}"]
    lines += [f"{name}: {value}" for name, value in headers]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")
