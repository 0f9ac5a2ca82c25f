"""The kind `llm`: one auxiliary question to a model, with the images, sounds, PDFs and texts that it shows.

Media stand in messages as those of agents do: what words came with and what artifacts hold beside the
question, what tools have shown behind it. Limits and errors are those of every model call.
Read next: `kernel/steps/call_media.py`, `loops/cycle.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import chain
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import ConfigDict, Field

from artelier.artifacts.ref import Ref
from artelier.errors import InvalidRequest, ModelRefusedCall, ModelTimeout, OutputInvalid, PriceUnknown
from artelier.kernel.budget import CallSize, price_for, reserve
from artelier.kernel.prompt.manifest import FixedPart, encode_json, with_tail
from artelier.kernel.run.context import RunCore
from artelier.kernel.run.status import ModelResult
from artelier.kernel.steps.call_media import prepare_media
from artelier.kernel.steps.failures import FAILURES, MODELS_MAX, ask_in_turn, with_fallbacks
from artelier.kernel.steps.json_schema import check_schema
from artelier.kernel.steps.model_call import is_billed
from artelier.kernel.steps.model_step import granted_model
from artelier.kernel.steps.structured_output import fit_reply
from artelier.loops.cycle import media_pieces, media_sections
from artelier.money import MICRO, format_usd
from artelier.operations.graph.artifact_inclusion import wording
from artelier.operations.kinds.contract import (
    SHOWN_CHARS,
    OperationCall,
    OperationFailed,
    OperationKind,
    OperationResult,
    Problem,
    make_found,
    mistakes,
    parse_json,
    read_artifact,
    render_template,
)
from artelier.operations.profile.definition import ID, TEMPLATE_CHARS_MAX, ArtifactRef, Form, Params
from artelier.ports.media import ATTACHMENTS_MAX, medium_of
from artelier.ports.model import ChatMessage, ModelPort, ModelReply, ModelRequest, Part, Price, Usage
from artelier.ports.model_params import check_params
from artelier.tokens import cost_microusd
from artelier.tokens.model_info import canonical_name


class QuestionMedia(Form):
    """The media that a question shows; none unless said. A model that takes none such is not asked."""

    words: bool = False
    """What the person's newest words came with; of a step of an agent, what its task came with."""
    deps: tuple[Annotated[str, Field(pattern=ID)], ...] = Field(default=(), max_length=ATTACHMENTS_MAX)
    """Operations that this one depends on: what their tools have shown. What the model does not take is left
    out, and the question says why."""
    artifacts: tuple[ArtifactRef, ...] = Field(default=(), max_length=ATTACHMENTS_MAX)
    """Refs of artifacts that hold an image, a sound, a PDF or a text."""


def media_problems(media: QuestionMedia) -> Iterable[Problem]:
    for index, ref in enumerate(media.artifacts):
        try:
            Ref.parse(ref)
        except InvalidRequest as error:
            yield Problem(path=f"media.artifacts[{index}]", code="bad_ref", message=str(error))


def media_templates(media: QuestionMedia) -> Mapping[str, str]:
    """Return templates that read what is shown of other operations, by path.

    What an operation has shown is read like its value: of a dependency alone, and where prompts may show it.
    """
    return {f"media.deps[{index}]": f"{{{{ deps['{id_}'] }}}}" for index, id_ in enumerate(media.deps)}


async def media_beside(call: OperationCall[Any], media: QuestionMedia) -> list[Part]:
    """Return the pieces of the message that asks: what words came with, then artifacts.

    Errors: those of reading artifacts; `InvalidRequest` for one that holds no medium, `BrokenMedium`.
    """
    shown = [one.part for one in call.scope.attachments] if media.words else []
    for number, ref in enumerate(media.artifacts, 1):
        shown.append(await _attach(call, ref, key=f"attach-{number}"))
    return shown


async def _attach(call: OperationCall[Any], ref: str, *, key: str) -> Part:
    async def read() -> bytes:
        content = (await read_artifact(call, ref)).content
        if isinstance(content, str):
            return content.encode()
        if not isinstance(content, bytes):
            raise InvalidRequest(
                "this artifact can be shown to no model",
                expected="an image, a sound, a PDF or a text",
                got=f"{ref}: JSON",
                hint="Name it in the prompt, or read it with a tool.",
            )
        return content

    return await call.run.attach(read, key=key)


