"""Figures of some ticks are those of the whole history, and cost those ticks alone."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from artelier.world import World
from artelier.world.figures.metrics import metrics
from artelier.world.history import history_fold
from artelier.world.history.history_fold import reaches
from artelier.world.view import CHECKPOINT_TICKS
from tests.world.town import kernel_at, town

TICKS = 2 * CHECKPOINT_TICKS + 20


async def _lived(kernel: Any) -> World:
    world = await town(kernel)
    for tick in range(1, TICKS + 1):
        await world.tick()
        if tick % 25 == 0:  # at a checkpoint, too: the host acts behind its tick
            await world.inject("Rain.")
    return world


def test_figures_from_a_checkpoint_on_are_those_of_the_whole_history(tmp_path: Path) -> None:
    async def scenario() -> None:
        with kernel_at(tmp_path / "a.db") as kernel:
            world = await _lived(kernel)
            whole = (await metrics(world, from_tick=0)).ticks
            for first in (1, 50, 51, 52, 100, 101, TICKS):
                found = (await metrics(world, from_tick=first)).ticks
                assert found == whole[first:], first
            fork = await world.fork(at=TICKS - 5)
            there = (await metrics(fork, from_tick=101)).ticks
            assert there == whole[101 : TICKS - 4]

    asyncio.run(scenario())


def test_figures_of_one_tick_read_no_more_than_since_the_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[Any] = []
    events = history_fold.events_of

    async def counted(*given: Any, **more: Any) -> Any:
        async for event in events(*given, **more):
            read.append(event.at_us)
            yield event

    monkeypatch.setattr(history_fold, "events_of", counted)

    async def scenario() -> None:
        with kernel_at(tmp_path / "a.db") as kernel:
            world = await _lived(kernel)
            await metrics(world, from_tick=TICKS)

    asyncio.run(scenario())

    assert read and min(read) >= 2 * CHECKPOINT_TICKS


def test_reaches_are_those_of_a_plain_scan(tmp_path: Path) -> None:
    async def scenario() -> None:
        with kernel_at(tmp_path / "a.db") as kernel:
            world = await _lived(kernel)
            store, tenant = kernel.store, kernel.for_tenant().id
            rows = await store.query(
                "SELECT s.name, e.seq, e.position, e.at_us FROM events e JOIN streams s ON"
                " s.id = e.stream WHERE s.tenant = ? AND s.space = ? ORDER BY e.position",
                (tenant, f"world:{world.id}"),
            )
            for tick in (0, 1, 49, 50, 77, TICKS):
                last: dict[str, tuple[int, int]] = {}
                for name, seq, position, at in rows:
                    if at <= tick:
                        last[name] = (seq, position)
                found = await reaches(store, tenant, world.id, tick=tick)
                assert {one.stream.local: (one.seq, one.position) for one in found} == last

    asyncio.run(scenario())
