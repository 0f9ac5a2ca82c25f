"""Threads in which owners of work take turns: no user's work holds up that of others, however much waits.

`OwnerThreads` are an executor. Three of them are the content threads, which compute with content of outsiders
beside the event loop: parsing, decoding, checking. Threads that compute take turns at the interpreter, and
whenever the event loop comes back from waiting, it waits for a turn: beside one such thread for one, beside
six for six. So a user has one content thread, and another is free for what somebody else does.
"""

from __future__ import annotations

import asyncio
import contextvars
import itertools
import os
import threading
import time
from collections import Counter, deque
from collections.abc import AsyncGenerator, Callable, Iterable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any, ParamSpec, TypeVar

ReturnT = TypeVar("ReturnT")
ItemT = TypeVar("ItemT")
P = ParamSpec("P")

content_owner: ContextVar[str] = ContextVar("content_owner", default="")
"""The user, or the tenant, for whom something is done; empty for what the process does for itself."""
content_group: ContextVar[str] = ContextVar("content_group", default="")
"""The tenants of that user, whose users have shares together. Empty for an owner who stands alone."""


def owner_and_group() -> tuple[str, str]:
    """Return for whom something is done, and with whom he shares."""
    owner = content_owner.get()
    return owner, content_group.get() or owner


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
    group: str
    end: int
    """How far this owner would be, if all took turns a unit of size at a time."""
    running: int = 0
    waiting: deque[_Work] = field(default_factory=deque[_Work])


SMALL_SIZE = 256 * 1024
"""Bytes that are read in some 10 ms; 30 MB of slow numbers take three seconds."""


class OwnerThreads(ThreadPoolExecutor):
    """Does the work of each owner in its order, and that first of whose group, then of whom, least runs.

    It is an executor of the standard library, so an event loop takes it as its default one.
    """

    def __init__(
        self,
        threads: int,
        *,
        name: str,
        owner_max: int | None = None,
        group_max: int | None = None,
        kept: int = 0,
        kept_for_small: int = 0,
        initializer: Callable[[], None] | None = None,
    ) -> None:
        """`owner_max`: how many threads one owner has at once; `group_max`: how many all of one group;
        `kept`: how many are not for users; `kept_for_small`: how many do nothing larger than `SMALL_SIZE`;
        `initializer` is called first in each thread."""
        super().__init__(threads, thread_name_prefix=name, initializer=initializer)
        self._turns = threading.Lock()
        self._numbers = itertools.count()
        self._lanes: dict[str, _Lane] = {}
        """Of each owner who waits or is at work."""
        self._reached = 0
        """How far the owner is who is ahead of all: whoever comes begins there."""
        self._owner_max = max(1, threads if owner_max is None else owner_max)
        self._group_max = max(1, threads if group_max is None else group_max)
        self._groups_running = Counter[str]()
        self._users_max = max(1, threads - kept)
        self._users_running = 0
        self._large_max = max(1, threads - kept_for_small)
        self._large_running = 0

    def submit(self, fn: Callable[P, ReturnT], /, *args: P.args, **kwargs: P.kwargs) -> Future[ReturnT]:
        """Let a call of the `content_owner` wait for its turn. Errors: as `put`."""
        owner, group = owner_and_group()
        return self.put(partial(fn, *args, **kwargs), owner=owner, group=group)

    def put(
        self, call: Callable[[], ReturnT], *, owner: str, group: str = "", size: int = 1
    ) -> Future[ReturnT]:
        """Let a call wait for its turn; owners of whom as much runs take turns by the size of what was done.

        What is cancelled before it has begun is dropped. Errors: `RuntimeError` after a shutdown.
        """
        done = Future[ReturnT]()
        with self._turns:
            lane = self._lanes.setdefault(owner, _Lane(owner, group or owner, self._reached))
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
                self._end(lane, work)
                work.done.set_exception(error)
            else:
                self._end(lane, work)
                work.done.set_result(value)
                del value
            del turn, lane, work  # the next may be long in coming

    def _take(self) -> tuple[_Lane, _Work] | None:
        with self._turns:
            while lane := min(filter(self._may_run, self._lanes.values()), key=self._place, default=None):
                work = lane.waiting.popleft()
                if work.done.set_running_or_notify_cancel():
                    lane.end += work.size
                    self._reached = max(self._reached, lane.end)
                    self._count(lane, work, 1)
                    return lane, work
                self._count(lane, work, 0)
            return None

    def _may_run(self, lane: _Lane) -> bool:
        is_free = not lane.owner or (
            self._users_running < self._users_max and self._groups_running[lane.group] < self._group_max
        )
        if not lane.waiting or lane.running >= self._owner_max or not is_free:
            return False
        return lane.waiting[0].size <= SMALL_SIZE or self._large_running < self._large_max

    def _place(self, lane: _Lane) -> tuple[int, int, int, int]:
        """Order lanes: first that of which least runs, then that of which least was done."""
        following = lane.waiting[0]
        return self._groups_running[lane.group], lane.running, lane.end + following.size, following.number

    def _end(self, lane: _Lane, work: _Work) -> None:
        with self._turns:
            self._count(lane, work, -1)

    def _count(self, lane: _Lane, work: _Work, more: int) -> None:
        lane.running += more
        self._large_running += more if work.size > SMALL_SIZE else 0
        self._users_running += more if lane.owner else 0
        self._groups_running[lane.group] += more
        if not self._groups_running[lane.group]:
            del self._groups_running[lane.group]
        if not lane.running and not lane.waiting:
            del self._lanes[lane.owner]


