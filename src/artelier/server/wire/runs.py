"""Runs, their steps, prompts and questions."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, Field

from artelier.kernel.history.comparison import HistoryPlace, RunComparison, RunTotals, SharedHistory
from artelier.kernel.prompt.part_records import DroppedRecord
from artelier.kernel.queries.reports import StepCost, StepReport, TokenUse, UnsettledCall
from artelier.kernel.run.services import Services
from artelier.ports.model import Sending
from artelier.server.wire.base import RequestBody, ResponseBody, ResponseModel, describe_record


@describe_record(TokenUse)
class UsageOut(ResponseBody):
    """Tokens of models."""

    input_tokens: int = Field(description="Includes those from the cache.")


class RunOut(ResponseBody):
    """One durable execution."""

    id: str
    tenant: str
    status: str = Field(
        description="pending, running, paused, waiting, waiting_approval, unknown_outcome,"
        " budget_exhausted; final: completed, failed, cancelled."
    )
    reason: str | None
    loop: str | None = Field(description="The built-in loop that drives it; empty for other code.")
    agent: str | None
    model: str | None
    parent: str | None
    origin: str | None = Field(description="The run that this one was forked from.")
    origin_seq: int | None
    steps: int
    usage: UsageOut
    cost_microusd: int = Field(description="Without its children.")
    total_cost_microusd: int | None = Field(default=None, description="With its descendants.")
    started_us: int | None
    ended_us: int | None
    status_us: int | None = Field(default=None, description="When it came to its status.")


class ApprovalOut(ResponseBody):
    """A question that a run asks people, and waits for."""

    run_id: str
    step: str
    question: Any = None
    details: Any = None
    expires_us: int | None


@describe_record(UnsettledCall)
class UnknownCall(ResponseBody):
    """A side effect of which nobody knows what it did, and what a person needs to settle it."""

    arguments: Any = None
    probe_error: str | None = Field(description="Why the tool's probe could not tell, if it said so.")


class RateWait(BaseModel):
    """A call waits until a provider may be asked again."""

    rate: str = Field(description="Such as `provider/openai` or `tenant:acme/openai:gpt-5*`.")
    until_us: int = Field(description="At the earliest.")


class RunShown(RunOut):
    """A run with its goal and result, and what it waits for."""

    goal: Any = None
    result: Any = None
    message: Any = Field(default=None, description="Why it failed, in words.")
    effects: Literal["recorded", "stub", "live"] | None = Field(
        default=None, description="Of a fork: what it and the runs below it do outside."
    )
    changes: Any = Field(
        default=None, description="Of a fork: what it changes, such as a model or a ref by ref."
    )
    root: str = Field(description="The run at the top of its tree: the one to resume.")
    approvals: list[ApprovalOut]
    waits_for: list[ApprovalOut] = Field(description="Open questions of its descendants.")
    rate_wait: RateWait | None = Field(description="The rate that a call of it waits for.")
    unknown_outcomes: list[str] = Field(description="Steps to reconcile.")
    unknown_calls: list[UnknownCall] = Field(description="The same, with what is known of them.")


class RunPage(BaseModel):
    """Runs in the order in which they were started."""

    items: list[RunOut]
    next: int | None


class RunTree(RunOut):
    """A run with its children."""

    children: list[RunTree]


@describe_record(StepReport)
class Step(BaseModel):
    """One journaled operation of a run."""

    requested_seq: int | None
    error: str | None = Field(description="Of a failed undoing: why what it was to undo still stands.")


class StepPage(BaseModel):
    """Steps of a run, in the order in which they were asked for."""

    items: list[Step]
    next: int | None = Field(description="Pass it as `after` to get the steps that follow.")
    earlier: int | None = Field(description="Of a page of the last: pass it as `before`.")


class CallAtWorkOut(ResponseModel):
    """A model call that this process has made, and that has not ended."""

    key: str
    attempt: int = Field(description="From 1.")
    elapsed_s: float | None = Field(
        description="Since the attempt was made; null if its adapter does not say."
    )
    silent_s: float | None = Field(
        description="Since the provider was last heard of, which streams its answer."
    )
    first_piece_s: float | None = Field(description="From the attempt to the first piece of its answer.")
    output_tokens: int = Field(description="About how many have come, reasoning and arguments of calls too.")
    retry_in_s: float | None = Field(description="Until the next attempt, while the call waits for one.")


class CallList(BaseModel):
    items: list[CallAtWorkOut]
    next: None = None


class ApprovalList(BaseModel):
    items: list[ApprovalOut]
    next: None = None


@describe_record(StepCost)
class StepCostOut(ResponseBody):
    """The cost of one model step."""


class Cost(ResponseBody):
    """The cost of a run: its own, the amount held, and the total with its descendants."""

    run_id: str
    cost_microusd: int
    total_cost_microusd: int
    held_microusd: int
    usage: UsageOut
    steps: list[StepCostOut]


class SectionOut(ResponseModel):
    """One part of a prompt."""

    tag: str
    tokens: int = Field(description="Estimate.")
    source: list[str] = Field(description="Refs and steps that it was made of.")
    reason: str = Field(description="Why it stands where it does.")
    stability: str
    trust: str
    cut: str = Field(description="How it was shortened to fit; empty if it was not.")
    is_cached: bool = Field(description="Whether it stands before the cache boundary.")
    first_message: int | None = Field(description="Its first message in the prompt, from 0.")
    messages: int = Field(description="How many messages it gave; 0 if it added text to another's.")


@describe_record(DroppedRecord)
class Dropped(ResponseModel):
    """A part that was left out."""


class ManifestOut(ResponseModel):
    """The parts of a prompt."""

    run_id: str
    step: str
    model: str
    params: dict[str, Any]
    has_tools: bool
    tokens: int = Field(description="Of all sections; an estimate.")
    cache_boundary: int = Field(description="How many leading sections stay the same.")
    sections: list[SectionOut]
    dropped: list[Dropped]
    scrubbed: dict[str, int] = Field(description="Personal data that was replaced, by sort.")
    inclusion_prices: list[str]
    request: str = Field(description="Keyed hash of the exact request.")
    adapter: str = Field(description="What sent it, with its version; empty if it does not say.")
    body: str = Field(description="Keyed hash of the HTTP body; empty if none was sent.")
    not_sent: list[str] = Field(description="Parameters that the body does not hold.")


class PartChange(BaseModel):
    tag: str
    change: str


class PromptDiff(BaseModel):
    """The differences between two prompts of a run, and the change that ended the cached prefix."""

    a: str
    b: str
    shared_tokens: int
    previous_tokens: int
    broken_by: str | None
    why: str
    parts: list[PartChange]
    diff: str = Field(description="A unified diff of both requests as text.")


@describe_record(HistoryPlace)
class RunPlace(BaseModel):
    """An event of a run."""


@describe_record(SharedHistory)
class SharedHistoryOut(ResponseModel):
    """The history that two runs share by reference."""


class DivergenceOut(ResponseModel):
    """The point where two runs part."""

    key: str | None = Field(description="Of the step; null if only their ends differ.")
    kind: str
    what: str = Field(
        description="missing, kind, model, tool, request, arguments, outcome, reply, result, status, reason"
    )
    section: str | None = Field(description="Part of the prompt that differs.")
    a: Any = Field(description="What the first run has there, shortened.")
    b: Any
    at_a: RunPlace | None
    at_b: RunPlace | None


@describe_record(RunTotals)
class RunTotalsOut(ResponseBody):
    """The status and totals of a compared run."""

    reason: str | None


@describe_record(RunComparison)
class RunDiff(BaseModel):
    """Two runs side by side."""

    equal_steps: int = Field(description="Found equal after what is shared.")
    first_divergence: DivergenceOut | None


class Effect(BaseModel):
    """The effect of a command on a run."""

    run_id: str
    effect: str = Field(description="Kind of the event, such as run.paused.")
    queued: bool = Field(description="Whether the run now waits for a worker to drive it.")


class Forked(BaseModel):
    run_id: str


# Requests


class Note(RequestBody):
    note: str = Field(default="", max_length=10_000, description="Why; kept in the log.")


class Resuming(RequestBody):
    """With what a run goes on. A note or a raised limit reopens a failed one."""

    note: str = Field(default="", max_length=100_000, description="What its agent reads next.")
    max_iterations: int | None = Field(
        default=None,
        ge=1,
        le=1_000_000_000,
        description="Cycles of a failed run, counted from its beginning.",
    )
    stuck_after: int | None = Field(
        default=None, ge=2, le=1_000_000_000, description="Equal calls in a row that end it; of a failed run."
    )
    usd: str | None = Field(default=None, max_length=40, description="The run's own cap, such as 0.60.")
    tokens: int | None = Field(default=None, ge=0, lt=2**53)
    steps: int | None = Field(default=None, ge=0, lt=2**53)
    wall_s: float | None = Field(default=None, ge=0, le=1e9, description="Seconds from its beginning on.")


class Injection(RequestBody):
    note: str = Field(min_length=1, max_length=100_000)


class Answering(RequestBody):
    """An answer to a question; without `step` to the only open one."""

    step: str | None = Field(default=None, max_length=1000)
    decision: Literal["approve", "deny"] = "approve"
    arguments: Any = Field(default=None, description="With approve: other arguments than asked for.")
    note: str = Field(default="", max_length=10_000)


class Reconciling(RequestBody):
    """The settlement of an unknown outcome."""

    step: str = Field(min_length=1, max_length=1000)
    answer: Literal["succeeded", "failed", "retry", "probe"]
    result: Any = Field(default=None, description="Of `succeeded`.")
    message: str = Field(default="", max_length=10_000, description="Of `failed`.")


class Compensating(RequestBody):
    upto: str | None = Field(
        default=None, min_length=1, max_length=1000, description="Back to this step, with it, and no further."
    )
    note: str = Field(default="", max_length=4_000, description="Why; kept in the log.")


class Compensated(BaseModel):
    """The steps of a run that were undone. Steps of its children are named `<run>:<step>`."""

    run_id: str
    status: str = Field(
        default="done",
        description="done; or what it waits for: waiting_approval, unknown_outcome (reconcile the step).",
    )
    held_by: str = Field(default="", description="The run of the step that it waits for.")
    step: str = Field(default="", description="The step that it waits for.")
    undone: tuple[str, ...] = Field(default=(), description="In that order, by this request.")
    not_undone: tuple[str, ...] = Field(
        default=(), description="Side effects that stay: nothing is registered that undoes them."
    )


class Capping(RequestBody):
    """A cap of a run, its children included; null lifts it."""

    unit: Literal["usd", "tokens", "steps", "wall_s", "ms"] = Field(
        description="`ms` is the older name of `wall_s`, in milliseconds."
    )
    cap: int | float | str | None = Field(
        description="Dollars as text such as 0.60; counts as integers; seconds as a number."
    )


class Forking(RequestBody):
    at: int | None = Field(default=None, ge=1, le=2**53, description="A seq of the run's stream.")
    changes: dict[str, Any] | None = Field(
        default=None, description="Such as model or steering, or the ref of the origin to replace by another."
    )
    new_id: str | None = Field(default=None, max_length=512)
    effects: Literal["recorded", "stub", "live"] = Field(
        default="recorded",
        description="Calls with a side effect: an equal recorded one is returned and any other waits for a"
        " person; each is an error; or each is made.",
    )


class Signalling(RequestBody):
    name: str = Field(min_length=1, max_length=200)
    data: Any = None


CHARS_A_TOKEN = 4


def calls_at_work(services: Services, tenant: str, run_id: str, *, now_s: float) -> list[CallAtWorkOut]:
    """Return the calls of a run, oldest first; none of a run that another process drives."""
    driven = services.active.get((tenant, run_id))
    if driven is None:
        return []
    now_us = services.clock.now_us()
    return [_call(key, sent, now_s=now_s, now_us=now_us) for key, sent in [*driven.sendings.items()]]


def _call(key: str, sent: Sending, *, now_s: float, now_us: int) -> CallAtWorkOut:
    retry_us = sent.retry_at_us
    is_waiting = retry_us is not None
    return CallAtWorkOut(
        key=key,
        attempt=sent.attempt,
        elapsed_s=None if is_waiting else _since(sent.began_at_s, now_s),
        silent_s=None if is_waiting else _since(sent.last_at_s, now_s),
        first_piece_s=None if sent.first_piece_s is None else round(sent.first_piece_s, 3),
        output_tokens=-(-sent.piece_chars // CHARS_A_TOKEN),
        retry_in_s=None if retry_us is None else round(max(0, retry_us - now_us) / 1_000_000, 1),
    )


def _since(then_s: float | None, now_s: float) -> float | None:
    return None if then_s is None else round(max(0.0, now_s - then_s), 1)
