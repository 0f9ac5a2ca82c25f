"""A file of memories is a complete database: opened late, shared, verified, and refused when foreign."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from artelier import Kernel
from artelier.app import VIEWS
from artelier.errors import CorruptStore, StoreClosed
from artelier.log import SqliteStore, verify_store
from artelier.memory import SQLiteMemoryStore
from artelier.memory.sqlite import VIEWS as FILE_VIEWS
from tests.kernel.stage import play


def test_nothing_is_opened_before_the_first_use(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "agent_memory.db"

    memories = SQLiteMemoryStore(db_path=path)
    untouched = not path.exists()
    memories.for_agent("acme", "ana")
    memories.close()
    memories.close()

    assert untouched and path.exists()
    with pytest.raises(StoreClosed):
        memories.for_agent("acme", "ana")


def test_its_views_are_among_those_of_a_kernel_in_the_same_order() -> None:
    """A kernel that opens such a file adds its own, and needs not make these anew."""
    own = {view.name for view in FILE_VIEWS}

    assert [(view.name, view.version) for view in FILE_VIEWS] == [
        (view.name, view.version) for view in VIEWS if view.name in own
    ]


def test_a_kernel_opens_and_verifies_the_file(tmp_path: Path) -> None:
    async def scenario() -> None:
        path = tmp_path / "agent_memory.db"
        with SQLiteMemoryStore(path) as memories:
            memory = memories.for_agent("acme", "ana")
            await memory.append("a line", key="1")
            entry = await memory.remember("a fact", key="2")
            await memory.forget(entry.id, key="3")
            await memory.undo((await memory.changes(1))[0].id, key="4")
        assert verify_store(path, VIEWS).ok
        with Kernel.open(path) as kernel:
            found = await kernel.memory.for_agent("acme", "ana").recall("fact")
            assert [hit.id for hit in found] == [entry.id]
            assert kernel.verify().ok

    play(scenario())


def test_the_view_is_rebuilt_without_an_embedder(tmp_path: Path) -> None:
    """The tables are dropped; opening the file folds them from the log alone."""

    class Counting:
        name = "counting"
        dims = 2
        calls = 0

        async def embed(self, texts: object, /) -> list[Any]:
            self.calls += 1
            return [[1.0, 2.0]]

    async def scenario() -> None:
        path = tmp_path / "agent_memory.db"
        with SQLiteMemoryStore(path, embedder=Counting()) as memories:
            memory = memories.for_agent("acme", "ana")
            kept = [await memory.remember(f"fact {n}", key=str(n)) for n in range(5)]
            await memory.forget(kept[2].id, key="gone")
        rows = dump(path)
        with sqlite3.connect(path) as db:
            for (table,) in db.execute(
                "SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE 'memory_%'"
            ).fetchall():
                db.execute(f"DROP TABLE {table}")
            db.execute("DELETE FROM view_versions WHERE name = 'memory'")
        db.close()
        counting = Counting()
        with SQLiteMemoryStore(path, embedder=counting) as memories:
            memory = memories.for_agent("acme", "ana")
            entries = await memory.entries.entries(with_embedding=True)

        assert dump(path) == rows
        assert counting.calls == 0
        assert [entry.id for entry in entries] == [e.id for n, e in enumerate(kept) if n != 2]
        assert entries[0].embedding == (1.0, 2.0)

    play(scenario())


def dump(path: Path) -> dict[str, list[tuple[object, ...]]]:
    """Every row of the memory's tables."""
    db = sqlite3.connect(path)
    try:
        names = db.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE 'memory_%'"
        ).fetchall()
        return {name: sorted(db.execute(f"SELECT * FROM {name}").fetchall(), key=repr) for (name,) in names}
    finally:
        db.close()


def test_a_foreign_file_is_refused_and_not_touched(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE memories(text)")
    db.close()
    before = path.read_bytes()

    with pytest.raises(CorruptStore):
        SQLiteMemoryStore(path).for_agent("acme", "ana")

    assert path.read_bytes() == before


def test_entries_of_another_process_are_seen(tmp_path: Path) -> None:
    """Two handles on one file stand for two processes: nothing is shared but the file."""

    async def scenario() -> None:
        path = tmp_path / "agent_memory.db"
        with SQLiteMemoryStore(path) as here, SQLiteMemoryStore(path) as there:
            ours, theirs = (store.for_agent("acme", "ana") for store in (here, there))
            first = await ours.remember("apple one", key="1")
            assert [hit.id for hit in await theirs.recall("apple")] == [first.id]

            second = await ours.remember("apple two", key="2")
            assert len(await theirs.recall("apple")) == 2
            await ours.forget(first.id, key="3")
            assert [hit.id for hit in await theirs.recall("apple")] == [second.id]
            await ours.undo((await ours.changes(1))[0].id, key="4")
            assert (await theirs.recall("apple one"))[0].id == first.id
            again = await theirs.remember("Apple TWO!", key="5")
            assert again.deduplicated and again.id == second.id
            assert (await theirs.append("x", key="6")).version == 1
            assert (await ours.append("y", key="6b")).version == 2

    play(scenario())


def test_a_memory_is_used_from_many_event_loops(tmp_path: Path) -> None:
    with SQLiteMemoryStore(tmp_path / "m.db") as memories:
        for n in range(3):
            memory = memories.for_agent("acme", "ana")
            asyncio.run(memory.remember(f"fact {n}", key=str(n)))

        assert len(asyncio.run(memories.for_agent("acme", "ana").recall("fact"))) == 3


@pytest.mark.corrupts
def test_damage_of_a_view_is_found(tmp_path: Path) -> None:
    async def scenario() -> None:
        with SQLiteMemoryStore(tmp_path / "m.db") as memories:
            await memories.for_agent("acme", "ana").remember("a fact", key="1")

    play(scenario())
    store = SqliteStore(tmp_path / "m.db", VIEWS)
    store.close()
    with sqlite3.connect(tmp_path / "m.db") as db:
        db.execute("UPDATE memory_entries SET importance = 999")
    db.close()

    report = verify_store(tmp_path / "m.db", VIEWS)

    assert any("memory_entries" in finding for finding in report.findings)
