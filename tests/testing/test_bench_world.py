"""The benchmark of worlds measures what it says: honest actions, all of them done, in worlds of that size."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from artelier.world import World
from artelier.world.events import world_stream
from artelier_lab.bench import run_bench
from artelier_lab.bench.world.area import TARGETS
from artelier_lab.bench.world.room import measure
from artelier_lab.bench.world.setup import economy, giving, world_of


async def acts(world: World) -> list[dict[str, Any]]:
    """Data of all events of the world's stream that carry an act."""
    stream = world_stream(world.host.id, world.id)
    events = await world.host.services.store.read(stream, limit=10_000)
    return [one.plain() for one in events if "act" in one.plain()]


def test_a_world_of_the_asked_size_is_made_in_few_commits(tmp_path: Path) -> None:
    async def scenario() -> tuple[int, int, int]:
        kernel, world = await world_of(
            tmp_path / "w.db", agents=30, artifacts=70, content={"policy": "rule"}, rule=giving(30)
        )
        rows = await kernel.store.query(
            "SELECT count(*) FROM artifacts WHERE space = 'world:w' AND kind = 'document'"
        )
        found = (len(await world.agents()), rows[0][0], kernel.store.commits)
        await kernel.aclose()
        return found

    agents, documents, commits = asyncio.run(scenario())

    assert (agents, documents) == (30, 70)
    assert commits < 10


def test_the_economy_pays_reads_writes_and_waits_and_nothing_is_rejected(tmp_path: Path) -> None:
    async def scenario() -> tuple[Counter[str], int]:
        kernel, world = await world_of(
            tmp_path / "w.db", agents=40, artifacts=60, content={"policy": "rule"}, rule=economy(40, 60)
        )
        passed = await world.run(ticks=5)
        done = Counter(one["act"]["action"] for one in await acts(world))
        assert kernel.verify().ok
        await kernel.aclose()
        return done, sum(one.rejected for one in passed)

    done, rejected = asyncio.run(scenario())

    assert rejected == 0
    assert done.keys() == {"transfer", "read", "write", "noop"}
    assert done["transfer"] > done["read"] > done["write"]


def test_reflexes_act_without_a_model(tmp_path: Path) -> None:
    async def scenario() -> list[dict[str, Any]]:
        kernel, world = await world_of(
            tmp_path / "w.db", agents=10, artifacts=10, content={"reflex_artifact_id": "reflex"}
        )
        await world.tick()
        found = await acts(world)
        await world.close()
        await kernel.aclose()
        return found

    found = asyncio.run(scenario())

    assert [one["act"]["source"] for one in found] == ["reflex"] * 10
    assert {one["act"]["action"] for one in found} == {"transfer"}
    assert all(one["postings"] for one in found)


def test_memory_is_that_of_a_world_that_has_acted(tmp_path: Path) -> None:
    told = asyncio.run(measure(tmp_path / "room.db", 50))

    assert told["rss_mb"] > 10
    assert told["tick_s"] > 0


@pytest.mark.slow
def test_the_quick_benchmark_has_every_figure(tmp_path: Path) -> None:
    result = run_bench("world", quick=True, directory=tmp_path)

    assert result.keys() >= TARGETS.keys() | {"bytes_per_action", "cpu_us_per_action"}
    assert {target["met"] for target in result["targets"].values()} == {None}
    assert list(tmp_path.iterdir()) == [], "databases are removed again"
