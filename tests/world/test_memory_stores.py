"""Memory stores: entries are events, found by meaning, paid for, private, and the same after a restart."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from artelier import Kernel
from artelier.artifacts import Working
from artelier.errors import ArtelierError, InvalidArguments, InvalidArtifact, NotFound
from artelier.memory.embedders.registry import HashingEmbedder
from artelier.memory.entries import EmbeddingFailed
from artelier.world import World
from artelier.world.events import world_space
from artelier.world.stores import copy_entries, search
from artelier.world.stores import entries as store_kind
from artelier.world.tick.world_state import WorldStage
from tests.world.memories import (
    acting,
    add,
    content,
    find,
    folded,
    make_store,
    recall,
    remember,
    settled,
    texts,
    write_events,
)
from tests.world.places import balance, events

SHIPS = "Ships with red sails came to the harbour at noon"
BREAD = "Baking bread needs flour, water and patience"
TRADE = "Trading with beta is profitable when both coordinate"


class Faulty:
    """An embedder that does what it is told to do wrong."""

    name = "faulty"
    dims = 4

    def __init__(self, fault: Any) -> None:
        self.fault = fault

    async def embed(self, texts: Sequence[str], /) -> list[Any]:
        if isinstance(self.fault, BaseException):
            raise self.fault
        return [np.array(one, dtype=np.float32) for one in self.fault]


def test_memory_store_artifact_creation(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with settled(tmp_path, "ana") as w:
            own = w.as_principal("ana").artifacts
            made = await own.write("mem", kind="memory_store", content={"config": {"dims": 384}})
            assert made.access is not None and made.access.policy == "private" and made.version == 1
            assert await content(w, "ana") == {"config": {"dims": 384}, "entries": []}
            for wrong in (
                {"config": {"max_entries": 0}},
                {"config": {"max_entries": True}},
                {"config": {"auto_prune": "newest"}},
                {"config": {"dims": -1}},
                {"config": {"embedder": 5}},
                {"config": {"colour": "red"}},
                {"config": []},
                {"description": 1},
                {"memories": []},
                {"entries": [{"text": "rain"}]},
                [],
            ):
                with pytest.raises(InvalidArtifact, match="memory store"):
                    await own.write("other", kind="memory_store", content=wrong)
            with pytest.raises(InvalidArtifact):
                await own.write("other", kind="memory_store", content="text")
            await own.write("mem", content={"config": {"dims": 384}, "entries": []})
            assert await content(w, "ana") == {"config": {"dims": 384}, "entries": []}
            assert await folded(w) == {}

    asyncio.run(scenario())


def test_memory_entry_add_with_embedding(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with settled(tmp_path, "ana") as w:
            await make_store(w, "ana")
            before = len(await events(w))
            added = await remember(w, "ana", SHIPS, tags=["sea", "trade"], importance=0.8)

            assert re.fullmatch(r"mem_[0-9a-f]{8}", added["entry_id"])
            assert added["deduplicated"] is False and added["pruned"] == []
            [entry] = (await content(w, "ana"))["entries"]
            vector = HashingEmbedder().vector(SHIPS)
            assert entry["embedding"] == [round(float(number), 6) for number in vector]
            assert entry["id"] == added["entry_id"] and entry["tick"] == 0
            assert (entry["text"], entry["tags"], entry["importance"]) == (SHIPS, ["sea", "trade"], 0.8)
            kinds = [kind for kind, _, _ in (await events(w))[before:]]
            assert kinds == ["artifact.held", "entry.added", "artifact.invoked"]
            [(_, actor, data)] = await events(w, "entry.added")
            assert actor == "ana" and SHIPS not in str(data) and "sea" not in str(data)
            artifact = await w.as_principal("ana").artifacts.read("mem")
            assert artifact.version == 1
            assert await balance(w, "ana") == 99 and await balance(w, "genesis_memory_add") == 1
            ref = f"mem#{added['entry_id']}"
            assert (await w.as_principal("ana").artifacts.read(ref)).content == entry
            with pytest.raises(NotFound, match="no part mem_00000000"):
                await w.as_principal("ana").artifacts.read("mem#mem_00000000")

    asyncio.run(scenario())


def test_memory_search_semantic(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with settled(tmp_path, "ana") as w:
            await make_store(w, "ana")
            for text in (SHIPS, BREAD, TRADE):
                await remember(w, "ana", text, tags=["x"], importance=0.25)

            found = await recall(w, "ana", "which sailing ship came into harbours?")
            assert found[0]["text"] == SHIPS and found[0]["score"] > 0
            assert set(found[0]) == {"entry_id", "text", "tick", "tags", "importance", "score"}
            assert found[0]["tags"] == ["x"] and found[0]["importance"] == 0.25
            scores = [one["score"] for one in found]
            assert scores == sorted(scores, reverse=True) and len(set(scores)) == len(scores)
            assert (await recall(w, "ana", "profitable trade"))[0]["text"] == TRADE
            assert len(await recall(w, "ana", "bread trading ships", limit=2)) == 2
            assert await balance(w, "genesis_memory_search") == 3
            assert await balance(w, "ana") == 94

    asyncio.run(scenario())


def test_memory_pruning(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with settled(tmp_path, "ana") as w:
            await make_store(w, "ana", max_entries=2)
            await make_store(w, "ana", "best", max_entries=3, auto_prune="lowest_score")
            ids = [(await remember(w, "ana", text))["entry_id"] for text in (SHIPS, BREAD)]
            third = await remember(w, "ana", TRADE)
            assert third["pruned"] == [ids[0]] and await texts(w, "ana") == [BREAD, TRADE]

            for n, importance in enumerate((0.5, 0.2, 0.2, 0.9, 0.1, 0.5)):
                await remember(w, "ana", f"lesson {n}", store="best", importance=importance)
            assert await texts(w, "ana", "best") == ["lesson 0", "lesson 3", "lesson 5"]
            removed = [data for _, _, data in await events(w, "entry.removed")]
            assert {data["why"] for data in removed} == {"pruned"} and len(removed) == 4
            kept = await content(w, "ana", "best")
            assert kept["config"] == {"max_entries": 3, "auto_prune": "lowest_score"}
            assert (await w.as_principal("ana").artifacts.read("best")).version == 1
            assert [one["text"] for one in await recall(w, "ana", "lesson 2", store="best")] == [
                "lesson 0",
                "lesson 3",
                "lesson 5",
            ]

    asyncio.run(scenario())


def test_a_lowered_limit_makes_room_at_the_next_entry(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with settled(tmp_path, "ana") as w:
            await make_store(w, "ana")
            for n in range(5):
                await remember(w, "ana", f"fact {n}")
            await make_store(w, "ana", max_entries=2)
            assert len((await remember(w, "ana", "fact 5"))["pruned"]) == 4
            assert await texts(w, "ana") == ["fact 4", "fact 5"]

    asyncio.run(scenario())


def test_what_says_the_same_is_reported_and_not_stored(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with settled(tmp_path, "ana") as w:
            await make_store(w, "ana")
            first = await remember(w, "ana", TRADE, tags=["beta"])
            again = await remember(w, "ana", f"{TRADE.upper()}!", tags=["beta"])
            assert again == {**first, "deduplicated": True}
            beside = await remember(w, "ana", TRADE, tags=["gamma"])
            assert beside["deduplicated"] is False and len(await texts(w, "ana")) == 2
            other = await remember(w, "ana", TRADE.replace("is", "is not"))
            assert other["deduplicated"] is False

    asyncio.run(scenario())


def test_adding_costs_the_same_however_many_there_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counted: statements, rows that they give, contents read, events. The store is at its limit at last."""

    async def scenario() -> None:
        async with settled(tmp_path, "ana") as w:
            store, counted = w.host.services.store, {"queries": 0, "rows": 0, "blobs": 0}
            query, blob = store.query, store.blob

            async def counting(sql: str, parameters: Sequence[Any] = ()) -> list[Any]:
                rows = await query(sql, parameters)
                counted["queries"] += 1
                counted["rows"] += len(rows)
                return rows

            async def fetching(tenant: str, name: bytes) -> bytes:
                counted["blobs"] += 1
                return await blob(tenant, name)

            monkeypatch.setattr(store, "query", counting)
            monkeypatch.setattr(store, "blob", fetching)

            async def cost_of(text: str, id: str) -> tuple[int, ...]:
                counted.update(queries=0, rows=0, blobs=0)
                before = len(await events(w))
                await remember(w, "ana", text, store=id)
                return (*counted.values(), len(await events(w)) - before)

            await make_store(w, "ana", max_entries=60, auto_prune="lowest_score")
            few = [await cost_of(f"number {n} of the facts", "mem") for n in range(3)]
            for n in range(3, 58):
                await remember(w, "ana", f"number {n} of the facts")
            many = [await cost_of(f"number {n} of the facts", "mem") for n in (58, 59)]
            full = [await cost_of(f"number {n} of the facts", "mem") for n in (60, 61)]
            assert len({*few, *many}) == 1
            # One more query and row: which one goes; one more event: that it went.
            assert {tuple(np.subtract(one, few[0])) for one in full} == {(1, 1, 0, 1)}

    asyncio.run(scenario())


