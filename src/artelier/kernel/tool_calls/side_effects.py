"""Side effects at work: what they did reaches the code, or the code gets no further step.

Code that cancels a payment and pays in another way would pay twice. So a side effect never ends as cancelled:
its outcome is given to the code and the cancellation comes with the next step; or, while nobody knows
it, the run stops.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Protocol, TypeVar
from weakref import WeakSet

from artelier.errors import RunSuspended
from artelier.kernel.run.pending_steps import AtWork, scopes

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
