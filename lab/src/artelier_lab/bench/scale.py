"""The area `scale`: what workers and pages cost beside a million runs, and what others wait for.

The rows of the large stores are written straight into the tables: a million real runs would take hours. What
is measured reads them as it reads those of a real store.
"""

from __future__ import annotations

import asyncio
import itertools
import sqlite3
import time
from collections.abc import Awaitable, Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from artelier.agents import AutonomousAgent, Worker
from artelier.app import Kernel
from artelier.kernel.events import RunStarted
from artelier.kernel.queries.runs import DueLook, due_runs
from artelier.log import Batch, Draft, StreamAppend, run_stream
from artelier.log.sqlite.connection import SqliteDatabase, connect
from artelier.log.views import list_positions
from artelier.models.scripted import ScriptedModel
from artelier_lab.bench.figures import Target, judge, median, rounded
from artelier_lab.bench.machine import machine_facts
from artelier_lab.bench.scale_postgres import UNITS as POSTGRES_UNITS
from artelier_lab.bench.scale_postgres import bench_postgres
from artelier_lab.bench.world.setup import economy, world_of

TARGETS = {
    "due_look_ms": Target(at_most=2.0),
    "page_ms": Target(at_most=2.0),
    "other_runs_wait_ms": Target(at_most=100.0),
    "takeover_after_drain_s": Target(at_most=1.0),
}

