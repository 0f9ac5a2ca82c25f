"""Agents that think later in a tick know what the ones before have done."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from artelier.world import World
from tests.world.places import events, world_at
from tests.world.speaking import Speaking

RULE = {"policy": "rule"}
STAGED = {"activation": "staged", "stages": [["ana"], ["bob"], ["eve"]]}


class Watched:
    """Rule agents that do what lists say, tick by tick, and what each was told."""

    def __init__(self, **by_agent: list[Any]) -> None:
        self.by_agent = by_agent
        self.told: dict[tuple[str, int], dict[str, Any]] = {}

    def __call__(self, facts: dict[str, Any]) -> Any:
        agent, tick = facts["agent_id"], facts["tick"]
        self.told[agent, tick] = facts
        wanted = self.by_agent.get(agent, [])
        action = wanted[tick - 1] if tick <= len(wanted) else None
        return action(facts) if callable(action) else action

    def offers(self, agent: str, tick: int) -> list[str]:
        return [one["artifact"] for one in self.told[agent, tick]["offers"]]


def write(id: str) -> dict[str, Any]:
    return {"action": "write", "artifact_id": id, "kind": "document", "content": "roses"}


def offer(id: str, **more: Any) -> dict[str, Any]:
    return {"action": "offer", "artifact_id": id, "price": 4, **more}


def accept(facts: dict[str, Any]) -> dict[str, Any]:
    return {"action": "accept", "offer_id": facts["offers"][0]["offer"]}


def cancel(facts: dict[str, Any]) -> dict[str, Any]:
    return {"action": "cancel_offer", "offer_id": facts["offers"][0]["offer"]}


def run(folder: Path, rule: Watched, *, ticks: int, **config: Any) -> None:
    async def scenario() -> None:
        agents: dict[str, Any] = {"ana": RULE, "bob": RULE, "eve": RULE}
        async with world_at(folder, policies={"rule": rule}, agents=agents, config={**STAGED, **config}) as w:
            await w.as_principal("eve").artifacts.write(
                "eves", kind="document", content="x", access={"allow": {"delete": ["ana"]}}
            )
            await w.run(ticks=ticks)

    asyncio.run(scenario())


def test_a_later_stage_sees_what_is_offered_and_sold_in_this_tick(tmp_path: Path) -> None:
    rule = Watched(
        ana=[write("poem"), offer("poem"), write("song"), offer("song", sells="copy"), cancel],
        bob=[None, accept],
    )
    run(tmp_path, rule, ticks=5)
    assert rule.told["ana", 2]["my_artifacts"] == ["ana", "poem"]
    assert rule.offers("bob", 2) == ["poem"] and rule.offers("eve", 2) == []
    made = rule.told["bob", 2]["offers"][0]
    assert (
        made.items()
        >= {
            "offer": "offer-2-1",
            "artifact": "poem",
            "kind": "document",
            "seller": "ana",
            "price": 4,
            "sells": "ownership",
            "to": "",
            "royalty_percent": 0,
        }.items()
    )
    assert rule.told["bob", 3]["my_artifacts"] == ["bob", "poem"]
    # An offer is told alike in the tick in which it was made, and later.
    assert rule.told["bob", 4]["offers"] == rule.told["ana", 5]["offers"] != []
    assert rule.offers("bob", 5) == rule.offers("eve", 5) == []


def test_a_later_stage_does_not_own_what_was_taken_from_it(tmp_path: Path) -> None:
    rule = Watched(ana=[{"action": "delete", "artifact_id": "eves"}])
    run(tmp_path, rule, ticks=1)
    assert rule.told["eve", 1]["my_artifacts"] == ["eve"]


def test_agents_of_one_wave_do_not_see_each_other(tmp_path: Path) -> None:
    rule = Watched(ana=[write("poem"), offer("poem")])
    run(tmp_path, rule, ticks=3, activation="simultaneous", stages=[])
    assert rule.offers("bob", 2) == [] and rule.offers("bob", 3) == ["poem"]


def test_in_random_activation_everybody_sees_what_came_before(tmp_path: Path) -> None:
    """All three offer something in one tick: each sees the offers of those before it, the newest first."""
    names = ("ana", "bob", "eve")
    rule = Watched(**{name: [write(f"of_{name}"), offer(f"of_{name}")] for name in names})
    run(tmp_path, rule, ticks=2, activation="random", stages=[])
    seen = sorted((rule.offers(agent, 2) for agent in names), key=len)
    assert [len(one) for one in seen] == [0, 1, 2]
    assert seen[2][1:] == seen[1]


def test_a_prompt_of_a_later_stage_shows_the_offer(tmp_path: Path) -> None:
    speaking = Speaking({"bob": {"action": "accept", "offer_id": "offer-2-1"}})

    async def scenario() -> World:
        rule = Watched(ana=[write("poem"), offer("poem")])
        agents: dict[str, Any] = {"ana": RULE, "bob": {"system_prompt": "Buy."}}
        async with world_at(
            tmp_path,
            policies={"rule": rule},
            agents=agents,
            models=speaking.model,
            config={"activation": "staged", "stages": [["ana"], ["bob"]], "model": "m"},
        ) as w:
            await w.run(ticks=2)
            assert len(await events(w, "offer.accepted")) == 1
            return w

    asyncio.run(scenario())
    first, second = speaking.shown("bob")
    assert "offer-2-1" not in first and '"offer": "offer-2-1"' in second
