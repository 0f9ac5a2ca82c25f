"""What a compaction loses is known again after a consolidation, with the sentence in which it stood."""

from __future__ import annotations

from typing import Any

from artelier import AutonomousAgent, CompactionStrategy, ContextBuilder, Kernel, ModelRequest, tool
from artelier.memory import LogMemory
from artelier.memory.consolidation import consolidate, losses_of
from artelier.testing import ScriptedModel, tool_call
from tests.kernel.stage import play

SMALL = CompactionStrategy(trigger_at_messages=11, keep_recent_messages=3)


@tool(side_effect=False)
def look(at: str) -> str:
    """Look at something."""
    return f"Nothing else. The seal of {at} reads QX-{len(at)}77 and is intact.\nMore text follows"


def looking(turns: int) -> ScriptedModel:
    """Looks at new things and ends; its summaries say nothing."""
    done = [0]

    def reply(request: ModelRequest) -> Any:
        if "summarise past events" in request.messages[0].text:
            return "They looked around."
        done[0] += 1
        place = "cellar" + "x" * done[0]
        return tool_call("look", {"at": place}) if done[0] <= turns else "the end"

    return ScriptedModel(reply)


async def looked(kernel: Kernel, run_id: str = "r") -> LogMemory:
    agent = AutonomousAgent(
        kernel=kernel,
        agent_id="ana",
        compaction=SMALL,
        max_iterations=60,
        context_builder=ContextBuilder(identity="You look.", memory_store=kernel.memory),
    )
    result = await agent.run(run_id=run_id, model="m", prompt="Look around.")
    assert result.status == "completed"
    return kernel.memory.for_agent("default", "ana")


def test_lost_facts_are_promoted_with_their_sentences_and_only_once() -> None:
    async def scenario() -> None:
        with Kernel.open(":memory:", models={"m": looking(5)}, tools=[look]) as kernel:
            memory = await looked(kernel)
            losses = await losses_of(memory)

            done = await consolidate(memory, losses=losses)

            assert "The seal of cellarx reads QX-777 and is intact." in {loss.text for loss in losses}
            assert all(loss.source.startswith("r, message ") for loss in losses)
            assert done.promoted == len(losses) > 0
            found = (await memory.recall("What does the seal of cellarx read?"))[0]
            assert found.text == "The seal of cellarx reads QX-777 and is intact."
            assert found.trust == "untrusted"
            assert await losses_of(memory) == []
            assert (await consolidate(memory, losses=losses)).promoted == 0

    play(scenario())


def test_what_was_lost_long_ago_by_another_agent_is_not_promoted() -> None:
    async def scenario() -> None:
        with Kernel.open(":memory:", models={"m": looking(5)}, tools=[look]) as kernel:
            await looked(kernel)

            for tenant, agent in (("default", "bob"), ("other", "ana"), ("default", "ana/child")):
                assert await losses_of(kernel.memory.for_agent(tenant, agent)) == []

    play(scenario())
