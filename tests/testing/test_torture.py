"""Torture: seeds hold every promise, planted bugs are found, and a failure can be repeated."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import artelier_lab.torture.real
from artelier.errors import InvalidRequest
from artelier_lab.pgbouncer import find_pgbouncer
from artelier_lab.torture import PLANTS, run_torture, virtual
from artelier_lab.torture.missions.simulation import try_mission
from artelier_lab.torture.plants import planted
from artelier_lab.torture.schedules.simulation import try_schedules
from artelier_lab.torture.simulation import in_virtual_time
from artelier_lab.torture.trial import simulate

FOUND = {
    "acting-fork": (2, "forks' effects"),
    "believed-probe": (3, "I4: steps happen once"),
    "blind-overlap": (0, "schedules: overlap"),
    "changed-prompt": (3, "I6: prompts render"),
    "double-sale": (0, "world: sales"),
    "double-step": (3, "I4: steps happen once"),
    "forgiven-overrun": (7, "I7: an overrun is debt"),
    "forgotten-cancellation": (4, "replays are quiet"),
    "forgotten-hold": (3, "I3: money is conserved"),
    "forgotten-pay": (0, "a world goes on"),
    "forgotten-version": (1, "replays are quiet"),
    "hasty-tasks": (2, "mission: tasks begin in order"),
    "left-standing": (8, "what was done is undone once"),
    "lenient-judge": (0, "mission: what is done was judged"),
    "lost-time": (0, "schedules: each time once"),
    "open-secrets": (0, "world: rights"),
    "raised-price": (0, "world: consent"),
    "repeated-payment": (3, "I4: steps happen once"),
    "tolerated-drift": (5, "I4: steps happen once"),
    "torn-tick": (1, "world: ticks"),
    "twice-undone": (1, "what was done is undone once"),
    "unasked-consent": (12, "world: consent"),
    "unbalanced-posting": (1, "I3: money is conserved"),
    "unbilled-cancel": (0, "I7: every attempt is billed"),
    "uncounted-licence": (5, "world: licences"),
    "unfenced": (74, "I4: steps happen once"),
}
"""A seed that shows each plant soon, and the promise that the plant breaks there."""


@pytest.fixture(scope="module")
def tried(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], list[str]]:
    """What two whole seeds came to, and what was told meanwhile."""
    lines: list[str] = []
    folder = tmp_path_factory.mktemp("torture")
    return run_torture([9, 14], jobs=1, directory=folder, keep=True, progress=lines.append), lines


def test_seeds_hold_every_promise(tried: tuple[dict[str, Any], list[str]]) -> None:
    report, _ = tried

    assert report["failures"] == []
    assert (report["ok"], report["seeds"]) == (True, 2)
    assert sum(n for fault, n in report["faults"].items() if fault.startswith("crash")) > 2
    assert report["statuses"]["completed"] > 2


def test_one_command_covers_kernel_world_schedules_and_missions(
    tried: tuple[dict[str, Any], list[str]],
) -> None:
    report, _ = tried

    for status in ("world passed", "schedules kept", "mission ended"):
        assert report["statuses"][status] == 2
    assert any(call.startswith("world: ") for call in report["calls"])


def test_a_run_that_was_paused_after_the_end_of_its_task_ends_with_its_mission(tmp_path: Path) -> None:
    """The mission took the task's end for that of its run, which nobody drove any more."""
    assert try_mission(162_826_510, tmp_path).findings == []


def test_progress_is_told_per_seed(tried: tuple[dict[str, Any], list[str]]) -> None:
    _, lines = tried

    assert lines == ["seed 9 (1 of 2, 0 failed)", "seed 14 (2 of 2, 0 failed)"]


@pytest.mark.slow
@pytest.mark.parametrize("plant", sorted(PLANTS))
def test_every_plant_is_found_by_the_promise_that_it_breaks(tmp_path: Path, plant: str) -> None:
    soon, promise = FOUND[plant]
    found = set[str]()
    for seed in (soon, *range(12)):
        report = run_torture([seed], plant=plant, jobs=1, directory=tmp_path)
        for failure in report["failures"]:
            assert failure["command"] == f"artelier torture --seeds 1 --start {seed} --plant {plant}"
            found |= {finding["invariant"] for finding in failure["findings"]}
        if promise in found:
            return
    pytest.fail(f"found instead of {promise!r}: {sorted(found)}")


