"""Money goes round: fees pay the mint's winners and come back, and new use alone is paid."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from artelier.world import World
from artelier.world.genesis import settle
from tests.world.memories import make_store, recall, remember, settled
from tests.world.places import balance, events, world_at
from tests.world.test_mint import bid, closed, read, tool, write

RULE = {"policy": "rule"}
EMBED = {"action": "invoke", "artifact_id": "genesis_embedder", "args": {"text": "bread"}}


def played(folder: Path, ticks: int, check: Any, *, config: Any = None, **by_agent: list[Any]) -> None:
    """Pass ticks of rule agents in a settled world, and see that money was conserved."""

    def rule(facts: dict[str, Any]) -> Any:
        wanted = by_agent.get(facts["agent_id"], [])
        return wanted[facts["tick"] - 1] if facts["tick"] <= len(wanted) else None

    async def scenario() -> None:
        settings = {"mint": {"every": 4}, **(config or {})}
        agents = dict.fromkeys(by_agent, RULE)
        async with world_at(folder, config=settings, policies={"rule": rule}, agents=agents) as w:
            await settle(w)
            await w.run(ticks=ticks)
            await check(w)
            rows = await w.host.services.store.query(
                "SELECT SUM(balance) FROM accounts WHERE space = 'world:w'"
            )
            assert rows == [(0,)]

    asyncio.run(scenario())


async def hands(w: World, *agents: str) -> list[int]:
    return [await balance(w, agent) for agent in agents]


@pytest.mark.parametrize("every", [4, 0])
def test_fees_come_back_to_those_who_paid_them(tmp_path: Path, every: int) -> None:
    async def before(w: World) -> None:
        assert await hands(w, "ana", "bob", "eve") == [97, 99, 100]
        assert await balance(w, "genesis_embedder") == 4

    async def check(w: World) -> None:
        assert await hands(w, "ana", "bob", "eve", "genesis_embedder", "genesis_mint") == [
            100,
            100,
            100,
            0,
            0,
        ]
        assert len(await events(w, "fees.shared")) == 1
        assert await balance(w, "mint:world") == 0

    config = {"mint": {"every": every}}
    acts: dict[str, list[Any]] = {"ana": [EMBED] * 3, "bob": [None, EMBED], "eve": []}
    (tmp_path / "before").mkdir()
    played(tmp_path / "before", 3, before, config=config, **acts)
    played(tmp_path, 4 if every else 10, check, config=config, **acts)


def test_fees_pay_the_winner_of_the_mint_before_new_scrip_does(tmp_path: Path) -> None:
    """Three have used ana's map: two scrip are fees, and the price that she paid is the third."""

    async def check(w: World) -> None:
        [one] = await closed(w)
        assert (one["winner"], one["score"], one["minted"], one["price"]) == ("ana", 100, 3, 1)
        assert await balance(w, "ana") == 100 - 1 + 3
        assert await hands(w, "bob", "eve", "dan") == [99, 99, 100]
        assert await balance(w, "genesis_mint") == 0 and await balance(w, "mint:world") == 0

    played(
        tmp_path,
        4,
        check,
        ana=[write("a", "a map"), bid("a", 9)],
        bob=[EMBED, read("a")],
        eve=[EMBED, read("a")],
        dan=[None, read("a")],
    )


def test_the_price_goes_to_bidders_whose_things_were_used_and_not_to_who_waits(tmp_path: Path) -> None:
    async def check(w: World) -> None:
        [one] = await closed(w)
        assert (one["winner"], one["price"], one.get("minted", 0)) == ("farm", 12, 0)
        assert await hands(w, "farm", "ana", "bob", "idle", "junk") == [88, 108, 104, 100, 100]

    played(
        tmp_path,
        5,
        check,
        config={"mint": {"every": 5}},
        farm=[write("f", "f"), bid("f", 40)],
        junk=[write("j", "j"), bid("j", 1)],
        idle=[],
        ana=[write("a", "a"), read("b"), None, bid("a", 12)],
        bob=[write("b", "b"), read("a"), None, bid("b", 5)],
        eve=[None, read("a")],
    )


def test_only_new_use_scores_and_payout_grows_with_the_population(tmp_path: Path) -> None:
    crowd = {f"u{n}": [None, read("a")] for n in range(24)}
    crowd["u0"] = [None, read("a"), *[None] * 7, read("a")]

    async def check(w: World) -> None:
        first, second, third, fourth = await closed(w)
        assert (first["score"], first["minted"]) == (100, 24)
        assert [second.get("minted", 0), third["minted"], fourth.get("minted", 0)] == [0, 1, 0]
        assert third["score"] == 4

    played(tmp_path, 16, check, ana=[write("a", "a map"), *[bid("a", 5)] * 14], **crowd)


