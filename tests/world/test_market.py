"""The market: what is sold changes hands together with its price, or nothing does."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from artelier import Kernel
from artelier.errors import AccessDenied
from artelier.log import Batch, Draft, StreamAppend, blob_name
from artelier.world import World
from artelier.world.events import world_stream
from artelier.world.queries.reports import offers, overview
from tests.world.places import balance, events, world_at

RULE = {"policy": "rule"}
AGENTS: dict[str, dict[str, str]] = dict.fromkeys(("ana", "bob", "eve"), RULE)
POEM = {"action": "write", "artifact_id": "poem", "kind": "prompt", "content": "roses are red"}


class Played:
    """Rule agents that do what lists say; `{offer}` stands for the newest offer that the agent sees."""

    def __init__(self, **by_agent: list[Any]) -> None:
        self.by_agent = by_agent
        self.seen: dict[tuple[str, int], dict[str, Any]] = {}

    def __call__(self, facts: dict[str, Any]) -> Any:
        agent, tick = facts["agent_id"], facts["tick"]
        self.seen[agent, tick] = facts
        wanted = self.by_agent.get(agent, [])
        action = wanted[tick - 1] if tick <= len(wanted) else None
        if action is not None and action.get("offer_id") == "newest":
            return {**action, "offer_id": facts["offers"][0]["offer"]}
        return action

    def result(self, agent: str, tick: int) -> Any:
        """What an agent saw of its action in `tick`."""
        return self.seen[agent, tick + 1]["last_action"]["result"]


def offer(artifact: str, price: int, **more: Any) -> dict[str, Any]:
    return {"action": "offer", "artifact_id": artifact, "price": price, **more}


def accept(offer_id: str = "newest", **more: Any) -> dict[str, Any]:
    return {"action": "accept", "offer_id": offer_id, **more}


def read(ref: str) -> dict[str, Any]:
    return {"action": "read", "ref": ref}


def run(folder: Path, rule: Played, ticks: int, check: Any, **config: Any) -> None:
    """Pass ticks, then look at the world through another kernel."""

    async def scenario() -> None:
        async with world_at(folder, config=config, policies={"rule": rule}, agents=AGENTS) as w:
            await w.run(ticks=ticks)
        kernel = Kernel.open(folder / "state.db")
        try:
            await check(World.open(kernel, "w"))
        finally:
            await kernel.aclose()

    asyncio.run(scenario())


def test_ownership_changes_hands_and_the_seller_loses_access(tmp_path: Path) -> None:
    rule = Played(
        ana=[
            POEM,
            offer("poem", 40),
            read("poem"),
            {"action": "delete", "artifact_id": "poem"},
            None,
            read("poem"),
        ],
        bob=[None, None, read("poem"), None, accept(), read("poem")],
    )

    async def check(w: World) -> None:
        assert rule.result("ana", 3) == "roses are red"  # while it is offered, it may be read
        assert "may not delete" in rule.result("ana", 4)
        assert "may not read" in rule.result("bob", 3)
        assert rule.result("bob", 5) == {"bought": "ownership", "of": "poem", "paid": 40, "yours_now": "poem"}
        assert rule.result("bob", 6) == "roses are red"
        assert "may not read" in rule.result("ana", 6)
        assert await balance(w, "ana") == 140 and await balance(w, "bob") == 60
        poem = await w.as_principal("bob").artifacts.read("poem")
        assert (poem.owner, poem.creator) == ("bob", "ana")
        assert await offers(w) == []
        assert [one.status for one in await offers(w, closed=True)] == ["accepted"]

    run(tmp_path, rule, 7, check)


def test_a_copy_is_the_buyers_own_and_pays_a_royalty(tmp_path: Path) -> None:
    sold = {
        "action": "write",
        "artifact_id": "poem.copy-3-1",
        "content": "roses are red",
        "prices": {"read": 9},
        "access": "public",
    }
    rule = Played(
        ana=[POEM, offer("poem", 10, sells="copy", royalty_percent=25)],
        bob=[None, None, accept(), sold],
        eve=[None, None, None, None, {**read("poem.copy-3-1"), "price_max": 9}],
    )

    async def check(w: World) -> None:
        got = rule.result("bob", 3)["yours_now"]
        assert got == "poem.copy-3-1"
        copy = await w.as_principal("bob").artifacts.read(f"{got}@1")
        assert copy.provenance.derived_from == ("poem@1",) and copy.creator == "bob"
        assert rule.result("eve", 5) == "roses are red"
        # eve paid 9 to bob, of which 2.25, rounded down, went to ana
        assert await balance(w, "eve") == 91
        assert await balance(w, "bob") == 100 - 10 + 7
        assert await balance(w, "ana") == 100 + 10 + 2
        assert len(await offers(w)) == 1, "there are more copies"
        assert [(one.status, one.sold) for one in await offers(w, closed=True)] == [("open", 1)]
        assert (await overview(w)).sold == 1

    run(tmp_path, rule, 6, check)


def test_a_licence_lets_use_so_often_or_so_long(tmp_path: Path) -> None:
    rule = Played(
        ana=[
            POEM,
            offer("poem", 5, sells="licence", uses=2),
            offer("poem", 7, sells="licence", ticks=2, to="eve"),
        ],
        bob=[None, None, accept(), read("poem"), read("poem"), read("poem")],
        eve=[
            None,
            None,
            None,
            accept(),
            read("poem"),
            read("poem"),
            read("poem"),
            {"action": "edit", "artifact_id": "poem", "old": "red", "new": "blue"},
        ],
    )

    async def check(w: World) -> None:
        assert rule.result("bob", 4) == rule.result("bob", 5) == "roses are red"
        assert "may not read" in rule.result("bob", 6)
        assert rule.result("eve", 5) == rule.result("eve", 6) == "roses are red"
        assert "may not read" in rule.result("eve", 7)
        assert await balance(w, "ana") == 112
        charged = [data for _, _, data in await events(w, "artifact.charged")]
        assert len(charged) == 2 and all(one["licence"] for one in charged)
        poem = await w.as_principal("ana").artifacts.read("poem")
        assert poem.owner == "ana" and poem.version == 1

    run(tmp_path, rule, 9, check)


def test_two_that_buy_one_thing_in_a_tick_do_not_both_get_it(tmp_path: Path) -> None:
    rule = Played(ana=[POEM, offer("poem", 40)], bob=[None, None, accept()], eve=[None, None, accept()])

    async def check(w: World) -> None:
        results = [rule.result("bob", 3), rule.result("eve", 3)]
        refused = [one for one in results if isinstance(one, str)]
        assert len(refused) == 1 and "no open offer" in refused[0]
        assert await balance(w, "ana") == 140
        assert await balance(w, "bob") + await balance(w, "eve") == 160

    run(tmp_path, rule, 4, check)


def test_what_is_offered_to_one_or_taken_back_is_not_for_others(tmp_path: Path) -> None:
    rule = Played(
        ana=[
            POEM,
            offer("poem", 40, to="bob"),
            None,
            {"action": "cancel_offer", "offer_id": "offer-2-1"},
            read("poem"),
        ],
        bob=[None, None, None, None, accept("offer-2-1")],
        eve=[None, None, accept("offer-2-1"), {"action": "cancel_offer", "offer_id": "offer-2-1"}],
    )

    async def check(w: World) -> None:
        assert rule.seen["bob", 3]["offers"] and not rule.seen["eve", 3]["offers"]
        assert "no open offer" in rule.result("eve", 3) and "no open offer" in rule.result("eve", 4)
        assert "no open offer" in rule.result("bob", 5)
        assert rule.result("ana", 5) == "roses are red"
        with pytest.raises(AccessDenied):
            await w.as_principal("bob").artifacts.read("poem")

    run(tmp_path, rule, 6, check)


@pytest.mark.parametrize(
    ("action", "why"),
    [
        (offer("poem", 1), "may not transfer"),
        (offer("nothing", 1), "no artifact"),
        (offer("bob", 1), "cannot be sold"),
        (offer("own", 1, to="bob"), "oneself"),
        (accept("offer-9-9"), "no open offer"),
        (accept("newest", price_max=39), "more than agreed"),
    ],
)
def test_what_cannot_be_traded_is_said(tmp_path: Path, action: dict[str, Any], why: str) -> None:
    own = {"action": "write", "artifact_id": "own", "kind": "document", "content": "x"}
    rule = Played(ana=[POEM, offer("poem", 40)], bob=[own, None, action])

    async def check(w: World) -> None:
        assert why in rule.result("bob", 3)
        assert await balance(w, "bob") == 100

    run(tmp_path, rule, 4, check)


def test_the_own_offer_the_price_and_the_same_again_are_refused(tmp_path: Path) -> None:
    rule = Played(
        ana=[
            POEM,
            offer("poem", 500, sells="copy"),
            accept(),
            offer("poem", 5, sells="copy"),
            {"action": "delete", "artifact_id": "poem"},
        ],
        bob=[None, None, accept(), None, None, accept()],
    )

    async def check(w: World) -> None:
        assert "your own" in rule.result("ana", 3) and "already" in rule.result("ana", 4)
        assert "cannot pay" in rule.result("bob", 3) and "void" in rule.result("bob", 6)
        assert await offers(w) == []  # the mint's round has cleared it

    run(tmp_path, rule, 10, check)


def test_a_preview_tells_before_buying(tmp_path: Path) -> None:
    poem = {**POEM, "metadata": {"title": "Roses", "summary": "A short one"}}
    rule = Played(ana=[poem, offer("poem", 40, sells="copy")], bob=[None, None, accept()])

    async def check(w: World) -> None:
        [made] = [data for _, _, data in await events(w, "offer.made")]
        shown = await w.host.services.store.blob("default", blob_name(made["preview"]))
        assert b'"title":"Roses"' in shown and b'"users":0' in shown
        [fact] = rule.seen["bob", 3]["offers"]
        assert (fact["title"], fact["summary"], fact["users"]) == ("Roses", "A short one", 0)

    run(tmp_path, rule, 3, check)


def test_whom_the_network_hides_sells_nothing_to_one(tmp_path: Path) -> None:
    rule = Played(ana=[POEM, offer("poem", 4)], bob=[None, None, accept("offer-2-1")])

    async def check(w: World) -> None:
        assert "no open offer" in rule.result("bob", 3)
        assert rule.seen["bob", 3]["offers"] == []

    run(tmp_path, rule, 4, check, network={"bob": ["eve"]})


GRANTS = {"allow": {right: ["ana"] for right in ("read", "write", "delete", "transfer")}}
"""All that an owner can give to itself for the time after a sale."""


def test_nobody_changes_what_is_in_escrow(tmp_path: Path) -> None:
    code = "def run():\n    return write('poem', 'junk')\n"
    program = {"action": "write", "artifact_id": "tool", "kind": "tool", "content": {"code": code}}
    delete = {"action": "delete", "artifact_id": "poem"}
    granted = {right: ["ana", "artifact:tool"] for right in GRANTS["allow"]}
    rule = Played(
        ana=[
            {**POEM, "access": {"allow": granted}},
            program,
            offer("poem", 60),
            delete,
            {**POEM, "content": "junk"},
            {**POEM, "access": "public"},
            {"action": "edit", "artifact_id": "poem", "old": "red", "new": "blue"},
            {"action": "invoke", "artifact_id": "tool"},
            {"action": "cancel_offer", "offer_id": "offer-3-1"},
            delete,
        ]
    )

    async def check(w: World) -> None:
        assert "in escrow" in rule.result("ana", 4) and "may not delete" in rule.result("ana", 4)
        for tick in (5, 6, 7):
            assert "may not write artifact poem: it is in escrow" in rule.result("ana", tick)
        assert "in escrow" in rule.result("ana", 8)
        assert [data["id"] for _, _, data in await events(w, "artifact.deleted")] == ["poem"]
        assert [one.status for one in await offers(w, closed=True)] == ["cancelled"]

    run(tmp_path, rule, 12, check)


def test_an_artifact_in_escrow_earns_for_nobody(tmp_path: Path) -> None:
    priced = {**POEM, "access": "public", "prices": {"read": 10}}
    free = {**POEM, "artifact_id": "song", "access": "public"}
    rule = Played(
        ana=[
            priced,
            free,
            offer("poem", 60),
            offer("song", 60),
            read("poem"),
            {"action": "cancel_offer", "offer_id": "offer-3-1"},
        ],
        bob=[
            None,
            None,
            None,
            None,
            {**read("poem"), "price_max": 10},
            read("song"),
            {**read("poem"), "price_max": 10},
        ],
    )

    async def check(w: World) -> None:
        assert "it is in escrow" in rule.result("bob", 5)
        assert rule.result("ana", 5) == rule.result("bob", 6) == "roses are red"
        assert rule.result("bob", 7) == "roses are red"
        assert [await balance(w, one) for one in ("ana", "bob", "genesis_escrow")] == [110, 90, 0]

    run(tmp_path, rule, 8, check)


def test_a_sale_ends_the_grants_of_the_seller(tmp_path: Path) -> None:
    def of(id_: str, access: Any) -> dict[str, Any]:
        return {**POEM, "artifact_id": id_, "access": access}

    junk = {**POEM, "content": "junk"}
    rule = Played(
        ana=[
            of("poem", GRANTS),
            of("song", "owner_writes"),
            offer("poem", 60),
            offer("song", 9),
            junk,
            None,
            read("poem"),
            junk,
            {"action": "delete", "artifact_id": "poem"},
            read("song"),
        ],
        bob=[None, None, None, None, accept("offer-3-1"), accept("offer-4-1")],
    )

    async def check(w: World) -> None:
        shown = {one["artifact"]: one["access"] for one in rule.seen["bob", 5]["offers"]}
        assert shown == {"poem": "allow", "song": "owner_writes"}
        for tick in (5, 7, 8, 9):
            assert "may not" in rule.result("ana", tick)
        poem = await w.as_principal("bob").artifacts.read("poem")
        assert poem.access is not None
        assert (poem.content, poem.version, poem.access.policy) == ("roses are red", 1, "private")
        assert rule.result("ana", 10) == "roses are red", "what was open to all stays so"
        rows = await w.host.services.store.query(
            "SELECT id, policy FROM artifacts WHERE space = 'world:w' AND kind = 'prompt' ORDER BY id"
        )
        assert rows == [("poem", "private"), ("song", "owner_writes")]

    run(tmp_path, rule, 11, check)


def test_who_buys_the_thing_itself_gets_what_was_offered(tmp_path: Path) -> None:
    """An older record may hold an artifact that was changed in escrow."""
    rule = Played(ana=[POEM, offer("poem", 40)], bob=[None, None, None, accept()])

    async def scenario() -> None:
        async with world_at(tmp_path, policies={"rule": rule}, agents=AGENTS) as w:
            await w.run(ticks=2)
            store, stream = w.host.services.store, world_stream(w.host.id, "w")
            [made] = [
                one
                for one in await store.read(stream)
                if one.kind == "artifact.written" and one.plain()["id"] == "poem"
            ]
            again = msgspec.structs.replace(made.decode(), version=2, owner="genesis_escrow", act=None)
            head = (await store.head(stream))[0]
            draft = Draft(again, 2, "ana")
            await store.append(Batch(appends=(StreamAppend(stream, (draft,), head),)))
            await w.run(ticks=3)
            assert "is void: poem has changed" in rule.result("bob", 4)
            assert await balance(w, "bob") == 100

    asyncio.run(scenario())


def test_nobody_hides_the_offers_of_others(tmp_path: Path) -> None:
    def song(tick: int) -> dict[str, Any]:
        return {**POEM, "artifact_id": f"song{tick}"}

    rule = Played(
        ana=[offer("poem", 1, sells="copy", to="nobody"), POEM]
        + [song(n) for n in range(3, 24)]
        + [offer(f"song{n}", 1, sells="copy", **({"to": "eve"} if n < 12 else {})) for n in range(3, 24)]
        + [{"action": "cancel_offer", "offer_id": "offer-24-1"}, offer("song23", 1, sells="copy")],
        bob=[{**POEM, "artifact_id": "good"}, offer("good", 1, sells="copy")],
    )

    async def check(w: World) -> None:
        assert "no artifact poem" in rule.result("ana", 1)
        assert "you have 20 open offers; cancel one first" in rule.result("ana", 44)
        assert rule.result("ana", 46) == {"offer": "offer-46-1"}
        for agent, newest in (
            ("bob", ["song23", "song22", "song21", "song20", "song19"]),
            ("eve", ["song23", "song22", "song21", "song20", "song19"]),
        ):
            shown = [one["artifact"] for one in rule.seen[agent, 47]["offers"]]
            assert shown == [*newest, "good"]
        to_eve = [one["artifact"] for one in rule.seen["eve", 33]["offers"]]
        assert to_eve == ["song11", "song10", "song9", "song8", "song7", "good"]
        assert [one["artifact"] for one in rule.seen["bob", 33]["offers"]] == ["good"]

    run(tmp_path, rule, 47, check)


def test_an_offer_is_to_all_or_to_an_agent(tmp_path: Path) -> None:
    rule = Played(ana=[POEM, offer("poem", 1, to="nobody"), offer("poem", 1, to="eve")])

    async def check(w: World) -> None:
        assert "there is no agent nobody" in rule.result("ana", 2)
        assert rule.result("ana", 3) == {"offer": "offer-3-1"}

    run(tmp_path, rule, 4, check)


def test_a_licence_covers_a_subscription(tmp_path: Path) -> None:
    secret = {**POEM, "access": "private"}
    subscribe = {"action": "subscribe_artifact", "artifact_id": "poem"}
    rule = Played(
        ana=[secret, offer("poem", 5, sells="licence", uses=1)],
        bob=[None, None, accept(), subscribe, read("poem")],
        eve=[None, None, None, subscribe],
    )

    async def check(w: World) -> None:
        assert "may not subscribe" in rule.result("eve", 4)
        bob = await w.as_principal("bob").artifacts.read("bob")
        assert bob.content["subscribed_artifacts"] == ["poem"]
        assert rule.result("bob", 5) == "roses are red", "to subscribe is no use of it"

    run(tmp_path, rule, 6, check)


def test_in_one_tick_the_seller_uses_what_is_in_escrow_until_it_is_sold(tmp_path: Path) -> None:
    """Whoever acts first decides: before the sale the seller may still read it, afterwards the buyer may."""
    orders: set[tuple[str, ...]] = set()
    for seed in range(8):
        rule = Played(ana=[POEM, offer("poem", 40), read("poem"), None], bob=[None, None, accept(), None])

        async def check(w: World, rule: Played = rule) -> None:
            acts = [(who, data["act"]) for _, who, data in await events(w) if data.get("act")]
            order = tuple(who for who, act in acts if act["action"] in ("read", "accept"))
            is_read = rule.result("ana", 3) == "roses are red"
            assert is_read is (order == ("ana", "bob"))
            assert is_read or "may not read" in rule.result("ana", 3)
            orders.add(order)

        run(tmp_path / str(seed), rule, 4, check, seed=seed)
    assert len(orders) == 2 or orders == {("ana", "bob"), ("bob",)}


def test_an_older_offer_of_copies_gives_no_right_to_what_others_have_in_escrow(tmp_path: Path) -> None:
    rule = Played(
        ana=[POEM, offer("poem", 1, sells="copy"), offer("poem", 40), None, None, read("poem")],
        bob=[None, None, None, accept(price_max=40), offer("poem", 50), None],
    )

    async def check(w: World) -> None:
        assert rule.result("bob", 4)["yours_now"] == "poem"
        assert "may not read" in rule.result("ana", 6)

    run(tmp_path, rule, 7, check)
