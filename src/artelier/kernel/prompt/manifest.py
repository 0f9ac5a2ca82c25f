"""Prompts as parts, their manifests, and the one function that makes a request of them.

What is sent and what is rendered later go through `compose`; so they are the same bytes. This file does no
I/O: `assembly.py` stores and loads. Building parts from sections is the work of `context/`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence, Set
from decimal import Decimal
from typing import Any, NamedTuple, TypeVar, cast

import msgspec

from artelier.errors import CorruptStore, InvalidRequest
from artelier.kernel.events import DroppedRecord, PartRecord
from artelier.log import BlobRef
from artelier.ports.model import ChatMessage, ModelReply, ModelRequest, Part, ToolSchema, tail_part
from artelier.tokens.estimate import cut

T = TypeVar("T")

# --------------------------------------------------------------------------- delimiters
# Untrusted text between delimiters, where it reads as data, and conversations quoted in that way.
#
# A summariser is shown messages as numbered, bounded text. A manifest names the messages and the form, not
# the text; so a prompt that quotes a conversation takes no room in the log, and renders as long as the form
# stays what it is. A change of wording is a new form.

_MARK = re.compile(r"<(?=/?\s*data\b)", re.IGNORECASE)

UNTRUSTED_MARK = 'trust="untrusted">'
"""How the mark before text ends that nobody vouches for."""


def is_untrusted(message: ChatMessage, *, is_labelled: bool = False) -> bool:
    """Return True for a message that nobody vouches for.

    That is a tool's result, or a text that shows something of that kind between marks.
    `is_labelled`: whoever made the message says how far its text is trusted.
    """
    is_marked = not is_labelled and message.role == "user" and UNTRUSTED_MARK in message.text
    return message.role == "tool" or is_marked


def fence(text: str, *, source: str, trust: str = "untrusted") -> str:
    """The text between `<data>` marks. A mark inside the text is made harmless; nothing else changes."""
    inside = _MARK.sub("&lt;", text)
    name = re.sub(r"[^A-Za-z0-9._:/@#-]+", " ", source)[:120]
    label = re.sub(r"[^a-z0-9_:-]+", "", trust.lower())[:40] or "untrusted"
    return f'<data source="{name}" trust="{label}">\n{inside}\n</data>'


def balance_fences(text: str) -> str:
    """The text with its fences whole again, after something was cut out of it."""
    begun, ended = text.count("<data "), text.count("</data>")
    if begun > ended:
        return f"{text}\n</data>"
    if ended > begun:
        return f'<data trust="untrusted">\n{text}'
    return text


TRANSCRIPT = "transcript-1"
"""Form of a quoted range: one line a message, such as `[12] user: ...`."""

_encode = msgspec.json.Encoder(order="sorted", decimal_format="string").encode


class Quote(msgspec.Struct, frozen=True, kw_only=True):
    """The settings for quoting a range of a conversation."""

    source: str
    line_tokens_max: int
    told: str = ""
    """A summary of what came before, put in front."""
    form: str = TRANSCRIPT


def lines(messages: Sequence[ChatMessage], *, first: int, tokens_each: int) -> list[str]:
    """One text per message, such as `[12] user: ...`; each within `tokens_each`.

    `first` is the number of the first message.
    """
    return [
        cut(_line(message, first + offset), tokens=tokens_each, where="middle")
        for offset, message in enumerate(messages)
    ]


def _line(message: ChatMessage, number: int) -> str:
    if message.role == "assistant" and message.tool_calls:
        calls = ", ".join(f"{call.name}({_encode(call.arguments).decode()})" for call in message.tool_calls)
        said = f"{message.text}\n" if message.text else ""
        return f"[{number}] assistant: {said}calls {calls}"
    return f"[{number}] {message.role}: {message.text}"


def quote_messages(messages: Sequence[ChatMessage], *, first: int, quote: Quote) -> ChatMessage:
    """The message that quotes these. Errors: `CorruptStore` for a form that this version does not know."""
    if quote.form != TRANSCRIPT:
        raise CorruptStore(
            "messages are quoted in a form of another version",
            expected=TRANSCRIPT,
            got=quote.form,
            hint="Update artelier.",
        )
    text = "\n".join(lines(messages, first=first, tokens_each=quote.line_tokens_max))
    if quote.told:
        text = f"Summary of what came before:\n{quote.told}\n\nThen:\n{text}"
    return ChatMessage(role="user", content=fence(text, source=quote.source))


STABLE = ("fixed", "slow")
"""Stabilities of the parts that stand in a manifest's head, before the cache boundary."""


class FixedPart(msgspec.Struct, frozen=True, kw_only=True):
    """Messages that are stored as they are (identity, skills, a summary), or text for one of another part."""

    tag: str
    messages: tuple[ChatMessage, ...] = ()
    text: str = ""
    """Only with `attach` or `joined`: added to a message after a blank line."""
    attach: bool = False
    """The text goes to the last message of the prompt."""
    joined: bool = False
    """The text goes to the message just before this part."""
    stability: str = "fixed"
    src: tuple[str, ...] = ()
    tokens: int = 0
    trust: str = "trusted"
    cut: str = ""


