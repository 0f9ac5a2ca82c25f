"""Ids of tool calls: whatever a model port says, each call has one of its own, and its result names it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from artelier import ModelReply, ModelRequest, Run, tool
from artelier.errors import ToolFailed
from artelier.kernel import ModelResult
from artelier.ports.model import FREE, Delta, ToolCall
from artelier.testing import ManualClock
from tests.kernel.stage import drive, open_kernel, play, result_of, user


@tool(side_effect=False)
async def look(at: str) -> str:
    "Look."
    return f"seen {at}"


class Port:
    """A custom model: asks for two calls, twice, then ends; it names them all alike, or not at all."""

    price = FREE

    def __init__(self, name: str) -> None:
        self.name = name
        self.requests: list[ModelRequest] = []

    async def complete(self, request: ModelRequest, /) -> ModelReply:
        self.requests.append(request)
        if len(self.requests) % 3 == 0:
            return ModelReply(text="done")
        wishes = tuple(ToolCall(id=self.name, name="look", arguments={"at": at}) for at in ("moon", "sun"))
        return ModelReply(tool_calls=wishes, finish_reason="tool_calls")


class StreamingPort(Port):
    async def stream(self, request: ModelRequest, /) -> Any:
        yield Delta(text="")
        yield await self.complete(request)


async def _code(run: Run) -> list[str]:
    conversation = run.conversation()
    conversation.append(user("go"))
    while True:
        reply = await run.step_model(model="m", messages=conversation)
        conversation.append(reply)
        if not reply.tool_calls:
            return [
                call.id
                for message in conversation.messages(1, len(conversation))
                for call in message.tool_calls
            ]
        for call in reply.tool_calls:
            done = await run.step_tool(call.name, call.arguments, call=call)
            conversation.append(done)


async def _streamed(run: Run) -> list[str]:
    pieces = [piece async for piece in run.stream_model(model="m", messages=[user("go")])]
    whole = pieces[-1]
    assert isinstance(whole, ModelResult)
    return [call.id for call in whole.tool_calls]


def _check(request: ModelRequest) -> None:
    asked = [call.id for message in request.messages for call in message.tool_calls]
    answered = [message.tool_call_id for message in request.messages if message.role == "tool"]
    assert len(set(asked)) == len(asked)
    assert answered == asked


@pytest.mark.parametrize("name", ["", " ", "call_0"])
def test_calls_that_a_port_names_alike_get_ids_of_their_own_and_no_result_is_an_orphan(
    tmp_path: Path, name: str
) -> None:
    ids: list[list[str]] = []

    async def scenario(folder: Path) -> None:
        folder.mkdir()
        port = Port(name)
        with open_kernel(folder, port, tools=[look], clock=ManualClock()) as kernel:
            runs = kernel.for_tenant()
            assert await drive(runs, _code) == "completed"
            for request in port.requests:
                _check(request)
            assert len(port.requests[-1].messages) == 7
            ids.append(await result_of(runs))
            asked = len(port.requests)
            replayed = await runs.replay("r", _code)
            assert replayed.result == ids[-1], "the recorded ids are the ids"
            assert len(port.requests) == asked

    play(scenario(tmp_path / "one"))
    play(scenario(tmp_path / "two"))
    assert ids[0] == ids[1], "the same in any process"
    assert ("call_0" in ids[0]) == (name == "call_0"), "what is no other call's stays as it came"


def test_calls_of_a_streamed_reply_get_the_ids_that_are_recorded(tmp_path: Path) -> None:
    async def scenario() -> None:
        with open_kernel(tmp_path, StreamingPort(""), tools=[look]) as kernel:
            runs = kernel.for_tenant()
            assert await drive(runs, _streamed) == "completed"
            ids = await result_of(runs)
            assert len(set(ids)) == 2
            assert all(ids)
            replayed = await runs.replay("r", _streamed)
            assert replayed.result == ids

    play(scenario())


def test_unwrap_gives_the_value_or_the_error_that_is_recorded(tmp_path: Path) -> None:
    async def code(run: Run) -> Any:
        seen = (await run.step_tool("look", {"at": "moon"})).unwrap()
        told: list[Any] = []
        for name, arguments in (("typo", {}), ("look", {"to": "moon"})):
            with pytest.raises(ToolFailed) as raised:
                (await run.step_tool(name, arguments)).unwrap()
            told.append([str(raised.value), raised.value.facts["code"]])
        return [seen, told]

    async def scenario() -> None:
        with open_kernel(tmp_path, tools=[look]) as kernel:
            runs = kernel.for_tenant()
            assert await drive(runs, code) == "completed"
            seen, told = await result_of(runs)
            assert seen == "seen moon"
            assert "there is no tool 'typo'" in told[0][0]
            assert "look" in told[0][0], "it names the tools that there are"
            assert [code for _, code in told] == ["tool_failed", "invalid_arguments"]

    play(scenario())


def test_a_run_that_unwraps_an_error_fails_with_the_tools_message(tmp_path: Path) -> None:
    async def code(run: Run) -> Any:
        return (await run.step_tool("typo")).unwrap()["receipt"]

    async def scenario() -> None:
        with open_kernel(tmp_path, tools=[look]) as kernel:
            runs = kernel.for_tenant()
            assert await drive(runs, code) == "failed: tool_failed"
            assert "there is no tool 'typo'" in (await runs.show("r"))["message"]

    play(scenario())
