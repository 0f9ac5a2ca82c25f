"""One model step: the prompt is recorded and paid for in advance, the reply is recorded and settled."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn, cast

from artelier import errors
from artelier.errors import ArtelierError, NotGranted, ReplayMismatch, RunStopped, TransientError
from artelier.kernel import events as ev
from artelier.kernel.budget import Reservation, held, price_for, reserve, settle, when_it_fits
from artelier.kernel.core import RunCore
from artelier.kernel.failures import code_of, family_of, raise_recorded, words
from artelier.kernel.history import Recorded
from artelier.kernel.manifest import Head, canonical, decode_head, decode_reply, decode_tools
from artelier.kernel.outputs import schema_of, value_of
from artelier.kernel.policy import may_use_model
from artelier.kernel.prompts import (
    Assembled,
    Messages,
    Renderer,
    assemble,
    differing_part,
    prompt_of,
    settle_numbers,
)
from artelier.kernel.results import ModelResult
from artelier.ports.model import (
    Delta,
    ModelPort,
    ModelReply,
    ModelRequest,
    Price,
    StreamingModelPort,
    ToolSchema,
    Usage,
)

BACKOFF_MAX_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCall:
    """What a caller asks of a model step."""

    model: str
    messages: Messages
    output: Any = None
    tools: Sequence[str] | Sequence[ToolSchema] = ()
    visible_tools: bool = False
    """Offer the tools that the run sees; on replay those that it saw then."""
    params: dict[str, Any]
    timeout_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ready:
    """A call that is recorded and paid for in advance."""

    key: str
    call: ModelCall
    request: ModelRequest
    port: ModelPort
    reservation: Reservation
    schema: dict[str, Any] | None


async def model_step(core: RunCore, call: ModelCall, *, key: str | None) -> ModelResult:
    """Errors: see `Run.step_model`."""
    parent, key = core.begin(key)
    try:
        ready = await _prepare(core, call, key)
        if isinstance(ready, ModelResult):
            return ready
        return _recorded_reply(core, ready, await _attempts(core, ready))
    finally:
        core.end(parent)


async def stream_step(
    core: RunCore, call: ModelCall, *, key: str | None
) -> AsyncIterator[Delta | ModelResult]:
    """Deltas as they come, then the result. A cut stream keeps what came, with its cost."""
    parent, key = core.begin(key)
    try:
        ready = await _prepare(core, call, key)
        if isinstance(ready, ModelResult):
            yield Delta(text=ready.text)
            yield ready
            return
        if not isinstance(ready.port, StreamingModelPort):
            result = _recorded_reply(core, ready, await _attempts(core, ready))
            yield Delta(text=result.text)
            yield result
            return
        pieces: list[str] = []
        done = False
        try:
            async for item in _streamed(core, ready, pieces):
                if isinstance(item, ModelReply):
                    done = True
                    yield _recorded_reply(core, ready, item)
                else:
                    yield item
        except GeneratorExit:
            if not done:  # the reader went away: what came is the reply
                _recorded_reply(core, ready, _cut_reply(ready, pieces))
            raise
    finally:
        core.end(parent)


async def _prepare(core: RunCore, call: ModelCall, key: str) -> _Ready | ModelResult:
    """The recorded result, or a request that is durable and paid for in advance."""
    recorded = await core.recorded(key)
    if recorded is not None and recorded.inherited and recorded.outcome is None:
        recorded = None  # a fork asks anew, with a hold of its own, what its origin left unanswered
    if core.model_override and (recorded is None or not recorded.inherited):
        call = replace(call, model=core.model_override)
    schema = schema_of(call.output)
    tools = await _tools_of(core, call, recorded)
    prompt = prompt_of(core, call.messages, key=key)
    replaying = recorded is not None and recorded.status in ("completed", "failed")
    if replaying:
        name, port = _recorded_model(recorded), None
    else:
        await core.boundary()
        name, port = core.services.model(call.model)
        if not may_use_model(core.grants, name):
            raise NotGranted(
                f"model {name!r} is not granted to this run", expected=", ".join(core.grants)
            )
        prompt = await settle_numbers(core, prompt)
    params = dict(call.params)
    if "max_output_tokens" not in params:
        params["max_output_tokens"] = await _max_output_tokens(core, name, recorded)
    again = recorded if recorded is not None and recorded.status != "open" else None
    assembled = assemble(
        core, prompt, key=key, model=name, params=params, tools=tools, output_schema=schema,
        recorded=again.context if again is not None else None,
    )  # fmt: skip
    if recorded is not None and again is not None:
        assembled = await _compare(core, recorded, assembled, call)
        if replaying:
            return await _replayed(core, recorded, call)
    assert port is not None
    price = price_for(core, name, port)
    if recorded is not None and recorded.status == "requested":
        # Asked before a crash: the same request, and its hold still stands.
        request = core.held[key] = cast(ev.ModelRequested, recorded.request)
        reservation = held(request, price=price)
    else:
        reservation = await _reserve(core, assembled, name, price)
    return _Ready(
        key=key, call=call, request=assembled.request, port=port, reservation=reservation,
        schema=schema,
    )  # fmt: skip


async def _reserve(
    core: RunCore, assembled: Assembled, model: str, price: Price | None
) -> Reservation:
    key = assembled.event.key
    reservation = reserve(
        core,
        price=price,
        size_bytes=assembled.size_bytes,
        max_output_tokens=int(assembled.request.params["max_output_tokens"]),
    )
    requested = ev.ModelRequested(
        key=key, model=model, postings=reservation.postings, counts=reservation.counts
    )
    writer = core.writer
    core.services.at("model.before_request")
    core.held[key] = requested
    if reservation.is_limited:

        async def attempt() -> None:
            await writer.commit(assembled.event, requested, blobs=assembled.blobs, refusable=True)

        await when_it_fits(core, attempt)
    else:
        await writer.commit(assembled.event, requested, blobs=assembled.blobs)
    core.services.at("model.requested")
    return reservation


async def _tools_of(
    core: RunCore, call: ModelCall, recorded: Recorded | None
) -> tuple[ToolSchema, ...]:
    head = await _recorded_head(core, recorded)
    then: tuple[ToolSchema, ...] = ()
    if head is not None and head.tools is not None:
        then = await core.decoded(head.tools, decode_tools)
    if not call.visible_tools:
        return _tool_schemas(core, call.tools, {schema.name: schema for schema in then})
    return core.visible_tools() if head is None else then


async def _recorded_head(core: RunCore, recorded: Recorded | None) -> Head | None:
    """The stable part of a recorded request, if there is one."""
    if recorded is None or recorded.context is None:
        return None
    return await core.decoded(recorded.context.head, decode_head)


async def _max_output_tokens(core: RunCore, model: str, recorded: Recorded | None) -> int:
    """What was recorded, since the tables of windows may have changed; else the model's own."""
    head = await _recorded_head(core, recorded)
    if head is not None and (told := head.params.get("max_output_tokens")) is not None:
        return told
    return core.services.window_of(model).max_output_tokens


