"""A model that plays recorded replies: for replay without a key or a network, at no cost."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Iterable, Mapping

from artelier.errors import ReplayMismatch
from artelier.ports.model import FREE, ChatMessage, Delta, ModelReply, ModelRequest, Price


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
