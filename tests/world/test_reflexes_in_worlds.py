"""Reflexes in worlds: they act without a model and without money, or fall through and the world goes on."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from artelier import Kernel
from artelier.log import blob_name
from artelier.ports.model import ModelRequest
from artelier.testing import ScriptedModel
from artelier.world import World
from artelier.world.events import agent_stream
from tests.world.places import add, balance, events, known, world_at
from tests.world.speaking import Speaking

REFLEX = {"reflex_artifact_id": "ana_reflex"}
CONFIG = {"model": "m"}

GIVE = """
def reflex(context):
    return {"action": "transfer", "to": "bob", "amount": 1, "reasoning": "a habit"}"""


async def with_reflex(world: World, code: Any, *, owner: str = "ana", **more: Any) -> None:
    """An agent `ana` whose artifact names the reflex `ana_reflex`, of whoever owns that."""
    space = world.as_principal(owner)
    await space.artifacts.write("ana_reflex", kind="reflex", content=code, **more)
    await add(world, ana=REFLEX)


async def words(world: World, ref: str) -> str:
    """The text behind a reference."""
    return (await world.host.services.store.blob(world.host.id, blob_name(ref))).decode()


def test_a_reflex_that_fires_asks_no_model_and_costs_nothing(tmp_path: Path) -> None:
    speaking = Speaking()

    async def scenario() -> None:
        async with world_at(tmp_path, models=speaking.model, config=CONFIG) as w:
            await known(w, "bob")
            await with_reflex(w, GIVE)
            await w.run(ticks=3)

            assert speaking.prompts == []
            acts = [data["act"] for _, actor, data in await events(w, "action.taken")]
            assert [act["source"] for act in acts] == ["reflex"] * 3
            assert [act["step"] for act in acts] == ["ana_reflex@1"] * 3
            assert await balance(w, "ana") == 97 and await balance(w, "bob") == 3
            rows = await w.host.services.store.query("SELECT name FROM streams", ())
            assert not [name for (name,) in rows if name.startswith("run:")]
            assert await events(w, "reflex.fell_through") == []

    asyncio.run(scenario())


def test_a_reflex_sees_the_facts_of_its_agent_at_the_end_of_the_tick_before(tmp_path: Path) -> None:
    code = """