def test_of_twenty_entries_added_at_once_none_is_lost(tmp_path: Path) -> None:
    """Hole 16, outside of ticks and within one."""
    names = [f"a{n}" for n in range(20)]
    policies = acting(**{name: [add(f"{name} saw a comet")] for name in names})

    async def scenario() -> None:
        async with settled(tmp_path, *names, policies=policies) as w:
            await make_store(w, "a0", access="public")
            added = await asyncio.gather(*(remember(w, name, f"{name} saw a whale") for name in names))
            assert len({one["entry_id"] for one in added}) == 20
            assert sorted(await texts(w, "a0")) == sorted(f"{name} saw a whale" for name in names)

            passed = await w.tick()
            assert passed.rejected == 0 and len(set(await texts(w, "a0"))) == 40
            assert [await balance(w, name) for name in names] == [98] * 20
            assert await balance(w, "genesis_memory_add") == 40
            assert (await folded(w))["mem"] == [entry["id"] for entry in (await content(w, "a0"))["entries"]]

    asyncio.run(scenario())


@pytest.mark.parametrize(
    "fault",
    [
        [[0, 0, 0, 0]],
        [[float("nan"), 1, 0, 0]],
        [[1, 0, 0]],
        [],
        [[[1, 0], [0, 1]]],
        RuntimeError("secret-key"),
        EmbeddingFailed("no"),
        ["text"],
    ],
    ids=["zero", "nan", "length", "none", "shape", "raises", "refuses", "type"],
)
def test_a_failing_embedder_adds_nothing_and_costs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: Any
) -> None:
    """Hole 19: an entry without a direction would score nothing for ever, and nobody would know."""
    embedder = Faulty([[1, 2, 3, 4]])
    monkeypatch.setitem(store_kind._registered, "faulty", embedder)
    policies = acting(ana=[add(BREAD), find("ships")])

    async def scenario() -> None:
        async with settled(tmp_path, "ana", policies=policies) as w:
            await make_store(w, "ana", embedder="faulty")
            await remember(w, "ana", SHIPS)
            embedder.fault = fault
            for failing in (remember(w, "ana", BREAD), recall(w, "ana", "ships")):
                with pytest.raises(ArtelierError) as refused:
                    await failing
                assert refused.value.code == "embedding_failed" or fault == ["text"]
                assert "secret-key" not in str(refused.value)
            passed = await w.run(ticks=2)

            assert [one.rejected for one in passed] == [1, 1]
            assert await texts(w, "ana") == [SHIPS] and await balance(w, "ana") == 99
            assert len(await events(w, "entry.added")) == 1

    asyncio.run(scenario())


