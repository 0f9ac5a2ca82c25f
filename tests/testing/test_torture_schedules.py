"""Torture of schedules: seeds keep every promise, planted bugs are found."""

from __future__ import annotations

from pathlib import Path

import pytest

from artelier.testing.torture import run_torture
from artelier.testing.torture.schedules import try_schedules
from artelier.testing.torture.schedules_plants import SCHEDULE_PLANTS


def test_seeds_keep_every_promise_of_schedules(tmp_path: Path) -> None:
    verdicts = [try_schedules(seed, tmp_path) for seed in range(2_000, 2_006)]

    assert [one.findings for one in verdicts] == [[]] * 6
    crashes = sum(n for one in verdicts for fault, n in one.counts.items() if "crash" in fault)
    assert crashes > 6
    assert {one.statuses["schedules kept"] for one in verdicts} == {1}


@pytest.mark.parametrize("plant", sorted(SCHEDULE_PLANTS))
def test_a_planted_bug_of_schedules_is_found(tmp_path: Path, plant: str) -> None:
    report = run_torture(6, start=1, plant=plant, jobs=1, failures_max=1, directory=tmp_path)

    (failure,) = report["failures"]
    assert failure["findings"][0]["invariant"].startswith("schedules: ")
    assert failure["command"].endswith(f"--plant {plant}")


def test_torture_lists_what_was_kept(tmp_path: Path) -> None:
    report = run_torture(1, start=5, jobs=1, directory=tmp_path)

    assert (report["ok"], report["statuses"]["schedules kept"]) == (True, 1)
