"""Many seeds, one report: what `artelier torture` runs."""

from __future__ import annotations

import gc
import multiprocessing
import os
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from artelier.errors import InvalidRequest
from artelier_lab.torture.engine import engine, find_engine, using_engine
from artelier_lab.torture.missions.plants import MISSION_PLANTS
from artelier_lab.torture.missions.simulation import try_mission
from artelier_lab.torture.plants import PROBE_PLANTS, SAGA_PLANTS, planted
from artelier_lab.torture.real import try_real
from artelier_lab.torture.schedules.plants import SCHEDULE_PLANTS
from artelier_lab.torture.schedules.simulation import try_schedules
from artelier_lab.torture.trial import Verdict, try_payments, try_sagas, try_seed
from artelier_lab.torture.world.plants import WORLD_PLANTS
from artelier_lab.torture.world.trial import try_world

Progress = Callable[[str], None]

FINDINGS_MAX = 20
"""Findings of one seed that are reported: the first ones say what is wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The options of each trial; with the seed, they are all you need to repeat it."""

    plant: str | None = None
    real: bool = False
    store: str = "sqlite"
    directory: Path
    keep: bool = False

    def command(self, seed: int) -> str:
        """The command that repeats one seed."""
        plant = f" --plant {self.plant}" if self.plant else ""
        store = f" --store {self.store}" if self.store != "sqlite" else ""
        return f"artelier torture --seeds 1 --start {seed}{plant}{store}{' --real' if self.real else ''}"


