"""Answers as OpenAI's clients read them."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from hashlib import sha256

import msgspec

from artelier.kernel import ModelResult
from artelier.ports.model import ToolCall, Usage

FINISHES = {
    "stop": "stop",
    "tool_calls": "tool_calls",
    "length": "length",
    "cut": "length",
    "content_filter": "content_filter",
}


class AnswerFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The place where an answer is recorded, and its price: what only this server knows."""

    run_id: str
    step: str
    cost_microusd: int
    replayed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramAnswer:
    """One answer, of a model or of a chat."""

    run_id: str
    key: str
    model: str
    """As the program named it."""
    created_s: int
    text: str
    tool_calls: tuple[ToolCall, ...] = ()
    finish: str = "stop"
    usage: Usage = field(default_factory=Usage)
    cost_microusd: int = 0
    replayed: bool = False

    @property
    def id(self) -> str:
        """The same for a recorded answer as when it was new."""
        return sha256(f"{self.run_id}:{self.key}".encode()).hexdigest()[:24]

    @property
    def facts(self) -> AnswerFacts:
        return AnswerFacts(
            run_id=self.run_id, step=self.key, cost_microusd=self.cost_microusd, replayed=self.replayed
        )

    @property
    def headers(self) -> dict[str, str]:
        return {"Artelier-Run": self.run_id, "Artelier-Replayed": "true" if self.replayed else "false"}


def answer_of(result: ModelResult, *, run_id: str, model: str, created_s: int) -> ProgramAnswer:
    """Return the answer of a model step."""
    text = result.text
    if not text and result.output is not None and not result.tool_calls:
        text = json.dumps(result.output, ensure_ascii=False, separators=(",", ":"))
    return ProgramAnswer(
        run_id=run_id,
        key=result.key,
        model=model,
        created_s=created_s,
        text=text,
        tool_calls=result.tool_calls,
        finish="tool_calls" if result.tool_calls else FINISHES.get(result.finish_reason, "stop"),
        usage=result.usage,
        cost_microusd=result.cost_microusd,
        replayed=result.replayed,
    )


# The wire


class CachedTokens(msgspec.Struct, frozen=True, kw_only=True):
    cached_tokens: int


class ReasoningTokens(msgspec.Struct, frozen=True, kw_only=True):
    reasoning_tokens: int


class CompletionUsage(msgspec.Struct, frozen=True, kw_only=True):
    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: CachedTokens
    completion_tokens_details: ReasoningTokens


