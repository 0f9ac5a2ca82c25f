"""The figures of the area `scale` that need a server, and those of its faults.

The server is started from the wheel that tests use, with `fsync` on, on the disk of the benchmark; in memory
for a quick run. F is a bare client of the driver that pipelines the rows of a group and commits them.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import re
import signal
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from itertools import count
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from artelier.agents import AutonomousAgent, Worker
from artelier.app import Kernel
from artelier.kernel.events import RunStarted
from artelier.log import Batch, Draft, Store, StreamAppend, run_stream
from artelier.log.event import Stream
from artelier.log.places import open_store, snapshot_place
from artelier.log.rows.copies import scan_event_rows
from artelier.log.store_copy import copy_store
from artelier.models.scripted import ScriptedModel
from artelier.testing.conformance.stage import noted_draft
from artelier.testing.conformance.view import TALLY
from artelier_lab.bench.figures import Target
from artelier_lab.bench.kernel.cycle import CallingModel, Meter, begin, cycles, open_kernel
from artelier_lab.postgres_proxy import PostgresProxy, count_waits
from artelier_lab.postgres_server import SETTINGS, PostgresServer, find_binaries
from artelier_lab.torture.workers import run_workers

LEASE_S = 30.0

TARGETS = {
    "pg_group_rows_over_F": Target(at_least=0.7),
    "pg_round_trips_per_commit": Target(at_most=2),
    "pg_8_over_1_writers": Target(at_least=2),
    "rtt_1ms_over_none": Target(at_least=0.7),
    "follow_ms_p99": Target(at_most=50),
    "claim_statements_per_run": Target(at_most=0.2),
    "copy_over_COPY": Target(at_least=0.2),
    "takeover_s": Target(at_most=LEASE_S + 1),
    "double_steps": Target(at_most=0),
    "double_effects": Target(at_most=0),
    "lost_acknowledged": Target(at_most=0),
}
MORE_US = 200.0
"""What a cycle on PostgreSQL may cost the client beyond one on SQLite."""

UNITS = {
    "pg_group_rows_over_F": "rows of events a second of 32 runs side by side, as a share of F's",
    "pg_rows_per_s": "those rows a second",
    "F_rows_per_s": "F's: a bare client that pipelines groups of 64 rows",
    "pg_round_trips_per_commit": "how often a writer waits for the server at an append",
    "pg_client_us_per_cycle": "us of CPU of this process for a cycle of a model call and a tool, of 32 runs",
    "sqlite_client_us_per_cycle": "the same over a file",
    "pg_8_over_1_writers": "batches a second of eight processes with a tenant each, over those of one",
    "rtt_1ms_over_none": "batches a second of 32 runs over a proxy that adds 1 ms a round trip, as a share of"
    " those over one that adds none",
    "follow_ms_p99": "ms from a commit until another process's store is told, the slowest hundredth",
    "claim_statements_per_run": "statements of a look and of the leases of what it found, for each run",
    "copy_over_COPY": "rows a second of `store copy` from a file, verified, as a share of a bare COPY's",
    "takeover_s": "s from the stop of a process that drives a run to the next claim; a lease lasts 30 s",
    "double_steps": "steps with two outcomes, in a torture of four workers of which one is killed every 5 s",
    "double_effects": "payments that were made twice in it",
    "lost_acknowledged": "payments in it whose request is not in the log, which was told to be durable",
}

RUNS, EVENTS = 32, 2
"""Batches of a group, and events of a batch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    """The sizes of the benchmark."""

    batches: int = 100
    """Of each of the runs."""
    cycles: int = 20
    writing_s: float = 5.0
    followed: int = 300
    claimed: int = 500
    copied: int = 100_000
    paying: int = 100


_QUICK = _Plan(batches=10, cycles=3, writing_s=0.5, followed=30, claimed=50, copied=2_000, paying=0)


