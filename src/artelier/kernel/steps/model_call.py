"""Asking a model: the request is paid for in advance, and every attempt is billed, whatever comes of it.

A call ends in exactly one of three ways, each an event that settles the reservation: a reply, a failure, or
an interruption, after which the step is open and asked again. `settle_call` settles all of them; an attempt
that another one follows is billed beside the hold. `model_step.py` decides what is asked.
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn

import msgspec

from artelier import errors
from artelier.artifacts.media.inspection import KeptMedium
from artelier.errors import ArtelierError, Exhausted, TransientError
from artelier.kernel import events as ev
from artelier.kernel.budget import (
    Reservation,
    Settlement,
    bill_attempt,
    claims_for,
    end_turn,
    release,
    settle,
    take_turn,
)
from artelier.kernel.pii_scrubber import Personal
from artelier.kernel.prompt.manifest import UNENCODABLE, canonical, decode_reply
from artelier.kernel.prompt.renderer import Assembled, Messages
from artelier.kernel.run.context import RunCore
from artelier.kernel.run.pending_steps import OutOfTime
from artelier.kernel.run.status import ModelResult
from artelier.kernel.steps.failures import code_of, family_of, words
from artelier.kernel.steps.model_request import ask, guard_of
from artelier.kernel.steps.step_keys import with_call_ids
from artelier.kernel.steps.structured_output import Fitted, fit_reply
from artelier.log import Blob, EventData, StreamAppend
from artelier.ports.model import (
    REASONING,
    TOOL_REF,
    ModelPort,
    ModelReply,
    ModelRequest,
    OnReasoning,
    Sending,
    ToolSchema,
    Usage,
    reasoning_text,
    sending,
    with_seals,
    without_seals,
)
from artelier.ports.telemetry import ModelSpan, RespondedSpan, ResponseFacts
from artelier.tokens import estimate_tokens

BACKOFF_MAX_S = 30.0
RETRY_AFTER_MAX_S = 120.0
TOKENS_MAX = 10**12
"""More tokens than any call can have; of a provider that claims more, so many are billed."""
SUSPICIOUS_FACTOR = 10
"""How many times what its request allows a call must claim to be marked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """A call that is recorded and paid for in advance."""

    key: str
    call: ModelCall
    assembled: Assembled
    model: str
    port: ModelPort
    reservation: Reservation
    span: ModelSpan | None = None
    """What a watcher is told of it; None if nobody watches."""
    sent: Sending = field(default_factory=Sending)
    """What its adapter has sent, of the newest attempt."""
    not_sent: tuple[str, ...] = ()
    """Media that the model was given in another form."""

    @contextmanager
    def record_sending(self) -> Generator[None]:
        """Let the adapter record what it sends."""
        before = sending.set(self.sent)
        try:
            yield
        finally:
            sending.reset(before)

    @property
    def request(self) -> ModelRequest:
        return self.assembled.request


async def call_until_reply(core: RunCore, ready: Ready) -> ModelResult:
    """Call until a reply comes, and record it; passing failures are retried.

    Errors: the last failure, recorded.
    """
    attempt = 0
    while True:
        attempt += 1
        try:
            reply, content = await _call_once(core, ready, attempt)
            fit = await _fit(core, ready, reply)
        except TransientError as error:
            ready = await next_attempt(core, ready, attempt, error)
        except asyncio.CancelledError:
            ready, attempt = await asked_again(core, ready), 0
        except OutOfTime:
            await cut_short(core, ready)
        except Exception as error:  # a port's own too: record it, then let the caller see it
            await record_failure(core, ready, error)
        else:
            return record(core, ready, reply, content, fit)


def begin_sending(core: RunCore, ready: Ready, attempt: int) -> None:
    """Note that an attempt is on its way, for whoever watches it."""
    core.unsent.discard(ready.key)
    ready.sent.clear()
    ready.sent.attempt, ready.sent.retry_at_us = attempt, None
    core.sendings[ready.key] = ready.sent


