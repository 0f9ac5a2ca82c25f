"""What agents think with is sold: the buyer thinks with it, the seller no longer can, scrip moves once."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

from artelier.world import World
from artelier.world.genesis import settle
from tests.world.asked import charges, left_out, manifest
from tests.world.flows import auto, flow
from tests.world.memories import texts
from tests.world.places import add, balance, events, world_at
from tests.world.speaking import NOOP, Speaking
from tests.world.stall import open_stall, write

CONFIG = {"model": "m", "mint": {"every": 0}}


def offer(artifact: str, price: int, **terms: Any) -> dict[str, Any]:
    return {"action": "offer", "artifact_id": artifact, "price": price, **terms}


def accepts(artifact: str) -> Any:
    """A model that accepts the offer of an artifact which its prompt shows."""

    def answer(text: str) -> dict[str, Any]:
        for line in text.splitlines():
            if f'"artifact": "{artifact}"' in line:
                found = re.search(r'"offer": "([^"]+)"', line)
                assert found is not None
                return {"action": "accept", "offer_id": found[1]}
        return NOOP

    return answer


def configure(**references: str | None) -> dict[str, Any]:
    return {"action": "configure", **references}


async def goals(world: World, goal: str, *agents: str) -> None:
    """A working memory for each: what they want is what they search their past for."""
    for agent in agents:
        await write(world, agent, f"{agent}_now", {"goal": goal}, "document")


def goal_of(agent: str) -> dict[str, Any]:
    return {"working_memory_artifact_id": f"{agent}_now"}


def test_prompt_trading_between_agents(tmp_path: Path) -> None:
    """Sold itself, a prompt changes hands and minds; sold as a copy, both think with it."""
    words = "You speak softly and never name a price first."
    sells = [offer("ana_style", 40, to="bob"), offer("ana_manner", 15, sells="copy"), NOOP]

    def dresses(text: str) -> dict[str, Any]:
        """Of its artifacts, the one that it has not written itself."""
        mine = re.search(r"Your artifacts: (.*)", text)
        got = [one for one in (mine[1] if mine else "").split(", ") if one not in ("cid", "")]
        return configure(personality_prompt_artifact_id=got[0]) if got else NOOP

    buys = [NOOP, accepts("ana_style"), configure(personality_prompt_artifact_id="ana_style"), NOOP]
    speaking = Speaking(
        {"ana": sells, "bob": buys, "cid": [NOOP, NOOP, accepts("ana_manner"), dresses, NOOP]}
    )

    async def scenario() -> None:
        async with world_at(tmp_path, models=speaking.model, config=CONFIG) as w:
            await write(w, "ana", "ana_style", words, "prompt")
            await write(w, "ana", "ana_manner", "You bow to whoever pays.", "prompt")
            await add(w, ana={"personality_prompt_artifact_id": "ana_style"}, bob={}, cid={})
            await w.run(ticks=5)

            ana, bob, cid = (speaking.shown(agent) for agent in ("ana", "bob", "cid"))
            # On offer it is still hers to think with; once it is sold it is not.
            assert [words in shown for shown in ana] == [True, True, False, False, False]
            assert (await left_out(w, "ana", 3))["personality"] == "denied"
            assert [words in shown for shown in bob] == [False, False, False, True, True]
            assert '"artifact": "ana_style"' not in cid[1]  # it was for bob only
            assert [("You bow to" in shown) for shown in cid] == [False] * 4 + [True]
            source = [p.src for p in (await manifest(w, "bob", 4)).parts if p.tag == "personality"]
            assert source == [("ana_style@1 (personality)",)]

            assert await balance(w, "bob") == 60 and await balance(w, "cid") == 85
            assert await balance(w, "ana") == 155
            sold = [d for _, _, d in await events(w, "offer.accepted")]
            assert [(d["buyer"], d["seller"], d["price"]) for d in sold] == [
                ("bob", "ana", 40),
                ("cid", "ana", 15),
            ]
            copy = await w.as_principal("cid").artifacts.read(sold[1]["got"])
            assert copy.content == "You bow to whoever pays." and copy.owner == "cid"
            lineage = await w.as_principal("cid").artifacts.lineage(sold[1]["got"])
            assert lineage.sources == ("ana_manner@1",)
            assert (await w.as_principal("bob").artifacts.read("ana_style")).owner == "bob"

    asyncio.run(scenario())


def test_memory_trading_between_agents(tmp_path: Path) -> None:
    """Whoever buys a memory store recalls what its seller learnt, and the seller forgets it."""
    lesson = "The well in the north runs dry in summer"
    speaking = Speaking(
        {
            "ana": [offer("ana_past", 50), NOOP],
            "bob": [NOOP, accepts("ana_past"), configure(longterm_memory_artifact_id="ana_past"), NOOP],
        }
    )

    async def scenario() -> None:
        async with world_at(tmp_path, models=speaking.model, config=CONFIG) as w:
            await settle(w)
            await write(w, "ana", "ana_past", {"config": {}}, "memory_store")
            await goals(w, "draw water from the well in the north", "ana", "bob")
            mind = {"longterm_memory_artifact_id": "ana_past"}
            await add(w, ana={**goal_of("ana"), **mind}, bob=goal_of("bob"))
            await w.as_principal("ana").artifacts.invoke(
                "genesis_memory_add", memory_artifact_id="ana_past", text=lesson
            )
            await w.run(ticks=5)

            ana, bob = speaking.shown("ana"), speaking.shown("bob")
            assert [lesson in shown for shown in ana] == [True, True, False, False, False]
            assert (await left_out(w, "ana", 3))["recent_memories"] == "denied"
            assert [lesson in shown for shown in bob] == [False, False, False, True, True]
            assert await texts(w, "bob", "ana_past") == [lesson]
            searched = [(tick, who) for who in ("ana", "bob") for tick, *_ in await charges(w, who)]
            assert searched == [(1, "ana"), (2, "ana"), (4, "bob"), (5, "bob")]
            # One entry, two searches each, and the price: nobody pays for what it was denied.
            assert await balance(w, "ana") == 100 - 1 - 2 + 50
            assert await balance(w, "bob") == 100 - 50 - 2

    asyncio.run(scenario())


def learning(text: str) -> dict[str, Any]:
    """What a model that tries things, notes what came of it, and sells its notes makes of its prompts."""
    if "Try the stall" in text:
        return {"action": "invoke", "artifact_id": "stall", "args": {"quality": 5}}
    if "Note what came of it" in text:
        earned = re.search(r'"earned": ?(\d+)', text)
        said = f"Work of quality 5 earned {earned[1]} scrip at the stall" if earned else "nothing"
        args = {"memory_artifact_id": "ana_past", "text": said, "importance": 0.9}
        return {"action": "invoke", "artifact_id": "genesis_memory_add", "args": args}
    return offer("ana_past", 30) if "Sell what you know" in text else NOOP


def following(text: str) -> dict[str, Any]:
    """What a model that acts on what it remembers makes of its prompts."""
    known = re.search(r"Work of quality (\d+) earned", text)
    if known:
        return {"action": "invoke", "artifact_id": "stall", "args": {"quality": int(known[1])}}
    if "Your artifacts: ana_past" in text:  # sorted, so before what it had
        return configure(longterm_memory_artifact_id="ana_past")
    return accepts("ana_past")(text)


def test_agent_learns_and_trades_memory(tmp_path: Path) -> None:
    """An agent stores what came of its actions and sells it; the buyer earns by it, the seller forgot it."""
    steps = flow(
        {**auto("try", "note"), "prompt_inline": "Try the stall."},
        {**auto("note", "sell"), "prompt_inline": "Note what came of it: {last_action_result}"},
        {**auto("sell", "rest"), "prompt_inline": "Sell what you know."},
        {**auto("rest"), "prompt_inline": "Rest. You recall: {recent_memories}"},
    )
    speaking = Speaking({"ana": learning, "bob": following, "patron": NOOP})

    async def scenario() -> None:
        async with world_at(tmp_path, models=speaking.model, config=CONFIG) as w:
            await settle(w)
            await open_stall(w, 90)
            await write(w, "ana", "ana_past", {"config": {}}, "memory_store")
            await write(w, "ana", "ana_flow", steps, "workflow")
            mind = {"workflow_artifact_id": "ana_flow", "longterm_memory_artifact_id": "ana_past"}
            await goals(w, "earn scrip by work at the stall", "ana", "bob")
            await add(w, ana={**goal_of("ana"), **mind}, bob=goal_of("bob"))
            await w.run(ticks=7)

            known = "Work of quality 5 earned 15 scrip at the stall"
            ana, bob = speaking.shown("ana"), speaking.shown("bob")
            # Learnt in tick 2, on offer from tick 3 on, bought in 4, thought with from 6 on.
            assert [known in shown for shown in ana] == [False, False, True, True] + [False] * 3
            assert [known in shown for shown in bob] == [False] * 5 + [True] * 2
            assert "You recall: none" in ana[4] or "You recall: \n" in ana[4]
            assert (await left_out(w, "ana", 5))["recent_memories"] == "denied"
            [entry] = await events(w, "entry.added")
            assert entry[1] == "ana" and entry[2]["store"] == "ana_past"
            [(_, _, sale)] = await events(w, "offer.accepted")
            assert (sale["buyer"], sale["seller"], sale["price"]) == ("bob", "ana", 30)
            # ana: 15 earned, a note, two searches, the sale. bob: the price, two searches, 15 twice.
            assert await balance(w, "ana") == 100 + 15 - 1 - 2 + 30
            assert await balance(w, "bob") == 100 - 30 - 2 + 30
            assert await balance(w, "artifact:stall") == 90 - 45

    asyncio.run(scenario())
