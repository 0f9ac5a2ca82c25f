"""The area `context`: what assembling, recording, caching and counting prompts cost, and whether it lasts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from artelier_lab.bench.context import counting
from artelier_lab.bench.context.assembly import bench_assembly
from artelier_lab.bench.context.caching import bench_caching
from artelier_lab.bench.context.prefix import bench_prefix
from artelier_lab.bench.context.progressive import bench_progressive
from artelier_lab.bench.figures import Target, judge, rounded
from artelier_lab.bench.kernel.turns import WINDOW_TOKENS, Turns, bench_turns
from artelier_lab.bench.machine import machine_facts

TARGETS = {
    "assemble_ms_200_sections_100k_tokens": Target(at_most=5),
    "manifest_bytes_per_step": Target(at_most=400),
    "prefix_shared_ratio": Target(at_least=0.95),
    "token_estimate_error": Target(at_most=0.03),
    "skills_first_prompt_saving": Target(at_least=0.85),
    "growth_cpu_2000_over_100": Target(at_most=1.1),
    "prompt_tokens_max": Target(at_most=WINDOW_TOKENS),
    "render_differing_bytes": Target(at_most=0),
    "cached_input_price_ratio_50_calls": Target(at_most=0.2),
}

UNITS = {
    "assemble_ms_200_sections_100k_tokens": "ms of CPU, with or without a budget, whichever is more",
    "manifest_bytes_per_step": "bytes of event and new content when only the conversation grew",
    "manifest_bytes_per_step_recalled": "the same when other memories are recalled each turn",
    "prefix_shared_ratio": "of the previous prompt without its tail, no compaction or memory write",
    "prefix_turns_compacted": "turns left out: a compaction made the prompt anew",
    "prefix_turns_memory": "turns left out: core memory was written",
    "token_estimate_error": "mean of |estimate - bill| / bill, after the first reply",
    "token_estimate_error_max": "the worst prompt of all: the second one, or one after a compaction",
    "skills_first_prompt_saving": "of the first request with 50 tools sent natively",
    "skills_task_saving": "of all requests of a task: 3 skills loaded, 8 calls",
    "skills_task_saving_cached": "the same with cached input at a tenth of the price",
    "cpu_ms_per_turn_at_100": "ms of CPU of an agent's turn, compactions included, 16k window",
    "cpu_ms_per_turn_at_2000": "the same at turn 2,000",
    "bytes_per_turn_at_100": "bytes on disk per turn of 0.76 KB payload, compactions included",
    "bytes_per_turn_at_2000": "the same at turn 2,000",
    "cached_input_price_ratio_50_calls": "input cost of a run over that without a cache, as Anthropic bills",
    "render_differing_bytes": "of all prompts of that run, rendered again from the log",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    """The sizes of the benchmark; the names of figures hold for the full plan."""

    turns: Turns = field(default_factory=Turns)
    prefix_turns: int = 150
    counted_turns: int = 80
    assemblies: int = 50


_QUICK = _Plan(turns=Turns(middle=240, pairs=1), prefix_turns=40, counted_turns=30, assemblies=10)

SIZED = ("growth_cpu_2000_over_100",)
"""Figures that mean what they are called only at full size."""


def bench_context(*, quick: bool, directory: Path, progress: Callable[[str], None]) -> dict[str, Any]:
    """All figures of prompts, `targets`, `units` and `machine`. Databases go to `directory`.

    Without the package `tokenizers` there is nothing to count with: its figures are left out, and
    `unmeasured` names them.
    """
    plan = _QUICK if quick else _Plan()
    machine = machine_facts(directory)
    figures = {
        **bench_assembly(times=plan.assemblies, progress=progress),
        **bench_prefix(directory, turns=plan.prefix_turns, progress=progress),
        **bench_progressive(directory, progress=progress),
        **bench_turns(directory, plan.turns, progress=progress),
        "cached_input_price_ratio_50_calls": bench_caching(directory),
    }
    if counting.is_possible():
        figures |= counting.bench_counting(directory, turns=plan.counted_turns, progress=progress)
    figures = {name: rounded(value) for name, value in figures.items()}
    return {
        **figures,
        "targets": judge(figures, TARGETS, unjudged=SIZED if quick else ()),
        "unmeasured": sorted(TARGETS.keys() - figures.keys()),
        "units": UNITS,
        "machine": machine,
    }
