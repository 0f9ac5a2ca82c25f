"""The kernel benchmark: what it measures is really there, and a figure out of bounds is called so."""

from __future__ import annotations

import sqlite3
import subprocess
from pathlib import Path

import pytest

from artelier.errors import InvalidRequest
from artelier_lab.bench import Target, judge, run_bench
from artelier_lab.bench.floor import Floor
from artelier_lab.bench.imports import child_cpu_ms
from artelier_lab.bench.kernel.crowd import bench_crowd
from artelier_lab.bench.kernel.cycle_cpu import bench_cycle_cpu
from artelier_lab.bench.kernel.growth import Sizes, bench_growth, store_bytes
from artelier_lab.bench.kernel.replay import bench_replay
from artelier_lab.bench.machine import filesystem_of, machine_facts
from artelier_lab.postgres_server import find_binaries

KERNEL_FIGURES = {
    "cpu_ms_per_cycle",
    "cpu_ms_per_cycle_2000_shown",
    "commits_per_cycle",
    "fsyncs_per_cycle",
    "bytes_per_cycle",
    "growth_cpu_10000_over_100",
    "growth_bytes_10000_over_100",
    "resume_ms_10000",
    "replay_steps_per_s",
    "cycles_per_s_1000_runs",
    "floor_cpu_ms",
    "floor_wall_ms",
    "wall_over_floor",
    "import_cpu_ms",
    "help_cpu_ms",
}


def quiet(text: str) -> None:
    pass


def test_a_figure_out_of_bounds_is_not_met() -> None:
    targets = {"a": Target(at_most=2), "b": Target(at_least=2), "c": Target(at_most=1)}

    judged = judge({"a": 2.1, "b": 2.0, "c": 9.0}, targets, unjudged=("c",))

    assert judged == {
        "a": {"at_most": 2, "met": False},
        "b": {"at_least": 2, "met": True},
        "c": {"at_most": 1, "met": None},
    }


def test_an_unknown_area_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="no such benchmark"):
        run_bench("weather", directory=tmp_path)


def test_a_missing_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="not there"):
        run_bench("kernel", directory=tmp_path / "nowhere")


def test_the_floor_commits_twice_per_cycle_durably(tmp_path: Path) -> None:
    floor = Floor(tmp_path / "floor.db")

    cost = floor.cycles(10, bytes_per_cycle=2_000)

    floor.close()
    with sqlite3.connect(tmp_path / "floor.db") as db:
        rows = db.execute("SELECT length(content) FROM rows").fetchall()
    db.close()
    assert rows == [(1_000,)] * 20
    assert cost.wall_ms > 0
    assert cost.commits == 2


@pytest.mark.slow
def test_growth_is_measured_on_a_real_run(tmp_path: Path) -> None:
    figures = bench_growth(tmp_path, Sizes(cycles=400, block=20, floors=2, pairs=1), quiet)

    assert 0 < figures["commits_per_cycle"] <= 2
    assert 760 < figures["bytes_per_cycle"] < 20_000
    assert figures["wall_over_floor"] > 0
    assert store_bytes(tmp_path / "long.db") > 400 * 760


def test_every_cycle_whose_cpu_is_measured_is_one_commit(tmp_path: Path) -> None:
    """The measurement ends with an assertion if a single block took more commits, or fewer."""
    figures = bench_cycle_cpu(tmp_path, block=20, blocks=1, progress=quiet)

    assert 0 < figures["cpu_ms_per_cycle"]
    assert 0 < figures["cpu_ms_per_cycle_2000_shown"]


def test_runs_at_once_share_their_commits(tmp_path: Path) -> None:
    figures = bench_crowd(tmp_path, runs=20, progress=quiet)

    assert figures["fsyncs_per_cycle"] < 1
    assert figures["cycles_per_s_1000_runs"] > 1


def test_a_replay_calls_and_writes_nothing(tmp_path: Path) -> None:
    figures = bench_replay(tmp_path, steps=40, progress=quiet)

    assert figures["replay_steps_per_s"] > 40


def test_cpu_of_a_process_is_its_own() -> None:
    idle = child_cpu_ms(("-c", "import time; time.sleep(1)"))
    busy = child_cpu_ms(("-c", "import time\nwhile time.process_time() < 0.3: pass"))

    assert idle < 1_000, "its start, not its sleep"
    assert busy >= 300


def test_a_process_that_fails_is_no_measurement() -> None:
    with pytest.raises(subprocess.CalledProcessError):
        child_cpu_ms(("-c", "raise SystemExit(3)"))


def test_machine_facts_say_where_it_ran(tmp_path: Path) -> None:
    facts = machine_facts(tmp_path)

    assert facts["cpus"] >= 1
    assert facts["filesystem"] == filesystem_of(tmp_path)
    assert isinstance(facts["in_memory"], bool)


@pytest.mark.slow
def test_the_quick_benchmark_has_every_figure(tmp_path: Path) -> None:
    result = run_bench("kernel", quick=True, directory=tmp_path)

    assert result.keys() >= KERNEL_FIGURES
    assert result["area"] == "kernel"
    assert result["targets"]["resume_ms_10000"]["met"] is None, "measured at another size"
    assert result["targets"]["cpu_ms_per_cycle"]["met"] in (True, False)
    assert list(tmp_path.iterdir()) == [], "databases are removed again"


@pytest.mark.slow
def test_scale_finds_the_run_behind_those_that_others_drive(tmp_path: Path) -> None:
    found = run_bench("scale", quick=True, directory=tmp_path)

    assert found["due_runs_found"] == 1
    assert "world_hash_equal" in found["unmeasured"], "worlds over places are not built"
    if find_binaries() is not None:
        assert found["pg_round_trips_per_commit"] == 2
        assert found["claim_statements_per_run"] > 0
    assert found["targets"]["due_look_ms"]["met"] is None, "another size is not judged"
