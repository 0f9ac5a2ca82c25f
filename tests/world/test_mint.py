"""The mint: sealed bids, the second price, a score that is never the owner's claim."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from artelier.log import blob_name
from artelier.world import World
from artelier.world.genesis import settle
from tests.world.places import add, balance, events, world_at

RULE = {"policy": "rule"}


def write(id_: str, content: Any = "x", **more: Any) -> dict[str, Any]:
    return {"action": "write", "artifact_id": id_, "kind": "document", "content": content, **more}


def tool(id_: str, code: str, **more: Any) -> dict[str, Any]:
    return write(id_, {"code": code}, **{"kind": "tool", **more})


def bid(id_: str, amount: int) -> dict[str, Any]:
    return {"action": "bid", "artifact_id": id_, "amount": amount}


def read(ref: str) -> dict[str, Any]:
    return {"action": "read", "ref": ref}


def played(
    folder: Path, ticks: int, check: Any, *, mint: Any = None, rules: int = 1, **by_agent: list[Any]
) -> None:
    """Pass ticks of rule agents. What older worlds do is here; `test_circulation` has the newer rules."""

    def rule(facts: dict[str, Any]) -> Any:
        wanted = by_agent.get(facts["agent_id"], [])
        return wanted[facts["tick"] - 1] if facts["tick"] <= len(wanted) else None

    async def scenario() -> None:
        config = {"mint": {"every": 4, **(mint or {})}, "rules": rules}
        agents = dict.fromkeys(by_agent, RULE)
        async with world_at(folder, config=config, policies={"rule": rule}, agents=agents) as w:
            await settle(w)
            await w.run(ticks=ticks)
            await check(w)
            rows = await w.host.services.store.query(
                "SELECT SUM(balance), MIN(CASE WHEN account LIKE 'source:%' OR account LIKE 'mint:%'"
                " THEN 0 ELSE balance END) FROM accounts WHERE space = 'world:w'"
            )
            assert rows == [(0, 0)], "money is conserved, and nobody owes but who issues"

    asyncio.run(scenario())


async def closed(w: World) -> list[dict[str, Any]]:
    return [data for _, _, data in await events(w, "auction.closed")]


def test_the_highest_pays_the_second_price_to_the_others(tmp_path: Path) -> None:
    async def check(w: World) -> None:
        [one] = await closed(w)
        assert (one["winner"], one["artifact"], one["price"], one["round"]) == ("ana", "a", 31, 1)
        # 31 among bob, eve and dan is 10 each; what is left goes to the mint
        assert await balance(w, "ana") == 69 and one.get("score", 0) == 0
        assert [await balance(w, name) for name in ("bob", "eve", "dan")] == [110, 110, 110]

    played(
        tmp_path,
        4,
        check,
        ana=[write("a", "first"), bid("a", 60)],
        bob=[write("b", "second"), bid("b", 31)],
        eve=[write("e", "third"), bid("e", 5), bid("e", 9), bid("e", 101)],
        dan=[],
    )


def test_equal_bids_go_to_the_earliest_and_a_lonely_one_pays_little(tmp_path: Path) -> None:
    async def check(w: World) -> None:
        first, second = await closed(w)
        assert (first["winner"], first["price"]) == ("bob", 20)
        assert (second["winner"], second["price"]) == ("ana", 1)

    played(
        tmp_path,
        8,
        check,
        ana=[write("a", "1"), None, bid("a", 20), None, bid("a", 50)],
        bob=[write("b", "2"), bid("b", 20)],
    )


def test_the_score_is_use_by_others_and_never_a_copy(tmp_path: Path) -> None:
    async def check(w: World) -> None:
        first, second = await closed(w)
        assert (first["winner"], first["score"], first["minted"]) == ("ana", 20, 2)
        assert (second["winner"], second.get("score", 0), second["duplicate"]) == ("eve", 0, True)

    played(
        tmp_path,
        8,
        check,
        ana=[write("a", "a useful map"), read("a"), read("a"), bid("a", 9)],
        bob=[None, read("a"), read("a")],
        eve=[None, read("a"), write("mine", "a useful map"), None, bid("mine", 9)],
    )


def test_programs_are_scored_by_cases_and_hostile_ones_fail_them(tmp_path: Path) -> None:
    cases = {"tool": [{"args": {"n": 2}, "expected": 4}, {"args": {"n": 5}, "expected": 25}]}

    async def check(w: World) -> None:
        first, second, third = await closed(w)
        assert (first["winner"], first["score"], first["minted"]) == ("ana", 50, 5)
        assert (second["winner"], second.get("score", 0)) == ("bob", 0)
        assert (third["winner"], third["score"]) == ("eve", 25)
        assert await balance(w, "genesis_mint") == 0

    played(
        tmp_path,
        12,
        check,
        mint={"cases": cases},
        ana=[
            tool("square", "def run(n):\n    write('mess', 'x', kind='document')\n    return n * n\n"),
            bid("square", 5),
        ],
        bob=[tool("loop", "def run(n):\n    while True:\n        pass\n"), None, None, None, bid("loop", 5)],
        eve=[tool("double", "def run(n):\n    return n + n\n"), *[None] * 7, bid("double", 5)],
    )


def test_void_bids_come_back_and_services_return_what_they_earned(tmp_path: Path) -> None:
    async def check(w: World) -> None:
        [one] = await closed(w)
        assert (one["winner"], one["price"]) == ("bob", 1)
        assert await balance(w, "ana") == 100 - 7 + 1
        assert await balance(w, "genesis_memory_search") == 0
        assert await balance(w, "mint:world") == 0

    played(
        tmp_path,
        4,
        check,
        ana=[
            write("a", "1"),
            bid("a", 60),
            {"action": "delete", "artifact_id": "a"},
            {"action": "transfer", "to": "genesis_memory_search", "amount": 7},
        ],
        bob=[write("b", "2"), bid("b", 20)],
    )


@pytest.mark.parametrize(
    ("action", "why"),
    [(bid("b", 1), "only its owner"), (bid("none", 1), "no artifact"), (bid("a", 101), "cannot pay")],
)
def test_bids_that_cannot_be_are_refused(tmp_path: Path, action: Any, why: str) -> None:
    async def check(w: World) -> None:
        [(_, actor, data)] = await events(w, "action.rejected")
        reason = await w.host.services.store.blob("default", blob_name(data["reason"]))
        assert actor == "ana" and why in reason.decode()

    played(tmp_path, 2, check, ana=[write("a"), action], bob=[write("b", "y")])


def test_bids_wait_over_a_restart_and_are_shown_to_nobody(tmp_path: Path) -> None:
    seen: list[Any] = []

    def rule(facts: dict[str, Any]) -> Any:
        if facts["agent_id"] == "bob":
            seen.append(str(facts))
            return read("genesis_event_log") if facts["tick"] == 3 else None
        return [write("a", "one"), bid("a", 77), None, None][facts["tick"] - 1]

    async def scenario() -> None:
        config = {"mint": {"every": 4}}
        agents = {"ana": RULE, "bob": RULE}
        async with world_at(tmp_path, config=config, policies={"rule": rule}, agents=agents) as w:
            await w.run(ticks=3)
            assert await balance(w, "ana") == 23
            again = World.open(w.host, "w", policies={"rule": rule})
            await again.tick()
            assert await balance(again, "ana") == 99
            await add(again, cleo=RULE)

    asyncio.run(scenario())
    assert "77" not in "".join(seen)


def test_a_longer_round_and_a_mint_turned_off_stop_no_world(tmp_path: Path) -> None:
    async def scenario() -> None:
        def rule(facts: dict[str, Any]) -> Any:
            return write("a") if facts["tick"] == 1 else bid("a", 7)

        agents = {"ana": RULE, "bob": RULE}
        config = {"mint": {"every": 1}, "rules": 1}
        async with world_at(tmp_path, config=config, policies={"rule": rule}, agents=agents) as w:
            await w.run(ticks=3)
            await w.configure({"mint": {"every": 2}})
            await w.run(ticks=4)
            numbers = [one["round"] for one in await closed(w)]
            assert numbers == [2, 3, 2, 3], "the number of a round comes twice"
            rows = await w.host.services.store.query("SELECT tick FROM world_rounds ORDER BY tick")
            assert rows == [(2,), (3,), (4,), (6,)]
            before = await balance(w, "ana")
            assert await balance(w, "bob") == 100 + 4 and before == 96 - 7
            await w.configure({"mint": {"every": 0}})
            await w.run(ticks=2)
            last = (await closed(w))[-1]
            assert "winner" not in last and await balance(w, "ana") == 96
            assert len(await closed(w)) == 5, "there is nothing left to give back"

    asyncio.run(scenario())


def test_programs_use_for_their_owner_and_are_nobody_themselves(tmp_path: Path) -> None:
    def uses(id_: str, of: str) -> dict[str, Any]:
        return tool(id_, f"def run():\n    return invoke('{of}')\n", access="owner_writes")

    def invoke(id_: str) -> dict[str, Any]:
        return {"action": "invoke", "artifact_id": id_}

    async def check(w: World) -> None:
        first, second = await closed(w)
        assert (first["winner"], first.get("score", 0)) == ("ana", 0), "ana stands behind all of them"
        assert (second["winner"], second["score"]) == ("ana", 10)
        rows = await w.host.services.store.query(
            "SELECT user, times FROM world_uses WHERE artifact = 'seed' ORDER BY user"
        )
        assert rows == [("bob", 2), ("visitor", 1)]

    async def scenario() -> None:
        seed = tool("seed", "def run():\n    return 1\n", access="owner_writes")
        by_agent: dict[str, list[Any]] = {
            "ana": [
                seed,
                uses("s1", "seed"),
                uses("s2", "seed"),
                uses("s3", "s1"),
                invoke("s1"),
                invoke("s2"),
                invoke("s3"),
                bid("seed", 5),
                bid("seed", 5),
            ],
            "bob": [None] * 8 + [uses("b1", "seed"), uses("b2", "seed"), invoke("b1"), invoke("b2")],
        }

        def rule(facts: dict[str, Any]) -> Any:
            wanted = by_agent[facts["agent_id"]]
            return wanted[facts["tick"] - 1] if facts["tick"] <= len(wanted) else None

        config = {"mint": {"every": 8}, "rules": 1}
        agents = dict.fromkeys(by_agent, RULE)
        async with world_at(tmp_path, config=config, policies={"rule": rule}, agents=agents) as w:
            await w.run(ticks=13)
            # Whoever is no agent of the world is nobody to the mint.
            await w.as_principal("visitor").artifacts.invoke("seed")
            await w.run(ticks=3)
            await check(w)

    asyncio.run(scenario())
