"""The connections of one server: a bounded number, accepted at once and opened in turns of addresses."""

from __future__ import annotations

import asyncio
import logging
import resource
import socket
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Protocol

from artelier.server.loop_shares import STRANGERS
from artelier.server.security.login_sessions import place_of

FILES_MAX = 65_536
"""How far the process's own limit of open files is raised, if the system allows it."""
CONNECTIONS_MAX = 4_096
"""Connections of one server: some 60 KB each, with a request and what stands behind it."""
CONNECTIONS_SHARE = 2
"""At most one in so many of the process's file descriptors belongs to a connection."""
FAMILIAR_MAX = 10_000
"""Addresses that are remembered because somebody was known there."""
UNKNOWN_SHARE = 4
"""When the server is full, one connection in so many may be of strangers, and one of nobody known yet at an
address where somebody was known."""
ACCEPTED_AT_ONCE = 256
"""Connections that are taken from the system in one pass of the event loop, 15 us each (measured)."""
OPENED_AT_ONCE = 16
"""Of those, how many are opened in a pass: each is a transport, and soon a request."""
REST_S = 1.0
"""The time without a try after one that failed for want of descriptors or memory."""
SAID_EACH_S = 60.0
"""How often the log says that no connection can be accepted."""

logger = logging.getLogger("artelier.server")


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


