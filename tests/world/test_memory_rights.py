"""Who may see what others remember, and at which price."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from artelier.artifacts import Act
from artelier.errors import AccessDenied, ArtelierError, InsufficientFunds
from artelier.world.events import OfferAccepted, OfferMade
from tests.world.memories import acting, add, find, make_store, recall, remember, settled, texts, write_events
from tests.world.places import balance, events

SHIPS = "Ships with red sails came to the harbour at noon"


def test_a_private_store_is_closed_to_everybody_else(tmp_path: Path) -> None:
    """By search, read, code and errors; and none of the attempts costs anything."""
    code = (
        "def run(id, query):\n"
        "    said = []\n"
        "    for act in (lambda: search_memory(id, query), lambda: read(id),\n"
        "                lambda: invoke('genesis_memory_search', memory_artifact_id=id, query=query),\n"
        "                lambda: invoke('genesis_memory_add', memory_artifact_id=id, text='x')):\n"
        "        try:\n"
        "            said.append(act())\n"
        "        except Exception as error:\n"
        "            said.append(str(error))\n"
        "    return said\n"
    )

    async def scenario() -> None:
        async with settled(
            tmp_path,
            "ana",
            "bob",
            policies=acting(bob=[find("ships"), {"action": "read", "ref": "mem"}, add("x")]),
        ) as w:
            bob = w.as_principal("bob").artifacts
            await make_store(w, "ana")
            entry = (await remember(w, "ana", SHIPS))["entry_id"]
            await bob.write("spy", kind="tool", content={"code": code})
            await w.as_principal("bob").ledger.transfer(to="artifact:spy", amount=10)
            said: list[str] = []
            for attempt in (
                recall(w, "bob", "ships"),
                remember(w, "bob", "x"),
                bob.read("mem"),
                bob.read(f"mem#{entry}"),
                bob.read("mem@1"),
                bob.history("mem"),
            ):
                with pytest.raises(AccessDenied) as refused:
                    await attempt
                said.append(str(refused.value))
            said.append(str((await bob.invoke("spy", id="mem", query="ships")).result))
            assert said[-1].count("access_denied") == 4
            assert await bob.search("harbour") == [] and await bob.search("", kind="memory_store") == []
            assert [one.rejected for one in await w.run(ticks=3)] == [1, 1, 1]
            said += [str(data) for _, actor, data in await events(w) if actor == "bob"]
            rows = await w.agents()
            said.append(str(rows["bob"]))
            assert not [one for one in said if "red sails" in one or entry in one]
            assert await balance(w, "bob") == 90 and await balance(w, "artifact:spy") == 10
            assert await texts(w, "ana") == [SHIPS]

    asyncio.run(scenario())


def test_code_searches_as_itself_and_pays_itself(tmp_path: Path) -> None:
    code = "def run(q):\n    return [one['text'] for one in search_memory('mem', q, limit=1)]"

    async def scenario() -> None:
        async with settled(tmp_path, "ana", "bob") as w:
            ana = w.as_principal("ana").artifacts
            await make_store(w, "ana", access={"allow": {"read": ["artifact:oracle"]}})
            await remember(w, "ana", SHIPS)
            await ana.write("oracle", kind="tool", content={"code": code})
            with pytest.raises(ArtelierError, match="insufficient_funds"):
                await w.as_principal("bob").artifacts.invoke("oracle", q="ships")
            await w.as_principal("ana").ledger.transfer(to="artifact:oracle", amount=5)
            told = await w.as_principal("bob").artifacts.invoke("oracle", q="ships")
            assert told.result == [SHIPS]
            assert await balance(w, "artifact:oracle") == 4 and await balance(w, "bob") == 100
            assert await balance(w, "genesis_memory_search") == 1

    asyncio.run(scenario())


def test_a_contract_may_open_a_store(tmp_path: Path) -> None:
    rule = "def check(caller, action, target, context):\n    return caller == 'bob'"

    async def scenario() -> None:
        async with settled(tmp_path, "ana", "bob", "eve") as w:
            ana = w.as_principal("ana").artifacts
            await ana.write("door", kind="contract", content=rule)
            await make_store(w, "ana", access={"contract": "door"})
            await remember(w, "bob", SHIPS)
            assert (await recall(w, "bob", "ships"))[0]["text"] == SHIPS
            with pytest.raises(AccessDenied):
                await recall(w, "eve", "ships")

    asyncio.run(scenario())


def test_a_search_costs_what_reading_costs(tmp_path: Path) -> None:
    """Else a store for sale could be emptied for a scrip a question."""
    policies = acting(bob=[find("ships")], eve=[find("ships")])

    async def scenario() -> None:
        async with settled(tmp_path, "ana", "bob", "eve", policies=policies) as w:
            await make_store(w, "ana", access="owner_writes", prices={"read": 40})
            await remember(w, "ana", SHIPS)
            await w.as_principal("eve").ledger.transfer(to="ana", amount=70)
            assert (await recall(w, "bob", "ships"))[0]["text"] == SHIPS
            assert await balance(w, "bob") == 59 and await balance(w, "ana") == 209
            with pytest.raises(InsufficientFunds):
                await recall(w, "eve", "ships")
            with pytest.raises(AccessDenied, match="costs more than agreed"):
                await recall(w, "bob", "ships", price_max=40)
            assert await recall(w, "bob", "quiet") == [] and await balance(w, "bob") == 59
            assert await balance(w, "eve") == 30

            passed = await w.tick()
            assert passed.rejected == 1 and await balance(w, "eve") == 30
            assert await balance(w, "bob") == 18 and await balance(w, "ana") == 249

    asyncio.run(scenario())


def test_a_licence_is_used_by_searches(tmp_path: Path) -> None:
    """Of a private store that asks for being read: two uses, no price, and no third."""
    act = Act(action="offer")
    offer = {"offer": "o", "artifact": "mem", "seller": "ana", "price": 0, "sells": "licence"}

    async def scenario() -> None:
        async with settled(tmp_path, "ana", "bob") as w:
            await make_store(w, "ana", prices={"read": 40})
            await remember(w, "ana", SHIPS)
            made = OfferMade(act=act, version=1, uses=2, **offer)
            sold = OfferAccepted(act=act, buyer="bob", uses=2, **offer)
            await write_events(w, [(made, "ana"), (sold, "bob")])

            for _ in range(2):
                assert (await recall(w, "bob", "ships"))[0]["text"] == SHIPS
            with pytest.raises(AccessDenied):
                await recall(w, "bob", "ships")
            assert await balance(w, "bob") == 98 and await balance(w, "ana") == 99
            charged = [data for _, _, data in await events(w, "artifact.charged")]
            assert [(one["id"], one["licence"]) for one in charged] == [("mem", charged[0]["licence"])] * 2

    asyncio.run(scenario())
