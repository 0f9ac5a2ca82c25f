"""What a run streams: text at once, events once they are durable, the result last."""

from __future__ import annotations

import asyncio
from pathlib import Path

from artelier import AgentResult, AutonomousAgent, Kernel, ModelRequest, tool
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
