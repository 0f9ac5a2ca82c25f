"""The area `world`: how many durable actions a second, whether that stays so, and what it takes."""

from __future__ import annotations

import asyncio
import json
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from artelier import Kernel
from artelier.world import World
from artelier_lab.bench.figures import Target, judge, median, rounded
from artelier_lab.bench.kernel.growth import store_bytes
from artelier_lab.bench.machine import machine_facts
from artelier_lab.bench.processes import compiling_environ, python
from artelier_lab.bench.world.setup import economy, giving, world_of

TARGETS = {
    "actions_per_s_1000_agents": Target(at_least=10_000),
    "actions_per_s_reflex_1000_agents": Target(at_least=2_000),
    "cpu_us_per_action_1000_over_100_agents": Target(at_most=1.2),
    "cpu_us_per_action_10000_over_100_artifacts": Target(at_most=1.2),
    "rss_mb_100000_agents": Target(at_most=4_096),
}

UNITS = {
    "actions_per_s_1000_agents": "durable actions of trusted rules, 10,000 artifacts; median of ticks",
    "transfers_per_s_1000_agents": "the same where every action is a payment",
    "actions_per_s_reflex_1000_agents": "durable actions of ten-line reflexes in the sandbox",
    "cpu_us_per_action": "us of CPU, all threads, 1,000 agents and 10,000 artifacts",
    "cpu_us_per_action_1000_over_100_agents": "CPU of one action in worlds of these sizes",
    "cpu_us_per_action_10000_over_100_artifacts": "the same by the number of artifacts, 100 agents",
    "bytes_per_action": "growth of the database, its log written back",
    "rss_mb_100000_agents": "peak memory of a process that makes such a world and passes two ticks",
}

