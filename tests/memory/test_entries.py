"""Long-term memory: what one entry costs, that it never becomes more, and what recall sees."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from artelier import Kernel
from artelier.errors import AccessDenied, InvalidRequest, NotFound
from artelier.log import Store
from artelier.memory import LogMemory, LogMemoryStore
from artelier.memory.entries import entry_id
from tests.kernel.stage import play


def memories_of(kernel: Kernel, **options: Any) -> LogMemoryStore:
    return LogMemoryStore(kernel.store, kernel.services.clock, **options)


class Work:
    """Instructions that SQLite's machine runs for a store, in thousands: the same on any computer."""

    def __init__(self, kernel: Kernel) -> None:
        self.thousands = 0
        store: Any = kernel.store
        for db in (store._write_db, store._read_db):
            db.set_progress_handler(self._count, 1000)

    def _count(self) -> None:
        self.thousands += 1


def test_adding_one_costs_the_same_however_many_there_are() -> None:
    async def scenario() -> None:
        with Kernel.open(":memory:") as kernel:
            memory = memories_of(kernel, max_entries=100_000).for_agent("acme", "ana")
            await memory.remember("a first entry", key="warm")
            work = Work(kernel)

            async def taken_by(batch: int) -> int:
                before = work.thousands
                await asyncio.gather(
                    *(memory.remember(f"fact {batch} is thing {n}", key=f"{batch}/{n}") for n in range(400))
                )
                return work.thousands - before

            taken = [await taken_by(batch) for batch in range(8)]

            assert taken[0] > 0
            assert max(taken[-3:]) < 2 * max(taken[:3])

    play(scenario(), within_s=60)


def test_an_entry_is_one_event_and_two_blobs() -> None:
    async def scenario() -> None:
        with Kernel.open(":memory:") as kernel:
            memory = kernel.memory.for_agent("acme", "ana")
            await memory.remember("a first entry", key="warm")

            async def counts() -> tuple[int, int]:
                rows = await kernel.store.query(
                    "SELECT (SELECT count(*) FROM events), (SELECT count(*) FROM blobs)"
                )
                return rows[0][0], rows[0][1]

            events, blobs = await counts()
            await memory.remember("a second entry", tags=["t"], key="1")

            assert await counts() == (events + 1, blobs + 2)

    play(scenario())


def test_no_text_stands_inline_in_an_event() -> None:
    async def scenario() -> None:
        with Kernel.open(":memory:") as kernel:
            memory = kernel.memory.for_agent("acme", "ana")
            await memory.remember(
                "canary-text", tags=["canary-tag"], speaker="canary-speaker", date="canary-date", key="1"
            )
            await memory.append("canary-block", key="2")

            rows = await kernel.store.query("SELECT data FROM events")

            assert rows
            assert not [data for (data,) in rows if "canary" in data]

    play(scenario())


def test_config_versions_count_changes_of_the_config_only() -> None:
    async def scenario() -> None:
        with Kernel.open(":memory:") as kernel:
            memory = kernel.memory.for_agent("acme", "ana")
            for n in range(5):
                await memory.remember(f"plum {n}", key=str(n))
            own = kernel.for_tenant("acme").as_principal("agent:ana").artifacts

            artifact = await own.read("memory/ana:entries")
            assert (artifact.kind, artifact.version) == ("memory_store", 1)
            assert artifact.content["config"]["max_entries"] == 1_000
            await own.write("memory/ana:entries", content={"config": {"max_entries": 3}})
            last = await memory.remember("plum 5", key="5")

            assert len(last.pruned) == 3
            assert len(await memory.recall("plum", limit=10)) == 3
            assert kernel.verify().ok

    play(scenario())


