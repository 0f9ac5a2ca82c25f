"""Contracts within a tick: each agent asks with bounds of its own; what ended by the clock is recorded."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from artelier.artifacts import Decisions, Gate
from artelier.world import World
from tests.world.places import add, events, world_at
from tests.world.speaking import Speaking

RULE = {"policy": "rule"}
YES = {"code": "def check(caller, action, target, context):\n    return True\n"}
NEVER = {"code": "def check(caller, action, target, context):\n    while True:\n        pass\n"}


async def guarded(world: World, contract: Any, *, by: str = "carl", count: int = 1) -> None:
    """Documents `doc0`, `doc1` and so on under a contract `gate`."""
    own = world.as_principal(by).artifacts
    await own.write("gate", kind="contract", content=contract)
    for n in range(count):
        await own.write(f"doc{n}", kind="document", content=f"secret {n}", access={"contract": "gate"})


async def reads(world: World) -> dict[str, dict[str, Any]]:
    """What came of the agents' actions: the kind of the event and its act, by agent."""
    found = await events(world, "action.taken", "action.rejected")
    return {actor: {"kind": kind, **data["act"]} for kind, actor, data in found}


def test_no_agent_uses_up_what_another_may_ask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Eve's prompt asks about more than a step may; the others act before and after her in the same tick."""
    defaults: Any = Decisions.__init__.__kwdefaults__
    monkeypatch.setitem(defaults, "asks_max", 2)
    speaking = Speaking({"eve": {"action": "read", "ref": "doc5"}})
    agents: dict[str, Any] = {f"a{n}": RULE for n in range(6)}

    async def scenario() -> None:
        rule = {"rule": lambda facts: {"action": "read", "ref": "doc0"}}
        config = {"model": "m", "subscriptions": {"max_count": 6}}
        async with world_at(
            tmp_path, models=speaking.model, config=config, policies=rule, agents=agents
        ) as w:
            await guarded(w, YES, count=6)
            await add(w, eve={"subscribed_artifacts": [f"doc{n}" for n in range(6)]})
            passed = await w.tick()
            done = await reads(w)
            assert {one["kind"] for one in done.values()} == {"action.taken"} and len(done) == 7
            assert passed.rejected == 0
            (prompt,) = speaking.shown("eve")
            assert "secret 0" in prompt and "secret 4" not in prompt

    asyncio.run(scenario())


def test_a_contract_that_ended_by_the_clock_is_in_the_act_of_everybody_it_kept_out(tmp_path: Path) -> None:
    """`gate` may be used as `slow` says, which is asked once in a tick, and in vain."""

    async def scenario() -> None:
        rule = {"rule": lambda facts: {"action": "read", "ref": "doc0"}}
        agents: dict[str, Any] = {"ana": RULE, "bob": RULE}
        async with world_at(tmp_path, policies=rule, agents=agents) as w:
            own = w.as_principal("dora").artifacts
            await own.write("slow", kind="contract", content=NEVER)
            await own.write("gate", kind="contract", content=YES, access={"contract": "slow"})
            await w.as_principal("carl").artifacts.write(
                "doc0", kind="document", content="secret", access={"contract": "gate"}
            )
            await w.tick()
            done = await reads(w)
            assert [one["kind"] for one in done.values()] == ["action.rejected"] * 2
            walls = [done[agent]["wall"] for agent in ("ana", "bob")]
            assert walls == [{"slow@1?invoke:carl:gate@1": "timeout"}] * 2

    asyncio.run(scenario())


def test_what_ended_by_the_clock_while_an_agent_thought_is_recorded(tmp_path: Path) -> None:
    speaking = Speaking()

    async def scenario() -> None:
        async with world_at(tmp_path, models=speaking.model, config={"model": "m"}) as w:
            await guarded(w, NEVER)
            await w.as_principal("carl").artifacts.write(
                "habit",
                kind="reflex",
                content="def reflex(context):\n    return None\n",
                access={"contract": "gate"},
            )
            await add(
                w,
                ana={"subscribed_artifacts": ["doc0"]},
                bob={"reflex_artifact_id": "habit"},
                cyd={"system_prompt": "Rest."},
            )
            await w.tick()
            done = await reads(w)
            assert done["ana"]["wall"] == {"gate@1?read:ana:doc0@1": "timeout"}
            assert "wall" not in done["bob"] and "wall" not in done["cyd"]
            [(_, agent, fell)] = await events(w, "reflex.fell_through")
            assert (agent, fell["why"]) == ("bob", "denied")
            assert fell["wall"] == {"gate@1?read:bob:habit@1": "timeout"}

    asyncio.run(scenario())


def test_a_step_that_has_no_time_left_leaves_time_to_others(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with world_at(tmp_path) as w:
            await guarded(w, YES)
            stage, sandbox = w._stage_now(), w.host.sandbox  # pyright: ignore[reportPrivateUsage] - as a tick
            doc = await stage.standing("doc0")
            assert doc is not None
            late = Decisions(time_ms=0)
            other = late.apart()
            refused = await Gate(stage, sandbox, late).decide("read", "bob", doc)
            assert not refused.allowed and "too long" in refused.reason
            assert late.wall == {"gate@1?read:bob:doc0@1": "timeout"}
            assert (await Gate(stage, sandbox, other).decide("read", "bob", doc)).allowed
            assert other.wall == {}
            # Now that it is known, nobody needs time for it.
            assert (await Gate(stage, sandbox, late).decide("read", "bob", doc)).allowed

    asyncio.run(scenario())


def test_a_refused_invocation_says_that_the_clock_refused_it(tmp_path: Path) -> None:
    async def scenario() -> None:
        action = {"action": "invoke", "artifact_id": "tool", "args": {}}
        agents: dict[str, Any] = {"ana": RULE}
        async with world_at(tmp_path, policies={"rule": lambda facts: action}, agents=agents) as w:
            await guarded(w, NEVER)
            await w.as_principal("carl").artifacts.write(
                "tool",
                kind="tool",
                content={"code": "def run():\n    return 1\n"},
                access={"contract": "gate"},
            )
            await w.tick()
            done = (await reads(w))["ana"]
            assert done["kind"] == "action.rejected"
            assert done["wall"] == {"gate@1?invoke:ana:tool@1": "timeout"}

    asyncio.run(scenario())