async def media_behind(
    call: OperationCall[Any], media: QuestionMedia, *, model: str, shown: Sequence[Part]
) -> list[ChatMessage]:
    """Return the message behind the one that asks, with what tools have shown; none if they showed nothing.

    `shown`: what stands beside the question, which counts towards the most that a call takes.
    """
    found = [named for id_ in media.deps for named in call.scope.shown_in_prompt(id_)]
    pieces = await media_pieces(call.run, found, model=model, shown=map(medium_of, shown), key="media")
    return [message for section in media_sections(pieces) for message in section.messages]


RETRIES_MAX = 3
REPLY_CHARS_MAX = 32_768
"""Of a reply that is shown to its model again, so that it can be put right."""

Stop = Annotated[str, Field(min_length=1, max_length=200)]
ModelName = Annotated[str, Field(min_length=1, max_length=200)]


class AskingParams(Params):
    """The parameters of a question to a model."""

    model: str | None = Field(default=None, min_length=1, max_length=200)
    """None: the chat's."""
    fallbacks: tuple[ModelName, ...] = Field(default=(), max_length=MODELS_MAX - 1)
    """Models that are asked in turn when `model` fails, each as a call of its own. One that gives no answer
    in time is followed only if `attempt_timeout_s` leaves time for it."""
    system: str | None = Field(default=None, max_length=TEMPLATE_CHARS_MAX)
    """A template; without any text in it there is no system message."""
    tail: str | None = Field(default=None, max_length=TEMPLATE_CHARS_MAX)
    """A template: what changes from call to call. It stands behind the prompt as a piece of its own, and what
    is before it is marked for the provider's cache."""
    strict: bool = True
    """Whether a name without a value is an error of a template."""
    media: QuestionMedia = QuestionMedia()
    """What a model is shown beside the words."""
    temperature: float | None = Field(default=None, ge=0, le=2, allow_inf_nan=False)
    top_p: float | None = Field(default=None, ge=0, le=1, allow_inf_nan=False)
    top_k: int | None = Field(default=None, ge=0, le=1_000_000)
    min_p: float | None = Field(default=None, ge=0, le=1, allow_inf_nan=False)
    presence_penalty: float | None = Field(default=None, ge=-2, le=2, allow_inf_nan=False)
    frequency_penalty: float | None = Field(default=None, ge=-2, le=2, allow_inf_nan=False)
    seed: int | None = Field(default=None, ge=0, lt=2**63)
    stop: tuple[Stop, ...] = Field(default=(), max_length=8)
    thinking: bool | Literal["minimal", "low", "medium", "high", "xhigh", "max"] | None = None
    verbosity: Literal["low", "medium", "high"] | None = None
    service_tier: Literal["auto", "default", "flex", "priority"] | None = None
    extra: dict[str, Any] | None = None
    """What only one provider knows, as its body has it."""
    max_output_tokens: int | None = Field(default=None, ge=1, le=10_000_000)
    attempt_timeout_s: float | None = Field(default=None, gt=0, le=3_600, allow_inf_nan=False)
    """How long one attempt of a model may take; None: all of `timeout_s`, which bounds the operation."""
    retries: int = Field(default=1, ge=0, le=RETRIES_MAX)
    """How often a model is told what does not fit and asked again."""
    max_cost_usd: Decimal | None = Field(default=None, ge=0, le=1_000_000, allow_inf_nan=False)
    """Dollars that all calls of one execution together may cost: one that could cost more is not made."""

    def samplers(self) -> dict[str, Any]:
        told = {
            "temperature": self.temperature,
            "top_p": self.top_p,
            "top_k": self.top_k,
            "min_p": self.min_p,
            "presence_penalty": self.presence_penalty,
            "frequency_penalty": self.frequency_penalty,
            "seed": self.seed,
            "thinking": self.thinking,
            "verbosity": self.verbosity,
            "service_tier": self.service_tier,
            "extra": self.extra,
            "stop": list(self.stop) or None,
            "max_output_tokens": self.max_output_tokens,
        }
        return {name: value for name, value in told.items() if value is not None}


def asking_problems(params: AskingParams, *, prompt: str | None) -> Iterable[Problem]:
    yield from mistakes(prompts(params, prompt))
    yield from _model_problems(params)
    yield from media_problems(params.media)
    try:
        check_params(params.samplers())
    except InvalidRequest as error:
        yield Problem(path="extra", code="bad_params", message=str(error))


def _model_problems(params: AskingParams) -> Iterable[Problem]:
    seen = {canonical_name(params.model)} if params.model is not None else set[str]()
    for index, name in enumerate(params.fallbacks):
        if canonical_name(name) in seen:
            said = f"{name[:80]!r} would be asked already when it comes to this"
            yield Problem(path=f"fallbacks[{index}]", code="duplicate_model", message=said)
        seen.add(canonical_name(name))
    if (params.attempt_timeout_s or 0) > params.timeout_s:
        said = f"an attempt ends with its operation, after {params.timeout_s:g} s (`timeout_s`)"
        yield Problem(path="attempt_timeout_s", code="bad_timeout", message=said)


