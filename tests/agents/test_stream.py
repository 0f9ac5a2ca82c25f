"""What a run streams: text at once, events once they are durable, the result last."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, TypeVar

import pytest

from artelier import AgentResult, AutonomousAgent, Kernel, ModelRequest, Policy, Tenant, tool
from artelier.agents import (
    ApprovalAnswered,
    ApprovalAsked,
    ModelAnswered,
    NoteGiven,
    ToolCalled,
    ToolReturned,
)
from artelier.errors import InvalidRequest, NotFound
from artelier.log import Event
from artelier.ports.model import Delta
from artelier.testing import ScriptedModel, tool_call


@tool(side_effect=False)
def look(at: str) -> str:
    """Look."""
    return f"saw {at}"


def test_deltas_events_and_the_result_come_in_order(tmp_path: Path) -> None:
    model = ScriptedModel([tool_call("look", {"at": "sea"}), "The sea is blue and wide today."])

    async def scenario() -> None:
        with Kernel.open(tmp_path / "s.db", models={"m": model}, tools=[look]) as kernel:
            agent = AutonomousAgent(kernel=kernel)
            items = [item async for item in agent.stream(run_id="r", model="m", prompt="Look.")]

            text = "".join(item.text for item in items if isinstance(item, Delta))
            assert text == "The sea is blue and wide today."
            events = [item for item in items if isinstance(item, Event)]
            assert [event.seq for event in events] == list(range(1, len(events) + 1))
            kinds = [event.kind for event in events]
            assert kinds[0] == "run.started" and kinds[-1] == "run.completed"
            assert "tool.completed" in kinds
            last = items[-1]
            assert isinstance(last, AgentResult) and last.text == text
            stored = await kernel.store.read(events[0].stream, after=0)
            assert [event.hash for event in stored] == [event.hash for event in events]

    asyncio.run(scenario())


T = TypeVar("T")


def of_type(items: list[Any], cls: type[T]) -> list[T]:
    return [item for item in items if isinstance(item, cls)]


def test_a_stream_shows_what_tools_were_given_and_gave(tmp_path: Path) -> None:
    model = ScriptedModel([tool_call("look", {"at": "sea"}), tool_call("fly", {"to": "moon"}), "Blue."])

    async def scenario() -> None:
        with Kernel.open(tmp_path / "s.db", models={"m": model}, tools=[look]) as kernel:
            agent = AutonomousAgent(kernel=kernel)
            items = [item async for item in agent.stream(run_id="r", model="m", prompt="Look.")]

            [called] = of_type(items, ToolCalled)
            assert (called.kind, called.step) == ("tool.requested", "c1/tool/0")
            assert (called.tool, called.arguments) == ("look", {"at": "sea"})
            seen, refused = of_type(items, ToolReturned)
            assert (seen.step, seen.tool, seen.arguments) == ("c1/tool/0", "look", {"at": "sea"})
            assert (seen.value, seen.is_error) == ("saw sea", False)
            assert (refused.tool, refused.arguments) == ("fly", {"to": "moon"})
            assert refused.is_error and "there is no tool" in refused.value["error"]["message"]
            answers = of_type(items, ModelAnswered)
            assert [answer.text for answer in answers] == ["", "", "Blue."]
            assert [call["name"] for answer in answers for call in answer.tool_calls] == ["look", "fly"]
            stored = await kernel.store.read(called.stream, after=0)
            assert [one.seq for one in of_type(items, Event)] == [one.seq for one in stored]

    asyncio.run(scenario())


def test_a_stream_shows_questions_answers_and_notes(tmp_path: Path) -> None:
    @tool(side_effect=True, risk="high")
    def refund(order: int) -> str:
        """Pay back."""
        return f"paid back {order}"

    model = ScriptedModel([tool_call("refund", {"order": 7}), "Done."])

    async def scenario() -> None:
        opened = Kernel.open(
            tmp_path / "s.db", models={"m": model}, tools=[refund], policy=Policy(approve_risk="medium")
        )
        with opened as kernel:
            desk, agent = kernel.for_tenant(), AutonomousAgent(kernel=kernel)
            wanted: dict[str, Any] = {"run_id": "r", "model": "m", "prompt": "Pay.", "on_wait": "return"}
            items = [item async for item in agent.stream(**wanted)]
            [asked] = of_type(items, ApprovalAsked)
            assert "refund" in asked.question and asked.details["arguments"] == {"order": 7}
            assert of_type(items, AgentResult)[0].status == "waiting_approval"
            await desk.approve("r", asked.step, arguments={"order": 8}, note="the other", by="eve")
            await desk.inject("r", "Be quick.")
            rest = [item async for item in agent.stream(**wanted)]
            assert not of_type(rest, ApprovalAnswered)  # what was there before is no news
            [seen] = of_type(rest, ToolReturned)
            assert (seen.tool, seen.arguments, seen.value) == ("refund", {"order": 8}, "paid back 8")

    asyncio.run(scenario())


def test_what_is_said_while_a_stream_is_read_is_in_it(tmp_path: Path) -> None:
    said: list[Any] = []

    @tool(side_effect=False)
    async def listen() -> str:
        """Listen."""
        await said[0].inject("r", "Look twice.", by="eve")
        return "something was said"

    model = ScriptedModel([tool_call("listen", {}), "Blue."])

    async def scenario() -> None:
        with Kernel.open(tmp_path / "s.db", models={"m": model}, tools=[listen]) as kernel:
            said.append(kernel.for_tenant())
            agent = AutonomousAgent(kernel=kernel)
            items = [item async for item in agent.stream(run_id="r", model="m", prompt="Look.")]
            [note] = of_type(items, NoteGiven)
            assert (note.text, note.actor) == ("Look twice.", "eve")

    asyncio.run(scenario())


def test_content_that_events_name_can_be_read_by_its_tenant_alone(tmp_path: Path) -> None:
    async def scenario() -> None:
        with Kernel.open(tmp_path / "s.db", models={"m": ScriptedModel(["done"])}) as kernel:
            agent, desk = AutonomousAgent(kernel=kernel), kernel.for_tenant()
            items = [item async for item in agent.stream(run_id="r", model="m", prompt="Go.")]
            started = of_type(items, Event)[0].plain()
            assert await desk.content(started["goal"]) == "Go."
            assert (await desk.content(started["settings"]))["prompt"] == "Go."
            other = kernel.for_tenant(Tenant("other", grants={"*"}))
            await other.state()
            with pytest.raises(NotFound):
                await other.content(started["goal"])
            for wrong in ("", "b:short", "reports/r@1", 7):
                with pytest.raises(InvalidRequest, match="names no stored content"):
                    await desk.content(wrong)  # pyright: ignore[reportArgumentType] - on purpose

    asyncio.run(scenario())


def test_leaving_a_stream_early_leaves_the_run_resumable(tmp_path: Path) -> None:
    calls = [0]

    async def reply(request: ModelRequest) -> str:
        calls[0] += 1
        if calls[0] == 1:
            await asyncio.Event().wait()  # a provider that never answers
        return "the answer"

    async def scenario() -> None:
        with Kernel.open(tmp_path / "s.db", models={"m": ScriptedModel(reply)}) as kernel:
            agent = AutonomousAgent(kernel=kernel)
            stream = agent.stream(run_id="r", model="m", prompt="Speak.")
            async for item in stream:
                if isinstance(item, Event) and item.kind == "model.requested":
                    break
            while not calls[0]:
                await asyncio.sleep(0)
            await stream.aclose()  # pyright: ignore[reportAttributeAccessIssue] - an async generator

            assert (await kernel.for_tenant().show("r"))["status"] == "pending"
            result = await agent.run(run_id="r", model="m", prompt="Speak.")
            assert (result.status, result.text) == ("completed", "the answer")

    asyncio.run(scenario())


def test_a_finished_run_streams_its_result_alone(tmp_path: Path) -> None:
    async def scenario() -> None:
        with Kernel.open(tmp_path / "s.db", models={"m": ScriptedModel(["done"])}) as kernel:
            agent = AutonomousAgent(kernel=kernel)
            first = await agent.run(run_id="r", model="m", prompt="Go.")
            items = [item async for item in agent.stream(run_id="r", model="m", prompt="Go.")]

            assert items == [first]

    asyncio.run(scenario())


def test_a_chat_streams_its_turns(tmp_path: Path) -> None:
    async def scenario() -> None:
        with Kernel.open(tmp_path / "s.db", models={"m": ScriptedModel(["Hello, Ada."])}) as kernel:
            chat = AutonomousAgent(kernel=kernel).chat("s", model="m")
            items = [item async for item in chat.stream("I am Ada.")]

            assert "".join(i.text for i in items if isinstance(i, Delta)) == "Hello, Ada."
            assert isinstance(items[-1], AgentResult)

    asyncio.run(scenario())