def reflex(context):
    seen = [context["agent_id"], context["tick"], context["balance"], context["my_artifacts"]]
    seen.append(context["last_action"]["type"])
    return {"action": "message", "to": "ana", "text": str(seen) + str(context["inbox"])}"""

    async def scenario() -> None:
        async with world_at(tmp_path, models=Speaking().model, config=CONFIG) as w:
            await with_reflex(w, code)
            await w.run(ticks=2)
            sent = await events(w, "message.sent")
            texts = [await words(w, data["text"]) for _, _, data in sent]
            first = "['ana', 1, 100, ['ana', 'ana_reflex'], None]"
            assert texts[0] == f"{first}[]"
            assert texts[1].startswith("['ana', 2, 100, ['ana', 'ana_reflex'], 'message']")
            assert first in texts[1] and "'from': 'ana'" in texts[1]

    asyncio.run(scenario())


LOOP = "while True:\n        try:\n            x = 1\n        except:\n            pass"

WRONG = {
    "a1": ("return None", "none"),
    "a2": ("return 1 / 0", "error"),
    "a3": ("while True:\n        pass", "timeout"),
    "a4": (LOOP, "timeout"),
    "a5": ("try:\n        while True: pass\n    except: return {'action': 'noop'}", "timeout"),
    "a6": ("return [0] * 10**9", "memory"),
    # Large at once: step by step, a machine under load may meet the bound of time first.
    "a7": ("x = 'a' * 4_000_000\n    while True: x = x + x", "memory"),
    "a8": ("return reflex(context)", "error"),
    "a9": ("return 'noop'", "wrong_type"),
    "b1": ("return [{'action': 'noop'}]", "wrong_type"),
    "b2": ("return {'action': 'steal', 'amount': 5}", "malformed"),
    "b3": ("return {'action': 'transfer', 'to': 'bob', 'amount': -5}", "malformed"),
    "b4": ("return open('/etc/passwd').read()", "error"),
    "b5": ("return ().__class__.__bases__[0].__subclasses__()", "error"),
    "b6": ("return read('bob_secret')", "error"),
    "b7": ("return pay('bob', 5)", "error"),
    "b8": ("import os\n    return os.system('true')", "error"),
}
"""Bodies of reflexes by agent, and why they fall through."""


def test_hole_22_what_a_reflex_does_wrong_falls_through_to_the_model(tmp_path: Path) -> None:
    """A bare `except` around an endless loop, a memory bomb, escapes: each agent thinks instead."""
    speaking = Speaking()

    async def scenario() -> None:
        async with world_at(tmp_path, models=speaking.model, config=CONFIG) as w:
            for agent, (body, _) in WRONG.items():
                code = f"def reflex(context):\n    {body}"
                space = w.as_principal(agent).artifacts
                await space.write(f"{agent}_reflex", kind="reflex", content=code)
            await add(w, bob={}, **{a: {"reflex_artifact_id": f"{a}_reflex"} for a in WRONG})
            passed = await w.run(ticks=2)

            assert [one.acted for one in passed] == [len(WRONG) + 1] * 2
            fell = await events(w, "reflex.fell_through")
            assert sorted((actor, data["why"]) for _, actor, data in fell) == sorted(
                (agent, why) for agent, (_, why) in WRONG.items() for _ in range(2)
            )
            taken = await events(w, "action.taken")
            sources = {data["act"].get("source", "model") for _, _, data in taken}
            assert sources == {"model"} and len(taken) == 2 * len(WRONG) + 2
            assert len(speaking.prompts) == 2 * len(WRONG) + 2
            assert {await balance(w, agent) for agent in (*WRONG, "bob")} == {100}

    asyncio.run(scenario())


def test_a_timeout_of_a_reflex_is_a_recorded_fact(tmp_path: Path) -> None:
    """What the wall clock decided stands in the log before the action that was taken instead."""

    async def scenario() -> None:
        async with world_at(tmp_path, models=Speaking().model, config=CONFIG) as w:
            await with_reflex(w, "def reflex(context):\n    while True: pass")
            await w.tick()
            kinds = [kind for kind, actor, _ in await events(w) if actor == "ana"]
            assert kinds[-2:] == ["reflex.fell_through", "action.taken"]
            [(_, _, data)] = await events(w, "reflex.fell_through")
            assert data["why"] == "timeout" and "100 ms" in await words(w, data["reason"])
            assert data["reason"].startswith("b:")

    asyncio.run(scenario())


def test_one_reflex_that_hangs_costs_the_others_nothing(tmp_path: Path) -> None:
    speaking = Speaking()

    async def scenario() -> None:
        async with world_at(tmp_path, models=speaking.model, config=CONFIG) as w:
            await known(w, "bob")
            await with_reflex(w, "def reflex(context):\n    while True: pass")
            quick = {"reflex_artifact_id": "quick"}
            await w.as_principal("b0").artifacts.write("quick", kind="reflex", content=GIVE, access="public")
            await add(w, **{f"b{n}": quick for n in range(12)})
            await w.tick()
            sources = {a: d["act"].get("source", "model") for _, a, d in await events(w, "action.taken")}
            assert sources == {"ana": "model"} | {f"b{n}": "reflex" for n in range(12)}
            assert {agent for agent, _, _ in speaking.prompts} == {"ana"}

    asyncio.run(scenario())


def test_a_reflex_that_cannot_be_read_falls_through(tmp_path: Path) -> None:
    speaking = Speaking()

    async def scenario() -> None:
        async with world_at(tmp_path, models=speaking.model, config=CONFIG) as w:
            await known(w, "bob")
            bob = w.as_principal("bob").artifacts
            await bob.write("bobs", kind="reflex", content=GIVE)
            await bob.write("gone", kind="reflex", content=GIVE, access="public")
            await bob.delete("gone")
            await bob.write("prose", kind="document", content={"no": "code"})
            refs = {
                "a1": "bobs",
                "a2": "nowhere",
                "a3": "gone",
                "a4": "prose",
                "a5": "no ref!",
                "a6": "prose@9",
                "a7": "prose#part",
            }
            await add(w, **{agent: {"reflex_artifact_id": ref} for agent, ref in refs.items()})
            await w.tick()
            fell = {actor: d["why"] for _, actor, d in await events(w, "reflex.fell_through")}
            assert fell == {
                "a1": "denied",
                "a2": "missing",
                "a3": "deleted",
                "a4": "unusable",
                "a5": "missing",
                "a6": "missing",
                "a7": "missing",
            }
            assert {agent for agent, _, _ in speaking.prompts} == set(refs)

    asyncio.run(scenario())


def test_an_action_that_the_world_does_not_have_falls_through(tmp_path: Path) -> None:
    speaking = Speaking()

    async def scenario() -> None:
        config = {**CONFIG, "actions": ["noop", "read"]}
        async with world_at(tmp_path, models=speaking.model, config=config) as w:
            await known(w, "bob")
            await with_reflex(w, GIVE)
            await w.tick()
            [(_, _, data)] = await events(w, "reflex.fell_through")
            assert data["why"] == "malformed" and len(speaking.prompts) == 1

    asyncio.run(scenario())


def test_an_action_that_is_refused_is_the_agents_and_asks_no_model(tmp_path: Path) -> None:
    speaking = Speaking()
    code = GIVE.replace('"amount": 1,', '"amount": 1000,')

    async def scenario() -> None:
        async with world_at(tmp_path, models=speaking.model, config=CONFIG) as w:
            await with_reflex(w, code)
            [passed] = await w.run(ticks=1)
            assert passed.rejected == 1 and speaking.prompts == []
            [(_, actor, data)] = await events(w, "action.rejected")
            assert (actor, data["act"]["source"]) == ("ana", "reflex")

    asyncio.run(scenario())


def test_reading_the_reflex_of_somebody_else_costs_its_read_price(tmp_path: Path) -> None:
    """Once a tick, in the agent's own stream; the inclusion price is for prompts and is not asked."""
    speaking = Speaking()

    async def scenario() -> None:
        async with world_at(tmp_path, models=speaking.model, config=CONFIG) as w:
            await known(w, "bob", "cid")
            code = GIVE.replace('"bob"', '"cid"')
            prices = {"read": 40, "inclusion": 7}
            await with_reflex(w, code, owner="bob", access="public", prices=prices)
            await w.run(ticks=3)

            assert await balance(w, "bob") == 80 and await balance(w, "cid") == 2
            assert await balance(w, "ana") == 18
            stream = agent_stream(w.host.id, w.id, "ana")
            charged = await w.host.services.store.read(stream)
            facts = [(e.at_us, e.plain()["step"], e.plain()["action"]) for e in charged]
            assert facts == [(1, "t1/reflex", "read"), (2, "t2/reflex", "read")]
            [(_, _, data)] = await events(w, "reflex.fell_through")
            assert data["why"] == "no_funds" and len(speaking.prompts) == 1

    asyncio.run(scenario())


