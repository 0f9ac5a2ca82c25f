"""Torture: seeds hold every promise, planted bugs are found, and a failure can be repeated."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest

from artelier.errors import InvalidRequest
from artelier.testing.torture import PLANTS, run_torture
from artelier.testing.torture.trial import simulate
from artelier.testing.torture.world_plants import WORLD_PLANTS


def test_seeds_hold_every_promise(tmp_path: Path) -> None:
    report = run_torture(2, start=1_000, jobs=1, directory=tmp_path, keep=True)

    assert report["failures"] == []
    assert (report["ok"], report["seeds"]) == (True, 2)
    assert sum(n for fault, n in report["faults"].items() if fault.startswith("crash")) > 2
    assert report["statuses"]["completed"] > 2


@pytest.mark.parametrize(
    ("plant", "invariant"),
    [
        ("double-step", "I4"),
        ("unbalanced-posting", "I3"),
        ("changed-prompt", "I6"),
        ("acting-fork", "forks' effects"),
    ],
)
def test_a_planted_bug_is_found_within_few_seeds(tmp_path: Path, plant: str, invariant: str) -> None:
    report = run_torture(6, start=3, plant=plant, jobs=1, failures_max=1, directory=tmp_path)

    (failure,) = report["failures"]
    assert any(finding["invariant"].startswith(invariant) for finding in failure["findings"])
    assert failure["command"] == (f"artelier torture --seeds 1 --start {failure['seed']} --plant {plant}")


@pytest.mark.slow
@pytest.mark.parametrize("plant", sorted(PLANTS.keys() - WORLD_PLANTS.keys()))
def test_every_plant_is_found(tmp_path: Path, plant: str) -> None:
    report = run_torture(12, plant=plant, jobs=1, failures_max=1, directory=tmp_path)

    assert not report["ok"]


def test_a_plant_is_gone_when_its_trial_is_over(tmp_path: Path) -> None:
    found = run_torture([0], plant="double-step", jobs=1, directory=tmp_path)

    assert not found["ok"]
    assert run_torture([0], jobs=1, directory=tmp_path)["ok"]


def test_the_same_seed_gives_the_same_history(tmp_path: Path) -> None:
    def history(name: str) -> list[Any]:
        path = tmp_path / name
        simulate(1, path, faults=True)
        with sqlite3.connect(path) as db:
            rows = db.execute("SELECT kind, at_us, actor FROM events ORDER BY position").fetchall()
        db.close()
        return rows

    assert history("a.db") == history("b.db")


def test_databases_of_failed_seeds_are_kept_on_request(tmp_path: Path) -> None:
    report = run_torture([0], plant="changed-prompt", jobs=1, directory=tmp_path, keep=True)

    (failure,) = report["failures"]
    assert (Path(failure["databases"]) / "0.db").is_file()


def test_progress_is_told_per_seed(tmp_path: Path) -> None:
    lines: list[str] = []

    run_torture([6, 14], jobs=1, directory=tmp_path, progress=lines.append)

    assert lines == ["seed 6 (1 of 2, 0 failed)", "seed 14 (2 of 2, 0 failed)"]


def test_an_unknown_plant_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="no such plant"):
        run_torture(1, plant="weeds")


def test_a_plant_with_real_processes_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="simulator only"):
        run_torture(1, plant="double-step", real=True)


@pytest.mark.slow
def test_many_seeds_hold_every_promise(tmp_path: Path) -> None:
    report = run_torture(4, start=2_000, directory=tmp_path)

    assert report["failures"] == []


@pytest.mark.slow
def test_an_agent_that_is_killed_again_and_again_comes_to_the_same_end(tmp_path: Path) -> None:
    report = run_torture(1, real=True, jobs=1, directory=tmp_path, keep=True)

    assert report["failures"] == []
    assert report["faults"]["kill -9"] > 1
    assert report["statuses"] == {"completed": 1}
