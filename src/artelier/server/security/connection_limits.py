"""Limits on what a client may take: connections, requests at once, and sizes of bodies."""

from __future__ import annotations

import asyncio
import json
import re
import socket
from collections import OrderedDict, deque
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import partial
from time import perf_counter
from typing import Any, TypeVar, cast

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from artelier.artifacts.json_items import ITEMS_MAX, PIECE_BYTES, count_items, pieces
from artelier.errors import InvalidRequest, TooManyAtOnce
from artelier.server.errors import TooLarge, wire_of
from artelier.server.loop_shares import STRANGERS, LoopShares
from artelier.server.security.connections import Connections
from artelier.server.security.login_sessions import place_of
from artelier.threads import content_group, content_owner, run_in_content_thread

LookT = TypeVar("LookT")

SMALL_BYTES = 16 * 1024
"""A body that has not too many items, whatever it is."""

_NO_JSON = (b"\x89PNG", b"PK\x03\x04")
"""First bytes of pictures and archives: no parser of JSON goes beyond them, and what follows is no items."""


async def check_items(body: bytes, *, most: int = ITEMS_MAX) -> None:
    """Refuse a body that makes too many items. Errors: `TooLarge`. Cost: O(length), in a few calls of C."""
    if len(body) <= SMALL_BYTES or body.startswith(_NO_JSON):
        return
    count = await _look(partial(count_items, most=most), body)
    if count > most:
        raise TooLarge(
            "the body has too many items",
            expected=f"at most {most:,} elements and fields; long numbers and large exponents count for more",
            got=f"{count:,}",
            hint="Upload large data as a file: POST /api/v1/uploads.",
        )


async def may_hold_placeholders(body: bytes) -> bool:
    """Return whether texts of a body may have the sign that placeholders begin with, written in any way."""
    return await _look(_has_sign, body)


async def _look(read: Callable[[bytes], LookT], body: bytes) -> LookT:
    if len(body) <= PIECE_BYTES:
        return read(body)
    return await run_in_content_thread(len(body), read, body)


def _has_sign(body: bytes) -> bool:
    return any(
        b"<" in piece or b"\\u003c" in piece.replace(b"\0", b"").lower()
        for piece in pieces(body, overlap=_ESCAPE_BYTES)
    )


_ESCAPE_BYTES = 6 * 4
"""The length of an escaped sign in UTF-32."""


AT_ONCE_MAX = 8
"""Requests of one user at work: a browser opens six connections."""
TURN_S = 0.25
"""The longest time for which a request keeps its turn: one that waits for something else keeps nobody out."""
OPEN_MAX = 1_000
"""Requests of one user that are not answered to the end: they wait for a turn, are at work or stream."""
OPEN_SHARE = 2
"""One user has at most one in so many of all connections."""


class _Lane:
    """The turns of one user, and those who wait for one."""

    def __init__(self) -> None:
        self.open = 0
        self.taken = 0
        self.waiting: deque[asyncio.Future[None]] = deque()


class Admission:
    """The turns of all users of one server."""

    def __init__(
        self, *, at_once_max: int = AT_ONCE_MAX, turn_s: float = TURN_S, open_max: int = OPEN_MAX
    ) -> None:
        self._at_once_max = at_once_max
        self._turn_s = turn_s
        self._open_max = open_max
        self._lanes: dict[str, _Lane] = {}

    async def take(self, user: str) -> Callable[[], None]:
        """Wait for a turn of this user; return what ends the request, which may be called twice.

        Errors: `TooManyAtOnce` if the user has too many requests that have not ended.
        """
        lane = self._lanes.setdefault(user, _Lane())
        if lane.open >= self._open_max:
            raise TooManyAtOnce(
                "too many requests of this user at one time",
                expected=f"at most {self._open_max}",
                hint="Wait for answers, or close streams, before asking more.",
            )
        lane.open += 1
        try:
            end_turn = await self._take_turn(user, lane)
        except BaseException:
            self._end(user, lane)
            raise
        ended = list[bool]()

        def end() -> None:
            if not ended:
                ended.append(True)
                end_turn()
                self._end(user, lane)

        return end

    def _end(self, user: str, lane: _Lane) -> None:
        lane.open -= 1
        self._forget_idle(user, lane)

    async def _take_turn(self, user: str, lane: _Lane) -> Callable[[], None]:
        if lane.taken < self._at_once_max:
            lane.taken += 1
        else:
            await self._wait(user, lane)
        loop, given_back = asyncio.get_running_loop(), list[bool]()

        def give_back() -> None:
            if not given_back:
                given_back.append(True)
                timer.cancel()
                # Not at once: requests that never wait would all be answered before anybody else has a turn.
                loop.call_soon(self._pass_on, user, lane)

        timer = loop.call_later(self._turn_s, give_back)
        return give_back

    async def _wait(self, user: str, lane: _Lane) -> None:
        turn = asyncio.get_running_loop().create_future()
        lane.waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._pass_on(user, lane)  # it came in the same moment
            raise

    def _pass_on(self, user: str, lane: _Lane) -> None:
        while lane.waiting:
            turn = lane.waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        lane.taken -= 1
        self._forget_idle(user, lane)

    def _forget_idle(self, user: str, lane: _Lane) -> None:
        if not lane.taken and not lane.open and self._lanes.get(user) is lane:
            del self._lanes[user]