def _tool_schemas(
    core: RunCore, tools: Sequence[str] | Sequence[ToolSchema], then: Mapping[str, ToolSchema]
) -> tuple[ToolSchema, ...]:
    """Schemas of the tools that are named: as they were then, or as they are now."""
    found: list[ToolSchema] = []
    for tool in tools:
        if isinstance(tool, ToolSchema):
            found.append(tool)
        elif tool in then:
            found.append(then[tool])
        elif tool in core.tools:
            found.append(core.tools[tool].schema)
        else:
            raise errors.InvalidRequest(
                f"no tool {tool!r} to offer", expected=", ".join(core.tools) or "a registered tool"
            )
    return tuple(found)


def _recorded_model(recorded: Recorded | None) -> str:
    assert recorded is not None
    return cast(ev.ModelRequested, recorded.request).model


# Replay


async def _compare(
    core: RunCore, recorded: Recorded, assembled: Assembled, call: ModelCall
) -> Assembled:
    """Hold a recorded request against what the code asks for now, and act by the replay policy."""
    context = recorded.context
    name = _recorded_model(recorded)
    asked = call.model if call.model == name else _canonical(core, call.model, name)
    same = asked == name or recorded.inherited
    if context is None or (context.request == assembled.event.request and same):
        return assembled
    section = "model"
    renderer = await Renderer.open(core.services, core.tenant.id, core.run_id)
    old = await renderer.render_event(context)
    if asked == name:
        section = await _first_difference(renderer, context, old, assembled)
    if not recorded.inherited and core.replay == "strict":
        raise ReplayMismatch(
            f"step {recorded.key} of {core.run_id} asks for something else than was recorded",
            expected="the recorded request",
            got=f"a request that differs first in section {section!r}",
            hint="Run the code that recorded it, or open the run with replay='allow_prompt_drift'.",
            section=section,
            key=recorded.key,
        )
    if not recorded.inherited and core.actor is not None:
        core.actor.note(ev.PromptDrifted(key=recorded.key, section=section))
    core.unkeep(assembled.blobs)
    core.rebase()
    return _with_request(assembled, old)


