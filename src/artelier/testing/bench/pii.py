"""The area `pii`: how well personal data is found, and what a cycle costs with it replaced."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from artelier.pii.detectors import find_all, shipped
from artelier.testing.bench.figures import Target, rounded
from artelier.testing.bench.figures import judge as judge_figures
from artelier.testing.bench.machine import machine_facts
from artelier.testing.bench.pii_cost import bench_pii_cost
from artelier.testing.pii_corpus import judge

FINDING_TARGETS = {
    "recall_least": Target(at_least=0.98),
    "false_alarms_per_1000": Target(at_most=5),
}

FINDING_UNITS = {
    "recall": "part of the values that was found whole and under its kind, over all kinds",
    "recall_least": "the same for the kind of which the least was found",
    "false_alarms_per_1000": "texts without a value, of 1,000, in which anything was marked",
}

COST_UNITS = {
    "cpu_ms_per_cycle_off": "ms of CPU, all threads: a model step and a tool step, 20 messages shown",
    "cpu_ms_per_cycle_sealed": "the same with a vault key: content is encrypted",
    "cpu_ms_per_cycle_on": "the same with personal data replaced, too",
}


def bench_finding(*, quick: bool) -> dict[str, float]:
    """`recall` and `false_alarms_per_1000`, over all and for each kind: 500 values and look-alikes of each.

    `quick`: 100 of each. The figures mean the same, with less certainty.
    """
    marks = judge(find_all, shipped(), count=100 if quick else 500)
    figures = {
        "recall": marks.recall_total,
        "recall_least": min(marks.recall.values()),
        "false_alarms_per_1000": marks.false_alarms_total,
    }
    figures |= {f"recall_{kind.lower()}": part for kind, part in marks.recall.items()}
    figures |= {
        f"false_alarms_per_1000_{kind.lower()}": wrong for kind, wrong in marks.false_alarms.items()
    }
    return {name: rounded(value) for name, value in figures.items()}


def bench_pii(*, quick: bool, directory: Path, progress: Callable[[str], None]) -> dict[str, Any]:
    """All figures of the area, `targets`, `units` and `machine`. Databases go to `directory`."""
    machine = machine_facts(directory)
    progress("pii: the corpus")
    figures = bench_finding(quick=quick)
    blocks, block = (3, 40) if quick else (15, 200)
    cost = bench_pii_cost(directory, blocks=blocks, block=block, progress=progress)
    figures |= {name: rounded(value) for name, value in cost.items()}
    return {
        **figures,
        "targets": judge_figures(figures, FINDING_TARGETS),
        "units": {**FINDING_UNITS, **COST_UNITS},
        "machine": machine,
    }
