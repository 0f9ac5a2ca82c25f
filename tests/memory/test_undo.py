"""Undo: each change once, alone where it can be, by several at once, and across what others did since."""

from __future__ import annotations

import asyncio

import pytest

from artelier import Kernel
from artelier.errors import AccessDenied, Conflict, InvalidRequest
from artelier.memory import LogMemory
from artelier.memory.blocks import taken_back
from tests.kernel.stage import play


async def notes(memory: LogMemory) -> str:
    return (await memory.blocks())[0].text


def test_two_that_undo_the_same_at_once_do_it_once() -> None:
    async def scenario() -> None:
        with Kernel.open(":memory:") as kernel:
            memory = kernel.memory.for_agent("acme", "ana")
            entry = await memory.remember("a fact", key="1")
            await memory.append("a line", key="2")
            added, appended = [change.id for change in reversed(await memory.changes())]

            for change in (added, appended):
                outcomes = await asyncio.gather(
                    *(memory.undo(change, key=f"undo {change}/{n}") for n in range(5)), return_exceptions=True
                )
                refused = [one for one in outcomes if isinstance(one, Conflict)]
                assert len(refused) == 4, outcomes

            assert await notes(memory) == ""
            assert await memory.recall("fact") == []
            again = await memory.remember("a fact", key="3")
            assert again.id != entry.id
            assert kernel.verify().ok

    play(scenario())


def test_an_undo_under_one_key_is_one_change() -> None:
    async def scenario() -> None:
        with Kernel.open(":memory:") as kernel:
            memory = kernel.memory.for_agent("acme", "ana")
            await memory.append("one", key="1")
            await memory.append("two", key="2")
            first, second = [change.id for change in reversed(await memory.changes())]

            done = await asyncio.gather(*(memory.undo(second, key="u") for _ in range(5)))

            assert len({change.id for change in done}) == 1
            assert await notes(memory) == "one"
            with pytest.raises(Conflict):
                await memory.undo(first, key="u")

    play(scenario())


def test_what_was_pruned_comes_back() -> None:
    async def scenario() -> None:
        with Kernel.open(":memory:") as kernel:
            own = kernel.for_tenant("acme").as_principal("agent:ana").artifacts
            await own.write("memory/ana:entries", kind="memory_store", content={"config": {"max_entries": 2}})
            memory = kernel.memory.for_agent("acme", "ana")
            for n in range(3):
                await memory.remember(f"plum {n}", key=str(n))
            pruned = (await memory.changes(1))[0]

            await memory.undo(pruned.id, key="u")

            assert pruned.summary == "pruned 1 entries (oldest)"
            assert len(await memory.recall("plum", limit=9)) == 3

    play(scenario())


def test_every_order_of_undoing_gives_the_same_text() -> None:
    async def scenario() -> None:
        orders = ((0, 1, 2), (2, 1, 0), (1, 0, 2), (1, 2, 0))
        with Kernel.open(":memory:") as kernel:
            for n, order in enumerate(orders):
                memory = kernel.memory.for_agent("acme", f"agent-{n}")
                await memory.replace_all("start", key="0")
                for line in ("alpha", "beta", "gamma"):
                    await memory.append(line, key=line)
                changes = [change.id for change in reversed(await memory.changes())][1:]

                for place in order:
                    await memory.undo(changes[place], key=f"u{place}")

                assert await notes(memory) == "start", order

    play(scenario())


def test_undoing_everything_gives_an_empty_memory_and_redoing_gives_it_back() -> None:
    async def scenario() -> None:
        with Kernel.open(":memory:") as kernel:
            memory = kernel.memory.for_agent("acme", "ana")
            entry = await memory.remember("a fact", key="1")
            await memory.append("line", key="2")
            await memory.forget(entry.id, key="3")
            await memory.replace("line", "other line", key="4")

            undone = [await memory.undo(change.id, key=f"u{change.id}") for change in await memory.changes()]
            assert (await notes(memory), await memory.recall("fact")) == ("", [])
            for change in reversed(undone):
                await memory.undo(change.id, key=f"r{change.id}")

            assert await notes(memory) == "other line"
            assert await memory.recall("fact") == []
            standing = {c.id for c in await memory.changes(50) if c.undone_by is None}
            assert len(standing) >= 4
            assert kernel.verify().ok

    play(scenario())


def test_a_change_of_a_shared_block_needs_the_right_to_write_it_back() -> None:
    async def scenario() -> None:
        with Kernel.open(":memory:") as kernel:
            artifacts = kernel.for_tenant("acme").as_principal("user:kim").artifacts
            await artifacts.write("rules", kind="document", content="Be kind", access="public")
            memory = kernel.memory.for_agent("acme", "ana")
            await memory.attach("rules", "rules", key="1")
            await memory.append("Be brief", "rules", key="2")
            change = (await memory.changes(1))[0]
            await artifacts.write("rules", content="Be kind\nBe brief\nBe on time")

            await memory.undo(change.id, key="3")
            assert (await artifacts.read("rules")).content == "Be kind\nBe on time"

            await memory.append("Be loud", "rules", key="4")
            change = (await memory.changes(1))[0]
            await artifacts.write("rules", content="Be calm", access="owner_writes")
            with pytest.raises((AccessDenied, Conflict)):
                await memory.undo(change.id, key="5")
            assert (await artifacts.read("rules")).content == "Be calm"

    play(scenario())


def test_a_page_of_changes_is_bounded() -> None:
    async def scenario() -> None:
        with Kernel.open(":memory:") as kernel:
            memory = kernel.memory.for_agent("acme", "ana")
            for n in range(5):
                await memory.append(str(n), key=str(n))

            newest = await memory.changes(2)
            older = await memory.changes(10, before=newest[-1].id)

            assert [len(newest), len(older)] == [2, 3]
            for limit in (0, 1_001):
                with pytest.raises(InvalidRequest):
                    await memory.changes(limit)

    play(scenario())


@pytest.mark.parametrize(
    ("before", "after", "now", "result"),
    [
        ("", "a", "a", ""),
        ("x", "x\na", "x\na\nb", "x\nb"),
        ("x\na", "x", "x", "x\na"),
        ("one two", "one three", "zero one three four", "zero one two four"),
    ],
)
def test_a_text_is_taken_back_around_later_changes(before: str, after: str, now: str, result: str) -> None:
    assert taken_back(now, before=before, after=after) == result


@pytest.mark.parametrize(
    ("before", "after", "now"),
    [("", "a", "b"), ("", "a", "aba"), ("x\na", "x", "x y"), ("one", "two", "ten")],
)
def test_a_text_that_cannot_be_taken_back_is_refused(before: str, after: str, now: str) -> None:
    with pytest.raises(Conflict):
        taken_back(now, before=before, after=after)