class Measure(NamedTuple):
    """The digests of some messages, 32 bytes each, and what they are as canonical JSON."""

    digests: bytes
    size_bytes: int
    extra_bytes: int
    """Bytes beyond one per character."""
    untrusted: int
    """Messages that come from outside, or show what does between marks."""
    call_ids: Set[str] = frozenset()
    """Ids of all calls in the messages, and perhaps of more."""
    messages: Sequence[ChatMessage] | None = None
    """The very messages that were measured: for others of a changed part this says nothing."""
    media: int = 0
    """Messages that show an image, a sound or a PDF."""


class RangePart(msgspec.Struct, frozen=True, kw_only=True):
    """Messages `start..end` (inclusive, from 1) of a conversation of this run."""

    tag: str = "conversation"
    conversation: str
    start: int
    end: int
    messages: tuple[ChatMessage, ...]
    tokens: int = 0
    cut: str = ""
    """`start` if earlier messages that belong here did not fit."""
    quote: Quote | None = None
    """Shows them as one message that quotes them."""
    measure: Measure | None = None
    """Of the messages, where the conversation has it."""


PromptPart = FixedPart | RangePart


class Prompt(msgspec.Struct, frozen=True, kw_only=True):
    """A prompt that a builder hands to `step_model`: parts in order, and what was left out."""

    parts: tuple[PromptPart, ...]
    dropped: tuple[DroppedRecord, ...] = ()
    prices: tuple[str, ...] = ()
    """What its parts cost, each as `bob -> alice 2 for handbook@7`: ids and amounts, no free text."""


