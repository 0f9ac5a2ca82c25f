"""Benchmarks: what a thing costs, against what it must cost, on the machine at hand."""

from artelier_lab.bench.areas import AREAS, run_bench
from artelier_lab.bench.figures import Target, judge

__all__ = ["AREAS", "Target", "judge", "run_bench"]
