"""Asking a model: the request is paid for in advance, the reply is recorded and settled, whatever happens.

A call ends in exactly one of three ways, each an event that settles the reservation: a reply, a failure, or
an interruption, after which the step is open and asked again. `model_step.py` decides what is asked.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NoReturn

import msgspec

from artelier import errors
from artelier.errors import ArtelierError, TransientError
from artelier.kernel import events as ev
from artelier.kernel.budget import Reservation, reserve, settle, when_it_fits
from artelier.kernel.call_ids import with_call_ids
from artelier.kernel.core import OutOfTime, RunCore
from artelier.kernel.failures import code_of, family_of, words
from artelier.kernel.manifest import UNENCODABLE, canonical, decode_reply
from artelier.kernel.outputs import value_of
from artelier.kernel.prompts import Assembled
from artelier.kernel.results import ModelResult
from artelier.kernel.turns import claims_for, end_turn, take_turn
from artelier.log import StreamAppend
from artelier.ports.model import ModelPort, ModelReply, ModelRequest, Price, Usage
from artelier.ports.telemetry import ModelSpan
from artelier.tokens import cost_microusd, estimate_tokens, upper_bound_tokens

if TYPE_CHECKING:
    from artelier.kernel.model_step import ModelCall

BACKOFF_MAX_S = 30.0
RETRY_AFTER_MAX_S = 120.0
TOKENS_MAX = 10**12
"""More tokens than any call can have; a provider that says so is not believed."""


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

    @property
    def request(self) -> ModelRequest:
        return self.assembled.request


async def ask(
    core: RunCore,
    assembled: Assembled,
    *,
    model: str,
    price: Price | None,
    aside: Sequence[StreamAppend] = (),
) -> Reservation:
    """Make a request durable together with the hold of what it may cost, and with what stands aside.

    Errors: `RunSuspended` if it does not fit the budget; `LimitReached` if no minute of a rate is enough.
    """
    key = assembled.event.key
    claims = claims_for(core, model, tokens_max(assembled))
    reservation = reserve(
        core,
        price=price,
        size_bytes=assembled.size_bytes,
        max_output_tokens=assembled.request.params["max_output_tokens"],
    )
    requested = ev.ModelRequested(
        key=key, model=model, postings=reservation.postings, counts=reservation.counts
    )
    writer = core.writer
    core.services.at("model.before_request")
    refusable = reservation.is_limited or bool(aside)

    async def attempt() -> None:
        # No money is held while the call waits for its turn, and no turn while it waits for money.
        await take_turn(core, key, claims)
        core.held[key] = requested
        try:
            await writer.commit(
                assembled.event, requested, blobs=assembled.blobs, aside=aside, refusable=refusable
            )
        except BaseException:
            end_turn(core, key, tokens=None)
            raise

    if reservation.is_limited:
        await when_it_fits(core, attempt)
    else:
        await attempt()
    core.services.at("model.requested")
    return reservation


def tokens_max(assembled: Assembled) -> int:
    """More tokens than the call can use."""
    return upper_bound_tokens(assembled.size_bytes) + assembled.request.params["max_output_tokens"]


async def answered(core: RunCore, ready: Ready) -> ModelResult:
    """Call until a reply comes, and record it; passing failures are retried.

    Errors: the last failure, recorded.
    """
    attempt = 0
    while True:
        attempt += 1
        try:
            reply, content = await _called(core, ready)
        except TransientError as error:
            await next_attempt(core, ready, attempt, error)
        except asyncio.CancelledError:
            ready, attempt = await asked_again(core, ready), 0
        except OutOfTime:
            await cut_short(core, ready)
        except Exception as error:  # a port's own too: record it, then let the caller see it
            await failed(core, ready, error)
        else:
            return record(core, ready, reply, content)


async def _called(core: RunCore, ready: Ready) -> tuple[ModelReply, bytes]:
    timeout_s = ready.call.timeout_s or core.policy.model_timeout_s
    try:
        with core.flight(harmless=True):
            async with core.within(timeout_s):
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
    return checked(core, ready, reply)


async def next_attempt(core: RunCore, ready: Ready, attempt: int, error: TransientError) -> None:
    """Return when another attempt is due. Errors: `error`, recorded, if there is none left.

    A run that ends while it waits gives its reservation back first.
    """
    if attempt >= core.policy.attempts_max:
        await failed(core, ready, error)
    wait_s = _backoff(core, attempt, error)
    if ready.span is not None:
        ready.span.retried(attempt=attempt, code=error.code, wait_s=wait_s)
    core.writer.note(
        ev.ModelAttempted(
            key=ready.key, attempt=attempt, code=error.code, wait_ms=int(wait_s * 1000)
        )
    )
    end_turn(core, ready.key, tokens=_input_tokens(core, ready))
    try:
        await core.rest(wait_s)
        claims = claims_for(core, ready.model, tokens_max(ready.assembled))
        await take_turn(core, ready.key, claims)
    except Exception:
        note_failure(core, ready, family="cancelled", code="cancelled")
        raise


def _backoff(core: RunCore, attempt: int, error: TransientError) -> float:
    told = error.retry_after_s
    if told is not None and told >= 0:
        return min(float(told), RETRY_AFTER_MAX_S)
    return min(core.policy.backoff_s * 2 ** (attempt - 1), BACKOFF_MAX_S)


async def asked_again(core: RunCore, ready: Ready) -> Ready:
    """After a call was cancelled: if a command did it, the same request once more when the run goes on.

    Errors: `CancelledError` if it came from outside; `RunStopped`, `RunSuspended` as the command wants.
    """
    # A provider may bill what it had begun.
    note_failure(core, ready, family="cancelled", code="cancelled", cost=_begun_cost(ready))
    if not core.was_interrupted():
        raise asyncio.CancelledError
    await core.boundary()
    event = msgspec.structs.replace(ready.assembled.event, added=())
    again = replace(ready.assembled, event=event, blobs=[])
    reservation = await ask(core, again, model=ready.model, price=ready.reservation.price)
    if ready.span is not None:
        ready.span.asked_again()
    return replace(ready, assembled=again, reservation=reservation)


async def cut_short(core: RunCore, ready: Ready) -> NoReturn:
    """The run's time is up while it waits for a reply: the step stays open. Errors: `RunSuspended`."""
    note_failure(core, ready, family="cancelled", code="deadline", cost=_begun_cost(ready))
    await core.out_of_time()


