"""The benchmark of the server measures a real one: nothing is missed unseen, and slow is really slow."""

from __future__ import annotations

import asyncio
import gzip
import json
import os
from pathlib import Path

import pytest

from artelier_lab.bench import run_bench
from artelier_lab.bench.server.area import TARGETS, UNITS
from artelier_lab.bench.server.browser import FIGURES, NO_CHROMIUM, cannot
from artelier_lab.bench.server.clients import Client, Crowd
from artelier_lab.bench.server.live import Load, Served, missed, percentile, under
from artelier_lab.bench.server.page import NO_BUILD, bundle_kb_gzip


def test_clients_of_a_real_server_get_every_event_that_is_written(tmp_path: Path) -> None:
    served = Served(tmp_path / "live.db")
    try:
        load = Load(clients=3, rate=0, events=50, rounds=2)
        found = asyncio.run(under(served, load))
    finally:
        served.close()

    assert found["missed"] == 0
    assert found["encodes_per_event"] == 1
    assert found["p99_ms"] >= found["p50_ms"] > 0
    assert found["cpu_us_per_frame"] > 0


def test_a_gap_a_duplicate_and_a_wrong_order_are_seen() -> None:
    crowd = Crowd("http://127.0.0.1:1", "")

    def client(*positions: int) -> Client:
        made = Client(crowd)
        made.positions.extend(positions)
        return made

    assert missed([client(1, 2, 3), client(1, 2, 3)]) == 0
    for wrong in ((1, 3), (1, 2, 2, 3), (1, 3, 2), (1, 2), ()):
        assert missed([client(1, 2, 3), client(*wrong)]) == 1


def test_a_percentile_is_a_value_that_was_measured() -> None:
    assert percentile(range(1, 101), 0.99) == 100
    assert percentile([7], 0.5) == 7


def test_the_first_visit_counts_what_the_entry_imports_once(tmp_path: Path) -> None:
    text = {name: os.urandom(size) for name, size in (("a.js", 500), ("b.js", 900), ("c.js", 70))}
    for name, content in text.items():
        (tmp_path / name).write_bytes(content)
    (tmp_path / "a.css").write_bytes(b"x")
    manifest = {
        "index.html": {"file": "a.js", "css": ["a.css"], "imports": ["b"]},
        "b": {"file": "b.js", "imports": ["index.html"], "dynamicImports": ["c"]},
        "c": {"file": "c.js"},
    }
    (tmp_path / ".vite").mkdir()
    (tmp_path / ".vite" / "manifest.json").write_text(json.dumps(manifest))

    found, reason = bundle_kb_gzip(tmp_path)

    expected = [len(gzip.compress(one)) for one in (text["a.js"], text["b.js"], b"x")]
    assert (found, reason) == (sum(expected) / 1000, "")


def test_without_a_build_its_size_is_not_known(tmp_path: Path) -> None:
    assert bundle_kb_gzip(tmp_path) == (None, NO_BUILD)


def test_without_a_build_or_a_browser_the_page_is_not_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ARTELIER_CHROMIUM", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))

    assert cannot(tmp_path) == NO_BUILD
    (tmp_path / "index.html").write_text("<!doctype html>")
    assert cannot(tmp_path) == NO_CHROMIUM
    monkeypatch.setenv("ARTELIER_CHROMIUM", "/somewhere/chromium")
    assert cannot(tmp_path) == ""


@pytest.mark.slow
def test_the_quick_benchmark_has_every_figure_or_says_why_not(tmp_path: Path) -> None:
    result = run_bench("server", quick=True, directory=tmp_path)

    assert result.keys() >= TARGETS.keys() | UNITS.keys()
    assert result["encodes_per_event"] == 1
    assert result["sse_events_missed"] == 0
    assert result["sse_slow_client_drops"] >= 1, "who does not read is sent away, and comes back"
    for name in ("bundle_kb_gzip", *FIGURES):
        assert (result[name] is None) == (name in result["missing"])
    for name in (
        "canvas_fps_1000_nodes",
        "canvas_frame_ratio_1000_over_100",
        "first_paint_ms",
        "goal_answer_ms",
    ):
        assert result[name] is None or result[name] > 0, "what was not measured is no zero"
    assert list(tmp_path.iterdir()) == [], "databases are removed again"
