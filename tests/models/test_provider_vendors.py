"""Providers that share the OpenAI SDK keep their own ways."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from artelier.errors import ProviderUnavailable
from artelier.ports.model import ModelReply, Usage
from artelier.testing.openai_server import Fault, OpenAIServer, Received
from artelier.testing.providers.bills import server_sent
from artelier.testing.providers.openai import response_events

from .wire_requests import ask, port

RESPONSE = {
    "id": "resp_1",
    "object": "response",
    "created_at": 1,
    "model": "o1-pro",
    "status": "completed",
    "parallel_tool_calls": True,
    "tool_choice": "auto",
    "tools": [],
    "output": [
        {
            "type": "message",
            "id": "msg_1",
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": "hi", "annotations": []}],
        }
    ],
    "usage": {
        "input_tokens": 30,
        "input_tokens_details": {"cached_tokens": 10},
        "output_tokens": 4,
        "output_tokens_details": {"reasoning_tokens": 2},
        "total_tokens": 34,
    },
}


def exchange(step: Any, model: str) -> tuple[ModelReply, Received]:
    async def main() -> tuple[ModelReply, Received]:
        async with OpenAIServer([step]) as server:
            reply = await port(server, model).complete(ask(model=model))
            return reply, server.requests[0]

    return asyncio.run(main())


@pytest.mark.parametrize(
    ("model", "key_name"),
    [("deepseek:deepseek-chat", "DEEPSEEK_API_KEY"), ("openrouter:a/b", "OPENROUTER_API_KEY")],
)
def test_a_provider_is_sent_its_own_key_and_its_own_name_of_the_model(model: str, key_name: str):
    async def main() -> Received:
        async with OpenAIServer([Fault.status(503)]) as server:
            with pytest.raises(ProviderUnavailable):
                await port(server, model, **{key_name: "its-own-key"}).complete(ask(model=model))
            return server.requests[0]

    received = asyncio.run(main())

    assert received.headers["authorization"] == "Bearer its-own-key"
    assert received.body["model"] == model.partition(":")[2]


def test_the_responses_api_is_spoken_on_request_and_asked_to_keep_nothing():
    reply, received = exchange(server_sent([*response_events(RESPONSE)]), "openai-responses:o1-pro")

    assert reply.text == "hi"
    assert reply.usage == Usage(input_tokens=30, cached_input_tokens=10, output_tokens=4, reasoning_tokens=2)
    assert received.path == "/v1/responses"
    assert received.body["store"] is False
    assert received.body["max_output_tokens"] == 100