def _begun_cost(ready: Ready) -> int:
    """What a provider bills for a call that was cut off before its usage was known: its input, at most."""
    price = ready.reservation.price
    if price is None or not ready.reservation.amount:
        return 0
    usage = Usage(input_tokens=estimate_tokens(ready.request.canonical()))
    return min(cost_microusd(price, usage), ready.reservation.amount)


def _input_tokens(core: RunCore, ready: Ready) -> int:
    """What a provider counts of a call that gave no reply: its input. 0 where nobody asks."""
    return estimate_tokens(ready.request.canonical()) if core.services.turns is not None else 0


def checked(core: RunCore, ready: Ready, reply: object) -> tuple[ModelReply, bytes]:
    """A reply as it will be read from the log, and its bytes.

    Errors: `ModelReplyBroken` for what is no reply or no JSON; `ModelRefusedCall` for one too large.
    """
    if not isinstance(reply, ModelReply):
        raise errors.ModelReplyBroken(
            "the model port returned no ModelReply", got=type(reply).__name__
        )
    try:
        content = core.clean(canonical(reply), foreign=True)
        reply = decode_reply(content)
    except (*UNENCODABLE, errors.CorruptStore) as error:
        raise errors.ModelReplyBroken(
            f"the model's reply cannot be stored as JSON: {words(error)[:200]}"
        ) from None
    usage = reply.usage
    counts = (usage.input_tokens, usage.cached_input_tokens, usage.output_tokens)
    if not all(0 <= count <= TOKENS_MAX for count in counts):
        raise errors.ModelReplyBroken("the model's usage cannot be true", got=str(counts)[:200])
    if len(content) > core.policy.reply_bytes_max:
        raise errors.ModelRefusedCall(
            "the model's reply is too large; it was not kept",
            expected=f"at most {core.policy.reply_bytes_max} bytes", got=len(content),
            hint="Lower max_output_tokens.", usage=usage,
        )  # fmt: skip
    named = with_call_ids(reply, run_id=core.run_id, key=ready.key, messages=ready.request.messages)
    return named, content if named is reply else canonical(named)


