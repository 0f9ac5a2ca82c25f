"""The same log: what each torture seed records, compared between two checkouts.

A change of the inside must not change what is recorded: record with one checkout, compare with another's.

    python -m artelier_lab.torture.same_log record before.gz --seeds 60
    python -m artelier_lab.torture.same_log compare before.gz

Time and chance are those of the seed, data keys too, so names of content are compared as they stand. Worlds
live in real time: of them instants, the names of processes and the order of streams among each other are left
out, and of worlds with faults the runs, which a crash meets earlier or later.
"""

from __future__ import annotations

import argparse
import gc
import gzip
import json
import multiprocessing
import os
import random
import re
import secrets
import shutil
import sqlite3
import sys
import tempfile
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing, contextmanager
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from artelier_lab.torture.missions.simulation import try_mission
from artelier_lab.torture.schedules.simulation import try_schedules
from artelier_lab.torture.trial import Verdict, try_payments, try_sagas, try_seed
from artelier_lab.torture.world.trial import try_world

Trial = Callable[[int, Path], Verdict]

TRIALS: tuple[Trial, ...] = (try_seed, try_sagas, try_payments, try_schedules, try_mission, try_world)
"""All simulations of a seed; each leaves its databases, those of the runs without faults among them."""

SHOWN_MAX = 20
"""Differences that are printed."""

EVENTS = """SELECT s.tenant, s.space, s.name, e.seq, e.kind, e.version, e.data, e.actor, e.cause, e.at_us
  FROM events e JOIN streams s ON s.id = e.stream ORDER BY e.position"""

REAL_TIME = ("-world", "-world-quiet")
"""How the names of databases end whose simulation lives in real time."""

_INSTANT = re.compile(r'("[a-z_]*_us":)-?\d+')
_PROCESS = re.compile(r'("process":)\[[^]]*\]')


class Log(NamedTuple):
    """The events of one database, each as `<kind> <stream> <digest>`, and what went wrong."""

    seed: int
    database: str
    events: list[str]


class Difference(NamedTuple):
    """The first event in which two logs of a database differ."""

    seed: int
    database: str
    place: int
    before: str
    after: str

    def __str__(self) -> str:
        where = f"seed {self.seed}, {self.database}, event {self.place + 1}"
        return f"{where}: {self.before or 'nothing'} became {self.after or 'nothing'}"


def read_logs(
    seeds: Iterable[int], *, folder: Path, trials: Sequence[Trial] = TRIALS, jobs: int = 1
) -> Iterator[Log]:
    """Play the simulations of each seed and yield what they have recorded, in order. Leaves no database."""
    if jobs == 1:
        for seed in seeds:
            yield from _logs_of(folder, trials, seed)
        return
    with ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        for logs in pool.map(partial(_logs_of, folder, trials), seeds):
            yield from logs


def find_differences(before: Iterable[Log], after: Iterable[Log]) -> list[Difference]:
    """Return where each database of `after` first differs from that of `before`."""
    found: list[Difference] = []
    left = {(log.seed, log.database): log.events for log in before}
    for log in after:
        old, new = left.pop((log.seed, log.database), []), log.events
        if old == new:
            continue
        pairs = zip(old, new, strict=False)
        place = next((n for n, (one, other) in enumerate(pairs) if one != other), min(len(old), len(new)))
        found.append(
            Difference(
                log.seed,
                log.database,
                place,
                "".join(old[place : place + 1]),
                "".join(new[place : place + 1]),
            )
        )
    return found + [Difference(seed, name, 0, old[0], "") for (seed, name), old in left.items() if old]


def write_logs(path: Path, logs: Iterable[Log]) -> int:
    """Write logs to a file, one JSON line each, compressed; return how many events they have."""
    events = 0
    with gzip.open(path, "wt", encoding="utf-8") as file:
        for log in logs:
            events += len(log.events)
            file.write(json.dumps(log) + "\n")
    return events


