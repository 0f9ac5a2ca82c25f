"""Workflows of agents move on after the action, by themselves, by conditions, or as a model says."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from artelier import Kernel
from artelier.world import World
from artelier.world.mind_artifacts import MindState, facts_of, next_state, read_workflow
from tests.world.flows import auto, flow, moves, when, words, worker
from tests.world.places import events, known, world_at
from tests.world.speaking import NOOP, Speaking

CONFIG = {"model": "m"}
FAILS = {"action": "transfer", "to": "bob", "amount": 10_000}


def test_a_condition_is_decided_on_what_the_action_has_just_done(tmp_path: Path) -> None:
    pay = {"action": "transfer", "to": "bob", "amount": 81}
    made = {"action": "write", "artifact_id": "tool", "kind": "document", "content": "x"}
    speaking = Speaking({"ana": [NOOP, pay, made, FAILS, FAILS, NOOP]})
    steps = (
        when("rich", poor="balance < 20"),
        when("poor", owner="'tool' in my_artifacts"),
        when("owner", lost="failure_count >= 2", rich="last_action_type == 'noop'"),
        when("lost", rich="last_action.success and ticks_in_state >= 1"),
    )

    async def scenario() -> None:
        async with world_at(tmp_path, models=speaking.model, config=CONFIG) as w:
            await known(w, "bob")
            await worker(w, *steps)
            seen: list[str | None] = []
            for _ in range(6):
                await w.tick()
                seen.append((await w.agents())["ana"].state)
            assert seen == ["rich", "poor", "owner", "owner", "lost", "rich"]

    asyncio.run(scenario())


def test_what_the_agent_notes_of_itself_counts_in_the_same_tick(tmp_path: Path) -> None:
    edit = {"action": "edit", "artifact_id": "mem", "old": "false", "new": "true"}
    speaking = Speaking({"ana": [NOOP, edit, {"action": "delete", "artifact_id": "mem"}]})
    steps = (when("draft", build="has_design"), when("build", draft="not has_design"))

    async def scenario() -> None:
        async with world_at(tmp_path, models=speaking.model, config=CONFIG) as w:
            memory = '{"facts": {"has_design": false}}'
            await w.as_principal("ana").artifacts.write(
                "mem", kind="document", content=msgspec.json.decode(memory)
            )
            await worker(w, *steps, working_memory_artifact_id="mem")
            seen: list[str | None] = []
            for _ in range(3):
                await w.tick()
                seen.append((await w.agents())["ana"].state)
            assert seen == ["draft", "build", "draft"]
            unknown = await events(w, "condition.unknown_name")
            assert [(d["state"], d["names"]) for _, _, d in unknown] == [("build", ["has_design"])]

    asyncio.run(scenario())


def test_an_unknown_name_is_false_and_an_event(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with world_at(tmp_path, models=Speaking().model, config=CONFIG) as w:
            await worker(w, when("a", b="has_dezign or balance > 500", c="tick >= 2"), auto("b"), auto("c"))
            await w.run(ticks=2)
            unknown = await events(w, "condition.unknown_name")
            facts = [(actor, d["agent"], d["state"], d["names"]) for _, actor, d in unknown]
            assert facts == [("ana", "ana", "a", ["has_dezign"])] * 2
            assert (await moves(w))[1:] == [("a", "c", "condition")]

    asyncio.run(scenario())


def test_a_condition_that_cannot_be_decided_stays_and_says_why(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with world_at(tmp_path, models=Speaking().model, config=CONFIG) as w:
            await worker(w, when("a", b="agent_id > 3"), auto("b"))
            await w.tick()
            [_, (_, _, data)] = await events(w, "agent.moved")
            assert (data["origin"], data["to"]) == ("a", "a")
            assert "expected a number" in await words(w, data["reason"])
            assert (await w.agents())["ana"].ticks_in_state == 1

    asyncio.run(scenario())


def test_a_state_that_was_edited_away_goes_to_the_initial_one(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with world_at(tmp_path, models=Speaking().model, config=CONFIG) as w:
            await worker(w, auto("a", "b"), auto("b"))
            await w.run(ticks=3)
            assert (await w.agents())["ana"].state == "b"
            edited = flow(auto("start"), auto("a"))
            await w.as_principal("ana").artifacts.write("wf", kind="workflow", content=edited)
            await w.tick()
            assert (await moves(w))[-1] == ("b", "start", "state_gone")
            row = (await w.agents())["ana"]
            assert (row.state, row.ticks_in_state) == ("start", 1)

    asyncio.run(scenario())


def test_the_state_survives_a_restart(tmp_path: Path) -> None:
    steps = (when("a", b="ticks_in_state >= 4"), auto("b"))

    async def some(ticks: int, *, first: bool) -> Any:
        kernel = Kernel.open(tmp_path / "state.db", models=Speaking().model)
        try:
            if first:
                w = await World.new(kernel, "w", CONFIG)
                await worker(w, *steps)
            else:
                w = await World.open(kernel, "w")
            await w.run(ticks=ticks)
            await w.close()
            return (await w.agents())["ana"]
        finally:
            await kernel.aclose()

    assert asyncio.run(some(3, first=True))[2:4] == ("a", 3)
    assert asyncio.run(some(1, first=False))[2:4] == ("b", 0)
    assert asyncio.run(some(2, first=False))[2:4] == ("b", 2)


def test_the_view_counts_as_the_engine_does(tmp_path: Path) -> None:
    """Ticks in a state and failures in a row are kept by the view; they are those of `next_state`."""
    acts: Sequence[Any] = [
        NOOP,
        FAILS,
        FAILS,
        NOOP,
        "no action",
        {"action": "message", "to": "ana", "text": "hm"},
        FAILS,
        {"action": "write", "artifact_id": "x", "kind": "document", "content": "1"},
        NOOP,
        FAILS,
    ]
    steps = (
        when("a", b="failure_count >= 2"),
        when("b", c="last_action_success"),
        auto("c", "d"),
        when("d", a="ticks_in_state >= 2"),
    )

    async def scenario() -> None:
        speaking = Speaking({"ana": list(acts)})
        async with world_at(tmp_path, models=speaking.model, config=CONFIG) as w:
            await worker(w, *steps)
            workflow, state = read_workflow(flow(*steps)), MindState(state="a")
            for tick in range(1, len(acts) + 1):
                await w.tick()
                row = (await w.agents())["ana"]
                last = {"type": row.last_action, "success": row.last_ok}
                facts = facts_of(agent_id="ana", tick=tick, balance=100, last_action=last)
                state, _ = next_state(workflow, state, facts)
                seen = (row.state, row.ticks_in_state, row.failures)
                assert seen == (state.state, state.ticks_in_state, state.failure_count), tick
            assert row.failures == 1

    asyncio.run(scenario())
