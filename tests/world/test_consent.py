"""Consent: nobody pays more than the price in the state that its thought saw, unless it says a cap itself."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from artelier.world import World
from artelier.world.genesis import found, settle
from tests.world.asked import left_out, write
from tests.world.places import add, balance, events, world_at
from tests.world.speaking import NOOP, Speaking

RULE = {"policy": "rule"}
CODE = {"code": "def run(n=0):\n    return n + 1\n"}
SEEDS = (0, 6)
"""In the first tick ana acts before bob, or after him."""


def priced(id_: str, kind: str, content: Any, price: int) -> dict[str, Any]:
    prices = {"read": price, "invoke": price}
    return {
        "action": "write",
        "artifact_id": id_,
        "kind": kind,
        "content": content,
        "prices": prices,
        "access": "owner_writes",
    }


def script(**by_agent: Mapping[int, Any]) -> dict[str, Any]:
    """Rule agents that do in a tick what is written for it."""

    def rule(facts: dict[str, Any]) -> Any:
        return by_agent.get(facts["agent_id"], {}).get(facts["tick"])

    return {"rule": rule}


def flow(**named: str) -> dict[str, Any]:
    step = {"state": "a", **named}
    return {"states": ["a"], "initial_state": "a", "steps": [step]}


THINGS: Mapping[str, tuple[Any, dict[str, Any]]] = {
    "document": ("north of the river", {"action": "read", "ref": "thing"}),
    "tool": (CODE, {"action": "invoke", "artifact_id": "thing", "args": {}}),
    "memory_store": (
        {"config": {}},
        {
            "action": "invoke",
            "artifact_id": "genesis_memory_search",
            "args": {"memory_artifact_id": "thing", "query": "river"},
        },
    ),
}
FEES = {"memory_store": 1}


def paid_for(folder: Path, kind: str, *, seed: int, rules: int, **more: Any) -> int:
    """What ana pays for using bob's thing, whose price he raises from 2 to 9 in the same tick."""
    content, use = THINGS[kind]
    policies = script(ana={1: {**use, **more}}, bob={1: priced("thing", kind, content, 9)})

    async def scenario() -> int:
        async with world_at(
            folder,
            config={"seed": seed, "rules": rules},
            policies=policies,
            agents={"ana": RULE, "bob": RULE},
        ) as w:
            await settle(w)
            bob = w.as_principal("bob").artifacts
            await bob.write(
                "thing", kind=kind, content=content, prices={"read": 2, "invoke": 2}, access="owner_writes"
            )
            if kind == "memory_store":
                await bob.invoke("genesis_memory_add", memory_artifact_id="thing", text="a river")
            before = await balance(w, "ana")
            await w.tick()
            return before - await balance(w, "ana")

    folder.mkdir()
    return asyncio.run(scenario())


@pytest.mark.parametrize("kind", THINGS)
def test_a_price_that_is_raised_in_the_same_tick_is_not_paid(tmp_path: Path, kind: str) -> None:
    fee = FEES.get(kind, 0)

    paid = {paid_for(tmp_path / str(seed), kind, seed=seed, rules=2) for seed in SEEDS}

    assert paid == {0, 2 + fee}  # refused after the raise, done before it


@pytest.mark.parametrize("kind", THINGS)
def test_a_cap_that_is_said_is_agreed_to_and_older_worlds_keep_their_rule(tmp_path: Path, kind: str) -> None:
    fee = FEES.get(kind, 0)

    said = {paid_for(tmp_path / f"a{n}", kind, seed=n, rules=2, price_max=20) for n in SEEDS}
    older = {paid_for(tmp_path / f"b{n}", kind, seed=n, rules=1) for n in SEEDS}

    assert said == older == {2 + fee, 9 + fee}


def test_what_nobody_could_have_seen_costs_nothing_without_a_cap(tmp_path: Path) -> None:
    """The id of an artifact that is made in this tick, and that of an offer, can be guessed."""
    guessed = {"action": "accept", "offer_id": "offer-2-1"}
    policies = script(
        ana={1: {"action": "read", "ref": "new"}, 2: guessed, 3: guessed},
        bob={
            1: priced("new", "document", "x", 5),
            2: {"action": "offer", "artifact_id": "new", "price": 7, "sells": "copy"},
        },
    )

    async def scenario(seed: int) -> None:
        folder = tmp_path / str(seed)
        folder.mkdir()
        async with world_at(
            folder, config={"seed": seed}, policies=policies, agents={"ana": RULE, "bob": RULE}
        ) as w:
            await w.run(ticks=2)
            assert await balance(w, "ana") == 100
            await w.tick()
            assert await balance(w, "ana") == 93  # the offer stood at the end of the tick before

    for seed in SEEDS:
        asyncio.run(scenario(seed))


