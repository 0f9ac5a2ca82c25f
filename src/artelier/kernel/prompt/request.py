"""Requests to models: their identity, and the first difference between two."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass
from hashlib import sha256
from typing import NamedTuple

from artelier.kernel.prompt.manifest import Content, Joint, Measure, Tail, comparable, is_untrusted
from artelier.log.blobs import DataKey, blob_ref, name_blob
from artelier.ports.media import has_media
from artelier.ports.model import ChatMessage, ModelRequest

# --------------------------------------------------------------------------- request identity
# The identity of a request: digests of its messages, taken once each, and one keyed hash over them.
#
# `h2:` stands for SHA-256(frame, digest 1 ... digest n): the frame is canonical JSON of `[model, params,
# tools, output_schema, n]`, digest i the SHA-256 of the canonical bytes of message i as composed. Parts do
# not enter: a list and a conversation of the same bytes are the same request. Requests of earlier versions
# have an `h:`, over the whole body; they are compared by that rule for ever.

DIGEST_BYTES = 32
WHOLE_BODY = "h:"
"""How an identity over the whole canonical body begins, as it was recorded until 0.1."""
BY_MESSAGE = "h2:"


class MessageMeter:
    """Measures the messages of a conversation once each, so that a range of them is a slice.

    Cost: O(1) per message; O(32 bytes) copied per message of a range.
    """

    def __init__(self) -> None:
        self._digests = bytearray()
        self._sizes = array("q", (0,))
        """Of all messages up to each; the first entry stands for those before."""
        self._extra = array("q", (0,))
        self._untrusted = array("q", (0,))
        self._media = array("q", (0,))
        self._call_ids: set[str] = set()

    def __len__(self) -> int:
        return len(self._sizes) - 1

    def add(self, messages: Iterable[ChatMessage]) -> None:
        """Errors: `InvalidRequest` for a message that has no form as JSON."""
        for message in messages:
            body = comparable(message)
            self._digests += sha256(body).digest()
            self._sizes.append(self._sizes[-1] + len(body))
            self._extra.append(self._extra[-1] + _extra_bytes(body))
            self._untrusted.append(self._untrusted[-1] + is_untrusted(message))
            self._media.append(self._media[-1] + has_media(message))
            self._call_ids.update([call.id for call in message.tool_calls])

    def drop(self, count: int) -> None:
        """Leave out the first `count` messages."""
        del self._digests[: count * DIGEST_BYTES], self._sizes[:count]
        del self._extra[:count], self._untrusted[:count], self._media[:count]

    def measure(self, start: int, stop: int) -> Measure:
        """Return the measure of messages `start` (from 0) up to `stop`, without it."""
        return Measure(
            bytes(self._digests[start * DIGEST_BYTES : stop * DIGEST_BYTES]),
            self._sizes[stop] - self._sizes[start],
            self._extra[stop] - self._extra[start],
            self._untrusted[stop] - self._untrusted[start],
            self._call_ids,
            media=self._media[stop] - self._media[start],
        )


def measure_messages(messages: Sequence[ChatMessage]) -> Measure:
    """Return the measure of messages that no conversation holds. Cost: O(their size)."""
    meter = MessageMeter()
    meter.add(messages)
    return meter.measure(0, len(messages))


_FRAME_BYTES = len(b'{"messages":[],"model":,"output_schema":,"params":,"tools":}')
"""Of a canonical body, values apart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredRequest:
    """A request, its digest by message, and the exact size of its canonical body."""

    request: ModelRequest
    digest: bytes
    size_bytes: int
    extra_bytes: int
    """Bytes beyond one per character."""
    call_ids: tuple[Set[str], ...]
    """Together the ids of all calls in the messages, and perhaps of more."""

    @classmethod
    def of(
        cls,
        request: ModelRequest,
        messages: Measure | None = None,
        *,
        call_ids: tuple[Set[str], ...] | None = None,
    ) -> MeasuredRequest:
        """Measure a request; its messages too, unless that is known. Cost: O(their size) then."""
        messages = messages or measure_messages(request.messages)
        values = [
            comparable(value)
            for value in (request.model, request.params, request.tools, request.output_schema)
        ]
        count = len(request.messages)
        frame = b"[%b,%d]" % (b",".join(values), count)
        return cls(
            request=request,
            digest=sha256(frame + messages.digests).digest(),
            size_bytes=_FRAME_BYTES + sum(map(len, values)) + messages.size_bytes + max(0, count - 1),
            extra_bytes=sum(map(_extra_bytes, values)) + messages.extra_bytes,
            call_ids=(messages.call_ids,) if call_ids is None else call_ids,
        )

    @classmethod
    def composed(
        cls, request: ModelRequest, contents: Sequence[Content], known: Sequence[Measure | None]
    ) -> MeasuredRequest:
        """Measure what `compose` made of `contents`, of which some are `known`."""
        digests = bytearray()
        size = extra = 0
        last: ChatMessage | None = None
        changed: dict[int, ChatMessage] = {}
        """Messages, as they were, that text was added to."""
        call_ids: list[Set[str]] = []
        is_attached = False
        for content, found in zip(contents, known, strict=True):
            if isinstance(content, str | Tail):
                is_attached = True
            elif isinstance(content, Joint):
                assert last is not None  # `compose` has refused it
                changed[len(digests) // DIGEST_BYTES - 1] = last
            elif content:
                found = found or measure_messages(content)
                digests += found.digests
                call_ids.append(found.call_ids)
                size, extra, last = size + found.size_bytes, extra + found.extra_bytes, content[-1]
        if is_attached and last is not None:
            changed[len(digests) // DIGEST_BYTES - 1] = last
        for index, message in changed.items():
            was, now = measure_messages((message,)), measure_messages((request.messages[index],))
            digests[index * DIGEST_BYTES : (index + 1) * DIGEST_BYTES] = now.digests
            size, extra = size + now.size_bytes - was.size_bytes, extra + now.extra_bytes - was.extra_bytes
        return cls.of(request, Measure(bytes(digests), size, extra, 0), call_ids=tuple(call_ids))

    def may_hold(self, call_id: str) -> bool:
        """Return False if no call in the messages has this id."""
        return any(call_id in ids for ids in self.call_ids)

    def identity(self, key: DataKey) -> str:
        """The keyed hash that stands for the request in the log."""
        return BY_MESSAGE + _named(key, self.digest)


def is_same_request(recorded: str, asked: MeasuredRequest, key: DataKey) -> bool:
    """Return True if a recorded identity is that of a request, by the rule that it was recorded under."""
    if recorded.startswith(BY_MESSAGE):
        return recorded == asked.identity(key)
    return recorded == body_hash(key, comparable(asked.request))


def body_hash(key: DataKey, *pieces: bytes) -> str:
    """The keyed hash that stands for a whole body in the log, which may be given in pieces."""
    return WHOLE_BODY + _named(key, *pieces)


def _named(key: DataKey, *pieces: bytes) -> str:
    return blob_ref(name_blob(key, *pieces))[2:]


_CONTINUING = bytes(range(0x80, 0xC0))
"""The bytes of UTF-8 that begin no character."""


def _extra_bytes(body: bytes) -> int:
    # To decode it would take three times as long, and four bytes of memory for each character.
    return 0 if body.isascii() else len(body) - len(body.translate(None, _CONTINUING))


# --------------------------------------------------------------------------- request diff
# Differences between two model requests: the first one, and the prefix that they share.
#
# A difference is named by the part of the prompt that holds it. Providers cache prefixes: what stands after
# the first difference is read, and paid for, anew.

FIELDS = ("model", "params", "tools", "output_schema")


class Shape(NamedTuple):
    """The contribution of one part to a prompt."""

    tag: str
    own: int
    """Number of its own messages."""
    text: str
    """Of the last one of them, or what it adds to the one before."""
    joined: bool = False

    @classmethod
    def of(cls, tag: str, content: tuple[ChatMessage, ...] | str, *, joined: bool) -> Shape:
        if isinstance(content, str):
            return cls(tag, 0, content, joined)
        return cls(tag, len(content), content[-1].text if content else "")


def joined_tag(shapes: Sequence[Shape], old: ChatMessage, new: ChatMessage) -> str:
    """The part whose text differs first in two messages, the older of which is of these parts, in order."""
    end = 0
    for index, shape in enumerate(shapes):
        end += len(shape.text) + (2 if end and index else 0)
        # The blank line after a text belongs to it, so that a longer text is seen where it grew.
        upto = end + 2 if end and index < len(shapes) - 1 else end
        if old.role != new.role or old.text[:upto] != new.text[:upto]:
            return shape.tag
    return shapes[-1].tag


def with_joined(shapes: Sequence[Shape], index: int) -> Sequence[Shape]:
    """A part, and those that join its last message."""
    end = index + 1
    while end < len(shapes) and shapes[end].joined:
        end += 1
    return shapes[index:end]


def difference(
    left: ModelRequest, right: ModelRequest, parts: Sequence[Shape]
) -> tuple[str, str, str] | None:
    """`(section, left, right)`, or None if they are equal.

    `parts`: those of the left prompt, in order.
    """
    for name in FIELDS:
        old, new = getattr(left, name), getattr(right, name)
        if old != new:
            return name, _text(old), _text(new)
    for index in range(max(len(left.messages), len(right.messages))):
        old, new = _nth(left.messages, index), _nth(right.messages, index)
        if old != new:
            return (
                f"{_tag(parts, index, old, new)}, message {index + 1}",
                _format_message(old),
                _format_message(new),
            )
    return None


def _tag(parts: Sequence[Shape], index: int, old: ChatMessage | None, new: ChatMessage | None) -> str:
    """The part that a message of the left prompt stands in; beyond its end, the last one."""
    tag = "messages"
    for number, part in enumerate(parts):
        if not part.own:
            continue
        tag = part.tag
        if index < part.own:
            if index == part.own - 1 and old is not None and new is not None:
                return joined_tag(with_joined(parts, number), old, new)
            return tag
        index -= part.own
    return tag


def _nth(messages: tuple[ChatMessage, ...], index: int) -> ChatMessage | None:
    return messages[index] if index < len(messages) else None


def _text(value: object) -> str:
    return comparable(value).decode()


def _format_message(message: ChatMessage | None) -> str:
    if message is None:
        return "no message"
    calls = f" and {len(message.tool_calls)} tool calls" if message.tool_calls else ""
    return f"{message.role}: {message.text}{calls}"
