"""The request to a model and its reply, whoever the provider is. No vendor type passes this door.

Reasoning of models is a part of a message: kept with its signature, sent back unmodified or not at all. A
provider signs or encrypts what its model thought, and wants exactly that back while tools are called. So the
text and its seal stand in `data` of a part, never in `text`: summaries, quotes, sub-agents, membranes and
AG-UI read the text of a message, and none of this is in it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from decimal import Decimal, InvalidOperation
from typing import Any, Literal, Protocol, cast, runtime_checkable

import msgspec

from artelier.errors import InvalidConfig, InvalidRequest

Role = Literal["system", "user", "assistant", "tool"]

_canonical = msgspec.json.Encoder(order="sorted", decimal_format="string")


class Value(msgspec.Struct, frozen=True, kw_only=True):
    """A frozen value with named fields and one canonical JSON form."""

    def canonical(self) -> bytes:
        """Canonical JSON: sorted keys, UTF-8, no spaces, every field present."""
        return _canonical.encode(self)


class Part(Value, frozen=True, kw_only=True):
    """A piece of a message. `type` is `text`; others, such as `reasoning`, carry their JSON in `data`."""

    type: str = "text"
    text: str | None = None
    data: Any = None


_TAIL = {"tail": True}


def tail_part(text: str) -> Part:
    """Return the last piece of a prompt: what holds for this step alone, and is in no later prompt."""
    return Part(text=text, data=dict(_TAIL))


def is_tail(part: Part) -> bool:
    """Return True for the piece of a prompt that no later prompt holds: no cache should end with it."""
    return part.type == "text" and part.data == _TAIL


class ToolCall(Value, frozen=True, kw_only=True):
    """A model's wish to call a tool. `arguments` is what the model sent, parsed, or raw text if broken."""

    id: str
    name: str
    arguments: Any = msgspec.field(default_factory=dict[str, Any])


class ChatMessage(Value, frozen=True, kw_only=True):
    """One message of a conversation."""

    role: Role
    content: str | tuple[Part, ...] = ""
    tool_calls: tuple[ToolCall, ...] = ()
    """Only on `assistant` messages."""
    tool_call_id: str | None = None
    """Only on `tool` messages: which call this answers."""

    @property
    def text(self) -> str:
        """The text of the message, parts joined; other parts are left out."""
        if isinstance(self.content, str):
            return self.content
        return "".join(part.text or "" for part in self.content)


class ToolSchema(Value, frozen=True, kw_only=True):
    """A tool as a model sees it; `parameters` is a JSON schema of an object."""

    name: str
    description: str
    parameters: dict[str, Any]


class ModelRequest(Value, frozen=True, kw_only=True):
    """All that an adapter is given for one call. Its `canonical()` bytes are what a manifest renders."""

    model: str
    messages: tuple[ChatMessage, ...]
    tools: tuple[ToolSchema, ...] = ()
    output_schema: dict[str, Any] | None = None
    """JSON schema of the structured output that is asked for."""
    params: dict[str, Any] = msgspec.field(default_factory=dict[str, Any])
    """`max_output_tokens` (always set by the kernel), `temperature`, `top_p`, `seed`, `stop`, ..."""


class Usage(Value, frozen=True, kw_only=True):
    """Token counts of one call. `input_tokens` includes the cached and the cache-written ones."""

    input_tokens: int = 0
    cached_input_tokens: int = 0
    """Read from the provider's prefix cache."""
    output_tokens: int = 0
    cache_write_input_tokens: int = 0
    """Written to the provider's prefix cache; some bill them above the price of fresh input."""
    cache_write_long_input_tokens: int = 0
    """Of those, the ones written to a cache that lives for an hour or longer, which costs more."""
    reasoning_tokens: int = 0
    """Of `output_tokens`, those that the model thought with."""

    @property
    def prompt_tokens(self) -> int:
        """Return `input_tokens`, or the sum of its parts where a provider claims more of these."""
        parts = max(0, self.cached_input_tokens) + max(0, self.cache_write_input_tokens)
        return max(0, self.input_tokens, parts)

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            input_tokens=self.input_tokens + other.input_tokens,
            cached_input_tokens=self.cached_input_tokens + other.cached_input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cache_write_input_tokens=self.cache_write_input_tokens + other.cache_write_input_tokens,
            cache_write_long_input_tokens=(
                self.cache_write_long_input_tokens + other.cache_write_long_input_tokens
            ),
            reasoning_tokens=self.reasoning_tokens + other.reasoning_tokens,
        )


class ModelReply(Value, frozen=True, kw_only=True):
    """The reply of a model. `output` is the parsed structured output if a schema was asked for."""

    text: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    output: Any = None
    usage: Usage = Usage()
    finish_reason: str = "stop"
    """`stop`, `tool_calls`, `length`, `content_filter`, `cut` (stopped by us) or `other`."""
    parts: tuple[Part, ...] = ()
    """Where the model showed or sealed its reasoning: reasoning, text and places of tool calls, in order
    (`ports/model.py`). Empty for all other replies."""