ARRIVING_MAX = 128
"""Bodies of one user, and of all strangers together, that are waited for at once: each takes a descriptor."""


class Arrivals:
    """Bodies of requests that are waited for; the longest of a user makes room for the newest."""

    def __init__(self) -> None:
        self._by_owner: dict[str, OrderedDict[object, Callable[[], None]]] = {}

    @contextmanager
    def waiting(self, owner: str, hurry: Callable[[], None]) -> Generator[None]:
        """Wait for a piece of a body; `hurry` is called if that has become too long."""
        here, mark = self._by_owner.setdefault(owner, OrderedDict()), object()
        here[mark] = hurry
        if len(here) > ARRIVING_MAX:
            _, longest = here.popitem(last=False)
            longest()
        try:
            yield
        finally:
            here.pop(mark, None)
            if not here and self._by_owner.get(owner) is here:
                del self._by_owner[owner]


HEADERS_S = 10.0
"""How long the headers of a request may take to arrive (a slow mobile network needs about one second)."""
UNREAD_S = 60.0
"""How long the other side may take nothing of an answer: a laptop that was closed, a client that never reads
(a guess: longer than a mobile network is away)."""
WAITING_PER_ADDRESS_MAX = 128
"""Connections of one address without a request. A browser opens about six."""
WAITING_SHARE = 2
"""At most one in so many of all connections has no request."""
READ_BYTES = 16 * 1024
"""The most that is read of a connection at once, and kept behind a request that is not answered yet. With
asyncio's own 256 KiB, 5,000 connections held 1.3 GB."""
HEAD_LINES_MAX = 200
HEAD_BYTES_MAX = 64 * 1024
"""Of the headers of one request, whoever sends it: 13,000 short ones took up to 67 ms of the event loop
(measured). Browsers send about 20."""
_HEAD_END = re.compile(rb"\n\r?\n")
PIECES_MAX = 250
PIECE_BYTES_MIN = 64
"""A body comes in at most `PIECES_MAX` pieces, and one more for each `PIECE_BYTES_MIN` bytes. Each costs
16 us: one body in chunks of one byte took all of the event loop, and 20 of 1,000 pieces 0.4 s of it."""


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


class _Exchanges(h11.Connection):
    """The requests and answers of one connection, which counts the pieces that a body comes in."""

    refused: InvalidRequest | None = None
    """Why this server takes no more of what is good HTTP."""
    _pieces = 0
    _bytes = 0

    def _check_head(self, head: bytes) -> None:
        """Refuse headers that are many or large before they are read, one by one. Errors: as `next_event`."""
        end = _HEAD_END.search(head)
        size_bytes = len(head) if end is None else end.start()
        lines = head.count(b"\n", 0, size_bytes)
        if lines > HEAD_LINES_MAX or size_bytes > HEAD_BYTES_MAX:
            self.refused = InvalidRequest(
                "the request has too many headers",
                expected=f"at most {HEAD_LINES_MAX} lines, {HEAD_BYTES_MAX:,} bytes",
                got=f"{lines} lines, {size_bytes:,} bytes",
            )
            raise h11.RemoteProtocolError(self.refused.message)

    def next_event(self) -> Any:
        """Errors: `RemoteProtocolError`, also for too many headers, and for a body that is cut too small."""
        if self.their_state is h11.IDLE:
            self._check_head(self.trailing_data[0])
        event = super().next_event()
        if isinstance(event, h11.Data):
            self._pieces += 1
            self._bytes += len(event.data)
            if self._pieces > PIECES_MAX + self._bytes // PIECE_BYTES_MIN:
                self.refused = InvalidRequest(
                    "the body comes in too many pieces",
                    expected=f"at most {PIECES_MAX}, and one more for each {PIECE_BYTES_MIN} bytes",
                    got=f"{self._pieces} pieces for {self._bytes} bytes",
                    hint="Send larger ones.",
                )
                raise h11.RemoteProtocolError(self.refused.message)
        elif isinstance(event, h11.Request):
            self._pieces = self._bytes = 0
        return event


