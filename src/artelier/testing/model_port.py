"""The conformance suite of every `ModelPort`: subclass it and say how a port is opened.

class TestMyModel(ModelPortSuite):
    @contextmanager
    def port(self) -> Iterator[ModelPort]:
        yield MyModel()
"""

from __future__ import annotations

import asyncio
from contextlib import AbstractContextManager, aclosing
from typing import Any, cast

import msgspec

from artelier.ports.model import (
    ChatMessage,
    Delta,
    ModelPort,
    ModelReply,
    ModelRequest,
    StreamingModelPort,
    ToolSchema,
)

FINISH_REASONS = frozenset(("stop", "tool_calls", "length", "content_filter", "cut", "other"))

SCHEMA = {
    "type": "object",
    "properties": {"answer": {"type": "string"}},
    "required": ["answer"],
    "additionalProperties": False,
}
TOOL = ToolSchema(
    name="lookup",
    description="Look up a word.",
    parameters={"type": "object", "properties": {"word": {"type": "string"}}},
)


class ModelPortSuite:
    """A contract as tests. The port is asked questions of its own name and any answer will do."""

    model = "scripted"
    """The name that requests carry."""

    def port(self) -> AbstractContextManager[ModelPort]:
        raise NotImplementedError("open a model for one test")

    def request(self, text: str = "What is an atelier?", **fields: Any) -> ModelRequest:
        message = ChatMessage(role="user", content=text)
        return ModelRequest(
            model=self.model, messages=(message,), params={"max_output_tokens": 200}, **fields
        )

    def test_a_reply_is_whole_and_counted(self) -> None:
        with self.port() as port:
            reply = asyncio.run(port.complete(self.request()))

        self.check(reply)

    def test_a_request_is_not_changed_by_being_answered(self) -> None:
        request = self.request(tools=(TOOL,), output_schema=SCHEMA)
        before = request.canonical()

        with self.port() as port:
            asyncio.run(port.complete(request))

        assert request.canonical() == before

    def test_a_reply_survives_its_own_canonical_form(self) -> None:
        with self.port() as port:
            reply = asyncio.run(port.complete(self.request(tools=(TOOL,))))

        assert msgspec.json.decode(reply.canonical(), type=ModelReply) == reply

    def test_parallel_calls_do_not_disturb_each_other(self) -> None:
        async def main(port: ModelPort) -> list[ModelReply]:
            return await asyncio.gather(
                *(port.complete(self.request(f"What is {number}?")) for number in range(8))
            )

        with self.port() as port:
            replies = asyncio.run(main(port))

        for reply in replies:
            self.check(reply)

    def test_a_cancelled_call_leaves_the_port_usable(self) -> None:
        async def main(port: ModelPort) -> ModelReply:
            task = asyncio.ensure_future(port.complete(self.request("Never mind.")))
            await asyncio.sleep(0)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            return await port.complete(self.request())

        with self.port() as port:
            self.check(asyncio.run(main(port)))

    def test_a_stream_ends_with_the_whole_reply(self) -> None:
        async def main(port: StreamingModelPort) -> list[Delta | ModelReply]:
            return [item async for item in port.stream(self.request())]

        with self.port() as port:
            if not isinstance(port, StreamingModelPort):
                return
            *pieces, last = asyncio.run(main(port))

        assert isinstance(last, ModelReply)
        self.check(last)
        assert all(isinstance(piece, Delta) for piece in pieces)
        assert "".join(cast(Delta, piece).text for piece in pieces) == last.text

    def test_a_stream_may_be_closed_early(self) -> None:
        async def main(port: Any) -> ModelReply:
            async with aclosing(port.stream(self.request())) as stream:
                await anext(stream)
            return await port.complete(self.request())

        with self.port() as port:
            if isinstance(port, StreamingModelPort):
                self.check(asyncio.run(main(port)))

    def check(self, reply: ModelReply) -> None:
        """Check the facts that hold for every reply to `request()`."""
        usage = reply.usage
        assert isinstance(cast(object, reply), ModelReply)
        assert reply.text or reply.tool_calls or reply.output is not None
        assert reply.finish_reason in FINISH_REASONS
        assert usage.input_tokens > 0
        assert 0 <= usage.cached_input_tokens <= usage.input_tokens
        assert 0 <= usage.output_tokens <= 200
        assert all(call.id and call.name for call in reply.tool_calls)
