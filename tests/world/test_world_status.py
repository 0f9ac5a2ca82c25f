"""The status of a world: which may follow which, and what a paused world refuses."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from artelier.errors import Conflict
from artelier.world.events import WorldStatus
from artelier.world.queries import reports
from tests.world.places import world_at
from tests.world.town import kernel_at, town


def test_each_status_of_a_world_names_its_successors() -> None:
    assert WorldStatus.TICKING not in WorldStatus.PAUSED.successors | WorldStatus.TICKING.successors
    assert WorldStatus.TICKING in WorldStatus.ACTIVE.successors
    with pytest.raises(Conflict, match="world w is paused"):
        WorldStatus.PAUSED.follow(WorldStatus.TICKING, world="w")


def test_a_paused_world_passes_no_tick_until_it_is_resumed(tmp_path: Path) -> None:
    async def scenario() -> None:
        with kernel_at(tmp_path / "a.db") as kernel:
            world = await town(kernel)
            await world.pause()
            await world.pause()  # a second time changes nothing
            assert (await world.row()).status is WorldStatus.PAUSED
            with pytest.raises(Conflict, match="is paused"):
                await world.tick()
            await world.resume()
            assert (await world.row()).status is WorldStatus.ACTIVE
            assert (await world.tick()).tick == 1

    asyncio.run(scenario())


def test_a_row_of_a_world_is_read_by_attribute_and_by_name_with_a_warning(tmp_path: Path) -> None:
    async def scenario() -> None:
        with kernel_at(tmp_path / "a.db") as kernel:
            row = await (await town(kernel)).row()
            with pytest.warns(DeprecationWarning, match="is now row.tick"):
                assert row["tick"] == row.tick == 0
            with pytest.raises(KeyError):
                row["agents"]

    asyncio.run(scenario())


@pytest.mark.parametrize("last", [None, 100])
def test_others_have_turns_while_events_are_looked_through(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, last: int | None
) -> None:
    monkeypatch.setattr(reports, "WINDOW", 5)
    turns = 0

    async def neighbour() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async def scenario() -> None:
        async with world_at(tmp_path) as world:
            for number in range(60):
                await world.inject(f"news {number}")
            other = asyncio.ensure_future(neighbour())
            page = await reports.log(world, kinds=("run.drifted",), last=last)
            other.cancel()
            assert page.items == []

    asyncio.run(scenario())
    assert turns >= 12
