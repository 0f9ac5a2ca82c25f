"""Benchmarks: what a thing costs, against what it must cost, on the machine at hand."""

from artelier.testing.bench.areas import AREAS, run_bench
from artelier.testing.bench.figures import Target, judge

__all__ = ["AREAS", "Target", "judge", "run_bench"]
