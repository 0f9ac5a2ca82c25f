"""The HTTP server: its sockets and its limits."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Generator
from functools import partial
from types import FrameType

import uvicorn
from fastapi import FastAPI

from artelier.errors import InvalidConfig
from artelier.garbage import give_large_back, leave_out, look_again
from artelier.server.loop_shares import LoopShares
from artelier.server.security.connection_limits import (
    HEADERS_S,
    READ_BYTES,
    UNREAD_S,
    WAITING_SHARE,
    GuardedConnection,
    Waiting,
)
from artelier.server.security.connections import Acceptor, Connections, connections_max
from artelier.server.security.guard import find_sender
from artelier.server.settings import ServerSettings
from artelier.threads import OwnerThreads

ENDING_S = 10
"""How long requests at hand may take when the server ends."""
QUEUE = 2048
"""Connections that may wait to be accepted."""
THREAD_SWITCH_S = 0.0001
"""How long a thread that computes keeps the interpreter while the event loop waits for it. The loop gives
the interpreter up at every row that it reads and every packet that it sends: at Python's 5 ms, a request
beside one large document took 200 ms."""
THREADS_MAX = 32
"""Threads of an event loop, as many as Python's own executor has at most."""
THREADS_OF_OTHERS = 2
"""So many of them are left to others whatever the users of one tenant have the server do."""


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
        bound.listen(QUEUE)
    except OSError as error:
        bound.close()
        raise InvalidConfig(
            f"port {port} of {host} cannot be used: {error.strerror}",
            expected="a free port",
            got=port,
            hint="Name another with --port; 0 takes a free one.",
        ) from None
    bound.setblocking(False)
    return bound


def address_of(bound: socket.socket, settings: ServerSettings) -> str:
    """Return the URL under which a browser reaches it: the public one, else that of this machine."""
    if settings.public is not None:
        return settings.public.origin
    port = bound.getsockname()[1]
    host = "127.0.0.1" if settings.host in ("0.0.0.0", "::") else settings.host
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


def make_executor() -> OwnerThreads:
    """Return what `asyncio.to_thread` works in, and names of hosts are looked up in, while a server runs.

    The users of one tenant have at most all threads but two, and all users together one less than there are.
    """
    threads = max(THREADS_OF_OTHERS + 1, min(THREADS_MAX, (os.cpu_count() or 1) + 4))
    most = threads - THREADS_OF_OTHERS
    return OwnerThreads(threads, name="artelier", owner_max=most, group_max=most, kept=1)


class Server(uvicorn.Server):
    """Ends live streams first: they would hold the end up for ever."""

    def __init__(self, app: FastAPI, *, headers_s: float = HEADERS_S, unread_s: float = UNREAD_S) -> None:
        """`headers_s`: how long the headers of a request may take; `unread_s`: how long nothing of an answer
        may be read."""
        logging.getLogger("uvicorn.error").setLevel(logging.ERROR)  # not a line for each bad request
        most = connections_max()
        self.waiting = Waiting(most=most // WAITING_SHARE, headers_s=headers_s)
        self.connections = Connections(most=most)
        self._buffer = memoryview(bytearray(READ_BYTES))
        self._unread_s = unread_s
        self._acceptors = list[Acceptor]()
        super().__init__(
            uvicorn.Config(
                app,
                log_config=None,
                access_log=False,
                server_header=False,
                ws="none",
                lifespan="on",
                timeout_graceful_shutdown=ENDING_S,
                proxy_headers=False,
            )
        )
        self._app = app
        self._thread_switch_s = sys.getswitchinterval()

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        with self.capture_signals():
            # A signal that came before cancels this task here, where nothing has begun that must end.
            await asyncio.sleep(0)
            await self._serve(sockets)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        loop = asyncio.get_running_loop()
        loop.set_default_executor(make_executor())
        self._shares = LoopShares(loop)
        loop.set_task_factory(self._shares)
        self._thread_switch_s = sys.getswitchinterval()
        sys.setswitchinterval(min(self._thread_switch_s, THREAD_SWITCH_S))
        await super().startup([])
        for listening in sockets or ():
            self._acceptors.append(Acceptor(listening, self._make_connection, connections=self.connections))
        # Collections of garbage stop everybody: they leave out what is there for good, two hundred
        # thousand objects of code and routes, each time a tenth of a second.
        leave_out(self)
        give_large_back()
        self._app.state.late.on_included = gc.freeze

    def _make_connection(self) -> GuardedConnection:
        return GuardedConnection(
            connections=self.connections,
            waiting=self.waiting,
            shares=self._shares,
            find_sender=partial(find_sender, self._app.state.gate),
            buffer=self._buffer,
            unread_s=self._unread_s,
            config=self.config,
            server_state=self.server_state,
            app_state=self.lifespan.state,
        )

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for acceptor in self._acceptors:
            acceptor.close()
        self._app.state.hub.close()
        await super().shutdown(sockets)
        look_again(self)
        sys.setswitchinterval(self._thread_switch_s)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """SIGTERM lets tools that are at work end first; Ctrl-C, or a second signal, does not."""
        draining = self._app.state.kernel.services.draining
        if sig == signal.SIGTERM and not self.should_exit:
            draining.begin()
        else:
            draining.hurry()
        super().handle_exit(sig, frame)

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
