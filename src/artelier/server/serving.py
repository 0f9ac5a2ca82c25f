"""The server on a port: a socket that is really ours, and an end that leaves nothing half-done."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import socket
import threading
from collections.abc import Generator

import uvicorn
from fastapi import FastAPI

from artelier.errors import InvalidConfig
from artelier.server.settings import ServerSettings

ENDING_S = 10
"""How long requests at hand may take when the server ends."""


def bind(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 takes a free one. Errors: `InvalidConfig` if it cannot be had."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, address = found[0]
        bound = socket.socket(family, kind, protocol)
    except (OSError, UnicodeError):
        raise InvalidConfig("no such host", expected="a host of this machine", got=host) from None
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
        bound.listen(2048)
    except OSError as error:
        bound.close()
        raise InvalidConfig(
            f"port {port} of {host} cannot be used: {error.strerror}",
            expected="a free port", got=port, hint="Name another with --port; 0 takes a free one.",
        ) from None  # fmt: skip
    bound.setblocking(False)
    return bound


def address_of(bound: socket.socket, settings: ServerSettings) -> str:
    """The URL under which a browser on this machine reaches it."""
    port = bound.getsockname()[1]
    host = "127.0.0.1" if settings.host in ("0.0.0.0", "::") else settings.host
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


class Server(uvicorn.Server):
    """Ends live streams first: they would hold the end up for ever."""

    def __init__(self, app: FastAPI) -> None:
        logging.getLogger("uvicorn.error").setLevel(logging.WARNING)
        super().__init__(
            uvicorn.Config(
                app, log_config=None, access_log=False, server_header=False, ws="none",
                lifespan="on", timeout_graceful_shutdown=ENDING_S, proxy_headers=False,
            )
        )  # fmt: skip
        self._app = app

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._app.state.hub.close()
        await super().shutdown(sockets)

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        """Ctrl-C and SIGTERM end the server, and nothing else: what comes after it is still done."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        loop, signals = asyncio.get_running_loop(), (signal.SIGINT, signal.SIGTERM)
        for one in signals:
            loop.add_signal_handler(one, self.handle_exit, one, None)
        try:
            yield
        finally:
            for one in signals:
                loop.remove_signal_handler(one)


async def serve(app: FastAPI, bound: socket.socket) -> None:
    """Serve until a signal comes. Errors: what the start of the application raised."""
    await Server(app).serve(sockets=[bound])
