"""Questions of runs as interrupts of AG-UI, and the `resume` of a request as answers to them.

Chats, agents and missions end a request with the same interrupts, and take answers through this one door,
which gives them to the command that every other answer goes through. Calls of a client's own tools are none
of them: see `client_answers.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from ag_ui import core as agui
from pydantic import AliasChoices, BaseModel, ConfigDict, Field, ValidationError

from artelier.app import TenantKernel
from artelier.errors import Conflict, InvalidRequest, NotFound
from artelier.kernel import run_row
from artelier.kernel.queries.reports import OpenQuestion, approvals
from artelier.kernel.queries.runs import asked_below
from artelier.kernel.queries.steps import step_of
from artelier.kernel.run.context import is_final
from artelier.kernel.tenants.registry import TenantScope
from artelier.tools.client_tool import client_call

RESUMES_MAX = 100
"""Answers in one request."""
ID_CHARS_MAX = 1_600
ANSWER_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "approved": {"type": "boolean"},
        "arguments": {"description": "The answer, or other arguments than asked for."},
        "note": {"type": "string"},
    },
    "required": ["approved"],
}
"""The schema of the payload that answers an interrupt."""
_CANCELLED = "The client cancelled the question."


class QuestionAnswer(BaseModel):
    """The payload of a resume that is `resolved`."""

    model_config = ConfigDict(extra="forbid")

    approved: bool
    arguments: Any = Field(default=None, validation_alias=AliasChoices("arguments", "editedArgs"))
    note: str = Field(default="", max_length=10_000)


async def runs_of(desk: TenantScope, run_id: str) -> list[str]:
    """Return a run, and those below it that ask somebody."""
    below = await asked_below(desk.services.store, desk.id, run_id)
    return list(dict.fromkeys([run_id, *(run for run, _ in below)]))


async def open_interrupts(desk: TenantScope, run_id: str) -> list[agui.Interrupt]:
    """Return the questions to people that a run and those below it wait for."""
    return [
        _interrupt_of(one)
        for run in await runs_of(desk, run_id)
        for one in await approvals(desk.services, desk.id, run_id=run)
        if not client_call(one["details"])
    ]


def _interrupt_of(asked: OpenQuestion) -> agui.Interrupt:
    expires_us = asked["expires_us"]
    return agui.Interrupt(
        id=f"{asked['run_id']}#{asked['step']}",
        reason="waiting_approval",
        message=asked["question"],
        response_schema=ANSWER_SCHEMA,
        expires_at=None if expires_us is None else datetime.fromtimestamp(expires_us / 1e6, UTC).isoformat(),
        metadata={"run_id": asked["run_id"], "step": asked["step"], "details": asked["details"]},
    )


def status_interrupt(run_id: str, status: str, reason: str = "") -> agui.Interrupt:
    """Return the interrupt of a run that waits for no answer, such as a paused one: its id is the run's."""
    return agui.Interrupt(id=run_id, reason=status, message=reason or None)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumeAnswer:
    """One entry of `resume`, that fits what is open."""

    run_id: str
    step: str
    """Empty: it is about the run itself."""
    is_cancelled: bool
    is_paused: bool
    answer: QuestionAnswer

    async def record(self, desk: TenantKernel, *, by: str) -> None:
        """Give it to its run, as `POST /runs/{id}/approve` does. Errors: `NotFound`, `Conflict`."""
        if self.step:
            given = self.answer
            await desk.approve(
                self.run_id,
                self.step,
                deny=self.is_cancelled or not given.approved,
                arguments=given.arguments,
                note=_CANCELLED if self.is_cancelled else given.note,
                by=by,
            )
        elif self.is_cancelled:
            await desk.cancel(self.run_id, by=by, note=_CANCELLED)
        elif self.is_paused:
            await desk.resume(self.run_id, by=by)


async def read_resume(
    desk: TenantKernel, entries: Sequence[agui.ResumeEntry], *, thread: str
) -> list[ResumeAnswer]:
    """Return the answers of a request to a thread whose runs are `thread` and below; nothing is recorded.

    Errors: `InvalidRequest`; `NotFound` for what nobody asked; `Conflict` for what is answered, expired or
    over.
    """
    if len(entries) > RESUMES_MAX:
        raise InvalidRequest("resume", expected=f"at most {RESUMES_MAX} answers", got=len(entries))
    if len({one.interrupt_id for one in entries}) < len(entries):
        raise InvalidRequest("resume answers one interrupt twice", expected="one entry for each")
    return [await _read_entry(desk, one, thread) for one in entries]


async def _read_entry(desk: TenantKernel, entry: agui.ResumeEntry, thread: str) -> ResumeAnswer:
    run_id, mark, step = entry.interrupt_id.partition("#")
    is_ours = run_id == thread or run_id.startswith(f"{thread}/")
    if not is_ours or bool(mark) != bool(step) or len(entry.interrupt_id) > ID_CHARS_MAX:
        raise InvalidRequest(
            "resume answers no interrupt of this thread",
            expected="interruptId as RUN_FINISHED gave it",
            got=repr(entry.interrupt_id)[:80],
        )
    is_cancelled = entry.status == "cancelled"
    answer = QuestionAnswer(approved=False) if is_cancelled or not step else _read_payload(entry)
    row = await run_row(desk.services.store, desk.id, run_id)
    if not step:
        if is_final(row.status):
            raise Conflict(f"the run of this interrupt has ended: it is {row.status}", run=run_id)
    else:
        await _check_open(desk, run_id, step, is_cancelled=is_cancelled)
    return ResumeAnswer(
        run_id=run_id, step=step, is_cancelled=is_cancelled, is_paused=row.status == "paused", answer=answer
    )


async def _check_open(desk: TenantKernel, run_id: str, step: str, *, is_cancelled: bool) -> None:
    asked = next((one for one in await desk.approvals(run_id) if one["step"] == step), None)
    if asked is None:
        row = await step_of(desk.services.store, desk.id, run_id, step)
        if row is None or row.kind != "approval":
            raise NotFound("no such interrupt was ever open", got=f"{run_id}#{step}"[:200])
        raise Conflict(
            "this interrupt is answered already",
            run=run_id,
            hint=f"Send no resume for it; GET /api/v1/agui?run_id={run_id} follows its run.",
        )
    if client_call(asked["details"]):
        raise InvalidRequest(
            "this is a call of a client's tool", expected="a tool message with its result, not a resume"
        )
    expires_us = asked["expires_us"]
    if expires_us is not None and expires_us <= desk.services.clock.now_us() and not is_cancelled:
        raise Conflict("this interrupt has expired", run=run_id, hint="Cancel it to go on with the thread.")


def _read_payload(entry: agui.ResumeEntry) -> QuestionAnswer:
    """Return what a payload answers; nobody approves by saying nothing. Errors: `InvalidRequest`."""
    payload = entry.payload
    if isinstance(payload, bool):
        return QuestionAnswer(approved=payload)
    try:
        return QuestionAnswer.model_validate(payload)
    except ValidationError as error:
        found = error.errors(include_input=False, include_url=False)[:5]
        named = "; ".join(f"{'.'.join(str(step)[:80] for step in one['loc'])}: {one['msg']}" for one in found)
        raise InvalidRequest(
            f"the payload of a resume: {named[:500]}",
            expected='{"approved": true or false, "arguments": ..., "note": "..."}',
        ) from None
