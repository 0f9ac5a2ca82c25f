"""What goes to an OpenAI-compatible server and what comes back, over real sockets."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from openai._utils import _transform  # pyright: ignore[reportPrivateUsage]

from artelier.errors import InvalidRequest
from artelier.models.provider import openai_compatible
from artelier.ports.model import (
    FREE,
    ChatMessage,
    Delta,
    ModelReply,
    ModelRequest,
    Part,
    ToolCall,
    ToolSchema,
    Usage,
)
from artelier.testing import tool_call
from artelier.testing.openai_server import OpenAIServer
from artelier.testing.providers.bills import server_sent
from artelier.testing.providers.openai import completion_events, response_events

from .test_provider_vendors import RESPONSE
from .wire_requests import ask, port

PERSON = {
    "type": "object",
    "title": "Person of note",
    "properties": {"name": {"type": "string"}},
    "required": ["name"],
}
WEATHER = ToolSchema(
    name="weather",
    description="Tell the weather.",
    parameters={"type": "object", "properties": {"city": {"type": "string"}}},
)


def exchange(
    step: Any, request: ModelRequest | None = None, model: str = "openai:gpt-4o-mini"
) -> tuple[ModelReply, dict[str, Any]]:
    """The reply to one call, and the body that the server received."""

    async def main() -> tuple[ModelReply, dict[str, Any]]:
        async with OpenAIServer([step]) as server:
            reply = await port(server, model).complete(request or ask(model=model))
            return reply, server.requests[0].body

    return asyncio.run(main())


def streamed(step: Any, request: ModelRequest | None = None) -> list[Delta | ModelReply]:
    async def main() -> list[Delta | ModelReply]:
        async with OpenAIServer([step]) as server:
            stream = port(server).stream(request or ask())  # type: ignore[attr-defined]
            return [item async for item in stream]

    return asyncio.run(main())


def test_text_goes_out_and_comes_back():
    reply, body = exchange("good day")

    assert (reply.text, reply.finish_reason) == ("good day", "stop")
    assert body["model"] == "gpt-4o-mini"
    assert body["messages"] == [{"role": "user", "content": "hello"}]


@pytest.mark.parametrize(
    ("model", "key", "reply"),
    [
        ("openai:gpt-4o-mini", "messages", "hi"),
        ("openai-responses:o1-pro", "input", server_sent([*response_events(RESPONSE)])),
    ],
)
def test_many_messages_are_sent_without_the_sdks_look_at_each(
    monkeypatch: pytest.MonkeyPatch, model: str, key: str, reply: Any
):
    """It gave nobody a turn meanwhile: a fifth of a second for two thousand."""
    looks = 0
    look = _transform._async_transform_recursive

    async def counted(*given: Any, **more: Any) -> Any:
        nonlocal looks
        looks += 1
        return await look(*given, **more)

    monkeypatch.setattr(_transform, "_async_transform_recursive", counted)
    said = tuple(ChatMessage(role="user", content=f"Message {number}.") for number in range(300))
    answer, body = exchange(reply, ask(messages=said, model=model), model=model)

    assert answer.text == "hi"
    assert len(body[key]) == 300
    assert 0 < looks < 100


def test_parameters_keep_their_meaning():
    params = {
        "max_output_tokens": 77,
        "temperature": 0.25,
        "top_p": 0.5,
        "seed": 7,
        "stop": "END",
        "presence_penalty": None,
    }

    _, body = exchange("ok", ask(params=params))

    assert body["max_completion_tokens"] == 77
    assert (body["temperature"], body["top_p"], body["seed"]) == (0.25, 0.5, 7)
    assert body["stop"] == ["END"]
    assert "presence_penalty" not in body


def test_a_model_that_reasons_is_asked_for_no_temperature_and_nobody_is_warned():
    params = {"max_output_tokens": 77, "temperature": 0.25, "top_p": 0.5, "seed": 7}

    _, body = exchange("ok", ask(model="openai:gpt-5-mini", params=params), model="openai:gpt-5-mini")

    assert "temperature" not in body and "top_p" not in body
    assert body["seed"] == 7


def test_a_foreign_model_on_a_custom_server_gets_the_older_name_of_the_limit():
    """A server that ignores the newer name would write without end."""
    _, body = exchange("ok", ask(model="openai:qwen3"), model="openai:qwen3")

    assert body["max_tokens"] == 100
    assert "max_completion_tokens" not in body


@pytest.mark.parametrize(
    "params",
    [
        {"tempreature": 1},
        {"temperature": "hot"},
        {"temperature": float("nan")},
        {"max_output_tokens": -1},
        {"max_output_tokens": True},
        {"stop": [1]},
        {"timeout_s": 0},
        {"timeout_s": "soon"},
        {"tool_choice": "maybe"},
    ],
)
def test_a_wrong_parameter_is_refused_before_anything_is_sent(params: dict[str, Any]):
    async def main() -> int:
        async with OpenAIServer(["never"]) as server:
            with pytest.raises(InvalidRequest, match="parameter"):
                await port(server).complete(ask(params=params))
            return len(server.requests)

    assert asyncio.run(main()) == 0


def test_a_whole_conversation_keeps_its_order_and_its_late_system_message():
    messages = (
        ChatMessage(role="system", content="be brief"),
        ChatMessage(role="user", content=(Part(text="a"), Part(type="json", data={"b": 1}))),
        ChatMessage(
            role="assistant",
            content="",
            tool_calls=(
                ToolCall(id="c1", name="weather", arguments={"city": "Oslo"}),
                ToolCall(id="c2", name="weather", arguments="{broken"),
            ),
        ),
        ChatMessage(role="tool", content="snow", tool_call_id="c1"),
        ChatMessage(role="tool", content="bad arguments", tool_call_id="c2"),
        ChatMessage(role="system", content="summary of before"),
        ChatMessage(role="user", content="go on"),
    )

    _, body = exchange("ok", ask(messages=messages, tools=(WEATHER,)))

    sent = body["messages"]
    assert [message["role"] for message in sent] == [
        "system",
        "user",
        "assistant",
        "tool",
        "tool",
        "system",
        "user",
    ]
    assert sent[1]["content"] == 'a{"b":1}'
    first, second = sent[2]["tool_calls"]
    assert json.loads(first["function"]["arguments"]) == {"city": "Oslo"}
    assert "{broken" in json.loads(second["function"]["arguments"]).values()
    assert [sent[3]["tool_call_id"], sent[4]["tool_call_id"]] == [first["id"], second["id"]]
    assert body["tools"][0]["function"]["name"] == "weather"


def test_ids_of_tool_calls_that_a_provider_would_refuse_are_replaced_in_pairs():
    odd = "call/with spaces/" + "x" * 60
    messages = (
        ChatMessage(role="user", content="a"),
        ChatMessage(role="assistant", tool_calls=(ToolCall(id=odd, name="weather"),)),
        ChatMessage(role="tool", content="b", tool_call_id=odd),
    )

    _, body = exchange("ok", ask(messages=messages, tools=(WEATHER,)))

    sent = body["messages"]
    assert sent[1]["tool_calls"][0]["id"] == sent[2]["tool_call_id"]
    assert len(sent[2]["tool_call_id"]) <= 40


def test_a_tool_result_without_its_call_is_refused_before_anything_is_sent():
    orphan = ChatMessage(role="tool", content="b", tool_call_id="gone")

    with pytest.raises(InvalidRequest, match="answers no tool call"):
        exchange("never", ask(messages=(orphan,)))


def test_a_part_that_is_no_text_is_refused():
    image = ChatMessage(role="user", content=(Part(type="image", data="..."),))

    with pytest.raises(InvalidRequest, match="'image'"):
        exchange("never", ask(messages=(image,)))


def test_parallel_tool_calls_come_back_in_order_with_parsed_arguments():
    calls = [tool_call("weather", {"city": "Oslo"}, id="a"), tool_call("weather", {}, id="b")]

    reply, _ = exchange(calls, ask(tools=(WEATHER,)))

    assert reply.tool_calls == tuple(calls)
    assert reply.finish_reason == "tool_calls"


def test_broken_arguments_of_a_tool_call_come_back_as_they_are():
    reply, _ = exchange(tool_call("weather", '{"city": "Os'), ask(tools=(WEATHER,)))

    assert reply.tool_calls[0].arguments == '{"city": "Os'


def test_structured_output_is_asked_for_natively_and_parsed():
    reply, body = exchange({"name": "Ada"}, ask(output_schema=PERSON))

    assert reply.output == {"name": "Ada"}
    assert json.loads(reply.text) == {"name": "Ada"}
    assert body["response_format"]["type"] == "json_schema"
    assert body["response_format"]["json_schema"]["name"] == "Person_of_note"


def test_a_model_without_native_output_is_asked_through_a_tool():
    reply, body = exchange(
        {"name": "Ada"}, ask(model="openai:gpt-4-turbo", output_schema=PERSON), model="openai:gpt-4-turbo"
    )

    assert reply.output == {"name": "Ada"}
    assert reply.tool_calls == ()
    assert reply.finish_reason == "stop"
    assert "response_format" not in body
    assert body["tools"][-1]["function"]["name"] == "final_result"


@pytest.mark.parametrize("model", ["openai:gpt-4o-mini", "openai:gpt-4-turbo"])
def test_a_reply_that_calls_tools_never_fails_structured_output(model: str):
    """Hole 14 of earlier systems: empty content was parsed as output."""
    reply, _ = exchange(
        tool_call("weather", {"city": "Oslo"}),
        ask(model=model, output_schema=PERSON, tools=(WEATHER,)),
        model=model,
    )

    assert reply.output is None
    assert reply.text == ""
    assert reply.tool_calls[0].name == "weather"
    assert reply.finish_reason == "tool_calls"


def test_text_that_is_no_json_leaves_the_output_empty():
    reply, _ = exchange("I would rather not.", ask(output_schema=PERSON))

    assert (reply.output, reply.text) == (None, "I would rather not.")


def test_an_output_that_is_no_object_travels_in_one():
    schema = {"type": "array", "items": {"type": "integer"}}

    reply, body = exchange({"value": [1, 2]}, ask(output_schema=schema))

    assert (reply.output, reply.text) == ([1, 2], "[1,2]")
    assert body["response_format"]["json_schema"]["schema"]["type"] == "object"


def test_usage_counts_cached_tokens_inside_the_input():
    usage = Usage(input_tokens=1_000, cached_input_tokens=900, output_tokens=5)

    reply, _ = exchange(ModelReply(text="a", usage=usage))

    assert reply.usage == usage


def test_a_call_whose_usage_is_not_reported_is_never_free():
    body = {
        "id": "x",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [
            {"index": 0, "message": {"role": "assistant", "content": "a" * 40}, "finish_reason": "stop"}
        ],
    }

    reply, _ = exchange(server_sent([*completion_events(body)]))

    assert reply.usage.input_tokens > 10
    assert reply.usage.output_tokens == 10


def test_a_refusal_is_text_with_its_reason():
    body = {
        "id": "x",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": None, "refusal": "No."},
                "finish_reason": "stop",
            }
        ],
    }

    reply, _ = exchange(server_sent([*completion_events(body)]), ask(output_schema=PERSON))

    assert (reply.text, reply.finish_reason, reply.output) == ("No.", "content_filter", None)


def test_a_reply_cut_by_its_limit_says_so():
    reply, _ = exchange(ModelReply(text="and then", finish_reason="length"))

    assert reply.finish_reason == "length"


def test_a_stream_gives_pieces_and_then_the_whole_reply_with_its_usage():
    usage = Usage(input_tokens=50, cached_input_tokens=20, output_tokens=9)

    *pieces, last = streamed(ModelReply(text="word " * 10, usage=usage))

    assert len(pieces) > 2 and all(isinstance(piece, Delta) for piece in pieces)
    assert "".join(piece.text for piece in pieces) == "word " * 10
    assert last == ModelReply(text="word " * 10, usage=usage)


def test_a_stream_may_be_read_by_a_new_task_for_each_piece():
    """`asyncio.wait_for` makes one each time."""

    async def main() -> tuple[str, bool]:
        text = ""
        async with OpenAIServer(["word " * 20, "word " * 20]) as server:
            stream = port(server).stream(ask())  # type: ignore[attr-defined]
            while not isinstance(item := await asyncio.wait_for(anext(stream), 1), ModelReply):
                assert isinstance(item, Delta)
                text += item.text
            with pytest.raises(StopAsyncIteration):
                await asyncio.wait_for(anext(stream), 1)
            cut = port(server).stream(ask())  # type: ignore[attr-defined]
            await asyncio.wait_for(anext(cut), 1)
            await asyncio.create_task(cut.aclose())
            closed = await asyncio.to_thread(server.wait_until, lambda s: s.connections_open == 0)
        return text, closed

    assert asyncio.run(main()) == ("word " * 20, True)


def test_a_stream_of_tool_calls_ends_in_a_reply_with_all_of_them():
    calls = [tool_call("weather", {"city": "Oslo" * 10}, id="a"), tool_call("f", {}, id="b")]

    items = streamed(calls, ask(tools=(WEATHER,)))

    assert len(items) == 1
    assert isinstance(items[0], ModelReply) and items[0].tool_calls == tuple(calls)


def test_streamed_structured_output_is_parsed_at_the_end():
    *_, last = streamed({"name": "Ada"}, ask(output_schema=PERSON))

    assert isinstance(last, ModelReply) and last.output == {"name": "Ada"}


def test_ollama_needs_no_key_and_is_free_on_this_machine():
    async def main() -> tuple[ModelReply, str, Any]:
        async with OpenAIServer(["ok"]) as server:
            local = port(server, "ollama:llama3.2")
            reply = await local.complete(ask(model="ollama:llama3.2"))
            return reply, server.requests[0].body["model"], getattr(local, "price", None)

    assert asyncio.run(main())[1:] == ("llama3.2", FREE)


def test_any_compatible_server_can_be_given_by_its_url():
    async def main() -> tuple[str, str]:
        async with OpenAIServer(["one", "two"]) as server:
            await openai_compatible(server.base_url).complete(ask(model="local:qwen3"))
            fixed = openai_compatible(server.base_url, model="fixed", api_key="k")
            await fixed.complete(ask(model="whatever"))
            first, second = (received.body["model"] for received in server.requests)
            return first, second

    assert asyncio.run(main()) == ("qwen3", "fixed")


def test_one_port_serves_many_event_loops():
    """Connections belong to a loop; plain code calls asyncio.run() again and again."""
    with OpenAIServer(["one", "two"]) as server:
        model = port(server)

        texts = [asyncio.run(model.complete(ask())).text for _ in range(2)]

    assert texts == ["one", "two"]


def test_parallel_calls_share_a_port():
    async def main() -> set[str]:
        async with OpenAIServer(lambda body: body["messages"][0]["content"]) as server:
            model = port(server)
            replies = await asyncio.gather(*(model.complete(ask(str(i))) for i in range(20)))
            return {reply.text for reply in replies}

    assert asyncio.run(main()) == {str(i) for i in range(20)}