def connections_max() -> int:
    """Return how many connections a server of this process has at most."""
    return min(CONNECTIONS_MAX, raise_file_limit() // CONNECTIONS_SHARE)


class Connection(Protocol):
    """A connection of an address, which can be closed at once."""

    @property
    def place(self) -> str: ...
    @property
    def group(self) -> str:
        """Return whose it is: `STRANGERS` until that is known."""
        ...

    def drop(self) -> None: ...


class _Lanes:
    """Connections by whose they are. Cost: O(1) each, also to find who has most."""

    def __init__(self) -> None:
        self._lanes: dict[str, OrderedDict[Connection, None]] = {}
        self._of_size: list[OrderedDict[str, None]] = [OrderedDict()]
        """At index N, the names with N connections; the one that has had them longest first."""
        self.count = 0

    def __bool__(self) -> bool:
        return bool(self._lanes)

    def add(self, name: str, connection: Connection) -> None:
        lane = self._lanes.setdefault(name, OrderedDict())
        self._of_size[len(lane)].pop(name, None)
        lane[connection] = None
        self.count += 1
        if len(lane) == len(self._of_size):
            self._of_size.append(OrderedDict())
        self._of_size[len(lane)][name] = None

    def remove(self, name: str, connection: Connection) -> None:
        lane = self._lanes[name]
        del self._of_size[len(lane)][name]
        del lane[connection]
        self.count -= 1
        if lane:
            self._of_size[len(lane)][name] = None
        else:
            del self._lanes[name]
        while len(self._of_size) > 1 and not self._of_size[-1]:
            self._of_size.pop()

    def oldest_of_most(self) -> Connection:
        """Return the oldest connection of whoever has most."""
        return next(iter(self._lanes[next(iter(self._of_size[-1]))]))


class Connections:
    """All connections of one server, by group, and those of strangers by address.

    When the server is full, the oldest connection of whoever has most is closed: of strangers while these
    have more than their share, then of those not known yet at a familiar address, else of the groups.
    """

    def __init__(self, *, most: int) -> None:
        self._most = most
        self._places: dict[Connection, tuple[_Lanes, str]] = {}
        self._strangers, self._familiar, self._known = _Lanes(), _Lanes(), _Lanes()
        self._known_at: OrderedDict[str, None] = OrderedDict()
        """Addresses where somebody was known, the latest last."""

    def __len__(self) -> int:
        return len(self._places)

    def is_familiar(self, place: str) -> bool:
        """Return whether somebody was known at this address lately."""
        return place in self._known_at

    def add(self, connection: Connection) -> None:
        """Count a connection, and close another if that is one too many."""
        if len(self._places) >= self._most:
            self._crowded().oldest_of_most().drop()
        lanes, name = self._strangers, connection.place
        if connection.group != STRANGERS:
            self._note_known(connection.place)
            lanes, name = self._known, connection.group
        elif self.is_familiar(connection.place):
            lanes = self._familiar
        self._places[connection] = lanes, name
        lanes.add(name, connection)

    def remove(self, connection: Connection) -> bool:
        """Forget a connection that is closed; return False if it was forgotten before."""
        lanes, name = self._places.pop(connection, (None, ""))
        if lanes is not None:
            lanes.remove(name, connection)
        return lanes is not None

    def _crowded(self) -> _Lanes:
        for lanes in (self._strangers, self._familiar):
            if lanes.count > self._most // UNKNOWN_SHARE:
                return lanes
        return self._known or self._familiar or self._strangers

    def _note_known(self, place: str) -> None:
        self._known_at[place] = None
        self._known_at.move_to_end(place)
        if len(self._known_at) > FAMILIAR_MAX:
            self._known_at.popitem(last=False)


class _Accepted:
    """A connection that was accepted and is not open yet."""

    group = STRANGERS

    def __init__(self, place: str, accepted: socket.socket, connections: Connections) -> None:
        self.place = place
        self._socket: socket.socket | None = accepted
        self._connections = connections
        connections.add(self)

    def drop(self) -> None:
        if (accepted := self.take()) is not None:
            accepted.close()

    def take(self) -> socket.socket | None:
        """Return the socket, which is counted no longer; None if it was closed."""
        self._connections.remove(self)
        accepted, self._socket = self._socket, None
        return accepted


class Acceptor:
    """Accepts connections at one socket.

    The system hands them out in the order in which they came. So all that wait are accepted, which is cheap,
    and then opened in turns of their addresses: whoever opens a thousand keeps another address waiting for
    one of them. Every second is of an address where somebody was known lately.
    """

    def __init__(
        self,
        listening: socket.socket,
        make_protocol: Callable[[], asyncio.Protocol],
        *,
        connections: Connections,
    ) -> None:
        """It begins at once, in the running loop."""
        self._listening = listening
        self._make_protocol = make_protocol
        self._connections = connections
        self._loop = asyncio.get_running_loop()
        self._familiar: dict[str, deque[_Accepted]] = {}
        self._strangers: dict[str, deque[_Accepted]] = {}
        """Those that wait to be opened, by address; the one whose turn is next first."""
        self._opening: set[asyncio.Task[object]] = set()
        self._is_due = False
        self._said_s: float | None = None
        self._resting: asyncio.TimerHandle | None = None
        self._begin()

    def close(self) -> None:
        """Accept nothing more, and close what is not open yet."""
        self._loop.remove_reader(self._listening)
        if self._resting is not None:
            self._resting.cancel()
        for waiting in (self._familiar, self._strangers):
            for here in waiting.values():
                for one in here:
                    one.drop()
            waiting.clear()

    def _begin(self) -> None:
        self._loop.add_reader(self._listening, self._accept)

    def _accept(self) -> None:
        for _ in range(ACCEPTED_AT_ONCE):
            try:
                accepted, address = self._listening.accept()
            except (BlockingIOError, InterruptedError):
                break
            except ConnectionAbortedError:
                continue  # the other side has left meanwhile
            except OSError as error:
                self._rest(error)
                break
            accepted.setblocking(False)
            place = place_of(address[0])
            waiting = self._familiar if self._connections.is_familiar(place) else self._strangers
            waiting.setdefault(place, deque()).append(_Accepted(place, accepted, self._connections))
        if not self._is_due:
            self._open_some()

    def _rest(self, error: OSError) -> None:
        """Try again in a while, and say so once in a while: a full table of files fills no log."""
        self._loop.remove_reader(self._listening)
        self._resting = self._loop.call_later(REST_S, self._begin)
        now_s = self._loop.time()
        if self._said_s is None or now_s - self._said_s >= SAID_EACH_S:
            self._said_s = now_s
            logger.error("no connection can be accepted: %s", error)

    def _open_some(self) -> None:
        self._is_due = False
        left = OPENED_AT_ONCE
        while left and (self._familiar or self._strangers):
            lanes = (self._familiar, self._strangers)
            waiting = lanes[left % 2] or lanes[(left + 1) % 2]
            place = next(iter(waiting))
            here = waiting.pop(place)
            accepted = here.popleft().take()
            if here:
                waiting[place] = here  # behind the other addresses now
            if accepted is not None:
                left -= 1
                self._open(accepted)
        if self._familiar or self._strangers:
            self._is_due = True
            self._loop.call_soon(self._open_some)

    def _open(self, accepted: socket.socket) -> None:
        task = self._loop.create_task(self._loop.connect_accepted_socket(self._make_protocol, accepted))
        self._opening.add(task)
        task.add_done_callback(self._end_opening)

    def _end_opening(self, task: asyncio.Task[object]) -> None:
        self._opening.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None and not isinstance(error, OSError):  # else the other side has left meanwhile
            self._loop.call_exception_handler(
                {"message": "a connection cannot be opened", "exception": error}
            )