class Delta(Value, frozen=True, kw_only=True):
    """A piece of streamed text or of reasoning, transient: only the whole reply is recorded."""

    text: str = ""
    reasoning: str = ""
    """A piece of what the model thinks before it answers, as far as its provider shows it."""


OnReasoning = Callable[[str], Awaitable[None]]
"""Given each piece of what a model thinks, as it comes; an empty one when the call is made again."""


def _no_hash(*pieces: bytes) -> str:
    return ""


class Sending:
    """The record of one call as its adapter sent it; an adapter that records nothing leaves it empty."""

    __slots__ = (
        "_hash_of",
        "adapter",
        "attempt",
        "began_at_s",
        "body_hash",
        "dropped",
        "first_piece_s",
        "is_counted",
        "last_at_s",
        "params",
        "piece_chars",
        "response_id",
        "response_model",
        "retry_at_us",
    )

    def __init__(self, hash_of: Callable[..., str] = _no_hash) -> None:
        """`hash_of`: returns what stands in the log for a body, given in pieces."""
        self._hash_of = hash_of
        self.attempt = 0
        """From 1; 0 before the first."""
        self.retry_at_us: int | None = None
        """When the next attempt is due, while the call waits for it."""
        self.clear()

    def clear(self) -> None:
        self.adapter = ""
        """Name and version of the adapter, such as `artelier 0.1.0, pydantic-ai 2.68.0`."""
        self.params: Mapping[str, Any] = {}
        """Those of the request."""
        self.body_hash = ""
        """Of the newest HTTP body; empty before one was sent."""
        self.dropped: tuple[str, ...] = ()
        """Parameters of the request that the body does not hold."""
        self.is_counted = False
        """True if the reply did not say what was used, and its usage is an estimate of ours."""
        self.began_at_s: float | None = None
        """When the call was made, and when its provider was last heard of, both by `time.monotonic`."""
        self.last_at_s: float | None = None
        self.first_piece_s: float | None = None
        """Seconds from the call to the first piece of its answer."""
        self.piece_chars = 0
        """Characters of the answer so far, of reasoning and arguments too."""
        self.response_id = ""
        """The provider's own name of the response, and of the model that it says has answered."""
        self.response_model = ""

    def begin(self, now_s: float) -> None:
        """Note that the call is made."""
        self.began_at_s = self.last_at_s = now_s

    def note_body(self, pieces: Sequence[bytes]) -> None:
        """Note an HTTP body that is sent, in pieces; it is not kept."""
        self.body_hash = self._hash_of(*pieces)

    def note_piece(self, chars: int, now_s: float) -> None:
        """Note a sign of life, with so many characters of the answer."""
        self.last_at_s = now_s
        self.piece_chars += chars
        if chars and self.first_piece_s is None and self.began_at_s is not None:
            self.first_piece_s = now_s - self.began_at_s


sending: ContextVar[Sending | None] = ContextVar("sending", default=None)
"""Where an adapter records what it sends for the call at hand."""


RATE_MAX = 10**12
"""No price is higher: the arithmetic of a bill stays exact below it."""


class Price(Value, frozen=True, kw_only=True):
    """USD per million tokens."""

    input: Decimal = Decimal(0)
    cached_input: Decimal | None = None
    """None: cached input costs as much as fresh input."""
    cache_write: Decimal | None = None
    """Input that is written to a prefix cache. None: as much as fresh input."""
    cache_write_long: Decimal | None = None
    """Input that is written to a cache that lives for an hour or longer. None: as much as `cache_write`."""
    output: Decimal = Decimal(0)
    request: Decimal = Decimal(0)
    """USD per call."""

    def __post_init__(self) -> None:
        """Take text and whole numbers for what they say.

        Errors: `InvalidConfig` for a float, and for what is not finite or negative.
        """
        for name in ("input", "cached_input", "cache_write", "cache_write_long", "output", "request"):
            value: object = getattr(self, name)
            if value is None and name in ("cached_input", "cache_write", "cache_write_long"):
                continue
            try:
                if isinstance(value, float | bool):
                    raise InvalidOperation
                rate = value if isinstance(value, Decimal) else Decimal(str(value))
                if not rate.is_finite() or not 0 <= rate <= RATE_MAX:
                    raise InvalidOperation
            except InvalidOperation:
                raise InvalidConfig(
                    f"price of {name}",
                    expected=f'a decimal from 0 to {RATE_MAX}, such as "0.15"',
                    got=repr(value)[:80],
                ) from None
            if rate is not value:
                msgspec.structs.force_setattr(self, name, rate)


FREE = Price()


