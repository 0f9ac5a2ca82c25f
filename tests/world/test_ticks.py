"""Ticks: whole or absent, in a seeded order, over the state at the end of the one before."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from artelier import Kernel
from artelier.errors import Conflict, InvalidConfig, NotFound
from artelier.world import World
from artelier.world.actions import ACTIONS, Transfer
from artelier.world.actions.effects import DECIDE
from artelier.world.deciders import PolicyFailed
from tests.world.places import add, balance, events, world_at

RULE = {"policy": "rule"}


def script(**by_agent: list[Any]) -> dict[str, Any]:
    """A rule agent that does what a list says, tick by tick, and then nothing."""

    def rule(facts: dict[str, Any]) -> Any:
        wanted = by_agent.get(facts["agent_id"], [])
        return wanted[facts["tick"] - 1] if facts["tick"] <= len(wanted) else None

    return {"rule": rule}


def transfer(to: str, amount: int) -> dict[str, Any]:
    return {"action": "transfer", "to": to, "amount": amount}


def test_every_action_of_the_schema_is_decided() -> None:
    assert {cls.__struct_config__.tag for cls in DECIDE} == set(ACTIONS)


def test_a_transfer_moves_money_in_the_event_of_the_action(tmp_path: Path) -> None:
    async def scenario() -> None:
        policies = script(ana=[{**transfer("bob", 30), "reasoning": "I owe him"}])
        async with world_at(tmp_path, policies=policies, agents={"ana": RULE, "bob": RULE}) as w:
            passed = await w.tick()
            taken = await events(w, "action.taken")
            assert (passed.tick, passed.acted, passed.rejected) == (1, 2, 0)
            assert await balance(w, "ana") == 70 and await balance(w, "bob") == 130
            [(_, actor, data)] = [one for one in taken if one[1] == "ana"]
            assert data["postings"] == [["principal:ana", "principal:bob", "scrip", 30]]
            assert data["act"]["action"] == "transfer" and data["act"]["source"] == "policy"
            assert data["act"]["step"] == "rule@1" and actor == "ana"
            assert (await w.agents())["ana"].last_ok is True

    asyncio.run(scenario())


def test_what_cannot_be_is_a_rejection_that_the_agent_reads_next(tmp_path: Path) -> None:
    seen: list[Any] = []

    def rule(facts: dict[str, Any]) -> Any:
        seen.append(facts["last_action"])
        return [transfer("bob", 1_000), {"action": "fly"}, "no object", None][facts["tick"] - 1]

    async def scenario() -> None:
        policies = {"rule": rule, "idle": lambda facts: None}
        agents = {"ana": RULE, "bob": {"policy": "idle"}}
        async with world_at(tmp_path, policies=policies, agents=agents) as w:
            passed = await w.run(ticks=4)
            assert [one.rejected for one in passed] == [1, 1, 1, 0]
            assert await balance(w, "ana") == 100
            codes = [data["code"] for _, _, data in await events(w, "action.rejected")]
            assert codes == ["insufficient_funds", "invalid_action", "invalid_action"]
            assert (await w.agents())["ana"].failures == 0

    asyncio.run(scenario())
    assert seen[0] == {"type": None, "success": None, "result": None}
    assert seen[1]["success"] is False and "cannot pay" in seen[1]["result"]
    assert "fly" in seen[2]["result"] and seen[3]["success"] is False


def test_all_think_about_the_end_of_the_tick_before(tmp_path: Path) -> None:
    seen: list[tuple[str, int]] = []

    def rule(facts: dict[str, Any]) -> Any:
        seen.append((facts["agent_id"], facts["balance"]))
        return transfer("bob" if facts["agent_id"] == "ana" else "ana", 10)

    async def scenario(activation: str, folder: Path) -> None:
        config = {"activation": activation, "stages": [["ana"], ["bob"]]}
        agents = {"ana": RULE, "bob": RULE}
        async with world_at(folder, config=config, policies={"rule": rule}, agents=agents) as w:
            await w.tick()

    for activation, first in (("simultaneous", 100), ("random", 110), ("staged", 110)):
        seen.clear()
        folder = tmp_path / activation
        folder.mkdir()
        asyncio.run(scenario(activation, folder))
        assert seen[0][1] == 100 and seen[1][1] == first, activation


def test_the_order_of_a_tick_is_seeded_and_favours_nobody(tmp_path: Path) -> None:
    def rule(facts: dict[str, Any]) -> Any:
        return {
            "action": "write",
            "artifact_id": f"prize-{facts['tick']}",
            "kind": "document",
            "content": facts["agent_id"],
            "expected_version": 0,
        }

    async def winners(seed: int, folder: Path) -> list[str]:
        folder.mkdir()
        agents = {f"a{i}": RULE for i in range(4)}
        config = {"seed": seed}
        async with world_at(folder, config=config, policies={"rule": rule}, agents=agents) as w:
            await w.run(ticks=12)
            return [
                actor
                for _, actor, data in await events(w, "artifact.written")
                if data["id"].startswith("prize-") and data["version"] == 1
            ]

    first = asyncio.run(winners(1, tmp_path / "a"))
    again = asyncio.run(winners(1, tmp_path / "b"))
    other = asyncio.run(winners(2, tmp_path / "c"))
    assert first == again != other
    assert len(first) == 12 and len(set(first)) >= 3


def test_a_world_goes_on_in_another_process(tmp_path: Path) -> None:
    policies = script(ana=[transfer("bob", 1)] * 9)

    async def scenario() -> None:
        async with world_at(tmp_path, policies=policies, agents={"ana": RULE, "bob": RULE}) as w:
            await w.run(ticks=3)
        kernel = Kernel.open(tmp_path / "state.db")
        async with World.open(kernel, "w", policies=policies) as again:
            await again.run(ticks=3)
            assert await again.tick_now() == 6 and await balance(again, "bob") == 106
        await kernel.aclose()

    asyncio.run(scenario())


def test_a_policy_that_raises_leaves_no_half_of_a_tick(tmp_path: Path) -> None:
    broken = [True]

    def rule(facts: dict[str, Any]) -> Any:
        if broken[0] and facts["agent_id"] == "bob":
            raise ZeroDivisionError
        return transfer("bob" if facts["agent_id"] == "ana" else "ana", 5)

    async def scenario() -> None:
        agents = {"ana": RULE, "bob": RULE}
        async with world_at(tmp_path, policies={"rule": rule}, agents=agents) as w:
            before = await events(w)
            with pytest.raises(PolicyFailed, match="rule raised ZeroDivisionError") as failed:
                await w.tick()
            assert "bob in tick 1" in str(failed.value.got) and "test_ticks.py" in str(failed.value.got)
            assert await events(w) == before and await w.tick_now() == 0
            broken[0] = False
            assert (await w.tick()).tick == 1

    asyncio.run(scenario())


def test_two_that_tick_one_world_cannot_both(tmp_path: Path) -> None:
    async def scenario() -> None:
        policies = script(ana=[transfer("bob", 1)] * 9)
        async with world_at(tmp_path, policies=policies, agents={"ana": RULE, "bob": RULE}) as w:
            other = World.open(w.host, "w", policies=policies)
            done = await asyncio.gather(w.tick(), other.tick(), return_exceptions=True)
            failed = [one for one in done if isinstance(one, BaseException)]
            assert len(failed) <= 1 and all(isinstance(one, Conflict) for one in failed)
            # Whoever lost sees what the other has done.
            await w.tick()
            await other.tick()
            ticks = await w.tick_now()
            assert ticks == 4 - len(failed) and await balance(w, "bob") == 100 + ticks

    asyncio.run(scenario())


def test_a_write_between_ticks_is_seen_by_the_next_and_dated_with_the_last(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with world_at(tmp_path, policies=script(), agents={"ana": RULE, "bob": RULE}) as w:
            await w.run(ticks=2)
            await w.as_principal("ana").ledger.transfer(to="bob", amount=7)
            artifact = await w.as_principal("ana").artifacts.write("note", kind="document", content="hello")
            assert artifact.written_us == 2
            await w.tick()
            assert await balance(w, "bob") == 107
            kinds = [kind for kind, _, _ in await events(w)]
            assert kinds.count("money.transferred") == 1 and kinds[-1] == "tick.passed"

    asyncio.run(scenario())


@pytest.mark.parametrize("to", ["bobb", "artifact:note", "genesis_nothing"])
def test_a_transfer_between_ticks_to_nobody_is_refused_and_moves_nothing(tmp_path: Path, to: str) -> None:
    async def scenario() -> None:
        async with world_at(tmp_path, policies=script(), agents={"ana": RULE, "bob": RULE}) as w:
            ana = w.as_principal("ana")
            await ana.artifacts.write("note", kind="document", content="no program")
            with pytest.raises(NotFound, match="in this world"):
                await ana.ledger.transfer(to=to, amount=7)
            assert await balance(w, "ana") == 100

    asyncio.run(scenario())


def test_paused_worlds_wait_and_shocks_and_news_arrive(tmp_path: Path) -> None:
    inbox: dict[int, Any] = {}

    def rule(facts: dict[str, Any]) -> Any:
        if facts["agent_id"] == "ana":
            inbox[facts["tick"]] = [one["text"] for one in facts["inbox"]]
        return None

    async def scenario() -> None:
        config = {
            "shocks": [{"tick": 2, "pay": -150, "to": ["bob"], "message": "a fire"}, {"tick": 3, "pay": 5}]
        }
        agents = {"ana": RULE, "bob": RULE}
        async with world_at(tmp_path, config=config, policies={"rule": rule}, agents=agents) as w:
            await w.inject("welcome", to=["ana"])
            await w.pause()
            with pytest.raises(Conflict, match="paused"):
                await w.tick()
            await w.resume()
            await w.run(ticks=3)
            assert await balance(w, "ana") == 105 and await balance(w, "bob") == 5
            with pytest.raises(NotFound):
                await w.inject("psst", to=["nobody"])

    asyncio.run(scenario())
    assert inbox[1] == ["welcome"] and inbox[2] == [] and inbox[3] == []


def test_messages_reach_whom_the_network_lets_them(tmp_path: Path) -> None:
    heard: list[Any] = []

    def rule(facts: dict[str, Any]) -> Any:
        if facts["agent_id"] == "bob":
            heard.append(facts["inbox"])
            return None
        to = "bob" if facts["tick"] == 1 else "eve"
        return {"action": "message", "to": to, "text": "buy my map?"}

    async def scenario() -> None:
        config = {"network": {"bob": ["ana"], "ana": ["bob"]}}
        agents = {"ana": RULE, "bob": RULE, "eve": RULE}
        async with world_at(tmp_path, config=config, policies={"rule": rule}, agents=agents) as w:
            passed = await w.run(ticks=2)
            # eve is not heard by bob, and does not hear ana
            assert [one.rejected for one in passed] == [1, 1]

    asyncio.run(scenario())
    assert heard == [[], [{"from": "ana", "text": "buy my map?"}]]


def test_only_allowed_actions_and_only_known_settings(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with world_at(
            tmp_path,
            config={"actions": ["noop"]},
            policies={"rule": lambda _: Transfer(to="bob", amount=1)},
            agents={"ana": RULE, "bob": RULE},
        ) as w:
            assert (await w.tick()).rejected == 2
            with pytest.raises(InvalidConfig, match="sneed"):
                await World.new(w.host, "x", {"sneed": 1})
            with pytest.raises(Conflict, match="already"):
                await World.new(w.host, "w")
            with pytest.raises(NotFound, match="no world"):
                await World.open(w.host, "nowhere")
            with pytest.raises(NotFound):
                await w.join("ghost")

    asyncio.run(scenario())


def test_programs_act_as_themselves_within_the_tick(tmp_path: Path) -> None:
    code = "def run(n):\n    write('made', {'n': n}, kind='document')\n    return n * 2\n"
    policies = script(
        ana=[
            {
                "action": "write",
                "artifact_id": "double",
                "kind": "tool",
                "content": {"code": code},
                "prices": {"invoke": 4},
            }
        ],
        bob=[
            None,
            {"action": "invoke", "artifact_id": "double", "args": {"n": 21}},
            {"action": "invoke", "artifact_id": "double", "args": {"n": "x" * 10**6}},
            {"action": "read", "ref": "made"},
        ],
    )
    results: list[Any] = []

    def rule(facts: dict[str, Any]) -> Any:
        if facts["agent_id"] == "bob":
            results.append(facts["last_action"]["result"])
        return policies["rule"](facts)

    async def scenario() -> None:
        agents = {"ana": RULE, "bob": RULE}
        async with world_at(tmp_path, policies={"rule": rule}, agents=agents) as w:
            await w.run(ticks=5)
            assert await balance(w, "ana") == 104 and await balance(w, "bob") == 96
            made = await w.as_principal("ana").artifacts.read("made")
            assert made.owner == "artifact:double" and made.content == {"n": 21}
            [(_, actor, data)] = await events(w, "artifact.invoked")
            assert data["act"]["action"] == "invoke" and actor == "bob" and data["price"] == 4

    asyncio.run(scenario())
    assert results[2] == "42" and results[4] == {"n": 21}


def test_an_agent_without_an_artifact_does_nothing(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with world_at(tmp_path, policies=script(), agents={"ana": RULE}) as w:
            await w.as_principal("ana").artifacts.delete("ana")
            await add(w, bob=RULE)
            await w.leave("bob")
            passed = await w.tick()
            assert passed.acted == 1

    asyncio.run(scenario())


def test_a_world_reads_of_the_main_space_what_it_was_granted(tmp_path: Path) -> None:
    results: list[Any] = []

    def rule(facts: dict[str, Any]) -> Any:
        results.append(facts["last_action"])
        refs = ["main:secret", "main:prices", "main:granted", "main:granted@9"]
        return {"action": "read", "ref": refs[facts["tick"] - 1]} if facts["tick"] <= 4 else None

    async def scenario() -> None:
        async with world_at(tmp_path, policies={"rule": rule}, agents={"ana": RULE}) as w:
            main = w.host.as_principal("user:kim").artifacts
            await main.write("secret", kind="document", content="s", access="private")
            await main.write("prices", kind="document", content="p", prices={"read": 3})
            grant = {"allow": {"read": ["world:w"]}}
            await main.write("granted", kind="document", content="the map", access=grant)
            passed = await w.run(ticks=5)
            assert [one.rejected for one in passed] == [1, 1, 0, 1, 0]

    asyncio.run(scenario())
    assert results[3]["result"] == "the map" and "no version" in results[4]["result"]


def test_nobody_stores_more_than_it_may(tmp_path: Path) -> None:
    def write(name: str, size: int) -> dict[str, Any]:
        return {"action": "write", "artifact_id": name, "kind": "document", "content": "x" * size}

    code = "def run(n):\n    write('made', 'x' * n, kind='document')\n"
    policies = script(
        ana=[
            write("a", 300),
            write("b", 600),
            write("a", 10),
            write("b", 600),
            {"action": "delete", "artifact_id": "b"},
            write("c", 300),
            {"action": "write", "artifact_id": "t", "kind": "tool", "content": {"code": code}},
            {"action": "invoke", "artifact_id": "t", "args": {"n": 900}},
            {"action": "invoke", "artifact_id": "t", "args": {"n": 9}},
        ]
    )

    async def scenario() -> None:
        config = {"resources": {"stored_bytes": 800}}
        async with world_at(tmp_path, config=config, policies=policies, agents={"ana": RULE}) as w:
            passed = await w.run(ticks=9)
            assert [one.rejected for one in passed] == [0, 1, 0, 0, 0, 0, 0, 1, 0]
            codes = {data["code"] for _, _, data in await events(w, "action.rejected")}
            assert codes == {"limit_reached"}

    asyncio.run(scenario())


def test_a_rule_that_nobody_registered_does_nothing_and_asks_no_model(tmp_path: Path) -> None:
    async def scenario() -> None:
        agents = {"ana": {"policy": "nix", "model": "offline"}, "bob": RULE}
        async with world_at(tmp_path, policies=script(), agents=agents) as w:
            assert await w.missing_policies() == {"nix": ["ana"]}
            assert (await w.tick()).rejected == 1
            [(_, actor, data)] = await events(w, "action.rejected")
            assert (actor, data["code"], data["act"]["source"]) == ("ana", "unknown_policy", "host")
            assert (await w.host.runs())["items"] == []  # type: ignore[attr-defined]

    asyncio.run(scenario())