def bench_postgres(
    *, quick: bool, directory: Path, progress: Callable[[str], None]
) -> tuple[dict[str, float], dict[str, Target]]:
    """Return figures and their targets; none where the wheel of the server is not installed."""
    binaries = find_binaries()
    if binaries is None:
        return {}, TARGETS
    plan = _QUICK if quick else _Plan()
    directory.chmod(0o711)  # a server that root starts runs as somebody else
    server = PostgresServer(binaries, {**SETTINGS, "fsync": "on"}, parent=None if quick else directory)
    try:
        progress("groups on PostgreSQL, and a bare client")
        figures = _bench_groups(plan, server)
        progress("cycles on both stores")
        figures |= asyncio.run(_bench_cycles(plan, server.make_database(), directory / "cycles.db"))
        progress("eight writers")
        figures |= _bench_writers(plan, server)
        progress("a network of 1 ms")
        figures |= _bench_network(plan, server)
        figures |= asyncio.run(_bench_following(plan, server.make_database()))
        figures |= asyncio.run(_bench_claims(plan, server))
        progress("copying")
        figures |= _bench_copying(plan, server, directory / "copied.db")
        if not quick:
            progress("a process that is stopped")
            figures |= asyncio.run(_bench_takeover(server.make_database()))
    finally:
        server.close()
    if plan.paying:
        progress("workers that are killed")
        killed = run_workers(["kill"], runs=plan.paying)["plans"]["kill"]
        figures |= {name: killed[name] for name in ("double_steps", "double_effects", "lost_acknowledged")}
    client = Target(at_most=figures["sqlite_client_us_per_cycle"] + MORE_US)
    return figures, {**TARGETS, "pg_client_us_per_cycle": client}


# --------------------------------------------------------------------------- the store


async def _batches_per_s(place: str, batches: int) -> float:
    with closing(open_store(place, ())) as store:
        await asyncio.gather(*(_append(store, f"warm-{run}", 2) for run in range(RUNS)))
        before = time.perf_counter()
        await asyncio.gather(*(_append(store, f"{run}", batches) for run in range(RUNS)))
        return RUNS * batches / (time.perf_counter() - before)


async def _append(store: Store, name: str, batches: int, tenant: str = "default") -> None:
    """Append batches, each when the one before it is durable."""
    place = Stream(tenant, "main", f"run:{name}")
    for number in range(batches):
        drafts = tuple(noted_draft(one) for one in range(EVENTS))
        await store.append(Batch(appends=(StreamAppend(place, drafts, number * EVENTS),)))


def _bench_groups(plan: _Plan, server: PostgresServer) -> dict[str, float]:
    rows = EVENTS * asyncio.run(_batches_per_s(server.make_database(), plan.batches))
    bare = _bare_rows_per_s(server.make_database(), plan.batches)
    return {"pg_rows_per_s": rows, "F_rows_per_s": bare, "pg_group_rows_over_F": rows / bare}


_TABLE = (
    "CREATE TABLE events(position BIGINT PRIMARY KEY, stream BIGINT NOT NULL, seq BIGINT NOT NULL,"
    " kind TEXT NOT NULL, version BIGINT NOT NULL, data TEXT NOT NULL, at_us BIGINT NOT NULL,"
    " actor TEXT NOT NULL, cause TEXT, hash BYTEA NOT NULL)"
)
_ROW = "INSERT INTO events VALUES (%s, %s, %s, 'conformance.noted', 1, %s, 1, 'tester', NULL, %s)"


def _bare_rows_per_s(address: str, groups: int) -> float:
    import psycopg

    numbers = count(1)
    with psycopg.connect(address, autocommit=True, prepare_threshold=0) as db:
        db.execute(_TABLE)
        db.execute("CREATE UNIQUE INDEX by_stream ON events(stream, seq)")
        with db.pipeline() as pipeline:
            before = time.perf_counter()
            for group in range(groups):
                db.execute("BEGIN")
                for run in range(RUNS):
                    for one in range(EVENTS):
                        row = (next(numbers), run, group * EVENTS + one, f'{{"number":{one}}}', bytes(32))
                        db.execute(_ROW, row)
                db.execute("COMMIT")
                pipeline.sync()
            return groups * RUNS * EVENTS / (time.perf_counter() - before)


