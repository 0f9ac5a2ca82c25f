"""Serving clients on this machine over HTTP: loopback, a secret, and no page of a browser.

A page that a browser shows can send requests to 127.0.0.1, or to a name of its own that it has pointed there
(CVE-2025-66416). So every request needs our `Host`, no foreign `Origin`, and the token.
"""

from __future__ import annotations

import hmac
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from mcp.server.transport_security import TransportSecuritySettings

from artelier.errors import Conflict
from artelier.server.mcp.client_view import Face

if TYPE_CHECKING:
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