def test_programs_that_fail_their_cases_are_paid_for_no_use(tmp_path: Path) -> None:
    cases = {"tool": [{"args": {"n": 2}, "expected": 4}, {"args": {"n": 5}, "expected": 25}]}
    square, double = "def run(n):\n    return n * n\n", "def run(n):\n    return n + n\n"

    def use(id_: str) -> dict[str, Any]:
        return {"action": "invoke", "artifact_id": id_, "args": {"n": 1}}

    async def check(w: World) -> None:
        first, second, third = await closed(w)
        assert (first["winner"], first["minted"]) == ("ana", 3)
        assert (second["winner"], second["minted"]) == ("bob", 1)  # half of the cases, three users
        assert (third["winner"], third.get("minted", 0)) == ("ana", 0)  # nobody used it again

    played(
        tmp_path,
        12,
        check,
        config={"mint": {"every": 4, "cases": cases}},
        ana=[
            tool("square", square),
            bid("square", 9),
            None,
            None,
            use("double"),
            *[None] * 3,
            bid("square", 9),
        ],
        bob=[tool("double", double), use("square"), None, None, bid("double", 9)],
        eve=[None, use("square"), None, None, use("double")],
        dan=[None, use("square"), None, None, use("double")],
    )


def test_services_never_hold_much_for_long(tmp_path: Path) -> None:
    """However long a round is: above a fifth of what agents have, fees come back at once."""
    many = {**EMBED, "args": {"texts": [f"text {n}" for n in range(16)]}}

    async def check(w: World) -> None:
        at, held = 0, 0
        for kind, _, data in await events(w):
            for source, target, _, amount in data.get("postings", ()):
                held += amount * (target.startswith("principal:genesis_"))
                held -= amount * (source.startswith("principal:genesis_"))
            if kind == "tick.passed":
                assert held * 5 <= 200 - held
                at = data["tick"]
        assert at == 12 and len(await events(w, "fees.shared")) > 2

    played(tmp_path, 12, check, config={"mint": {"every": 500}}, ana=[many] * 12, bob=[many] * 12)


def test_a_gift_to_the_mint_makes_nobody_rich_who_pays_a_fee(tmp_path: Path) -> None:
    async def check(w: World) -> None:
        assert await hands(w, "ana", "bob", "genesis_mint") == [100, 70, 30]

    gift = {"action": "transfer", "to": "genesis_mint", "amount": 30}
    played(tmp_path, 4, check, ana=[EMBED], bob=[gift])


def test_a_search_that_finds_nothing_costs_nothing(tmp_path: Path) -> None:
    code = "def run():\n    return len(search_memory('mem', 'quiet'))\n"

    async def scenario(rules: int, folder: Path) -> None:
        async with settled(folder, "ana", "bob", config={"rules": rules}) as w:
            fee = 1 if rules == 1 else 0
            await make_store(w, "ana", access="owner_writes", prices={"read": 7})
            await remember(w, "ana", "red sails on the river")
            assert await recall(w, "bob", "quiet") == []
            assert await balance(w, "bob") == 100 - fee
            assert len(await recall(w, "bob", "red sails")) == 1
            assert await balance(w, "bob") == 100 - fee - 8
            bob = w.as_principal("bob")
            await bob.artifacts.write("finder", kind="tool", content={"code": code})
            await bob.ledger.transfer(to="artifact:finder", amount=20)
            assert (await bob.artifacts.invoke("finder")).result == 0
            assert await balance(w, "artifact:finder") == 20 - fee

    for rules in (1, 2):
        folder = tmp_path / str(rules)
        folder.mkdir()
        asyncio.run(scenario(rules, folder))


def test_older_worlds_mint_as_they_did(tmp_path: Path) -> None:
    async def check(w: World) -> None:
        [one] = await closed(w)
        assert (one["score"], one["minted"]) == (20, 2)
        assert await events(w, "fees.shared") == []
        assert await hands(w, "ana", "bob", "eve", "genesis_embedder") == [101, 99, 100, 0]

    played(
        tmp_path,
        4,
        check,
        config={"rules": 1},
        ana=[write("a", "a map"), bid("a", 9)],
        bob=[EMBED, read("a")],
        eve=[None, read("a")],
    )
