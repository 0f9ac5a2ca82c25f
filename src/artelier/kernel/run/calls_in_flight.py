"""A run's calls inside a model or a tool: what cuts them, and the drain before a process ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager, suppress
from contextvars import ContextVar
from typing import Any

from artelier.clock import Clock

STOPPED = "artelier: stopped by a command"


class OutOfTime(TimeoutError):
    """A call was cut because the time of its run, or of a run above it, is up."""


class CallsInFlight:
    """The calls in flight of one run."""

    def __init__(self, left_s: Callable[[], float | None]) -> None:
        """`left_s`: what is left of the run's time; None if it is not limited."""
        self._left_s = left_s
        self.tasks: dict[asyncio.Task[Any], bool] = {}
        """Tasks inside a call; the value says whether a cancel may interrupt it."""
        self.timeouts: dict[asyncio.Task[Any], tuple[asyncio.Timeout, float | None]] = {}
        """Of those tasks: what cuts the call, and when its own time is up in the loop's time."""
        self.interrupted: set[asyncio.Task[Any]] = set()
        """Tasks whose call a command has cancelled."""

    def interrupt(self, *, everything: bool) -> None:
        """Cancel calls in flight: all of them, or only those whose repetition does no harm."""
        for task, harmless in list(self.tasks.items()):
            if everything or harmless:
                self.interrupted.add(task)
                task.cancel(STOPPED)

    @contextmanager
    def flight(self, *, harmless: bool) -> Generator[None]:
        """Count as a call of the current task, which a command may cancel (see `interrupt`)."""
        task = asyncio.current_task()
        assert task is not None
        self.tasks[task] = harmless
        try:
            yield
        except asyncio.CancelledError:
            raise  # `was_interrupted` tells whose cancel it is
        except BaseException:
            self.was_interrupted()  # too late: the call is over, and the next boundary obeys
            raise
        else:
            self.was_interrupted()
        finally:
            self.tasks.pop(task, None)

    @contextmanager
    def handed_over(self) -> Generator[None]:
        """Let a child that is at work in the call of the current task obey in its stead.

        It is told every command itself and has this run's deadline: cutting the call from here as well
        would tear a side effect of the child that a cancel lets finish.
        """
        task = asyncio.current_task()
        harmless = None if task is None else self.tasks.pop(task, None)
        if task is None or harmless is None:  # no call of this run
            yield
            return
        limit, own = self.timeouts.get(task, (None, None))
        until = limit.when() if limit is not None else None
        if limit is not None:
            limit.reschedule(own)
        try:
            yield
        finally:
            self.tasks[task] = harmless
            if limit is not None:
                with suppress(RuntimeError):  # its own time was up
                    limit.reschedule(until)

    def was_interrupted(self) -> bool:
        """Return True if the current task's cancel came from a command; it is taken back then."""
        task = asyncio.current_task()
        if task is None or task not in self.interrupted:
            return False
        self.interrupted.discard(task)
        task.uncancel()
        return True

    @asynccontextmanager
    async def within(self, timeout_s: float | None) -> AsyncGenerator[asyncio.Timeout]:
        """Bound a call by its own timeout and by the run's time.

        Errors: `TimeoutError`; `OutOfTime` if it was the run's time that was up.
        """
        left_s = self._left_s()
        is_last = left_s is not None and (timeout_s is None or left_s <= timeout_s)
        limit = asyncio.timeout(left_s if is_last else timeout_s)
        task = asyncio.current_task()
        assert task is not None
        own = None if timeout_s is None else asyncio.get_running_loop().time() + timeout_s
        self.timeouts[task] = (limit, own)
        try:
            async with limit:
                yield limit
        except TimeoutError:
            if is_last and limit.expired():
                raise OutOfTime("the run's time is up") from None
            raise
        finally:
            self.timeouts.pop(task, None)


class _CallAtWork:
    """A tool call at work. While it waits for runs below it, or for the end, it is not."""

    def __init__(self) -> None:
        self.waits = 0


_current: ContextVar[_CallAtWork | None] = ContextVar("tool_call_at_work", default=None)
"""The tool call that the current task is in."""


class Draining:
    """The tool calls of a kernel, and whether it is about to end. Not safe outside the loop that drains."""

    def __init__(self) -> None:
        self._calls: set[_CallAtWork] = set()
        self._changed = asyncio.Event()
        self._is_hurried = False
        self.has_begun = False
        """Whether every run stops before its next step."""

    def begin(self) -> None:
        """Have every run stop before its next step. Idempotent."""
        self.has_begun = True

    async def park(self) -> None:
        """Wait for the end, which is a cancel."""
        with self.waiting():
            await asyncio.Event().wait()

    @contextmanager
    def at_work(self) -> Generator[None]:
        """Count the current task as inside a tool call."""
        call = _CallAtWork()
        self._calls.add(call)
        token = _current.set(call)
        try:
            yield
        finally:
            _current.reset(token)
            self._calls.discard(call)
            self._changed.set()

    @contextmanager
    def waiting(self) -> Generator[None]:
        """While it is open, the tool call of the current task, if any, does nothing itself."""
        if (call := _current.get()) is None:
            yield
            return
        call.waits += 1
        self._changed.set()
        try:
            yield
        finally:
            call.waits -= 1

    @property
    def is_quiet(self) -> bool:
        """True if no tool is at work."""
        return all(call.waits for call in self._calls)

    def hurry(self) -> None:
        """End without waiting for tools."""
        self._is_hurried = True
        self._changed.set()

    async def quiet(self, clock: Clock, *, within_s: float) -> bool:
        """Wait until no tool is at work, or that much time has passed; whether none is."""
        self.begin()
        end = asyncio.ensure_future(clock.sleep(within_s))
        try:
            while not (self.is_quiet or self._is_hurried or end.done()):
                self._changed = asyncio.Event()
                changed = asyncio.ensure_future(self._changed.wait())
                await asyncio.wait((changed, end), return_when=asyncio.FIRST_COMPLETED)
                changed.cancel()
        finally:
            end.cancel()
        return self.is_quiet