def _with_request(assembled: Assembled, request: ModelRequest) -> Assembled:
    """The recorded request stands: what was asked before a crash is what is asked again."""
    return Assembled(
        request=request, event=assembled.event, blobs=[], size_bytes=assembled.size_bytes
    )


def _canonical(core: RunCore, asked: str, recorded: str) -> str:
    try:
        return core.services.resolve(asked)[0]
    except ArtelierError:
        # Replaying needs no provider: a bare name still counts as the recorded one.
        return recorded if recorded.endswith(f":{asked}") else asked


async def _first_difference(
    renderer: Renderer, context: ev.ContextAssembled, old: ModelRequest, assembled: Assembled
) -> str:
    new = assembled.request
    for field in ("params", "tools", "output_schema"):
        if getattr(old, field) != getattr(new, field):
            return field
    manifest = await renderer.manifest(context.key)
    recorded = [(part.tag, canonical(await renderer.content(part))) for part in manifest.parts]
    tags = [tag for tag, _ in recorded]
    position, now = 0, list[tuple[str, bytes]]()
    for index, part in enumerate(manifest.parts):
        count = len(await renderer.content(part)) if not part.attach else 0
        end = position + count if index < len(manifest.parts) - 1 else len(new.messages)
        now.append((tags[index], canonical(new.messages[position:end])))
        position = end
    return differing_part([item for item in recorded if item[1] != b'""'], now)


async def _replayed(core: RunCore, recorded: Recorded, call: ModelCall) -> ModelResult:
    outcome = recorded.outcome
    if isinstance(outcome, ev.ModelFailed):
        await raise_recorded(core, outcome.code, outcome.message)
    assert isinstance(outcome, ev.ModelCompleted)
    reply = decode_reply(await core.load(outcome.reply))
    return _result(core, recorded.key, reply, call.output, cost=outcome.cost, replayed=True)


def _result(
    core: RunCore, key: str, reply: ModelReply, output: Any, *, cost: int, replayed: bool
) -> ModelResult:
    return ModelResult(
        output=value_of(reply, output), text=reply.text, tool_calls=reply.tool_calls,
        usage=reply.usage, cost_microusd=cost, replayed=replayed,
        manifest_id=f"{core.run_id}:{key}", finish_reason=reply.finish_reason, key=key, reply=reply,
    )  # fmt: skip


# The call


