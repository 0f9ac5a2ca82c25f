"""`bench`: figures beside their bounds, and an exit code that tells when one is missed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from artelier_lab.bench import AREAS, Target, judge, run_bench
from artelier_lab.bench.peers.area import PEERS
from artelier_lab.bench.sizing import Constants, simulate
from tests.cli.conftest import Shell


def area(value: float) -> Any:
    """An area of one figure that must be at most 2."""

    def measure(*, quick: bool, directory: Path, progress: Any) -> dict[str, Any]:
        progress("measuring twice")
        figures = {"answer_ms": value}
        return {
            **figures,
            "targets": judge(figures, {"answer_ms": Target(at_most=2)}),
            "units": {"answer_ms": "ms of thinking"},
            "machine": {
                "processor": "abacus",
                "cpus": 1,
                "load_1_min": 0.0,
                "python": "3",
                "sqlite": "3",
                "filesystem": "tmpfs",
                "in_memory": True,
            },
        }

    return measure


@pytest.mark.parametrize(("value", "code", "met"), [(1.5, 0, "yes"), (2.5, 1, "NO")])
def test_bench_shows_figures_with_bounds_and_judges(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, value: float, code: int, met: str
) -> None:
    monkeypatch.setitem(AREAS, "thought", area(value))

    ran = shell("bench", "thought")
    found = shell("bench", "thought", "--json")

    assert (ran.code, found.code) == (code, code)
    assert f"{value}" in ran.out and "<= 2" in ran.out and met in ran.out
    assert "ms of thinking" in ran.out
    assert "measuring twice" in ran.err and "in memory" in ran.err
    assert found.json["items"][0]["answer_ms"] == value


def test_bench_says_why_a_figure_is_not_there(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    def measure(**given: Any) -> dict[str, Any]:
        return area(1)(**given) | {"paint_ms": None, "missing": {"paint_ms": "there is no brush"}}

    monkeypatch.setitem(AREAS, "thought", measure)

    ran = shell("bench", "thought")

    assert ran.code == 0
    assert "paint_ms was not measured: there is no brush" in ran.err
    assert shell("bench", "thought", "--json").json["items"][0]["paint_ms"] is None


def test_bench_refuses_what_it_cannot_measure(shell: Shell) -> None:
    assert shell("bench", "patience").code == 2
    assert shell("bench", "kernel", "--directory", "gone").code == 2


@pytest.mark.slow
def test_peers_measures_what_is_installed_and_names_what_is_not(tmp_path: Path) -> None:
    found = run_bench("peers", quick=True, directory=tmp_path)
    assert all(found[f"artelier_{what}"] > 0 for what in ("turn_cpu_ms", "run_cpu_ms", "resume_cpu_ms"))
    absent = {name for name in PEERS if f"{name}_turn_cpu_ms" not in found}
    assert set(found["missing"]) == absent and "artelier" not in absent
    assert found["versions"]["artelier"]
    assert not list(tmp_path.iterdir())


# Sizing

MEASURED = Constants(
    cpu_ms=1.0, commits_per_cycle=2.0, group_ms=2.0, batch_ms=0.5, bytes_per_cycle=4_000.0, look_ms=0.1
)


def test_few_workers_do_what_their_models_leave_them_time_for() -> None:
    seen = simulate(MEASURED, workers=2, slots=8, model_s=1.0, seconds=200.0, seed=3)

    assert seen["of_unhindered"] == pytest.approx(1.0, abs=0.05)
    assert 2.0 <= seen["commit_ms_p50"] < 3.0
    assert seen["connections"] == 6


def test_a_full_database_writes_as_much_as_its_groups_carry_and_no_more() -> None:
    """A worker's first batch stands in line alone (2 ms), the 15 that gather meanwhile go together (2 + 14 *
    0.5 ms), and a cycle has two commits."""
    seen = simulate(MEASURED, workers=64, slots=16, model_s=0.01, seconds=30.0, seed=4)

    assert seen["cycles_per_s"] == pytest.approx(16 / 11e-3 / 2, rel=0.02)
    assert seen["database_busy"] > 0.95
    assert seen["gb_per_day"] == pytest.approx(seen["cycles_per_s"] * 86_400 * 4_000 / 1e9)


def test_more_workers_never_do_less_until_the_database_is_full() -> None:
    rates = [
        simulate(MEASURED, workers=workers, seconds=60.0, seed=5)["cycles_per_s"]
        for workers in (1, 4, 16, 64)
    ]

    assert rates == sorted(rates) and rates[3] > 30 * rates[0]