async def _bench_cycles(plan: _Plan, address: str, file: Path) -> dict[str, float]:
    figures: dict[str, float] = {}
    for name, place in (("pg", address), ("sqlite", file)):
        kernel = open_kernel(place, CallingModel())

        async def drive(run_id: str, cycle_count: int, kernel: Kernel = kernel) -> None:
            async with kernel.run(run_id) as run:
                await cycles(run, begin(run), cycle_count)

        try:
            await drive("warm", 5)
            meter = Meter(kernel)
            meter.start()
            await asyncio.gather(*(drive(f"run-{run}", plan.cycles) for run in range(RUNS)))
            figures[f"{name}_client_us_per_cycle"] = meter.stop(RUNS * plan.cycles).cpu_ms * 1_000
        finally:
            kernel.close()
    return figures


def _write(address: str, tenant: str, seconds: float, ends: Connection) -> None:
    """Append as a process of its own, and send how many batches it were."""

    async def write() -> int:
        with closing(open_store(address, ())) as store:
            await _append(store, "warm", 2, tenant)
            ends.send(0)
            ends.recv()
            written, end = 0, time.monotonic() + seconds
            while time.monotonic() < end:
                await _append(store, f"{written}", 1, tenant)
                written += 1
            return written

    ends.send(asyncio.run(write()))


def _written_per_s(address: str, writers: int, seconds: float) -> float:
    spawn = multiprocessing.get_context("spawn")
    pipes = [spawn.Pipe() for _ in range(writers)]
    processes = [
        spawn.Process(target=_write, args=(address, f"tenant-{number}", seconds, far))
        for number, (_, far) in enumerate(pipes)
    ]
    for one, (_, far) in zip(processes, pipes, strict=True):
        one.start()
        far.close()  # if it dies, nobody waits for it
    for near, _ in pipes:
        near.recv()
    for near, _ in pipes:
        near.send(None)
    written = sum(near.recv() for near, _ in pipes)
    for one in processes:
        one.join()
    return written / seconds


def _bench_writers(plan: _Plan, server: PostgresServer) -> dict[str, float]:
    one = _written_per_s(server.make_database(), 1, plan.writing_s)
    eight = _written_per_s(server.make_database(), 8, plan.writing_s)
    return {"pg_8_over_1_writers": eight / one}


def _bench_network(plan: _Plan, server: PostgresServer) -> dict[str, float]:
    found: dict[float, float] = {}
    waits = 0
    for rtt_s in (0.001, 0.0):
        with closing(PostgresProxy(server.folder, delay_s=rtt_s / 2)) as proxy:
            address = server.make_database().replace(str(server.folder), str(proxy.folder))
            found[rtt_s] = asyncio.run(_batches_per_s(address, plan.batches))
            waits = count_waits(proxy, through=address)
    return {"rtt_1ms_over_none": found[0.001] / found[0.0], "pg_round_trips_per_commit": waits}