def test_a_memory_that_was_written_by_hand_is_taken_as_it_is() -> None:
    async def scenario() -> None:
        with Kernel.open(":memory:") as kernel:
            own = kernel.for_tenant("acme").as_principal("agent:ana").artifacts
            content = {"config": {"max_entries": 2, "auto_prune": "lowest_score"}}
            await own.write("memory/ana:entries", kind="memory_store", content=content)
            memory = kernel.memory.for_agent("acme", "ana")

            for n in range(3):
                await memory.remember(f"plum {n}", importance=1 - n / 10, key=str(n))

            assert [e.text for e in await memory.entries.entries()] == ["plum 0", "plum 2"]

    play(scenario())


def test_a_memory_taken_by_somebody_else_is_closed_to_its_agent() -> None:
    async def scenario() -> None:
        with Kernel.open(":memory:") as kernel:
            memory = kernel.memory.for_agent("acme", "ana")
            await memory.remember("a fact", key="1")
            own = kernel.for_tenant("acme").as_principal("agent:ana").artifacts
            await own.transfer("memory/ana:entries", "agent:bob")

            with pytest.raises(AccessDenied):
                await memory.recall("fact")
            with pytest.raises(AccessDenied):
                await memory.remember("more", key="2")
            with pytest.raises(AccessDenied):
                await memory.changes()

    play(scenario())


def test_a_deleted_memory_is_said_to_be_gone() -> None:
    async def scenario() -> None:
        with Kernel.open(":memory:") as kernel:
            memory = kernel.memory.for_agent("acme", "ana")
            await memory.remember("a fact", key="1")
            own = kernel.for_tenant("acme").as_principal("agent:ana").artifacts
            await own.delete("memory/ana:entries")

            for attempt in (memory.recall("fact"), memory.remember("more", key="2")):
                with pytest.raises(NotFound):
                    await attempt

    play(scenario())


def test_ids_depend_on_the_key_alone_and_collisions_are_resolved() -> None:
    async def scenario() -> None:
        with Kernel.open(":memory:") as kernel:
            memory = kernel.memory.for_agent("acme", "ana")
            other = kernel.memory.for_agent("acme", "bob")
            entry = await memory.remember("a fact", key="run/step")

            assert entry.id == entry_id("memory/ana:entries", "run/step", 0)
            assert (await other.remember("a fact", key="run/step")).id != entry.id

    play(scenario())


def test_a_taken_id_gives_the_next_one() -> None:
    """The first two ids of the key are taken away from it before it is used."""

    async def scenario() -> None:
        with Kernel.open(":memory:") as kernel:
            memory = kernel.memory.for_agent("acme", "ana")
            keys = colliding_keys("memory/ana:entries")
            first = await memory.remember("one thing", key=keys[0])

            second = await memory.remember("another thing", key=keys[1])

            assert first.id == entry_id("memory/ana:entries", keys[1], 0)
            assert second.id == entry_id("memory/ana:entries", keys[1], 1)

    play(scenario())


def colliding_keys(store: str) -> tuple[str, str]:
    """Two keys with one id; ids are 32 bits, so about 80,000 tries find some."""
    seen: dict[str, str] = {}
    for n in range(2_000_000):
        key = f"k{n}"
        other = seen.setdefault(entry_id(store, key, 0), key)
        if other != key:
            return other, key
    raise AssertionError("no collision")


def test_two_of_the_same_added_at_once_are_one() -> None:
    async def scenario() -> None:
        with Kernel.open(":memory:") as kernel:
            memory = kernel.memory.for_agent("acme", "ana")

            entries = await asyncio.gather(
                *(memory.remember(f"The same fact{'!' * n}", key=str(n)) for n in range(10))
            )

            assert len({entry.id for entry in entries}) == 1
            assert sum(entry.deduplicated for entry in entries) == 9
            assert len(await memory.entries.entries()) == 1

    play(scenario())


def test_pruning_at_once_keeps_to_the_limit_in_the_end() -> None:
    async def scenario() -> None:
        with Kernel.open(":memory:") as kernel:
            memory = memories_of(kernel, max_entries=10).for_agent("acme", "ana")

            await asyncio.gather(*(memory.remember(f"plum {n}", key=str(n)) for n in range(50)))
            await memory.remember("the last plum", key="last")

            left = await memory.entries.entries()
            assert len(left) == 10 and left[-1].text == "the last plum"
            assert kernel.verify().ok

    play(scenario())


