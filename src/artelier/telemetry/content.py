"""The content of calls, as attributes of bounded size. Called only for users who opted in.

Shapes: JSON by the conventional schemas of `gen_ai.input.messages` and `gen_ai.output.messages`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from artelier.ports.model import ChatMessage, ModelReply, ModelRequest, ToolCall

TEXT_CHARS_MAX = 4_000
"""Of one text, one value of arguments or one result. A guess: enough to see what went on."""

ATTRIBUTE_CHARS_MAX = 32_000
"""Of one attribute; collectors refuse spans of some hundred kilobytes."""

_encode = msgspec.json.Encoder(order="sorted", decimal_format="string", enc_hook=repr).encode


def input_messages(request: ModelRequest) -> tuple[str, int]:
    """The newest messages of a request that fit, in their order, and how many older ones are left out.

    Cost: O(what fits), however long the request is.
    """
    kept: list[str] = []
    room = ATTRIBUTE_CHARS_MAX - 2
    for message in reversed(request.messages):
        parts = list(_parts(message))
        text = _json({"role": message.role, "parts": parts})
        if len(text) + 1 > room:
            break
        room -= len(text) + 1
        kept.append(text)
    return f"[{','.join(reversed(kept))}]", len(request.messages) - len(kept)


def output_message(reply: ModelReply) -> str:
    """The reply, cut where it is too long."""
    parts = [*_text(reply.text), *_calls(reply.tool_calls)]
    message: dict[str, Any] = {"role": "assistant", "finish_reason": reply.finish_reason}
    while True:
        text = _json([{**message, "parts": parts}])
        if len(text) <= ATTRIBUTE_CHARS_MAX:
            return text
        del parts[len(parts) // 2 :]


def value(content: bytes | Any) -> str:
    """Arguments, or the JSON of a result, cut where it is too long."""
    return cut(content.decode("utf-8", "replace") if isinstance(content, bytes) else _json(content))


def cut(text: str) -> str:
    if len(text) <= TEXT_CHARS_MAX:
        return text
    return f"{text[:TEXT_CHARS_MAX]}… (+{len(text) - TEXT_CHARS_MAX} characters)"


def _parts(message: ChatMessage) -> Iterator[dict[str, Any]]:
    if message.role == "tool":
        response = cut(message.text)
        yield {"type": "tool_call_response", "id": message.tool_call_id, "response": response}
        return
    yield from _text(message.text)
    yield from _calls(message.tool_calls)


def _text(text: str) -> list[dict[str, Any]]:
    return [{"type": "text", "content": cut(text)}] if text else []


def _calls(calls: tuple[ToolCall, ...]) -> Iterator[dict[str, Any]]:
    for call in calls:
        arguments = _json(call.arguments)
        fits = len(arguments) <= TEXT_CHARS_MAX
        yield {
            "type": "tool_call",
            "id": call.id,
            "name": call.name[:200],
            "arguments": call.arguments if fits else cut(arguments),
        }


def _json(content: Any) -> str:
    try:
        return _encode(content).decode("utf-8", "replace")
    except (TypeError, ValueError, RecursionError, msgspec.MsgspecError):
        return '"(no JSON)"'  # arguments of a refused call may be anything
