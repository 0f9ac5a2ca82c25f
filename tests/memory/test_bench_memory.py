"""The benchmark of memory: its figures are there, and it says on what they were measured."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from artelier.errors import InvalidRequest
from artelier.memory.embedders import minilm
from artelier_lab.bench import run_bench
from artelier_lab.bench.memory.area import TARGETS, UNITS
from artelier_lab.bench.memory.talks import made_up_conversations

SPEED = {
    "query_ms_p50_10k",
    "query_ms_p50_100k",
    "vector_ms_p50_100k",
    "filtered_ms_p50",
    "add_ms",
    "load_ms_10k_768",
}
QUALITY = {"r_at_1", "r_at_10", "ndcg_at_10", "adversarial_r_at_10"}


@pytest.mark.slow
def test_the_area_gives_all_figures_and_judges_real_conversations(tmp_path: Path) -> None:
    path = tmp_path / "talks.json"
    path.write_text(json.dumps(made_up_conversations(8)[:1]))

    found = run_bench("memory", quick=True, directory=tmp_path, data=path)

    assert SPEED | QUALITY <= found.keys()
    assert all(found[name] > 0 for name in SPEED)
    assert {name: found["hashing"][name] for name in QUALITY} == pytest.approx(
        {name: found[name] for name in QUALITY}, rel=1e-3
    )
    assert found["targets"]["r_at_10"]["met"] is True
    assert found["targets"]["query_ms_p50_100k"]["met"] is None, "quick measures another size"
    assert found["minilm"] is None or found["minilm"]["r_at_10"] > 90
    assert str(path) in found["data"]


@pytest.mark.slow
def test_made_up_conversations_are_called_so_and_not_judged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here without the model `minilm`: its figures are then left out, and that is said."""
    monkeypatch.delenv("ARTELIER_BENCH_CONVERSATIONS", raising=False)
    monkeypatch.setattr(minilm, "MODEL_MODULE", "no_such_model")

    found = run_bench("memory", quick=True, directory=tmp_path)

    assert "made-up" in found["note"] and "minilm was left out" in found["note"]
    assert found["minilm"] is None
    assert found["targets"]["r_at_10"]["met"] is None


@pytest.mark.parametrize("content", [None, "no json", "{}", "[]"])
def test_a_file_without_conversations_is_refused(tmp_path: Path, content: str | None) -> None:
    path = tmp_path / "talks.json"
    if content is not None:
        path.write_text(content)

    with pytest.raises(InvalidRequest):
        run_bench("memory", quick=True, directory=tmp_path, data=path)


def test_the_environment_may_name_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARTELIER_BENCH_CONVERSATIONS", str(tmp_path / "nowhere.json"))

    with pytest.raises(InvalidRequest, match=r"nowhere\.json"):
        run_bench("memory", quick=True, directory=tmp_path)


def test_units_are_of_figures() -> None:
    assert UNITS.keys() <= TARGETS.keys() | SPEED | QUALITY


def test_made_up_conversations_are_the_same_each_time() -> None:
    assert made_up_conversations() == made_up_conversations()