class PlaceTurns:
    """A few places, given out in turn among owners. Belongs to one event loop."""

    def __init__(self, places: int, *, owner_max: int | None = None) -> None:
        """`owner_max`: how many places one owner has at once; None: all of them while no other waits."""
        self._free = places
        self._owner_max = places if owner_max is None else owner_max
        self._taken = Counter[str]()
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}
        """By owner, the one whose turn is next first."""

    @asynccontextmanager
    async def turn(self, owner: str) -> AsyncGenerator[None]:
        """Wait for a place behind one turn of each other owner, at most."""
        place = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(owner, deque()).append(place)
        self._wake()
        try:
            await place
        except asyncio.CancelledError:
            if place.done() and not place.cancelled():
                self._give_back(owner)  # it was given, and nobody takes it
            else:
                self._drop(owner, place)
            raise
        try:
            yield
        finally:
            self._give_back(owner)

    def _give_back(self, owner: str) -> None:
        self._free += 1
        self._taken -= Counter([owner])
        self._wake()

    def _wake(self) -> None:
        while self._free and (owner := next(filter(self._may_take, self._waiting), None)) is not None:
            queue = self._waiting.pop(owner)
            place = queue.popleft()
            if queue:
                self._waiting[owner] = queue  # behind the others now
            if not place.done():
                self._free -= 1
                self._taken[owner] += 1
                place.set_result(None)

    def _may_take(self, owner: str) -> bool:
        return self._taken[owner] < self._owner_max

    def _drop(self, owner: str, place: asyncio.Future[None]) -> None:
        queue = self._waiting.get(owner)
        if queue is not None and place in queue:
            queue.remove(place)
            if not queue:
                del self._waiting[owner]


BESIDE_BYTES = 64 * 1024
"""Larger content is read beside the event loop (guess: half a millisecond for usual content)."""
THREADS, OF_GROUP = 3, 2
"""Of which a user has one, and the users of one tenant two (guess: as many send much at the same moment). One
does small work alone: three tenants with large bodies made a fourth wait for three seconds."""

LOOK_S = 50e-6
BUSY_S = 250e-6
"""Whoever gets the interpreter back later than that has waited for the event loop (guess)."""
REST_S = 0.002
"""As long as two pieces take."""


class _Sized(Executor):
    """The threads, for content of this size. An event loop of tests may do without them."""

    def __init__(self, size_bytes: int) -> None:
        self._size_bytes = size_bytes

    def submit(self, fn: Callable[P, ReturnT], /, *args: P.args, **kwargs: P.kwargs) -> Future[ReturnT]:
        call = partial(fn, *args, **kwargs)
        owner, group = owner_and_group()
        return _threads().put(call, owner=owner, group=group, size=self._size_bytes)


@cache
def _threads() -> OwnerThreads:
    return OwnerThreads(
        THREADS,
        name="artelier-content",
        owner_max=1,
        group_max=OF_GROUP,
        kept_for_small=1,
        initializer=_begin,
    )


class _Here(threading.local):
    is_content_thread = False


_here = _Here()


def _begin() -> None:
    _here.is_content_thread = True


def give_way() -> None:
    """Leave the interpreter to the event loop for a moment, if that is at work.

    For work in pieces, between two of them; on an event loop itself it does nothing. A thread that computes
    all the time takes the interpreter at every row that the loop reads and every packet that it sends, and
    keeps it for a turn: beside one document of 30 MB, a request took half a second (measured).
    """
    if not _here.is_content_thread:
        return
    began_s = time.perf_counter()
    time.sleep(LOOK_S)
    if time.perf_counter() - began_s > LOOK_S + BUSY_S:
        time.sleep(REST_S)


os.register_at_fork(after_in_child=_threads.cache_clear)  # a fork has no thread but its own


async def run_in_content_thread(size_bytes: int, work: Callable[..., ReturnT], *args: Any) -> ReturnT:
    """Return what `work` returns, which computes with content of this size.

    Users take turns, each by the size of what was read. For work that waits for nothing. A caller that is
    cancelled takes back what has not begun. Errors: those of `work`.
    """
    call = partial(contextvars.copy_context().run, work, *args)
    return await asyncio.get_running_loop().run_in_executor(_Sized(size_bytes), call)


async def in_turns(items: Iterable[ItemT], *, at_once: int) -> AsyncGenerator[ItemT]:
    """Yield items; after each `at_once` of them others have their turn at the event loop."""
    for count, item in enumerate(items, 1):
        yield item
        if not count % at_once:
            await asyncio.sleep(0)


async def read_beside_loop(size_bytes: int, work: Callable[..., ReturnT], *args: Any) -> ReturnT:
    """Return what `work` returns, which reads content of this size; what is small is read at once.

    Errors: those of `work`.
    """
    return work(*args) if size_bytes <= BESIDE_BYTES else await run_in_content_thread(size_bytes, work, *args)