def shown(folder: Path, mind: Any, play: Any, *, rules: int = 2, **acts: Any) -> list[Any]:
    """What `play` notes of a world in which ana asks a model and bob is a person."""
    speaking = Speaking(acts)

    async def scenario() -> list[Any]:
        async with world_at(folder, models={"m": speaking.model}, config={"model": "m", "rules": rules}) as w:
            return await play(w, lambda: add(w, ana=mind))

    return asyncio.run(scenario())


async def passed(w: World) -> tuple[int, dict[str, str]]:
    """What ana paid in a tick, and what her prompt left out."""
    before = await balance(w, "ana")
    tick = (await w.tick()).tick
    return before - await balance(w, "ana"), await left_out(w, "ana", tick)


@pytest.mark.parametrize(("rules", "price"), [(2, 0), (1, 50)])
def test_whoever_takes_an_id_that_others_wait_for_is_paid_nothing(
    tmp_path: Path, rules: int, price: int
) -> None:
    async def play(w: World, join: Any) -> list[Any]:
        await join()
        first = await passed(w)
        await write(w, "bob", "news", "Rain.", prices={"inclusion": 50})
        return [first, await passed(w)]

    mind = {"subscribed_artifacts": ["news"]}
    first, second = shown(tmp_path, mind, play, rules=rules)

    assert first[1] == {"subscribed:news": "missing"}
    assert second == (price, {} if price else {"subscribed:news": "too_dear"})


@pytest.mark.parametrize(
    "mind",
    [
        {"subscribed_artifacts": ["p"]},
        {"personality_prompt_artifact_id": "p"},
        {"working_memory_artifact_id": "p"},
        {"workflow": flow(prompt_artifact_id="p")},
        {"workflow_artifact_id": "ana_flow"},
    ],
)
def test_who_joins_agrees_to_the_prices_of_then_and_to_no_others(
    tmp_path: Path, mind: dict[str, Any]
) -> None:
    async def play(w: World, join: Any) -> list[Any]:
        await write(w, "bob", "p", "Buy low.", prices={"read": 1, "inclusion": 2})
        await write(w, "ana", "ana_flow", flow(prompt_artifact_id="p"), kind="workflow")
        await join()
        first = await passed(w)
        await write(w, "bob", "p", "Buy low.", prices={"inclusion": 4})
        raised = await passed(w)
        await write(w, "bob", "p", "Buy low.", prices={"inclusion": 3})
        return [first, raised, await passed(w)]

    first, raised, lowered = shown(tmp_path, mind, play)

    assert first == (3, {}) and lowered == (3, {})
    assert raised[0] == 0 and list(raised[1].values()) == ["too_dear"]


def test_a_transition_prompt_is_paid_at_the_price_agreed_to(tmp_path: Path) -> None:
    way = {"transition_mode": "llm", "transition_prompt_artifact_id": "p"}

    async def play(w: World, join: Any) -> list[Any]:
        await write(w, "bob", "p", "Where does ana go?", prices={"inclusion": 2})
        await join()
        first = await passed(w)
        await write(w, "bob", "p", "Where does ana go?", prices={"inclusion": 3})
        return [first, await passed(w)]

    first, raised = shown(tmp_path, {"workflow": flow(**way)}, play)

    assert (first[0], raised[0]) == (2, 0)