async def _call_once(core: RunCore, ready: Ready, attempt: int) -> tuple[ModelReply, bytes]:
    timeout_s = ready.call.timeout_s or core.policy.model_timeout_s
    begin_sending(core, ready, attempt)
    try:
        with core.calls.flight(harmless=True), ready.record_sending():
            async with core.calls.within(timeout_s):
                if ready.span is None:
                    reply = await ready.port.complete(ready.request)
                else:
                    with ready.span:
                        reply = await ready.port.complete(ready.request)
    except OutOfTime:
        raise
    except TimeoutError:
        raise errors.ModelTimeout(
            f"model {ready.request.model} gave no reply in time", expected=f"at most {timeout_s} s"
        ) from None
    core.services.at("model.replied")
    return await check_reply(core, ready, reply)


async def _fit(core: RunCore, ready: Ready, reply: ModelReply) -> Fitted:
    """Return whether the reply fits. A call is in flight until that is known, since it may take a while."""
    with core.calls.flight(harmless=True):
        fit = await fit_reply(reply, ready.call.output)
    await core.refresh_caps()  # a cap that was set meanwhile counts what this call has cost
    return fit


async def next_attempt(core: RunCore, ready: Ready, attempt: int, error: TransientError) -> Ready:
    """Return the call for another attempt when that is due; this one is billed, and the hold whole again.

    A run that ends while it waits gives its reservation back first.
    Errors: `error`, recorded, if there is none left; `RunSuspended` if the next one cannot be paid.
    """
    if attempt >= core.policy.attempts_max:
        await record_failure(core, ready, error)
    wait_s = _backoff(core, attempt, error)
    ready.sent.retry_at_us = core.clock.now_us() + int(wait_s * 1_000_000)
    cost = await _bill_attempt(core, ready, attempt, error, wait_s=wait_s)
    if ready.span is not None:
        ready.span.retried(attempt=attempt, code=error.code, wait_s=wait_s, cost_microusd=cost or 0)
    if cost is None:
        # The hold pays for it, and the next attempt is reserved anew: it waits for money as any other call.
        note_failure(core, ready, code=error.code, usage=_usage_of(error))
        await core.rest(wait_s)
        return await _ask_anew(core, ready)
    end_turn(core, ready.key, tokens=_input_tokens(core, ready))
    try:
        await core.rest(wait_s)
        claims = claims_for(core, ready.model, ready.assembled.size.tokens_max)
        await take_turn(core, ready.key, claims)
    except (Exception, asyncio.CancelledError):
        note_failure(core, ready, code=error.code)
        raise
    return ready


async def asked_before(core: RunCore, ready: Ready) -> Ready:
    """Return a call that an earlier drive had made and got no reply of, to be made again.

    That one was in flight when its process died, and is billed like any other without a reply. Requests of
    older versions, which do not say what their input costs, are asked again for nothing, as they were then.
    Errors: `RunSuspended` if it cannot be paid once more.
    """
    if ready.key in core.unsent or not core.held[ready.key].input_tokens:
        return ready
    bill = bill_attempt(ready.reservation, usage=None, capped=core.capped)
    lost = ev.ModelAttempted(
        key=ready.key, attempt=0, code="interrupted", wait_ms=0, model=ready.model, **bill.facts
    )
    if await _note_attempt(core, ready, lost):
        if ready.span is not None:
            ready.span.retried(attempt=0, code=lost.code, wait_s=0.0, cost_microusd=lost.cost)
        return ready
    note_failure(core, ready, code="interrupted")
    return await _ask_anew(core, ready)


