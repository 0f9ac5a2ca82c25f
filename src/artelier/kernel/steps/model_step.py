"""One model step: the prompt is recorded and paid for in advance, the reply is recorded and settled.

Vectors from a provider are model steps too: allowed, timed, paid for and recorded like any other call. A
tool that asks an embedder does it below its own step, under `<key>/embed/<digest of the texts>`: one that
is entered again after a crash gets the vectors that were paid for.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractContextManager, aclosing, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256
from typing import Any, cast

import msgspec

from artelier.errors import ArtelierError, InvalidRequest, NotGranted, OutputInvalid
from artelier.kernel import events as ev
from artelier.kernel.budget import (
    MediaSize,
    OutputRoom,
    claims_for,
    output_room,
    price_for,
    reservation_of,
    source_for,
    take_turn,
)
from artelier.kernel.history.drift import untake
from artelier.kernel.history.step_history import Recorded
from artelier.kernel.policy import check_seconds
from artelier.kernel.prompt.manifest import (
    Head,
    canonical,
    comparable,
    decode_head,
    decode_messages,
    decode_reply,
    decode_tools,
    encode_json,
)
from artelier.kernel.prompt.renderer import (
    MAX_OUTPUT,
    Assembled,
    FixedPart,
    Prompt,
    Renderer,
    assemble,
    differing_part,
    prepare_plain,
    prompt_of,
    settle_numbers,
)
from artelier.kernel.prompt.request import (
    MeasuredRequest,
    Shape,
    body_hash,
    is_same_request,
    joined_tag,
    with_joined,
)
from artelier.kernel.run.context import RunCore
from artelier.kernel.run.delivery import at_step
from artelier.kernel.run.pending_steps import AtWork, ask_apart
from artelier.kernel.run.status import ModelResult
from artelier.kernel.steps.call_media import CallMedia, prepare_media
from artelier.kernel.steps.failures import raise_recorded
from artelier.kernel.steps.model_call import (
    TOKENS_MAX,
    ModelCall,
    Ready,
    asked_before,
    call_until_reply,
    result,
)
from artelier.kernel.steps.model_request import ask
from artelier.kernel.steps.model_stream import stream_reply
from artelier.kernel.steps.structured_output import fit_reply, schema_of
from artelier.kernel.tool_calls.tool_list import note_tools
from artelier.ports.memory import Ask
from artelier.ports.model import (
    ChatMessage,
    Delta,
    ModelPort,
    ModelReply,
    ModelRequest,
    Price,
    Sending,
    StreamingModelPort,
    ToolSchema,
    Usage,
)
from artelier.ports.model_params import check_params
from artelier.ports.telemetry import ModelFacts, ModelSpan
from artelier.tokens.model_info import Window, canonical_name


async def model_step(core: RunCore, call: ModelCall, *, key: str | None) -> ModelResult:
    """Errors: see `Run.step_model`."""
    async with at_step(core, key, "model") as step:
        ready = await _ready(core, call, step)
        return ready if isinstance(ready, ModelResult) else await call_until_reply(core, ready)


async def exact_model_step(core: RunCore, call: ModelCall, *, key: str) -> ModelResult:
    """A model step under its full key, of whoever has a step at work. Errors: see `Run.step_model`."""
    ready = await _prepare(core, call, key)
    return ready if isinstance(ready, ModelResult) else await call_until_reply(core, ready)


async def stream_step(core: RunCore, call: ModelCall, step: AtWork) -> AsyncGenerator[Delta | ModelResult]:
    """Deltas as they come, then the result. A stream that a command cuts keeps what came, with its cost."""
    try:
        ready = await _ready(core, call, step)
    except _StreamCut as cut:
        async for piece in _pieces_again(core, cut.recorded, step):
            yield piece
        return
    if isinstance(ready, Ready) and isinstance(ready.port, StreamingModelPort):
        async with aclosing(stream_reply(core, ready)) as items:
            async for item in items:
                yield item
        return
    whole = ready if isinstance(ready, ModelResult) else await call_until_reply(core, ready)
    # A reply without text, such as one that only calls tools, brought no piece when it was streamed.
    pieces = [Delta(text=whole.text)] if whole.text else []
    is_early = core.delivery.is_before_leaving(step)  # a reader compares how two of them begin
    for piece in pieces if is_early else ():
        yield piece
    await core.delivery.turn(step)
    for piece in () if is_early else pieces:
        yield piece
    yield whole


class _StreamCut(Exception):
    """A recorded stream that its reader did not read to the end."""

    def __init__(self, recorded: Recorded) -> None:
        super().__init__(recorded.key)
        self.recorded = recorded


async def _pieces_again(
    core: RunCore, recorded: Recorded, step: AtWork
) -> AsyncGenerator[Delta | ModelResult]:
    """The pieces that a reader was given before he left the stream, or was cancelled."""
    core.delivery.note_asked(recorded)
    outcome = cast(ev.Cut, recorded.outcome)
    pieces: list[str] = await core.load_json(outcome.came) or []
    for number, piece in enumerate(pieces, 1):
        if outcome.left and number == len(pieces):
            await core.delivery.due(step)  # he leaves with this one, and may do so because of another step
        yield Delta(text=piece)
    await core.delivery.until_cancelled(recorded)


async def _ready(core: RunCore, call: ModelCall, step: AtWork) -> Ready | ModelResult:
    return await ask_apart(core, step, lambda key: _prepare(core, call, key))


async def _prepare(core: RunCore, call: ModelCall, key: str) -> Ready | ModelResult:
    """The recorded result, or a request that is durable and paid for in advance."""
    recorded = await core.find_recorded(key, "model")
    # A fork asks anew, with a hold of its own, what its origin left unanswered.
    recorded = None if recorded is not None and recorded.inherited and recorded.outcome is None else recorded
    if call.port is None and (recorded is None or not recorded.inherited):
        model = core.model_override or core.replacement_of(call.model)
        call = call if model == call.model else replace(call, model=model)
    schema = schema_of(call.output, is_recorded=recorded is not None)
    tools = await _tools_of(core, call, recorded)
    with _keep_found(core):
        await prepare_plain(core, call.messages)
        prompt = prompt_of(core, call.messages, key=key)
    replaying = recorded is not None and recorded.status in ("completed", "failed", "cancelled")
    name, port = (_recorded_model(recorded), None) if replaying else await _begin(core, call)
    call = _with_run_params(core, call)
    with _keep_found(core):
        prompt = await _settled(core, prompt, recorded, tools, schema)
        draft = await _draft(
            core, call, key, prompt, recorded, tools=tools, schema=schema, name=name, port=port
        )
    if recorded is not None and recorded.status != "open":
        draft.assembled = await _compare(core, recorded, draft.assembled, call)
        if replaying:
            replayed = await _replay(core, recorded, call)
            return replace(replayed, max_output_tokens=draft.assembled.size.output_max)
    if recorded is not None:
        core.delivery.note_asked(recorded)
    assert port is not None
    price, assembled = draft.price, draft.assembled
    is_asked = recorded is not None and recorded.status == "requested"
    if is_asked:
        # Before a crash: the same request, and its hold still stands.
        source = source_for(core)
        reservation = reservation_of(core.held[key], price=price, source=source, size=assembled.size)
        await take_turn(core, key, claims_for(core, name, assembled.size.tokens_max))
    else:
        asking = ask(core, assembled, model=name, price=price, room=draft.room, aside=call.aside)
        assembled, reservation = await asking
    ready = Ready(
        key=key,
        call=call,
        assembled=assembled,
        model=name,
        port=draft.media.port_for(port),
        reservation=reservation,
        span=_span(core, key, name, assembled),
        sent=Sending(partial(body_hash, core.key)),  # what is sent outlives its run, in connections
        not_sent=draft.media.not_sent,
    )
    return await asked_before(core, ready) if is_asked else ready


def _keep_found(core: RunCore) -> AbstractContextManager[None]:
    """Keep what is found of personal data while a prompt is made. Nothing may wait for somebody meanwhile."""
    return nullcontext() if core.pii is None else core.pii.keep_found()


@dataclass(slots=True)
class _UnpaidRequest:
    """A request that nobody has paid for yet."""

    assembled: Assembled
    price: Price | None
    room: OutputRoom | None
    media: CallMedia


async def _draft(
    core: RunCore,
    call: ModelCall,
    key: str,
    prompt: Prompt,
    recorded: Recorded | None,
    *,
    tools: tuple[ToolSchema, ...],
    schema: Any,
    name: str,
    port: ModelPort | None,
) -> _UnpaidRequest:
    """Make the request of a call; without `port` it is only replayed."""
    if port is not None:
        check_params(call.params)
        encode_json((call.params, tools, schema))
    price = None if port is None else price_for(core, name, port, tier=call.params.get("service_tier"))
    media = await prepare_media(core, prompt.parts, model=name, port=port, price=price, kept=call.media)
    params, room = await _with_output_limit(core, call, name, recorded, price=price)
    _check_output_limit(params)
    if port is not None:
        for conversation in core.fresh.values():
            conversation.check()
    again = recorded if recorded is not None and recorded.status != "open" else None
    if again is not None and port is not None:
        core.held[key] = cast(ev.ModelRequested, again.request)
    assembled = assemble(
        core,
        prompt,
        key=key,
        model=name,
        params=params,
        tools=tools,
        output_schema=schema,
        recorded=again.context if again is not None else None,
        room=room,
        media=media.size,
    )
    assembled.blobs.extend(blob for one in call.media for blob in one.blobs)
    return _UnpaidRequest(assembled, price, room, media)


def _span(core: RunCore, key: str, model: str, assembled: Assembled) -> ModelSpan | None:
    """Return what a watcher is told of a call; None if nobody watches."""
    telemetry = core.services.telemetry
    if telemetry is None:
        return None
    return telemetry.model_call(core, ModelFacts(key=key, model=model, request=assembled.request))


async def _settled(
    core: RunCore, prompt: Prompt, recorded: Recorded | None, tools: tuple[ToolSchema, ...], schema: Any
) -> Prompt:
    """Return a prompt whose messages have their numbers; its large texts, tools and schema are searched."""
    if recorded is None or recorded.status == "open" or recorded.repeated:
        prompt = await settle_numbers(core, prompt)
    if core.pii is not None:
        await core.pii.prepare_foreign(comparable(tools), comparable(schema))
        await core.pii.prepare_prompt(prompt.parts)
    return prompt


async def _begin(core: RunCore, call: ModelCall) -> tuple[str, ModelPort]:
    """Return the model of a call that is made now, once the run may go on with it."""
    if call.timeout_s is not None:
        check_seconds("timeout_s", call.timeout_s)
    await core.boundary()
    note_tools(core)
    return granted_model(core, call.model, call.port)


def _with_run_params(core: RunCore, call: ModelCall) -> ModelCall:
    """Return a call with the parameters of its run where it has none of its own.

    The run's `max_output_tokens` is a ceiling: money that is short, or the call, may ask for less.
    """
    if not core.params or call.port is not None:
        return call
    own = dict(core.params)
    ceiling, timeout_s = own.pop(MAX_OUTPUT, None), own.pop("timeout_s", None)
    limits = [limit for limit in (ceiling, call.output_tokens_max) if limit is not None]
    return replace(
        call,
        params={**own, **call.params},
        timeout_s=timeout_s if call.timeout_s is None else call.timeout_s,
        output_tokens_max=min(limits, default=None),
    )


def granted_model(core: RunCore, asked: str, own: ModelPort | None = None) -> tuple[str, ModelPort]:
    """Canonical name and port of a model that may be called; `own` stands in for a registered one.

    Errors: `NotGranted`, before anybody looks for its key; `UnknownModel`, `MissingKey`.
    """
    name = canonical_name(asked)
    if not core.policy.allows_model(name):
        raise NotGranted(
            f"model {name!r} is not allowed here",
            expected=", ".join(core.policy.models or ()) or "no model at all",
            hint="The list is Policy(models=...), or `allow` under [model] in artelier.toml.",
        )
    name, port = (name, own) if own is not None else core.services.model(asked)
    if not core.may_use_model(name):
        raise NotGranted(f"model {name!r} is not granted to this run", expected=", ".join(core.grants))
    return name, port


async def _tools_of(core: RunCore, call: ModelCall, recorded: Recorded | None) -> tuple[ToolSchema, ...]:
    head = await _recorded_head(core, recorded)
    then: tuple[ToolSchema, ...] = ()
    if head is not None and head.tools is not None:
        then = await core.load_decoded(head.tools, decode_tools)
    if not call.visible_tools:
        return _tool_schemas(core, call.tools, {schema.name: schema for schema in then})
    return core.offered_tools() if head is None else then


async def _recorded_head(core: RunCore, recorded: Recorded | None) -> Head | None:
    """The stable part of a recorded request, if there is one."""
    if recorded is None or recorded.context is None:
        return None
    return await core.load_decoded(recorded.context.head, decode_head)


async def _with_output_limit(
    core: RunCore, call: ModelCall, model: str, recorded: Recorded | None, *, price: Price | None
) -> tuple[dict[str, Any], OutputRoom | None]:
    """Return the parameters with how much may be written, and the room that decides where nobody says it.

    What was recorded holds: tables and money may be others now.
    """
    params = dict(call.params)
    if MAX_OUTPUT in params:
        return params, None
    head = await _recorded_head(core, recorded)
    if head is not None and (told := head.params.get(MAX_OUTPUT)) is not None:
        return {**params, MAX_OUTPUT: told}, None
    limit = _output_limit(core.services.window_of(model), after_cut=call.after_cut)
    if call.output_tokens_max is not None:
        limit = min(limit, call.output_tokens_max)
    room = await output_room(core, model=model, price=price, limit=limit, after_cut=call.after_cut)
    return {**params, MAX_OUTPUT: limit}, room


def _output_limit(window: Window, *, after_cut: int) -> int:
    """Return how much a model can write. Where that is only assumed, a cut answer shows that it is more.

    At most half of its window, so that the prompt has room.
    """
    if not window.is_assumed or after_cut < window.max_output_tokens:
        return window.max_output_tokens
    return max(window.max_output_tokens, min(2 * after_cut, window.context_tokens // 2))


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
        elif (tool := core.replacement_of(tool)) in core.tools:
            found.append(core.tools[tool].schema)
        else:
            raise InvalidRequest(
                f"no tool {tool!r} to offer", expected=", ".join(core.tools) or "a registered tool"
            )
    return tuple(found)


def _check_output_limit(params: Mapping[str, Any]) -> None:
    limit = params[MAX_OUTPUT]
    if not isinstance(limit, int) or isinstance(limit, bool) or not 0 < limit <= TOKENS_MAX:
        raise InvalidRequest(
            "max_output_tokens", expected="a positive number of tokens", got=repr(limit)[:80]
        )


def _recorded_model(recorded: Recorded | None) -> str:
    assert recorded is not None
    return cast(ev.ModelRequested, recorded.request).model


# Replay


async def _compare(core: RunCore, recorded: Recorded, assembled: Assembled, call: ModelCall) -> Assembled:
    """Hold a recorded request against what the code asks for now, and act by the replay policy."""
    context = recorded.context
    name = _recorded_model(recorded)
    asked = call.model if call.model == name else _canonical(core, call.model, name)
    same = asked == name or recorded.inherited
    if context is None or (same and is_same_request(context.request, assembled.measured, core.key)):
        return assembled
    section = "model"
    renderer = await Renderer.open(core.services, core.tenant.id, core.run_id)
    old = await renderer.render_event(context)
    if asked == name:
        section = await _first_difference(renderer, context, old, assembled)
    if recorded.must_match(core.replay):
        untake(core)
        raise core.mismatch(recorded.key, section)
    if not recorded.inherited and core.actor is not None:
        core.actor.note(ev.PromptDrifted(key=recorded.key, section=section))
    core.rebase()
    return _with_request(context, old, assembled.media)


def _with_request(context: ev.ContextAssembled, request: ModelRequest, media: MediaSize) -> Assembled:
    """The recorded request stands: what was asked before a crash is what is asked again."""
    return Assembled.of(MeasuredRequest.of(request), context, [], media)


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
    parts = (await renderer.manifest(context.key)).parts
    contents = [await renderer.content(part) for part in parts]
    shapes = [
        Shape.of(part.tag, content, joined=part.joined) for part, content in zip(parts, contents, strict=True)
    ]
    recorded, now = list[tuple[str, bytes]](), list[tuple[str, bytes]]()
    position = 0
    for index, shape in enumerate(shapes):
        if shape.joined:
            continue  # it is compared with the message that it joins
        group = with_joined(shapes, index)
        end = position + shape.own if index + len(group) < len(shapes) else len(new.messages)
        there, here = old.messages[position:end], new.messages[position:end]
        if len(group) > 1:
            same = there[:-1] == here[:-1] and bool(there and here)
            tag = joined_tag(group, there[-1], here[-1]) if same else shape.tag
            recorded.append((tag, comparable(there)))
        else:
            tag = shape.tag
            recorded.append((tag, comparable(contents[index])))
        now.append((tag, comparable(here)))
        position = end
    return differing_part([item for item in recorded if item[1] != b'""'], now)


async def _replay(core: RunCore, recorded: Recorded, call: ModelCall) -> ModelResult:
    outcome = recorded.outcome
    if isinstance(outcome, ev.Cut) and call.is_streamed:
        raise _StreamCut(recorded)
    if isinstance(outcome, ev.Cut):
        await core.delivery.until_cancelled(recorded)
    core.delivery.note_asked(recorded)
    if (telemetry := core.services.telemetry) is not None:
        code = outcome.code if isinstance(outcome, ev.ModelFailed) else ""
        if isinstance(outcome, ev.ModelCompleted) and outcome.invalid:
            code = OutputInvalid.code
        telemetry.step_replayed(core, operation="chat", key=recorded.key, code=code)
    if isinstance(outcome, ev.ModelFailed):
        await raise_recorded(core, outcome.code, outcome.message)
    assert isinstance(outcome, ev.ModelCompleted)
    reply = decode_reply(await core.load(outcome.reply))
    if outcome.misfit is not None:  # in the same words, whatever form of the schema is at hand now
        raise OutputInvalid(await core.load_json(outcome.misfit), reply=reply)
    # Where prompts may drift, the schema may be another than the recorded one.
    is_same = core.replay != "allow_prompt_drift"
    fit = await fit_reply(reply, call.output, is_recorded=is_same)
    if fit.misfit is not None:
        raise fit.misfit
    output = fit.output
    return result(core, recorded.key, reply, output, cost=outcome.cost, replayed=True)


DIGITS = 7
"""Significant digits of a recorded number: as many as 32 bits have."""


class RunPayer:
    """Pays for the embedders that are asked in one step of a run. `aside()` holds while one answers."""

    def __init__(self, core: RunCore, key: str, aside: Callable[[], AbstractContextManager[None]]) -> None:
        self._core = core
        self._key = key
        self._aside = aside

    async def vectors(self, model: str, texts: Sequence[str], ask: Ask) -> list[list[float]]:
        """See `Payer.vectors`."""
        # A task of its own: a command or the run's time then cuts off this call, not the tool around it.
        step = asyncio.ensure_future(embed_step(self._core, self._key, model, texts, ask))
        with self._aside(), self._core.calls.handed_over():
            return await step


async def embed_step(
    core: RunCore, key: str, model: str, texts: Sequence[str], ask: Ask
) -> list[list[float]]:
    """Vectors of texts as a step of a run. Errors: those of `Run.step_model`; the embedder's own."""
    content = msgspec.json.encode(list(texts)).decode()
    said = canonical((ChatMessage(role="user", content=content),))
    if core.pii is not None:
        said = core.clean(said, foreign=True)
    # Part of no conversation: what is looked for is nothing that was said.
    prompt = Prompt(parts=(FixedPart(tag="texts", messages=decode_messages(said)),))
    call = ModelCall(model=model, messages=prompt, params={"max_output_tokens": 1}, port=_Port(ask))
    ref, _ = core.keep(said)  # a keyed name: nobody who guesses a text finds it by its step
    mark = sha256(f"{model}\n{ref}".encode()).hexdigest()[:16]
    result = await exact_model_step(core, call, key=f"{key}/embed/{mark}")
    if core.actor is not None:
        core.actor.flush()  # durable no later than what its caller stores next
    return result.output


class _Port:
    """An embedder as the kernel calls a model: a JSON list of texts in, their vectors as the output."""

    price = None

    def __init__(self, ask: Ask) -> None:
        self._ask = ask

    async def complete(self, request: ModelRequest, /) -> ModelReply:
        said = request.messages[-1].text
        vectors, tokens = await self._ask(msgspec.json.decode(said, type=list[str]))
        output = [[float(f"{number:.{DIGITS}g}") for number in one] for one in vectors]
        return ModelReply(output=output, usage=Usage(input_tokens=tokens))
