"""A prompt pays for no search in a memory that cannot find anything."""

from __future__ import annotations

import asyncio
from pathlib import Path

from artelier.world.genesis import settle
from tests.world.asked import charges, left_out, write
from tests.world.memories import add as adding
from tests.world.memories import make_store, remember
from tests.world.places import add, balance, world_at
from tests.world.speaking import Speaking

AGENT = {"longterm_memory_artifact_id": "mem", "working_memory_artifact_id": "notes"}


def test_a_store_without_entries_costs_nothing(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with world_at(tmp_path, models=Speaking().model, config={"model": "m"}) as w:
            await settle(w)
            await make_store(w, "ana")
            await write(w, "ana", "notes", {"goal": "sell ships"})
            await add(w, ana=AGENT)
            await w.run(ticks=3)
            assert await balance(w, "ana") == 100 and await charges(w, "ana") == []
            assert await left_out(w, "ana", 3) == {"recent_memories": "empty"}

            await remember(w, "ana", "ships sell in spring")
            await w.tick()
            assert [id for _, _, _, id in await charges(w, "ana")] == ["genesis_memory_search"]

    asyncio.run(scenario())


def test_a_prompt_with_nothing_to_look_for_costs_nothing(tmp_path: Path) -> None:
    """An agent in its first tick, without state and goal."""

    async def scenario() -> None:
        async with world_at(tmp_path, models=Speaking().model, config={"model": "m"}) as w:
            await settle(w)
            await make_store(w, "ana")
            await add(w, ana={"longterm_memory_artifact_id": "mem"})
            await remember(w, "ana", "ana sells ships")
            assert await balance(w, "ana") == 99
            await w.tick()
            assert await balance(w, "ana") == 99 and await charges(w, "ana") == []
            assert await left_out(w, "ana", 1) == {"recent_memories": "empty"}

    asyncio.run(scenario())


def test_an_empty_store_of_somebody_else_is_denied_as_a_full_one(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with world_at(tmp_path, models=Speaking().model, config={"model": "m"}) as w:
            await settle(w)
            await make_store(w, "bob")
            await write(w, "ana", "notes", {"goal": "sell ships"})
            await add(w, ana=AGENT)
            await w.tick()
            assert await left_out(w, "ana", 1) == {"recent_memories": "denied"}

    asyncio.run(scenario())


def test_what_was_added_before_in_this_tick_is_found(tmp_path: Path) -> None:
    """A store counts what is pending: the second stage remembers what the first has added."""
    speaking = Speaking({"bob": adding("ships sell in spring")})

    async def scenario() -> None:
        config = {"model": "m", "activation": "staged", "stages": [["bob"], ["ana"]]}
        async with world_at(tmp_path, models=speaking.model, config=config) as w:
            await settle(w)
            await make_store(w, "bob", access="owner_writes")
            await write(w, "ana", "notes", {"goal": "sell ships"})
            await add(w, ana=AGENT, bob={"system_prompt": "Remember."})
            assert (await w.tick()).rejected == 0
            assert "ships sell in spring" in speaking.shown("ana")[0]

    asyncio.run(scenario())
