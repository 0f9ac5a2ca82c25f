"""Torture of missions: seeds keep every promise. Its planted bugs are in `test_torture.py`."""

from __future__ import annotations

import sqlite3
from collections import Counter
from pathlib import Path

from artelier_lab.torture.missions.simulation import draw_mission, try_mission


def test_seeds_keep_every_promise_of_missions(tmp_path: Path) -> None:
    verdicts = [try_mission(seed, tmp_path) for seed in (1, 9)]

    assert [one.findings for one in verdicts] == [[]] * 2
    assert [one.statuses["mission ended"] for one in verdicts] == [1] * 2
    faults = sum((one.counts for one in verdicts), Counter[str]())
    assert sum(n for fault, n in faults.items() if "crash at commit" in fault) > 1


def test_missions_fail_write_and_wait_for_each_other() -> None:
    tasks = [task for seed in range(40) for task in draw_mission(seed).values()]

    assert {task.decisions[-1] for task in tasks} == {"write", "give_up"}
    assert {bool(task.after) for task in tasks} == {task.is_rejected for task in tasks}
    assert {kind for task in tasks for kind in task.decisions} >= {"look", "pay", "analyze"}


def test_a_mission_is_left_for_whoever_looks_into_a_failure(tmp_path: Path) -> None:
    try_mission(1, tmp_path)

    with sqlite3.connect(tmp_path / "1-mission.db") as db:
        tasks = {task for (task,) in db.execute("SELECT task FROM tasks")}
    db.close()
    assert tasks == {f"m/{slug}" for slug in draw_mission(1)}