async def _bill_attempt(
    core: RunCore, ready: Ready, attempt: int, error: TransientError, *, wait_s: float
) -> int | None:
    """Record an attempt that failed. Return what it costs; None if that is more than is available."""
    facts: dict[str, Any] = {}
    if is_billed(error):
        usage = _usage_of(error)
        bill = bill_attempt(ready.reservation, usage=usage, capped=core.capped)
        facts = replace(bill, suspicious=_is_suspicious(ready, usage)).facts
    event = ev.ModelAttempted(
        key=ready.key,
        attempt=attempt,
        code=error.code,
        wait_ms=int(wait_s * 1000),
        model=ready.model,
        attempts_max=core.policy.attempts_max,
        **facts,
    )
    return event.cost if await _note_attempt(core, ready, event) else None


async def _note_attempt(core: RunCore, ready: Ready, event: ev.ModelAttempted) -> bool:
    """Record an attempt that is over. Return False if it costs more than is available."""
    if not (event.postings or event.counts):
        core.writer.note(event)
    else:
        guard = guard_of(core, ready.reservation, event.cost)
        try:
            await core.writer.commit(event, refusable=True, guard=guard)
        except Exhausted:
            return False
    core.unsent.add(ready.key)
    return True


def _backoff(core: RunCore, attempt: int, error: TransientError) -> float:
    told = error.retry_after_s
    if told is not None and told >= 0:
        return min(float(told), RETRY_AFTER_MAX_S)
    return min(core.policy.backoff_s * 2 ** (attempt - 1), BACKOFF_MAX_S)


async def asked_again(core: RunCore, ready: Ready, *, output_tokens: int = 0) -> Ready:
    """After a call was cancelled: if a command did it, the same request once more when the run goes on.

    Errors: `CancelledError` if it came from outside; `RunStopped`, `RunSuspended` as the command wants.
    """
    bill_cut(core, ready, output_tokens=output_tokens)
    if not core.calls.was_interrupted():
        raise asyncio.CancelledError
    await core.boundary()
    return await _ask_anew(core, ready)


async def _ask_anew(core: RunCore, ready: Ready) -> Ready:
    """Make the same request once more, with a hold of its own. Errors: see `ask`."""
    event = msgspec.structs.replace(ready.assembled.event, added=())
    again = replace(ready.assembled, event=event, blobs=[])
    again, reservation = await ask(core, again, model=ready.model, price=ready.reservation.price)
    if ready.span is not None:
        ready.span.asked_again()
    return replace(ready, assembled=again, reservation=reservation)


def bill_cut(core: RunCore, ready: Ready, *, output_tokens: int = 0, came: ModelReply | None = None) -> None:
    """Settle a call that was cut off, of which so much came: a provider may bill what it had begun.

    `came` is what the reader of a stream has seen of it before leaving.

    The step is open again. If its code goes on without it, that becomes its outcome (see `run/delivery.py`).
    """
    cost = note_failure(core, ready, code="cancelled", output_tokens=output_tokens, came=came)
    core.delivery.costs(ready.key, cost)


async def cut_short(core: RunCore, ready: Ready, *, output_tokens: int = 0) -> NoReturn:
    """End the drive of a run whose time is up while it waits for a reply: the step stays open.

    What came of a stream is billed, as `output_tokens`. Errors: `RunSuspended`.
    """
    note_failure(core, ready, code="deadline", output_tokens=output_tokens)
    await core.out_of_time()


def _input_tokens(core: RunCore, ready: Ready) -> int:
    """Return what a provider counts of a call that gave no reply: its input. 0 where nobody asks."""
    return ready.assembled.size.input_tokens if core.services.turns is not None else 0


def is_billed(error: Exception) -> bool:
    """Return True if a provider bills a call that failed so: it was at work, or has answered.

    It does not for what it turned away, be it busy, out of reach, or against the request. What is no error of
    ours came from reading a reply: by then the request had been sent.
    """
    if not isinstance(error, ArtelierError):
        return True
    if isinstance(error, errors.ModelTimeout | errors.ModelReplyBroken):
        return True
    return _usage_of(error) is not None or bool(error.facts.get("answered"))


