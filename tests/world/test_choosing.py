"""A model is asked where a workflow goes: with which prompt, at which cost, and what its reply does."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from artelier import Kernel
from artelier.models import ScriptedModel
from artelier.world import World
from artelier.world.events import agent_stream
from tests.world.flows import auto, flow, llm, moves, when, words, worker
from tests.world.places import add, balance, events, world_at
from tests.world.speaking import Speaking

CONFIG = {"model": "m"}
FAILS = {"action": "transfer", "to": "bob", "amount": 10_000}


def test_llm_transition_parsing(tmp_path: Path) -> None:
    """Plain, fenced, in prose: followed. Unknown, empty, malformed, failed: the agent stays, by an event."""
    choice = '{"next_state": "b", "reason": "the design is done"}'
    good = [choice, f"```json\n{choice}\n```", f"I think about it. {choice} That is all."]
    bad = [
        '{"next_state": "z"}',
        "",
        "   ",
        "b",
        '{"next_state": "b"',
        '{"next": "b"}',
        "[]",
        '{"next_state": ["b"]}',
        f"{choice} or {choice}",
        RuntimeError("provider is gone"),
    ]
    script = [item for one in good for item in (one, '{"next_state": "a"}')] + bad
    speaking = Speaking(moves={"ana": script})

    async def scenario() -> None:
        async with world_at(tmp_path, models=speaking.model, config=CONFIG) as w:
            await worker(w, llm("a"), llm("b"))
            await w.run(ticks=6)
            assert (await moves(w))[1:] == [("a", "b", "llm"), ("b", "a", "llm")] * 3
            told = [d.get("reason", "") for _, _, d in await events(w, "agent.moved")]
            assert await words(w, told[1]) == "the design is done"

            await w.run(ticks=len(bad))
            refused = [d for _, _, d in await events(w, "agent.moved")][7:]
            assert [(d["origin"], d["to"], d["refused"]) for d in refused] == [("a", "a", True)] * len(bad)
            assert [d["step"] for d in refused] == [f"t{n}/transition" for n in range(7, 17)]
            reasons = [await words(w, d["reason"]) for d in refused]
            assert reasons[0] == "unknown state 'z'" and reasons[1] == "the reply is empty"
            assert reasons[-1].startswith("the reply failed: ")
            row = (await w.agents())["ana"]
            assert (row.state, row.ticks_in_state) == ("a", len(bad))
            assert len(speaking.shown("ana", "move")) == len(script)

    asyncio.run(scenario())


def test_hole_20_the_mode_of_a_transition_is_what_happens(tmp_path: Path) -> None:
    """`auto` asks nobody, `condition` asks nobody, `llm` asks and is followed."""
    speaking = Speaking(moves={"ana": '{"next_state": "done"}'})
    steps = (auto("start", "wait"), when("wait", think="tick == 2"), llm("think"), auto("done"))

    async def scenario() -> None:
        async with world_at(tmp_path, models=speaking.model, config=CONFIG) as w:
            await worker(w, *steps)
            await w.run(ticks=2)
            assert speaking.shown("ana", "move") == []
            await w.run(ticks=2)
            assert await moves(w) == [
                ("", "start", "begun"),
                ("start", "wait", "auto"),
                ("wait", "think", "condition"),
                ("think", "done", "llm"),
            ]
            assert len(speaking.shown("ana", "move")) == 1

    asyncio.run(scenario())


def test_the_question_where_to_go_knows_what_came_of_the_action(tmp_path: Path) -> None:
    own = "Where does {agent_id} go from {current_state}? {last_action_success}: {last_action_result}"
    speaking = Speaking({"ana": FAILS}, {"ana": '{"next_state": "b"}'})

    async def scenario() -> None:
        async with world_at(tmp_path, models=speaking.model, config=CONFIG) as w:
            space = w.as_principal("ana").artifacts
            await space.write("way", kind="prompt", content=own)
            await worker(
                w,
                llm("a", transition_prompt_artifact_id="way"),
                llm("b", transition_prompt_artifact_id="gone"),
            )
            await w.run(ticks=2)
            first, second = speaking.shown("ana", "move")
            assert "Where does ana go from a? false: " in first and "cannot pay" in first
            # It is told how to answer, since its prompt does not say it.
            assert "Available phases: a, b" in first and '{"next_state"' in first
            assert "You choose the next phase of ana" in second and "Success: false" in second
            sources = await manifest_sources(w, "t1/transition")
            assert any(one.startswith("way@1") for one in sources)
            dropped = await manifest_sources(w, "t2/transition", dropped=True)
            assert "transition: missing" in dropped

    asyncio.run(scenario())


async def manifest_sources(world: World, key: str, *, dropped: bool = False) -> list[str]:
    """Where the parts of a recorded prompt are from, or what was left out and why."""
    manifest = await world.host.manifest("w/ana", key)  # type: ignore[attr-defined]
    if dropped:
        return [f"{one.tag}: {one.why}" for one in manifest.dropped]
    return [source for part in manifest.parts for source in part.src]


def test_a_transition_prompt_of_somebody_else_is_paid_for_with_the_request(tmp_path: Path) -> None:
    speaking = Speaking(moves={"ana": '{"next_state": "a"}'})

    async def scenario() -> None:
        async with world_at(tmp_path, models=speaking.model, config=CONFIG) as w:
            await w.as_principal("bob").artifacts.write(
                "way",
                kind="prompt",
                content="Where does {agent_id} go? {available_states}",
                access="public",
                prices={"read": 10, "inclusion": 30},
            )
            await worker(w, llm("a", transition_prompt_artifact_id="way"))
            await w.run(ticks=3)
            # The third time there is no money for it, and the shipped one stands in.
            shown = speaking.shown("ana", "move")
            assert ["Where does ana go?" in one for one in shown] == [True, True, False]
            assert await balance(w, "ana") == 20 and await balance(w, "bob") == 80
            stream = agent_stream(w.host.id, w.id, "ana")
            charged = [one.plain() for one in await w.host.services.store.read(stream)]
            assert [(one["step"], one["action"]) for one in charged] == [
                (f"t{n}/transition", action) for n in (1, 2) for action in ("read", "include")
            ]

    asyncio.run(scenario())


def test_a_transition_spends_neither_what_the_action_spent_nor_what_it_earned(tmp_path: Path) -> None:
    """Whatever is paid for a prompt must be there before the tick counts, and after it."""
    poor = Speaking({"ana": {"action": "transfer", "to": "bob", "amount": 90}})
    rich = Speaking({"cid": {"action": "transfer", "to": "ana", "amount": 90}})

    async def scenario(folder: Path, speaking: Speaking, *, start: int) -> None:
        folder.mkdir()
        config = {**CONFIG, "start_balance": start}
        async with world_at(folder, models=speaking.model, config=config) as w:
            await w.as_principal("bob").artifacts.write(
                "way",
                kind="prompt",
                content="Where does {agent_id} go?",
                access="public",
                prices={"inclusion": 20},
            )
            await worker(w, llm("a", transition_prompt_artifact_id="way"))
            await add(w, cid={})
            await w.tick()
            [shown] = speaking.shown("ana", "move")
            assert "next phase of ana" in shown  # the shipped one

    asyncio.run(scenario(tmp_path / "poor", poor, start=100))
    asyncio.run(scenario(tmp_path / "rich", rich, start=10))


def test_all_agents_are_asked_at_the_same_time(tmp_path: Path) -> None:
    """Each waits until all of them ask: one after another, none would ever be answered."""
    agents = [f"a{n}" for n in range(8)]
    together = asyncio.Barrier(len(agents))

    async def answer(request: Any) -> str:
        if "next phase of" in request.messages[-1].text:
            await together.wait()
            return '{"next_state": "b"}'
        return '{"action": "noop"}'

    async def scenario() -> None:
        async with world_at(tmp_path, models=ScriptedModel(answer), config=CONFIG) as w:
            await w.as_principal("op").artifacts.write(
                "wf", kind="workflow", content=flow(llm("a"), auto("b")), access="public"
            )
            await add(w, **{agent: {"workflow_artifact_id": "wf"} for agent in agents})
            await asyncio.wait_for(w.tick(), 60)
            assert {row.state for row in (await w.agents()).values()} == {"b"}

    asyncio.run(scenario())


def test_a_transition_that_was_answered_before_a_crash_is_not_asked_again(tmp_path: Path) -> None:
    hangs = asyncio.Event()

    async def never(_: str = "") -> str:
        hangs.set()
        await asyncio.Event().wait()
        return ""

    async def begun() -> None:
        answers = {"ana": '{"next_state": "b"}', "bob": never}
        kernel = Kernel.open(tmp_path / "state.db", models=Speaking(moves=answers).model)
        try:
            w = await World.new(kernel, "w", CONFIG)
            space = w.as_principal("op").artifacts
            content = flow(llm("a"), auto("b"))
            await space.write("wf", kind="workflow", content=content, access="public")
            await add(w, ana={"workflow_artifact_id": "wf"}, bob={"workflow_artifact_id": "wf"})
            tick = asyncio.create_task(w.tick())
            await hangs.wait()
            async with asyncio.timeout(30):
                while not await answered(w, "ana"):
                    await asyncio.sleep(0)
            tick.cancel()
            with pytest.raises(asyncio.CancelledError):
                await tick
            await w.close()
        finally:
            await kernel.aclose()

    async def ended() -> None:
        later = Speaking(moves={"bob": '{"next_state": "a"}'})
        kernel = Kernel.open(tmp_path / "state.db", models=later.model)
        try:
            w = await World.open(kernel, "w")
            await w.tick()
            assert [(agent, what) for agent, what, _ in later.prompts] == [("bob", "move")]
            states = {agent: row.state for agent, row in (await w.agents()).items()}
            assert states == {"ana": "b", "bob": "a"}
            await w.close()
        finally:
            await kernel.aclose()

    asyncio.run(begun())
    asyncio.run(ended())


async def answered(world: World, agent: str) -> bool:
    """Whether the log has the answer where the agent's workflow goes in tick 1."""
    rows = await world.host.services.store.query(
        "SELECT st.status FROM steps st JOIN streams s ON s.id = st.run"
        " WHERE s.name = ? AND st.key = 't1/transition'",
        (f"run:w/{agent}",),
    )
    return rows == [("completed",)]


def test_a_transition_is_chosen_with_the_result_of_the_action_in_sight(tmp_path: Path) -> None:
    search = {"action": "search", "text": "unheard of"}
    speaking = Speaking({"ana": [search]}, moves={"ana": '{"next_state": "a"}'})

    async def scenario() -> None:
        async with world_at(tmp_path, models=speaking.model, config=CONFIG) as w:
            prompt = "Where does {agent_id} go? It gave: {last_action_result}"
            await w.as_principal("ana").artifacts.write("way", kind="prompt", content=prompt)
            await worker(w, llm("a", transition_prompt_artifact_id="way"))
            await w.tick()
            [shown] = speaking.shown("ana", "move")
            assert "It gave: " in shown and "Result: none" not in shown, shown[-900:]

    asyncio.run(scenario())
