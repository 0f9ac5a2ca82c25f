"""Shares of the event loop: however much a user asks for at once, others come in between.

An event loop runs all that is ready, one step after the other, before it looks again. Eight lists that take
30 ms each are a quarter of a second in which nobody else is served. Here each user has a share of every turn
of the loop; what is beyond it waits for the next turn.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from time import perf_counter
from typing import Any, TypeVar

from artelier.threads import owner_and_group

ReturnT = TypeVar("ReturnT")
_Steps = Coroutine[Any, Any, ReturnT] | Generator[Any, None, ReturnT]
"""The steps of a task."""

STRANGERS = "strangers"
"""The group of all who are not signed in."""
SHARE_S = 0.002
"""Of a turn of the loop, for all tasks of the users of a tenant; a step that has begun goes on to its end
(guess: many usual steps, each some 0.1 ms)."""


class _Share:
    """The share of a group of users: the time taken in this turn of the loop, and who waits for the next."""

    __slots__ = ("is_counting", "spent_s", "waiting")

    def __init__(self) -> None:
        self.spent_s = 0.0
        self.is_counting = False
        self.waiting: dict[str, deque[asyncio.Future[None]]] = {}
        """The tasks of each user; the one whose turn is next first."""

    def wait(self, owner: str, turn: asyncio.Future[None]) -> None:
        lane = self.waiting.get(owner)
        if lane is None:
            lane = self.waiting[owner] = deque()
        lane.append(turn)

    def wake(self) -> bool:
        """Let the next task go on; return False if none waits."""
        while self.waiting:
            owner = next(iter(self.waiting))
            lane = self.waiting.pop(owner)
            turn = lane.popleft()
            if lane:
                self.waiting[owner] = lane  # behind the others now
            if not turn.done():
                turn.set_result(None)
                return True
        return False


class LoopShares:
    """Gives each group of users a share of one event loop; what the process does for itself has no bound.

    Whose a task is says `content_owner`, which group `content_group`. In a group its users take turns.

    A task factory: `loop.set_task_factory(LoopShares(loop))`.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._shares = dict[str, _Share]()
        """Of each group whose tasks did something in this turn, or wait."""

    def __call__(
        self, loop: asyncio.AbstractEventLoop, coro: _Steps[ReturnT], /, **more: Any
    ) -> asyncio.Task[ReturnT]:
        return asyncio.Task(_InShares(coro, self), loop=loop, **more)

    def turn_of(self, owner: str, group: str) -> asyncio.Future[None] | None:
        """Return what a task has to wait for before its next step; None if it may go on."""
        share = self._shares.get(group)
        if share is None or (share.spent_s < SHARE_S and not share.waiting):
            return None
        turn = self._loop.create_future()
        share.wait(owner, turn)
        return turn

    def spend(self, group: str, seconds: float) -> None:
        """Count what a step took, and let the next go on that waits."""
        if not group:
            return
        share = self._shares.get(group)
        if share is None:
            share = self._shares[group] = _Share()
        share.spent_s += seconds
        if not share.is_counting:
            share.is_counting = True
            self._loop.call_soon(self._next_turn, group, share)
        if share.waiting and share.spent_s < SHARE_S:
            share.wake()

    def _next_turn(self, group: str, share: _Share) -> None:
        share.is_counting = False
        share.spent_s = 0.0
        if not share.wake():
            del self._shares[group]


class _InShares(Coroutine[object, Any, ReturnT]):
    """A coroutine whose steps keep to the share of whoever they are for at that moment."""

    __slots__ = ("_coro", "_shares", "_waits_as")

    def __init__(self, coro: _Steps[ReturnT], shares: LoopShares) -> None:
        self._coro = coro
        self._shares = shares
        self._waits_as = ""
        """The group for whose turn it waits, or was woken."""

    def send(self, value: Any) -> object:
        if self._waits_as:
            return self._step(self._waits_as, self._coro.send, value)
        owner, group = owner_and_group()
        if not owner:
            return self._coro.send(value)
        if (turn := self._shares.turn_of(owner, group)) is not None:
            self._waits_as = group
            return next(turn.__await__())  # as `await turn` does
        return self._step(group, self._coro.send, value)

    def throw(self, *error: Any) -> object:
        # A task that is cancelled waits no longer. It may have been woken for a turn, which passes on.
        return self._step(self._waits_as or owner_and_group()[1], self._coro.throw, *error)

    def _step(self, group: str, go: Callable[..., object], *args: Any) -> object:
        self._waits_as = ""
        began_s = perf_counter()
        try:
            return go(*args)
        finally:
            self._shares.spend(group, perf_counter() - began_s)

    def close(self) -> None:
        self._coro.close()

    def __await__(self) -> Generator[Any, Any, ReturnT]:
        raise TypeError("a task goes through it, and nobody waits for it")

    def __getattr__(self, name: str) -> object:
        return getattr(self._coro, name)  # such as `cr_frame`, for whoever asks how far it is
