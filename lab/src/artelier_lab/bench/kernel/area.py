"""The area `kernel`: what a durable cycle costs, whether it stays so, and how fast a run comes back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from artelier_lab.bench.figures import Target, judge, rounded
from artelier_lab.bench.imports import bench_imports
from artelier_lab.bench.kernel.crowd import bench_crowd
from artelier_lab.bench.kernel.cycle_cpu import bench_cycle_cpu
from artelier_lab.bench.kernel.growth import Sizes, bench_growth
from artelier_lab.bench.kernel.replay import bench_replay
from artelier_lab.bench.kernel.resume import bench_resume
from artelier_lab.bench.machine import machine_facts

TARGETS = {
    "cpu_ms_per_cycle": Target(at_most=0.45),
    "cpu_ms_per_cycle_2000_shown": Target(at_most=0.53),
    "commits_per_cycle": Target(at_most=2.0),
    "wall_over_floor": Target(at_most=2.5),
    "bytes_per_cycle": Target(at_most=3 * 1024),
    "agent_bytes_per_cycle": Target(at_most=4 * 1024),
    "growth_cpu_10000_over_100": Target(at_most=1.1),
    "growth_bytes_10000_over_100": Target(at_most=1.1),
    "resume_ms_10000": Target(at_most=45),
    "replay_steps_per_s": Target(at_least=5_000),
    "cycles_per_s_1000_runs": Target(at_least=1_500),
    "fsyncs_per_cycle": Target(at_most=0.05),
    "import_cpu_ms": Target(at_most=150),
    "import_kernel_cpu_ms": Target(at_most=120),
    "help_cpu_ms": Target(at_most=250),
}

UNITS = {
    "bytes_per_cycle": "bytes on disk per cycle of 0.76 KB payload, at cycle 10,000",
    "agent_bytes_per_cycle": "the same of the autonomous agent, its manifest and snapshots included",
    "cpu_ms_per_cycle": "ms of CPU, all threads, one run, one commit per cycle, 20 messages shown",
    "cpu_ms_per_cycle_2000_shown": "the same with 2,000 messages shown",
    "wall_over_floor": "wall time over two bare commits of the same bytes on the same disk",
    "fsyncs_per_cycle": "commits and the fsyncs of checkpoints, 1,000 runs at once",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    """The sizes of the benchmark; the names of figures hold for the full plan."""

    growth: Sizes = field(default_factory=Sizes)
    cpu_block: int = 200
    cpu_blocks: int = 9
    runs: int = 1_000
    replay_steps: int = 6_000
    resume_steps: int = 10_000
    import_times: int = 9


_QUICK = _Plan(
    growth=Sizes(cycles=1_200, block=100, floors=3, pairs=3),
    cpu_block=50,
    cpu_blocks=3,
    runs=50,
    replay_steps=1_000,
    resume_steps=400,
    import_times=2,
)

SIZED = (
    "growth_cpu_10000_over_100",
    "growth_bytes_10000_over_100",
    "resume_ms_10000",
    "bytes_per_cycle",
    "cycles_per_s_1000_runs",
    "fsyncs_per_cycle",
    "agent_bytes_per_cycle",
)
"""Figures that mean what they are called only at full size."""


def bench_kernel(*, quick: bool, directory: Path, progress: Callable[[str], None]) -> dict[str, Any]:
    """All figures of the kernel, `targets`, `units` and `machine`. Databases go to `directory`."""
    plan = _QUICK if quick else _Plan()
    machine = machine_facts(directory)
    figures = {
        **bench_imports(times=plan.import_times, progress=progress),
        **bench_growth(directory, plan.growth, progress),
        **bench_cycle_cpu(directory, block=plan.cpu_block, blocks=plan.cpu_blocks, progress=progress),
        **bench_crowd(directory, runs=plan.runs, progress=progress),
        **bench_replay(directory, steps=plan.replay_steps, progress=progress),
        **bench_resume(directory, steps=plan.resume_steps, progress=progress),
    }
    figures = {name: rounded(value) for name, value in figures.items()}
    return {
        **figures,
        "targets": judge(figures, TARGETS, unjudged=SIZED if quick else ()),
        "units": UNITS,
        "machine": machine,
    }