async def _attempts(core: RunCore, ready: _Ready) -> ModelReply:
    """Call until a reply comes; passing failures are retried. Errors: the last failure, recorded."""
    for attempt in range(1, core.policy.attempts_max + 1):
        try:
            return await _call(core, ready)
        except TransientError as error:
            if attempt == core.policy.attempts_max:
                await _failed(core, ready, error)
            wait_s = _backoff(core, attempt, error)
            core.writer.note(
                ev.ModelAttempted(
                    key=ready.key, attempt=attempt, code=error.code, wait_ms=int(wait_s * 1000)
                )
            )
            await core.clock.sleep(wait_s)
            await _boundary_in_call(core, ready)
        except ArtelierError as error:
            await _failed(core, ready, error)
        except asyncio.CancelledError:
            await _interrupted(core, ready, Usage())
        except Exception as error:  # a port of the user's: record it, then let them see it
            await _failed(core, ready, error)
    raise AssertionError("unreachable: the last attempt returns or raises")


async def _boundary_in_call(core: RunCore, ready: _Ready) -> None:
    """Obey between attempts; a run that ends here gives its reservation back first."""
    try:
        await core.boundary()
    except BaseException:
        _note_failure(core, ready, family="cancelled", code="cancelled", usage=Usage())
        raise


def _backoff(core: RunCore, attempt: int, error: TransientError) -> float:
    told = error.retry_after_s
    if told is not None:
        return min(max(told, 0.0), 120.0)
    return min(core.policy.backoff_s * 2 ** (attempt - 1), BACKOFF_MAX_S)


async def _call(core: RunCore, ready: _Ready) -> ModelReply:
    task = asyncio.current_task()
    assert task is not None
    core.in_flight[task] = True
    try:
        async with asyncio.timeout(ready.call.timeout_s or core.policy.model_timeout_s):
            reply = await ready.port.complete(ready.request)
    except TimeoutError:
        raise errors.ModelTimeout(
            f"model {ready.request.model} gave no reply in time",
            expected=f"at most {ready.call.timeout_s or core.policy.model_timeout_s} s",
        ) from None
    finally:
        core.in_flight.pop(task, None)
    core.services.at("model.replied")
    return _checked(core, reply)


def _checked(core: RunCore, reply: object) -> ModelReply:
    if not isinstance(reply, ModelReply):
        raise errors.ModelReplyBroken(
            "the model port returned no ModelReply", got=type(reply).__name__
        )
    size = len(reply.text)
    if size > core.policy.reply_bytes_max:
        raise errors.ModelRefusedCall(
            "the model's reply is too large; it was not kept",
            expected=f"at most {core.policy.reply_bytes_max} characters", got=size,
            hint="Lower max_output_tokens.",
        )  # fmt: skip
    return reply


def _recorded_reply(core: RunCore, ready: _Ready, reply: ModelReply) -> ModelResult:
    """Note the reply and its cost; it is durable at the latest when the run's code next waits."""
    ref, blobs = core.keep_json(reply)
    settlement = settle(ready.reservation, usage=reply.usage)
    usage = reply.usage
    core.held.pop(ready.key, None)
    core.writer.note(
        ev.ModelCompleted(
            key=ready.key, reply=ref, input_tokens=usage.input_tokens,
            cached_input_tokens=usage.cached_input_tokens, output_tokens=usage.output_tokens,
            cost=settlement.cost, unpriced=ready.reservation.price is None, **settlement.moves,
        ),
        blobs,
    )  # fmt: skip
    core.came_back()
    if settlement.overrun:
        core.overrun = settlement.overrun
    return _result(core, ready.key, reply, ready.call.output, cost=settlement.cost, replayed=False)


async def _failed(core: RunCore, ready: _Ready, error: Exception) -> NoReturn:
    code = code_of(error)
    ref, blobs = core.keep_json(words(error))
    settlement = settle(ready.reservation, usage=Usage(), cost=0)
    core.held.pop(ready.key, None)
    await core.writer.commit(
        ev.ModelFailed(
            key=ready.key, family=family_of(error), code=code, message=ref, **settlement.moves
        ),
        blobs=blobs,
    )
    core.came_back()
    raise error


def _note_failure(
    core: RunCore, ready: _Ready, *, family: str, code: str, usage: Usage, cost: int = 0
) -> None:
    settlement = settle(ready.reservation, usage=usage, cost=cost)
    core.held.pop(ready.key, None)
    core.writer.note(
        ev.ModelFailed(key=ready.key, family=family, code=code, cost=cost, **settlement.moves)
    )
    core.writer.flush()
    core.came_back()


