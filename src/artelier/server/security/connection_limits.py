"""Connections whose request has not arrived, or whose answer is not read: how long each may take, how many
there may be.

A stranger costs a file descriptor until the headers of a request are there. Where too many wait, the
oldest is closed for the newest: somebody who sends a request at once always gets in, however many
half-open connections another one holds. An answer or a live stream that nobody reads is closed too; a browser
opens the stream again, after the last event that it has seen. Read next: `guard.py`, for what is asked of a
request.
"""

from __future__ import annotations

import asyncio
import logging
import resource
import socket
from collections import OrderedDict
from typing import Any, cast

from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from artelier.server.security.login_throttle import place_of

HEADERS_S = 10.0
"""How long the headers of a request may take to arrive (a slow mobile network needs about one second)."""
UNREAD_S = 60.0
"""How long the other side may take nothing of an answer: a laptop that was closed, a client that never reads
(a guess: longer than a mobile network is away)."""
WAITING_PER_ADDRESS_MAX = 128
"""Connections of one address without a request. A browser opens about six."""
WAITING_SHARE = 4
"""At most one in so many of the process's file descriptors belongs to connections without a request."""
FILES_MAX = 65_536
"""How far the process's own limit of open files is raised, if the system allows it."""
SAID_EACH_S = 60.0
"""How often the log says that no connection can be accepted."""

logger = logging.getLogger("artelier.server")


class Waiting:
    """The connections of one server that have no request yet, oldest first."""

    def __init__(
        self, *, most: int, per_address: int = WAITING_PER_ADDRESS_MAX, headers_s: float = HEADERS_S
    ) -> None:
        self.headers_s = headers_s
        self._most = most
        self._per_address = per_address
        self._all: OrderedDict[GuardedConnection, None] = OrderedDict()
        self._by_address: dict[str, OrderedDict[GuardedConnection, None]] = {}

    def __len__(self) -> int:
        return len(self._all)

    def add(self, connection: GuardedConnection) -> None:
        """Count a connection; the oldest of its address, or of all, is closed where there are too many."""
        here = self._by_address.setdefault(connection.place, OrderedDict())
        if len(here) >= self._per_address:
            next(iter(here)).drop()
        elif len(self._all) >= self._most:
            next(iter(self._all)).drop()
        self._all[connection] = None
        self._by_address.setdefault(connection.place, here)[connection] = None

    def remove(self, connection: GuardedConnection) -> None:
        """Forget a connection: its request is there, or it is closed."""
        self._all.pop(connection, None)
        here = self._by_address.get(connection.place)
        if here is not None:
            here.pop(connection, None)
            if not here:
                del self._by_address[connection.place]


class GuardedConnection(H11Protocol):
    """One HTTP connection, closed where no request arrives in time."""

    place = ""
    _deadline: asyncio.TimerHandle | None = None

    def __init__(self, *, waiting: Waiting, unread_s: float, **settings: Any) -> None:
        super().__init__(**settings)
        self._waiting = waiting
        self._unread_s = unread_s

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.place = place_of(self.client[0]) if self.client is not None else ""
        close_unread(transport.get_extra_info("socket"), after_s=self._unread_s)
        self._wait()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        # The rest of a body whose answer is given already counts like headers that do not come.
        if self._is_asking():
            self._stop_waiting()
        elif self._deadline is None and not self.transport.is_closing():
            self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def _is_asking(self) -> bool:
        """Return whether a request is here and its answer is not complete."""
        cycle = cast("RequestResponseCycle | None", self.cycle)  # None before the first
        return cycle is not None and not cycle.response_complete

    def drop(self) -> None:
        """Close it now, without waiting for the other side."""
        self._stop_waiting()
        self.transport.abort()

    def _wait(self) -> None:
        self._deadline = self.loop.call_later(self._waiting.headers_s, self.drop)
        self._waiting.add(self)

    def _stop_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
            self._waiting.remove(self)


def close_unread(connection: socket.socket, *, after_s: float) -> None:
    """Have the system close a connection whose other side has taken nothing of what waits for it for so long.

    The system alone knows what was taken: it keeps megabytes itself. Systems without the option, all but
    Linux, keep such a connection.
    """
    if hasattr(socket, "TCP_USER_TIMEOUT") and connection.family != socket.AF_UNIX:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, max(1, round(after_s * 1000)))


def raise_file_limit() -> int:
    """Raise the process's limit of open files as far as the system allows; return the limit that holds."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = FILES_MAX if hard == resource.RLIM_INFINITY else min(hard, FILES_MAX)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return FILES_MAX if soft == resource.RLIM_INFINITY else soft
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    except (OSError, ValueError):
        return soft
    return wanted


class AcceptErrors:
    """The event loop's exception handler while a server runs: a full table of files fills no log."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._said_s: float | None = None

    def __call__(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Report an exception that nobody caught; those of `accept` once in a while."""
        told = f"{context.get('message', '')} {context.get('handle', '')}"
        # The loop tries again a second later, also when the server has ended meanwhile.
        if "socket.accept()" not in told and "_start_serving" not in told:
            loop.default_exception_handler(context)
            return
        now_s = self._loop.time()
        if self._said_s is None or now_s - self._said_s >= SAID_EACH_S:
            self._said_s = now_s
            logger.error("no connection can be accepted: %s", context.get("exception"))
