"""The area `scale`: what workers and pages cost beside a million runs, and what others wait for.

The rows of the large stores are written straight into the tables: a million real runs would take hours. What
is measured reads them as it reads those of a real store.
"""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Awaitable, Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from artelier.app import Kernel
from artelier.kernel.queries.runs import DueLook, due_runs
from artelier.log.sqlite.store import connect
from artelier_lab.bench.figures import Target, judge, median, rounded
from artelier_lab.bench.machine import machine_facts

TARGETS = {"due_look_ms": Target(at_most=2.0)}

UNITS = {
    "due_look_ms": "ms of a worker's look for due runs: 1,000,000 have ended, one is due",
    "due_look_held_ms": "ms of the same look while others drive 1,000 runs",
    "due_runs_found": "runs that the look behind 1,000 held ones found: 1",
    "index_1000000_runs_s": "s to make the index of due runs when an older store is opened",
}
SIZED = ("due_look_ms",)
"""Figures of another size in a quick run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    """The sizes of the benchmark."""

    ended: int = 1_000_000
    held: int = 1_000
    looks: int = 51


_QUICK = _Plan(ended=20_000, looks=11)


def bench_scale(*, quick: bool, directory: Path, progress: Callable[[str], None]) -> dict[str, Any]:
    """All figures of stores with many runs, events and workers. Databases go to `directory`."""
    plan = _QUICK if quick else _Plan()
    machine = machine_facts(directory)
    figures = _bench_due(plan, directory / "due.db", progress)
    figures = {name: rounded(value) for name, value in figures.items()}
    return {
        **figures,
        "targets": judge(figures, TARGETS, unjudged=SIZED if quick else ()),
        "unmeasured": sorted(TARGETS.keys() - figures.keys()),
        "units": UNITS,
        "machine": machine,
    }


_NUMBERS = "WITH RECURSIVE n(i) AS (SELECT {first} UNION ALL SELECT i + 1 FROM n WHERE i < {last})"

_RUNS = (
    "INSERT INTO runs SELECT i, 'default', 'run-' || i, ?, '', 'agent', '', 'm', NULL, NULL, NULL, NULL,"
    " NULL, NULL, NULL, NULL, NULL, 'strict', 0, CASE ? WHEN 'completed' THEN 1 END,"
    " 0, 0, 0, 0, 0, 0, 0 FROM n"
)
_LEASES = (
    "INSERT INTO leases(stream, holder, expires_us)"
    " SELECT 'default/main/run:run-' || i, 'elsewhere', ? FROM n"
)


def _bench_due(plan: _Plan, path: Path, progress: Callable[[str], None]) -> dict[str, float]:
    progress(f"{plan.ended:,} ended runs")
    Kernel.open(path).close()
    with closing(connect(str(path))) as db:
        _fill(db, _RUNS, 1, plan.ended, "completed", "completed")
        _fill(db, _RUNS, plan.ended + plan.held + 1, plan.ended + plan.held + 1, "running", "running")
        db.execute("DROP INDEX runs_awake")
    before = time.perf_counter()
    kernel = Kernel.open(path)
    index_s = time.perf_counter() - before
    with kernel:
        progress("looks for due runs")
        look = DueLook(now_us=kernel.services.clock.now_us(), limit=1_000)
        free_ms, _ = asyncio.run(_time(plan.looks, lambda: due_runs(kernel.store, look)))
    with closing(connect(str(path))) as db:
        _fill(db, _RUNS, plan.ended + 1, plan.ended + plan.held, "running", "running")
        _fill(db, _LEASES, plan.ended + 1, plan.ended + plan.held, 2**62)
    with Kernel.open(path) as kernel:
        from artelier.agents import Worker

        worker = Worker(kernel, kernel.services)
        held_ms, found = asyncio.run(_time(plan.looks, worker.due))
    return {
        "due_look_ms": free_ms,
        "due_look_held_ms": held_ms,
        "due_runs_found": len(found),
        "index_1000000_runs_s": index_s,
    }


def _fill(db: sqlite3.Connection, sql: str, first: int, last: int, *parameters: Any) -> None:
    """Execute an INSERT for each number of a range."""
    db.execute("BEGIN")
    head, tail = sql.split(" SELECT ", 1)
    db.execute(f"{head} {_NUMBERS.format(first=first, last=last)} SELECT {tail}", parameters)
    db.execute("COMMIT")


async def _time(times: int, read: Callable[[], Awaitable[Any]]) -> tuple[float, Any]:
    """Milliseconds of the middle one of so many reads, and what the last returned."""
    spent, found = list[float](), None
    for _ in range(times):
        before = time.perf_counter()
        found = await read()
        spent.append(time.perf_counter() - before)
    return median(spent) * 1_000, found
