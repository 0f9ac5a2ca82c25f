"""Serving MCP clients: one over this process's standard streams, or those on this machine over HTTP.

On stdout stands nothing but the protocol. Its package has a transport over streams too; there a line has no
bound, and a signal does not end the wait for one. HTTP is loopback, a secret, and no page of a browser: a
page can send requests to 127.0.0.1, or to a name of its own that it has pointed there (CVE-2025-66416). So
every request needs our `Host`, no foreign `Origin`, and the token.
"""

from __future__ import annotations

import asyncio
import hmac
import os
import socket
import sys
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import TYPE_CHECKING, Any

import anyio
from mcp import types
from mcp.server.transport_security import TransportSecuritySettings
from mcp.shared.message import SessionMessage

from artelier.errors import Conflict
from artelier.server.mcp.client_view import Face
from artelier.tools.function import DaemonThreads

if TYPE_CHECKING:
    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
    from starlette.types import ASGIApp, Receive, Scope, Send

    from artelier.server.security.users import ProgramTokens


HOST = "127.0.0.1"
PATH = "/mcp"
BODY_BYTES_MAX = 4 * 1024 * 1024
SESSIONS_MAX = 100
IDLE_S = 1_800
END_S = 2
"""How long open streams may keep the end of the server waiting."""


async def serve_http(
    face: Face, *, port: int, token: str, ready: Callable[[str], None], tokens: ProgramTokens | None = None
) -> None:
    """Serve until a signal or a cancel. `ready` is told the URL; port 0 takes a free one.

    `token` holds for this process; `tokens` are those of programs, which outlive it.
    Errors: `Conflict` if the port is taken.
    """
    import uvicorn

    with _bind(port) as listening:
        port = listening.getsockname()[1]
        hosts = [f"{HOST}:{port}", f"localhost:{port}"]
        app = face.server.streamable_http_app(
            streamable_http_path=PATH,
            max_request_body_size=BODY_BYTES_MAX,
            host=HOST,
            max_sessions=SESSIONS_MAX,
            session_idle_timeout=IDLE_S,
            transport_security=TransportSecuritySettings(
                allowed_hosts=hosts, allowed_origins=[f"http://{host}" for host in hosts]
            ),
        )
        config = uvicorn.Config(
            HttpGuard(app, hosts=hosts, token=token, tokens=tokens),
            log_config=None,
            access_log=False,
            timeout_graceful_shutdown=END_S,
            server_header=False,
            lifespan="on",
            ws="none",
        )
        ready(f"http://{HOST}:{port}{PATH}")
        try:
            await uvicorn.Server(config).serve(sockets=[listening])
        finally:
            await face.aclose()


def _bind(port: int) -> socket.socket:
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((HOST, port))
        listening.listen()  # before the URL is told: nobody may be refused, or take the port meanwhile
    except OSError as error:
        listening.close()
        raise Conflict(
            f"the port cannot be used: {error.strerror}", got=port, hint="Name another with --port."
        ) from None
    return listening


class HttpGuard:
    """Lets requests through that carry our host, no foreign origin, and the token."""

    def __init__(
        self, app: ASGIApp, *, hosts: list[str], token: str, tokens: ProgramTokens | None = None
    ) -> None:
        self._app = app
        self._hosts = frozenset(host.encode() for host in hosts)
        self._origins = frozenset(f"http://{host}".encode() for host in hosts)
        self._expected = f"Bearer {token}".encode()
        self._tokens = tokens

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and (refusal := self._refusal(scope["headers"])) is not None:
            await _refuse(send, *refusal)
            return
        await self._app(scope, receive, send)

    def _refusal(self, headers: list[tuple[bytes, bytes]]) -> tuple[int, str, str] | None:
        found: dict[bytes, list[bytes]] = {}
        for name, value in headers:
            found.setdefault(name.lower(), []).append(value)
        if len(hosts := found.get(b"host", [])) != 1 or hosts[0] not in self._hosts:
            return 421, "access_denied", "this server answers to its own name only"
        if any(origin not in self._origins for origin in found.get(b"origin", [])):
            return 403, "access_denied", "pages of other origins may not ask this server"
        given = found.get(b"authorization", [])
        if len(given) != 1 or not self._is_known(given[0]):
            return 401, "access_denied", "the bearer token is missing or wrong"
        return None

    def _is_known(self, given: bytes) -> bool:
        if hmac.compare_digest(given, self._expected):
            return True
        scheme, _, token = given.partition(b" ")
        if self._tokens is None or scheme.lower() != b"bearer":
            return False
        return self._tokens.find(token.strip().decode("ascii", "replace")) is not None