async def _interrupted(core: RunCore, ready: _Ready, usage: Usage) -> NoReturn:
    """The call was cancelled, by a command or from outside; a provider may bill what it had begun."""
    cost = _begun_cost(ready)
    _note_failure(core, ready, family="cancelled", code="cancelled", usage=usage, cost=cost)
    if core.stopping or core.cancelled_reason is not None:
        task = asyncio.current_task()
        if task is not None:
            task.uncancel()
        core.stopping = False
        await core.boundary()
        raise RunStopped(core.run_id, reason="stopped")
    raise asyncio.CancelledError


def _begun_cost(ready: _Ready) -> int:
    """What a provider bills for a call that was cut off before its usage was known: its input, at most."""
    price = ready.reservation.price
    if price is None or not ready.reservation.amount:
        return 0
    from artelier.tokens import cost_microusd, estimate_tokens

    usage = Usage(input_tokens=estimate_tokens(ready.request.canonical()))
    return min(cost_microusd(price, usage), ready.reservation.amount)


async def _streamed(
    core: RunCore, ready: _Ready, pieces: list[str]
) -> AsyncIterator[Delta | ModelReply]:
    """Deltas and the final reply; a stop keeps what came. Errors: recorded like those of a plain call."""
    assert isinstance(ready.port, StreamingModelPort)
    iterator = aiter(ready.port.stream(ready.request))
    try:
        while True:
            item = await _piece_or_cut(core, ready, iterator, pieces)
            if isinstance(item, ModelReply):
                yield _checked(core, item)
                return
            pieces.append(item.text)
            yield item
            if _spent(ready, pieces):
                yield _cut_reply(ready, pieces)
                return
    finally:
        # A cut stream must end its HTTP call now, not when it is collected as garbage.
        if (aclose := getattr(iterator, "aclose", None)) is not None:
            await aclose()


async def _piece_or_cut(
    core: RunCore,
    ready: _Ready,
    iterator: AsyncIterator[Delta | ModelReply],
    pieces: list[str],
) -> Delta | ModelReply:
    try:
        return await _next_piece(core, ready, iterator)
    except TimeoutError:
        await _failed(core, ready, errors.ModelTimeout("the stream brought nothing for too long"))
    except ArtelierError as error:
        await _failed(core, ready, error)
    except asyncio.CancelledError:
        if not core.stopping and core.cancelled_reason is None:
            await _interrupted(core, ready, Usage())
        if (task := asyncio.current_task()) is not None:
            task.uncancel()
        core.stopping = False
        return _cut_reply(ready, pieces)


async def _next_piece(
    core: RunCore, ready: _Ready, iterator: AsyncIterator[Delta | ModelReply]
) -> Delta | ModelReply:
    task = asyncio.current_task()
    assert task is not None
    core.in_flight[task] = True
    try:
        timeout_s = ready.call.timeout_s or core.policy.model_timeout_s
        return await asyncio.wait_for(anext(iterator), timeout_s)
    except StopAsyncIteration:
        raise errors.ModelReplyBroken("the stream ended without a reply") from None
    finally:
        core.in_flight.pop(task, None)


def _spent(ready: _Ready, pieces: list[str]) -> bool:
    """Whether a stream brought more pieces than the tokens that are reserved: a piece has one or more."""
    allowed = int(ready.request.params["max_output_tokens"])
    return len(pieces) > allowed


def _cut_reply(ready: _Ready, pieces: list[str]) -> ModelReply:
    """What came before a stream was cut, with its cost by estimate."""
    from artelier.tokens import estimate_tokens

    text = "".join(pieces)
    usage = Usage(
        input_tokens=estimate_tokens(ready.request.canonical()), output_tokens=estimate_tokens(text)
    )
    return ModelReply(text=text, usage=usage, finish_reason="cut")
