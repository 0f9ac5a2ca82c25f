"""Rates and budgets hold over real processes on one file, also when one of them is killed."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.kernel.rated import COST, PATIENCE_S, REQUESTS, opened
from tests.kernel.stage import assert_conserved
from tests.processes import WarmPython, killed_at_last

MINUTE_US = 60_000_000
EACH = 20


def lines(path: Path) -> list[list[str]]:
    return [line.split() for line in path.read_text().splitlines()] if path.exists() else []


def process(folder: Path, name: str, began_us: int, stack: ExitStack) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tests.kernel.rated", str(folder), name, str(EACH)]
    one = WarmPython([*command, str(began_us)])
    stack.callback(one.wait)
    stack.enter_context(killed_at_last(one))
    return one


def until(is_so: object, *, what: str) -> None:
    assert callable(is_so)
    ends = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < ends, what
        time.sleep(0.02)


@pytest.mark.slow
def test_two_processes_pass_neither_the_rate_nor_the_budget_and_a_killed_one_loses_nothing(
    tmp_path: Path,
) -> None:
    began_us = time.time_ns() // 1000
    turns, calls = tmp_path / "turns", tmp_path / "calls"
    opened(tmp_path, began_us).close()
    with ExitStack() as stack:
        one, other = (process(tmp_path, name, began_us, stack) for name in "ab")
        until(lambda: all((tmp_path / f"{name}-ready").exists() for name in "ab"), what="not ready")
        (tmp_path / "go").touch()
        until(lambda: any(line[0] == "a" for line in lines(turns)), what="no turn was taken")
        until(lambda: len(lines(calls)) >= 8, what="no call was made")
        one.send_signal(signal.SIGKILL)
        one.wait()
        again = process(tmp_path, "a", began_us, stack)
        assert other.wait(timeout=PATIENCE_S) == 0
        assert again.wait(timeout=PATIENCE_S) == 0

    taken = sorted((int(at), int(count)) for _, at, count in lines(turns))
    for start, _ in taken:
        assert sum(n for at, n in taken if start <= at < start + MINUTE_US) <= REQUESTS

    async def settled() -> None:
        with opened(tmp_path, began_us) as kernel:
            rows = await kernel.store.query("SELECT status, count(*) FROM runs GROUP BY status")
            assert rows == [("completed", 2 * EACH)]
            rows = await kernel.store.query("SELECT count(*) FROM events WHERE kind = 'model.completed'")
            assert rows == [(2 * EACH,)]
            found = await assert_conserved(kernel, "acme")
            # Calls of the killed process are billed at their input's estimate, and made again.
            ((lost,),) = await kernel.store.query(
                "SELECT coalesce(sum(json_extract(data, '$.cost')), 0) FROM events"
                " WHERE json_extract(data, '$.estimated')"
            )
            assert found["spent"] == 2 * EACH * COST + lost <= 4_500
            assert "overrun" not in found

    asyncio.run(settled())
    made = Counter(text for (text,) in lines(calls))
    assert len(made) == 2 * EACH
    assert all(name.startswith("a") for name, count in made.items() if count > 1)
