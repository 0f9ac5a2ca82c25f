"""A recorded model answers what was recorded and names what differs otherwise."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from artelier.errors import ReplayMismatch
from artelier.models.scripted import RecordedModel, request_key
from artelier.ports.model import FREE, ChatMessage, Delta, ModelReply, ModelRequest

USER = ChatMessage(role="user", content="how many?")
REQUEST = ModelRequest(model="openai:gpt-4o-mini", messages=(USER,), params={"max_output_tokens": 100})
REPLY = ModelReply(text="twelve")


def recorded() -> RecordedModel:
    other = msgspec.structs.replace(REQUEST, messages=(ChatMessage(role="user", content="hi"),))
    return RecordedModel({request_key(REQUEST): REPLY}, requests=[other, REQUEST])


def test_a_recorded_request_gets_its_reply_for_free():
    model = recorded()

    assert asyncio.run(model.complete(REQUEST)) == REPLY
    assert model.price == FREE


def test_a_stream_ends_with_the_whole_reply():
    async def collect() -> list[Delta | ModelReply]:
        return [item async for item in recorded().stream(REQUEST)]

    assert asyncio.run(collect()) == [Delta(text="twelve"), REPLY]


@pytest.mark.parametrize(
    ("change", "section"),
    [
        ({"model": "openai:gpt-4o"}, "model"),
        ({"messages": (USER, USER)}, r"messages[1]"),
        ({"params": {"max_output_tokens": 200}}, "params.max_output_tokens"),
        ({"output_schema": {"type": "object"}}, "output_schema"),
    ],
)
def test_an_unknown_request_is_refused_naming_the_first_difference(change: dict[str, Any], section: str):
    changed = msgspec.structs.replace(REQUEST, **change)

    with pytest.raises(ReplayMismatch) as caught:
        asyncio.run(recorded().complete(changed))

    assert caught.value.section == section
    assert section in str(caught.value)


def test_without_recorded_requests_the_hash_is_named():
    model = RecordedModel({request_key(REQUEST): REPLY})

    with pytest.raises(ReplayMismatch, match="one of 1 recorded requests"):
        asyncio.run(model.complete(msgspec.structs.replace(REQUEST, model="x")))
