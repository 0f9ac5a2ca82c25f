"""What a provider says of its response is on the span, and the turns of a chat are one conversation."""

from __future__ import annotations

import asyncio
from pathlib import Path

from artelier import AutonomousAgent, Kernel, Session
from artelier.models import openai_compatible
from artelier.testing import ScriptedModel
from artelier.testing.openai_server import OpenAIServer
from tests.telemetry.watch import Watch, facts


def test_the_span_of_a_call_has_the_response_and_the_time_to_its_first_chunk(tmp_path: Path) -> None:
    watch = Watch()

    async def scenario() -> None:
        async with OpenAIServer(["good day"]) as server:
            models = {"openai:gpt-4o-mini": openai_compatible(server.base_url)}
            with Kernel.open(tmp_path / "s.db", models=models, telemetry=watch.pair) as kernel:
                async with kernel.run("r") as run:
                    asked = [{"role": "user", "content": "hi"}]
                    await run.step_model(model="openai:gpt-4o-mini", messages=asked)

    asyncio.run(scenario())

    told = facts(watch.one("chat gpt-4o-mini"))
    assert told["gen_ai.response.model"] == "gpt-4o-mini"
    assert told["gen_ai.response.id"]
    first_s = told["gen_ai.response.time_to_first_chunk"]
    assert isinstance(first_s, float) and 0 < first_s < 60
    (point,) = watch.points("gen_ai.client.operation.time_to_first_chunk")
    assert (point.count, point.sum) == (1, first_s)


def test_the_turns_of_a_chat_are_one_conversation(tmp_path: Path) -> None:
    watch, model = Watch(), ScriptedModel(lambda request: "ok")

    async def scenario() -> None:
        with Kernel.open(tmp_path / "s.db", models={"m": model}, telemetry=watch.pair) as kernel:
            chat = await Session.open(kernel, "tavern", model="m")
            await chat.generate("Hi.")
            await chat.generate("And?")
            talk = AutonomousAgent(kernel=kernel, identity="You.").chat("desk", model="m")
            await talk.send("Hi.")

    asyncio.run(scenario())

    told = [facts(span) for span in watch.named("chat m")]
    assert [one["gen_ai.conversation.id"] for one in told] == ["tavern", "tavern", "desk"]
    assert all(str(one["artelier.run"]).startswith(f"{one['gen_ai.conversation.id']}/") for one in told)
