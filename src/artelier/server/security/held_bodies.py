"""The bytes that a server holds in memory for its users: so many of one, so many of all.

A user here is the group of those who share: the users of one tenant.

A body has its user's room before it is read, and that among all while it arrives. One that finds none waits
in the network, which costs nothing. Stored content that is read for a user has both before it is read, in
rooms of its own, until the answer is out.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from contextvars import ContextVar

from artelier.errors import TooManyAtOnce

MIB = 1024 * 1024
OWN_BYTES = 8 * MIB
"""Of each user beyond that, whatever is held: messages with a picture or two."""
USER_LARGEST = 2
"""So many bodies as large as they may be are held of one user."""
ALL_LARGEST = 4
"""So many of all users. A body takes twice its size while its pieces become one."""
WORK = 4
"""Times its size that a body takes of a user's second room while it becomes objects (measured: texts of
31 MiB take up to 400 MB until they are stored)."""
WORK_S = 10.0
"""The longest time for which it keeps that room: then it is stored, and may wait for a model (a guess)."""
WIDE_BYTES = MIB
"""A larger body of which each character may take four bytes of memory, since one of them does, is read alone
among those of its tenant: four of 11 MB took 600 MB (measured)."""
STEP_BYTES = 4 * MIB
"""Room among all is taken in such steps, as a body arrives: one that trickles keeps nobody out."""
WAIT_S = 60.0
"""The longest time for which a body waits for its place (a guess: most models answer sooner)."""
FREE_BYTES = 64 * 1024
"""Stored content up to this size takes no room: the requests of a user that are at work are few."""


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
    """The rooms of one user, and how many bodies of the user there are."""

    def __init__(self, most_bytes: int, own_bytes: int) -> None:
        self.held = _Room(most_bytes)
        self.work = _Room(most_bytes)
        self.own = _Room(own_bytes)
        self.wide = _Room(1)
        self.bodies = 0


class HeldBody:
    """The place of one body."""

    def __init__(self, bodies: HeldBodies, user: str, lane: _Lane, *, wait_s: float) -> None:
        self._bodies = bodies
        self._user = user
        self._lane = lane
        self._wait_s = wait_s
        self._taken: dict[_Room, int] = {}
        self._settling: asyncio.TimerHandle | None = None
        self._is_back = False

    async def take(self, room: _Room, size_bytes: int) -> None:
        await room.take(size_bytes)
        self._taken[room] = self._taken.get(room, 0) + size_bytes

    async def arrive(self, size_bytes: int) -> None:
        """Wait for room among all for what has arrived by now. Errors: `TooManyAtOnce`."""
        room = self._bodies.room
        has_bytes = self._taken.get(room, 0)
        if self._lane.own in self._taken or size_bytes <= has_bytes:
            return
        whole_bytes = self._taken.get(self._lane.held, 0)
        step_bytes = min(-(-size_bytes // STEP_BYTES) * STEP_BYTES, whole_bytes)
        more_bytes = max(size_bytes, step_bytes) - has_bytes
        async with self._bodies.limited(self._wait_s):
            if not room.has(more_bytes) and self._lane.own.has(whole_bytes):
                await self.take(self._lane.own, whole_bytes)
            else:
                await self.take(room, more_bytes)

    async def take_wide(self) -> None:
        """Wait until no other body of wide characters of this tenant is read. Errors: `TooManyAtOnce`."""
        async with self._bodies.limited(self._wait_s):
            await self.take(self._lane.wide, 1)

    def shrink(self, size_bytes: int) -> None:
        """Give back what the body did not need, as it is complete, and in a while what reading it takes."""
        for room in (self._lane.held, self._bodies.room):
            self._keep(room, size_bytes)
        self._keep(self._lane.work, WORK * size_bytes)
        self._settling = asyncio.get_running_loop().call_later(WORK_S, self._settle)

    def _settle(self) -> None:
        for room in (self._lane.work, self._lane.wide):
            self._keep(room, 0)

    def give_back(self) -> None:
        """Give back all of it; a second time does nothing."""
        if self._is_back:
            return
        self._is_back = True
        if self._settling is not None:
            self._settling.cancel()
        for room in tuple(self._taken):
            self._keep(room, 0)
        self._bodies.leave(self._user, self._lane)

    def _keep(self, room: _Room, size_bytes: int) -> None:
        more = self._taken.get(room, 0) - size_bytes
        if more > 0:
            self._taken[room] = size_bytes
            room.give_back(more)


class HeldBodies:
    """The bodies of all users of one server."""

    def __init__(self, *, largest_bytes: int, own_bytes: int = OWN_BYTES, wait_s: float = WAIT_S) -> None:
        """`largest_bytes`: the size of the largest body that the server takes."""
        self._all_bytes = ALL_LARGEST * largest_bytes
        self._user_bytes = USER_LARGEST * largest_bytes
        self._own_bytes = own_bytes
        self._wait_s = wait_s
        self.room = _Room(self._all_bytes)
        self._lanes: dict[str, _Lane] = {}

    async def take(
        self, user: str, size_bytes: int, *, is_parsed: bool = False, may_wait: bool = True
    ) -> HeldBody:
        """Wait for the place of a body of a user. `is_parsed`: it becomes objects, which take more than it.

        Errors: `TooManyAtOnce` if there is none in time.
        """
        wait_s = self._wait_s if may_wait else 0.0
        lane = self._lanes.setdefault(user, _Lane(self._user_bytes, self._own_bytes))
        lane.bodies += 1
        body = HeldBody(self, user, lane, wait_s=wait_s)
        rooms = {lane.held: size_bytes}
        if is_parsed:
            rooms[lane.work] = min(WORK * size_bytes, self._user_bytes)
        is_free = self.room.has(size_bytes) and all(room.has(size) for room, size in rooms.items())
        try:
            async with self.limited(wait_s):
                if lane.own.has(size_bytes) and not is_free:
                    await body.take(lane.own, size_bytes)
                else:
                    for room, room_bytes in rooms.items():
                        await body.take(room, room_bytes)
        except BaseException:
            body.give_back()
            raise
        return body

    async def take_stored(self, user: str, size_bytes: int, *, may_wait: bool = True) -> HeldBody:
        """Wait for the place of stored content, which is there at once. Errors: `TooManyAtOnce`."""
        size_bytes = min(size_bytes, self._user_bytes)
        body = await self.take(user, size_bytes, may_wait=may_wait)
        try:
            await body.arrive(size_bytes)
        except BaseException:
            body.give_back()
            raise
        body.shrink(size_bytes)
        return body

    @asynccontextmanager
    async def limited(self, wait_s: float) -> AsyncGenerator[None]:
        """Wait no longer than this. Errors: `TooManyAtOnce`."""
        try:
            async with asyncio.timeout(wait_s):
                yield
        except TimeoutError:
            raise TooManyAtOnce(
                "too many large bodies at one time",
                expected=f"at most {self._user_bytes:,} bytes of one user, {self._all_bytes:,} of all",
                hint="Send it again when others of them are answered.",
            ) from None

    def leave(self, user: str, lane: _Lane) -> None:
        """Forget a user who has no body here any more."""
        lane.bodies -= 1
        if not lane.bodies:
            self._lanes.pop(user, None)


class StoredContents:
    """The places of the stored contents that one request reads."""

    def __init__(self, take: Callable[..., Awaitable[HeldBody]]) -> None:
        """`take`: `HeldBodies.take_stored` of the request's user."""
        self._take = take
        self._places: list[HeldBody] = []
        self._reserved_bytes = 0
        self._is_over = False

    async def reserve(self, size_bytes: int) -> None:
        """Wait for room for all contents that are read next. Errors: `TooManyAtOnce`."""
        if size_bytes <= FREE_BYTES or self._is_over:
            return  # work that goes on after its request has bounds of its own
        # Two requests that had room each and waited for more would wait for each other.
        place = await self._take(size_bytes, may_wait=not self._places)
        if self._is_over:
            place.give_back()
        else:
            self._places.append(place)
            self._reserved_bytes += size_bytes

    async def hold(self, size_bytes: int) -> None:
        """Wait for room for content that is read next, unless it was reserved. Errors: `TooManyAtOnce`."""
        if size_bytes > self._reserved_bytes:
            await self.reserve(size_bytes)
        self._reserved_bytes = max(0, self._reserved_bytes - size_bytes)

    def give_back(self) -> None:
        """Let go of all of them: the answer is out."""
        self._is_over = True
        for place in self._places:
            place.give_back()


stored_contents: ContextVar[StoredContents | None] = ContextVar("stored_contents", default=None)
"""Those of the request at hand; None for work that is none of a request's."""


async def no_room(size_bytes: int) -> None:
    """Wait for nothing: content of this size has bounds of its own."""


async def reserve_content(size_bytes: int) -> None:
    """Wait for room for stored contents that the request at hand reads next. Errors: `TooManyAtOnce`."""
    if (held := stored_contents.get()) is not None:
        await held.reserve(size_bytes)


async def hold_content(size_bytes: int) -> None:
    """Wait for room for one of them, unless it was reserved. Errors: `TooManyAtOnce`."""
    if (held := stored_contents.get()) is not None:
        await held.hold(size_bytes)
