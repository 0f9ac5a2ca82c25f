"""`bench`: figures beside their bounds, and an exit code that tells when one is missed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from artelier_lab.bench import AREAS, Target, judge, run_bench
from artelier_lab.bench.peers.area import PEERS
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