async def _bench_following(plan: _Plan, address: str) -> dict[str, float]:
    loop, took = asyncio.get_running_loop(), list[float]()
    with closing(open_store(address, ())) as one, closing(open_store(address, ())) as two:
        told = asyncio.Event()

        def hear(position: int, abroad: bool) -> None:
            loop.call_soon_threadsafe(told.set)

        two.listen(hear)
        for number in range(plan.followed):
            told.clear()
            await _append(one, f"{number}", 1)
            before = time.perf_counter()
            await told.wait()
            took.append(time.perf_counter() - before)
            await asyncio.sleep(0.03)  # beyond the time in which notices are one
    return {"follow_ms_p99": sorted(took)[len(took) * 99 // 100] * 1_000}


async def _bench_claims(plan: _Plan, server: PostgresServer) -> dict[str, float]:
    """Count in the server's own log."""
    address, log = server.make_database(), server.folder / "log"
    runs = [run_stream("default", f"run-{number}") for number in range(plan.claimed)]
    started = RunStarted(loop="agent", agent="a", model="m")
    with Kernel.open(address) as kernel:
        await asyncio.gather(
            *(
                kernel.store.append(Batch(appends=[StreamAppend(run, [Draft(started, 1, "bench")])]))
                for run in runs
            )
        )
    with Kernel.open(f"{address}&options=-c%20log_min_messages%3Dlog%20-c%20log_statement%3Dall") as kernel:
        services = kernel.services
        before = log.stat().st_size
        due = await Worker(kernel, services).due()
        await asyncio.gather(
            *(kernel.store.append(Batch(acquire=services.lease(run_stream(*key)))) for key in due)
        )
        with log.open("rb") as file:
            file.seek(before)
            said = file.read().decode(errors="replace")
    assert len(due) == plan.claimed, len(due)
    return {"claim_statements_per_run": len(_STATEMENT.findall(said)) / len(due)}


_STATEMENT = re.compile(r"LOG:  (?:statement|execute [^:]*): (?!BEGIN|COMMIT)")


def _bench_copying(plan: _Plan, server: PostgresServer, file: Path) -> dict[str, float]:
    import psycopg

    async def fill() -> None:
        with closing(open_store(str(file), (TALLY,))) as store:
            for number in range(plan.copied // 1_000):
                drafts = tuple(noted_draft(one) for one in range(1_000))
                place = Stream("default", "main", f"run:{number % 50}")
                await store.append(Batch(appends=(StreamAppend(place, drafts),)))

    asyncio.run(fill())
    before = time.perf_counter()
    copy_store(str(file), server.make_database(), (TALLY,))
    copied_s = time.perf_counter() - before
    bare = server.make_database()
    with psycopg.connect(bare, autocommit=True) as db, snapshot_place(str(file)) as source:
        db.execute(_TABLE.encode())
        before = time.perf_counter()
        with db.cursor().copy("COPY events FROM STDIN") as copy:
            for row in scan_event_rows(source, after=0):
                copy.write_row(row)
        bare_s = time.perf_counter() - before
    return {"copy_over_COPY": bare_s / copied_s}


# --------------------------------------------------------------------------- takeover


def _hold(address: str, ends: Connection) -> None:
    """Drive a run whose model never answers."""

    async def model(request: Any) -> str:
        ends.send(None)
        await asyncio.Event().wait()
        return "never"

    async def drive() -> None:
        with Kernel.open(address, models={"m": ScriptedModel(model)}) as kernel:
            agent = AutonomousAgent(kernel=kernel, agent_id="a")
            await agent.run(run_id="r", model="m", prompt="Wait.", on_wait="return")

    asyncio.run(drive())


async def _bench_takeover(address: str) -> dict[str, float]:
    """Stop a process that drives a run; nobody knows whether it is gone until its lease has ended."""
    spawn, claimed = multiprocessing.get_context("spawn"), asyncio.Event()
    near, far = spawn.Pipe()
    holder = spawn.Process(target=_hold, args=(address, far), daemon=True)
    holder.start()
    far.close()

    def model(request: Any) -> str:
        claimed.set()
        return "done"

    await asyncio.to_thread(near.recv)
    with Kernel.open(address, models={"m": ScriptedModel(model)}) as kernel:
        working = asyncio.ensure_future(Worker(kernel, kernel.services).forever())
        try:
            assert holder.pid is not None
            os.kill(holder.pid, signal.SIGSTOP)
            before = time.perf_counter()
            await claimed.wait()
            took_s = time.perf_counter() - before
        finally:
            holder.kill()
            working.cancel()
            await asyncio.gather(working, return_exceptions=True)
    holder.join()
    return {"takeover_s": took_s}
