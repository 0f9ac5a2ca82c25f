"""The order in which outcomes reach a run's code, and what the code has cancelled.

Code that waits for several steps at once sees outcomes in the order of the log, one at a time, each after the
code had its chance to react to the one before; live and on replay alike. See docs/guides/asyncio.md.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, NoReturn, Protocol

from artelier.errors import Conflict, ReplayMismatch, RunEnded, RunSuspended
from artelier.kernel import events as ev
from artelier.kernel.history.step_history import GAP, TIMEOUT, History, Recorded
from artelier.kernel.run.pending_steps import (
    AtWork,
    Effects,
    Patience,
    StreamReading,
    comes_before,
    is_around,
    note_step,
    scopes,
    was_beside,
)
from artelier.kernel.run.status import RunStatus, StatusMachine
from artelier.kernel.run.writer import Actor
from artelier.ports.tool import ToolPort

REACTION_TICKS = 32
"""Turns of the event loop that code gets to react to an outcome before the next one reaches it; each task
that waits for another takes about three (a guess: ten of them)."""

CANCEL_PATIENCE_S = 30.0
"""As `PATIENCE_S`, for code that is to cancel a step again, after which the replay fails."""


class OrderedRun(Protocol):
    """A run whose outcomes are handed to its code."""

    @property
    def history(self) -> History: ...

    @property
    def run_id(self) -> str: ...

    @property
    def loop(self) -> asyncio.AbstractEventLoop: ...

    @property
    def lifecycle(self) -> StatusMachine: ...

    @property
    def actor(self) -> Actor | None: ...

    @property
    def held(self) -> dict[str, ev.ModelRequested]: ...

    @property
    def suspended(self) -> RunSuspended | None: ...

    async def take_back(self, request: ev.ModelRequested, key: str) -> None: ...

    def suspend(self, status: str, reason: str | None, *, run_id: str = "") -> RunSuspended: ...


class SteppingRun(Protocol):
    """A run that takes steps."""

    @property
    def delivery(self) -> Delivery: ...

    def begin(self, key: str | None) -> tuple[str, str]: ...

    def end(self, parent: str) -> None: ...


@dataclass(slots=True)
class _Cancelled:
    """A cancellation that is no outcome yet: the drive may be what was interrupted."""

    step: AtWork
    is_timeout: bool
    is_raised: bool
    task: asyncio.Task[object] | None
    since: int
    """Requests and outcomes that were recorded before it."""
    nth: int


@dataclass(slots=True, weakref_slot=True, eq=False)
class Delivery:
    """Hands outcomes to the code of one run."""

    core: OrderedRun  # held weakly, see `RunCore.itself`
    effects: Effects = field(init=False)
    patience: Patience = field(init=False)
    main: asyncio.Task[object] | None = None
    """The task that opened the run: who cancels it interrupts the drive."""
    has_returned: bool = False
    """True if the code has come to its end, while the drive may still obey commands."""
    is_ordered: bool = False
    """Whether ordinary code drives the run: the built-in loops order their own steps."""
    steps: dict[str, AtWork] = field(default_factory=dict[str, AtWork])
    readings: set[StreamReading] = field(default_factory=set[StreamReading])
    """Streams that are open."""
    closing: set[asyncio.Task[None]] = field(default_factory=set[asyncio.Task[None]])
    """What ends the calls of streams whose readers have gone."""
    pending: list[_Cancelled] = field(default_factory=list[_Cancelled])
    _taking_back: list[_Cancelled] = field(default_factory=list[_Cancelled])
    """Cancelled on their way into the log: recorded when it is known whether they stand there."""
    _noted: dict[str, int] = field(default_factory=dict[str, int])
    """Outcomes that this drive recorded and that have not reached the code, in order: by key, how many
    requests and outcomes there were then."""
    _ticks: int = 0
    _waiting: dict[AtWork, asyncio.Event] = field(default_factory=dict[AtWork, asyncio.Event])
    """Steps that wait for their turn."""
    _pieces: asyncio.Event | None = None
    """Of whoever waits: set when the next piece of a stream may reach the code, or a step is over."""
    _at: int = 0
    """How far the code has come in the history, in requests and outcomes."""
    _place: tuple[int, int] = (0, -1)
    """Of the last cancellation: what was recorded before it, and how many others stand there."""
    base: int = 0
    """How often that task was being cancelled when it opened the run."""
    is_closing: bool = False
    _is_over: bool = False
    """Whether it closes because the code came to an end of its own."""
    _parked: dict[str, RunSuspended] = field(default_factory=dict[str, RunSuspended])
    """By key, what waits for something that this drive does not wait for (`on_wait="suspend"`)."""
    _quiet_ticks: int = 0
    """Turns of the event loop until the drive is suspended, unless something goes on."""

    def __post_init__(self) -> None:
        self.effects, self.patience = Effects(self), Patience(self)

    def drive(self, *, is_ordered: bool) -> None:
        """Begin, in the task that opens the run."""
        self.is_ordered = is_ordered
        self.main = asyncio.current_task()
        self.base = 0 if self.main is None else self.main.cancelling()

    # Steps

    def begin(self, key: str, kind: str) -> AtWork:
        """A step is asked for.

        Errors: `RunEnded` from a task that the run's code has left behind; `RunSuspended` if the code goes on
        without knowing what a side effect did; `CancelledError` that was held back.
        """
        if (self.is_closing or self.has_returned) and self.is_ordered:
            raise RunEnded(
                f"the code of run {self.core.run_id} has ended, and a task that it left asks for step {key}",
                hint="Wait for every task before the run's code returns.",
            )
        task = asyncio.current_task()
        self.effects.check(task)
        step = AtWork(key=key, kind=kind, task=task)
        if self.core.actor is not None and self.core.history.at_end:
            step.asked = next((count - 1 for count in self._noted.values()), self.core.actor.count)
            step.asked_nth = self._next_nth(step.asked)
        self.add(step)
        return step

    def add(self, step: AtWork) -> None:
        """Something is at work from now on, beside what else is."""
        if self.steps:
            step.is_beside = True
            if len(self.steps) == 1:  # of several, all are marked
                next(iter(self.steps.values())).is_beside = True
        self.steps[step.key] = step

    def end(self, step: AtWork) -> None:
        """It is over, however it ended."""
        if self.steps.get(step.key) is step:
            del self.steps[step.key]
        self._noted.pop(step.key, None)
        self.core.history.asking.pop(step.key, None)
        self._announce()

    async def note_found(self, found: Recorded) -> None:
        """The log has a step that is asked for. Errors: those of `until_cancelled`, if it was cancelled."""
        self.core.history.asking[found.key] = found
        if found.kind == "model" and isinstance(found.request, ev.ModelRequested):
            if found.status == "requested" and not found.inherited:
                self.core.held.setdefault(found.key, found.request)
            return  # it is `asked` when it was compared
        if isinstance(found.outcome, ev.Cut):
            await self.until_cancelled(found)
        self.note_asked(found)

    def note_asked(self, found: Recorded) -> None:
        """The code has asked again for a recorded step, and what it asks for was compared."""
        self.core.history.asking.pop(found.key, None)
        if (step := self.steps.get(found.key)) is not None:
            step.recorded = found
        self.patience.end(found.key)
        self._announce()

    def dispatches(self, key: str, tool: ToolPort, *, is_once: bool) -> None:
        """A tool step is about to call its tool: from here on, a side effect may have happened.

        `is_once`: it must not be repeated unasked.
        """
        if is_once or tool.side_effect:
            self.effects.note_effect(key, is_once=is_once)

    def costs(self, key: str, cost: int) -> None:
        """A call that was cut off was billed."""
        if (step := self.steps.get(key)) is not None:
            step.cost += cost

    def is_beside(self, key: str) -> bool:
        """Return True if a step at work has others beside it, so that its place in the order counts."""
        step = self.steps.get(key)
        if not self.is_ordered or step is None or not step.is_beside:
            return False
        step.is_held = True
        return True

    def note_outcome(self, key: str) -> None:
        """An outcome of this key was recorded now."""
        step = self.steps.get(key)
        if step is not None and not step.is_settled and self.is_ordered:
            assert self.core.actor is not None
            had_ended = step.ended > 0
            step.is_noted = True
            self._noted.pop(key, None)
            self._noted[key] = self.core.actor.count
            if had_ended:  # in a fork, which settles it anew: what came after it waits for it no more
                self._announce()

    def taken_back(self, upto: int, number: int) -> None:
        """A limit has refused some of the first `upto` requests and outcomes that were counted."""
        self._noted = {key: count - number if count >= upto else count for key, count in self._noted.items()}
        cancelled = (*self.pending, *self._taking_back)
        for one in cancelled:
            if one.since >= upto:
                one.since -= number
        if self._place[0] >= upto:
            self._place = self._place[0] - number, self._place[1]
        for step in (*self.steps.values(), *(one.step for one in cancelled)):
            if step.asked is not None and step.asked >= upto:
                step.asked -= number

    async def due(self, step: AtWork) -> None:
        """Wait until all that was recorded before the end of a step has reached the code."""
        while self._must_wait(step):
            await self._wait(step)

    async def wait_reaction(self) -> None:
        """Wait until code that asks for recorded steps at this instant has asked for them too.

        A computed step that a crash cut off is not in the log: nothing tells what was at work beside it.
        """
        if self.is_ordered and not self.core.history.at_end and not self.is_closing:
            self._hold_back()
            while self._ticks and not self.is_closing:
                await self._next_piece()

    async def piece(self) -> None:
        """Wait until a piece of a stream may reach the code, which reacts to one thing at a time."""
        while self.is_ordered and self._ticks and not self.is_closing:
            await self._next_piece()
        if self.is_ordered and len(self.steps) > 1:
            self._hold_back()

    async def turn(self, step: AtWork) -> None:
        """Wait until the outcome of a step may reach the code."""
        if not self.is_ordered or step.is_settled or not (step.is_noted or step.ended):
            return
        if step.is_held or (not step.is_noted and was_beside(step.outcome)):
            self._hold_back()  # what it was beside may have reached the code just now
        while self._must_wait(step):
            await self._wait(step)
        step.is_settled = True
        self._note_arrival(step)
        self._noted.pop(step.key, None)
        self._let_react(is_alone=len(self.steps) == 1 and not self.core.history.asking)
        self._announce()

    def _note_arrival(self, step: AtWork) -> None:
        if step.recorded is not None and step.ended:
            self.patience.note_arrival(step.recorded.at_us)
            self._at = max(self._at, step.ended // GAP)
            if isinstance(step.outcome, ev.Cut):
                self._place = (self._at - self.core.history.count, step.ended % GAP - 1)

    def _must_wait(self, step: AtWork) -> bool:
        if self.is_closing:
            return False
        if self._ticks:
            return True
        ended = step.ended
        if len(self.steps) > 1 or step.key not in self.steps:
            if step.is_noted and not ended:
                if self._noted and next(iter(self._noted)) != step.key:
                    return True
                if any(comes_before(other, step) for other in self.steps.values()):
                    return True
            elif any(
                0 < other.ended < ended and not other.is_settled and not is_around(other, step)
                for other in self.steps.values()
            ):
                return True
        missing = self.core.history.missing(*self._span(step))
        if missing is not None:
            self.patience.begin(missing)
        return missing is not None

    def _span(self, step: AtWork) -> tuple[int, int]:
        """Positions in the history between which a step was at work; 0 for no end."""
        if step.recorded is None:  # nothing in the log waited for its outcome
            return (0, 0) if step.is_beside and step.kind == "compute" else (0, -1)
        if was_beside(step.outcome):
            return 0, step.ended
        return step.recorded.began, step.ended

    def skip(self, key: str) -> None:
        """Wait for a recorded step no more."""
        self.core.history.skip(key)
        self._announce()

    def _let_react(self, *, is_alone: bool) -> None:
        """Hold back what comes next until the code has reacted to what reaches it now."""
        if not is_alone or self.core.history.past:
            self._hold_back()

    def _hold_back(self) -> None:
        if not self._ticks:
            self.core.loop.call_soon(self._tick)
        self._ticks = REACTION_TICKS

    def _tick(self) -> None:
        self._ticks -= 1
        if self._ticks:
            asyncio.get_running_loop().call_soon(self._tick)  # the run may be gone by now
        else:
            self._announce()

    async def _next_piece(self) -> None:
        if self._pieces is None:
            self._pieces = asyncio.Event()
        await self._pieces.wait()

    async def _wait(self, step: AtWork) -> None:
        event = self._waiting[step] = asyncio.Event()
        try:
            await event.wait()
        finally:
            self._waiting.pop(step, None)

    def _announce(self) -> None:
        """Something has changed: wake who may be next, and nobody else, so that many steps stay cheap."""
        if self._pieces is not None:
            self._pieces.set()
            self._pieces = None
        self._be_quiet()
        if not self._waiting:
            return
        if self.is_closing:
            heads = list(self._waiting)
        else:
            # Of those that wait: the first that is at work may be a race around the one that is due.
            recorded = [step for step in self._waiting if step.ended and not step.is_settled]
            heads = [min(recorded, key=lambda step: step.ended)] if recorded else []
            if (key := next(iter(self._noted), None)) in self.steps:
                heads.append(self.steps[key])
            else:
                heads += [step for step in self._waiting if step.is_noted]
        for step in heads:
            if (waiting := self._waiting.get(step)) is not None:
                waiting.set()

    def is_before_leaving(self, step: AtWork) -> bool:
        """Return whether a stream that comes to its end here is read beside one that is left before."""
        return any(
            isinstance(other.outcome, ev.Cut)
            and other.outcome.left
            and 0 < other.ended < step.ended
            and not other.is_settled
            for other in self.steps.values()
        )

    # Waits that suspend the drive

    @contextmanager
    def park_step(self, key: str, error: RunSuspended) -> Generator[None]:
        """Wait inside for what this drive does not wait for, as long as something else goes on in it.

        One wait that raised at once would look to the code like an outcome that no event holds: a TaskGroup
        would cancel what is beside it. So all waits raise together, when nothing else is at work.
        """
        self._parked[key] = error
        self._be_quiet()
        try:
            yield
        finally:
            self._parked.pop(key, None)

    async def wait_suspended(self, step: AtWork, error: RunSuspended) -> None:
        """Wait until the drive is suspended, of which one step has said so."""
        if self.is_ordered and self.core.suspended is None:
            with self.park_step(step.key, error):
                while self.core.suspended is None and not self.is_closing:
                    await self._next_piece()

    def _be_quiet(self) -> None:
        if self._parked and self.core.suspended is None and not self.is_closing:
            if not self._quiet_ticks:
                self.core.loop.call_soon(self._quiet_tick)
            self._quiet_ticks = REACTION_TICKS

    def _quiet_tick(self) -> None:
        if self._ticks or self.patience or not all(map(self._is_parked, self.steps.values())):
            self._quiet_ticks = 0  # the end of what is at work begins anew
            return
        self._quiet_ticks -= 1
        if self._quiet_ticks:
            asyncio.get_running_loop().call_soon(self._quiet_tick)
        elif self._parked and not self.is_closing and self.core.suspended is None:
            error = next(iter(self._parked.values()))
            self.core.suspend(error.status, error.reason, run_id=error.run_id)
            self._announce()

    def _is_parked(self, step: AtWork) -> bool:
        """Return True if a step waits for nothing but what is parked, or for its turn behind that."""
        if step.kind in ("", TIMEOUT) or step.key in self._parked or step in self._waiting:
            return True  # "" is made of other steps
        return any(key.startswith(f"{step.key}/") for key in self._parked)

    # Cancellation

    async def until_cancelled(self, found: Recorded) -> NoReturn:
        """Wait for the code to cancel a step as it did when it was recorded.

        Errors: `CancelledError`, when it does; `ReplayMismatch` if it does not; `Conflict` outside of the
        code that has cancelled it.
        """
        self.note_asked(found)
        outcome = found.outcome
        assert isinstance(outcome, ev.Cut)
        if not self.is_ordered:
            raise Conflict(f"step {found.key} was cancelled by the code of {self.core.run_id}")
        if outcome.raised:
            if (step := self.steps.get(found.key)) is not None:
                await self.turn(step)
            raise asyncio.CancelledError
        took_s = max(0, found.at_us - max(found.began_us, found.resumed_us)) / 1_000_000
        step = self.steps.get(found.key)
        try:
            async with asyncio.timeout(took_s + CANCEL_PATIENCE_S):
                await asyncio.Event().wait()
        except TimeoutError:
            pass
        except asyncio.CancelledError:
            is_again = False
            while step is not None and self._must_wait(step):  # it took a while to end
                try:
                    await self._wait(step)
                except asyncio.CancelledError:
                    is_again = True
            if is_again and (task := asyncio.current_task()) is not None:
                task.uncancel()  # the second cancellation is for what the code does about the first
                task.cancel()
            raise
        raise ReplayMismatch(
            f"step {found.key} of {self.core.run_id} was cancelled, and its code does not cancel it now",
            expected="a cancelled step",
            got="code that waits for it",
            hint="Run the code that recorded it.",
            section="cancelled",
            key=found.key,
        )

    async def until_left(self, found: Recorded) -> None:
        """Wait, in a replay, for the end of code that a tool step outlived. Returns if the code waits too."""
        took_s = max(0, found.left_us - max(found.began_us, found.resumed_us)) / 1_000_000
        with suppress(TimeoutError):
            async with asyncio.timeout(took_s + CANCEL_PATIENCE_S):
                await asyncio.Event().wait()

    def note_cancelled(self, step: AtWork) -> None:
        """A step was cancelled, by the code or with the drive."""
        if step.is_settled:
            return
        step.is_settled = True
        if self.is_ordered:
            self._let_react(is_alone=len(self.steps) == 1)
        core = self.core
        if isinstance(step.outcome, ev.Cut):
            self._note_arrival(step)
            return  # as it was recorded
        if not self.is_ordered or core.actor is None or step.is_effect or not step.kind:
            return
        task = asyncio.current_task()
        is_raised = not step.is_left and task is not None and not task.cancelling()
        is_timeout = any(scope.is_over for scope in scopes.get())
        self._noted.pop(step.key, None)
        since = self._since()
        nth = self.take_place(since)
        self.pending.append(_Cancelled(step, is_timeout, is_raised, task, since, nth))

    def take_place(self, since: int) -> int:
        """Return how many cancellations stand behind so many requests and outcomes, before the one of now."""
        self._place = (since, self._next_nth(since))
        return self._place[1]

    def _next_nth(self, since: int) -> int:
        return self._place[1] + 1 if self._place[0] == since else 0

    def _since(self) -> int:
        """Return how many requests and outcomes this drive had recorded before now; below 0 for those that
        were there before it. Outcomes that are recorded and have not reached the code come after now.
        """
        assert self.core.actor is not None
        history = self.core.history
        on_their_way = any(
            other.ended and not other.is_settled and other.key not in history.past
            for other in self.steps.values()
        )
        if on_their_way or history.missing(self._at * GAP, 0) is not None:
            return self._at - history.count
        return next((count - 1 for count in self._noted.values()), self.core.actor.count)

    def settle(self) -> None:
        """The code goes on: what it has cancelled has an outcome, unless the drive is being interrupted."""
        if self.pending and not self.is_breaking_off:
            self.take_down()

    @property
    def is_breaking_off(self) -> bool:
        """True if the drive ends before the code does: what is cancelled from now on has no outcome."""
        return self.is_broken_off or (not self.is_closing and self.is_interrupted())

    @property
    def is_broken_off(self) -> bool:
        """True if the drive has ended before the code did, or is at its end."""
        core = self.core
        if core.suspended is not None or core.actor is None or core.actor.failure is not None:
            return True
        return self.is_closing and not self._is_over

    @property
    def is_too_late(self) -> bool:
        """True if the code has come to its end, or the drive has: no outcome reaches the code any more."""
        return self.core.actor is None or (self.is_closing and self._is_over)

    def is_interrupted(self) -> bool:
        if self.main is not None and not self.main.done():
            return self.main.cancelling() > self.base
        tasks = [one.task for one in self.pending if one.task is not None]
        return any(not task.done() and task.cancelling() for task in tasks)

    def take_down(self) -> None:
        """Record every cancellation as the outcome of its step."""
        core, pending, self.pending = self.core, self.pending, []
        for one in pending:
            if core.actor is None:
                return
            if (request := core.held.pop(one.step.key, None)) is not None:
                self._taking_back.append(one)
                self.see_to(self._take_back(one, request))
            else:
                self._note(one)

    async def _take_back(self, one: _Cancelled, request: ev.ModelRequested) -> None:
        """Settle what is held for a call that was never made; then it is cancelled."""
        await self.core.take_back(request, one.step.key)
        self._taking_back.remove(one)
        self._note(one)

    def _note(self, one: _Cancelled) -> None:
        core, step = self.core, one.step
        if core.actor is None:
            return
        self.settle()  # what else was cancelled stands before it, and counts
        ref, blobs = step.came() if step.came is not None else (None, [])
        cls = ev.StepTimedOut if one.is_timeout else ev.StepCancelled
        if step.kind in ("wait", "approval"):
            core.lifecycle.report(RunStatus.RUNNING)
        is_known = step.kind == "compute" and step.asked is not None
        asked = max(0, one.since - (step.asked or 0) + 1) if is_known else 0
        core.actor.note(
            cls(
                key=step.key,
                kind=step.kind,
                name=step.name,
                came=ref,
                cost=step.cost,
                left=step.is_left,
                raised=one.is_raised,
                late=core.actor.count - one.since,
                nth=one.nth,
                asked=asked,
                asked_nth=step.asked_nth + 1 if asked else 0,
            ),
            blobs,
        )

    def see_to(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something beside the code, before the drive ends."""
        task = asyncio.ensure_future(work)
        self.closing.add(task)
        task.add_done_callback(self.closing.discard)

    async def close(self, *, is_over: bool) -> None:
        """End what is still at work when the code has ended. `is_over` tells that it came to an end of its
        own; else the drive was interrupted, and what it cancels is asked for again."""
        self.is_closing, self._is_over = True, is_over
        self._announce()
        for reading in tuple(self.readings):
            if not reading.is_busy:
                await reading.close()
        if self.is_ordered:
            here = asyncio.current_task()
            for step in tuple(self.steps.values()):
                if step.task is not None and step.task is not here and not step.is_effect:
                    step.task.cancel()
            while any(
                step.task is not here
                and not step.is_effect
                and step.task is not None
                and not step.task.done()
                for step in self.steps.values()
            ):
                await self._next_piece()
        if not self.is_breaking_off:
            self.take_down()
        self.pending = []
        while self.closing:
            await asyncio.wait(tuple(self.closing))
        self.patience.close()


class at_step:
    """A step of the current task: its outcome reaches the code in its turn, and its end is taken down.

    `kind` is empty for what has no outcome when it is cancelled. Errors: those of `Keys.take`.
    """

    __slots__ = ("_core", "_key", "_kind", "_parent", "_step")

    def __init__(self, core: SteppingRun, key: str | None, kind: str) -> None:
        self._core, self._key, self._kind = core, key, kind

    async def __aenter__(self) -> AtWork:
        core = self._core
        self._parent, full = core.begin(self._key)
        try:
            self._step = core.delivery.begin(full, self._kind)
        except BaseException:
            core.end(self._parent)
            raise
        return self._step

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        delivery, step = self._core.delivery, self._step
        try:
            if error is None:
                await (delivery.effects.turn if step.is_effect else delivery.turn)(step)
            elif isinstance(error, Exception):
                if isinstance(error, RunSuspended):
                    await delivery.wait_suspended(step, error)
                await delivery.turn(step)
                note_step(error, delivery.core.run_id, step)
            elif isinstance(error, asyncio.CancelledError):
                delivery.note_cancelled(step)
        except asyncio.CancelledError:
            delivery.note_cancelled(step)
            raise
        finally:
            delivery.end(step)
            self._core.end(self._parent)
