"""Agents that think with artifacts, from the artifact to the prompt, the action, the events and the money."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import msgspec

from artelier.artifacts import Provenance
from artelier.world.genesis import settle
from artelier.world.mind_artifacts import shipped_workflow
from tests.world.asked import charges, manifest
from tests.world.flows import auto, flow, llm, moves, when, words
from tests.world.places import add, balance, events, world_at
from tests.world.speaking import NOOP, Speaking
from tests.world.stall import open_stall, write

CONFIG = {"model": "m"}


def test_workflow_artifact_loading(tmp_path: Path) -> None:
    """A workflow artifact, one out of the shipped library and an inline one each steer their agent."""
    speaking = Speaking()
    inline = flow({**auto("alone"), "prompt_inline": "I keep to myself."})

    async def scenario() -> None:
        async with world_at(tmp_path, models=speaking.model, config=CONFIG) as w:
            await settle(w)
            steps = flow({**auto("dig", "sell"), "prompt_inline": "Dig, {agent_id}."}, auto("sell"))
            await write(w, "ana", "ana_flow", steps, "workflow")
            template = shipped_workflow("trader")
            await add(
                w,
                ana={"workflow_artifact_id": "ana_flow"},
                bob={"workflow_artifact_id": "genesis_workflow_templates#trader"},
                cid={"workflow": inline},
                dan={"workflow_artifact_id": "nowhere"},
            )
            await w.run(ticks=2)

            begun = {d["agent"]: d["to"] for _, _, d in await events(w, "agent.moved") if not d["origin"]}
            assert begun == {"ana": "dig", "bob": template["initial_state"], "cid": "alone"}
            assert (await w.agents())["ana"].state == "sell"
            first, second = speaking.shown("ana")
            assert "Dig, ana." in first and "Workflow state: dig, for 0 ticks" in first
            assert "Dig, ana." not in second and "Workflow state: sell" in second
            assert "I keep to myself." in speaking.shown("cid")[0]
            assert (await w.agents())["dan"].state is None
            left = {one.tag: one.why for one in (await manifest(w, "dan", 1)).dropped}
            assert left["workflow"] == "missing"

    asyncio.run(scenario())


def test_agent_with_workflow_artifact(tmp_path: Path) -> None:
    """Each state asks with its own prompt, and each mode of leaving it does what it says."""
    speaking = Speaking(
        {"ana": {"action": "transfer", "to": "bob", "amount": 30}},
        {"ana": "Since it paid well: ```json\n" + '{"next_state": "rest", "reason": "tired"}\n```'},
    )
    steps = (
        {**auto("plan", "work"), "prompt_artifact_id": "plan_prompt"},
        {**when("work", judge="balance <= 40"), "prompt_inline": "Work: {balance} left."},
        {**llm("judge"), "prompt_artifact_id": "gone", "prompt_inline": "Judge what came of it."},
        auto("rest"),
    )

    async def scenario() -> None:
        async with world_at(tmp_path, models=speaking.model, config=CONFIG) as w:
            await write(w, "ana", "plan_prompt", "Plan in state {current_state}.", "prompt")
            await write(w, "ana", "ana_flow", flow(*steps), "workflow")
            await add(w, ana={"workflow_artifact_id": "ana_flow"}, bob={})
            await w.run(ticks=4)

            assert await moves(w) == [
                ("", "plan", "begun"),
                ("plan", "work", "auto"),
                ("work", "judge", "condition"),
                ("judge", "rest", "llm"),
            ]
            shown = speaking.shown("ana")
            assert "Plan in state plan." in shown[0] and "Work: 70 left." in shown[1]
            assert "Judge what came of it." in shown[2] and "Workflow state: rest" in shown[3]
            [asked] = speaking.shown("ana", "move")
            assert "Current phase: judge" in asked and "plan, work, judge, rest" in asked
            told = [d for _, _, d in await events(w, "agent.moved")][-1]
            assert await words(w, told["reason"]) == "tired" and told["step"] == "t3/transition"
            assert {one.tag: one.why for one in (await manifest(w, "ana", 3)).dropped} == {"step": "missing"}
            assert await balance(w, "bob") == 190  # three times 30; the fourth was refused
            assert (await w.agents())["ana"].failures == 1

    asyncio.run(scenario())


def test_full_artifact_intelligence_flow(tmp_path: Path) -> None:
    """One agent with all that an agent can think with: reflex, prompts, workflow, memories, subscription."""
    learnt = "The stall pays three scrip for each point of quality"
    remember = {
        "action": "invoke",
        "artifact_id": "genesis_memory_add",
        "args": {"memory_artifact_id": "ana_past", "text": learnt, "tags": ["stall"]},
    }
    visit = {"action": "invoke", "artifact_id": "stall", "args": {"quality": 4}}
    speaking = Speaking({"ana": [remember, visit, NOOP], "patron": NOOP})
    reflex = """