def record(core: RunCore, ready: Ready, reply: ModelReply, content: bytes) -> ModelResult:
    """Note the reply and its cost; it is durable at the latest when the run's code next waits.

    Errors: `OutputInvalid`, recorded with the reply.
    """
    output, misfit = None, None
    try:
        output = value_of(reply, ready.call.output)
    except errors.OutputInvalid as error:
        misfit = error
    ref, blob = core.keep(content)
    settlement = settle(ready.reservation, usage=reply.usage, capped=core.counted)
    usage = reply.usage
    core.held.pop(ready.key, None)
    end_turn(core, ready.key, tokens=usage.input_tokens + usage.output_tokens)
    said, blobs = core.keep_json(words(misfit)) if misfit is not None else (None, [])
    core.writer.note(
        ev.ModelCompleted(
            key=ready.key, reply=ref, input_tokens=usage.input_tokens,
            cached_input_tokens=usage.cached_input_tokens, output_tokens=usage.output_tokens,
            cost=settlement.cost, invalid=misfit is not None, misfit=said,
            unpriced=ready.reservation.price is None, **settlement.moves,
        ),
        [blob, *blobs],
    )  # fmt: skip
    core.came_back()
    if ready.span is not None:
        code = "" if misfit is None else misfit.code
        ready.span.completed(reply, cost_microusd=settlement.cost, code=code)
    if settlement.overrun:
        core.overrun = settlement.overrun
    if misfit is not None:
        raise misfit
    return result(core, ready.key, reply, output, cost=settlement.cost, replayed=False)


def result(
    core: RunCore, key: str, reply: ModelReply, output: Any, *, cost: int, replayed: bool
) -> ModelResult:
    """What a step gives back; `output` is the value that was asked for."""
    return ModelResult(
        output=output, text=reply.text, tool_calls=reply.tool_calls,
        usage=reply.usage, cost_microusd=cost, replayed=replayed,
        manifest_id=f"{core.run_id}:{key}", finish_reason=reply.finish_reason, key=key, reply=reply,
    )  # fmt: skip


async def failed(core: RunCore, ready: Ready, error: Exception) -> NoReturn:
    """Record a failure for good and raise it. A reply that was refused is paid for."""
    ref, blobs = core.keep_json(words(error))
    facts = error.facts if isinstance(error, ArtelierError) else {}
    usage: Usage | None = facts.get("usage")
    settlement = settle(
        ready.reservation, usage=usage or Usage(), cost=None if usage else 0, capped=core.counted
    )
    core.held.pop(ready.key, None)
    used = usage.input_tokens + usage.output_tokens if usage else _input_tokens(core, ready)
    end_turn(core, ready.key, tokens=used)
    if ready.span is not None:
        ready.span.failed(code_of(error), usage=usage, cost_microusd=settlement.cost)
    await core.writer.commit(
        ev.ModelFailed(
            key=ready.key, family=family_of(error), code=code_of(error), message=ref,
            cost=settlement.cost, **settlement.moves,
        ),
        blobs=blobs,
    )  # fmt: skip
    core.came_back()
    raise error


def note_failure(core: RunCore, ready: Ready, *, family: str, code: str, cost: int = 0) -> None:
    """Record a failure without waiting for it."""
    settlement = settle(ready.reservation, usage=Usage(), cost=cost, capped=core.counted)
    core.held.pop(ready.key, None)
    end_turn(core, ready.key, tokens=_input_tokens(core, ready))
    if ready.span is not None:
        ready.span.failed(code, cost_microusd=cost)
    core.writer.note(
        ev.ModelFailed(key=ready.key, family=family, code=code, cost=cost, **settlement.moves)
    )
    core.writer.flush()
    core.came_back()
