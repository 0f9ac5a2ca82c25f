"""Models without a provider: one follows a script, one plays recorded replies, at no cost.

The scripted model complains of a call nobody scripted and, through `assert_done()`, of steps nobody asked
for.
"""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias, cast

import msgspec

from artelier.errors import External, InvalidRequest, ReplayMismatch
from artelier.models.params import output_text, parse_output
from artelier.ports.media import LoadMedia, MediaRules, media_in
from artelier.ports.model import (
    FREE,
    ChatMessage,
    Delta,
    ModelPort,
    ModelReply,
    ModelRequest,
    Price,
    ToolCall,
    Usage,
    reasoning_text,
)

__all__ = ["ScriptedMediaModel", "ScriptedModel", "Step", "UnexpectedCall", "tool_call"]


# --------------------------------------------------------------------------- scripted reply
# The content of a script for one call of a model, and its conversion to a `ModelReply`.


PlainStep: TypeAlias = ModelReply | str | Mapping[str, Any] | ToolCall | Sequence[ToolCall]
"""A step that is a reply already."""

Step: TypeAlias = PlainStep | BaseException | type[BaseException] | Callable[[ModelRequest], Any]
"""A `PlainStep`, an exception to raise, or a function (plain or async) of the request to a step."""

_NO_USAGE = ModelReply().usage
# msgspec shares one default instance, so a reply whose usage *is* this one was given none.

_EXPECTED = (
    "a ModelReply, a str, a dict, tool_call(...), a list of tool_call(...), an exception, "
    "or a function of the request that returns one of these"
)


def tool_call(name: str, args: object = None, id: str | None = None) -> ToolCall:
    """A call of the tool `name`; without an id, it gets one that the request determines."""
    return ToolCall(id=id or "", name=name, arguments={} if args is None else args)


def reply_from(step: PlainStep) -> ModelReply:
    """The reply that a plain step means; tool calls may still lack an id, usage may be unset.

    Errors: `InvalidRequest` for anything else.
    """
    if isinstance(step, ModelReply):
        return step
    if isinstance(step, str):
        return ModelReply(text=step)
    if isinstance(step, Mapping):
        output: dict[str, Any] = dict(step)
        return ModelReply(text=output_text(output), output=output)
    if isinstance(step, ToolCall):
        return ModelReply(tool_calls=(step,), finish_reason="tool_calls")
    if isinstance(cast(object, step), list | tuple):
        calls = tuple(step)
        if calls and all(isinstance(cast(object, call), ToolCall) for call in calls):
            return ModelReply(tool_calls=calls, finish_reason="tool_calls")
    raise InvalidRequest("not a step of a script", expected=_EXPECTED, got=repr(step)[:200])


def complete_reply(reply: ModelReply, request: ModelRequest) -> ModelReply:
    """`reply` as a provider would send it: ids on its tool calls, parsed output, counted usage.

    All that is filled in is a function of the request, so a resumed process gets the same bytes.
    """
    calls = tuple(
        call if call.id else msgspec.structs.replace(call, id=_call_id(request, index))
        for index, call in enumerate(reply.tool_calls)
    )
    output = reply.output
    if output is None and request.output_schema is not None and not calls:
        output = parse_output(reply.text)
    finish = "tool_calls" if calls and reply.finish_reason == "stop" else reply.finish_reason
    usage = counted_usage(reply, request) if reply.usage is _NO_USAGE else reply.usage
    return ModelReply(
        text=reply.text, tool_calls=calls, output=output, usage=usage, finish_reason=finish, parts=reply.parts
    )


def counted_usage(reply: ModelReply, request: ModelRequest) -> Usage:
    """A token per four characters, rounded up, of the canonical request and of what was answered.

    Output is capped at `max_output_tokens`, since no provider bills beyond it.
    """
    output = _quarter(len(reply.text) + sum(_length(call) for call in reply.tool_calls))
    cap = request.params.get("max_output_tokens")
    if isinstance(cap, int):
        output = min(output, cap)
    return Usage(input_tokens=_quarter(len(request.canonical().decode())), output_tokens=output)