def test_a_paid_reflex_that_falls_through_leaves_the_prompt_what_is_left(tmp_path: Path) -> None:
    speaking = Speaking()

    async def scenario() -> None:
        async with world_at(tmp_path, models=speaking.model, config=CONFIG) as w:
            bob = w.as_principal("bob").artifacts
            await bob.write(
                "ana_reflex",
                kind="reflex",
                content="def reflex(context): return None",
                access="public",
                prices={"read": 60},
            )
            await bob.write(
                "news", kind="document", content="dear", access="public", prices={"inclusion": 50}
            )
            await add(w, ana={**REFLEX, "subscribed_artifacts": ["news"]})
            await w.tick()
            assert await balance(w, "ana") == 40 and await balance(w, "bob") == 60
            assert "dear" not in speaking.shown("ana")[0]
            assert "subscribed:news (no_funds)" in speaking.shown("ana")[0]

    asyncio.run(scenario())


def test_what_a_reflex_cost_before_a_crash_is_not_paid_again(tmp_path: Path) -> None:
    """The tick breaks off at a model; passed again by another process, the reflex is read as before."""
    asked = asyncio.Event()

    async def never(_: ModelRequest) -> str:
        asked.set()
        await asyncio.Event().wait()
        return ""

    async def begun() -> None:
        kernel = Kernel.open(tmp_path / "state.db", models=ScriptedModel(never))
        w = await World.new(kernel, "w", CONFIG)
        code = GIVE.replace('"bob"', '"cid"')
        await with_reflex(w, code, owner="dan", access="public", prices={"read": 5})
        await add(w, bob={})
        await known(w, "cid")
        try:
            tick = asyncio.create_task(w.tick())
            await asked.wait()
            tick.cancel()
            with pytest.raises(asyncio.CancelledError):
                await tick
            assert await balance(w, "dan") == 5 and await events(w, "tick.passed") == []
        finally:
            await w.close()
            await kernel.aclose()

    async def ended() -> None:
        kernel = Kernel.open(tmp_path / "state.db", models=Speaking().model)
        try:
            w = await World.open(kernel, "w")
            await w.tick()
            assert await balance(w, "dan") == 5 and await balance(w, "ana") == 94
            await w.tick()
            assert await balance(w, "dan") == 10 and await balance(w, "ana") == 88
            await w.close()
        finally:
            await kernel.aclose()

    asyncio.run(begun())
    asyncio.run(ended())


