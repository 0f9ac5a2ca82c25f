"""A whole trial: each input, then a run that freezes its server; and the figures of all."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from artelier_lab.availability.inputs import INPUTS
from artelier_lab.availability.life import Life, live
from artelier_lab.availability.scene import Input
from artelier_lab.availability.served import PLANTS
from artelier_lab.availability.trial import MEASURED_S_MIN, House, Result, furnish, try_input

__all__ = ["INPUTS", "PLANTS", "Input", "Result", "chosen", "run_availability"]


def chosen(names: Sequence[str]) -> tuple[Input, ...]:
    """Return the inputs of these names, all without names. Errors: `KeyError`."""
    known = {one.name: one for one in INPUTS}
    return tuple(known[name] for name in names) if names else INPUTS


def run_availability(
    names: Sequence[str] = (),
    *,
    plant: str = "",
    freezes: bool = True,
    measured_s: float = MEASURED_S_MIN,
    told: Callable[[Result], None] = lambda one: None,
) -> dict[str, Any]:
    """Try inputs one after the other and return what `artelier torture --availability --json` prints.

    `freezes`: at the end, with a run that freezes every server that drives it.
    """
    with tempfile.TemporaryDirectory(prefix="artelier-") as folder:
        return asyncio.run(
            _run(Path(folder), chosen(names), plant=plant, freezes=freezes, measured_s=measured_s, told=told)
        )


async def _run(
    folder: Path,
    inputs: Sequence[Input],
    *,
    plant: str,
    freezes: bool,
    measured_s: float,
    told: Callable[[Result], None],
) -> dict[str, Any]:
    results, life = list[Result](), None
    house = House(folder, plant=plant)
    await house.start()
    try:
        await furnish(house)
        for one in inputs:
            results.append(await try_input(house, one, measured_s=measured_s))
            told(results[-1])
        if freezes:
            life = await live(house)
    finally:
        house.kill()
    return summary(results, life)


def summary(results: Sequence[Result], life: Life | None) -> dict[str, Any]:
    """Return the figures of a whole trial."""
    lines = [{**asdict(one), "is_correct": one.is_correct, "is_quick": one.is_quick} for one in results]
    return {
        "ok": all(one.is_correct and one.is_quick for one in results) and (life is None or life.is_good),
        "inputs": len(results),
        "twins_ok": sum(one.twin_ok for one in results),
        "worst_other_tenant_ms_p99": max(one.ms_p99 for one in results),
        "worst_other_tenant_ms_max": max(one.ms_max for one in results),
        "worst_step_ms_p99": max(one.step_ms_p99 for one in results),
        "worst_step_ms_max": max(one.step_ms_max for one in results),
        "worst_heartbeat_ms_max": max(one.heartbeat_ms_max for one in results),
        "rss_mb_max": max(one.rss_mb_max for one in results),
        "frozen": sum(one.frozen for one in results),
        "parked": int(life is not None and life.is_parked),
        "life": None if life is None else asdict(life),
        "lines": lines,
    }
