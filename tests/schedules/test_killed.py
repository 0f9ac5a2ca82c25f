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
from collections import Counter
from contextlib import ExitStack, closing
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from artelier import Kernel
from artelier.agents import Worker
from artelier.clock import SystemClock
from tests.processes import PATIENCE_S, WarmPython, killed_at_last

FIRINGS = 14
KILLS = 5
SECOND_US = 1_000_000


def worker(cwd: Path) -> subprocess.Popen[bytes]:
    environ = {key: value for key, value in os.environ.items() if not key.startswith("ARTELIER_")}
    return WarmPython(
        [sys.executable, "-m", "artelier", "worker", "--json"],
        cwd=cwd,
        env=environ,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def rows(database: Path, sql: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(f"{database.as_uri()}?mode=ro", uri=True, timeout=30)) as db:
        return db.execute(sql).fetchall()


OVERLAPS = ("skip", "queue", "cancel_running", "allow")
FIRED = "SELECT count(*) FROM events WHERE kind = 'schedule.fired'"
DECIDED = (
    "SELECT e.kind, e.data FROM events e JOIN streams s ON s.id = e.stream"
    " WHERE s.name = 'schedule:{}' AND e.kind IN ('schedule.fired', 'schedule.skipped', 'schedule.queued')"
    " ORDER BY e.seq"
)
LIVES = (
    "SELECT s.name, e.kind FROM events e JOIN streams s ON s.id = e.stream"
    " WHERE e.kind IN ('run.started', 'run.completed', 'run.cancelled', 'run.failed')"
    " AND s.name LIKE 'run:{}/%' ORDER BY e.position"
)


async def made(database: Path, folder: Path) -> None:
    """A schedule for each way of overlapping, all due every second."""
    with Kernel.open(database, environ={}) as kernel:
        for overlap in OVERLAPS:
            await kernel.for_tenant().schedules.add(
                overlap,
                every="1s",
                goal="Sum the amount by region",
                model="offline",
                solo=True,
                workspace=str(folder),
                overlap=overlap,
            )


async def settled(database: Path) -> dict[str, Any]:
    """The schedules, paused, when all that they have fired has ended."""
    with Kernel.open(database, environ={}) as kernel:
        desk = kernel.for_tenant()
        for name in OVERLAPS:
            await desk.schedules.pause(name)
        drives = Worker(kernel, kernel.services)
        until = time.monotonic() + PATIENCE_S
        while rows(database, "SELECT 1 FROM schedule_firings WHERE open = 1"):
            assert time.monotonic() < until, "a firing does not end"
            await drives.once()
            await SystemClock().sleep(0.05)
        return {name: await desk.schedules.get(name) for name in OVERLAPS}


def assert_each_time_once(database: Path, name: str) -> None:
    """Each time is decided about once, or counted; one that has waited in the queue is fired later."""
    decided: list[dict[str, Any]] = []
    queued: set[int] = set()
    for kind, text in rows(database, DECIDED.format(name)):
        data = json.loads(text)
        if kind != "schedule.queued" and data["due_us"] in queued:
            queued.remove(data["due_us"])
            continue
        if kind == "schedule.queued":
            queued.add(data["due_us"])
        decided.append(data)
    for before, after in pairwise(decided):
        between = (after["due_us"] - before["due_us"]) // SECOND_US
        assert between == 1 + after.get("missed", 0)


def assert_one_after_the_other(lives: list[tuple[str, str]]) -> None:
    """No run has started while an earlier one had not ended."""
    alive: set[str] = set()
    for run, kind in lives:
        if kind == "run.started":
            assert not alive
            alive.add(run)
        else:
            alive.discard(run)


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

    for name in OVERLAPS:
        assert_each_time_once(database, name)
        lives = rows(database, LIVES.format(name))
        starts = Counter(run for run, kind in lives if kind == "run.started")
        assert set(starts.values()) == {1}
        assert len(starts) == shown[name]["firings"]
        ends = {"completed", "cancelled"} if name == "cancel_running" else {"completed"}
        assert {one["status"] for one in shown[name]["runs"]} <= ends
        if name in ("skip", "queue"):
            assert_one_after_the_other(lives)