def schema_problems(schema: Mapping[str, Any] | None) -> Iterable[Problem]:
    if schema is None:
        return
    try:
        check_schema(schema)
    except InvalidRequest as error:
        yield Problem(path="schema", code="bad_schema", message=str(error))


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A model's answer that fits what was asked for."""

    value: Any
    cut_at_tokens: int = 0
    """The limit that a text ends at; 0 for one that is whole."""


class _Bill(NamedTuple):
    """A call of this execution that money went to."""

    model: str
    usage: Usage | None
    """None of one that failed, and may be billed as what was held for it."""


@dataclass(slots=True, kw_only=True)
class _Asking:
    """The state of one question: the models that are left for it, and what it has cost.

    Whoever has answered is asked again first: those before it have failed a moment ago.
    """

    models: tuple[str, ...]
    bills: list[_Bill] = field(default_factory=list[_Bill])

    @property
    def model(self) -> str:
        """The model that is asked, or has answered."""
        return self.models[0]

    def begin(self, model: str) -> None:
        self.models = self.models[self.models.index(model) :]


async def ask(
    call: OperationCall[Any], *, prompt: str, schema: dict[str, Any] | None = None, as_json: bool = False
) -> Answer:
    """Return a model's answer: its text, or with `as_json` or a schema the JSON value that fits.

    Errors: `OperationFailed` with `empty_prompt`, `max_cost`, `timeout`, and `output_invalid` after the last
    repair; those of templates and of model steps.
    """
    params: AskingParams = call.params
    asking = _Asking(models=with_fallbacks(params.model or call.model, params.fallbacks))
    await _check_models(call, asking.models)
    messages = await _messages(call, prompt, model=asking.model)
    misfit, text = "", ""
    for attempt in range(params.retries + 1):
        key = "model" if attempt == 0 else f"model-{attempt + 1}"
        said = await _ask_whole(call, asking, key, messages, schema)
        reply, value, misfit = await _read_answer(said, schema, as_json=as_json)
        cut = _cut_at(said)
        if not misfit:
            return Answer(value=value, cut_at_tokens=cut)
        if cut:
            misfit = f"it was cut at {cut} tokens; {misfit}"
        text = reply.text
        asking.bills.append(_Bill(asking.model, reply.usage))
        messages = [*messages, *_repair(text, misfit)]
    raise OperationFailed(
        "output_invalid",
        f"the model's reply does not fit what was asked for: {misfit}",
        details={"attempts": params.retries + 1, "reply": text[:SHOWN_CHARS]},
    )


async def _messages(call: OperationCall[Any], prompt: str, *, model: str) -> list[ChatMessage]:
    params: AskingParams = call.params
    names, strict = call.scope.for_prompt(), params.strict

    def render(template: str | None) -> str:
        return render_template(template, names, strict=strict) if template else ""

    asked, tail = render(prompt), render(params.tail)
    if not asked.strip() and not tail.strip():
        raise OperationFailed("empty_prompt", "the prompt of this operation has no text")
    system = render(params.system)
    said = [ChatMessage(role="system", content=system)] if system.strip() else []
    shown = await media_beside(call, params.media)
    words = (Part(text=asked),) if asked.strip() else ()
    said.append(ChatMessage(role="user", content=(*words, *shown) if shown or not words else asked))
    said += await media_behind(call, params.media, model=model, shown=shown)
    if tail.strip():
        said[-1] = with_tail(said[-1], tail)
    return said


def _port_of(core: RunCore, model: str) -> tuple[str, ModelPort]:
    """Return the model that is asked under this name in this run. Errors: as of `granted_model`."""
    return granted_model(core, core.model_override or core.replacement_of(model))


def _price_of(core: RunCore, model: str, *, tier: str | None) -> Price:
    """Errors: `PriceUnknown`; as of `_port_of`."""
    name, port = _port_of(core, model)
    price = price_for(core, name, port, tier=tier)
    if price is None:
        raise PriceUnknown(f"no price is known for model {name!r}, so its cost has no bound")
    return price


async def _check_models(call: OperationCall[Any], models: Sequence[str]) -> None:
    """Say of a fallback that may not be asked before any model is; recorded, so that keys and prices of
    another day change nothing. Errors: as of `granted_model`; `PriceUnknown` where cost has a bound.
    """
    params: AskingParams = call.params
    if len(models) == 1:
        return

    def check() -> None:
        for name in models:
            _port_of(call.run.core, name)
            if params.max_cost_usd is not None:
                _price_of(call.run.core, name, tier=params.service_tier)

    await call.run.step("models", check, key="models")


