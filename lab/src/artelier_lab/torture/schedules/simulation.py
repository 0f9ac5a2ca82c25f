"""The schedules of one seed: workers that die at every instant, and each time decided once.

Runs are of a loop of their own that computes and sleeps, so that timers and schedules meet in the worker.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

from artelier.agents import Worker
from artelier.agents.launch import Launch, register_launch
from artelier.agents.loop_registry import BuiltIn, register_loop
from artelier.errors import ArtelierError, Flow, StoreUnavailable
from artelier.kernel import AgentResult, Limits
from artelier_lab.torture.checks.oracle import Oracle
from artelier_lab.torture.outside import Outside
from artelier_lab.torture.perform import TENANT
from artelier_lab.torture.plan import CALM, Plan
from artelier_lab.torture.process import Process, SimulatedCrash, current
from artelier_lab.torture.schedules.checks import audit_schedules
from artelier_lab.torture.simulation import in_virtual_time
from artelier_lab.torture.trial import Verdict
from artelier_lab.torture.virtual import VirtualClock

LOOP = "torture.timer"
FAULTS_S = 200.0
"""Virtual seconds of the phase with faults."""
CALM_S = 1_200.0
"""Virtual seconds within which everything that was fired must end once there are no more faults."""
CPU_S_MAX = 20.0
"""As in the other simulation: of this thread, whatever else the machine does."""

CRONS = ("* * * * *", "*/2 * * * *")


async def _start(
    kernel: Any,
    tenant: Any,
    run_id: str,
    settings: dict[str, Any],
    limits: Limits | None,
    on_wait: str,
    key_id: int | None,
) -> AgentResult:
    """Compute, sleep, compute, end: each computation is entered in the books of the outside."""

    async def work(n: int) -> int:
        process = current.get()
        assert process is not None
        process.check_alive()
        process.outside.calls[f"computed {run_id} {n}"] += 1
        return n

    opened = kernel.for_tenant(tenant).run(
        run_id, loop=LOOP, settings=settings, limits=limits, on_wait="suspend"
    )
    with suppress(Flow):
        async with opened as run:
            if run.core.actor is not None:
                first = await run.step("work", work, 1, key="first")
                await run.sleep(settings["sleep_s"])
                run.finish(first + await run.step("work", work, 2, key="second"))
    shown = await kernel.for_tenant(tenant).show(run_id)
    return AgentResult(status=shown["status"], run_id=run_id)


async def _resume(kernel: Any, tenant: Any, run_id: str, on_wait: str) -> AgentResult:
    from artelier.agents.loop_registry import settings_of

    settings = await settings_of(kernel, tenant, run_id)
    return await _start(kernel, tenant, run_id, settings, None, on_wait, None)


async def _needs(kernel: Any, tenant: Any, run_id: str) -> None:
    return None


async def _replay(run: Any, settings: dict[str, Any]) -> None:
    raise AssertionError("nobody replays these")


def register() -> None:
    """Twice is as once."""
    register_launch(LOOP, Launch(check=lambda desk, settings: settings, start=_start))
    register_loop(LOOP, BuiltIn(resume=_resume, replay=_replay, needs=_needs))


def draw_schedules(seed: int) -> dict[str, dict[str, Any]]:
    """Options of `schedules.add`, by name."""
    rng = random.Random(f"schedules {seed}")

    def one() -> dict[str, Any]:
        times: dict[str, Any] = {"every": rng.choice((3, 7, 20, 45))}
        if rng.random() < 0.3:
            times = {"cron": rng.choice(CRONS), "timezone": rng.choice(("UTC", "Europe/Berlin"))}
        return {
            **times,
            "loop": LOOP,
            "settings": {"sleep_s": rng.choice((0.0, 1.0, 10.0, 60.0))},
            "overlap": rng.choice(("skip", "skip", "queue", "cancel_running", "allow")),
            "catch_up": rng.choice(("one", "none")),
        }

    return {f"s{number}": one() for number in range(rng.randint(1, 3))}


class Played:
    """One seed's schedules on one file."""

    def __init__(self, seed: int, path: Path) -> None:
        self.path = path
        self.plan = Plan(seed, faults=True)
        self.plan.workers = self.plan.rng.choice((1, 2, 2, 3))
        self.outside = Outside()
        self.oracle = Oracle(seed, self.outside)
        self.drawn = draw_schedules(seed)
        self.processes: list[Process] = []
        self.dead: set[str] = set()
        self.findings: list[str] = []
        self.commits = 0

    def open(self, name: str) -> Process:
        process = Process(
            name,
            self.path,
            plan=self.plan,
            outside=self.outside,
            model=self.oracle,
            tools=(),
            neighbours=self.processes,
        )
        process.kernel.services.is_dead = self.dead.__contains__
        return process

    async def close(self, process: Process) -> None:
        self.commits += process.kernel.store.commits
        await (process.leave() if process.alive else process.bury())

    async def play(self) -> None:
        """Both phases: faults while schedules fire, then calm until all that was fired has ended."""
        asyncio.get_running_loop().set_exception_handler(self._unheard)
        desk = self.open("desk")
        door = desk.kernel.for_tenant(TENANT).schedules
        for name, options in self.drawn.items():
            await door.add(name, **options)
        workers = [asyncio.ensure_future(self._worker(n)) for n in range(self.plan.workers)]
        try:
            await asyncio.sleep(FAULTS_S)
            self.plan.calm, self.plan.rates = True, CALM
            await asyncio.sleep(100.0)  # some times come in calm, too
            for name in self.drawn:
                await door.pause(name)
            await self._until_ended(desk)
        finally:
            for worker in workers:
                worker.cancel()
            for result in await asyncio.gather(*workers, return_exceptions=True):
                if isinstance(result, Exception):
                    self.findings.append(f"a worker met {type(result).__name__}: {result}")
            for process in tuple(self.processes):
                await self.close(process)

    async def _until_ended(self, desk: Process) -> None:
        started_s, end = time.thread_time(), VirtualClock(desk.loop).now_us() + CALM_S * 1_000_000
        sql = "SELECT run FROM schedule_firings WHERE open = 1"
        while left := await desk.kernel.store.query(sql):
            late = VirtualClock(desk.loop).now_us() > end
            if late or time.thread_time() - started_s > CPU_S_MAX:
                self.findings.append(f"fired, and never ended: {left[:5]}")
                return
            await asyncio.sleep(5.0)

    async def _worker(self, number: int) -> None:
        """One process after the other drives what is due."""
        life = 0
        while True:
            life += 1
            process = self.open(f"worker-{number}.{life}")
            work = process.start(self._drive(process))
            try:
                await process.died.wait()
            finally:
                work.cancel()
                await asyncio.gather(work, return_exceptions=True)
            if self.plan.rng.random() < 0.7:
                self.dead.add(process.holder)  # else its leases end by time
            await self.close(process)
            await asyncio.sleep(self.plan.rng.choice((0.0, 0.5, 5.0, 70.0)))

    async def _drive(self, process: Process) -> None:
        """Drive runs as the server's worker does: a store that is full for now is no reason to stop."""
        while process.alive:
            try:
                await Worker(process.kernel, process.kernel.services).forever()
            except StoreUnavailable:
                await asyncio.sleep(1.0)
            except ArtelierError as error:
                self.findings.append(f"a worker stopped: {error}")
                return

    def _unheard(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if not isinstance(error, SimulatedCrash | StoreUnavailable):
            self.findings.append(f"nobody heard of: {context.get('message')} {error!r}")


def try_schedules(seed: int, folder: Path) -> Verdict:
    """Judge one seed's schedules; its database is left in `folder`."""
    register()
    started_s = time.perf_counter()
    verdict, path = Verdict(seed=seed), folder / f"{seed}-schedules.db"
    played = Played(seed, path)
    in_virtual_time(played.play, played.findings)
    verdict.findings += [("schedules: everything ends", text) for text in played.findings]
    verdict.findings += audit_schedules(path, played.outside.calls)
    verdict.counts = Counter({f"schedules: {k}": n for k, n in played.plan.counts.items()})
    verdict.commits = played.commits
    verdict.statuses["schedules kept"] += not verdict.findings
    verdict.wall_s = time.perf_counter() - started_s
    return verdict