def run_torture(
    seeds: Iterable[int] | int,
    *,
    start: int = 0,
    plant: str | None = None,
    real: bool = False,
    store: str = "sqlite",
    jobs: int | None = None,
    failures_max: int = 5,
    directory: str | Path | None = None,
    keep: bool = False,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Try seeds, and tell what broke: `ok`, `failures` with the command that repeats each, and counts.

    `seeds`: how many from `start` on, or which. `plant` puts a known bug in, to see that it is found.
    `real` uses real processes and real `kill -9` instead of the simulator. `store`: `sqlite`; or
    `postgres`, or `pgbouncer` (the same behind a pooler), for databases of a server that each process starts,
    and that keeps none of them. `jobs` processes work at once (all CPUs). After `failures_max` failed seeds
    no more are begun. Databases are put into `directory` (a temporary one); `keep` leaves those of failed
    seeds there.
    Errors: `InvalidRequest` for an unknown plant, or a plant with `real`.
    """
    with planted(plant):
        pass
    if real and store != "sqlite":
        raise InvalidRequest("real processes are tried on a file only", got=f"real with store {store}")
    if keep and store != "sqlite":
        raise InvalidRequest("databases of a server are not kept", got=f"keep with store {store}")
    find_engine(store)
    if plant is not None and real:
        raise InvalidRequest("a plant works in the simulator only", got=f"real with plant {plant}")
    numbers = range(start, start + seeds) if isinstance(seeds, int) else [*seeds]
    started_s = time.perf_counter()
    verdicts: list[Verdict] = []
    failed: list[dict[str, Any]] = []
    with _folder(directory) as folder:
        options = Options(plant=plant, real=real, store=store, directory=folder, keep=keep)
        for verdict in _tried(numbers, options, jobs=jobs):
            verdicts.append(verdict)
            if verdict.findings:
                failed.append(_failure(verdict, options))
            if progress is not None:
                progress(_line(verdict, done=len(verdicts), of=len(numbers), failed=len(failed)))
            if len(failed) >= failures_max:
                break
    wall_s = time.perf_counter() - started_s
    return _report(verdicts, failed, options, asked=len(numbers), wall_s=wall_s)


def _try(options: Options, seed: int) -> Verdict:
    folder = options.directory / f"seed-{seed}"
    folder.mkdir(parents=True, exist_ok=True)
    with using_engine(options.store), planted(options.plant):
        if options.real:
            verdict = try_real(seed, folder)
        elif options.plant in SAGA_PLANTS:
            verdict = try_sagas(seed, folder)
        elif options.plant in PROBE_PLANTS:
            verdict = try_payments(seed, folder)
        elif options.plant in WORLD_PLANTS:
            verdict = try_world(seed, folder)
        elif options.plant in SCHEDULE_PLANTS:
            verdict = try_schedules(seed, folder)
        elif options.plant in MISSION_PLANTS:
            verdict = try_mission(seed, folder)
        else:
            verdict = try_seed(seed, folder)
            if options.plant is None:
                verdict.add(try_sagas(seed, folder))
                verdict.add(try_payments(seed, folder))
                verdict.add(try_world(seed, folder))
                verdict.add(try_schedules(seed, folder))
                verdict.add(try_mission(seed, folder))
        if not (options.keep and verdict.findings):
            engine().remove(folder)
    gc.collect()  # each simulation freezes what the one before has left behind
    return verdict


def _tried(numbers: Iterable[int], options: Options, *, jobs: int | None) -> Iterator[Verdict]:
    """Verdicts in the order of the seeds. Closing it early begins no more seeds."""
    seeds = [*numbers]
    workers = min(jobs or os.cpu_count() or 1, max(1, len(seeds)))
    if workers == 1:
        yield from (_try(options, seed) for seed in seeds)
        return
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(workers, mp_context=context, initializer=_end_with_parent)
    try:
        yield from pool.map(partial(_try, options), seeds)
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _end_with_parent() -> None:
    """End this process when the one that started it is gone: nobody reads its verdicts."""
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, name="parent", daemon=True).start()


@contextmanager
def _folder(directory: str | Path | None) -> Generator[Path]:
    if directory is not None:
        Path(directory).mkdir(parents=True, exist_ok=True)
        yield Path(directory).absolute()
        return
    with tempfile.TemporaryDirectory(prefix="artelier-torture-") as folder:
        yield Path(folder)


def _failure(verdict: Verdict, options: Options) -> dict[str, Any]:
    shown = verdict.findings[:FINDINGS_MAX]
    return {
        "seed": verdict.seed,
        "findings": [{"invariant": name, "what": what[:4000]} for name, what in shown],
        "findings_total": len(verdict.findings),
        "plant": options.plant,
        "real": options.real,
        "command": options.command(verdict.seed),
        "databases": str(options.directory / f"seed-{verdict.seed}") if options.keep else None,
    }


def _line(verdict: Verdict, *, done: int, of: int, failed: int) -> str:
    found = f": {verdict.findings[0][0]}" if verdict.findings else ""
    return f"seed {verdict.seed} ({done} of {of}, {failed} failed){found}"


def _report(
    verdicts: list[Verdict], failed: list[dict[str, Any]], options: Options, *, asked: int, wall_s: float
) -> dict[str, Any]:
    def total(counters: Iterable[Counter[str]]) -> dict[str, int]:
        summed: Counter[str] = Counter()
        for counter in counters:
            summed.update(counter)
        return dict(sorted(summed.items(), key=lambda item: (-item[1], item[0])))

    return {
        "ok": not failed,
        "seeds": len(verdicts),
        "asked": asked,
        "plant": options.plant,
        "real": options.real,
        "store": options.store,
        "failures": failed,
        "faults": total(verdict.counts for verdict in verdicts),
        "calls": total(verdict.calls for verdict in verdicts),
        "statuses": total(verdict.statuses for verdict in verdicts),
        "events": sum(verdict.events for verdict in verdicts),
        "commits": sum(verdict.commits for verdict in verdicts),
        "virtual_s": round(sum(verdict.virtual_s for verdict in verdicts)),
        "wall_s": round(wall_s, 3),
        "seeds_per_s": round(len(verdicts) / wall_s, 3) if wall_s else 0.0,
    }
