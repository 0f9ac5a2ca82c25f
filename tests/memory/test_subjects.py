"""What an agent remembers of one subject is not there in runs about others, whichever way they ask."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from artelier import AutonomousAgent, ContextBuilder, Kernel
from artelier.errors import AccessDenied, Conflict, Erased, NotFound
from artelier.memory.consolidation import consolidate
from artelier.testing import ScriptedModel, tool_call
from tests.kernel.stage import play


def agent_on(kernel: Kernel) -> AutonomousAgent:
    builder = ContextBuilder(identity="You help.", memory_store=kernel.memory, recall_limit=5)
    return AutonomousAgent(kernel=kernel, context_builder=builder, agent_id="helper")


def test_a_run_sees_what_is_about_its_subject_and_about_nobody(tmp_path: Path) -> None:
    words = {"ana": "violet", "ben": "amber", "": "cobalt"}
    steps: list[Any] = []
    for word in words.values():
        steps += [tool_call("remember", {"text": f"the door is {word}"}), f"said {word}"]
    for _ in words:
        steps += [
            tool_call("recall", {"query": "which door?"}),
            tool_call("history_search", {"query": "said"}),
            tool_call("core_memory_search", {"query": "door"}),
            "done",
        ]
    model = ScriptedModel(steps)

    async def scenario() -> None:
        with Kernel.open(tmp_path / "s.db", models=model, environ={}) as kernel:
            agent = agent_on(kernel)
            for name in words:
                await agent.run(run_id=f"tell-{name}", model="m", prompt="remember", subject=name)
            for name, word in words.items():
                count = len(model.requests)
                await agent.run(run_id=f"ask-{name}", model="m", prompt="which door?", subject=name)
                shown = str([one.messages for one in model.requests[count:]])
                hidden = [one for other, one in words.items() if other not in (name, "")]
                assert word in shown and words[""] in shown
                assert not [one for one in hidden if one in shown], name
            memory = kernel.memory.for_agent("default", "helper")
            assert len(await memory.recall("which door?", limit=10)) == 3  # people see all of it

    play(scenario(), within_s=60)


def test_entries_and_blocks_of_others_are_not_there_to_be_changed(tmp_path: Path) -> None:
    async def scenario() -> None:
        with Kernel.open(tmp_path / "s.db", models=ScriptedModel([]), environ={}) as kernel:
            desk, memory = kernel.for_tenant(), kernel.memory.for_agent("default", "helper")
            async with desk.run("ana", subject="ana") as ana, desk.run("none") as none:
                one = await memory.remember("violet", key="1", run_id=ana.id)
                await memory.append("violet", key="2", run_id=ana.id)
                two = await memory.remember("violet", key="3", run_id=none.id)
                assert not two.deduplicated and one.id != two.id
                stranger, own = await memory.seen_in(none.id), await memory.seen_in(ana.id)
                with pytest.raises(NotFound):
                    await stranger.forget(one.id, key="4", run_id=none.id)
                with pytest.raises(AccessDenied, match="another subject"):
                    await stranger.append("cobalt", key="5", run_id=none.id)
                async with desk.run("ben", subject="ben") as ben:
                    with pytest.raises(Conflict, match="another subject"):
                        await memory.append("amber", key="6", run_id=ben.id)
                assert [block.text for block in await stranger.blocks()] == ["", ""]
                assert (await own.append("more", key="7", run_id=ana.id)).text == "violet\nmore"
                assert (await own.forget(one.id, key="8", run_id=ana.id)).text == "violet"

    play(scenario(), within_s=60)


def test_what_two_subjects_said_alike_is_not_merged(tmp_path: Path) -> None:
    async def scenario() -> None:
        with Kernel.open(tmp_path / "s.db", models=ScriptedModel([]), environ={}) as kernel:
            desk, memory = kernel.for_tenant(), kernel.memory.for_agent("default", "helper")
            text = "The customer prefers letters by post over electronic mail at all times"
            for name in ("ana", "ben"):
                async with desk.run(name, subject=name) as run:
                    await memory.remember(text, key=name, run_id=run.id)
            done = await consolidate(memory, anyway=True)
            assert (done.merged, len(await memory.entries.entries())) == (0, 2)
            await desk.erase(subject="ana")
            seen = await memory.seen_in("ben")
            assert [hit.text for hit in await seen.recall("letters by post")] == [text]
            with pytest.raises(Erased):
                await memory.seen_in("ana")

    play(scenario(), within_s=60)
