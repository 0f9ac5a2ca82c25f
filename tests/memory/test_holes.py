"""Holes of predecessors, by number, at the level of memories: 4, 8, 16 (conformance, tools), 19."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from artelier import Kernel, Run, RunSuspended
from artelier.memory import LogMemory, LogMemoryStore, SQLiteMemoryStore
from artelier.testing import ManualClock
from artelier.testing.clock import START_US
from tests.kernel.crashes import Deaths
from tests.kernel.stage import World, drive, play


async def remembering(run: Run) -> Any:
    """A run that writes and reads its memory."""
    first = await run.step_tool("core_memory_append", {"content": "the user is Kim"})
    kept = await run.step_tool("remember", {"text": "Kim's code is 4471", "tags": ["code"]})
    await run.step_tool("core_memory_append", {"content": "asked for the code"})
    found = await run.step_tool("recall", {"query": "code of Kim"})
    await run.step_tool("core_memory_replace", {"old": "asked for", "new": "knows"})
    past = await run.step_tool("history_search", {"query": "code"})
    await run.step_tool("remember", {"text": "Kim knows the code"})
    await run.step_tool("forget", {"id": kept.value["id"]})
    return [first.value["version"], [hit["text"] for hit in found.value], len(past.value)]


def opening(memory: LogMemory, kernel: Kernel) -> dict[str, Any]:
    tools = {tool.name: tool for tool in memory.tools(runs=kernel.store)}
    return {"agent": "ana", "tools": tools}


def later() -> ManualClock:
    """A clock by which the dead process's lease has ended."""
    return ManualClock(start_us=START_US + 60_000_000)


async def assert_remembered_once(memory: LogMemory) -> None:
    notes = (await memory.blocks())[0]
    assert notes.text == "the user is Kim\nknows the code"
    assert [entry.text for entry in await memory.entries.entries()] == ["Kim knows the code"]
    assert notes.version == 3
    assert len(await memory.changes()) == 6


def test_hole_4_a_run_that_used_its_memory_replays_without_a_call() -> None:
    """Strict, although the memory has changed since and no tool is there any more."""

    async def scenario() -> None:
        with Kernel.open(":memory:") as kernel:
            runs = kernel.for_tenant()
            memory = kernel.memory.for_agent("default", "ana")
            assert await drive(runs, remembering, **opening(memory, kernel)) == "completed"
            await memory.replace_all("something else", key="later")
            before = await memory.version()

            replayed = await runs.replay("r", remembering)

            assert replayed.status == "completed"
            assert replayed.result == [1, ["Kim's code is 4471"], 0]
            assert await memory.version() == before

    play(scenario())


def test_hole_4_a_crash_at_any_point_applies_each_change_once(tmp_path: Path) -> None:
    async def scenario() -> None:
        path, world = tmp_path / "state.db", World()
        deaths = Deaths(path, world)
        with Kernel.open(path, fault=deaths, clock=ManualClock()) as kernel:
            memory = kernel.memory.for_agent("default", "ana")
            await drive(kernel.for_tenant(), remembering, **opening(memory, kernel))
            await assert_remembered_once(memory)
        assert len(deaths.found) >= 5  # how many depends on which batches share a commit

        for death in deaths.found:
            with Kernel.open(death.path, clock=later()) as kernel:
                memory = kernel.memory.for_agent("default", "ana")
                status = await drive(kernel.for_tenant(), remembering, **opening(memory, kernel))
                assert status == "completed" or status.endswith("run_ended"), death
                await assert_remembered_once(memory)
                assert kernel.verify().ok

    play(scenario(), within_s=60)


def test_hole_4_a_file_of_memories_that_is_ahead_of_the_run_is_not_changed_again(tmp_path: Path) -> None:
    """The memory's commit and the kernel's are two: the process dies between them, at every step."""

    async def scenario() -> None:
        path, world = tmp_path / "state.db", World()
        deaths = Deaths(path, world)
        with (
            Kernel.open(path, fault=deaths, clock=ManualClock()) as kernel,
            SQLiteMemoryStore(tmp_path / "memory.db") as memories,
        ):
            memory = memories.for_agent("default", "ana")
            await drive(kernel.for_tenant(), remembering, **opening(memory, kernel))
            await assert_remembered_once(memory)
        assert len(deaths.found) >= 5  # how many depends on which batches share a commit

        for death in deaths.found:
            copy = tmp_path / f"memory-{death.number}.db"
            shutil.copy(tmp_path / "memory.db", copy)
            with Kernel.open(death.path, clock=later()) as kernel, SQLiteMemoryStore(copy) as memories:
                memory = memories.for_agent("default", "ana")
                status = await drive(kernel.for_tenant(), remembering, **opening(memory, kernel))
                assert "completed" in status or status.endswith("run_ended"), death
                await assert_remembered_once(memory)

    play(scenario(), within_s=60)


def test_hole_8_a_child_never_touches_its_parents_memory() -> None:
    async def scenario() -> None:
        with Kernel.open(":memory:") as kernel:
            parent = kernel.memory.for_agent("default", "ana")
            child = kernel.memory.for_agent("default", "ana/helper")
            await parent.append("of the parent", key="1")
            await parent.remember("the parent's fact", key="2")
            before = await parent.version()

            await child.append("of the child", key="1")
            await child.remember("the child's fact", key="2")
            for change in await child.changes():
                await child.undo(change.id, key=f"undo {change.id}")

            assert await parent.version() == before
            assert (await parent.blocks())[0].text == "of the parent"
            assert [hit.text for hit in await parent.recall("fact")] == ["the parent's fact"]

    play(scenario())


class Zero:
    """An embedder whose service answers with nothing in it."""

    name = "zero"
    dims = 4

    async def embed(self, texts: Sequence[str], /) -> list[Any]:
        return [[0.0] * 4 for _ in texts]


def test_hole_19_a_zero_vector_is_a_failed_call_and_no_entry() -> None:
    async def scenario() -> None:
        with Kernel.open(":memory:") as kernel:
            store = LogMemoryStore(kernel.store, kernel.services.clock, embedder=Zero())
            memory = store.for_agent("default", "ana")

            async with kernel.run("r", **opening(memory, kernel)) as run:
                result = await run.step_tool("remember", {"text": "a fact"})
                run.finish()

            assert result.is_error and "vector" in str(result.value)
            assert (await kernel.store.query("SELECT count(*) FROM memory_entries"))[0][0] == 0
            rows = await kernel.store.query("SELECT count(*) FROM events WHERE kind = 'memory.added'")
            assert rows[0][0] == 0

    play(scenario())


def test_a_run_that_waits_keeps_what_it_remembered() -> None:
    async def code(run: Run) -> str:
        await run.step_tool("core_memory_append", {"content": "before"})
        await run.wait_for("go")
        await run.step_tool("core_memory_append", {"content": "after"})
        return "done"

    async def scenario() -> None:
        with Kernel.open(":memory:") as kernel:
            runs, memory = kernel.for_tenant(), kernel.memory.for_agent("default", "ana")
            with pytest.raises(RunSuspended):
                async with runs.run("r", on_wait="suspend", **opening(memory, kernel)) as run:
                    await code(run)
            await runs.signal("r", "go")

            await drive(runs, code, **opening(memory, kernel))

            assert (await memory.blocks())[0].text == "before\nafter"

    play(scenario())