class Head(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The stable beginning of a manifest, stored once for all steps that share it."""

    model: str
    params: dict[str, Any] = {}
    tools: BlobRef | None = None
    """Canonical JSON list of `ToolSchema`."""
    output_schema: BlobRef | None = None
    parts: tuple[PartRecord, ...] = ()


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """The record of one assembled prompt, as `artelier manifest show` prints it."""

    run_id: str
    key: str
    model: str
    params: dict[str, Any]
    tools: BlobRef | None
    output_schema: BlobRef | None
    parts: tuple[PartRecord, ...]
    dropped: tuple[DroppedRecord, ...]
    cache_boundary: int
    """How many leading parts are the same as long as only the conversation grows."""
    pii: dict[str, int]
    inclusion_prices: tuple[str, ...] = ()
    """What was paid for parts of it, in the batch of the request."""
    request: str
    """Keyed hash of the canonical request."""
    adapter: str = ""
    """Name and version of the adapter that sent it; empty before a reply, and if it does not say."""
    body: str = ""
    """Keyed hash of the HTTP body, in which media stand by their references."""
    not_sent: tuple[str, ...] = ()
    """Parameters that the body does not hold."""


class Joint(msgspec.Struct, frozen=True):
    """Text that joins the message before it."""

    text: str


class Tail(msgspec.Struct, frozen=True):
    """Text that becomes a piece of its own at the end of the last message."""

    text: str


Content = tuple[ChatMessage, ...] | str | Joint | Tail
"""What a part contributes: messages, text for the last one, text for the one before, or a piece for the last
one."""


def part_content(part: PromptPart) -> tuple[ChatMessage, ...] | str | Joint:
    if isinstance(part, RangePart):
        if part.quote is None:
            return part.messages
        return (quote_messages(part.messages, first=part.start, quote=part.quote),)
    if part.joined:
        return Joint(part.text)
    return part.text if part.attach else part.messages


def texts_in(parts: Sequence[PromptPart]) -> Iterator[str]:
    """Yield the texts of parts as a model is shown them, one for each message or piece of one."""
    for part in parts:
        content = part_content(part)
        if not isinstance(content, tuple):
            yield content if isinstance(content, str) else content.text
            continue
        for message in content:
            if isinstance(message.content, str):
                yield message.content
            else:
                yield from (piece.text for piece in message.content if piece.text is not None)


def _attach(message: ChatMessage, text: str) -> ChatMessage:
    content = message.content
    if isinstance(content, str):
        joined: str | tuple[Part, ...] = f"{content}\n\n{text}" if content else text
    else:
        joined = (*content, Part(text=text))
    return msgspec.structs.replace(message, content=joined)


def with_tail(message: ChatMessage, text: str) -> ChatMessage:
    """Return a message with a piece at its end that no cache of a provider should end with."""
    content = message.content
    before = (Part(text=content),) if isinstance(content, str) else content
    # The blank line belongs to the tail, so that the text of the message reads as it always did.
    piece = tail_part(f"\n\n{text}" if message.text else text)
    return msgspec.structs.replace(message, content=(*before, piece) if message.content else (piece,))


def compose(
    *,
    model: str,
    params: dict[str, Any],
    tools: tuple[ToolSchema, ...],
    output_schema: dict[str, Any] | None,
    contents: Sequence[Content],
) -> ModelRequest:
    """The request of a prompt: parts in order, attached text on the last message.

    What changes from step to step (`Tail`) is one piece behind all the rest. Providers cache prefixes, and
    what stands before it is, byte for byte, what the next prompt shows in its place.

    Errors: `InvalidRequest` if no part holds a message, or none before one that is joined.
    """
    messages: list[ChatMessage] = []
    attached: list[str] = []
    tail: list[str] = []
    joined: list[str] = []
    """Text for the last one of `messages` so far; gathered, so that many parts cost what they hold."""
    for content in contents:
        if isinstance(content, str):
            attached.append(content)
        elif isinstance(content, Tail):
            tail.append(content.text)
        elif isinstance(content, Joint):
            if not messages:
                raise InvalidRequest("a joined part needs a message before it", got="none")
            joined.append(content.text)
        else:
            if content and joined:
                messages[-1] = _attach(messages[-1], "\n\n".join(joined))
                joined = []
            messages.extend(content)
    if not messages:
        raise InvalidRequest("a prompt needs at least one message", got="none")
    if added := [*joined, *attached]:
        messages[-1] = _attach(messages[-1], "\n\n".join(added))
    if tail:
        messages[-1] = with_tail(messages[-1], "\n\n".join(tail))
    return ModelRequest(
        model=model, messages=tuple(messages), tools=tools, output_schema=output_schema, params=params
    )


_messages = msgspec.json.Decoder(tuple[ChatMessage, ...])
_message = msgspec.json.Decoder(ChatMessage)
_tools = msgspec.json.Decoder(tuple[ToolSchema, ...])
_reply = msgspec.json.Decoder(ModelReply)
_head = msgspec.json.Decoder(Head)


def canonical(value: object) -> bytes:
    """Canonical JSON of any JSON value or frozen struct, to be stored.

    Errors: `ValueError` for NaN and infinity, which JSON cannot hold; others of `UNENCODABLE`.
    """
    content = _encode(value)
    if b"null" in content:  # the encoder writes NaN and infinity so
        _check_finite(value)
    return content


def comparable(value: object) -> bytes:
    """Canonical JSON to compare with stored content: NaN and infinity are null, as they once were stored.

    Errors: `InvalidRequest` for what has no form as JSON.
    """
    try:
        return _encode(value)
    except UNENCODABLE as error:
        raise _no_json(error) from None


def _check_finite(value: object) -> None:
    """Errors: `ValueError` if there is NaN or infinity in what the encoder has taken."""
    left: list[Any] = [value]
    while left:
        item = left.pop()
        kind = cast(type[Any], type(item))
        if kind in _FINITE:
            continue
        if kind is float:
            if not math.isfinite(item):
                raise ValueError(f"{item} is no number that JSON can hold")
        elif kind is dict:
            left += item.values()
        elif kind is list or kind is tuple:
            left += item
        elif isinstance(item, msgspec.Struct):
            left += [getattr(item, name) for name in item.__struct_fields__]
        else:  # a set, a dataclass, a date: what the encoder makes of them
            left.append(msgspec.to_builtins(item, builtin_types=(Decimal,)))


_FINITE = (str, int, bool, type(None), msgspec.UnsetType, bytes, Decimal)
"""What holds no float: looked at most often, so compared by type."""


UNENCODABLE = (TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError)
"""What encoding a value as JSON may raise: foreign types, lone surrogates, endless nesting."""


def encode_json(value: object) -> bytes:
    """Canonical JSON of what a caller handed over. Errors: `InvalidRequest` if it has none."""
    try:
        return canonical(value)
    except UNENCODABLE as error:
        raise _no_json(error) from None


def _no_json(error: Exception) -> InvalidRequest:
    return InvalidRequest(
        f"this has no form as JSON: {str(error)[:200]}",
        expected="JSON data, with text that is valid UTF-8 and numbers that are finite",
    )


def encode_head(head: Head) -> bytes:
    return _encode(head)


def decode_head(content: bytes) -> Head:
    return _decode(_head, content, "manifest head")


def decode_messages(content: bytes) -> tuple[ChatMessage, ...]:
    return _decode(_messages, content, "messages")


def decode_message(content: bytes) -> ChatMessage:
    return _decode(_message, content, "message")


def decode_tools(content: bytes) -> tuple[ToolSchema, ...]:
    return _decode(_tools, content, "tool list")


def decode_reply(content: bytes) -> ModelReply:
    return _decode(_reply, content, "reply")


def _decode(decoder: msgspec.json.Decoder[T], content: bytes, what: str) -> T:
    try:
        return decoder.decode(content)
    except msgspec.MsgspecError as error:
        raise CorruptStore(f"a stored {what} cannot be read: {error}") from None


def message_of_reply(reply: ModelReply) -> ChatMessage:
    """The assistant message that a reply becomes in a conversation."""
    content = reply.parts or reply.text
    return ChatMessage(role="assistant", content=content, tool_calls=reply.tool_calls)


def message_of_result(content: bytes, call: str) -> ChatMessage:
    """The tool message of a recorded result: a string as it is, anything else as canonical JSON."""
    text = content.decode()
    if text.startswith('"'):
        text = msgspec.json.decode(content, type=str)
    return ChatMessage(role="tool", content=text, tool_call_id=call or None)
