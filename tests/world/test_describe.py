"""What `describe` says of a world: true for that one, and data stays data."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from artelier.world import World
from artelier.world.figures.odd_description import describe
from tests.world.places import world_at

Facts = dict[str, Any]

HOSTILE = "`evil` | x |\n# heading\x1b[2J <script>" + "y" * 500


def give(facts: Facts) -> Any:
    if facts["agent_id"] == "bob":
        return {"action": "transfer", "to": "ana", "amount": 1_000}
    if facts["seed"] % 2:
        return {"action": "write", "artifact_id": "diary", "content": "x", "kind": "document"}
    return {"action": "transfer", "to": "bob", "amount": 2}


give.version = 3  # type: ignore[attr-defined]


def described(folder: Path, **more: Any) -> tuple[str, World]:
    """After four ticks."""

    async def scenario() -> tuple[str, World]:
        async with world_at(folder, policies={"give": give}, **more) as world:
            await world.run(ticks=4)
            return await describe(world), world

    return asyncio.run(scenario())


def test_it_has_the_parts_of_the_protocol_and_counts_what_was_done(tmp_path: Path) -> None:
    agents = {"ana": {"policy": "give"}, "bob": {"policy": "give"}}
    text, _ = described(tmp_path, agents=agents, config={"seed": 9, "start_balance": 70})

    wanted = (
        "# World `w`",
        "## Overview",
        "### Purpose",
        "### Entities, state variables and scales",
        "### Process overview and scheduling",
        "## Design concepts",
        "## Details",
        "### Initialisation",
        "### Input data",
        "### Submodels",
    )
    places = [text.index(part) for part in wanted]
    assert places == sorted(places)
    assert "after tick 4" in text and "2 agents act." in text
    assert "Seed 9. Before the first tick 2 agents joined with 140 scrip in all (70" in text
    assert "| policy | `give@3` | 8 |" in text
    assert "| rule `give` | 2 | `ana`, `bob` |" in text
    assert "Rejected so far: 4 of 8." in text
    assert "| `start_balance` (changed) | `70` |" in text and '| `model` | `"offline"` |' in text
    assert "`simultaneous`: all agents decide" in text and "every agent sees every other" in text


def test_only_what_was_carried_out_counts_as_interaction(tmp_path: Path) -> None:
    def all_refused(facts: Facts) -> Any:
        return {"action": "transfer", "to": "ana", "amount": 1_000}

    async def scenario() -> str:
        policies = {"greedy": all_refused}
        agents = {"bob": {"policy": "greedy"}, "ana": {"policy": "greedy"}}
        async with world_at(tmp_path, policies=policies, agents=agents) as world:
            await world.run(ticks=3)
            return await describe(world)

    text = asyncio.run(scenario())

    assert "0 trades, 0 messages, 0 transfers and 0 invocations so far" in text
    assert "Rejected so far: 6 of 6." in text


def test_settings_decide_what_is_said_of_schedule_network_shocks_and_mint(tmp_path: Path) -> None:
    config = {
        "activation": "staged",
        "stages": [["bob"], ["ana"]],
        "network": {"ana": ["bob"], "bob": []},
        "mint": {"every": 3, "cases": {"tool": [{"args": {}, "expected": 1}]}},
        "shocks": [{"tick": 2, "name": "flood", "pay": -5, "to": ["bob"], "message": "Water | rises"}],
        "actions": ["transfer", "write"],
        "collect": {"rich": "balance > 50"},
    }
    text, _ = described(
        tmp_path, config=config, agents={"ana": {"policy": "give"}, "bob": {"policy": "give"}}
    )

    assert "`staged`: stage by stage" in text and "1. `bob`\n1. `ana`" in text
    assert "2 agents in it, 1 directed edge." in text
    assert "| 2 | `flood` | -5 | `bob` | `Water ¦ rises` |" in text
    assert "Shocks moved money 1 time." in text and "1 piece of news" in text
    assert "every 3 ticks a round of the mint is closed" in text
    assert "Test cases: 1 for `tool`. Rounds in which it moved money: 0." in text
    assert "`transfer`, `write` allowed" in text and "`rich` = `balance > 50`" in text


def test_a_world_without_a_mint_says_so(tmp_path: Path) -> None:
    text, _ = described(tmp_path, config={"mint": {"every": 0}})

    assert "There is no mint." in text and "0 agents act." in text
    assert "a round of the mint" not in text


def test_text_of_agents_is_bounded_and_leaves_no_code_span(tmp_path: Path) -> None:
    agents = {"ana": {"policy": HOSTILE}, "bob": {"model": HOSTILE, "policy": ""}}
    config = {"shocks": [{"tick": 1, "name": HOSTILE[:200], "message": HOSTILE}], "actions": ["noop"]}

    text, _ = described(tmp_path, agents=agents, config=config)

    assert "\x1b" not in text and "\n# heading" not in text
    lines = [line for line in text.split("\n") if "evil" in line]
    assert len(lines) >= 3
    for line in lines:
        outside = "".join(line.split("`")[::2])
        assert "evil" not in outside and "script" not in outside and line.count("`") % 2 == 0
        assert len(line) < 1_500


def test_many_agents_and_kinds_are_counted_not_listed(tmp_path: Path) -> None:
    agents = {f"a{n}": {"policy": f"rule {n}"} for n in range(30)}

    text, _ = described(tmp_path, agents=agents)

    assert "30 agents act." in text and "10 more rows are left out." in text
    assert len(text) < 10_000


def test_a_fork_says_where_it_comes_from(tmp_path: Path) -> None:
    async def scenario() -> str:
        agents = {"ana": {"policy": "give"}}
        async with world_at(tmp_path, policies={"give": give}, agents=agents) as world:
            await world.run(ticks=3)
            async with await world.fork(at=2) as other:
                return await describe(other)

    text = asyncio.run(scenario())

    assert "forked off `w` after tick 2" in text and "after tick 2." in text
    assert "| policy | `give@3` | 2 |" in text
