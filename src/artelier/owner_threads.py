"""Threads in which owners of work take turns: no user's work holds up that of others, however much waits.

What has begun cannot be taken back. So no owner has all threads, if there are several.
"""

from __future__ import annotations

import itertools
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ParamSpec, TypeVar

ReturnT = TypeVar("ReturnT")
P = ParamSpec("P")

content_owner: ContextVar[str] = ContextVar("content_owner", default="")
"""The user, or the tenant, for whom something is done; empty for what the process does for itself."""


@dataclass(frozen=True, slots=True)
class _Work:
    """One call that waits for a thread."""

    number: int
    size: int
    call: Callable[[], Any]
    done: Future[Any]


@dataclass(slots=True)
class _Lane:
    """The work of one owner, in its order."""

    owner: str
    end: int
    """How far this owner would be, if all took turns a unit of size at a time."""
    running: int = 0
    waiting: deque[_Work] = field(default_factory=deque[_Work])

    @property
    def place(self) -> tuple[int, int, int]:
        """Orders lanes: first that of which least runs, then that of which least was done."""
        following = self.waiting[0]
        return self.running, self.end + following.size, following.number


class OwnerThreads(ThreadPoolExecutor):
    """Does the work of each owner in its order, and that of the owner first of whom least runs.

    It is an executor of the standard library, so an event loop takes it as its default one.
    """

    def __init__(
        self,
        threads: int,
        *,
        name: str,
        owner_max: int | None = None,
        kept: int = 0,
        initializer: Callable[[], None] | None = None,
    ) -> None:
        """`owner_max`: how many threads one owner has at once; `kept`: how many are not for users;
        `initializer` is called first in each thread."""
        super().__init__(threads, thread_name_prefix=name, initializer=initializer)
        self._turns = threading.Lock()
        self._numbers = itertools.count()
        self._lanes: dict[str, _Lane] = {}
        """Of each owner who waits or is at work."""
        self._reached = 0
        """How far the owner is who is ahead of all: whoever comes begins there."""
        self._owner_max = max(1, threads if owner_max is None else owner_max)
        self._users_max = max(1, threads - kept)
        self._users_running = 0

    def submit(self, fn: Callable[P, ReturnT], /, *args: P.args, **kwargs: P.kwargs) -> Future[ReturnT]:
        """Let a call of the `content_owner` wait for its turn. Errors: as `put`."""
        return self.put(partial(fn, *args, **kwargs), owner=content_owner.get())

    def put(self, call: Callable[[], ReturnT], *, owner: str, size: int = 1) -> Future[ReturnT]:
        """Let a call wait for its turn; owners of whom as much runs take turns by the size of what was done.

        What is cancelled before it has begun is dropped. Errors: `RuntimeError` after a shutdown.
        """
        done = Future[ReturnT]()
        with self._turns:
            lane = self._lanes.setdefault(owner, _Lane(owner, self._reached))
            if not lane.waiting:
                lane.end = self._reached
            lane.waiting.append(_Work(next(self._numbers), size, call, done))
        try:
            super().submit(self._work)  # whichever work is next then
        except RuntimeError:
            done.cancel()
            raise
        return done

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        super().shutdown(wait=False, cancel_futures=cancel_futures)  # from here on nothing more comes
        if cancel_futures:
            with self._turns:
                waiting = [work for lane in self._lanes.values() for work in lane.waiting]
            for work in waiting:
                work.done.cancel()
        super().shutdown(wait=wait)

    def _work(self) -> None:
        """Do what may be done now. What an owner has too much of is done by the threads that do its work."""
        while (turn := self._take()) is not None:
            lane, work = turn
            try:
                value = work.call()
            except BaseException as error:
                self._end(lane)
                work.done.set_exception(error)
            else:
                self._end(lane)
                work.done.set_result(value)
                del value
            del turn, lane, work  # the next may be long in coming

    def _take(self) -> tuple[_Lane, _Work] | None:
        with self._turns:
            while lane := min(filter(self._may_run, self._lanes.values()), key=_place, default=None):
                work = lane.waiting.popleft()
                if work.done.set_running_or_notify_cancel():
                    lane.end += work.size
                    self._reached = max(self._reached, lane.end)
                    self._count(lane, 1)
                    return lane, work
                self._count(lane, 0)
            return None

    def _may_run(self, lane: _Lane) -> bool:
        is_free = not lane.owner or self._users_running < self._users_max
        return bool(lane.waiting) and lane.running < self._owner_max and is_free

    def _end(self, lane: _Lane) -> None:
        with self._turns:
            self._count(lane, -1)

    def _count(self, lane: _Lane, more: int) -> None:
        lane.running += more
        self._users_running += more if lane.owner else 0
        if not lane.running and not lane.waiting:
            del self._lanes[lane.owner]


def _place(lane: _Lane) -> tuple[int, int, int]:
    return lane.place