def test_every_plant_stands_where_the_code_is() -> None:
    assert PLANTS.keys() == FOUND.keys()
    for plant in PLANTS:
        with planted(plant):
            pass


def test_a_plant_is_gone_when_its_trial_is_over(tmp_path: Path) -> None:
    found = run_torture([0], plant="lost-time", jobs=1, directory=tmp_path)

    assert not found["ok"]
    assert try_schedules(0, tmp_path).findings == []


def test_no_more_seeds_are_tried_after_so_many_failures(tmp_path: Path) -> None:
    report = run_torture([0] * 9, plant="lost-time", jobs=1, failures_max=2, directory=tmp_path)

    assert (report["seeds"], report["asked"], len(report["failures"])) == (2, 9, 2)


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
    report = run_torture([3], plant="changed-prompt", jobs=1, directory=tmp_path, keep=True)

    (failure,) = report["failures"]
    assert (Path(failure["databases"]) / "3.db").is_file()


def test_an_unknown_plant_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="no such plant"):
        run_torture(1, plant="weeds")


def test_a_plant_with_real_processes_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="simulator only"):
        run_torture(1, plant="double-step", real=True)


@pytest.mark.slow
def test_processes_that_share_the_seeds_hold_every_promise(tmp_path: Path) -> None:
    report = run_torture([14, 11], jobs=2, directory=tmp_path)

    assert (report["failures"], report["seeds"]) == ([], 2)


def test_a_store_that_cannot_be_tried_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="no such engine"):
        run_torture(1, store="stone")
    with pytest.raises(InvalidRequest, match="on a file only"):
        run_torture(1, store="postgres", real=True)
    with pytest.raises(InvalidRequest, match="not kept"):
        run_torture(1, store="postgres", keep=True)


@pytest.mark.slow
@pytest.mark.parametrize("store", ["postgres", "pgbouncer"])
def test_a_seed_holds_every_promise_on_postgresql(tmp_path: Path, store: str) -> None:
    if store == "pgbouncer" and find_pgbouncer() is None:
        pytest.skip("no pgbouncer here")
    report = run_torture([14], store=store, jobs=1, directory=tmp_path)

    assert report["failures"] == []
    assert report["statuses"]["world passed"] == report["statuses"]["mission ended"] == 1
    assert not list(tmp_path.iterdir()), "its databases were removed, and no file was made"


@pytest.mark.slow
@pytest.mark.parametrize(
    "plant", ["lost-time", "double-step", "unbalanced-posting", "torn-tick", "hasty-tasks"]
)
def test_a_plant_is_found_on_postgresql(tmp_path: Path, plant: str) -> None:
    soon, promise = FOUND[plant]
    found = set[str]()
    for seed in (soon, *range(6)):
        report = run_torture([seed], plant=plant, store="postgres", jobs=1, directory=tmp_path)
        for failure in report["failures"]:
            assert failure["command"].endswith(f"--start {seed} --plant {plant} --store postgres")
            found |= {finding["invariant"] for finding in failure["findings"]}
        if promise in found:
            return
    pytest.fail(f"found instead of {promise!r}: {sorted(found)}")


@pytest.mark.slow
def test_an_agent_that_is_killed_again_and_again_comes_to_the_same_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(artelier_lab.torture.real, "KILLS_MAX", 4)

    report = run_torture(1, real=True, jobs=1, directory=tmp_path, keep=True)

    assert report["failures"] == []
    assert report["faults"]["kill -9"] > 1
    assert report["statuses"] == {"completed": 1}


def test_other_programs_of_the_machine_use_up_no_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bound in seconds of a wall clock gave up seeds of a loaded machine; one that spins is still found."""
    monkeypatch.setattr(virtual, "CPU_S_MAX", 0.2)
    findings: list[str] = []

    async def wait_for_the_machine() -> None:
        blocked.wait(0.3)
        await asyncio.sleep(1.0)

    async def spin() -> None:
        started_s = time.thread_time()
        while time.thread_time() < started_s + 0.3:
            pass
        await asyncio.sleep(1.0)

    blocked = threading.Event()
    in_virtual_time(wait_for_the_machine, findings)
    assert findings == []
    in_virtual_time(spin, findings)
    assert [one.partition(":")[0] for one in findings] == ["stuck"]
