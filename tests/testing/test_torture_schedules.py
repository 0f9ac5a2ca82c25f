"""Torture of schedules: seeds keep every promise. Its planted bugs are in `test_torture.py`."""

from __future__ import annotations

from pathlib import Path

from artelier_lab.torture.schedules.simulation import try_schedules


def test_seeds_keep_every_promise_of_schedules(tmp_path: Path) -> None:
    verdicts = [try_schedules(seed, tmp_path) for seed in range(2_000, 2_003)]

    assert [one.findings for one in verdicts] == [[]] * 3
    crashes = sum(n for one in verdicts for fault, n in one.counts.items() if "crash" in fault)
    assert crashes > 3
    assert {one.statuses["schedules kept"] for one in verdicts} == {1}