async def _ask_whole(
    call: OperationCall[Any],
    asking: _Asking,
    key: str,
    messages: Sequence[ChatMessage],
    schema: dict[str, Any] | None,
) -> ModelResult | OutputInvalid:
    """Return what a model says, and if it was cut where it may write more, what it says with more room."""
    params: AskingParams = call.params
    asked: dict[str, Any] = {
        "messages": list(messages),
        "output": schema,
        "timeout_s": params.attempt_timeout_s or params.timeout_s,
        "output_tokens_max": None if params.max_cost_usd is None else BOUNDED_OUTPUT_TOKENS,
        **params.samplers(),
    }
    said = await _ask(call, asking, key, asked)
    if (cut := _cut_at(said)) and await _may_write_more(call, key, asking.model, cut):
        with suppress(ModelRefusedCall):  # its limit was assumed, and is that
            return await _ask(call, asking, f"{key}/more", {**asked, "after_cut": cut})
    return said


async def _ask(
    call: OperationCall[Any], asking: _Asking, key: str, asked: Mapping[str, Any]
) -> ModelResult | OutputInvalid:
    """Ask one model after the other until one answers; those that fail are billed."""
    params: AskingParams = call.params

    async def ask_one(name: str, at: str | None) -> ModelResult:
        asking.begin(name)
        await _check_cost(call, f"{at}-cost", {**asked, "model": name}, asking.bills)
        try:
            return await call.run.step_model(key=at, model=name, **asked)
        except FAILURES as error:
            if is_billed(error):
                asking.bills.append(_Bill(name, None))
            raise

    try:
        return await ask_in_turn(asking.models, key, ask_one)
    except ModelTimeout as error:
        limit = "timeout_s" if params.attempt_timeout_s is None else "attempt_timeout_s"
        raise OperationFailed(  # in words of ours: people see them, whatever the prompt held
            "timeout",
            "the model gave no reply in time",
            expected=f"at most {asked['timeout_s']:g} s",
            hint=f"Raise {limit} if the model needs longer.",
        ) from error
    except OutputInvalid as error:
        return error


def _cut_at(said: ModelResult | OutputInvalid) -> int:
    """Return the tokens at which a reply was cut; 0 for one that is whole."""
    reply: ModelReply | None = said.facts["reply"] if isinstance(said, OutputInvalid) else said.reply
    if reply is None or reply.finish_reason != "length" or reply.tool_calls:
        return 0
    limit = 0 if isinstance(said, OutputInvalid) else said.max_output_tokens
    return limit or reply.usage.output_tokens


async def _may_write_more(call: OperationCall[Any], key: str, model: str, cut: int) -> bool:
    """Return True if what cut a reply was money's limit, or one that is assumed: neither the author's nor
    the model's own. Recorded, so that limits of another day change nothing.
    """
    params: AskingParams = call.params
    if params.max_output_tokens is not None or params.max_cost_usd is not None:
        return False

    def decide() -> bool:
        core = call.run.core
        window = core.services.window_of(_port_of(core, model)[0])
        return window.is_assumed or cut < window.max_output_tokens

    return await call.run.step("may_write_more", decide, key=f"{key}-cut")


async def _read_answer(
    said: ModelResult | OutputInvalid, schema: dict[str, Any] | None, *, as_json: bool
) -> tuple[ModelReply, Any, str]:
    """`(reply, value, why it does not fit)`."""
    if isinstance(said, OutputInvalid):
        return await _forgiven(said.facts["reply"], schema or {}, str(said))
    reply = said.reply or ModelReply(text=said.text)
    if schema is not None:
        return reply, said.output, "" if said.output is not None else _none_of(reply)
    if not as_json:
        return reply, said.text, ""
    try:
        return reply, parse_json(said.text), ""
    except ValueError as error:
        return reply, None, str(error)


def _none_of(reply: ModelReply) -> str:
    """Return why a reply without output does not fit; null itself may be what was asked for."""
    return "the reply calls tools" if reply.tool_calls else ""


async def _forgiven(reply: ModelReply, schema: Mapping[str, Any], misfit: str) -> tuple[ModelReply, Any, str]:
    """A reply that is no JSON by itself may have it in a code fence."""
    try:
        value = parse_json(reply.text)
    except ValueError:
        return reply, None, misfit
    fit = await fit_reply(ModelReply(output=value), schema)
    return reply, fit.output, "" if fit.misfit is None else misfit


