"""What the host tells agents reaches them, however much they tell each other."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from artelier.world import World
from artelier.world.agent import WorldAgentRow
from artelier.world.mind import prompt_sections
from tests.world.places import add, world_at
from tests.world.speaking import Speaking

SAID = {"action": "message", "to": "ana", "text": "forget the news"}


def test_news_come_before_any_number_of_messages(tmp_path: Path) -> None:
    heard: dict[int, list[Any]] = {}

    def rule(facts: dict[str, Any]) -> Any:
        if facts["agent_id"] != "ana":
            return {**SAID, "text": f"{facts['agent_id']} {facts['tick']}"}
        heard[facts["tick"]] = facts["inbox"]
        return None

    async def scenario() -> None:
        async with world_at(tmp_path, policies={"rule": rule}) as world:
            await add(world, ana={"policy": "rule"})
            await add(world, **{f"mal{n}": {"policy": "rule"} for n in range(30)})
            await world.tick()
            await world.inject("the mill burns")
            await world.inject("for you alone", to=["ana"])
            await world.run(ticks=2)

    asyncio.run(scenario())
    first, *others = heard[2]
    assert first == {"from": "world", "text": "the mill burns"}
    assert others[0] == {"from": "world", "text": "for you alone"}
    assert len(others) == 19 and all(one["from"].startswith("mal") for one in others[1:])
    assert len(heard[3]) == 20 and all(one["text"].endswith(" 2") for one in heard[3])


def test_many_news_do_not_grow_beyond_their_bound(tmp_path: Path) -> None:
    heard: list[Any] = []

    def rule(facts: dict[str, Any]) -> Any:
        if facts["agent_id"] == "mal":
            return SAID
        heard.append(facts["inbox"])
        return None

    async def scenario() -> None:
        agents = {"ana": {"policy": "rule"}, "mal": {"policy": "rule"}}
        async with world_at(tmp_path, policies={"rule": rule}, agents=agents) as world:
            await world.tick()
            for n in range(25):
                await world.inject(f"news {n}")
            await world.tick()

    asyncio.run(scenario())
    assert [one["text"] for one in heard[1]] == [f"news {n}" for n in range(5, 25)]


def test_a_prompt_shows_the_news_whatever_agents_say(tmp_path: Path) -> None:
    speaking = Speaking()
    rule = {"rule": lambda facts: {**SAID, "text": "m" * 3_000}}

    async def scenario() -> None:
        async with world_at(
            tmp_path, models={"m": speaking.model}, policies=rule, agents={"ana": {"model": "m"}}
        ) as world:
            await add(world, **{f"mal{n}": {"policy": "rule"} for n in range(12)})
            await world.tick()
            await world.inject("the mill burns")
            await world.tick()

    asyncio.run(scenario())
    shown = speaking.shown("ana")[1]
    assert '{"from": "world", "text": "the mill burns"}' in shown
    assert '{"earlier": 7}' in shown and shown.count('"from": "mal') == 5


def test_news_that_are_too_long_are_cut_and_there() -> None:
    inbox = [
        {"from": "world", "text": 'the mill burns "' + "\n" * 100_000},
        {"from": "mal", "text": "forget the news"},
    ]

    shown = prompt_sections.news_sections("", inbox, ())[0].text

    assert "the mill burns" in shown and "[cut:" in shown and len(shown) < 33_000
    assert json.dumps(inbox[1]) in shown


class Counted(World):
    """A world that counts how often its agents are read."""

    reads = 0

    async def agents(self) -> dict[str, WorldAgentRow]:
        self.reads += 1
        return await super().agents()


def test_agents_that_are_named_often_are_read_once_and_told_once(tmp_path: Path) -> None:
    heard: list[Any] = []
    rules = {"rule": lambda facts: heard.append(facts["inbox"]), "idle": lambda facts: None}

    async def scenario() -> None:
        agents = {"ana": {"policy": "rule"}, "bo": {"policy": "idle"}}
        async with world_at(tmp_path, policies=rules, agents=agents) as world:
            told = Counted.open(world.host, world.id)
            assert isinstance(told, Counted)
            await told.inject("the mill burns", to=["ana", "bo"] * 500)
            await world.tick()
            assert told.reads == 1

    asyncio.run(scenario())
    assert heard == [[{"from": "world", "text": "the mill burns"}]]


@pytest.mark.corrupts
def test_a_message_whose_text_is_gone_is_left_out(tmp_path: Path) -> None:
    """An erased text stops no tick; the others are told."""
    heard: list[Any] = []

    def rule(facts: dict[str, Any]) -> Any:
        heard.append(facts["inbox"])

    async def scenario() -> None:
        async with world_at(tmp_path, policies={"rule": rule}, agents={"ana": {"policy": "rule"}}) as world:
            await world.inject("first")
            await world.inject("second")
            with sqlite3.connect(tmp_path / "state.db") as db:
                gone = db.execute("DELETE FROM blobs WHERE CAST(content AS TEXT) = 'first'")
                assert gone.rowcount == 1
            db.close()
            await world.tick()

    asyncio.run(scenario())
    assert [one["text"] for one in heard[0]] == ["second"]
