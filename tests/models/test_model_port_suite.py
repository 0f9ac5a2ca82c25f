"""The models of this package keep the contract of the port; a model that breaks it is found."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from artelier.models.scripted import RecordedModel, complete_reply, request_key
from artelier.ports.model import ModelPort, ModelReply, ModelRequest
from artelier.testing import ScriptedModel
from artelier.testing.model_port import SCHEMA, TOOL, ModelPortSuite
from artelier.testing.openai_server import OpenAIServer

from .wire_requests import port


class TestScripted(ModelPortSuite):
    @contextmanager
    def port(self) -> Iterator[ModelPort]:
        yield ScriptedModel(lambda request: f"An answer to {request.messages[0].text}")


class TestProvider(ModelPortSuite):
    model = "openai:gpt-4o-mini"

    @contextmanager
    def port(self) -> Iterator[ModelPort]:
        with OpenAIServer(["A workshop of an artist."], repeat_last=True) as server:
            yield port(server)


class TestRecorded(ModelPortSuite):
    @contextmanager
    def port(self) -> Iterator[ModelPort]:
        texts = ["What is an atelier?", "Never mind.", *(f"What is {n}?" for n in range(8))]
        asked: list[dict[str, Any]] = [{}, {"tools": (TOOL,)}, {"tools": (TOOL,), "output_schema": SCHEMA}]
        requests = [self.request(text, **fields) for text in texts for fields in asked]
        yield RecordedModel(
            {request_key(r): complete_reply(ModelReply(text="recorded"), r) for r in requests}
        )


class Silent:
    async def complete(self, request: ModelRequest, /) -> ModelReply:
        return ModelReply()


def test_a_model_that_says_and_counts_nothing_is_found():
    class Suite(ModelPortSuite):
        @contextmanager
        def port(self) -> Iterator[ModelPort]:
            yield Silent()

    with pytest.raises(AssertionError):
        Suite().test_a_reply_is_whole_and_counted()