UNITS = {
    "due_look_ms": "ms of a worker's look for due runs: 1,000,000 have ended, one is due",
    "due_look_held_ms": "ms of the same look while others drive 1,000 runs",
    "due_runs_found": "runs that the look behind 1,000 held ones found: 1",
    "index_1000000_runs_s": "s to make the index of due runs when an older store is opened",
    "page_ms": "ms of the newest 50 events of one of 100 tenants among 3,000,000 events",
    "page_quiet_ms": "ms of all 50 events of a tenant that are spread over the same store",
    "page_unlisted_ms": "ms of the same where no commit has listed whose the events are: an older store",
    "list_us_per_event": "us in which a commit lists whose an event is",
    "other_runs_wait_ms": "ms that the slowest commit of another run waits in a tick of 100,000 agents",
    "tick_s": "s of that tick",
    "takeover_after_drain_s": "s from the release of a run by a worker that drains to the next claim",
}
UNMEASURED = ("world_hash_equal",)
"""Figures of what is not built: worlds over places."""
SIZED = ("due_look_ms", "page_ms", "other_runs_wait_ms")
"""Figures of another size in a quick run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    """The sizes of the benchmark."""

    ended: int = 1_000_000
    held: int = 1_000
    looks: int = 51
    events: int = 3_000_000
    agents: int = 100_000


_QUICK = _Plan(ended=20_000, looks=11, events=20_000, agents=1_000)


def bench_scale(*, quick: bool, directory: Path, progress: Callable[[str], None]) -> dict[str, Any]:
    """All figures of stores with many runs, events and workers. Databases go to `directory`."""
    plan = _QUICK if quick else _Plan()
    machine = machine_facts(directory)
    figures = _bench_due(plan, directory / "due.db", progress)
    figures |= _bench_pages(plan, directory / "pages.db", progress)
    figures |= asyncio.run(_bench_waiting(plan, directory / "world.db", progress))
    figures |= asyncio.run(_bench_takeover(directory / "drain.db", progress))
    served, of_served = bench_postgres(quick=quick, directory=directory, progress=progress)
    targets = {**TARGETS, **of_served}
    figures = {name: rounded(value) for name, value in (figures | served).items()}
    return {
        **figures,
        "targets": judge(figures, targets, unjudged=(*SIZED, *of_served) if quick else ()),
        "unmeasured": sorted({*targets, *UNMEASURED} - figures.keys()),
        "units": {**UNITS, **POSTGRES_UNITS},
        "machine": machine,
    }


_NUMBERS = "WITH RECURSIVE n(i) AS (SELECT {first} UNION ALL SELECT i + 1 FROM n WHERE i < {last})"

_RUNS = (
    "INSERT INTO runs SELECT i, 'default', 'run-' || i, ?, '', 'agent', '', 'm', NULL, NULL, NULL, NULL,"
    " NULL, NULL, NULL, NULL, NULL, 'strict', 0, CASE ? WHEN 'completed' THEN 1 END,"
    " 0, 0, 0, 0, 0, 0, 0, 0 FROM n"
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
        worker = Worker(kernel, kernel.services)
        held_ms, found = asyncio.run(_time(plan.looks, worker.due))
    return {
        "due_look_ms": free_ms,
        "due_look_held_ms": held_ms,
        "due_runs_found": len(found),
        "index_1000000_runs_s": index_s,
    }


TENANTS, PAGE = 100, 50

_STREAMS = "INSERT INTO streams SELECT i, 'tenant-' || i, 'main', 'run:r' FROM n"
_EVENTS = (
    "INSERT INTO events SELECT i, CASE i % {apart} WHEN 0 THEN {quiet} ELSE i / 10 % {busy} + 1 END, i,"
    " 'bench.noted', 1, '{{}}', 0, 'bench', NULL, zeroblob(32) FROM n"
)


def _bench_pages(plan: _Plan, path: Path, progress: Callable[[str], None]) -> dict[str, float]:
    """Batches of ten events of 99 tenants in turn, and 50 events of the hundredth between them."""
    progress(f"{plan.events:,} events")
    Kernel.open(path).close()
    apart = plan.events // PAGE
    with closing(connect(str(path))) as db:
        _fill(db, _STREAMS, 1, TENANTS)
        _fill(db, _EVENTS.format(apart=apart, quiet=TENANTS, busy=TENANTS - 1), 1, plan.events)
    busy, quiet = "tenant-1", f"tenant-{TENANTS}"
    newest = plan.events - PAGE * (TENANTS - 1)
    with Kernel.open(path) as kernel:
        store = kernel.store
        unlisted_ms, _ = asyncio.run(_time(3, lambda: store.read_all(tenant=quiet, limit=PAGE)))
    progress("listing whose they are")
    with closing(connect(str(path))) as db:
        db.execute("BEGIN")
        before, listed = time.perf_counter(), 0
        while listed < plan.events:
            listed = list_positions(SqliteDatabase(db), after=listed, upto=plan.events)
        list_s = time.perf_counter() - before
        db.execute("COMMIT")
    progress("pages")
    with Kernel.open(path) as kernel:
        store = kernel.store
        page_ms, page = asyncio.run(
            _time(plan.looks, lambda: store.read_all(after=newest, tenant=busy, limit=PAGE))
        )
        quiet_ms, own = asyncio.run(_time(plan.looks, lambda: store.read_all(tenant=quiet, limit=PAGE)))
    assert 40 <= len(page) <= PAGE == len(own), (len(page), len(own))
    return {
        "page_ms": page_ms,
        "page_quiet_ms": quiet_ms,
        "page_unlisted_ms": unlisted_ms,
        "list_us_per_event": list_s / plan.events * 1e6,
    }


async def _bench_waiting(plan: _Plan, path: Path, progress: Callable[[str], None]) -> dict[str, float]:
    """Others begin runs, one after the other, while a world passes a tick."""
    progress(f"a world of {plan.agents:,} agents")
    count = plan.agents
    kernel, world = await world_of(
        path,
        agents=count,
        artifacts=count // 10,
        content={"policy": "rule"},
        rule=economy(count, count // 10),
    )
    waits = list[float]()

    async def others() -> None:
        for number in itertools.count():
            append = StreamAppend(run_stream("default", f"other-{number}"), [Draft(RunStarted(), 1, "bench")])
            before = time.perf_counter()
            await kernel.store.append(Batch(appends=[append]))
            waits.append(time.perf_counter() - before)
            await asyncio.sleep(0.005)

    progress("its tick")
    beside = asyncio.ensure_future(others())
    before = time.perf_counter()
    await world.tick()
    tick_s = time.perf_counter() - before
    beside.cancel()
    await asyncio.gather(beside, return_exceptions=True)
    await world.close()
    await kernel.aclose()
    return {"other_runs_wait_ms": max(waits) * 1_000, "tick_s": tick_s}


async def _bench_takeover(path: Path, progress: Callable[[str], None]) -> dict[str, float]:
    """One worker drains while a model answers it; another one has free slots."""
    progress("a drain")
    asked, claimed = asyncio.Event(), asyncio.Event()

    async def first(request: Any) -> str:
        asked.set()
        await asyncio.Event().wait()
        return "never"

    def second(request: Any) -> str:
        claimed.set()
        return "done"

    with Kernel.open(path, models={"m": ScriptedModel(first)}) as one:
        agent = AutonomousAgent(kernel=one, agent_id="a")
        begun = asyncio.ensure_future(agent.run(run_id="r", model="m", prompt="Wait.", on_wait="return"))
        await asked.wait()
        begun.cancel()
        await asyncio.gather(begun, return_exceptions=True)
        asked.clear()
        leaving = Worker(one, one.services)
        tasks = [asyncio.ensure_future(leaving.forever())]
        await asked.wait()
        with Kernel.open(path, models={"m": ScriptedModel(second)}) as two:
            tasks.append(asyncio.ensure_future(Worker(two, two.services).forever()))
            await asyncio.sleep(0.1)
            await leaving.drain(within_s=5)
            before = time.perf_counter()
            await claimed.wait()
            took_s = time.perf_counter() - before
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
    return {"takeover_after_drain_s": took_s}


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