async def _refuse(send: Send, status: int, code: str, message: str) -> None:
    import msgspec

    wire: dict[str, Any] = {"code": code, "message": message, "expected": None, "got": None}
    body = msgspec.json.encode({"error": {**wire, "hint": None}})
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


MESSAGE_BYTES_MAX = 4 * 1024 * 1024
"""One message of the client, as much as the HTTP transport takes."""

Inbox = SessionMessage | Exception

_threads = DaemonThreads(size_max=2)


async def serve_stdio(face: Face) -> None:
    """Serve until the client closes our stdin or this task is cancelled."""
    async with _streams() as (inbox, outbox):
        try:
            options = face.server.create_initialization_options()
            await face.server.run(inbox, outbox, options)
        finally:
            await face.aclose()  # what its runs print on their way out is no message either


@asynccontextmanager
async def _streams() -> AsyncGenerator[
    tuple[MemoryObjectReceiveStream[Inbox], MemoryObjectSendStream[SessionMessage]]
]:
    """Stdin and stdout as streams of messages."""
    to_server, inbox = anyio.create_memory_object_stream[Inbox](0)
    outbox, from_server = anyio.create_memory_object_stream[SessionMessage](0)
    with _wires() as (source, sink):
        tasks = [
            asyncio.create_task(_read(source, to_server)),
            asyncio.create_task(_write(sink, from_server, to_server)),
        ]
        try:
            yield inbox, outbox
            outbox.close()
            await asyncio.wait({tasks[1]}, timeout=1)  # the last answers
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            for stream in (to_server, inbox, outbox, from_server):
                stream.close()


@contextmanager
def _wires() -> Generator[tuple[int, int]]:
    """Private copies of stdin and stdout. Meanwhile whatever reads finds nothing, and what prints, prints to
    stderr: code of this process, its libraries and the processes that it starts."""
    sys.stdout.flush()
    source, sink, nothing = os.dup(0), os.dup(1), os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    os.close(nothing)
    try:
        yield source, sink
    finally:
        sys.stdout.flush()
        os.dup2(source, 0)
        os.dup2(sink, 1)
        # Not closed: a thread may still wait for them, and would then meet whatever is opened next.


async def _read(source: int, to_server: MemoryObjectSendStream[Inbox]) -> None:
    buffer = bytearray()
    with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
        async with to_server:
            while piece := await _threads.run(lambda: os.read(source, 65_536)):
                *lines, rest = (bytes(buffer) + piece if buffer else piece).split(b"\n")
                buffer[:] = rest
                for line in lines:
                    if line.strip():
                        await to_server.send(_message(line))
                if len(buffer) > MESSAGE_BYTES_MAX:
                    return  # no client that means well


def _message(line: bytes) -> Inbox:
    try:
        return SessionMessage(types.jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValueError as error:
        return error


async def _write(
    sink: int,
    from_server: MemoryObjectReceiveStream[SessionMessage],
    to_server: MemoryObjectSendStream[Inbox],
) -> None:
    async for item in from_server:
        text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
        data = text.encode() + b"\n"
        try:
            await _threads.run(lambda data=data: _write_all(sink, data))
        except OSError:
            to_server.close()  # the client has gone
            return


def _write_all(sink: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(sink, view) :]
