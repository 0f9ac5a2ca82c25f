"""A small world in which everything happens that a world can hold, for tests that carry it elsewhere."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from artelier import Kernel
from artelier.artifacts import Act, ArtifactHeld, ArtifactTransferred, Provenance, account_of
from artelier.ledger import Posting
from artelier.log import Batch, Draft, EventData, StreamAppend
from artelier.models.scripted import ScriptedModel
from artelier.money import SCRIP
from artelier.ports.model import ModelRequest
from artelier.world import World
from artelier.world import events as ev
from artelier.world.genesis import settle

RULE = {"policy": "rule"}

CONFIG = {"seed": 7, "mint": {"every": 20}}

TOOL = {"code": "def run(name='you'):\n    return 'hello ' + name\n"}
CHECK = "def check(caller, action, target, context):\n    return caller != 'mallory'\n"

SCRIPT: Mapping[str, Mapping[int, Any]] = {
    "ana": {
        1: {"action": "invoke", "artifact_id": "genesis_memory_add",
            "args": {"memory_artifact_id": "ana_memory", "text": "the river floods in spring"}},
        2: {"action": "offer", "artifact_id": "ana_song", "price": 5, "sells": "copy",
            "royalty_percent": 10},
        3: {"action": "offer", "artifact_id": "ana_map", "price": 4, "sells": "licence", "uses": 5},
        4: {"action": "invoke", "artifact_id": "bob_tool", "args": {"name": "ana"}, "price_max": 5},
        5: {"action": "write", "artifact_id": "ana_song", "content": "la la la"},
        6: {"action": "message", "to": "dan", "text": "buy my map", "reasoning": "he is lost"},
        7: {"action": "offer", "artifact_id": "ana_house", "price": 50, "sells": "ownership"},
        8: {"action": "invoke", "artifact_id": "genesis_memory_add",
            "args": {"memory_artifact_id": "ana_memory", "text": "bread is sold at noon"}},
        9: {"action": "invoke", "artifact_id": "genesis_memory_search",
            "args": {"memory_artifact_id": "ana_memory", "query": "when does the river rise?"}},
        10: {"action": "transfer", "to": "bob", "amount": 3},
    },
    "bob": {
        4: {"action": "accept", "offer_id": "offer-2-1"},
        5: {"action": "accept", "offer_id": "offer-3-1"},
        6: {"action": "read", "ref": "ana_map"},
        7: {"action": "subscribe_artifact", "artifact_id": "notice"},
        9: {"action": "read", "ref": "ana_map"},
        10: {"action": "accept", "offer_id": "offer-7-1"},
    },
    "cyd": {
        2: {"action": "write", "artifact_id": "cyd_poem", "content": "roses", "kind": "document"},
        3: {"action": "read", "ref": "guarded"},
        4: {"action": "fly"},
        5: {"action": "invoke", "artifact_id": "genesis_event_log", "args": {"last": 20}},
        6: {"action": "bid", "artifact_id": "cyd_poem", "amount": 6},
        7: {"action": "transfer", "to": "nobody-owes", "amount": 10_000},
        8: {"action": "invoke", "artifact_id": "genesis_store", "args": {"kind": "document"}},
        9: {"action": "invoke", "artifact_id": "genesis_ledger", "args": {"principal": "ana"}},
        10: {"action": "search", "text": "river"},
        11: {"action": "edit", "artifact_id": "cyd_poem", "old": "roses", "new": "violets"},
    },
}  # fmt: skip


def policies(script: Mapping[str, Mapping[int, Any]] = SCRIPT) -> dict[str, Any]:
    def rule(facts: dict[str, Any]) -> Any:
        return script.get(facts["agent_id"], {}).get(facts["tick"])

    return {"rule": rule}


def answers(request: ModelRequest) -> str:
    """Dan gives what his personality says, and one more to whoever it names."""
    said = " ".join(message.text for message in request.messages)
    amount = 3 if "GENEROUS" in said else 1
    return json.dumps({"action": "transfer", "to": "cyd", "amount": amount})


class Patience:
    """Answers as `answers` does, and can be made to let one request wait for ever."""

    def __init__(self) -> None:
        self._asked = asyncio.Event()
        self._waits = False

    async def __call__(self, request: ModelRequest) -> str:
        if self._waits:
            self._asked.set()
            await asyncio.Event().wait()
        return answers(request)

    async def cut_off(self, world: World) -> None:
        """Begin a tick, and end it when a model has been asked."""
        self._waits = True
        tick = asyncio.create_task(world.tick())
        await self._asked.wait()
        tick.cancel()
        with suppress(asyncio.CancelledError):
            await tick
        self._waits = False


def model() -> ScriptedModel:
    return ScriptedModel(answers)


def kernel_at(path: Path, asked: ScriptedModel | None = None) -> Kernel:
    return Kernel.open(path, models={"oracle": asked or model()})


async def town(kernel: Any, id: str = "w", *, config: Mapping[str, Any] = CONFIG) -> World:
    """The world before its first tick. `kernel` has a model `oracle`."""
    world = await World.new(kernel, id, config, policies=policies())
    await settle(world)
    ana, bob, cyd, dan = (world.as_principal(name).artifacts for name in ("ana", "bob", "cyd", "dan"))
    await ana.write("ana_memory", kind="memory_store", content={"config": {"max_entries": 1}})
    await ana.write("ana_song", kind="document", content="la la", access="private")
    await ana.write(
        "ana_map", kind="document", content="north of the river", access="owner_writes",
        prices={"read": 2}, metadata={"title": "A map"},
    )  # fmt: skip
    await ana.write("ana_house", kind="document", content="four walls")
    await bob.write("bob_tool", kind="tool", content=TOOL, prices={"invoke": 2})
    await bob.write("bob_check", kind="contract", content={"code": CHECK})
    await bob.write("guarded", kind="document", content="a secret", access={"contract": "bob_check"})
    await bob.write("notice", kind="document", content="mind the gap")
    await bob.write("shared", kind="document", content="for cyd", access={"allow": {"read": ["cyd"]}})
    await bob.write("boat", kind="document", content="leaks")
    await bob.write(
        "report", kind="document", content="the gap is wide",
        provenance=Provenance(derived_from=("notice@1",)),
    )  # fmt: skip
    await bob.write("waste", kind="document", content="old")
    await bob.delete("waste")
    await dan.write("dan_is", kind="personality", content={"template": "You are PLAIN.", "variables": []})
    for agent, space in (("ana", ana), ("bob", bob), ("cyd", cyd)):
        await space.write(agent, kind="agent", content=dict(RULE))
    await dan.write(
        "dan", kind="agent",
        content={"model": "oracle", "personality_prompt_artifact_id": "dan_is",
                 "subscribed_artifacts": ["ana_map"]},
    )  # fmt: skip
    await world.join("ana", "bob", "cyd", "dan")
    return world


async def deals(world: World) -> None:
    """What a market leaves behind: a round, offers of each kind, a licence, a royalty, a bid, a hold."""

    def act(name: str) -> Act:
        return Act(action=name, source="host")

    def pay(source: str, target: str, amount: int) -> dict[str, Any]:
        return {"postings": (Posting(source, target, SCRIP, amount),)}

    ana, bob, cyd = (account_of(name) for name in ("ana", "bob", "cyd"))
    offered: dict[str, Any] = {"version": 1, "price": 4, "act": act("offer")}
    events: list[tuple[EventData, str]] = [
        (ev.AuctionClosed(round=1, winner="cyd", artifact="cyd_poem", score=40, minted=4,
                          **pay("mint:world", cyd, 4)), "world"),
        (ev.OfferMade(offer="o1", artifact="notice", seller="bob", sells="licence", **offered), "bob"),
        (ev.OfferAccepted(act=act("accept"), offer="o1", artifact="notice", buyer="cyd", seller="bob",
                          price=4, sells="licence", uses=3, **pay(cyd, bob, 4)), "cyd"),
        (ev.OfferMade(offer="o2", artifact="notice", seller="bob", sells="copy", royalty_percent=10,
                      **offered), "bob"),
        (ev.OfferAccepted(act=act("accept"), offer="o2", artifact="notice", buyer="ana", seller="bob",
                          price=4, sells="copy", got="ana_house", royalty_percent=10,
                          **pay(ana, bob, 4)), "ana"),
        (ArtifactTransferred(id="boat", giver="bob", to="genesis_escrow"), "bob"),
        (ev.OfferMade(offer="o3", artifact="boat", seller="bob", sells="ownership", to="cyd",
                      **offered), "bob"),
        (ev.OfferMade(offer="o4", artifact="shared", seller="bob", sells="copy", **offered), "bob"),
        (ev.OfferCancelled(offer="o4", act=act("cancel_offer")), "bob"),
        (ev.BidPlaced(act=act("bid"), artifact="cyd_poem", amount=6,
                      **pay(cyd, "hold:bid:cyd", 6)), "cyd"),
        (ArtifactHeld(id="bob_tool", hold="h1", caller="cyd", payer="cyd", amount=2, until_us=10**12,
                      **pay(cyd, "hold:invoke:cyd", 2)), "cyd"),
    ]  # fmt: skip
    tick = await world.tick_now()
    drafts = [Draft(data, tick, actor) for data, actor in events]
    append = StreamAppend(ev.world_stream(world.host.id, world.id), drafts)
    await world.host.services.store.append(Batch(appends=(append,)))


NEWEST = 2**53
"""A position behind every event."""

LEFT_OUT = {"artifacts": {"position"}, "artifact_versions": {"stream"}}
"""Columns that name places of the store."""


async def rows(kernel: Kernel, world: World) -> dict[str, list[tuple[Any, ...]]]:
    """Every row of every view that is about the world, without its name, its tenant and its places."""
    store, tenant, space = kernel.store, world.host.id, f"world:{world.id}"
    found: dict[str, list[tuple[Any, ...]]] = {}
    for table in (table for view in store.views for table in view.tables):
        info = await store.query(f"SELECT name FROM pragma_table_info('{table}')")
        columns = [name for (name,) in info]
        if "space" not in columns and table != "worlds":
            continue
        where, given = ("space = ?", space) if "space" in columns else ("id = ?", world.id)
        out = LEFT_OUT.get(table, set()) | {"tenant", "space"} | ({"id"} if table == "worlds" else set())
        shown = [name for name in columns if name not in out]
        order = "position" if "position" in columns else ", ".join(shown)
        got = await store.query(
            f"SELECT {', '.join(shown)} FROM {table} WHERE tenant = ? AND {where} ORDER BY {order}",
            (tenant, given),
        )
        found[table] = [tuple("HERE" if value == space else value for value in row) for row in got]
    return found


async def exported(folder: Path, *, ticks: int = 4, tenant: str = "acme") -> Path:
    """The file of a world `w` whose own store is gone."""
    with kernel_at(folder / "origin.db") as kernel:
        world = await town(kernel.for_tenant(tenant))
        await world.run(ticks=ticks)
        await world.export(folder / "w.artelier")
        await world.close()
    return folder / "w.artelier"
