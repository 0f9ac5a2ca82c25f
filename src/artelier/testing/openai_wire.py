"""The JSON of the Chat Completions API, as a server writes it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

from artelier.memory.embedders.registry import HashingEmbedder
from artelier.models.params import output_text
from artelier.ports.model import ModelReply, ToolCall, Usage

_PIECE_CHARS = 16
_FINISH = {"stop", "tool_calls", "length", "content_filter"}


def completion(reply: ModelReply, body: dict[str, Any], *, number: int) -> dict[str, Any]:
    """The whole answer to a request `body`; `number` makes its id."""
    calls = _calls(reply, body)
    message: dict[str, Any] = {"role": "assistant", "content": reply.text or None}
    if calls:
        message["tool_calls"] = [_call(call, index, number) for index, call in enumerate(calls)]
        message["content"] = None if reply.output is not None else message["content"]
    return {
        **_head(body, number, kind="chat.completion"),
        "choices": [{"index": 0, "message": message, "finish_reason": _finish(reply, bool(calls))}],
        "usage": usage(count_usage(reply, body)),
    }


def chunks(reply: ModelReply, body: dict[str, Any], *, number: int) -> Iterator[dict[str, Any]]:
    """The same answer in pieces; the last one holds the usage if the request asks for it."""
    head = _head(body, number, kind="chat.completion.chunk")
    calls = _calls(reply, body)

    def piece(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
        return {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}

    yield piece({"role": "assistant", "content": ""})
    text = "" if calls and reply.output is not None else reply.text
    for start in range(0, len(text), _PIECE_CHARS):
        yield piece({"content": text[start : start + _PIECE_CHARS]})
    for index, call in enumerate(calls):
        whole = _call(call, index, number)
        arguments = whole["function"]["arguments"]
        whole["function"]["arguments"] = ""
        yield piece({"tool_calls": [whole]})
        for start in range(0, len(arguments), _PIECE_CHARS):
            part = {"arguments": arguments[start : start + _PIECE_CHARS]}
            yield piece({"tool_calls": [{"index": index, "function": part}]})
    yield piece({}, _finish(reply, bool(calls)))
    options: dict[str, Any] = body.get("stream_options") or {}
    if options.get("include_usage"):
        yield {**head, "choices": [], "usage": usage(count_usage(reply, body))}


def error(message: str, *, kind: str, code: str | None) -> dict[str, Any]:
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


def usage(count: Usage) -> dict[str, Any]:
    return {
        "prompt_tokens": count.input_tokens,
        "completion_tokens": count.output_tokens,
        "total_tokens": count.input_tokens + count.output_tokens,
        "prompt_tokens_details": {"cached_tokens": count.cached_input_tokens},
    }


def count_usage(reply: ModelReply, body: dict[str, Any]) -> Usage:
    """The reply's own usage, or a token per four characters if it has none."""
    if reply.usage != Usage():
        return reply.usage
    written = len(reply.text) + sum(len(output_text(call.arguments)) for call in reply.tool_calls)
    cap = body.get("max_completion_tokens") or body.get("max_tokens") or written
    return Usage(input_tokens=-(-len(output_text(body)) // 4), output_tokens=min(cap, -(-written // 4)))


def _calls(reply: ModelReply, body: dict[str, Any]) -> tuple[ToolCall, ...]:
    """Tool calls to write: structured output is one if the request wants it through a tool."""
    if reply.output is None or reply.tool_calls or "response_format" in body:
        return reply.tool_calls
    choice, tools = body.get("tool_choice"), cast(list[dict[str, Any]], body.get("tools") or [])
    if isinstance(choice, dict):
        name = cast(dict[str, Any], choice)["function"]["name"]
    elif choice == "required" and tools:
        name = tools[-1]["function"]["name"]
    else:
        return ()
    return (ToolCall(id="", name=name, arguments=reply.output),)


def _call(call: ToolCall, index: int, number: int) -> dict[str, Any]:
    """A call on the wire; arguments that are text are sent as they are, broken JSON included."""
    arguments = call.arguments
    return {
        "index": index,
        "id": call.id or f"call_{number}_{index}",
        "type": "function",
        "function": {
            "name": call.name,
            "arguments": arguments if isinstance(arguments, str) else output_text(arguments),
        },
    }


def _head(body: dict[str, Any], number: int, *, kind: str) -> dict[str, Any]:
    return {
        "id": f"chatcmpl-{number}",
        "object": kind,
        "created": 1_700_000_000,
        "model": body.get("model", "unknown"),
    }


def _finish(reply: ModelReply, has_calls: bool) -> str:
    if has_calls and reply.finish_reason == "stop":
        return "tool_calls"
    return reply.finish_reason if reply.finish_reason in _FINISH else "stop"


# The `/embeddings` answer of the test server: vectors that depend on the text and nothing else


def embeddings(body: dict[str, Any]) -> dict[str, Any]:
    """The whole answer to a request `body`."""
    texts: list[str] = [body["input"]] if isinstance(body["input"], str) else body["input"]
    vectors = [HashingEmbedder().vector(text) for text in texts]
    return {
        "object": "list",
        "model": body.get("model", ""),
        "data": [
            # Twice the length of 1: a client must not rely on what a server scales.
            {"object": "embedding", "index": place, "embedding": (2 * vector).tolist()}
            for place, vector in enumerate(vectors)
        ],
        "usage": {
            "prompt_tokens": sum(len(text) // 4 + 1 for text in texts),
            "total_tokens": sum(len(text) // 4 + 1 for text in texts),
        },
    }
