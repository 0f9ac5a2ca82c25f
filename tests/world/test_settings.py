"""What the settings of a world may be: whatever is taken stops no tick."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from artelier import Kernel
from artelier.errors import Conflict, InvalidConfig, InvalidRequest, UnknownModel
from artelier.models.scripted import ScriptedModel
from artelier.world import World, WorldConfig
from artelier.world.agent import WorldAgentRow
from artelier.world.config import Shock
from artelier.world.genesis import found
from artelier.world.tick.tick import waves
from tests.world.places import add, balance, events, world_at

NOOP = ScriptedModel(lambda request: '{"action": "noop"}')
RULE = {"policy": "rule"}


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"activation": "staged", "stages": [["a"], ["b", "a"]]}, "stages name an agent twice"),
        ({"stages": [["a", "a"]]}, "stages name an agent twice"),
        ({"stages": [["", ""]]}, "stages name an agent twice"),
        ({"stages": ["a"]}, "stages"),
        ({"shocks": [{"tick": 1, "pay": 2**60}]}, "pay"),
        ({"shocks": [{"tick": 1, "pay": -(2**60)}]}, "pay"),
        ({"shocks": [{"tick": 1, "pay": 10**12}, {"tick": 2, "pay": 1}]}, "shocks pay too much"),
        ({"shocks": [{"tick": 2**70}]}, "number|integer"),
        ({"shocks": [{"tick": 1, "pay": 1, "to": ["a", "a"]}]}, r"shocks\[0\] names an agent twice"),
        ({"shocks": [{"tick": 1, "name": "x" * 201}]}, "name"),
        ({"shocks": [{"tick": 1, "message": "\ud800"}]}, "Unicode"),
        ({"model": "x" * 10_000}, "model"),
        ({"start_balance": 2**53}, "start_balance"),
        ({"mint": {"cases": {"tool": [{"args": 3}]}}}, r"mint.cases.tool\[0\] is no test case"),
        ({"mint": {"cases": {"tool": [{"arg": {}}]}}}, r"mint.cases.tool\[0\] is no test case"),
        ({"mint": {"cases": {"tool": {}}}}, "mint.cases"),
        ({"mint": {"cases": {"tool": [{"expected": float("nan")}]}}}, "no such number"),
        ({"mint": {"cases": {"tool": [{}] * 1_001}}}, "too many"),
        ({"mint": {"every": -1}}, "every"),
        ({"network": {"a": [3]}}, "network"),
        ({"network": {3: ["a"]}}, "key"),
        ({"resources": {"window": 0}}, "window"),
        ({"resources": {"stored_bytes": 1.5}}, "stored_bytes"),
        ({"collect": {"x": "(("}}, "collect: column x"),
        ({"collect": {"x": "secret"}}, "a fact that there is not"),
        ({"collect": {"tick": "balance"}}, "name of a column"),
        ({"actions": ["noop", "fly"]}, "actions"),
        ({"actions": "noop"}, "actions"),
        ({"sede": 1}, "sede"),
        ([], "object"),
        ("seed", "object"),
        (WorldConfig(stages=[["a"], ["a"]]), "stages name an agent twice"),
        (WorldConfig(shocks=[Shock(tick=1, pay=2**60)]), "pay"),
    ],
)
def test_settings_that_would_stop_a_world_are_refused(tmp_path: Path, given: Any, says: str) -> None:
    async def scenario() -> None:
        with Kernel.open(tmp_path / "state.db") as kernel:
            with pytest.raises(InvalidConfig, match=says):
                await World.new(kernel, "w", given)
            world = await World.new(kernel, "w")
            with pytest.raises(InvalidConfig, match=says):
                await world.configure(given)

            assert await world.config() == WorldConfig().with_rules()

    asyncio.run(scenario())


def test_whoever_stands_in_two_stages_acts_once() -> None:
    """Settings of a world from before this was refused."""
    rows = [WorldAgentRow(id, n, None, 0, 0, None, None, None, None, None) for n, id in enumerate("cab")]
    config = WorldConfig(activation="staged", stages=[["a"], ["b", "a"], [], ["a"]])

    found = waves(SimpleNamespace(config=config), rows)  # pyright: ignore[reportArgumentType]

    assert [[row.id for row in wave] for wave in found] == [["a"], ["b"], ["c"]]


def test_names_that_are_nobodys_do_nothing(tmp_path: Path) -> None:
    config = {
        "activation": "staged",
        "stages": [["nobody"], [], ["a"]],
        "network": {"a": ["zz"]},
        "shocks": [{"tick": 1, "pay": 5, "to": ["nobody", "a"], "message": "x"}],
        "actions": [],
        "collect": {"money": "balance"},
        "mint": {"every": 2**53, "cases": {"no-kind": [{}]}},
    }

    async def scenario() -> None:
        async with world_at(
            tmp_path, config=config, models={"o": NOOP}, agents={"a": {"model": "o"}, "b": {}}
        ) as world:
            assert [passed.acted for passed in await world.run(ticks=2)] == [2, 2]
            assert (await balance(world, "a"), await balance(world, "b")) == (105, 100)

    asyncio.run(scenario())


def test_all_that_the_poor_have_is_taken_once(tmp_path: Path) -> None:
    """Two shocks of one tick take what is there, and not what was there."""
    shocks = [{"tick": 1, "pay": -60}, {"tick": 1, "pay": -60, "to": ["a"]}]

    async def scenario() -> None:
        async with world_at(tmp_path, config={"shocks": shocks}, agents={"a": {}, "b": {}}) as w:
            await w.tick()
            assert (await balance(w, "a"), await balance(w, "b")) == (0, 40)

    asyncio.run(scenario())


@pytest.mark.parametrize("seed", range(24))
def test_whatever_settings_are_taken_a_world_goes_on(tmp_path: Path, seed: int) -> None:
    """Settings of all sorts are refused, or two ticks pass with everybody in each, or a model that nobody
    has stops the world before its first."""

    async def scenario() -> None:
        chance = random.Random(seed)
        with Kernel.open(tmp_path / "state.db", models={"o": NOOP}) as kernel:
            rule = {"rule": lambda facts: {"action": "transfer", "to": "b", "amount": 1}}
            for number in range(8):
                given = _anything(chance)
                try:
                    world = await World.new(kernel, f"w{number}", given, policies=rule)
                except InvalidConfig:
                    continue
                for agent, content in {"a": {"model": "o"}, "b": RULE, "c": {}}.items():
                    door = world.as_principal(agent).artifacts
                    await door.write(agent, kind="agent", content=content)
                await world.join("a", "b", "c")
                try:
                    passed = await world.run(ticks=2)
                except UnknownModel:
                    assert not await events(world, "tick.passed", "action.rejected"), given
                    continue
                assert [one.acted for one in passed] == [3, 3], given
                assert len(await events(world, "tick.passed")) == 2
                await world.close()

    asyncio.run(scenario())


_VALUES: tuple[Any, ...] = (
    0,
    1,
    2,
    -1,
    10**12,
    10**15,
    2**53,
    2**62,
    2**70,
    1.5,
    None,
    True,
    "",
    "a",
    "b",
    "nobody",
    "\ud800",
    "x" * 300,
    "a b\n",
    [],
    ["a"],
    ["a", "b"],
    ["a", "a"],
    [["a"], ["b"]],
    [["a"], ["a", "c"]],
    [[]],
    {},
    {"a": ["b"]},
    {"a": [], "b": ["a"]},
    {"a": 3},
    {"balance": "balance"},
    {"x": "balance +"},
    "staged",
    "random",
    "simultaneous",
    "o",
    "noop",
    ["noop"],
    ["transfer", "noop"],
    {"every": 1},
    {"every": 1, "cases": {"agent": [{"args": {"x": 1}, "expected": [1, {"y": None}]}]}},
    {"every": 2**53},
    {"window": 1, "model_calls": 0},
    {"stored_bytes": 0, "tokens": 0},
    {"window": 10_000, "tokens": 2**53},
    {"max_count": 0, "max_size_bytes": 0},
    [{"tick": 1, "pay": 10**12}],
    [{"tick": 2, "pay": -(10**12), "message": "m"}],
    [{"tick": 1, "to": ["nobody"], "message": "m", "pay": 3}],
    [{"tick": 1, "pay": 2**61}],
)


def _anything(chance: random.Random) -> dict[str, Any]:
    """A few settings with values that are mostly wrong for them."""
    fields = WorldConfig.__struct_fields__
    return {name: chance.choice(_VALUES) for name in chance.sample(fields, chance.choice((1, 1, 2, 3)))}


# Who may join


def test_an_agent_artifact_of_somebody_else_does_not_join(tmp_path: Path) -> None:
    """Whoever made or owns the mind of an agent would spend the scrip that the host gives it."""

    def rule(facts: dict[str, Any]) -> Any:
        if facts["agent_id"] != "eve":
            return {"action": "transfer", "to": "eve", "amount": 100}
        content = {"policy": "rule"}
        return {"action": "write", "artifact_id": "zoe", "kind": "agent", "content": content}

    async def scenario() -> None:
        async with world_at(tmp_path, policies={"rule": rule}, agents={"eve": RULE}) as world:
            await world.tick()
            with pytest.raises(InvalidRequest, match="somebody else's") as caught:
                await world.join("zoe")
            await world.as_principal("eve").artifacts.transfer("zoe", "zoe")
            with pytest.raises(InvalidRequest, match="somebody else's"):
                await world.join("zoe")

            assert caught.value.got == "made by eve, owned by eve"
            assert (list(await world.agents()), await balance(world, "zoe")) == (["eve"], 0)

    asyncio.run(scenario())


def test_an_agent_that_several_let_join_at_once_joins_once(tmp_path: Path) -> None:
    """Each of them would have given it the start balance."""

    async def scenario() -> None:
        async with world_at(tmp_path, policies={"rule": lambda _: {"action": "noop"}}) as world:
            await world.as_principal("ana").artifacts.write("ana", kind="agent", content=RULE)
            start = (await world.config()).start_balance
            with Kernel.open(tmp_path / "state.db") as other:
                callers = [world, World.open(other, world.id), world]
                found = await asyncio.gather(*(one.join("ana") for one in callers), return_exceptions=True)
            assert [type(one) for one in found if one is not None] == [Conflict, Conflict]
            assert await balance(world, "ana") == start > 0

    asyncio.run(scenario())


def test_an_agent_whose_artifact_was_given_away_does_nothing(tmp_path: Path) -> None:
    async def scenario() -> None:
        asked: list[str] = []

        def reply(request: Any) -> str:
            asked.append(request.model)
            return '{"action": "transfer", "to": "eve", "amount": 1}'

        rule = {
            "rule": lambda facts: {"action": "transfer", "to": "eve", "amount": 1},
            "idle": lambda facts: None,
        }
        agents = {"a": RULE, "b": {"model": "o"}, "eve": {"policy": "idle"}}
        async with world_at(tmp_path, policies=rule, models={"o": ScriptedModel(reply)}, agents=agents) as w:
            await w.tick()
            for agent in ("a", "b"):
                await w.as_principal(agent).artifacts.transfer(agent, "eve")
            await w.run(ticks=2)

            assert (len(asked), await balance(w, "eve")) == (1, 102)
            acts = await events(w, "action.taken")
            assert [data["act"]["action"] for _, who, data in acts if who == "a"] == [
                "transfer",
                "noop",
                "noop",
            ]

    asyncio.run(scenario())


@pytest.mark.parametrize(
    "name",
    [
        "Genesis_mint",
        "genesis",
        "WORLD",
        "worlds",
        "Operator",
        "host",
        "Mint",
        "source",
        "hold",
        "ARTIFACT",
        "principal",
        "User:ann",
    ],
)
def test_names_that_look_like_the_worlds_own_are_no_agents(tmp_path: Path, name: str) -> None:
    async def scenario() -> None:
        async with world_at(tmp_path) as world:
            with pytest.raises(InvalidRequest, match="the world's own"):
                await add(world, **{name: {}})
            await add(world, hosting={}, minted={})

            assert list(await world.agents()) == ["hosting", "minted"]
            with pytest.raises(InvalidRequest, match="the world's own"):
                await found(world.host, "v", {"agents": [{"id": name}], "settle": False})

    asyncio.run(scenario())


@pytest.mark.parametrize("scrip", [-1, 2**60])
def test_scrip_that_is_no_amount(tmp_path: Path, scrip: int) -> None:
    async def scenario() -> None:
        async with world_at(tmp_path) as world:
            await world.as_principal("a").artifacts.write("a", kind="agent", content={})
            with pytest.raises(InvalidRequest, match="scrip"):
                await world.join("a", scrip=scrip)

    asyncio.run(scenario())


# What agents may store


def test_what_is_offered_is_stored_by_its_seller(tmp_path: Path) -> None:
    """The escrow is no place beyond the limit; once it is sold, it is the buyer's."""

    def write(id: str) -> dict[str, Any]:
        text = id * 300
        return {"action": "write", "artifact_id": id, "kind": "document", "content": text}

    def rule(facts: dict[str, Any]) -> Any:
        tick = facts["tick"]
        if facts["agent_id"] == "bob":
            offer = facts["offers"][0]["offer"] if facts["offers"] else ""
            return {"action": "accept", "offer_id": offer} if tick == 4 else None
        wanted = [write("x"), {"action": "offer", "artifact_id": "x", "price": 1}, write("y"), None]
        return write("z") if tick > 4 else wanted[tick - 1]

    async def scenario() -> None:
        agents = {"ana": RULE, "bob": RULE}
        async with world_at(
            tmp_path, config={"resources": {"stored_bytes": 500}}, policies={"rule": rule}, agents=agents
        ) as world:
            passed = await world.run(ticks=5)

            assert [one.rejected for one in passed] == [0, 0, 1, 0, 0]
            refused = await events(world, "action.rejected")
            assert [(who, data["code"]) for _, who, data in refused] == [("ana", "limit_reached")]
            mine = world.as_principal("ana").artifacts
            assert (await mine.read("z")).content == "z" * 300

    asyncio.run(scenario())