def test_an_embedder_that_the_host_does_not_offer_is_named(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with settled(tmp_path, "ana") as w:
            await make_store(w, "ana", embedder="openai:text-embedding-3-small")
            await make_store(w, "ana", "long", dims=768)
            with pytest.raises(InvalidArguments, match="offers no such embedder"):
                await remember(w, "ana", SHIPS)
            with pytest.raises(InvalidArguments, match="another length"):
                await remember(w, "ana", SHIPS, store="long")
            assert await folded(w) == {} and await balance(w, "ana") == 100

    asyncio.run(scenario())


def test_vectors_of_two_embedders_are_never_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(store_kind._registered, "faulty", Faulty([[1, 2, 3, 4]]))

    async def scenario() -> None:
        async with settled(tmp_path, "ana") as w:
            await make_store(w, "ana", embedder="faulty")
            await remember(w, "ana", SHIPS)
            await make_store(w, "ana")
            await remember(w, "ana", BREAD)
            assert [len(e["embedding"]) for e in (await content(w, "ana"))["entries"]] == [4, 384]
            assert (await recall(w, "ana", "red sails"))[0]["text"] == SHIPS
            assert (await recall(w, "ana", "flour and water"))[0]["text"] == BREAD

    asyncio.run(scenario())


def test_entries_are_not_written_with_the_store(tmp_path: Path) -> None:
    forged = {"entries": [{"id": "mem_00000000", "text": "forged", "embedding": [1.0]}]}
    code = "def run():\n    write('mem2', {'entries': [1]}, kind='memory_store')"
    write = {"action": "write", "artifact_id": "mem", "content": forged}
    policies = acting(ana=[write, {"action": "invoke", "artifact_id": "forger", "args": {}}])

    async def scenario() -> None:
        async with settled(tmp_path, "ana", policies=policies) as w:
            own = w.as_principal("ana").artifacts
            await make_store(w, "ana")
            await remember(w, "ana", SHIPS)
            await own.write("forger", kind="tool", content={"code": code})
            with pytest.raises(InvalidArtifact, match="cannot be written with it"):
                await own.write("mem", content=forged)
            passed = await w.run(ticks=2)
            assert [one.rejected for one in passed] == [1, 1]
            assert await texts(w, "ana") == [SHIPS]

            edited = await own.edit("mem", '"config":{}', '"config":{"max_entries":9}')
            assert edited.version == 2
            after = await content(w, "ana")
            assert after["config"] == {"max_entries": 9} and len(after["entries"]) == 1

    asyncio.run(scenario())


def test_what_is_pending_in_a_tick_is_found_in_it(tmp_path: Path) -> None:
    """Three actions in stages: one adds, one adds the same, one searches; and the store is full at last."""
    heard: list[Any] = []

    def act(facts: dict[str, Any]) -> Any:
        heard.append((facts["agent_id"], facts["last_action"]["result"]))
        return {"ana": add(SHIPS), "bob": add(SHIPS), "eve": find("ships", limit=1)}[facts["agent_id"]]

    async def scenario() -> None:
        config = {"activation": "staged", "stages": [["ana"], ["bob"], ["eve"]]}
        async with settled(tmp_path, "ana", "bob", "eve", policies={"rule": act}, config=config) as w:
            await make_store(w, "ana", access="public", max_entries=1)
            await remember(w, "ana", BREAD)
            await w.run(ticks=2)
            results = {name: result for name, result in heard if result}
            assert results["bob"]["deduplicated"] is True
            assert results["ana"]["entry_id"] == results["bob"]["entry_id"]
            [found] = results["eve"]["results"]
            assert (found["text"], found["tick"]) == (SHIPS, 1)
            assert await texts(w, "ana") == [SHIPS]
            assert len(await events(w, "entry.added")) == 2

    asyncio.run(scenario())


def test_reading_gives_the_entries_to_actions_and_code(tmp_path: Path) -> None:
    """What is pending included, and one entry without the others."""
    code = (
        "def run(more):\n"
        "    id = invoke('genesis_memory_add', memory_artifact_id='mem', text=more)['entry_id']\n"
        "    whole = read('mem')\n"
        "    one = read('mem#' + id)\n"
        "    return [[e['text'] for e in whole['entries']], one['text'], len(one['embedding'])]\n"
    )
    heard: list[Any] = []

    def act(facts: dict[str, Any]) -> Any:
        heard.append(facts["last_action"]["result"])
        return [
            {"action": "read", "ref": "mem"},
            {"action": "read", "ref": f"mem#{heard[0]}"},
            {"action": "invoke", "artifact_id": "diary", "args": {"more": BREAD}},
            {"action": "read", "ref": "mem#mem_00000000"},
            None,
        ][facts["tick"] - 1]

    async def scenario() -> None:
        async with settled(tmp_path, "ana", policies={"rule": act}) as w:
            own = w.as_principal("ana")
            await make_store(w, "ana", access="public")
            heard.append((await remember(w, "ana", SHIPS))["entry_id"])
            await own.artifacts.write("diary", kind="tool", content={"code": code})
            await own.ledger.transfer(to="artifact:diary", amount=1)
            await w.run(ticks=5)
            _, _, whole, one, ran, missing = heard
            assert [entry["text"] for entry in whole["entries"]] == [SHIPS]
            assert one == whole["entries"][0] and ran == [[SHIPS, BREAD], BREAD, 384]
            assert "no part mem_00000000" in missing

    asyncio.run(scenario())


def test_what_a_failed_program_remembered_never_was(tmp_path: Path) -> None:
    code = (
        "def run(fail):\n"
        "    kept = invoke('genesis_memory_add', memory_artifact_id='mem', text='a comet')\n"
        "    found = invoke('genesis_memory_search', memory_artifact_id='mem', query='comet')\n"
        "    if fail:\n        raise ValueError('no')\n"
        "    return [kept['entry_id'], len(found['results'])]\n"
    )

    async def scenario() -> None:
        async with settled(tmp_path, "ana") as w:
            own = w.as_principal("ana")
            await make_store(w, "ana", access="public")
            await own.artifacts.write("diary", kind="tool", content={"code": code})
            await own.ledger.transfer(to="artifact:diary", amount=10)
            with pytest.raises(ArtelierError, match="no"):
                await own.artifacts.invoke("diary", fail=True)
            assert await texts(w, "ana") == [] and await balance(w, "artifact:diary") == 10
            assert await recall(w, "ana", "comet") == []
            done = await own.artifacts.invoke("diary", fail=False)
            assert done.result[1] == 1 and await balance(w, "artifact:diary") == 8
            assert (await folded(w))["mem"] == [done.result[0]]

    asyncio.run(scenario())


def test_a_copy_has_the_entries_of_that_moment(tmp_path: Path) -> None:
    """The same ids, ticks and vectors, and nothing is embedded or paid."""

    async def scenario() -> None:
        async with settled(tmp_path, "ana", "bob", policies=acting(ana=[None, add(BREAD)])) as w:
            await make_store(w, "ana")
            await remember(w, "ana", SHIPS, tags=["sea"], importance=0.7)
            await w.run(ticks=2)
            await make_store(w, "bob", "copy")
            await _copied(w, "mem", "copy")
            await remember(w, "ana", TRADE)

            source, copy = await content(w, "ana"), await content(w, "bob", "copy")
            assert copy["entries"] == source["entries"][:2]
            assert [entry["tick"] for entry in copy["entries"]] == [0, 2]
            added = [data for _, _, data in await events(w, "entry.added")]
            assert [one["vector"] for one in added[2:4]] == [one["vector"] for one in added[:2]]
            assert (await recall(w, "bob", "ships", store="copy"))[0]["text"] == SHIPS
            with pytest.raises(ArtelierError, match="has entries already"):
                await _copied(w, "mem", "copy")

    asyncio.run(scenario())


async def _copied(world: World, source: str, target: str) -> None:
    """Copy as the market does: over a working state, whose changes go into the world's stream."""
    store, tenant = world.host.services.store, world.host.id
    tick = await world.tick_now()
    stage = WorldStage(store, tenant=tenant, space=world_space(world.id), at_us=tick)
    working = Working(stage)
    await copy_entries(working, source, target)
    await write_events(world, [(change.data, change.actor) for change in working.changes])


def test_the_same_seed_gives_the_same_ids(tmp_path: Path) -> None:
    async def ids(folder: str, seed: int) -> list[str]:
        policies = acting(ana=[add(SHIPS), add(BREAD)], bob=[add(TRADE), add("x")])
        async with settled(tmp_path / folder, "ana", "bob", policies=policies, config={"seed": seed}) as w:
            await make_store(w, "ana", access="public")
            await w.run(ticks=2)
            return (await folded(w))["mem"]

    one, same, other = (asyncio.run(ids(folder, seed)) for folder, seed in (("a", 3), ("b", 3), ("c", 4)))
    assert one == same and len({*one, *other}) == 8


def test_a_restart_keeps_everything(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with settled(tmp_path, "ana") as w:
            await make_store(w, "ana", max_entries=2)
            for text in (SHIPS, BREAD, TRADE):
                await remember(w, "ana", text)
            before = await content(w, "ana")
            found = await recall(w, "ana", "trading and baking")
        kernel = Kernel.open(tmp_path / "state.db")
        w = World.open(kernel, "w")
        assert await content(w, "ana") == before
        assert await recall(w, "ana", "trading and baking") == found
        assert (await remember(w, "ana", TRADE))["deduplicated"] is True
        await kernel.aclose()

    asyncio.run(scenario())


def test_indexes_in_memory_are_bounded_and_follow_what_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A search after each change answers as one by an index that was just made."""
    monkeypatch.setattr(search, "ENTRIES_HELD_MAX", 2 * search.ENTRIES_LEAST)
    monkeypatch.setattr(search, "PAGE", 3)

    async def scenario() -> None:
        async with settled(tmp_path, "ana") as w:
            for id in ("m0", "m1", "m2"):
                await make_store(w, "ana", id, max_entries=7)
            for n in range(12):
                store = f"m{n % 2}"
                await remember(w, "ana", f"fact {n} about {('ships', 'bread', 'trade')[n % 3]}", store=store)
                followed = await recall(w, "ana", "ships and bread", store=store)
                held = search.shelves_of(w.host.services.store)
                held.clear()
                assert await recall(w, "ana", "ships and bread", store=store) == followed
                if n % 4 == 3:
                    assert await recall(w, "ana", "ships", store="m2") == []
                assert len(held) <= 2

    asyncio.run(scenario())
