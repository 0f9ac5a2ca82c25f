"""The same port speaks to Anthropic: what goes over the wire, and what comes back."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from artelier.errors import ContextTooLong, ModelRefusedCall, ProviderUnavailable, RateLimited
from artelier.ports.model import ChatMessage, ModelReply, ModelRequest, ToolCall, ToolSchema, Usage
from artelier.testing.openai_server import Fault, OpenAIServer
from artelier.testing.providers.anthropic import message_events
from artelier.testing.providers.bills import server_sent

from .wire_requests import KEY, ask, port

OLD, NEW = "anthropic:claude-3-haiku-20240307", "anthropic:claude-opus-4-8"
"""A model that takes system messages only at the front and has no native output; one with both."""

WEATHER = ToolSchema(name="weather", description="Tell it.", parameters={"type": "object", "properties": {}})
PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string"}},
    "required": ["name"],
    "additionalProperties": False,
}
TALK = (
    ChatMessage(role="system", content="be brief"),
    ChatMessage(role="user", content="a"),
    ChatMessage(
        role="assistant", tool_calls=(ToolCall(id="c1", name="weather"), ToolCall(id="c2", name="weather"))
    ),
    ChatMessage(role="tool", content="snow", tool_call_id="c1"),
    ChatMessage(role="tool", content="rain", tool_call_id="c2"),
    ChatMessage(role="system", content="summary"),
    ChatMessage(role="user", content="go on"),
)


def message(*content: dict[str, Any], stop: str = "end_turn") -> Fault:
    body = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude",
        "content": list(content),
        "stop_reason": stop,
        "stop_sequence": None,
        "usage": {
            "input_tokens": 10,
            "output_tokens": 3,
            "cache_read_input_tokens": 90,
            "cache_creation_input_tokens": 0,
        },
    }
    return server_sent([*message_events(body)])


def exchange(step: Fault, request: ModelRequest) -> tuple[ModelReply, dict[str, Any]]:
    async def main() -> tuple[ModelReply, dict[str, Any]]:
        async with OpenAIServer([step]) as server:
            reply = await port(server, request.model).complete(request)
            return reply, server.requests[0].body

    return asyncio.run(main())


def test_text_and_usage_come_back_with_cached_tokens_inside_the_input():
    reply, body = exchange(message({"type": "text", "text": "hi"}), ask(model=OLD))

    assert (reply.text, reply.finish_reason) == ("hi", "stop")
    assert reply.usage == Usage(input_tokens=100, cached_input_tokens=90, output_tokens=3)
    assert body["max_tokens"] == 100


@pytest.mark.parametrize("model", [OLD, NEW])
def test_a_late_system_message_stays_in_its_place(model: str):
    """At the front it would change the cached prefix and overrule what came before."""
    _, body = exchange(message(), ask(model=model, messages=TALK, tools=(WEATHER,)))

    sent = json.dumps(body["messages"])
    assert "be brief" in json.dumps(body["system"])
    assert "summary" not in json.dumps(body["system"])
    assert sent.index("rain") < sent.index("summary")
    assert ("<system>" in sent) == (model == OLD)


def test_results_of_parallel_calls_are_in_one_message():
    _, body = exchange(message(), ask(model=OLD, messages=TALK, tools=(WEATHER,)))

    results = [
        [block["tool_use_id"] for block in turn["content"] if block["type"] == "tool_result"]
        for turn in body["messages"]
        if isinstance(turn["content"], list)
    ]
    assert ["c1", "c2"] in results


def test_tool_calls_come_back():
    use = {"type": "tool_use", "id": "t1", "name": "weather", "input": {"city": "Oslo"}}

    reply, _ = exchange(message(use, stop="tool_use"), ask(model=OLD, tools=(WEATHER,)))

    assert reply.tool_calls == (ToolCall(id="t1", name="weather", arguments={"city": "Oslo"}),)
    assert reply.finish_reason == "tool_calls"


def test_output_is_asked_for_through_a_tool_where_there_is_no_native_one():
    use = {"type": "tool_use", "id": "t1", "name": "final_result", "input": {"name": "Ada"}}

    reply, body = exchange(message(use, stop="tool_use"), ask(model=OLD, output_schema=PERSON))

    assert (reply.output, reply.tool_calls, reply.finish_reason) == ({"name": "Ada"}, (), "stop")
    assert body["tool_choice"]["type"] in ("any", "tool")


def test_output_is_asked_for_natively_where_it_can_be():
    text = {"type": "text", "text": '{"name": "Ada"}'}

    reply, body = exchange(message(text), ask(model=NEW, output_schema=PERSON))

    assert reply.output == {"name": "Ada"}
    assert "final_result" not in json.dumps(body)


@pytest.mark.parametrize(
    ("status", "kind", "words", "expected"),
    [
        (429, "rate_limit_error", "slow down", RateLimited),
        (529, "overloaded_error", "Overloaded", ProviderUnavailable),
        (400, "invalid_request_error", "prompt is too long: 9 > 5 maximum", ContextTooLong),
        (400, "invalid_request_error", "bad", ModelRefusedCall),
        (401, "authentication_error", f"invalid x-api-key {KEY}", ModelRefusedCall),
    ],
)
def test_errors_are_told_apart_and_made_once(status: int, kind: str, words: str, expected: type[Exception]):
    body = json.dumps({"type": "error", "error": {"type": kind, "message": words}}).encode()

    async def main() -> tuple[Exception, int]:
        async with OpenAIServer([Fault.raw(body, status_code=status)], repeat_last=True) as server:
            with pytest.raises(Exception) as caught:
                await port(server, OLD).complete(ask(model=OLD))
            return caught.value, len(server.requests)

    error, requests = asyncio.run(main())

    assert type(error) is expected
    assert requests == 1
    assert KEY not in str(error)
