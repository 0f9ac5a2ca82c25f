"""Services: parts of the host that are invoked like programs, at the posted price, by anybody who may."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from artelier.errors import AccessDenied, ArtelierError, InsufficientFunds, InvalidArguments, NotFound
from artelier.models.scripted import ScriptedModel
from artelier.world import World
from artelier.world.services import shipped_services
from tests.world.memories import RULE, acting, add, find, make_store, recall, remember, rule, settled, texts
from tests.world.places import add as join
from tests.world.places import balance, events, world_at

ACTIONS_OF = {"genesis_escrow": "offer or accept or cancel_offer", "genesis_mint": "bid"}


async def ask(world: World, who: str, id: str, **args: Any) -> Any:
    return (await world.as_principal(who).artifacts.invoke(id, **args)).result


def test_every_service_has_an_artifact_that_anybody_may_invoke(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with settled(tmp_path, "ana") as w:
            posted = {}
            for id in shipped_services():
                artifact = await w.as_principal("ana").artifacts.read(id)
                assert (artifact.kind, artifact.owner) == ("tool", id)
                posted[id] = artifact.prices.invoke
            assert {id for id, price in posted.items() if price == 1} == {
                "genesis_embedder",
                "genesis_memory_add",
                "genesis_memory_search",
            }
            assert set(posted.values()) == {0, 1}

    asyncio.run(scenario())


def test_texts_become_vectors_at_a_scrip_each(tmp_path: Path) -> None:
    policies = acting(
        ana=[
            {"action": "invoke", "artifact_id": "genesis_embedder", "args": {"texts": ["a b", "c"]}},
            {
                "action": "invoke",
                "artifact_id": "genesis_embedder",
                "args": {"texts": ["x"] * 3},
                "price_max": 2,
            },
        ]
    )

    async def scenario() -> None:
        async with settled(tmp_path, "ana", "ben", policies=policies) as w:
            one = await ask(w, "ana", "genesis_embedder", text="red sails")
            assert one["dims"] == len(one["embedding"]) == 384 and any(one["embedding"])
            two = await ask(w, "ana", "genesis_embedder", texts=["red sails", "bread"])
            assert two["embeddings"][0] == one["embedding"] != two["embeddings"][1]
            assert await balance(w, "ana") == 97
            most = await ask(w, "ana", "genesis_embedder", texts=[f"text {n}" for n in range(16)])
            assert len(most["embeddings"]) == 16 and await balance(w, "ana") == 81
            with pytest.raises(AccessDenied, match="costs more than agreed"):
                await ask(w, "ana", "genesis_embedder", texts=["x", "y"], price_max=1)

            passed = await w.run(ticks=2)
            assert [p.rejected for p in passed] == [0, 1] and await balance(w, "ana") == 79
            assert await balance(w, "genesis_embedder") == 21

    asyncio.run(scenario())


def test_who_cannot_pay_for_all_texts_pays_for_none(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with settled(tmp_path, "ana", "bob") as w:
            await w.as_principal("ana").ledger.transfer(to="bob", amount=98)
            with pytest.raises(InsufficientFunds):
                await ask(w, "ana", "genesis_embedder", texts=["x", "y", "z"])
            assert await balance(w, "ana") == 2 and await balance(w, "genesis_embedder") == 0

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("id", "args"),
    [
        ("genesis_embedder", {}),
        ("genesis_embedder", {"text": "x", "texts": ["y"]}),
        ("genesis_embedder", {"text": " "}),
        ("genesis_embedder", {"text": 5}),
        ("genesis_embedder", {"texts": []}),
        ("genesis_embedder", {"texts": ["x"] * 17}),
        ("genesis_embedder", {"texts": "abc"}),
        ("genesis_embedder", {"texts": ["x", None]}),
        ("genesis_embedder", {"text": "x" * 8_001}),
        ("genesis_embedder", {"txt": "x"}),
        ("genesis_embedder", {"text": "\ud800"}),
        ("genesis_memory_search", {}),
        ("genesis_memory_search", {"memory_artifact_id": "mem"}),
        ("genesis_memory_search", {"memory_artifact_id": "mem", "query": ""}),
        ("genesis_memory_search", {"memory_artifact_id": "mem", "query": ["x"]}),
        ("genesis_memory_search", {"memory_artifact_id": "mem", "query": "x", "limit": 0}),
        ("genesis_memory_search", {"memory_artifact_id": "mem", "query": "x", "limit": 51}),
        ("genesis_memory_search", {"memory_artifact_id": "mem", "query": "x", "limit": True}),
        ("genesis_memory_search", {"memory_artifact_id": "mem", "query": "x", "limit": "5"}),
        ("genesis_memory_search", {"memory_artifact_id": "mem#x", "query": "x"}),
        ("genesis_memory_search", {"memory_artifact_id": "main:mem", "query": "x"}),
        ("genesis_memory_search", {"memory_artifact_id": "' OR 1=1 --", "query": "x"}),
        ("genesis_memory_search", {"memory_artifact_id": "handbook", "query": "x"}),
        ("genesis_memory_search", {"memory_artifact_id": "mem", "query": "x", "caller": "bob"}),
        ("genesis_memory_search", {"memory_artifact_id": "mem", "query": "x" * 9_000}),
        ("genesis_memory_add", {"memory_artifact_id": "mem"}),
        ("genesis_memory_add", {"memory_artifact_id": "mem", "text": "\n\t "}),
        ("genesis_memory_add", {"memory_artifact_id": "mem", "text": "x" * 8_001}),
        ("genesis_memory_add", {"memory_artifact_id": "mem", "text": "x", "importance": 1.1}),
        ("genesis_memory_add", {"memory_artifact_id": "mem", "text": "x", "importance": -1}),
        ("genesis_memory_add", {"memory_artifact_id": "mem", "text": "x", "importance": "high"}),
        ("genesis_memory_add", {"memory_artifact_id": "mem", "text": "x", "tags": "a"}),
        ("genesis_memory_add", {"memory_artifact_id": "mem", "text": "x", "tags": ["a" * 201]}),
        ("genesis_memory_add", {"memory_artifact_id": "mem", "text": "x", "tags": [{}]}),
        (
            "genesis_memory_add",
            {"memory_artifact_id": "mem", "text": "x", "tags": [str(n) for n in range(33)]},
        ),
        ("genesis_memory_add", {"memory_artifact_id": "mem", "text": "x", "embedding": [1.0]}),
        ("genesis_memory_add", {"memory_artifact_id": "", "text": "x"}),
        ("genesis_ledger", {"principal": 5}),
        ("genesis_ledger", {"principal": "a b"}),
        ("genesis_ledger", {"account": "mint:world"}),
        ("genesis_store", {"limit": 0}),
        ("genesis_store", {"limit": 51}),
        ("genesis_store", {"kind": []}),
        ("genesis_store", {"text": "x" * 501}),
        ("genesis_event_log", {"last": 51}),
        ("genesis_event_log", {"last": 0}),
        ("genesis_event_log", {"last": 1.5}),
        ("genesis_event_log", {"since": 1}),
        ("genesis_escrow", {}),
        ("genesis_mint", {"artifact_id": "x", "amount": 1}),
    ],
)
def test_bad_arguments_are_refused_and_cost_nothing(tmp_path: Path, id: str, args: dict[str, Any]) -> None:
    policies = acting(ana=[{"action": "invoke", "artifact_id": id, "args": args}])

    async def scenario() -> None:
        async with settled(tmp_path, "ana", policies=policies) as w:
            await make_store(w, "ana")
            with pytest.raises(InvalidArguments) as refused:
                await ask(w, "ana", id, **args)
            assert refused.value.expected and await balance(w, "ana") == 100
            if id in ACTIONS_OF:
                assert refused.value.expected == f"the action {ACTIONS_OF[id]}"

            assert (await w.tick()).rejected == 1
            [(_, _, data)] = await events(w, "action.rejected")
            assert data["code"] in ("invalid_arguments", "invalid_action")
            assert await balance(w, "ana") == 100 and await texts(w, "ana") == []

    asyncio.run(scenario())


def test_a_store_that_is_not_there_or_gone_costs_nothing(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with settled(tmp_path, "ana") as w:
            await make_store(w, "ana", "gone")
            await remember(w, "ana", "a comet", store="gone")
            await w.as_principal("ana").artifacts.delete("gone")
            for store in ("gone", "never"):
                with pytest.raises(NotFound):
                    await recall(w, "ana", "comet", store=store)
                with pytest.raises(NotFound):
                    await remember(w, "ana", "another", store=store)
            assert await balance(w, "ana") == 99

    asyncio.run(scenario())


def test_the_ledger_tells_balances_for_free(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with settled(tmp_path, "ana", "bob") as w:
            await w.as_principal("ana").ledger.transfer(to="bob", amount=30)
            assert await ask(w, "ana", "genesis_ledger") == {"principal": "ana", "balance": 70}
            told = await ask(w, "ana", "genesis_ledger", principal="bob")
            assert told == {"principal": "bob", "balance": 130}
            nobody = await ask(w, "ana", "genesis_ledger", principal="hold:invoke:ana")
            assert nobody["balance"] == 0 and await balance(w, "ana") == 70

    asyncio.run(scenario())


def test_the_store_finds_what_its_caller_may_find(tmp_path: Path) -> None:
    code = "def run():\n    return [a['id'] for a in invoke('genesis_store', owner='ana')['artifacts']]"

    async def scenario() -> None:
        async with settled(tmp_path, "ana", "bob") as w:
            ana = w.as_principal("ana").artifacts
            await ana.write("open", kind="document", content="red sails", prices={"read": 0})
            await ana.write("shut", kind="document", content="red sails", access="private")
            await w.as_principal("bob").artifacts.write("tool", kind="tool", content={"code": code})
            mine = await ask(w, "ana", "genesis_store", text="red sails")
            assert [one["id"] for one in mine["artifacts"]] == ["shut", "open"]
            [theirs] = (await ask(w, "bob", "genesis_store", text="red sails"))["artifacts"]
            assert theirs["id"] == "open" and "content" not in theirs
            assert await ask(w, "ana", "tool") == ["open", "ana"]
            limited = await ask(w, "bob", "genesis_store", kind="tool", limit=2)
            assert len(limited["artifacts"]) == 2 and await balance(w, "bob") == 100

    asyncio.run(scenario())


def test_the_event_log_tells_public_facts_and_no_content(tmp_path: Path) -> None:
    policies = acting(
        ana=[
            {
                "action": "write",
                "artifact_id": "open",
                "kind": "document",
                "content": "red sails",
                "reasoning": "blue whales",
            },
            {
                "action": "write",
                "artifact_id": "shut",
                "kind": "document",
                "content": "red sails",
                "access": "private",
            },
            {"action": "message", "to": "bob", "text": "green tea"},
            add("grey seals"),
            {"action": "transfer", "to": "nobody", "amount": 1_000},
        ]
    )

    async def scenario() -> None:
        async with settled(tmp_path, "ana", "bob", policies=policies) as w:
            await make_store(w, "ana")
            await w.run(ticks=5)
            bob = (await ask(w, "bob", "genesis_event_log", last=50))["events"]
            ana = (await ask(w, "ana", "genesis_event_log", last=50))["events"]
            ids = [one["id"] for one in bob if one["kind"] == "artifact.written"]
            assert "open" in ids and "shut" not in ids and "mem" not in ids
            assert {"shut", "mem"} <= {one.get("id") for one in ana}
            assert {one["kind"] for one in bob} <= {
                "agent.joined",
                "artifact.written",
                "artifact.invoked",
                "tick.passed",
            }
            said = str(bob) + str(ana)
            for secret in ("red", "blue", "green", "grey", "b:", "mem_"):
                assert secret not in said
            ticks = [one["tick"] for one in bob]
            assert ticks == sorted(ticks) and bob[-2]["kind"] == "tick.passed"
            newest = await ask(w, "bob", "genesis_event_log", last=1)
            assert newest["events"] == [
                {
                    "tick": 5,
                    "kind": "artifact.invoked",
                    "by": "ana",
                    "id": "genesis_event_log",
                    "caller": "ana",
                    "outcome": "done",
                }
            ]

    asyncio.run(scenario())


def test_the_event_log_ends_at_the_network(tmp_path: Path) -> None:
    config = {"network": {"bob": ["ana"]}}

    async def scenario() -> None:
        async with settled(tmp_path, "ana", "bob", "eve", config=config) as w:
            for name in ("ana", "eve"):
                own = w.as_principal(name).artifacts
                await own.write(f"{name}.note", kind="document", content="x")
            told = (await ask(w, "bob", "genesis_event_log", last=50))["events"]
            seen = {one["by"] for one in told}
            assert "ana" in seen and "eve" not in seen and "eve.note" not in str(told)

    asyncio.run(scenario())


def test_a_program_uses_services_with_its_own_money_and_rights(tmp_path: Path) -> None:
    code = (
        "def run(store):\n"
        "    invoke('genesis_memory_add', memory_artifact_id=store, text='seen by ' + caller)\n"
        "    return invoke('genesis_ledger')['principal']\n"
    )

    async def scenario() -> None:
        async with settled(tmp_path, "ana", "bob") as w:
            await make_store(w, "ana", access={"allow": {"write": ["artifact:diary"]}})
            await make_store(w, "bob", "bobs")
            ana = w.as_principal("ana")
            await ana.artifacts.write("diary", kind="tool", content={"code": code})
            await ana.ledger.transfer(to="artifact:diary", amount=3)
            assert await ask(w, "bob", "diary", store="mem") == "artifact:diary"
            with pytest.raises(ArtelierError, match="access_denied"):
                await ask(w, "bob", "diary", store="bobs")
            assert await texts(w, "ana") == ["seen by bob"] and await texts(w, "bob", "bobs") == []
            assert await balance(w, "artifact:diary") == 2 and await balance(w, "bob") == 100

    asyncio.run(scenario())


def test_without_its_artifact_there_is_no_service(tmp_path: Path) -> None:
    """In a world that was not settled: an id that stands for nothing, and memories are not searched."""
    code = "def run():\n    return search_memory('mem', 'x')"

    async def scenario() -> None:
        agents = {"ana": RULE}
        async with world_at(tmp_path, policies={"rule": rule}, agents=agents) as w:
            await make_store(w, "ana")
            for attempt in (recall(w, "ana", "x"), remember(w, "ana", "x")):
                with pytest.raises(NotFound):
                    await attempt
            await w.as_principal("ana").artifacts.write("oracle", kind="tool", content={"code": code})
            with pytest.raises(ArtelierError, match="not_found"):
                await ask(w, "ana", "oracle")

    asyncio.run(scenario())


def test_a_prompt_without_the_service_says_that_it_is_missing(tmp_path: Path) -> None:
    model = ScriptedModel(['{"action": "noop"}'])

    async def scenario() -> None:
        async with world_at(tmp_path, models=model) as w:
            await make_store(w, "ana")
            await join(w, ana={"longterm_memory_artifact_id": "mem"})
            await w.tick()
            prompt = "\n".join(message.text for message in model.requests[0].messages)
            assert "recent_memories (missing)" in prompt and await balance(w, "ana") == 100

    asyncio.run(scenario())


def test_an_answer_that_is_too_long_holds_the_best_that_fit(tmp_path: Path) -> None:
    policies = acting(ana=[find("comet", limit=50)])

    async def scenario() -> None:
        async with settled(tmp_path, "ana", policies=policies) as w:
            await make_store(w, "ana")
            for n in range(9):
                await remember(w, "ana", f"comet {n} " + "\N{SNOWMAN}" * 7_900)
            found = await recall(w, "ana", "comet", limit=50)
            assert len(found) == 2 and (await w.tick()).rejected == 0

    asyncio.run(scenario())
