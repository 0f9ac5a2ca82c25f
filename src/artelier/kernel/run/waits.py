"""Waiting that survives the process: for a person, for a time, for a signal."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any, cast

from artelier.errors import InvalidRequest, RunSuspended
from artelier.kernel import events as ev
from artelier.kernel.history.step_history import Recorded
from artelier.kernel.queries.steps import is_waiting
from artelier.kernel.run.context import RunCore
from artelier.kernel.run.results import Approval


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
        return await _approval_of(core, recorded.outcome, recorded.actor, recorded.at_us)
    await core.boundary()
    expires_us: int | None = None
    core.status = "waiting_approval"
    if recorded is None or recorded.inherited:  # nobody can answer a fork's question at its origin
        if expires_s is not None:
            expires_us = core.clock.now_us() + microseconds(expires_s)
        ref, blobs = core.keep_json(asked)
        requested = ev.ApprovalRequested(
            key=key, question=ref, expires_us=expires_us, before_acting=before_acting
        )
        recorded = Recorded(key=key, kind="approval", request=requested)
        if before is not None:  # the origin's answer is none here: what came after it waits for it no more
            recorded.began = before.began
            core.delivery.note_asked(recorded)
        if by_tool:
            core.questions[key] = recorded  # asked even if this wait is cut short
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
        waits_for = RunSuspended(core.run_id, status="waiting_approval", reason=key)
        await _wait(core, waits_for, key=key, since=since, until_us=expires_us)
        since = core.turn
    core.status = "running"
    recorded.outcome, recorded.actor, recorded.at_us = core.answers.pop(key)
    return await _approval_of(core, recorded.outcome, recorded.actor, recorded.at_us)


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
    if exact or core.replay != "allow_prompt_drift":
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
    )


async def wait(core: RunCore, *, key: str, name: str = "", seconds: float | None = None) -> tuple[str, Any]:
    """Wait for time, for a signal called `name`, or for whichever comes first: `(outcome, data)`."""
    recorded = await core.find_recorded(key, "wait")
    request = recorded.request if recorded is not None else None
    if isinstance(request, ev.WaitStarted) and request.name != name:
        raise core.mismatch(key, "name", expected=request.name or "a sleep", got=name or "a sleep")
    if recorded is not None and isinstance(recorded.outcome, ev.WaitEnded):
        return recorded.outcome.outcome, await core.told_json(recorded.outcome.data)
    is_shown = recorded is not None and not recorded.inherited and await _is_shown(core, key)
    await core.boundary()
    core.status = "waiting"
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
    since = core.turn
    while (ended := _find_end(core, started)) is None:
        waits_for = RunSuspended(core.run_id, status="waiting", reason=name or "timer")
        await _wait(core, waits_for, key=key, since=since, until_us=started.until_us)
        since = core.turn
    await core.writer.commit(ended)
    core.status = "running"
    return ended.outcome, await core.told_json(ended.data)


async def _is_shown(core: RunCore, key: str) -> bool:
    return await is_waiting(core.store, core.row_id, key)


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
