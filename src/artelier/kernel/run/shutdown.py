"""The end of a process in good order: no step begins any more, and tools that are at work may end."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar

from artelier.clock import Clock


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
        """Return when no tool is at work, or that much time has passed; whether none is."""
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