def load_logs(path: Path) -> list[Log]:
    """Return the logs that `write_logs` has written."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [Log(*json.loads(line)) for line in file]


def _logs_of(folder: Path, trials: Sequence[Trial], seed: int) -> list[Log]:
    own = folder / f"same-log-{seed}"
    logs: list[Log] = []
    for trial in trials:
        shutil.rmtree(own, ignore_errors=True)
        own.mkdir(parents=True)
        with _drawn_secrets(seed):
            verdict = trial(seed, own)
        for path in sorted(own.glob("*.db")):
            logs.append(Log(seed, path.stem.partition("-")[2] or "runs", _events_in(path)))
        # A finding is not judged here, but one that appears or goes is a difference.
        findings = [f"{name}: {what}" for name, what in verdict.findings]
        logs.append(Log(seed, f"findings of {trial.__name__}", findings))
        gc.collect()
    shutil.rmtree(own, ignore_errors=True)
    return logs


def _events_in(path: Path) -> list[str]:
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as db:
        rows: list[Any] = db.execute(EVENTS).fetchall()
    if path.stem.endswith(REAL_TIME):
        rows.sort(key=lambda row: row[:4])
    if path.stem.endswith(REAL_TIME[0]):
        rows = [row for row in rows if not row[2].startswith("run:")]
    return [_named(row, has_times=not path.stem.endswith(REAL_TIME)) for row in rows]


def _named(row: Sequence[Any], *, has_times: bool) -> str:
    tenant, space, name, seq, kind, version, data, actor, cause, at_us = row
    data = _PROCESS.sub(r"\1[]", data)
    if not has_times:
        at_us, data = 0, _INSTANT.sub(r"\g<1>0", data)
    whole = json.dumps((tenant, space, name, seq, kind, version, data, actor, cause, at_us))
    return f"{kind} {name}@{seq} {sha256(whole.encode()).hexdigest()[:16]}"


@contextmanager
def _drawn_secrets(seed: int) -> Generator[None]:
    """Draw data keys from the seed: what they name has the same name in every checkout."""
    before, secrets.token_bytes = secrets.token_bytes, random.Random(f"secrets {seed}").randbytes
    try:
        yield
    finally:
        secrets.token_bytes = before


def main(arguments: Sequence[str] | None = None) -> int:
    """Record logs, or compare with those recorded. Returns 1 if any differs."""
    parser = argparse.ArgumentParser(description="Compare what torture seeds record between two checkouts.")
    parser.add_argument("what", choices=("record", "compare"))
    parser.add_argument("file", type=Path)
    parser.add_argument("--seeds", type=int, default=60, help="How many seeds to record.")
    parser.add_argument("--start", type=int, default=0, help="The first seed.")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--directory", type=Path, help="Where databases are put: else a temporary one.")
    given = parser.parse_args(arguments)
    if os.environ.get("PYTHONHASHSEED") != "0":
        # What is kept in sets is asked in the order of their hashes.
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], {**os.environ, "PYTHONHASHSEED": "0"})
    with tempfile.TemporaryDirectory(prefix="same-log-", dir=given.directory) as folder:
        if given.what == "record":
            seeds: Iterable[int] = range(given.start, given.start + given.seeds)
            events = write_logs(given.file, read_logs(seeds, folder=Path(folder), jobs=given.jobs))
            sys.stdout.write(f"{given.seeds} seeds, {events:,} events\n")
            return 0
        before = load_logs(given.file)
        seeds = sorted({log.seed for log in before})
        found = find_differences(before, read_logs(seeds, folder=Path(folder), jobs=given.jobs))
    for one in found[:SHOWN_MAX]:
        sys.stdout.write(f"{one}\n")
    kinds = sorted({(one.before or one.after).partition(" ")[0] for one in found})
    verdict = f"{len(found)} logs differ, first in {', '.join(kinds)}" if found else "the same logs"
    sys.stdout.write(f"{len(seeds)} seeds, {sum(len(log.events) for log in before):,} events: {verdict}\n")
    return 1 if found else 0


if __name__ == "__main__":
    raise SystemExit(main())
