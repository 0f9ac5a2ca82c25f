"""Steps that the code of a run waits for, its timeouts, and its side effects at work.

Code that cancels a payment and pays in another way would pay twice. So a side effect that must not be
repeated never ends as cancelled: its outcome is given to the code and the cancellation comes with the next
step; or, while nobody knows it, the run stops.

A run's calls inside a model or a tool: what cuts them, and the drain before a process ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator
from contextlib import asynccontextmanager, contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar, cast
from weakref import WeakSet, proxy

from artelier.clock import Clock
from artelier.errors import ReplayMismatch, RunSuspended
from artelier.kernel import events as ev
from artelier.kernel.history.step_history import TIMEOUT, History, Recorded
from artelier.kernel.steps.step_keys import next_key
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
    """Whether it has dispatched a side effect that must not be repeated: cancelling it settles nothing."""
    name: str = ""
    came: Callable[[], tuple[BlobRef | None, list[Blob]]] | None = None
    """Keeps what came of it before it was cancelled."""
    cost: int = 0
    bill: Callable[[], None] | None = None
    """Settles a stream that its reader leaves."""
    task: asyncio.Task[object] | None = None
    asked: int | None = None
    """Requests and outcomes that this drive had recorded when it was asked for; None if unknown."""
    asked_nth: int = 0
    """Cancellations that stood there by then."""
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


def was_beside(outcome: EventData | None) -> bool:
    """Return True if a computed step, of which nothing tells when it began, was not alone."""
    return isinstance(outcome, ev.StepCompleted | ev.StepFailed) and outcome.beside


def comes_before(other: AtWork, step: AtWork) -> bool:
    """Return True if a recorded outcome is still to come, before the one of `step` that is recorded now."""
    if other is step or not other.ended or other.is_settled or is_around(other, step):
        return False
    is_cut = isinstance(other.outcome, ev.Cut) and other.kind != TIMEOUT
    return step.recorded is not None or not is_cut


def is_around(other: AtWork, step: AtWork) -> bool:
    """Return True if a step is taken by another one, such as `run.first`, which ends after it."""
    return step.key.startswith(f"{other.key}/")


T = TypeVar("T")


class ReplayedRun(Protocol):
    """A run whose code asks again for what was recorded."""

    fork_off: Callable[[ReplayMismatch], Awaitable[None]] | None

    @property
    def history(self) -> History: ...

    @property
    def delivery(self) -> StepOrder: ...


async def ask_apart(
    run: ReplayedRun, step: AtWork, ask: Callable[[str], Awaitable[T]], *, runs_code: bool = False
) -> T:
    """Ask for a step under its key; where code asks for something else than was recorded, for a new one.

    That has a key of its own beside a step on a path that is past; else the run becomes a fork of itself.
    `runs_code`: a mismatch may be that of a function which the step calls.
    Errors: those of `ask`; its mismatch, if neither may be.
    """
    while True:
        try:
            return await ask(step.key)
        except ReplayMismatch as mismatch:
            is_own = mismatch.facts.get("key") == step.key
            if is_own and step.key in run.history.past:
                _rename(run, step, next_key(step.key))
            elif run.fork_off is None or (runs_code and not is_own):
                raise
            else:
                await run.fork_off(mismatch)
                return await ask(step.key)


def _rename(run: ReplayedRun, step: AtWork, key: str) -> None:
    steps = run.delivery.steps
    del steps[step.key]
    run.history.asking.pop(step.key, None)
    step.key, step.recorded = key, None
    steps[key] = step


_STEPS = "_artelier_steps"
STEPS_MAX = 100
"""Steps that the failure of a run names (guess)."""


def note_step(error: Exception, run_id: str, step: AtWork) -> None:
    """Note on an error that a step has ended with it: it may be what the run ends with."""
    if step.kind:  # else it is made of other steps
        with suppress(AttributeError):  # of a class of somebody else's, without room for it
            setattr(error, _STEPS, (run_id, (*_noted(error, run_id), step.key)[-STEPS_MAX:]))


def _noted(error: BaseException, run_id: str) -> tuple[str, ...]:
    run, keys = cast("tuple[str, tuple[str, ...]]", getattr(error, _STEPS, ("", ())))
    return keys if run == run_id else ()


def steps_of(error: BaseException, run_id: str) -> tuple[str, ...]:
    """Return the steps of a run whose error an error is, holds (as a group) or comes from."""
    found, left, seen = dict[str, None](), [error], set[int]()
    while left and len(found) < STEPS_MAX:
        one = left.pop(0)
        if id(one) in seen:
            continue
        seen.add(id(one))
        if noted := _noted(one, run_id):  # what it was raised in the handling of was handled
            found.update(dict.fromkeys(noted))
        elif isinstance(one, BaseExceptionGroup):
            left += cast(BaseExceptionGroup[BaseException], one).exceptions
        elif (before := one.__cause__ or one.__context__) is not None:
            left.append(before)
    return tuple(found)


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

    def skip(self, key: str) -> None: ...


class Effects:
    """The side effects of one drive that its code has cancelled."""

    def __init__(self, delivery: StepOrder) -> None:
        self._delivery = proxy(delivery)
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

    def give_up(self, key: str) -> None:
        """Note that the code has cancelled a call of which it is not known what it did: it is no outcome, and
        code that goes on without an answer gets no further step.
        """
        self.note_effect(key)
        self.unsettled.append(key)

    def came_through(self, task: asyncio.Task[Any]) -> bool:
        """Return True if a task that was cancelled has ended with a result all the same: it was given what
        its side effect did, and took no step after that.
        """
        if self._owed.pop(task, None) is None or task.cancelled():
            return False
        return task.exception() is None

    def note_effect(self, key: str, *, is_once: bool = True) -> None:
        """Note that a side effect may have happened: it was dispatched, or has a recorded outcome.

        `is_once`: it must not be repeated unasked, so its outcome is given to the code whatever that cancels.
        One that may be repeated ends as cancelled, as what only reads does.
        """
        if (step := self._delivery.steps.get(key)) is not None:
            step.is_effect = step.is_effect or is_once
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
        self.take_back(key)
        return True

    def take_back(self, key: str) -> None:
        """Note that a call is known not to have happened, so that its cancellation is an outcome."""
        if (step := self._delivery.steps.get(key)) is not None:
            step.is_effect = False
            if step.task is not None:
                self.acted.discard(step.task)

    def _owe(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._owed.setdefault(task, task.cancelling() - 1)

    def _is_cut_by_code(self) -> bool:
        if any(scope.is_over for scope in scopes.get()):
            return True
        delivery = self._delivery
        return asyncio.current_task() is not delivery.main and not delivery.is_interrupted()


PATIENCE_S = 5.0
"""The time beyond the recorded one that a replay waits for code to ask for a step, and goes on without it."""


class Patience:
    """The time that a replay gives its code to ask again for recorded steps, which hold up others."""

    def __init__(self, delivery: StepOrder) -> None:
        self._delivery = proxy(delivery)
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._left_s = PATIENCE_S
        self._last_us = 0

    def __bool__(self) -> bool:
        return bool(self._timers)

    def note_arrival(self, at_us: int) -> None:
        """Note when an outcome was recorded that reaches the code now."""
        self._last_us = max(self._last_us, at_us)

    def begin(self, missing: Recorded) -> None:
        """Wait for the code to ask for a step as long as it took when it was recorded, and a little more."""
        if missing.key in self._timers:
            return
        since = max(self._last_us, missing.resumed_us)
        took_s = max(0, missing.began_us - since) / 1_000_000 if since else 0.0
        loop = asyncio.get_running_loop()
        self._timers[missing.key] = loop.call_later(took_s + self._left_s, self._give_up, missing.key)

    def _give_up(self, key: str) -> None:
        self._timers.pop(key, None)
        self._left_s = min(self._left_s, 0.05)  # code that left out one step leaves out more
        self._delivery.skip(key)

    def end(self, key: str) -> None:
        """The code has asked for a step."""
        if (timer := self._timers.pop(key, None)) is not None:
            timer.cancel()

    def close(self) -> None:
        """Wait for nothing any more."""
        for timer in self._timers.values():
            timer.cancel()


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