class GuardedConnection(H11Protocol, asyncio.BufferedProtocol):
    """One HTTP connection, closed where no request arrives in time, or no HTTP.

    Until it is known who asks, its requests take part in the share of strangers, and so does their reading.
    """

    place = ""
    group = STRANGERS
    _owner = ""
    _is_lingering = False
    _deadline: asyncio.TimerHandle | None = None
    _unread = b""
    """Bytes that have come while others have their turn."""

    def __init__(
        self,
        *,
        connections: Connections,
        waiting: Waiting,
        shares: LoopShares,
        find_sender: Callable[[bytes], tuple[str, str] | None],
        buffer: memoryview,
        unread_s: float,
        **settings: Any,
    ) -> None:
        """`find_sender` returns owner and group of whoever sends such a head, None for a stranger; all
        connections of an event loop have the same `buffer`."""
        super().__init__(**settings)
        self.conn: _Exchanges = _Exchanges(h11.SERVER)
        self._connections = connections
        self._waiting = waiting
        self._shares = shares
        self._find_sender = find_sender
        self._buffer = buffer
        self._unread_s = unread_s

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.place = place_of(self.client[0]) if self.client is not None else ""
        close_unread(transport.get_extra_info("socket"), after_s=self._unread_s)
        self._connections.add(self)
        self._wait()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        data = bytes(self._buffer[:nbytes])
        if self._unread:
            self._unread += data
            self.transport.pause_reading()
            return
        if self.conn.their_state is h11.IDLE and not self.conn.trailing_data[0]:
            # A proxy sends requests of several users by one connection.
            self.ask_for(*(self._find_sender(data) or (f"address {self.place}", STRANGERS)))
        group = self.group
        if (turn := self._shares.turn_of(self._owner, group)) is None:
            self._read(group, data)
        else:
            self._unread = data
            self.transport.pause_reading()
            turn.add_done_callback(lambda _: self._read_later(group))

    def _read_later(self, group: str) -> None:
        data, self._unread = self._unread, b""
        self._read(group, data)
        if not self.flow.read_paused:
            self.transport.resume_reading()

    def _read(self, group: str, data: bytes) -> None:
        began_s = perf_counter()
        if not self.transport.is_closing():
            self.data_received(data)
        self._shares.spend(group, perf_counter() - began_s)

    def data_received(self, data: bytes) -> None:
        if self._is_answered_early():
            self._linger()
            return
        # Tasks of its requests begin in this context, which is the connection's own.
        asking.set(self)
        content_owner.set(self._owner)
        content_group.set(self.group)
        super().data_received(data)
        # The rest of a body whose answer is given already counts like headers that do not come.
        if self._is_asking():
            self._stop_waiting()
        elif self._deadline is None and not self.transport.is_closing():
            self._wait()

    def ask_for(self, owner: str, group: str) -> None:
        """Have what comes next take part in the share of whoever asked last."""
        self._owner = owner
        if group == self.group:
            return
        is_open = self._connections.remove(self)  # else it was closed while its request was on the way
        self.group = group
        if is_open:
            self._connections.add(self)

    def send_400_response(self, msg: str) -> None:
        """Answer what is no HTTP, if no answer has begun: a second one raises, and fills the log."""
        if self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            self.drop()
            return
        error = self.conn.refused or InvalidRequest("this is no HTTP that can be read", got=msg)
        body = json.dumps(wire_of(error)).encode()
        head = [
            ("content-type", "application/json"),
            ("content-length", str(len(body))),
            ("connection", "close"),
        ]
        for part in (
            h11.Response(status_code=400, headers=head, reason=b"Bad Request"),
            h11.Data(data=body),
            h11.EndOfMessage(),
        ):
            self.transport.write(self.conn.send(part) or b"")
        self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        self._connections.remove(self)
        super().connection_lost(exc)

    def _is_answered_early(self) -> bool:
        """Return whether the answer is out, and the rest of its body is still to come."""
        return not self._is_asking() and self.conn.their_state is h11.SEND_BODY

    def _linger(self) -> None:
        """Read no more of the body, and take it for a while: whoever sends it may read the answer then.

        To read pieces of 64 bytes takes 16 us each, for whoever is nobody, too.
        """
        if not self._is_lingering:
            self._is_lingering = True
            with suppress(OSError, NotImplementedError):
                self.transport.write_eof()  # whoever sends it sees that this connection has no other answer
            if self._deadline is None:
                self._wait()

    def _is_asking(self) -> bool:
        """Return whether a request is here and its answer is not complete."""
        cycle = cast("RequestResponseCycle | None", self.cycle)  # None before the first
        return cycle is not None and not cycle.response_complete

    def drop(self) -> None:
        """Close it now, without waiting for the other side."""
        self._stop_waiting()
        self._connections.remove(self)
        self.transport.abort()

    def _wait(self) -> None:
        self._deadline = self.loop.call_later(self._waiting.headers_s, self.drop)
        self._waiting.add(self)

    def _stop_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
            self._waiting.remove(self)


asking: ContextVar[GuardedConnection | None] = ContextVar("asking", default=None)
"""The connection of the request at hand; None where there is none, as in tests of an application."""


def close_unread(connection: socket.socket, *, after_s: float) -> None:
    """Have the system close a connection whose other side has taken nothing of what waits for it for so long.

    The system alone knows what was taken: it keeps megabytes itself. Systems without the option, all but
    Linux, keep such a connection.
    """
    if hasattr(socket, "TCP_USER_TIMEOUT") and connection.family != socket.AF_UNIX:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, max(1, round(after_s * 1000)))