def _usage_of(error: Exception) -> Usage | None:
    """Return the usage that came with a refused reply; None if none did, or one that says nothing."""
    usage = error.facts.get("usage") if isinstance(error, ArtelierError) else None
    return known_usage(usage) if usage != Usage() else None


def known_usage(value: object) -> Usage | None:
    """Return a usage as it is billed: at most `TOKENS_MAX` of each; None for what is no usage."""
    if not isinstance(value, Usage):
        return None
    counts = msgspec.structs.asdict(value)
    if not all(type(count) is int and count >= 0 for count in counts.values()):
        return None
    if max(counts.values()) <= TOKENS_MAX:
        return value
    return Usage(**{name: min(count, TOKENS_MAX) for name, count in counts.items()})


def _is_suspicious(ready: Ready, usage: Usage | None) -> bool:
    """Return True if a provider claims far more than the request allows. Bytes say nothing of media."""
    if usage is None:
        return False
    size = ready.assembled.size
    if usage.output_tokens > SUSPICIOUS_FACTOR * size.output_max:
        return True
    return usage.prompt_tokens > SUSPICIOUS_FACTOR * size.input_max and not _has_media(ready)


def _has_media(ready: Ready) -> bool:
    return any(
        part.type not in ("text", "json", REASONING, TOOL_REF)
        for message in ready.request.messages
        if not isinstance(message.content, str)
        for part in message.content
    )


async def check_reply(core: RunCore, ready: Ready, reply: object) -> tuple[ModelReply, bytes]:
    """A reply as it will be read from the log, and its bytes.

    Errors: `ModelReplyBroken` for what is no reply or no JSON; `ModelRefusedCall` for one too large.
    """
    if not isinstance(reply, ModelReply):
        raise errors.ModelReplyBroken("the model port returned no ModelReply", got=type(reply).__name__)
    usage = known_usage(reply.usage)
    if usage is None:
        raise errors.ModelReplyBroken("the model's usage cannot be true", got=repr(reply.usage)[:200])
    try:
        reply = msgspec.structs.replace(reply, usage=usage)
        content = canonical(reply)
        check_reply_size(core, content, usage)
        if core.pii is None:
            reply = decode_reply(content)
        else:
            reply, content = await _clean_reply(core.pii, decode_reply(content), content)
        if (counted := _count_usage(ready, reply)) != usage:
            reply = msgspec.structs.replace(reply, usage=counted)
            content = canonical(reply)
    except (*UNENCODABLE, errors.CorruptStore) as error:
        raise errors.ModelReplyBroken(
            f"the model's reply cannot be stored as JSON: {words(error)[:200]}", usage=usage
        ) from None
    named = with_call_ids(reply, run_id=core.run_id, key=ready.key, asked=ready.assembled.measured)
    return named, content if named is reply else canonical(named)


async def _clean_reply(pii: Personal, reply: ModelReply, content: bytes) -> tuple[ModelReply, bytes]:
    """Return a reply with personal data replaced, and its bytes. Signatures are no text, and stay."""
    if not reply.parts:
        content = await pii.clean_aside(content, foreign=True)
        return decode_reply(content), content
    bare = await pii.clean_aside(canonical(without_seals(reply)), foreign=True)
    clean = with_seals(decode_reply(bare), reply)
    return clean, canonical(clean)


def _count_usage(ready: Ready, reply: ModelReply) -> Usage:
    """Return the usage of a reply. What its provider does not say is counted here: no call is free for that,
    and the event says so. A provider that counts the input alone has written no text for nothing.
    """
    usage = reply.usage
    is_embedded = ready.call.port is not None  # writes nothing
    is_silent = bool(reply.text or reply.tool_calls) and not is_embedded
    if usage.output_tokens or (usage.prompt_tokens and not is_silent):
        return usage
    size, written = ready.assembled.size, 0
    if not is_embedded:
        text = reply.text or ("" if reply.output is None else canonical(reply.output))
        thought = estimate_tokens(reasoning_text(reply.parts))
        written = (
            thought
            + estimate_tokens(text)
            + sum(estimate_tokens(call.canonical()) for call in reply.tool_calls)
        )
    ready.sent.is_counted = True
    return msgspec.structs.replace(
        usage,
        input_tokens=usage.input_tokens if usage.prompt_tokens else size.input_tokens,
        output_tokens=min(written, size.output_max),
    )


