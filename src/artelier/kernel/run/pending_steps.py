"""Steps that the code of a run waits for, its timeouts, and its side effects at work.

Code that cancels a payment and pays in another way would pay twice. So a side effect never ends as
cancelled: its outcome is given to the code and the cancellation comes with the next step; or, while nobody
knows it, the run stops.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar
from weakref import WeakSet

from artelier.errors import RunSuspended
from artelier.kernel.history.step_history import Recorded
from artelier.log import Blob, BlobRef, EventData


class StreamReading(Protocol):
    """A stream that the code reads."""

    is_busy: bool
    """Whether a task waits for its next piece."""

    async def close(self) -> None:
        """Leave it."""
        ...


class TimeoutScope(Protocol):
    """A `run.timeout` that is entered."""

    is_over: bool
    """Whether it has timed out."""


scopes: ContextVar[tuple[TimeoutScope, ...]] = ContextVar("scopes", default=())
"""Timeouts that the current task stands in, the outermost first."""


@dataclass(slots=True, eq=False)
class AtWork:
    """A step that the code waits for."""

    key: str
    kind: str
    recorded: Recorded | None = None
    """What the log has of it, once that was looked up."""
    is_noted: bool = False
    """Whether this drive recorded its outcome."""
    is_beside: bool = False
    """Whether another step was at work at the same time."""
    is_held: bool = False
    """Whether the outcome of a computed step says so."""
    is_effect: bool = False
    """Whether it has dispatched a side effect: then cancelling it settles nothing."""
    name: str = ""
    came: Callable[[], tuple[BlobRef | None, list[Blob]]] | None = None
    """Keeps what came of it before it was cancelled."""
    cost: int = 0
    bill: Callable[[], None] | None = None
    """Settles a stream that its reader leaves."""
    task: asyncio.Task[object] | None = None
    asked: int | None = None
    """Requests and outcomes that this drive had recorded when it was asked for; None if unknown."""
    is_left: bool = False
    is_settled: bool = False
    """Whether its end has reached the code, or its cancellation was taken down."""

    @property
    def outcome(self) -> EventData | None:
        return self.recorded.outcome if self.recorded is not None else None

    @property
    def ended(self) -> int:
        """Position of its outcome in the history; 0 if it has none there.

        A call whose outcome is unknown, or that a person has told to be made again, has none: what this drive
        records of it comes last.
        """
        if self.recorded is not None and self.recorded.place and self.outcome is None:
            return self.recorded.place
        if self.recorded is None or self.outcome is None or self.is_noted:
            return 0
        return 0 if self.recorded.status in ("unknown", "retry") else self.recorded.ended


T = TypeVar("T")


class SuspendableRun(Protocol):
    """A run that can be suspended."""

    def suspend(self, status: str, reason: str | None, *, run_id: str = "") -> RunSuspended: ...


class StepOrder(Protocol):
    """The order in which outcomes reach the code of a run: `Delivery`."""

    @property
    def core(self) -> SuspendableRun: ...

    @property
    def steps(self) -> dict[str, AtWork]: ...

    @property
    def main(self) -> asyncio.Task[object] | None: ...

    @property
    def is_ordered(self) -> bool: ...

    @property
    def is_closing(self) -> bool: ...

    def is_interrupted(self) -> bool: ...

    async def turn(self, step: AtWork) -> None: ...


class Effects:
    """The side effects of one drive that its code has cancelled."""

    def __init__(self, delivery: StepOrder) -> None:
        self._delivery = delivery
        self.unsettled: list[str] = []
        """Those of which it was not known what they did."""
        self._owed: dict[asyncio.Task[Any], int] = {}
        """Tasks whose cancellation is held back, and how often each had been cancelled before."""
        self.acted = WeakSet[asyncio.Task[Any]]()
        """Tasks that have dispatched a side effect, or were given the outcome of one."""

    def check(self, task: asyncio.Task[Any] | None) -> None:
        """Check that the code may take a step.

        Errors: `RunSuspended` if it goes on without knowing what a side effect did; `CancelledError` that
        was held back.
        """
        if self.unsettled and self._delivery.is_ordered:
            raise self._delivery.core.suspend("unknown_outcome", self.unsettled[0])
        if self._owed and task is not None:
            before = self._owed.pop(task, None)
            if before is not None and task.cancelling() > before:
                raise asyncio.CancelledError

    def came_through(self, task: asyncio.Task[Any]) -> bool:
        """Return True if a task that was cancelled has ended with a result all the same: it was given what
        its side effect did, and took no step after that.
        """
        if self._owed.pop(task, None) is None or task.cancelled():
            return False
        return task.exception() is None

    def note_effect(self, key: str) -> None:
        """Note that a side effect may have happened: it was dispatched, or has a recorded outcome, which is
        given to the code whatever it cancels.
        """
        if (step := self._delivery.steps.get(key)) is not None:
            step.is_effect = True
            if step.task is not None:
                self.acted.add(step.task)

    async def shield(self, work: Coroutine[Any, Any, T], *, gives_way: bool = False) -> T:
        """Return what work gives, even if its task is cancelled meanwhile.

        `gives_way`: but raise what may be an interruption of the drive.
        """
        task = asyncio.ensure_future(work)
        while True:
            try:
                return await asyncio.shield(task)
            except asyncio.CancelledError:
                if task.cancelled():
                    raise
                if gives_way and not self._is_cut_by_code():
                    task.cancel()
                    raise
                self._owe()

    async def turn(self, step: AtWork) -> None:
        """Do as `Delivery.turn`, and hold a cancellation back."""
        while True:
            try:
                return await self._delivery.turn(step)
            except asyncio.CancelledError:
                if self._delivery.is_closing:
                    raise
                self._owe()

    def gives_up(self, key: str) -> bool:
        """Return whether the code has cancelled a call meanwhile, which is known not to have happened."""
        task = asyncio.current_task()
        if task is None or self._owed.pop(task, None) is None:
            return False
        if (step := self._delivery.steps.get(key)) is not None:
            step.is_effect = False
            self.acted.discard(task)
        return True

    def _owe(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._owed.setdefault(task, task.cancelling() - 1)

    def _is_cut_by_code(self) -> bool:
        if any(scope.is_over for scope in scopes.get()):
            return True
        delivery = self._delivery
        return asyncio.current_task() is not delivery.main and not delivery.is_interrupted()
