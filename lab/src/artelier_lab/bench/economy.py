"""The area `economy`: 1,000 ticks of four societies; who overpays, holds money, and earns without work."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from artelier.testing.economy import SOCIETIES, EconomyReport, play_society
from artelier.testing.economy.books import IN_HANDS_MIN
from artelier_lab.bench.figures import Target, judge, rounded
from artelier_lab.bench.machine import machine_facts

TICKS, TICKS_QUICK = 1_000, 50
SEED = 1

TARGETS = {
    name: target
    for society in SOCIETIES
    for name, target in (
        (f"{society}_overpaid", Target(at_most=0)),
        (f"{society}_in_hands_least", Target(at_least=IN_HANDS_MIN)),
        (f"{society}_idle_over_median", Target(at_most=0)),
    )
}

UNITS = {
    "payments": "sales and uses that were paid for",
    "overpaid": "payments above the price that the payer's thought saw",
    "in_hands_least": "least part of the money at the start that agents had after a tick",
    "median_gain": "scrip that the median agent has gained",
    "idle_over_median": "scrip that the best agent without work has gained beyond the median",
}


def figures_of(report: EconomyReport) -> dict[str, float]:
    """Return the figures of one society, each under its name."""
    idle = max(gain for strategy, gain in report.gains.items() if strategy != "work")
    figures = {
        "payments": report.payments,
        "overpaid": len(report.overpaid),
        "in_hands_least": report.in_hands_least,
        "median_gain": report.median_gain,
        "idle_over_median": idle - report.median_gain,
    }
    return {f"{report.society}_{name}": rounded(value) for name, value in figures.items()}


def bench_economy(*, quick: bool, directory: Path, progress: Callable[[str], None]) -> dict[str, Any]:
    """Measure all societies: their figures, `targets`, `units` and `machine`. Databases go to `directory`."""
    figures: dict[str, float] = {}
    for name in SOCIETIES:
        ticks = TICKS_QUICK if quick else TICKS
        report = asyncio.run(play_society(name, directory, ticks=ticks, seed=SEED, progress=progress))
        figures |= figures_of(report)
    return {
        **figures,
        "targets": judge(figures, TARGETS, unjudged=tuple(TARGETS) if quick else ()),
        "units": UNITS,
        "machine": machine_facts(directory),
    }