def _repair(text: str, misfit: str) -> list[ChatMessage]:
    """The reply, and what is wrong with it: data of the model behind our own words."""
    told = ChatMessage(role="user", content=f"{wording('repair-1')}\n\n{misfit[:1_000]}")
    if not text.strip():
        return [told]
    return [ChatMessage(role="assistant", content=text[:REPLY_CHARS_MAX]), told]


# Cost


BOUNDED_OUTPUT_TOKENS = 4_096
"""What a call may write at most whose operation has a bound of cost, but says nothing of its output."""


async def _check_cost(
    call: OperationCall[Any], key: str, asked: Mapping[str, Any], bills: Sequence[_Bill]
) -> None:
    """Refuse a call that could cost more than the operation may; recorded, so that prices of another day
    change nothing. Errors: `OperationFailed` with `max_cost`; `PriceUnknown`."""
    params: AskingParams = call.params
    if params.max_cost_usd is None:
        return
    samplers = params.samplers()
    bound: int = await call.run.step(
        "cost", _upper_bound, call.run.core, asked, samplers, tuple(bills), key=key
    )
    allowed = int(params.max_cost_usd * MICRO)
    if bound > allowed:
        raise OperationFailed(
            "max_cost",
            "this call of a model could cost more than the operation may",
            expected=f"at most {format_usd(allowed)} USD",
            got=f"{format_usd(bound)} USD",
            hint="Lower max_output_tokens, shorten the prompt, or raise max_cost_usd.",
        )


async def _upper_bound(
    core: RunCore, asked: Mapping[str, Any], samplers: Mapping[str, Any], bills: Sequence[_Bill]
) -> int:
    """Micro-dollars: what earlier calls of this execution cost, and what the next one reserves.

    A model that failed counts as what is reserved for it: a question only grows from call to call.
    """
    tier = samplers.get("service_tier")

    async def reserved(model: str) -> int:
        name, port = _port_of(core, model)
        price = _price_of(core, model, tier=tier)
        output_max = samplers.get("max_output_tokens")
        if output_max is None:
            output_max = min(core.services.window_of(name).max_output_tokens, BOUNDED_OUTPUT_TOKENS)
        request = ModelRequest(
            model=name,
            messages=tuple(asked["messages"]),
            output_schema=asked["output"],
            params={**samplers, "max_output_tokens": output_max},
        )
        prompt = (FixedPart(tag="asked", messages=request.messages),)
        media = await prepare_media(core, prompt, model=name, port=port, price=price, is_bounded=True)
        body = encode_json(request)
        extra_bytes = len(body) - len(body.decode())
        size = CallSize.of(len(body), extra_bytes, output_max=output_max, media=media.size)
        return reserve(core, price=price, size=size).amount

    async def billed(bill: _Bill) -> int:
        if bill.usage is None:
            return await reserved(bill.model)
        return cost_microusd(_price_of(core, bill.model, tier=tier), bill.usage)

    return await reserved(asked["model"]) + sum([await billed(one) for one in bills])


class LlmParams(AskingParams):
    """A prompt, and the form of the answer."""

    # `schema` is a method of pydantic's models; in data it is called that nevertheless.
    model_config = ConfigDict(serialize_by_alias=True)

    prompt: str = Field(min_length=1, max_length=TEMPLATE_CHARS_MAX)
    output: Literal["text", "json"] = "text"
    schema_: dict[str, Any] | None = Field(default=None, alias="schema")
    """JSON schema of the answer; only with `output` `json`."""


async def _run(call: OperationCall[LlmParams]) -> OperationResult:
    """Errors: those of `ask`; `too_large`."""
    params = call.params
    as_json = params.output == "json"
    answer = await ask(call, prompt=params.prompt, schema=params.schema_, as_json=as_json)
    cut = answer.cut_at_tokens
    return make_found(answer.value, details={"cut_at_tokens": cut} if cut else None)


def _problems(params: LlmParams) -> Iterable[Problem]:
    if params.schema_ is not None and params.output != "json":
        yield Problem(path="schema", code="bad_schema", message="a schema needs `output` to be `json`")
    yield from chain(asking_problems(params, prompt=params.prompt), schema_problems(params.schema_))


def prompts(params: AskingParams, prompt: str | None) -> Mapping[str, str]:
    """Return what a model is asked and shown, by path."""
    asked = {"system": params.system, "prompt": prompt, "tail": params.tail}
    return {path: text for path, text in asked.items() if text} | dict(media_templates(params.media))


def _templates(params: LlmParams) -> Mapping[str, str]:
    return prompts(params, params.prompt)


KIND: OperationKind[LlmParams] = OperationKind(
    name="llm", params=LlmParams, run=_run, problems=_problems, templates=_templates
)