class CalledFunction(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    arguments: str


class WireCall(msgspec.Struct, frozen=True, kw_only=True):
    """A call of a tool; in a stream it has its `index`."""

    id: str
    function: CalledFunction
    type: str = "function"
    index: int | msgspec.UnsetType = msgspec.UNSET

    def at(self, index: int) -> WireCall:
        return msgspec.structs.replace(self, index=index)


class WireMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message, or what a chunk adds to it."""

    role: str | msgspec.UnsetType = msgspec.UNSET
    content: str | msgspec.UnsetType | None = msgspec.UNSET
    refusal: msgspec.UnsetType | None = msgspec.UNSET
    tool_calls: list[WireCall] | msgspec.UnsetType = msgspec.UNSET


class WireChoice(msgspec.Struct, frozen=True, kw_only=True):
    index: int = 0
    message: WireMessage | msgspec.UnsetType = msgspec.UNSET
    delta: WireMessage | msgspec.UnsetType = msgspec.UNSET
    logprobs: None = None
    finish_reason: str | None = None


class Completion(msgspec.Struct, frozen=True, kw_only=True):
    """A `chat.completion`, or a chunk of one."""

    id: str
    object: str
    created: int
    model: str
    choices: list[WireChoice]
    usage: CompletionUsage | msgspec.UnsetType = msgspec.UNSET
    artelier: AnswerFacts | msgspec.UnsetType = msgspec.UNSET


def completion(answer: ProgramAnswer) -> Completion:
    """Return an answer as a `chat.completion`."""
    calls = [wire_call(one) for one in answer.tool_calls]
    message = WireMessage(
        role="assistant",
        content=answer.text if answer.text or not calls else None,
        refusal=None,
        tool_calls=calls or msgspec.UNSET,
    )
    return Completion(
        id=f"chatcmpl-{answer.id}",
        object="chat.completion",
        created=answer.created_s,
        model=answer.model,
        choices=[WireChoice(message=message, finish_reason=answer.finish)],
        usage=usage_of(answer.usage),
        artelier=answer.facts,
    )


def wire_call(call: ToolCall) -> WireCall:
    return WireCall(id=call.id, function=CalledFunction(name=call.name, arguments=arguments_text(call)))


def arguments_text(call: ToolCall) -> str:
    """Return arguments as the model wrote them: text that is no JSON as it is."""
    if isinstance(call.arguments, str):
        return call.arguments
    return json.dumps(call.arguments, ensure_ascii=False, separators=(",", ":"))


def usage_of(usage: Usage) -> CompletionUsage:
    sent, came = usage.prompt_tokens, usage.output_tokens
    return CompletionUsage(
        prompt_tokens=sent,
        completion_tokens=came,
        total_tokens=sent + came,
        prompt_tokens_details=CachedTokens(cached_tokens=usage.cached_input_tokens),
        completion_tokens_details=ReasoningTokens(reasoning_tokens=usage.reasoning_tokens),
    )


class CompletionChunks:
    """The pieces of one streamed completion, in the order in which a client wants them."""

    def __init__(self, head: ProgramAnswer, *, wants_usage: bool) -> None:
        self._head = Completion(
            id=f"chatcmpl-{head.id}",
            object="chat.completion.chunk",
            created=head.created_s,
            model=head.model,
            choices=[],
        )
        self._wants_usage = wants_usage
        self._sent = ""

    def begin(self) -> bytes:
        return self._chunk(WireMessage(role="assistant", content=""))

    def delta(self, text: str) -> bytes:
        self._sent += text
        return self._chunk(WireMessage(content=text))

    def end(self, answer: ProgramAnswer) -> list[bytes]:
        """Return the rest of the text, calls of tools, why it ended, usage if it was wished, and the end."""
        found: list[bytes] = []
        if answer.text.startswith(self._sent) and (rest := answer.text[len(self._sent) :]):
            found.append(self.delta(rest))
        for index, call in enumerate(answer.tool_calls):
            found.append(self._chunk(WireMessage(tool_calls=[wire_call(call).at(index)])))
        found.append(self._chunk(WireMessage(), finish=answer.finish, facts=answer.facts))
        if self._wants_usage:
            found.append(frame(msgspec.structs.replace(self._head, usage=usage_of(answer.usage))))
        return [*found, b"data: [DONE]\n\n"]

    def _chunk(
        self, delta: WireMessage, *, finish: str | None = None, facts: AnswerFacts | None = None
    ) -> bytes:
        choice = WireChoice(delta=delta, finish_reason=finish)
        return frame(
            msgspec.structs.replace(
                self._head, choices=[choice], artelier=msgspec.UNSET if facts is None else facts
            )
        )


def body_of(value: object) -> bytes:
    """Return the JSON of a wire value. What is no Unicode is replaced."""
    try:
        return msgspec.json.encode(value)
    except (UnicodeEncodeError, msgspec.MsgspecError):  # half a character, which a model may write
        plain = msgspec.to_builtins(value, str_keys=True)
        return json.dumps(plain, ensure_ascii=False).encode("utf-8", "replace")


def frame(value: object, *, event: str = "") -> bytes:
    """Return one server-sent event."""
    return (f"event: {event}\n".encode() if event else b"") + b"data: " + body_of(value) + b"\n\n"
