"""Waiting that survives the process: for a person, a time, a signal, or the first of several steps."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from types import TracebackType
from typing import Any, Self, cast

import msgspec

from artelier.errors import Flow, InvalidRequest, RunSuspended
from artelier.kernel import events as ev
from artelier.kernel.history.step_history import FIRST, TIMEOUT, Recorded
from artelier.kernel.queries.steps import is_waiting
from artelier.kernel.run.context import RunCore
from artelier.kernel.run.delivery import at_step
from artelier.kernel.run.pending_steps import AtWork, ask_apart, scopes
from artelier.kernel.run.status import Approval, RunStatus
from artelier.kernel.steps.failures import BREAKING_OFF
from artelier.ports.media import ATTACHMENTS, stored_media


async def approve(
    core: RunCore,
    question: str,
    details: Mapping[str, Any] | None,
    *,
    key: str,
    expires_s: float | None = None,
    exact: bool = False,
    by_tool: bool = False,
    before_acting: bool = False,
) -> Approval:
    """Wait for the answer to one question. `key` is the full step key.

    `exact`: an answer holds for this very question, whatever the replay policy allows. `by_tool`: a tool
    asks, and asks again when it is tried again; one answer is enough. `before_acting`: that tool says that
    it has done nothing yet.
    Errors: `ReplayMismatch` if another question was recorded under the key.
    """
    asked = {"question": question, "details": dict(details or {})}
    recorded = core.questions.get(key) if by_tool else None
    if recorded is None:
        recorded = await core.find_recorded(key, "approval")
    before = recorded
    if recorded is not None:
        if by_tool:
            core.questions[key] = recorded
        recorded = _same_question(core, recorded, core.ref_of(asked), exact=exact)
    if recorded is not None and isinstance(recorded.outcome, ev.ApprovalGiven):
        await _until_heard_together(core, key)
        await _hear(core, key)
        core.answers.pop(key, None)
        return await _approval_of(core, recorded.outcome, recorded.actor, recorded.at_us)
    await core.boundary()
    expires_us: int | None = None
    core.lifecycle.report(RunStatus.WAITING_APPROVAL)
    if recorded is None or recorded.inherited:  # nobody can answer a fork's question at its origin
        if expires_s is not None:
            expires_us = core.clock.now_us() + microseconds(expires_s)
        ref, blobs = core.keep_json(asked)
        told = dict.fromkeys(("before_acting", "tells_hearing"), before_acting)
        requested = ev.ApprovalRequested(key=key, question=ref, expires_us=expires_us, **told)
        recorded = Recorded(key=key, kind="approval", request=requested)
        if before is not None:  # the origin's answer is none here: what came after it waits for it no more
            recorded.began = before.began
            core.delivery.note_asked(recorded)
        if by_tool:
            core.questions[key] = recorded  # asked even if this wait is cut short
        core.history.questions.fold(requested)
        await core.writer.commit(requested, blobs=blobs)
    else:
        expires_us = cast(ev.ApprovalRequested, recorded.request).expires_us
    core.nudge()
    since = core.turn
    while key not in core.answers:
        timed_out = expires_us is not None and core.clock.now_us() >= expires_us
        if timed_out and key not in core.deciding:  # else an answer is being recorded right now
            core.deciding.add(key)
            expired = ev.ApprovalGiven(key=key, decision="expired")
            await core.writer.commit(expired)
            core.answers[key] = (expired, core.writer.name, core.clock.now_us())
            break
        waits_for = RunSuspended(core.run_id, status=RunStatus.WAITING_APPROVAL.value, reason=key)
        await _wait(core, waits_for, key=key, since=since, until_us=expires_us)
        since = core.turn
    await _hear(core, key)
    core.lifecycle.report(RunStatus.RUNNING)
    core.announce()  # to those that wait for it beside
    recorded.outcome, recorded.actor, recorded.at_us = core.answers.pop(key)
    return await _approval_of(core, recorded.outcome, recorded.actor, recorded.at_us)


async def _hear(core: RunCore, key: str) -> None:
    """Note that an answer reaches who has asked. Errors: `RunSuspended` if the log says that it does not, as
    the drive has ended: the next one tells it.
    """
    if core.history.questions.needs_hearing(key):
        await core.writer.commit(ev.ApprovalHeard(key=key))
    if key in core.unheard:
        raise RunSuspended(core.run_id, status=RunStatus.WAITING_APPROVAL.value, reason=key)
    core.history.questions.hear(key)


async def _until_heard_together(core: RunCore, key: str) -> None:
    """Wait until a call hears the answers to all that it had asked beside this question (see `open_beside`).

    Errors: those of `_wait`.
    """
    while beside := core.history.questions.open_beside(key):
        since = core.turn
        core.lifecycle.report(RunStatus.WAITING_APPROVAL)
        waits_for = RunSuspended(core.run_id, status=RunStatus.WAITING_APPROVAL.value, reason=beside[0])
        await _wait(core, waits_for, key=key, since=since, until_us=None)


WAIT_S_MAX = 100 * 366 * 86_400
"""A hundred years."""


def microseconds(seconds: object) -> int:
    """Errors: `InvalidRequest` for what is no length of time."""
    number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    if not number or not 0 <= cast(float, seconds) <= WAIT_S_MAX:
        raise InvalidRequest(
            "not a time to wait", expected="a number of seconds from 0 to 100 years", got=repr(seconds)[:80]
        )
    return int(cast(float, seconds) * 1_000_000)


def _same_question(core: RunCore, recorded: Recorded, question: str, *, exact: bool) -> Recorded | None:
    """The recorded question if it is the one that is asked now; None if a fork must ask anew."""
    request = recorded.request
    if not isinstance(request, ev.ApprovalRequested) or request.question == question:
        return recorded
    if recorded.inherited:
        return None
    if exact or recorded.must_match(core.replay):
        raise core.mismatch(recorded.key, "question")
    if core.actor is not None:
        core.actor.note(ev.PromptDrifted(key=recorded.key, section="question"))
    return recorded


async def _approval_of(core: RunCore, answer: ev.ApprovalGiven, by: str, at_us: int) -> Approval:
    content: dict[str, Any] = await core.told_json(answer.answer) or {}
    return Approval(
        decision=cast(Any, answer.decision),
        arguments=content.get("arguments"),
        by=by,
        at=at_us,
        note=content.get("note", ""),
        media=stored_media(content.get(ATTACHMENTS, ())),
    )


async def wait(
    core: RunCore, *, key: str, name: str = "", seconds: float | None = None
) -> tuple[str, object]:
    """Wait for time, for a signal called `name`, or for whichever comes first: `(outcome, data)`."""
    recorded = await core.find_recorded(key, "wait")
    request = recorded.request if recorded is not None else None
    if isinstance(request, ev.WaitStarted) and request.name != name:
        raise core.mismatch(key, "name", expected=request.name or "a sleep", got=name or "a sleep")
    if recorded is not None and isinstance(recorded.outcome, ev.WaitEnded):
        return recorded.outcome.outcome, await core.told_json(recorded.outcome.data)
    is_shown = (
        recorded is not None and not recorded.inherited and await is_waiting(core.store, core.row_id, key)
    )
    await core.boundary()
    core.lifecycle.report(RunStatus.WAITING)
    if recorded is None:
        until_us = None if seconds is None else core.clock.now_us() + microseconds(seconds)
        started = ev.WaitStarted(key=key, name=name, until_us=until_us)
        await core.writer.commit(started)
    else:
        started = cast(ev.WaitStarted, recorded.request)
        # A run that failed waits for nothing any more; reopened, it says again what it waits for.
        if not is_shown:
            await core.writer.commit(started)
    core.nudge()
    if name:
        core.awaited_signals.add(name)
    since = core.turn
    while (ended := _find_end(core, started)) is None:
        waits_for = RunSuspended(core.run_id, status=RunStatus.WAITING.value, reason=name or "timer")
        await _wait(core, waits_for, key=key, since=since, until_us=started.until_us)
        since = core.turn
    core.awaited_signals.discard(name)
    await core.writer.commit(ended)
    core.lifecycle.report(RunStatus.RUNNING)
    return ended.outcome, await core.told_json(ended.data)


def _find_end(core: RunCore, started: ev.WaitStarted) -> ev.WaitEnded | None:
    """Return how the wait has ended, if it has; takes the oldest signal of its name."""
    if started.name:
        for index, (seq, name, data) in enumerate(core.signals):
            if name == started.name:
                del core.signals[index]
                return ev.WaitEnded(key=started.key, outcome="signalled", signal=seq, data=data)
    if started.until_us is not None and core.clock.now_us() >= started.until_us:
        return ev.WaitEnded(key=started.key, outcome="timeout" if started.name else "elapsed")
    return None


async def _wait(
    core: RunCore, waits_for: RunSuspended, *, key: str, since: int, until_us: int | None
) -> None:
    """Until something changed or a time has come. Errors: `waits_for`, if asked not to wait here."""
    await core.boundary()
    suspends = core.on_wait == "suspend"
    if suspends:
        await core.writer.commit()
        if not core.delivery.is_ordered:
            raise waits_for
    times = [time for time in (until_us, core.deadline_us) if time is not None]
    left_s = max(0.0, (min(times) - core.clock.now_us()) / 1_000_000) if times else None
    with core.delivery.park_step(key, waits_for) if suspends else nullcontext():
        await core.wait_change(left_s, since=since)


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
                until_us, began = await ask_apart(core, step, lambda key: self._begin(step, key))
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

    async def _begin(self, step: AtWork, key: str) -> tuple[int, int]:
        """Return when the time is up, and the position of the beginning in the history."""
        core = self._core
        step.name = TIMEOUT
        recorded = await core.find_recorded(key, "compute")
        if recorded is not None and recorded.is_past:
            raise core.mismatch(key, "time", expected="a time that has passed", got="one that begins")
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
                # What cancels the task may be a plain timer around this one, so that the code goes on. If it
                # is an interruption, the time is up on resume too.
                if not delivery.is_broken_off:
                    nth = delivery.take_place(core.actor.count)
                    core.actor.note(ev.StepTimedOut(key=scope.key, kind=TIMEOUT, nth=nth))
            self.is_over = True
            assert self._task is not None
            self._task.cancel()
        finally:
            delivery.end(scope)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        watch, self._watch = self._watch, None  # else its cancellation and this would hold each other
        assert watch is not None and self._task is not None
        watch.cancel()
        scopes.reset(self._token)
        if self.is_over:
            left = self._task.uncancel()
            if left <= self._cancelling and isinstance(error, asyncio.CancelledError):
                raise TimeoutError(f"not done within {self._seconds} s") from error


async def first_of(
    core: RunCore, tasks: Callable[[str], Sequence[asyncio.Task[Any]]], *, key: str | None
) -> tuple[int, object]:
    """Index and result of the work that ends first; the rest is cancelled, and its end waited for.

    `tasks` makes the tasks under a parent key. Which one it was is recorded, see `_decide_winner`. Errors:
    that of the first; `RunSuspended` as long as nobody knows what a side effect of the rest did.
    """
    async with at_step(core, key, "") as step:
        recorded, winner = await ask_apart(core, step, lambda key: _recorded_winner(core, key))
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


async def _recorded_winner(core: RunCore, key: str) -> tuple[Recorded | None, int | None]:
    recorded = await core.find_recorded(key, "compute")
    if recorded is None or not isinstance(recorded.outcome, ev.StepCompleted):
        return recorded, None
    if recorded.outcome.name != FIRST:
        raise core.mismatch(key, "name", expected=recorded.outcome.name, got=FIRST)
    return recorded, await core.load_json(recorded.outcome.result)


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
