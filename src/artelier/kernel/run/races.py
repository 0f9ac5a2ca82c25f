"""Durable forms of what asyncio does by the clock: a timeout, and the first of several pieces of work."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, Self

import msgspec

from artelier.errors import Flow, RunSuspended
from artelier.kernel import events as ev
from artelier.kernel.history.step_history import FIRST, TIMEOUT, Recorded
from artelier.kernel.run.context import RunCore
from artelier.kernel.run.delivery import at_step
from artelier.kernel.run.pending_steps import AtWork, scopes
from artelier.kernel.run.waits import microseconds
from artelier.kernel.steps.failures import BREAKING_OFF


class RunTimeout:
    """`async with run.timeout(seconds):` bounds what the code does inside.

    The time is that of the log: after a restart only what is left of it. Whether it was up, and before which
    outcome, is recorded, and a replay raises at the same place.
    """

    def __init__(
        self,
        core: RunCore,
        seconds: float,
        *,
        key: str | None,
        branch: Callable[[], AbstractContextManager[None]],
    ) -> None:
        microseconds(seconds)
        self._core = core
        self._seconds = seconds
        self._key = key
        self._branch = branch
        self._end = ""
        """Key of the event that says that the time was up."""
        self._task: asyncio.Task[Any] | None = None
        self._cancelling = 0
        self._watch: asyncio.Task[None] | None = None
        self._token: Any = None
        self.is_over = False

    async def __aenter__(self) -> Self:
        core = self._core
        with self._branch():
            async with at_step(core, self._key, "compute") as step:
                until_us, began = await self._begin(step)
                self._end = f"{step.key}.{TIMEOUT}"
        found = None
        if not core.history.at_end and await core.history.knows(self._end):
            found = await core.history.find(self._end)
        self._task = asyncio.current_task()
        assert self._task is not None
        self._cancelling = self._task.cancelling()
        self._token = scopes.set((*scopes.get(), self))
        scope = AtWork(key=self._end, kind=TIMEOUT)
        scope.recorded = found or Recorded(key=self._end, kind=TIMEOUT, began=began)
        if found is not None:
            found.began = began
        self._watch = asyncio.ensure_future(self._watch_deadline(scope, until_us))
        return self

    async def _begin(self, step: AtWork) -> tuple[int, int]:
        """Return when the time is up, and the position of the beginning in the history."""
        core, key = self._core, step.key
        step.name = TIMEOUT
        recorded = await core.find_recorded(key, "compute")
        if recorded is not None and isinstance(recorded.outcome, ev.StepCompleted):
            if recorded.outcome.name != TIMEOUT:
                raise core.mismatch(key, "name", expected=recorded.outcome.name, got=TIMEOUT)
            return (await core.load_json(recorded.outcome.result))["until_us"], recorded.ended
        await core.boundary()
        until_us = core.clock.now_us() + microseconds(self._seconds)
        ref, blobs = core.keep_json({"until_us": until_us})
        beside = core.delivery.is_beside(key)
        core.writer.note(ev.StepCompleted(key=key, name=TIMEOUT, result=ref, beside=beside), blobs)
        return until_us, 0

    async def _watch_deadline(self, scope: AtWork, until_us: int) -> None:
        core, delivery = self._core, self._core.delivery
        delivery.add(scope)
        scope.task = None  # the code does not wait for it
        try:
            if scope.ended:
                await delivery.turn(scope)
            else:
                while (left_us := until_us - core.clock.now_us()) > 0:
                    await core.clock.sleep(left_us / 1_000_000)
                scope.is_noted = True
                await delivery.turn(scope)
                if core.actor is None:
                    return
                if not delivery.is_breaking_off:  # else the time is up again on resume
                    core.actor.note(ev.StepTimedOut(key=scope.key, kind=TIMEOUT))
            self.is_over = True
            assert self._task is not None
            self._task.cancel()
        finally:
            delivery.end(scope)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._watch is not None and self._task is not None
        self._watch.cancel()
        scopes.reset(self._token)
        if self.is_over:
            left = self._task.uncancel()
            if left <= self._cancelling and isinstance(error, asyncio.CancelledError):
                raise TimeoutError(f"not done within {self._seconds} s") from error


async def first_of(
    core: RunCore, tasks: Callable[[str], Sequence[asyncio.Task[Any]]], *, key: str | None
) -> tuple[int, Any]:
    """Index and result of the work that ends first; the rest is cancelled, and its end waited for.

    `tasks` makes the tasks under a parent key. Which one it was is recorded, see `_decide_winner`. Errors:
    that of the first; `RunSuspended` as long as nobody knows what a side effect of the rest did.
    """
    async with at_step(core, key, "") as step:
        recorded = await core.find_recorded(step.key, "compute")
        winner: int | None = None
        if recorded is not None and isinstance(recorded.outcome, ev.StepCompleted):
            if recorded.outcome.name != FIRST:
                raise core.mismatch(step.key, "name", expected=recorded.outcome.name, got=FIRST)
            winner = await core.load_json(recorded.outcome.result)
        work = tasks(step.key)
        try:
            if winner is None:
                winner = await _winner(core, work)
            else:
                await asyncio.wait((work[winner],))
        finally:
            for task in work:
                task.cancel()
            await asyncio.gather(*work, return_exceptions=True)
        if recorded is None:
            winner = _decide_winner(core, work, winner)
            ref, blob = core.keep(msgspec.json.encode(winner))
            beside = core.delivery.is_beside(step.key)
            first = ev.StepCompleted(key=step.key, name=FIRST, result=ref, beside=beside)
            core.writer.note(first, [blob])
        return winner, work[winner].result()


async def _winner(core: RunCore, work: Sequence[asyncio.Task[Any]]) -> int:
    """Index of the work that ends first, with a result or an error of its own.

    Work that is suspended has not ended: the rest goes on without it.
    Errors: what breaks the drive off; the suspension, if all of it is suspended.
    """
    left = set(work)
    while left:
        done, left = await asyncio.wait(left, return_when=asyncio.FIRST_COMPLETED)
        errors = [None if task.cancelled() else task.exception() for task in work if task in done]
        for error in errors:
            if error is not None and not isinstance(error, RunSuspended):
                if isinstance(error, BREAKING_OFF) or error is core.writer.failure:
                    raise error
        for index, task in enumerate(work):
            if task in done and (task.cancelled() or not isinstance(task.exception(), Flow)):
                return index
    return work[0].result()


def _decide_winner(core: RunCore, work: Sequence[asyncio.Task[Any]], winner: int) -> int:
    """Return the index of the work whose result the code gets, when all of it has ended.

    That is the winner, unless it has done nothing outside and another was given, in spite of its
    cancellation, what its side effect did: code that does not hear of that might act in another way as well.
    Errors: `RunSuspended` while it is unknown what a side effect did. Nothing is recorded then: the race is
    decided when it is known.
    """
    if core.suspended is not None and core.suspended.status == "unknown_outcome":
        raise core.suspended
    effects = core.delivery.effects
    through = [n for n, task in enumerate(work) if n != winner and effects.came_through(task)]
    return through[0] if through and work[winner] not in effects.acted else winner
