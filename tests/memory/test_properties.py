"""Laws of a memory, whatever is done to it in whatever order."""

from __future__ import annotations

import asyncio
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from artelier import Kernel
from artelier.errors import ArtelierError
from artelier.memory import LogMemory
from artelier.memory.consolidation import consolidate

WORDS = st.sampled_from(["tea", "Tea!", "the tea", "tea 2", "no tea", "Kim", "x" * 900, "\n", "é"])
STEPS = st.one_of(
    st.tuples(st.just("append"), WORDS, st.sampled_from(["notes", "scratchpad"])),
    st.tuples(st.just("replace_all"), WORDS, st.sampled_from(["notes", "scratchpad"])),
    st.tuples(st.just("remember"), WORDS, st.sampled_from(["trusted", "untrusted"])),
    st.tuples(st.just("forget"), st.integers(0, 3), st.none()),
    st.tuples(st.just("consolidate"), st.none(), st.none()),
    st.tuples(st.just("undo"), st.none(), st.none()),
    st.tuples(st.just("again"), st.integers(0, 9), st.none()),
)


async def seen(memory: LogMemory) -> Any:
    """Everything that a prompt could show."""
    blocks = [(block.label, block.text) for block in await memory.blocks()]
    entries = await memory.entries.entries(limit=1_000)
    return blocks, sorted((e.id, e.text, e.importance, e.trust) for e in entries)


async def step(memory: LogMemory, name: str, first: Any, second: Any, key: str) -> None:
    if name == "append":
        await memory.append(first, second, key=key)
    elif name == "replace_all":
        await memory.replace_all(first, second, key=key)
    elif name == "remember":
        await memory.remember(first, trust=second, key=key)
    elif name == "consolidate":
        await consolidate(memory, key=key)
    elif name == "forget":
        entries = await memory.entries.entries()
        await memory.forget(entries[first].id if first < len(entries) else "mem_0", key=key)
    else:
        newest = await memory.changes(1)
        await memory.undo(newest[0].id if newest else 1, key=key)


@given(st.lists(STEPS, max_size=14))
def test_a_refusal_changes_nothing_a_repetition_nothing_and_an_undo_gives_what_was_before(
    steps: list[tuple[str, Any, Any]],
) -> None:
    async def scenario() -> None:
        with Kernel.open(":memory:") as kernel:
            memory = kernel.memory.for_agent("acme", "ana")
            states: dict[int, tuple[Any, Any]] = {}
            done: list[tuple[str, Any, Any, str]] = []
            for n, (name, first, second) in enumerate(steps):
                before, version = await seen(memory), await memory.version()
                newest = next((change.id for change in await memory.changes(1)), 0)
                if name == "again":
                    if first < len(done) and done[first][0] not in ("undo", "forget"):
                        await step(memory, *done[first])
                    assert await seen(memory) == before
                    continue
                try:
                    await step(memory, name, first, second, str(n))
                except ArtelierError:
                    assert (await seen(memory), await memory.version()) == (before, version)
                    continue
                after = await seen(memory)
                last = (await memory.changes(1))[0].id if await memory.changes(1) else 0
                assert (after == before) if last == newest else (await memory.version() > version)
                if name == "undo":
                    assert after == states[newest][0]
                if last != newest:
                    states[last] = (before, after)
                    done.append((name, first, second, str(n)))
            assert kernel.verify().ok

    asyncio.run(scenario())


@given(st.lists(STEPS.filter(lambda step: step[0] not in ("again", "undo")), max_size=10))
def test_undoing_all_backwards_gives_an_empty_memory(steps: list[tuple[str, Any, Any]]) -> None:
    async def scenario() -> None:
        with Kernel.open(":memory:") as kernel:
            memory = kernel.memory.for_agent("acme", "ana")
            empty = await seen(memory)
            for n, (name, first, second) in enumerate(steps):
                try:
                    await step(memory, name, first, second, str(n))
                except ArtelierError:
                    continue

            for change in await memory.changes(50):
                await memory.undo(change.id, key=f"undo {change.id}")

            assert await seen(memory) == empty
            assert kernel.verify().ok

    asyncio.run(scenario())