class ModelPort(Protocol):
    """Something that answers a `ModelRequest`.

    Errors: `TransientError` (and its children) if a retry may help, `ContextTooLong` if the prompt does
    not fit, `ModelRefusedCall` or any other `External` for good. Other exceptions count as permanent.
    """

    async def complete(self, request: ModelRequest, /) -> ModelReply: ...


@runtime_checkable
class StreamingModelPort(Protocol):
    """A model that can also deliver its text in pieces; the last item is the whole `ModelReply`."""

    def stream(self, request: ModelRequest, /) -> AsyncIterator[Delta | ModelReply]: ...


@runtime_checkable
class PricedModelPort(Protocol):
    """A model that knows its own price (used when no table knows its name)."""

    price: Price | None


def message_from(value: ChatMessage | Mapping[str, Any]) -> ChatMessage:
    """A `ChatMessage` from itself or from a dict of the same keys.

    Errors: `InvalidRequest` that names the wrong key or type.
    """
    if isinstance(value, ChatMessage):
        return value
    if not isinstance(cast(object, value), Mapping):
        raise InvalidRequest(
            "not a chat message", expected="a ChatMessage or a dict", got=type(value).__name__
        )
    unknown = set(value) - {"role", "content", "tool_calls", "tool_call_id"}
    if unknown:
        raise InvalidRequest(
            "unknown key in a chat message",
            expected="role, content, tool_calls, tool_call_id",
            got=", ".join(sorted(map(str, unknown))),
        )
    try:
        return msgspec.convert({k: v for k, v in value.items() if v is not None}, ChatMessage)
    except msgspec.ValidationError as error:
        raise InvalidRequest(f"not a chat message: {error}", got=repr(dict(value))[:200]) from None


def messages_from(values: Sequence[ChatMessage | Mapping[str, Any]]) -> tuple[ChatMessage, ...]:
    return tuple(message_from(value) for value in values)


REASONING = "reasoning"
"""`data`: `{text, provider, signature?, id?, details?, changed?}`. `changed`: scrubbing changed the text."""

TOOL_REF = "tool_ref"
"""The place of a tool call among the parts. `data`: `{call, provider?, id?, details?}`; `call` is from 0."""

_SEALS = ("signature", "id", "details")
"""What a provider made, and nobody may change."""


def reasoning_part(
    text: str, *, provider: str, signature: str | None, id_: str | None, details: Mapping[str, Any] | None
) -> Part:
    """Return what a model thought as a part."""
    seals = _given(signature=signature, id=id_, details=dict(details) if details else None)
    return Part(type=REASONING, data={"text": text, "provider": provider, **seals})


def tool_ref_part(call: int, *, provider: str, id_: str | None, details: Mapping[str, Any] | None) -> Part:
    """Return the place of a tool call; what its provider signed it with stands beside it."""
    seals = _given(id=id_, details=dict(details) if details else None)
    return Part(type=TOOL_REF, data={"call": call, **({"provider": provider, **seals} if seals else {})})


def _given(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def data_of(part: Part) -> dict[str, Any]:
    """Return the data of a part; empty for what is no object."""
    data: object = part.data
    return cast("dict[str, Any]", data) if isinstance(data, dict) else {}


def reasoning_text(parts: str | Iterable[Part]) -> str:
    """Return what was thought, as far as the provider shows it."""
    if isinstance(parts, str):
        return ""
    texts = [data_of(part).get("text") for part in parts if part.type == REASONING]
    return "\n\n".join(text for text in texts if isinstance(text, str) and text)


def without_seals(reply: ModelReply) -> ModelReply:
    """Return a reply without the seals of its parts, to be searched for personal data."""
    parts = tuple(
        part
        if part.type not in (REASONING, TOOL_REF)
        else Part(type=part.type, data={k: v for k, v in data_of(part).items() if k not in _SEALS})
        for part in reply.parts
    )
    return msgspec.structs.replace(reply, parts=parts)


def with_seals(clean: ModelReply, sealed: ModelReply) -> ModelReply:
    """Return a searched reply with the seals it had, or with none if the search changed what was thought.

    A seal holds for the text it was made for. What was changed is not sent back, and neither are the ids of
    calls that a provider would look for it by.
    """
    pairs = list(zip(clean.parts, sealed.parts, strict=True))
    is_changed = any(
        now.type == REASONING and data_of(now).get("text") != data_of(before).get("text")
        for now, before in pairs
    )
    if is_changed:
        parts = [
            Part(type=now.type, data={**data_of(now), "changed": True}) if now.type == REASONING else now
            for now, _ in pairs
        ]
    else:
        parts = [before if now.type in (REASONING, TOOL_REF) else now for now, before in pairs]
    return msgspec.structs.replace(clean, parts=tuple(parts))


def is_of(part: Part, provider: str) -> bool:
    """Return True for what a provider takes back: it is its own, and as it was."""
    data = data_of(part)
    return data.get("provider") == provider and not data.get("changed")
