"""Core memory over ordinary artifacts: versions, sharing, access, and several processes at once."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from artelier import Kernel
from artelier.errors import AccessDenied, Exhausted, InvalidRequest, NotFound
from artelier.memory import SQLiteMemoryStore
from artelier.memory.blocks import BLOCKS_MAX
from tests.kernel.stage import play
from tests.processes import WarmPython


def test_a_block_is_an_artifact_with_a_history_that_only_its_agent_reads() -> None:
    async def scenario() -> None:
        with Kernel.open(":memory:") as kernel:
            memory = kernel.memory.for_agent("acme", "ana")
            await memory.append("one", key="1")
            block = await memory.append("two", key="2")

            own = kernel.for_tenant("acme").as_principal("agent:ana").artifacts
            other = kernel.for_tenant("acme").as_principal("agent:bob").artifacts

            artifact = await own.read(block.ref)
            assert (artifact.kind, artifact.content) == ("memory_block", "one\ntwo")
            assert [version.version for version in await own.history(artifact.id)] == [1, 2]
            assert "+two" in (await own.diff(artifact.id, 1, 2)).text
            with pytest.raises(AccessDenied):
                await other.read(artifact.id)

    play(scenario())


def test_a_write_past_the_memory_is_seen_and_counted_in_the_version() -> None:
    async def scenario() -> None:
        with Kernel.open(":memory:") as kernel:
            memory = kernel.memory.for_agent("acme", "ana")
            await memory.append("one", key="1")
            before = await memory.version()

            own = kernel.for_tenant("acme").as_principal("agent:ana").artifacts
            await own.write("memory/ana/core/notes", content="by hand")

            assert (await memory.blocks())[0].text == "by hand"
            assert await memory.version() > before

    play(scenario())


def test_two_agents_share_an_attached_block() -> None:
    async def scenario() -> None:
        with Kernel.open(":memory:") as kernel:
            artifacts = kernel.for_tenant("acme").as_principal("user:kim").artifacts
            everybody = {"allow": {"read": ["agent:ana", "agent:bob"], "write": ["agent:ana"]}}
            await artifacts.write("rules", kind="document", content="Be kind", access=everybody)
            ana, bob = (kernel.memory.for_agent("acme", name) for name in ("ana", "bob"))
            await ana.attach("rules", "rules", key="1")
            await bob.attach("rules", "rules", key="1")
            seen = await bob.version()

            await ana.append("Be brief", "rules", key="2")

            assert (await bob.blocks())[2].text == "Be kind\nBe brief"
            assert await bob.version() > seen
            with pytest.raises(AccessDenied):
                await bob.append("Be loud", "rules", key="2")
            await ana.detach("rules", key="3")
            assert [block.label for block in await ana.blocks()] == ["notes", "scratchpad"]
            assert (await artifacts.read("rules")).version == 2

    play(scenario())


def test_a_block_that_may_not_be_read_any_more_says_so_and_spares_the_others() -> None:
    async def scenario() -> None:
        with Kernel.open(":memory:") as kernel:
            artifacts = kernel.for_tenant("acme").as_principal("user:kim").artifacts
            for name in ("closed", "gone", "sold", "bytes"):
                await artifacts.write(name, kind="document", content="text", access="public")
            memory = kernel.memory.for_agent("acme", "ana")
            await memory.append("mine", key="0")
            for name in ("closed", "gone", "sold", "bytes"):
                await memory.attach(name, name, key=name)
            await artifacts.write("closed", content="secret", access="private")
            await artifacts.delete("gone")
            await artifacts.write("sold", content="dear", prices={"read": 5})
            await artifacts.write("bytes", content=b"\x00")

            blocks = {block.label: block for block in await memory.blocks()}

            assert blocks["notes"].text == "mine" and not blocks["notes"].missing
            for name in ("closed", "gone", "sold", "bytes"):
                assert blocks[name].missing and blocks[name].text == ""

    play(scenario())


def test_what_cannot_be_a_block_is_refused() -> None:
    async def scenario() -> None:
        with Kernel.open(":memory:") as kernel:
            artifacts = kernel.for_tenant("acme").as_principal("user:kim").artifacts
            await artifacts.write("secret", kind="document", content="x", access="private")
            memory = kernel.memory.for_agent("acme", "ana")

            with pytest.raises(AccessDenied):
                await memory.attach("secret", "secret", key="1")
            with pytest.raises(NotFound):
                await memory.attach("nothing", "nothing", key="2")
            for label in ("", "Big", "a b", "a/b", "x" * 33, "a:b"):
                with pytest.raises(InvalidRequest):
                    await memory.attach(label, key="3")
            with pytest.raises(InvalidRequest):
                await memory.attach("tasks", limit_chars=0, key="4")
            with pytest.raises(NotFound):
                await memory.detach("notes", key="5")
            assert await memory.changes() == []

    play(scenario())


def test_an_agent_may_begin_blocks_of_its_own_up_to_a_bound() -> None:
    async def scenario() -> None:
        with Kernel.open(":memory:") as kernel:
            memory = kernel.memory.for_agent("acme", "ana")
            for n in range(BLOCKS_MAX - 2):
                await memory.attach(f"topic-{n}", limit_chars=10, key=str(n))

            with pytest.raises(Exhausted):
                await memory.attach("one-more", key="more")
            await memory.append("short", "topic-3", key="a")
            with pytest.raises(Exhausted):
                await memory.append("long text", "topic-3", key="b")

            blocks = {block.label: block for block in await memory.blocks()}
            assert blocks["topic-3"].text == "short"

    play(scenario())


def test_attaching_and_detaching_are_undone() -> None:
    async def scenario() -> None:
        with Kernel.open(":memory:") as kernel:
            memory = kernel.memory.for_agent("acme", "ana")
            await memory.attach("tasks", key="1")
            await memory.append("milk", "tasks", key="2")
            await memory.detach("tasks", key="3")

            async def labels() -> list[str]:
                return [block.label for block in await memory.blocks()]

            detached = await labels()
            await memory.undo((await memory.changes(1))[0].id, key="4")
            again = {block.label: block.text for block in await memory.blocks()}
            await memory.undo((await memory.changes())[-1].id, key="5")

            assert detached == ["notes", "scratchpad"]
            assert again["tasks"] == "milk"
            assert await labels() == ["notes", "scratchpad"]
            assert kernel.verify().ok

    play(scenario())


def test_default_blocks_are_data_of_the_store(tmp_path: Path) -> None:
    async def scenario() -> None:
        blocks = {"notes": 100, "persona": 50}
        with SQLiteMemoryStore(tmp_path / "m.db", blocks=blocks) as memories:
            memory = memories.for_agent("acme", "ana")
            await memory.append("calm", "persona", key="1")

            assert [(b.label, b.limit_chars) for b in await memory.blocks()] == [
                ("notes", 100),
                ("persona", 50),
            ]
        with pytest.raises(InvalidRequest):
            SQLiteMemoryStore(tmp_path / "m.db", blocks={"Bad": 1}).for_agent("acme", "ana")

    play(scenario())


WRITER = """
import asyncio, sys
from artelier.memory import SQLiteMemoryStore

async def main():
    with SQLiteMemoryStore(sys.argv[1]) as memories:
        memory = memories.for_agent("acme", "ana")
        name = sys.argv[2]
        await asyncio.gather(
            *(memory.append(f"{name} {n}", key=f"{name}{n}") for n in range(10)),
            *(memory.remember(f"fact {name} number {n}", key=f"f{name}{n}") for n in range(10)),
        )

asyncio.run(main())
"""


def test_appends_of_several_processes_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "agent_memory.db"
    writers = [WarmPython([sys.executable, "-c", WRITER, str(path), name]) for name in "abc"]
    assert [writer.wait(60) for writer in writers] == [0, 0, 0]

    async def read() -> tuple[list[str], int]:
        with SQLiteMemoryStore(path) as memories:
            memory = memories.for_agent("acme", "ana")
            notes = (await memory.blocks())[0].text.splitlines()
            return notes, len(await memory.recall("fact number", limit=100))

    notes, entries = asyncio.run(read())

    assert sorted(notes) == sorted(f"{name} {n}" for name in "abc" for n in range(10))
    assert entries == 30
