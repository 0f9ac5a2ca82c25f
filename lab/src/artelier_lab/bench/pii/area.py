"""The area `pii`: how well and how fast personal data is found, and what a cycle costs with it replaced."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random
from time import process_time
from typing import Any

from artelier.pii.detectors import builtin_detectors, find_all
from artelier_lab.bench.figures import Target, rounded
from artelier_lab.bench.figures import judge as judge_figures
from artelier_lab.bench.machine import machine_facts
from artelier_lab.bench.pii.cost import bench_pii_cost
from artelier_lab.pii.corpus import judge

FINDING_TARGETS = {"recall_least": Target(at_least=0.98), "false_alarms_per_1000": Target(at_most=5)}

FINDING_UNITS = {
    "recall": "part of the values that was found whole and under its kind, over all kinds",
    "recall_least": "the same for the kind of which the least was found",
    "false_alarms_per_1000": "texts without a value, of 1,000, in which anything was marked",
}

READING_TARGETS = {"read_us_per_kb_prose": Target(at_most=60), "read_us_per_kb_table": Target(at_most=60)}

READING_UNITS = {
    f"read_us_per_kb_{name}": f"µs of CPU for 1,000 characters of {what}, read by all shipped detectors"
    for name, what in (
        ("prose", "sentences"),
        ("table", "rows of figures and dates"),
        ("json", "records of large numbers, each behind the name of its field"),
    )
}

COST_UNITS = {
    "cpu_ms_per_cycle_off": "ms of CPU, all threads: a model step and a tool step, 20 messages shown",
    "cpu_ms_per_cycle_sealed": "the same with a vault key: content is encrypted",
    "cpu_ms_per_cycle_on": "the same with personal data replaced, too",
}


def bench_reading(*, quick: bool) -> dict[str, float]:
    """`read_us_per_kb_<of>`: CPU of the shipped detectors over 1,000 characters, the best of seven times."""
    random, figures = Random(1), dict[str, float]()
    rows = 100 if quick else 1_000
    texts = {
        "prose": "The letters of the north came late, and nobody in the office knew why.\n" * rows,
        "table": "".join(
            f"{random.randrange(2_000)},{random.randrange(10**12)},{random.random() * 900:.2f},"
            f"{random.randrange(10**9)},2024-{random.randrange(10, 13)}-{random.randrange(10, 29)}\n"
            for _ in range(rows)
        ),
        "json": "".join(
            f'{{"id": {random.randrange(10**10)}, "at": {random.randrange(10**13)}, "name": "a b"}}\n'
            for _ in range(rows)
        ),
    }
    for name, text in texts.items():
        times: list[float] = []
        for _ in range(7):
            began = process_time()
            found = find_all(builtin_detectors(), text)
            times.append(process_time() - began)
            assert not found
        figures[f"read_us_per_kb_{name}"] = min(times) * 1e9 / len(text)
    return figures


def bench_finding(*, quick: bool) -> dict[str, float]:
    """`recall` and `false_alarms_per_1000`, over all and for each kind: 500 values and look-alikes of each.

    `quick`: 100 of each. The figures mean the same, with less certainty.
    """
    marks = judge(find_all, builtin_detectors(), count=100 if quick else 500)
    figures = {
        "recall": marks.recall_total,
        "recall_least": min(marks.recall.values()),
        "false_alarms_per_1000": marks.false_alarms_total,
    }
    figures |= {f"recall_{kind.lower()}": part for kind, part in marks.recall.items()}
    figures |= {f"false_alarms_per_1000_{kind.lower()}": wrong for kind, wrong in marks.false_alarms.items()}
    return {name: rounded(value) for name, value in figures.items()}


def bench_pii(*, quick: bool, directory: Path, progress: Callable[[str], None]) -> dict[str, Any]:
    """All figures of the area, `targets`, `units` and `machine`. Databases go to `directory`."""
    machine = machine_facts(directory)
    progress("pii: the corpus")
    figures = bench_finding(quick=quick)
    figures |= {name: rounded(value) for name, value in bench_reading(quick=quick).items()}
    blocks, block = (3, 40) if quick else (15, 200)
    cost = bench_pii_cost(directory, blocks=blocks, block=block, progress=progress)
    figures |= {name: rounded(value) for name, value in cost.items()}
    return {
        **figures,
        "targets": judge_figures(figures, {**FINDING_TARGETS, **READING_TARGETS}),
        "units": {**FINDING_UNITS, **READING_UNITS, **COST_UNITS},
        "machine": machine,
    }
