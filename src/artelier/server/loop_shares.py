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

from artelier.threads import content_owner

ReturnT = TypeVar("ReturnT")
_Steps = Coroutine[Any, Any, ReturnT] | Generator[Any, None, ReturnT]
"""The steps of a task."""

STRANGER, STRANGERS = "address ", "strangers"
"""The beginning of the name of an owner who is not signed in, and the owner of the share of all of them."""
SHARE_S = 0.002
"""Of a turn of the loop, for all tasks of a user; a step that has begun goes on to its end (guess: many usual
steps, each some 0.1 ms)."""


def sharer_of(owner: str) -> str:
    """Return whose share it is: strangers, each an address, have one together."""
    return STRANGERS if owner.startswith(STRANGER) else owner


class _Share:
    """One user's share: the time taken in this turn of the loop, and the tasks that wait for the next."""

    __slots__ = ("is_counting", "spent_s", "waiting")

    def __init__(self) -> None:
        self.spent_s = 0.0
        self.is_counting = False
        self.waiting = deque[asyncio.Future[None]]()

    def wake(self) -> bool:
        """Let the next task go on; return False if none waits."""
        while self.waiting:
            turn = self.waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return True
        return False


class LoopShares:
    """Gives each `content_owner` a share of one event loop; what the process does for itself has no bound.

    A task factory: `loop.set_task_factory(LoopShares(loop))`.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._shares = dict[str, _Share]()
        """Of each user whose tasks did something in this turn, or wait."""

    def __call__(
        self, loop: asyncio.AbstractEventLoop, coro: _Steps[ReturnT], /, **more: Any
    ) -> asyncio.Task[ReturnT]:
        return asyncio.Task(_InShares(coro, self), loop=loop, **more)

    def turn_of(self, owner: str) -> asyncio.Future[None] | None:
        """Return what a task has to wait for before its next step; None if it may go on."""
        share = self._shares.get(owner)
        if share is None or (share.spent_s < SHARE_S and not share.waiting):
            return None
        turn = self._loop.create_future()
        share.waiting.append(turn)
        return turn

    def spend(self, owner: str, seconds: float) -> None:
        """Count what a step took, and let the next go on that waits."""
        if not owner:
            return
        share = self._shares.get(owner)
        if share is None:
            share = self._shares[owner] = _Share()
        share.spent_s += seconds
        if not share.is_counting:
            share.is_counting = True
            self._loop.call_soon(self._next_turn, owner, share)
        if share.waiting and share.spent_s < SHARE_S:
            share.wake()

    def _next_turn(self, owner: str, share: _Share) -> None:
        share.is_counting = False
        share.spent_s = 0.0
        if not share.wake():
            del self._shares[owner]


class _InShares(Coroutine[object, Any, ReturnT]):
    """A coroutine whose steps keep to the share of whoever they are for at that moment."""

    __slots__ = ("_coro", "_shares", "_waits_as")

    def __init__(self, coro: _Steps[ReturnT], shares: LoopShares) -> None:
        self._coro = coro
        self._shares = shares
        self._waits_as = ""
        """The owner for whose turn it waits, or was woken."""

    def send(self, value: Any) -> object:
        owner = self._waits_as or sharer_of(content_owner.get())
        if not owner:
            return self._coro.send(value)
        if not self._waits_as and (turn := self._shares.turn_of(owner)) is not None:
            self._waits_as = owner
            return next(turn.__await__())  # as `await turn` does
        return self._step(owner, self._coro.send, value)

    def throw(self, *error: Any) -> object:
        # A task that is cancelled waits no longer. It may have been woken for a turn, which passes on.
        return self._step(self._waits_as or sharer_of(content_owner.get()), self._coro.throw, *error)

    def _step(self, owner: str, go: Callable[..., object], *args: Any) -> object:
        self._waits_as = ""
        began_s = perf_counter()
        try:
            return go(*args)
        finally:
            self._shares.spend(owner, perf_counter() - began_s)

    def close(self) -> None:
        self._coro.close()

    def __await__(self) -> Generator[Any, Any, ReturnT]:
        raise TypeError("a task goes through it, and nobody waits for it")

    def __getattr__(self, name: str) -> object:
        return getattr(self._coro, name)  # such as `cr_frame`, for whoever asks how far it is
