"""Two worker processes on one file, killed with a real `kill -9` again and again: each time fires once."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import ExitStack, closing
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from artelier import Kernel
from artelier.agents import Worker
from artelier.clock import SystemClock
from tests.processes import PATIENCE_S, killed_at_last

FIRINGS = 12
KILLS = 8
SECOND_US = 1_000_000


def worker(cwd: Path) -> subprocess.Popen[bytes]:
    environ = {key: value for key, value in os.environ.items() if not key.startswith("ARTELIER_")}
    return subprocess.Popen(
        [sys.executable, "-m", "artelier", "worker", "--json"],
        cwd=cwd, env=environ, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip


def rows(database: Path, sql: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(f"{database.as_uri()}?mode=ro", uri=True, timeout=30)) as db:
        return db.execute(sql).fetchall()


FIRED = "SELECT count(*) FROM events WHERE kind = 'schedule.fired'"
DECIDED = (
    "SELECT e.kind, e.data FROM events e JOIN streams s ON s.id = e.stream"
    " WHERE s.name = 'schedule:s' AND e.kind IN ('schedule.fired', 'schedule.skipped') ORDER BY e.seq"
)
STARTS = (
    "SELECT s.name, count(*) FROM events e JOIN streams s ON s.id = e.stream"
    " WHERE e.kind = 'run.started' AND s.name LIKE 'run:s/%' GROUP BY s.name"
)


async def made(database: Path, folder: Path) -> None:
    with Kernel.open(database, environ={}) as kernel:
        await kernel.for_tenant().schedules.add(
            "s", every="1s", goal="Sum the amount by region", model="offline", solo=True,
            workspace=str(folder), overlap="allow",
        )  # fmt: skip


async def settled(database: Path) -> dict[str, Any]:
    """The schedule, paused, when all that it has fired has ended."""
    with Kernel.open(database, environ={}) as kernel:
        await kernel.for_tenant().schedules.pause("s")
        drives = Worker(kernel, kernel.services)
        until = time.monotonic() + PATIENCE_S
        while rows(database, "SELECT 1 FROM schedule_firings WHERE open = 1"):
            assert time.monotonic() < until, "a firing does not end"
            await drives.once()
            await SystemClock().sleep(0.05)
        return await kernel.for_tenant().schedules.get("s")


@pytest.mark.slow
def test_killed_workers_fire_each_time_once_and_start_each_firing(tmp_path: Path) -> None:
    folder, database = tmp_path / "data", tmp_path / ".artelier/state.db"
    folder.mkdir()
    (folder / "sales.csv").write_text("region,amount\nNorth,3\nSouth,4\n")
    asyncio.run(made(database, folder))
    chance, until = random.Random(7), time.monotonic() + 2 * PATIENCE_S

    kills = 0
    with ExitStack() as stack:

        def started() -> subprocess.Popen[bytes]:
            one = worker(tmp_path)
            stack.callback(one.wait)
            stack.enter_context(killed_at_last(one))
            return one

        workers = [started(), started()]
        while (fired := rows(database, FIRED)[0][0]) < FIRINGS or kills < KILLS:
            while rows(database, FIRED)[0][0] == fired:
                assert time.monotonic() < until, "too few firings"
                time.sleep(0.002)
            time.sleep(chance.choice((0.0, 0.01, 0.1)))  # at the firing, and within its run
            victim = chance.randrange(2)
            workers[victim].send_signal(signal.SIGKILL)
            workers[victim].wait()
            kills += 1
            workers[victim] = started()

    shown = asyncio.run(settled(database))

    decided = [json.loads(data) for _, data in rows(database, DECIDED)]
    for before, after in pairwise(decided):
        between = (after["due_us"] - before["due_us"]) // SECOND_US
        assert between == 1 + after.get("missed", 0), "each time is decided once, or counted"
    starts = dict(rows(database, STARTS))
    assert set(starts.values()) == {1}
    assert len(starts) == shown["firings"] == rows(database, FIRED)[0][0]
    assert {one["status"] for one in shown["runs"]} == {"completed"}