def test_a_forgotten_text_may_be_remembered_again() -> None:
    async def scenario() -> None:
        with Kernel.open(":memory:") as kernel:
            memory = kernel.memory.for_agent("acme", "ana")
            first = await memory.remember("a fact", key="1")
            await memory.forget(first.id, key="2")
            again = await memory.remember("a fact", key="3")

            assert not again.deduplicated and again.id != first.id
            assert [hit.id for hit in await memory.recall("fact")] == [again.id]

    play(scenario())


def test_the_same_with_more_tags_or_trust_is_kept_beside() -> None:
    async def scenario() -> None:
        with Kernel.open(":memory:") as kernel:
            memory = kernel.memory.for_agent("acme", "ana")
            await memory.remember("a fact", trust="untrusted", key="1")
            tagged = await memory.remember("a fact", trust="untrusted", tags=["x"], key="2")
            trusted = await memory.remember("a fact", tags=["x"], key="3")
            plain = await memory.remember("a fact", key="4")
            said = await memory.remember("a fact", speaker="Al", key="5")

            assert not tagged.deduplicated and not trusted.deduplicated and not said.deduplicated
            assert plain.deduplicated and plain.id == trusted.id

    play(scenario())


class Half:
    """An embedder for two texts that forgets the second."""

    name = "half"
    dims = 2

    async def embed(self, texts: Sequence[str], /) -> list[Any]:
        return [[1.0, 0.0]][: len(texts) - 1]


def test_an_embedder_that_answers_too_little_stores_nothing() -> None:
    async def scenario() -> None:
        with Kernel.open(":memory:") as kernel:
            memory = memories_of(kernel, embedder=Half()).for_agent("acme", "ana")

            with pytest.raises(Exception, match="number of vectors"):
                await memory.remember("a fact", key="1")

            assert (await kernel.store.query("SELECT count(*) FROM memory_entries"))[0][0] == 0

    play(scenario())


def test_options_that_make_no_store_are_refused() -> None:
    with Kernel.open(":memory:") as kernel:
        for options in ({"max_entries": 0}, {"auto_prune": "newest"}):
            with pytest.raises(InvalidRequest):
                memories_of(kernel, **options)
        with pytest.raises(InvalidRequest):
            memories_of(kernel, embedder="nobody").for_agent("acme", "ana")


def test_ten_tenants_see_none_of_each_other() -> None:
    """Canaries: every text names its owner, and every way of reading is tried."""

    async def scenario() -> None:
        with Kernel.open(":memory:") as kernel:
            owners: list[LogMemory] = [
                kernel.memory.for_agent(f"tenant-{n}", agent)
                for n in range(10)
                for agent in ("ana", "ana/child")
            ]
            for memory in owners:
                name = f"{memory.tenant} {memory.agent}"
                await memory.append(f"canary core of {name}", key="1")
                for n in range(3):
                    await memory.remember(f"canary entry {n} of {name}", key=f"2/{n}")

            for memory in owners:
                texts = [block.text for block in await memory.blocks() if block.text]
                texts += [hit.text for hit in await memory.recall("canary entry", limit=100)]
                texts += [hit.text for hit in await memory.search("canary", 100)]
                texts += [entry.text for entry in await memory.entries.entries()]
                summaries = [change.summary for change in await memory.changes()]
                assert len(texts) == 1 + 3 + 4 + 3 and len(summaries) == 4
                name = f"of {memory.tenant} {memory.agent}"
                assert all(text.endswith(name) for text in texts)
                assert not [s for s in summaries if "tenant-" in s and memory.tenant not in s]
            store: Store = kernel.store
            assert (await store.query("SELECT count(*) FROM memory_stores"))[0][0] == 20

    play(scenario())