SIZED = tuple(TARGETS)
"""Figures that mean what they are called only at full size: all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    """The sizes of the benchmark; the names of figures hold for the full plan."""

    agents: int = 1_000
    few: int = 100
    artifacts: int = 10_000
    ticks: int = 15
    reflex_ticks: int = 4
    crowd: int = 100_000


_QUICK = _Plan(agents=100, few=20, artifacts=500, ticks=3, reflex_ticks=2, crowd=2_000)

WARM_TICKS = 3
"""Ticks before anything is measured: what is read once is read by then."""

ACTIONS_MIN = 500
"""In one measurement of a ratio: a hundred actions are too few to tell from what else goes on."""


class _Cost(NamedTuple):
    """The cost of one tick, per action."""

    wall_us: float
    cpu_us: float


class _Meter:
    """A world whose ticks are measured."""

    def __init__(self, kernel: Kernel, world: World, agents: int) -> None:
        self.kernel = kernel
        self.world = world
        self.agents = agents

    async def tick(self, times: int = 1) -> _Cost:
        """Pass ticks. Errors: `AssertionError` for a rejected action: then something else was measured."""
        cpu_s, wall_s = time.process_time(), time.perf_counter()
        for _ in range(times):
            passed = await self.world.tick()
            assert passed.rejected == 0, f"{passed.rejected} actions were rejected"
        wall_s, cpu_s = time.perf_counter() - wall_s, time.process_time() - cpu_s
        actions = times * self.agents
        return _Cost(wall_s * 1e6 / actions, cpu_s * 1e6 / actions)

    async def close(self) -> None:
        await self.world.close()
        await self.kernel.aclose()


async def _metered(
    path: Path, agents: int, artifacts: int, rule: Any, content: Mapping[str, Any] | None = None
) -> _Meter:
    kernel, world = await world_of(
        path, agents=agents, artifacts=artifacts, content=content or {"policy": "rule"}, rule=rule
    )
    meter = _Meter(kernel, world, agents)
    await meter.tick(WARM_TICKS)
    return meter


async def _rate(meter: _Meter, ticks: int) -> list[_Cost]:
    return [await meter.tick() for _ in range(ticks)]


async def _speed(folder: Path, plan: _Plan) -> dict[str, float]:
    path, rule = folder / "economy.db", economy(plan.agents, plan.artifacts)
    meter = await _metered(path, plan.agents, plan.artifacts, rule)
    try:
        before = store_bytes(path)
        costs = await _rate(meter, plan.ticks)
        grown = store_bytes(path) - before
    finally:
        await meter.close()
    return {
        "actions_per_s_1000_agents": 1e6 / median([cost.wall_us for cost in costs]),
        "cpu_us_per_action": median([cost.cpu_us for cost in costs]),
        "bytes_per_action": grown / (plan.ticks * plan.agents),
    }


async def _transfers(folder: Path, plan: _Plan) -> dict[str, float]:
    meter = await _metered(folder / "giving.db", plan.agents, plan.artifacts, giving(plan.agents))
    try:
        costs = await _rate(meter, plan.ticks)
    finally:
        await meter.close()
    return {"transfers_per_s_1000_agents": 1e6 / median([cost.wall_us for cost in costs])}


async def _reflexes(folder: Path, plan: _Plan) -> dict[str, float]:
    meter = await _metered(
        folder / "reflexes.db", plan.agents, plan.agents, None, {"reflex_artifact_id": "reflex"}
    )
    try:
        costs = await _rate(meter, plan.reflex_ticks)
    finally:
        await meter.close()
    return {"actions_per_s_reflex_1000_agents": 1e6 / median([cost.wall_us for cost in costs])}


async def _ratio(small: _Meter, large: _Meter, ticks: int) -> float:
    """CPU of an action in the large world over that in the small one: neighbours in time are compared."""
    least = max(small.agents, large.agents, ACTIONS_MIN)
    try:
        pairs = [
            (await small.tick(least // small.agents), await large.tick(least // large.agents))
            for _ in range(ticks)
        ]
    finally:
        await small.close()
        await large.close()
    return median([many.cpu_us / few.cpu_us for few, many in pairs])


async def _ratios(folder: Path, plan: _Plan) -> dict[str, float]:
    agents, few, artifacts = plan.agents, plan.few, plan.artifacts
    by_agents = await _ratio(
        await _metered(folder / "few.db", few, agents, economy(few, agents)),
        await _metered(folder / "many.db", agents, agents, economy(agents, agents)),
        plan.ticks,
    )
    by_artifacts = await _ratio(
        await _metered(folder / "bare.db", few, few, economy(few, few)),
        await _metered(folder / "rich.db", few, artifacts, economy(few, artifacts)),
        plan.ticks,
    )
    return {
        "cpu_us_per_action_1000_over_100_agents": by_agents,
        "cpu_us_per_action_10000_over_100_artifacts": by_artifacts,
    }


def _room(folder: Path, agents: int) -> dict[str, float]:
    """Peak memory of a child process that makes a world of so many agents and passes two ticks."""
    done = subprocess.run(
        [*python("-m", "artelier_lab.bench.world.room"), str(folder / "room.db"), str(agents)],
        check=True,
        capture_output=True,
        text=True,
        env=compiling_environ(),
    )
    told: dict[str, float] = json.loads(done.stdout)
    return {"rss_mb_100000_agents": told["rss_mb"]}


def bench_world(*, quick: bool, directory: Path, progress: Callable[[str], None]) -> dict[str, Any]:
    """All figures of worlds, `targets`, `units` and `machine`. Databases go to `directory`."""
    plan = _QUICK if quick else _Plan()
    machine = machine_facts(directory)
    figures: dict[str, float] = {}
    for text, part in (
        (f"{plan.agents} agents, {plan.artifacts} artifacts", _speed),
        (f"payments of {plan.agents} agents", _transfers),
        (f"reflexes of {plan.agents} agents", _reflexes),
        ("small and large worlds in turns", _ratios),
    ):
        progress(f"world: {text}")
        figures |= asyncio.run(part(directory, plan))
    progress(f"world: memory of {plan.crowd} agents")
    figures |= _room(directory, plan.crowd)
    figures = {name: rounded(value) for name, value in figures.items()}
    return {
        **figures,
        "targets": judge(figures, TARGETS, unjudged=SIZED if quick else ()),
        "units": UNITS,
        "machine": machine,
    }