def test_a_reflex_moves_the_workflow_on_and_asks_no_model_where_to(tmp_path: Path) -> None:
    speaking = Speaking()
    workflow = {
        "states": ["a", "b", "c"],
        "initial_state": "a",
        "steps": [
            {"state": "a", "transition_mode": "auto", "transition_to": "b"},
            {
                "state": "b",
                "transition_mode": "condition",
                "transition_conditions": [{"to": "c", "condition": "last_action.success and ready"}],
            },
            {"state": "c", "transition_mode": "llm"},
        ],
    }

    async def scenario() -> None:
        async with world_at(tmp_path, models=speaking.model, config=CONFIG) as w:
            await known(w, "bob")
            ana = w.as_principal("ana").artifacts
            await ana.write("wf", kind="workflow", content=workflow)
            await ana.write("mem", kind="document", content={"facts": {"ready": True}})
            await ana.write("ana_reflex", kind="reflex", content=GIVE)
            mind = {"workflow_artifact_id": "wf", "working_memory_artifact_id": "mem"}
            await add(w, ana={**REFLEX, **mind})
            await w.run(ticks=4)
            moves = [(d["origin"], d["to"], d["how"]) for _, _, d in await events(w, "agent.moved")]
            assert moves == [("", "a", "begun"), ("a", "b", "auto"), ("b", "c", "condition")]
            assert speaking.prompts == []
            assert (await w.agents())["ana"].ticks_in_state == 2

    asyncio.run(scenario())


def test_nobody_stops_a_world_by_spending_what_a_workflow_costs(tmp_path: Path) -> None:
    """Others spend ana's money through a contract of hers, before the tick would come to what she owes."""
    check = """
def check(caller, action, target, context):
    return {"allow": True, "price": 60, "payer": "ana"}"""
    reads = {"action": "read", "ref": "secret"}
    readers = {f"b{n}": reads for n in range(6)}
    speaking = Speaking(readers)

    async def scenario() -> None:
        async with world_at(tmp_path, models=speaking.model, config=CONFIG) as w:
            workflow = {"states": ["a"], "initial_state": "a", "steps": []}
            await w.as_principal("dan").artifacts.write(
                "wf", kind="workflow", content=workflow, access="public", prices={"read": 60}
            )
            ana = w.as_principal("ana").artifacts
            await ana.write("generous", kind="contract", content={"code": check}, access="public")
            ruled = {"policy": "contract", "contract": "generous"}
            await w.as_principal("cid").artifacts.write("secret", kind="document", content="x", access=ruled)
            idle = 'def reflex(context):\n    return {"action": "noop"}'
            await ana.write("ana_reflex", kind="reflex", content=idle)
            await add(w, ana={**REFLEX, "workflow_artifact_id": "wf"}, **{reader: {} for reader in readers})
            first = await w.tick()
            assert first.acted == 7
            # The workflow was read first and is paid; nothing of it is left for the readers.
            assert await balance(w, "dan") == 60 and await balance(w, "ana") == 40
            assert await balance(w, "cid") == 0
            await w.tick()
            assert (await w.agents())["ana"].state == "a"

    asyncio.run(scenario())
