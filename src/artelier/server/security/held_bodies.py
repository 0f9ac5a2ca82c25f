"""The bytes of bodies that a server holds in memory: so many of one user, so many of all.

A body has its place before it is read; one that finds none waits in the network, which costs nothing.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial

from artelier.errors import TooManyAtOnce

MIB = 1024 * 1024
OWN_BYTES = 8 * MIB
"""Of each user beyond that, whatever is held: messages with a picture or two."""
USER_LARGEST = 2
"""So many bodies as large as they may be are held of one user."""
ALL_LARGEST = 4
"""So many of all users. A body takes twice its size while its pieces become one."""
WAIT_S = 60.0
"""How long a body may wait for its place (a guess: most answers of models are there sooner)."""


class _Room:
    """A number of bytes, given out in the order in which they were asked for."""

    def __init__(self, most_bytes: int) -> None:
        self._left_bytes = most_bytes
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    def has(self, size_bytes: int) -> bool:
        """Return whether there is room without waiting."""
        return not self._waiting and size_bytes <= self._left_bytes

    async def take(self, size_bytes: int) -> None:
        if self.has(size_bytes):
            self._left_bytes -= size_bytes
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append((size_bytes, turn))
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.give_back(size_bytes)  # it came in the same moment
            else:
                turn.cancel()
                self._pass_on()  # those behind it may be smaller
            raise

    def give_back(self, size_bytes: int) -> None:
        self._left_bytes += size_bytes
        self._pass_on()

    def _pass_on(self) -> None:
        while self._waiting:
            size_bytes, turn = self._waiting[0]
            if not turn.done():
                if size_bytes > self._left_bytes:
                    return
                self._left_bytes -= size_bytes
                turn.set_result(None)
            self._waiting.popleft()


class _Lane:
    """The room of one user, and how many bodies of the user there are."""

    def __init__(self, most_bytes: int, own_bytes: int) -> None:
        self.room = _Room(most_bytes)
        self.own = _Room(own_bytes)
        self.bodies = 0


class HeldBody:
    """The place of one body."""

    def __init__(self, rooms: Sequence[_Room], size_bytes: int, leave: Callable[[], None]) -> None:
        self._rooms = rooms
        self._bytes = size_bytes
        self._leave: Callable[[], None] | None = leave

    def shrink(self, size_bytes: int) -> None:
        """Give back what the body did not need."""
        more = self._bytes - size_bytes
        if more > 0:
            self._bytes = size_bytes
            for room in self._rooms:
                room.give_back(more)

    def give_back(self) -> None:
        """Give back all of it; a second time does nothing."""
        if self._leave is not None:
            leave, self._leave = self._leave, None
            self.shrink(0)
            leave()


class HeldBodies:
    """The bodies of all users of one server."""

    def __init__(self, *, largest_bytes: int, own_bytes: int = OWN_BYTES, wait_s: float = WAIT_S) -> None:
        """`largest_bytes`: the size of the largest body that the server takes."""
        self._all_bytes = ALL_LARGEST * largest_bytes
        self._user_bytes = USER_LARGEST * largest_bytes
        self._own_bytes = own_bytes
        self._wait_s = wait_s
        self._all = _Room(self._all_bytes)
        self._lanes: dict[str, _Lane] = {}

    async def take(self, user: str, size_bytes: int) -> HeldBody:
        """Wait for the place of a body of a user.

        Errors: `TooManyAtOnce` if there is none in time.
        """
        lane = self._lanes.setdefault(user, _Lane(self._user_bytes, self._own_bytes))
        lane.bodies += 1
        leave = partial(self._leave, user, lane)
        try:
            async with asyncio.timeout(self._wait_s):
                rooms = await self._take(lane, size_bytes)
        except TimeoutError:
            leave()
            raise TooManyAtOnce(
                "too many large bodies at one time",
                expected=f"at most {self._user_bytes:,} bytes of one user, {self._all_bytes:,} of all",
                hint="Send it again when others of them are answered.",
            ) from None
        except BaseException:
            leave()
            raise
        return HeldBody(rooms, size_bytes, leave)

    async def _take(self, lane: _Lane, size_bytes: int) -> Sequence[_Room]:
        """Take room of a lane and of all, or at once what is the user's own."""
        if not (lane.room.has(size_bytes) and self._all.has(size_bytes)) and lane.own.has(size_bytes):
            await lane.own.take(size_bytes)
            return (lane.own,)
        await lane.room.take(size_bytes)
        try:
            await self._all.take(size_bytes)
        except BaseException:
            lane.room.give_back(size_bytes)
            raise
        return (lane.room, self._all)

    def _leave(self, user: str, lane: _Lane) -> None:
        """Forget a user who has no body here any more."""
        lane.bodies -= 1
        if not lane.bodies:
            self._lanes.pop(user, None)