def reflex(context):
    if context["tick"] == 1:
        return {"action": "invoke", "artifact_id": "stall", "args": {"quality": 1}}
    return None"""
    mind = {
        "personality_prompt_artifact_id": "ana_self",
        "workflow_artifact_id": "ana_flow",
        "reflex_artifact_id": "ana_reflex",
        "working_memory_artifact_id": "ana_now",
        "longterm_memory_artifact_id": "ana_past",
        "subscribed_artifacts": ["handbook_earning"],
    }
    steps = (
        {**when("try", use="earned_once and last_action.success"), "prompt_inline": "Try things."},
        {**auto("use"), "prompt_inline": "Use {recent_memories}"},
    )

    async def scenario() -> None:
        async with world_at(tmp_path, models=speaking.model, config=CONFIG) as w:
            await settle(w)
            await open_stall(w, 90)
            await write(w, "ana", "ana_self", "You are patient and count every scrip.", "prompt")
            await write(w, "ana", "ana_flow", flow(*steps), "workflow")
            await write(w, "ana", "ana_reflex", reflex, "reflex")
            memory = {"goal": "work at the stall", "facts": {"earned_once": True}}
            await write(w, "ana", "ana_now", memory, "document")
            await write(w, "ana", "ana_past", {"config": {}}, "memory_store")
            await add(w, ana=mind)

            await w.tick()  # the reflex acts: no model, no search, and the workflow goes on
            assert speaking.shown("ana") == [] and await charges(w, "ana") == []
            assert await balance(w, "ana") == 103
            assert (await w.agents())["ana"].state == "use"

            await w.run(ticks=3)
            assert [d["why"] for _, _, d in await events(w, "reflex.fell_through")] == ["none"] * 3
            first, second, third = speaking.shown("ana")
            for shown in (first, second, third):
                assert "You are patient and count every scrip." in shown
                assert "## Subscribed: handbook_earning" in shown
                assert "Goal: work at the stall" in shown
            assert '"earned":3' in first.replace(" ", "") and learnt not in first
            assert learnt in second and learnt in third
            # A search at each model step from the first memory on, and one entry: a scrip each. The stall
            # paid 3 and 12.
            found = [(tick, id) for tick, _, action, id in await charges(w, "ana") if action == "invoke"]
            assert found == [(tick, "genesis_memory_search") for tick in (3, 4)]
            assert await balance(w, "ana") == 100 + 3 + 12 - 2 - 1
            assert await balance(w, "artifact:stall") == 90 - 15
            [entry] = (await w.as_principal("ana").artifacts.read("ana_past")).content["entries"]
            assert (entry["text"], entry["tick"]) == (learnt, 2)
            parts = {part.tag: part.src for part in (await manifest(w, "ana", 3)).parts}
            assert any(f"ana_past#{entry['id']}" in src for srcs in parts.values() for src in srcs)

    asyncio.run(scenario())


def improving(text: str) -> dict[str, Any]:
    """What a model makes of a prompt that says how to work, and of one that says to work on it."""
    how = re.search(r"Work with quality (\d+)\.", text)
    quality = int(how[1]) if how else 0
    if "Look at how you decide" in text:
        return {
            "action": "edit",
            "artifact_id": "ana_prompt",
            "old": f"quality {quality}.",
            "new": f"quality {quality + 1}.",
            "reasoning": "more quality pays more",
        }
    return {"action": "invoke", "artifact_id": "stall", "args": {"quality": quality}}


def test_agent_evolves_prompts(tmp_path: Path) -> None:
    """An agent works by a prompt and rewrites it, ten ticks long; its income follows the prompt."""
    speaking = Speaking({"ana": improving, "patron": NOOP})
    steps = (
        {**auto("work", "reflect"), "prompt_artifact_id": "ana_prompt"},
        {**auto("reflect", "work"), "prompt_artifact_id": "genesis_prompt_library#meta_learning"},
    )

    async def scenario() -> None:
        async with world_at(tmp_path, models=speaking.model, config=CONFIG) as w:
            await settle(w)
            await open_stall(w, 90)
            origin = Provenance(derived_from=("genesis_prompt_library@1#implement_base",))
            first = "You serve the stall, {agent_id}. Work with quality 1."
            await write(w, "ana", "ana_prompt", first, "prompt", provenance=origin)
            await write(w, "ana", "ana_flow", flow(*steps), "workflow")
            mind = {"workflow_artifact_id": "ana_flow", "subscribed_artifacts": ["ana_prompt"]}
            await add(w, ana=mind)
            before, income = 100, list[int]()
            for _ in range(10):
                await w.tick()
                income.append(await balance(w, "ana") - before)
                before += income[-1]

            # What it earned by each version of the prompt, and nothing while it thought about that.
            assert income == [3, 0, 6, 0, 9, 0, 12, 0, 15, 0]
            assert await balance(w, "artifact:stall") == 90 - 45
            shown = speaking.shown("ana")
            assert "You serve the stall, ana. Work with quality 1." in shown[0]
            assert "You serve the stall, ana. Work with quality 5." in shown[8]
            used = [
                [
                    src
                    for part in (await manifest(w, "ana", tick)).parts
                    for src in part.src
                    if part.tag == "step"
                ]
                for tick in (1, 3, 9)
            ]
            assert used == [[f"ana_prompt@{n} (state work)"] for n in (1, 2, 5)]

            artifacts = w.as_principal("ana").artifacts
            history = await artifacts.history("ana_prompt")
            assert [(one.version, one.written_us) for one in history] == [(n + 1, 2 * n) for n in range(6)]
            assert {one.writer for one in history} == {"ana"}
            written = [d for _, _, d in await events(w, "artifact.written") if d["id"] == "ana_prompt"]
            assert [d["act"]["step"] for d in written[1:]] == [f"t{n}/model" for n in (2, 4, 6, 8, 10)]
            assert await words(w, written[1]["act"]["reasoning"]) == "more quality pays more"
            changed = (await artifacts.diff("ana_prompt", 1, 6)).text.splitlines()[-2:]
            assert changed == [f"-{first}", "+You serve the stall, {agent_id}. Work with quality 6."]
            fork = Provenance(derived_from=("ana_prompt@6",))
            text = (await artifacts.read("ana_prompt")).content
            await write(w, "ana", "ana_course", text, "prompt", provenance=fork)
            lineage = await artifacts.lineage("ana_prompt")
            assert msgspec.structs.asdict(lineage) == {
                "id": "ana_prompt",
                "sources": origin.derived_from,
                "derived": ("ana_course@1",),
            }

    asyncio.run(scenario())
