"""A society passed to its end, and what became of its money: figures, and the promises that were broken."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from artelier import Kernel
from artelier.testing.economy.books import consent_findings
from artelier.testing.economy.societies import SOCIETIES, Society, Townsfolk
from artelier.world import World
from artelier.world.figures.metrics import tick_metrics
from artelier.world.genesis import found

WORLD = "society"

IN_HANDS_MIN = 0.8
"""Of the money at the start: what agents have after every tick, services and mint apart."""

STEPS = 20
"""Parts in which a society is passed: after each, its progress is told."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EconomyReport:
    """The outcome of a society."""

    society: str
    ticks: int
    payments: int
    """Sales and uses that were paid for."""
    overpaid: tuple[str, ...]
    """Each payment above what was agreed to."""
    in_hands_least: float
    """The least part of the money at the start that agents have had after a tick."""
    median_gain: float
    """Of all agents, in scrip."""
    gains: Mapping[str, int]
    """By strategy, of the agent that has gained most by it."""

    @property
    def findings(self) -> list[str]:
        """The promises that were broken, in words; none if the economy conforms."""
        found = list(self.overpaid)
        if self.in_hands_least < IN_HANDS_MIN:
            found.append(f"agents had {self.in_hands_least:.0%} of the money at the start")
        found += [
            f"{strategy} has gained {gain}, the median is {self.median_gain:g}"
            for strategy, gain in self.gains.items()
            if strategy != "work" and gain > self.median_gain
        ]
        return found


async def play_society(
    name: str,
    folder: Path,
    *,
    ticks: int,
    seed: int = 0,
    world: Mapping[str, Any] | None = None,
    progress: Callable[[str], None] | None = None,
) -> EconomyReport:
    """Pass a society of `SOCIETIES` and judge it; its database is left in `folder`.

    `world` are settings of the world, such as `{"rules": 1}` for what older worlds do.
    """
    society = SOCIETIES[name](seed, world or {})
    kernel = Kernel.open(folder / f"{name}.db", models={"townsfolk": Townsfolk()}, environ={})
    try:
        living = await found(kernel, WORLD, society.spec, policies=society.policies)
        for part in range(STEPS):
            until = ticks * (part + 1) // STEPS
            await living.run(ticks=until - await living.tick_now())
            if progress is not None:
                progress(f"economy: {name}, tick {until} of {ticks}")
        report = await _report(society, living)
        await living.close()
        return report
    finally:
        await kernel.aclose()


async def _report(society: Society, world: World) -> EconomyReport:
    least, start, payments = 1.0, 0, 0
    first: Mapping[str, int] = {}
    last: Mapping[str, int] = {}
    async for one in tick_metrics(world, from_tick=0):
        if not one.tick:
            start, first = one.agents, dict(one.balances)
        least = min(least, one.agents / start)
        payments += one.trades
        last = one.balances
    gains = {agent: last[agent] - before for agent, before in first.items()}
    best: dict[str, int] = {}
    for agent, strategy in society.strategies.items():
        best[strategy] = max(best.get(strategy, gains[agent]), gains[agent])
    return EconomyReport(
        society=society.name,
        ticks=await world.tick_now(),
        payments=payments,
        overpaid=tuple(await consent_findings(world, caps=society.caps)),
        in_hands_least=least,
        median_gain=median(gains.values()),
        gains=best,
    )
