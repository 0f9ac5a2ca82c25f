"""Turns among users: how many requests of one user are worked on at the same time.

Every request takes the event loop many times, for a moment each. A hundred requests of one user at work would
put a hundred moments before each moment of everybody else. So a user has a few turns; further requests wait,
in their order, until one is given back.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from artelier.errors import TooManyAtOnce

AT_ONCE_MAX = 8
"""Requests of one user at work: a browser opens six connections."""
TURN_S = 0.25
"""The longest time for which a request keeps its turn: one that waits for something else keeps nobody out."""
WAITING_MAX = 1_000
"""Requests of one user that wait for a turn."""


class _Lane:
    """The turns of one user, and those who wait for one."""

    def __init__(self) -> None:
        self.taken = 0
        self.waiting: deque[asyncio.Future[None]] = deque()


class Admission:
    """The turns of all users of one server."""

    def __init__(self, *, at_once_max: int = AT_ONCE_MAX, turn_s: float = TURN_S) -> None:
        self._at_once_max = at_once_max
        self._turn_s = turn_s
        self._lanes: dict[str, _Lane] = {}

    async def take(self, user: str) -> Callable[[], None]:
        """Wait for a turn of this user; return what gives it back, which may be called twice.

        Errors: `TooManyAtOnce` if too many wait.
        """
        lane = self._lanes.setdefault(user, _Lane())
        if lane.taken < self._at_once_max:
            lane.taken += 1
        elif len(lane.waiting) >= WAITING_MAX:
            raise TooManyAtOnce(
                "too many requests of this user at one time",
                expected=f"at most {WAITING_MAX}",
                hint="Wait for answers before asking more.",
            )
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
        if not lane.taken:
            self._lanes.pop(user, None)