def check_reply_size(core: RunCore, content: bytes, usage: Usage) -> None:
    """Refuse a reply before anything reads it. Errors: `ModelRefusedCall`."""
    if len(content) > core.policy.reply_bytes_max:
        raise errors.ModelRefusedCall(
            "the model's reply is too large; it was not kept",
            expected=f"at most {core.policy.reply_bytes_max} bytes",
            got=len(content),
            hint="Lower max_output_tokens.",
            usage=usage,
        )


def settle_call(
    core: RunCore, ready: Ready, *, usage: Usage | None = None, output_tokens: int = 0, is_sent: bool = True
) -> Settlement:
    """Settle a call that has ended, whichever way; `facts` of the result go into the event that says so.

    Without `usage`, the input's estimate is billed, with the `output_tokens` that came of a stream. What was
    never sent, or was turned away, is not `is_sent` and costs nothing. The event must be noted without a wait
    in between, then `core.came_back()` called.
    """
    if is_sent and ready.key not in core.unsent:
        settlement = settle(ready.reservation, usage=usage, output_tokens=output_tokens, capped=core.capped)
        if _is_suspicious(ready, usage):
            settlement = replace(settlement, suspicious=True)
    else:
        settlement = release(ready.reservation, capped=core.capped)
    core.held.pop(ready.key, None)
    core.sendings.pop(ready.key, None)
    core.unsent.discard(ready.key)
    used = usage.prompt_tokens + usage.output_tokens if usage else _input_tokens(core, ready)
    end_turn(core, ready.key, tokens=used + output_tokens)
    return settlement


def note_end(core: RunCore, settlement: Settlement, event: EventData, blobs: Sequence[Blob] = ()) -> None:
    """Note how a call ended. One that exceeds what it held is on its way before anything else is reserved."""
    core.writer.note(event, blobs)
    if settlement.is_over:
        core.writer.flush()
    core.came_back()


def record(
    core: RunCore, ready: Ready, reply: ModelReply, content: bytes, fit: Fitted, *, estimated: bool = False
) -> ModelResult:
    """Note the reply and its cost; it is durable at the latest when the run's code next waits.

    `estimated` says that its usage is our own count of what came, as it is where the provider says none.

    Errors: `OutputInvalid`, recorded with the reply.
    """
    output, misfit = fit.output, fit.misfit
    ref, blob = core.keep(content)
    usage = reply.usage
    settlement = settle_call(core, ready, usage=usage)
    estimated = estimated or ready.sent.is_counted
    if settlement.estimated != estimated:
        settlement = replace(settlement, estimated=estimated)
    said, blobs = core.keep_json(words(misfit)) if misfit is not None else (None, [])
    note_end(
        core,
        settlement,
        ev.ModelCompleted(
            key=ready.key,
            reply=ref,
            input_tokens=usage.input_tokens,
            cached_input_tokens=usage.cached_input_tokens,
            cache_write_input_tokens=usage.cache_write_input_tokens,
            output_tokens=usage.output_tokens,
            reasoning_tokens=usage.reasoning_tokens,
            invalid=misfit is not None,
            misfit=said,
            unpriced=ready.reservation.price is None,
            **settlement.facts,
            **_sent_fields(core, ready),
        ),
        [blob, *blobs],
    )
    if ready.span is not None:
        code = "" if misfit is None else misfit.code
        if isinstance(ready.span, RespondedSpan):
            sent = ready.sent
            ready.span.responded(
                ResponseFacts(
                    id=sent.response_id, model=sent.response_model, first_piece_s=sent.first_piece_s
                )
            )
        ready.span.completed(reply, cost_microusd=settlement.cost, code=code)
    if misfit is not None:
        raise misfit
    found = result(core, ready.key, reply, output, cost=settlement.cost, replayed=False)
    return replace(found, max_output_tokens=ready.assembled.size.output_max)


