"""The hash of a world is that of its history, and of nothing else; a diff says where two histories part."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from artelier import Kernel
from artelier.errors import CorruptStore, InvalidRequest, NotFound
from artelier.log import Batch, Draft, StreamAppend
from artelier.world import World
from artelier.world.events import WorldPaused, WorldResumed, world_stream
from tests.world.places import add
from tests.world.town import RULE, deals, kernel_at, policies, town


def pay(to: str, amount: int) -> dict[str, Any]:
    return {"action": "transfer", "to": to, "amount": amount}


GIVING: Mapping[str, Mapping[int, Any]] = {"ana": {n: pay("bob", 1) for n in range(1, 9)}}


async def small(
    kernel: Any, id: str = "w", *, script: Mapping[str, Mapping[int, Any]] = GIVING, seed: int = 1
) -> World:
    world = await World.new(kernel, id, {"seed": seed}, policies=policies(script))
    await add(world, ana=RULE, bob=RULE)
    return world


def test_equal_worlds_have_one_hash_whatever_they_are_called_and_wherever_they_are(tmp_path: Path) -> None:
    """Two databases, three tenants with keys of their own, three names; a model, charges, memory."""

    async def scenario() -> None:
        with kernel_at(tmp_path / "a.db") as here, kernel_at(tmp_path / "b.db") as there:
            worlds = [
                await town(here.for_tenant("acme"), "w"),
                await town(here.for_tenant("acme"), "another"),
                await town(here.for_tenant("other"), "w"),
                await town(there.for_tenant("third"), "market:7"),
            ]
            for world in worlds:
                await world.run(ticks=3)
                await deals(world)
                await world.run(ticks=8)

            hashes = [[await world.hash(at=tick) for tick in (0, 3, 11)] for world in worlds]

            assert hashes[1:] == [hashes[0]] * 3
            assert len(set(hashes[0])) == 3
            assert await worlds[0].hash() == hashes[0][2]
            for world in worlds:
                await world.close()

    asyncio.run(scenario())


def test_a_hash_tells_seeds_answers_and_deeds_of_the_host_apart(tmp_path: Path) -> None:
    async def scenario() -> None:
        with Kernel.open(tmp_path / "a.db") as kernel:
            first = await small(kernel, "a")
            seed = await small(kernel, "b", seed=2)
            answer = await small(kernel, "c", script={"ana": {8: pay("bob", 2)}})
            told = await small(kernel, "d")
            for world in (first, seed, answer, told):
                await world.run(ticks=4)
            before = await told.hash()
            await told.inject("rain")

            hashes = {await world.hash() for world in (first, seed, answer, told)}

            assert before == await first.hash()
            assert len(hashes) == 4

    asyncio.run(scenario())


def test_who_steers_a_world_is_no_part_of_its_hash(tmp_path: Path) -> None:
    async def scenario() -> None:
        with Kernel.open(tmp_path / "a.db") as kernel:
            kim = await World.new(kernel, "a", by="user:kim")
            sam = await World.new(kernel, "b", by="user:sam")
            ana = await World.new(kernel, "c", by="ana")

            assert await kim.hash() == await sam.hash() != await ana.hash()

    asyncio.run(scenario())


def test_a_price_that_the_host_held_does_not_make_worlds_differ(tmp_path: Path) -> None:
    """Holds have random names; two paid invocations between ticks are the same deed in both worlds."""

    async def scenario() -> None:
        with kernel_at(tmp_path / "a.db") as kernel:
            worlds = [await town(kernel, "a"), await town(kernel, "b")]
            for world in worlds:
                for _ in range(2):
                    await world.as_principal("ana").artifacts.invoke("bob_tool", price_max=2)

            assert await worlds[0].hash() == await worlds[1].hash()

    asyncio.run(scenario())


def test_a_tick_that_has_not_passed_has_no_hash(tmp_path: Path) -> None:
    async def scenario() -> None:
        with Kernel.open(tmp_path / "a.db") as kernel:
            world = await small(kernel)
            await world.tick()
            for at in (2, -1, True, 1.0, "1"):
                with pytest.raises(InvalidRequest, match="has not passed"):
                    await world.hash(at=at)  # pyright: ignore[reportArgumentType] - that is the point
            with pytest.raises(NotFound):
                await World.open(kernel, "nowhere").hash()

    asyncio.run(scenario())


@pytest.mark.corrupts
def test_a_world_of_which_content_is_gone_has_no_hash_and_says_where(tmp_path: Path) -> None:
    async def scenario() -> None:
        with Kernel.open(tmp_path / "a.db") as kernel:
            world = await small(kernel)
            await world.tick()
            db = sqlite3.connect(tmp_path / "a.db")
            db.execute("DELETE FROM blobs WHERE instr(CAST(content AS TEXT), 'policy')")
            db.commit()
            db.close()

            with pytest.raises(CorruptStore, match=r"event 2 of world:w needs is gone"):
                await world.hash()

    asyncio.run(scenario())


def test_equal_worlds_do_not_differ(tmp_path: Path) -> None:
    async def scenario() -> None:
        with kernel_at(tmp_path / "a.db") as here, kernel_at(tmp_path / "b.db") as there:
            a, b = await town(here), await town(there.for_tenant("third"), "another")
            for world in (a, b):
                await world.run(ticks=5)
                await world.close()

            found = await a.diff(b)

            assert found == {
                "a": "w",
                "b": "another",
                "tick_a": 5,
                "tick_b": 5,
                "compared_to": 5,
                "equal": True,
                "first": None,
                "first_tick": None,
                "agents": {},
            }

    asyncio.run(scenario())


def test_a_diff_names_the_first_action_that_differs_and_what_came_of_it(tmp_path: Path) -> None:
    async def scenario() -> None:
        with Kernel.open(tmp_path / "a.db") as kernel:
            a = await small(kernel, "a")
            b = await small(
                kernel,
                "b",
                script={
                    "ana": {
                        **GIVING["ana"],
                        3: {"action": "write", "artifact_id": "song", "content": "la", "kind": "document"},
                    }
                },
            )
            for world in (a, b):
                await world.run(ticks=5)

            found = await a.diff(b)
            first = found["first"]

            assert found["first_tick"] == first
            assert (first["tick"], first["between_ticks"], first["actor"]) == (3, False, "ana")
            assert (first["a"]["kind"], first["b"]["kind"]) == ("action.taken", "artifact.written")
            assert first["differs"][0] == {"field": "kind", "a": "action.taken", "b": "artifact.written"}
            assert found["agents"] == {
                "ana": {
                    "balance": {"a": 95, "b": 96},
                    "actions": {"transfer": {"a": 5, "b": 4}, "write": {"a": 0, "b": 1}},
                    "owned": {"a": [], "b": ["song"]},
                },
                "bob": {"balance": {"a": 105, "b": 104}},
            }

    asyncio.run(scenario())


def test_a_deed_of_the_host_is_told_apart_from_the_ticks_it_changes(tmp_path: Path) -> None:
    """A text nobody reads shifts every number behind it, and no tick."""

    async def scenario() -> None:
        with Kernel.open(tmp_path / "a.db") as kernel:
            a, b = await small(kernel, "a"), await small(kernel, "b")
            await a.run(ticks=2)
            await b.run(ticks=2)
            await b.inject("rain")
            await a.run(ticks=2)
            await b.run(ticks=2)

            found = await a.diff(b)

            assert (found["first"]["tick"], found["first"]["between_ticks"]) == (2, True)
            assert (found["first"]["a"], found["first"]["b"]["data"]) == (None, {"text": "rain"})
            assert found["first_tick"] is None
            assert found["agents"] == {}

    asyncio.run(scenario())


def test_a_world_that_is_further_on_is_compared_as_far_as_both_are(tmp_path: Path) -> None:
    async def scenario() -> None:
        with Kernel.open(tmp_path / "a.db") as kernel:
            a, b = await small(kernel, "a"), await small(kernel, "b")
            await a.run(ticks=2)
            await b.run(ticks=4)

            found = await a.diff(b)

            assert (found["compared_to"], found["equal"], found["first"]) == (2, False, None)
            assert found["agents"]["bob"]["balance"] == {"a": 102, "b": 104}

    asyncio.run(scenario())


def test_a_text_that_differs_is_shown(tmp_path: Path) -> None:
    async def scenario() -> None:
        with Kernel.open(tmp_path / "a.db") as kernel:
            a, b = await small(kernel, "a"), await small(kernel, "b")
            await a.inject("rain")
            await b.inject("snow")

            found = await a.diff(b)

            assert found["first"]["differs"] == [{"field": "text", "a": "rain", "b": "snow"}]

    asyncio.run(scenario())


def test_an_event_of_the_host_that_came_late_belongs_to_the_tick_it_came_after(tmp_path: Path) -> None:
    """Two processes: one reads the clock, the other passes a tick, the first one writes."""

    async def scenario() -> None:
        with Kernel.open(tmp_path / "a.db") as kernel:
            world = await small(kernel)
            await world.run(ticks=2)
            before = await world.hash(at=1)
            stream = world_stream(world.host.id, world.id)
            late = [Draft(WorldPaused(), 1, "operator"), Draft(WorldResumed(), 1, "operator")]
            await kernel.store.append(Batch(appends=(StreamAppend(stream, late),)))

            assert await world.hash(at=1) == before
            assert await (await world.fork(at=1)).hash() == before
            assert (await world.tick()).tick == 3

    asyncio.run(scenario())