def _quarter(chars: int) -> int:
    return -(-chars // 4)


def _length(call: ToolCall) -> int:
    return len(call.name) + len(output_text(call.arguments))


def _call_id(request: ModelRequest, index: int) -> str:
    return f"call_{hashlib.sha256(request.canonical()).hexdigest()[:12]}_{index}"


# --------------------------------------------------------------------------- scripted


_PIECE_CHARS = 16
"""Length of a streamed piece: short enough that a one-line reply comes in several."""

_CALLS_DEEP = 16
"""How often a function may return a function; more is a script that never answers."""


class UnexpectedCall(External, AssertionError):
    """The script is at its end and the model was called once more: facts `scripted`, `request`."""

    code = "unexpected_call"
    audience = "programmer"


class ScriptedModel:
    """A `ModelPort` that answers with the steps of a script, in the order of the calls.

    `script` is a list of steps (see `Step`) or one function that answers every call. `repeat_last`
    lets the last step answer all later calls too. Safe to share between threads and tasks: a step
    is taken at the moment of the call, before any delay.

    Units:  `delay_s` is the time each call takes before it answers or raises.
    Errors: `UnexpectedCall` beyond the end of the script; whatever exceptions the script holds.
    """

    def __init__(
        self,
        script: Sequence[Step] | Callable[[ModelRequest], Any],
        *,
        price: Price | None = FREE,
        delay_s: float = 0,
        repeat_last: bool = False,
    ) -> None:
        if callable(script):
            self._steps: list[Step] = [script]
            repeat_last = True
        elif isinstance(cast(object, script), list | tuple):
            self._steps = list(script)
        else:
            raise InvalidRequest(
                "not a script", expected="a list of steps or one function", got=repr(script)[:200]
            )
        self._endless = callable(script)
        self.price = price
        self.delay_s = delay_s
        self.repeat_last = repeat_last
        self.requests: list[ModelRequest] = []
        """Every request received, in order, unexpected ones included."""
        self._lock = threading.Lock()
        self._taken = 0

    async def complete(self, request: ModelRequest, /) -> ModelReply:
        step = self._take(request)
        if self.delay_s:
            await asyncio.sleep(self.delay_s)
        return complete_reply(reply_from(await _plain(step, request)), request)

    async def stream(self, request: ModelRequest, /) -> AsyncIterator[Delta | ModelReply]:
        """Yield the reasoning and the text in pieces of 16 characters, then the whole reply."""
        reply = await self.complete(request)
        thought = reasoning_text(reply.parts)
        for start in range(0, len(thought), _PIECE_CHARS):
            yield Delta(reasoning=thought[start : start + _PIECE_CHARS])
        for start in range(0, len(reply.text), _PIECE_CHARS):
            yield Delta(text=reply.text[start : start + _PIECE_CHARS])
        yield reply

    def assert_done(self) -> None:
        """Errors: `AssertionError` that names the steps which no call has taken."""
        with self._lock:
            left = [] if self._endless else self._steps[self._taken :]
        if left:
            raise AssertionError(
                f"{len(left)} of {len(self._steps)} scripted steps were never asked for; "
                f"the next is {repr(left[0])[:200]}"
            )

    def _take(self, request: ModelRequest) -> Step:
        with self._lock:
            self.requests.append(request)
            if self._taken < len(self._steps):
                self._taken += 1
                return self._steps[self._taken - 1]
            if self.repeat_last and self._steps:
                return self._steps[-1]
            number = len(self.requests)
        last = request.messages[-1] if request.messages else None
        came = f"{last.role} message {last.text[:200]!r}" if last else "no messages"
        raise UnexpectedCall(
            f"unexpected call {number} of a scripted model",
            expected=f"at most {len(self._steps)} calls, one per scripted step",
            got=f"a request for {request.model!r} that ends with {came}",
            hint="Add a step to the script, or pass repeat_last=True.",
            scripted=len(self._steps),
            request=request,
        )


class ScriptedMediaModel(ScriptedModel):
    """A `ScriptedModel` that takes media; `media` has what each call has loaded, in order."""

    def __init__(
        self,
        script: Sequence[Step] | Callable[[ModelRequest], Any],
        *,
        rules: MediaRules,
        price: Price | None = FREE,
        repeat_last: bool = False,
    ) -> None:
        super().__init__(script, price=price, repeat_last=repeat_last)
        self.rules = rules
        self.media: list[tuple[bytes, ...]] = []

    def media_rules(self, model: str, /) -> MediaRules:
        return self.rules

    def with_media(self, load: LoadMedia, /) -> ModelPort:
        return _LoadingModel(self, load)


class _LoadingModel:
    """The same for one call."""

    def __init__(self, model: ScriptedMediaModel, load: LoadMedia) -> None:
        self._model = model
        self._load = load

    async def complete(self, request: ModelRequest, /) -> ModelReply:
        await self._take(request)
        return await self._model.complete(request)

    async def stream(self, request: ModelRequest, /) -> AsyncIterator[Delta | ModelReply]:
        await self._take(request)
        async for item in self._model.stream(request):
            yield item

    async def _take(self, request: ModelRequest) -> None:
        self._model.media.append(tuple([await self._load(one) for one in media_in(request.messages)]))


async def _plain(step: Step, request: ModelRequest) -> PlainStep:
    """Raise exceptions and call functions until a plain step is left."""
    for _ in range(_CALLS_DEEP):
        if isinstance(step, BaseException):
            raise step
        if isinstance(step, type) and issubclass(step, BaseException):
            raise step(f"scripted {step.__name__}")
        if not callable(cast(object, step)):
            return cast(PlainStep, step)  # what else it may be, reply_from refuses
        result = cast(Callable[[ModelRequest], Any], step)(request)
        step = cast(Step, await result if inspect.isawaitable(result) else result)
    raise InvalidRequest(
        "a scripted function never answers", expected="a step", got=f"{_CALLS_DEEP} functions"
    )


def request_key(request: ModelRequest) -> str:
    """The name of a request in a recording: SHA-256 of its canonical JSON, in hexadecimal."""
    return hashlib.sha256(request.canonical()).hexdigest()


class RecordedModel:
    """A `ModelPort` that answers only what was recorded.

    `replies` is keyed by `request_key`. `requests`, if given, are the recorded requests themselves; they
    serve only to say what differs when a request is unknown.

    Errors: `ReplayMismatch` for an unknown request; `section` is the first part that differs.
    """

    price: Price | None = FREE

    def __init__(self, replies: Mapping[str, ModelReply], *, requests: Iterable[ModelRequest] = ()) -> None:
        self._replies = dict(replies)
        self._requests = tuple(requests)

    async def complete(self, request: ModelRequest, /) -> ModelReply:
        key = request_key(request)
        reply = self._replies.get(key)
        if reply is None:
            raise self._mismatch(request, key=key)
        return reply

    async def stream(self, request: ModelRequest, /) -> AsyncIterator[Delta | ModelReply]:
        """The whole text at once, then the reply."""
        reply = await self.complete(request)
        if reply.text:
            yield Delta(text=reply.text)
        yield reply

    def _mismatch(self, request: ModelRequest, *, key: str) -> ReplayMismatch:
        nearest = max(self._requests, key=lambda known: _likeness(known, request), default=None)
        difference = first_difference(nearest, request) if nearest is not None else None
        section, expected, got = difference or ("request", None, f"request {key[:16]}")
        return ReplayMismatch(
            f"this request was not recorded: it differs in {section}",
            expected=expected or f"one of {len(self._replies)} recorded requests",
            got=got,
            hint="Replay with the code, artifacts and settings of the recording, or fork the run.",
            section=section,
            request_key=key,
        )


def first_difference(recorded: ModelRequest, request: ModelRequest) -> tuple[str, str, str] | None:
    """Return where two requests part: the section, what was recorded there, what came; None if equal."""
    pairs: list[tuple[str, object, object]] = [("model", recorded.model, request.model)]
    for index in range(max(len(recorded.messages), len(request.messages))):
        left, right = _nth(recorded.messages, index), _nth(request.messages, index)
        pairs.append((f"messages[{index}]", left, right))
    pairs.append(("tools", recorded.tools, request.tools))
    pairs.append(("output_schema", recorded.output_schema, request.output_schema))
    for name in sorted(recorded.params.keys() | request.params.keys()):
        pairs.append((f"params.{name}", recorded.params.get(name), request.params.get(name)))
    for section, left, right in pairs:
        if left != right:
            return section, _format_value(left), _format_value(right)
    return None


def _likeness(recorded: ModelRequest, request: ModelRequest) -> tuple[int, bool]:
    """Return how many leading messages two requests share, then whether the model is the same."""
    shared = 0
    for left, right in zip(recorded.messages, request.messages, strict=False):
        if left != right:
            break
        shared += 1
    return shared, recorded.model == request.model


def _nth(messages: tuple[ChatMessage, ...], index: int) -> ChatMessage | None:
    return messages[index] if index < len(messages) else None


def _format_value(value: object) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, ChatMessage):
        calls = f" with {len(value.tool_calls)} tool calls" if value.tool_calls else ""
        return f"{value.role} message {value.text[:120]!r}{calls}"
    return repr(value)[:160]