def _sent_fields(core: RunCore, ready: Ready) -> dict[str, Any]:
    """Return what was sent, as the event of the reply says it."""
    sent = ready.sent
    return {"adapter": sent.adapter, "body": sent.body_hash, "not_sent": (*sent.dropped, *ready.not_sent)}


def result(
    core: RunCore, key: str, reply: ModelReply, output: object, *, cost: int, replayed: bool
) -> ModelResult:
    """Return what a step gives back; `output` is the value that was asked for."""
    return ModelResult(
        output=output,
        text=reply.text,
        tool_calls=reply.tool_calls,
        usage=reply.usage,
        cost_microusd=cost,
        replayed=replayed,
        manifest_id=f"{core.run_id}:{key}",
        finish_reason=reply.finish_reason,
        key=key,
        reply=reply,
    )


async def record_failure(
    core: RunCore, ready: Ready, error: Exception, *, output_tokens: int = 0
) -> NoReturn:
    """Record a failure for good and raise it. What the provider bills for it, or for what came, is paid."""
    ref, blobs = core.keep_json(words(error))
    usage = _usage_of(error)
    is_sent = is_billed(error) or output_tokens > 0
    settlement = settle_call(core, ready, usage=usage, output_tokens=output_tokens, is_sent=is_sent)
    if ready.span is not None:
        ready.span.failed(code_of(error), usage=usage, cost_microusd=settlement.cost)
    await core.writer.commit(
        ev.ModelFailed(
            key=ready.key,
            family=family_of(error),
            code=code_of(error),
            message=ref,
            **settlement.facts,
            **_sent_fields(core, ready),
        ),
        blobs=blobs,
    )
    core.came_back()
    raise error


def note_failure(
    core: RunCore,
    ready: Ready,
    *,
    code: str,
    usage: Usage | None = None,
    output_tokens: int = 0,
    came: ModelReply | None = None,
) -> int:
    """Record that a call was cancelled, without waiting for it. Return what it costs, in micro-dollars.

    To a watcher a stream that its reader left has not failed: it has what `came`.
    """
    settlement = settle_call(core, ready, usage=usage, output_tokens=output_tokens)
    if ready.span is not None and came is not None:
        ready.span.completed(came, cost_microusd=settlement.cost)
    elif ready.span is not None:
        ready.span.failed(code, cost_microusd=settlement.cost)
    event = ev.ModelFailed(
        key=ready.key, family="cancelled", code=code, **settlement.facts, **_sent_fields(core, ready)
    )
    note_end(core, settlement, event)
    core.writer.flush()
    return settlement.cost


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCall:
    """The arguments of a model step."""

    model: str
    messages: Messages
    output: Any = None
    tools: Sequence[str] | Sequence[ToolSchema] = ()
    visible_tools: bool = False
    """Offer the tools that the run sees; on replay those that it saw then."""
    params: dict[str, Any]
    timeout_s: float | None = None
    aside: tuple[StreamAppend, ...] = ()
    """Events of other streams for the batch of the request."""
    is_streamed: bool = False
    """Its reader takes pieces."""
    on_reasoning: OnReasoning | None = None
    """Given each piece of reasoning as it comes, and an empty one when the call is made again. A run does
    not see it: a replay has none."""
    output_tokens_max: int | None = None
    """The most that is asked for; less where limits of money or tokens cannot pay for it."""
    after_cut: int = 0
    """How many tokens an answer had that was cut; this one is asked for more."""
    port: ModelPort | None = None
    """Who answers, for a call that no registered model does, such as that of an embedder."""
    media: tuple[KeptMedium, ...] = ()
    """Media that its messages name, to be stored with the request."""