@pytest.mark.parametrize(
    "act",
    [
        {"action": "subscribe_artifact", "artifact_id": "p"},
        {"action": "configure", "personality_prompt_artifact_id": "p"},
        {"action": "configure", "workflow_artifact_id": "bob_flow"},
        {
            "action": "write",
            "artifact_id": "ana",
            "kind": "agent",
            "content": {"subscribed_artifacts": ["p"]},
        },
        {"action": "edit", "artifact_id": "ana", "old": "[]", "new": '["p"]'},
        {
            "action": "write",
            "artifact_id": "ana_flow",
            "kind": "workflow",
            "content": flow(prompt_artifact_id="p"),
        },
    ],
)
def test_who_names_something_agrees_to_the_price_that_it_saw(tmp_path: Path, act: dict[str, Any]) -> None:
    """Bob raises the price in the same tick, so that in half of the orders it is there when ana acts."""
    speaking = Speaking({"ana": [act, NOOP]})
    raised = priced("p", "document", "Buy low.", 9)

    async def scenario(seed: int) -> tuple[list[int], str]:
        folder = tmp_path / str(seed)
        folder.mkdir()
        async with world_at(
            folder,
            models={"m": speaking.model},
            config={"model": "m", "seed": seed},
            policies=script(bob={1: raised}),
        ) as w:
            await write(w, "bob", "p", "Buy low.", prices={"read": 1, "inclusion": 1})
            await write(
                w, "bob", "bob_flow", flow(prompt_artifact_id="p"), kind="workflow", access="owner_writes"
            )
            await write(w, "ana", "ana_flow", flow(), kind="workflow")
            mind = {"subscribed_artifacts": [], "workflow_artifact_id": "ana_flow"}
            await add(w, ana=mind, bob=RULE)
            await w.run(ticks=2)
            acts = [(who, data["act"]) for _, who, data in await events(w) if data.get("act")]
            assert (await events(w, "action.rejected")) == []
            await write(w, "bob", "p", "Buy low.", prices={"inclusion": 2})
            after = await balance(w, "ana")
            await w.tick()
            return [100 - after, after - await balance(w, "ana")], acts[0][0]

    orders: set[str] = set()
    for seed in SEEDS:
        speaking = Speaking({"ana": [act, NOOP]})
        paid, first = asyncio.run(scenario(seed))
        assert paid == [0, 2], (seed, first)  # 9 was too dear, 2 was agreed to
        orders.add(first)
    assert orders == {"ana", "bob"}


def test_to_name_one_thing_is_no_consent_to_the_price_of_another(tmp_path: Path) -> None:
    acts = [{"action": "subscribe_artifact", "artifact_id": "q"}, NOOP]

    async def play(w: World, join: Any) -> list[Any]:
        await join()
        await write(w, "bob", "p", "Rain.", prices={"inclusion": 30})
        await write(w, "bob", "q", "Sun.", prices={"inclusion": 3})
        await w.tick()
        return [await passed(w)]

    [(paid, missing)] = shown(tmp_path, {"subscribed_artifacts": ["p"]}, play, ana=acts)

    assert (paid, missing) == (3, {"subscribed:p": "too_dear"})


def test_agents_of_a_world_file_agree_to_its_prices(tmp_path: Path) -> None:
    speaking = Speaking()
    spec = {
        "world": {"model": "m"},
        "settle": False,
        "agents": [{"id": "ana", "defaults": False, "subscribed_artifacts": ["p", "free"]}],
        "artifacts": [
            {"id": "p", "kind": "document", "owner": "bob", "content": "x", "prices": {"read": 3}},
            {"id": "free", "kind": "document", "owner": "bob", "content": "y"},
        ],
    }

    async def scenario() -> None:
        async with world_at(tmp_path, models={"m": speaking.model}, id="other") as other:
            world = await found(other.host, "w", spec)
            assert await passed(world) == (3, {})
            for id_ in ("p", "free"):
                await write(world, "bob", id_, "z", prices={"read": 4})
            assert (await passed(world))[1] == {"subscribed:p": "too_dear", "subscribed:free": "too_dear"}
            await world.close()

    asyncio.run(scenario())


def test_a_fork_of_an_older_world_may_take_the_new_rule(tmp_path: Path) -> None:
    speaking = Speaking()

    async def scenario() -> None:
        async with world_at(tmp_path, models={"m": speaking.model}, config={"model": "m", "rules": 1}) as w:
            await write(w, "bob", "p", "x")
            await add(w, ana={"subscribed_artifacts": ["p"]})
            await w.tick()
            await write(w, "bob", "p", "x", prices={"inclusion": 5})
            same, newer = await w.fork(), await w.fork(config={"rules": 2})
            await w.configure({"model": "m", "rules": 2})
            assert [await passed(one) for one in (w, same, newer)] == [
                (5, {}),
                (5, {}),
                (0, {"subscribed:p": "too_dear"}),
            ]
            for one in (same, newer):
                await one.close()

    asyncio.run(scenario())
