"""`kernel.memory`: the memories in a kernel's own store, and what every implementation looks like."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from artelier import Kernel
from artelier.memory import LogMemoryStore, SQLiteMemoryStore
from artelier.memory.store import AGENTS_MAX
from artelier.ports.memory import AgentMemory, MemoryStore
from tests.kernel.stage import play


def test_a_kernel_keeps_memories_in_its_own_store(tmp_path: Path) -> None:
    async def scenario() -> None:
        with Kernel.open(tmp_path / "state.db") as kernel:
            await kernel.memory.for_agent("acme", "ana").append("a line", key="1")
            await kernel.memory.for_agent("acme", "bob").remember("a fact", key="1")
            await kernel.memory.for_agent("other", "eve").remember("a secret", key="1")
        with Kernel.open(tmp_path / "state.db") as kernel:
            assert (await kernel.memory.for_agent("acme", "ana").blocks())[0].text == "a line"
            assert await kernel.memory.agents("acme") == [("ana", 0), ("bob", 1)]
            assert await kernel.memory.agents("nobody") == []
            report = kernel.verify()
            assert report.ok and "memory" in report.views

    play(scenario())


def test_both_stores_are_memory_stores(tmp_path: Path) -> None:
    """The assignments are checked by the type checker."""
    with Kernel.open(":memory:") as kernel, SQLiteMemoryStore(tmp_path / "m.db") as file:
        stores: list[MemoryStore] = [kernel.memory, file]
        memories: list[AgentMemory] = [store.for_agent("acme", "ana") for store in stores]

        assert len({type(memory) for memory in memories}) == 1


def test_a_store_tells_another_process_how_to_find_it(tmp_path: Path) -> None:
    async def scenario() -> None:
        with SQLiteMemoryStore(tmp_path / "m.db") as memories:
            settings = memories.settings()
            assert not (tmp_path / "m.db").exists()
            await memories.for_agent("acme", "ana").append("a line", key="1")
        with SQLiteMemoryStore(settings["sqlite"], embedder=settings["embedder"]) as again:
            assert (await again.for_agent("acme", "ana").blocks())[0].text == "a line"

    play(scenario())


def test_caches_of_many_agents_are_bounded() -> None:
    async def scenario() -> None:
        with Kernel.open(":memory:") as kernel:
            first = kernel.memory.for_agent("acme", "agent-0")
            assert kernel.memory.for_agent("acme", "agent-0") is first
            await first.remember("a fact", key="1")

            for n in range(AGENTS_MAX + 1):
                kernel.memory.for_agent("acme", f"agent-{n + 1}")

            again = kernel.memory.for_agent("acme", "agent-0")
            assert again is not first
            assert [hit.text for hit in await again.recall("fact")] == ["a fact"]

    play(scenario())


def test_a_memory_that_is_only_read_writes_nothing() -> None:
    async def scenario() -> None:
        with Kernel.open(":memory:") as kernel:
            before = await kernel.head()
            memory = kernel.memory.for_agent("acme", "ana")
            await memory.blocks()
            await memory.recall("anything")
            await memory.search("anything")
            await memory.changes()
            await memory.version()

            assert await kernel.head() == before

    play(scenario())


def test_opening_a_kernel_loads_no_numbers_library() -> None:
    """Neither does core memory: vectors are for recall."""
    code = (
        "import asyncio, sys\n"
        "from artelier import Kernel\n"
        "with Kernel.open(':memory:') as kernel:\n"
        "    memory = kernel.memory.for_agent('acme', 'ana')\n"
        "    asyncio.run(memory.append('x', key='1'))\n"
        "    print('numpy' in sys.modules, 'pydantic' in sys.modules)\n"
    )

    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert ran.stdout.split() == ["False", "False"]


def test_stores_over_one_log_see_each_other() -> None:
    async def scenario() -> None:
        with Kernel.open(":memory:") as kernel:
            other = LogMemoryStore(kernel.store, kernel.services.clock)
            await other.for_agent("acme", "ana").remember("a fact", key="1")

            found = await kernel.memory.for_agent("acme", "ana").recall("fact")

            assert [hit.text for hit in found] == ["a fact"]

    play(scenario())
