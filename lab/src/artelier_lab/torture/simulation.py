"""One seed: a phase with faults, then a calm phase in which every run must end."""

from __future__ import annotations

import asyncio
import gc
import time
import traceback
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from artelier.errors import ArtelierError, Flow, NotFound
from artelier.garbage import leave_out, look_again
from artelier.kernel import Tenant
from artelier.kernel.tool_calls.dispatches import Dispatches, ProcessId
from artelier_lab.torture.checks.oracle import Oracle
from artelier_lab.torture.engine import engine
from artelier_lab.torture.operator import FINAL, Operator
from artelier_lab.torture.outside import Outside
from artelier_lab.torture.perform import TENANT, Performer
from artelier_lab.torture.plan import CALM, Plan
from artelier_lab.torture.process import Process, SimulatedCrash, task_factory
from artelier_lab.torture.script import Program, draw_programs
from artelier_lab.torture.tools import make_tools
from artelier_lab.torture.virtual import START_US, Stuck, VirtualClock, VirtualLoop

FAULTS_S = 240.0
"""Virtual seconds of the phase with faults."""

CALM_S = 6 * 3600.0
"""Virtual seconds within which every run must end once there are no more faults."""

HOLDS_S = 120.0
"""Virtual seconds of calm after which no money comes back any more that a dead process held."""

CPU_S_MAX = 15.0
"""Seconds of this thread's CPU after which a phase is given up: virtual time has all but stopped.

The loop never waits, so that what a phase takes is CPU; seconds of a wall clock would count other programs.
"""

DESK_S = 2.0
"""How often people look."""


class Simulation:
    """The world of one seed on one database file."""

    def __init__(
        self,
        seed: int,
        path: Path,
        *,
        faults: bool,
        programs: list[Program] | None = None,
        late: float | None = None,
    ) -> None:
        """`programs`: those to run; None for what the seed draws. So with `late`, a rate of faults."""
        self.seed = seed
        self.path = path
        self.faults = faults
        self.plan = Plan(seed, faults=faults)
        if faults and late is not None:
            self.plan.rates = replace(self.plan.rates, late=late)
        self.outside = Outside()
        self.programs = draw_programs(seed) if programs is None else programs
        self.operator = Operator(seed, plan=self.plan, outside=self.outside, programs=self.programs)
        self.oracle = Oracle(seed, self.outside)
        self.tools = make_tools(self.outside)
        self.processes: list[Process] = []
        """Those that are alive, the desk of the operator among them."""
        self.dead: set[str] = set()
        """Holders of leases that are taken for gone."""
        self.dead_holders: set[str] = set()
        """Holders that are gone."""
        self.died: dict[ProcessId, int] = {}
        """When processes have died, by the name that they have in events; microseconds."""
        self.known_dead: set[ProcessId] = set()
        """Of those: the ones whose end the others know of."""
        self.heads: list[str] = []
        """Roots that were printed; each must be found for ever."""
        self.findings: list[str] = []
        """What went wrong in a way that nothing may."""
        self.commits = 0
        self.virtual_s = 0.0
        self.calm_us = START_US
        """When the faults ended."""
        self._number = 0

    # Processes

    def open(self, name: str) -> Process:
        self._number += 1
        process = Process(
            name,
            self.path,
            plan=self.plan,
            outside=self.outside,
            model=self.oracle,
            tools=self.tools,
            neighbours=self.processes,
        )
        name_in_events = process.name_in_events = (self._number,)
        services = process.kernel.services
        services.is_dead = self.dead.__contains__
        services.process = name_in_events
        services.dispatches = Dispatches(is_own=name_in_events.__eq__, has_ended=self.known_dead.__contains__)
        return process

    async def close(self, process: Process) -> None:
        self.commits += process.kernel.store.commits
        if process.alive:
            await process.leave()
        else:
            await process.bury()

    async def run(self) -> None:
        """Both phases; afterwards the file is closed and nothing is left."""
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(self._unheard)
        leave_out(self)  # only what is made from here on is looked through at the end
        desk = self.open("desk")
        budget = None if not self.faults else self.plan.rng.choice((None, "0.02", "0.2"))
        await desk.start(
            desk.kernel.tenants.open(Tenant(TENANT, grants={"tools:*", "artifacts:*"}, budget_usd=budget))
        )
        workers = [asyncio.ensure_future(self._worker(number)) for number in range(self.plan.workers)]
        chaos = asyncio.ensure_future(self._chaos(desk))
        tending = asyncio.ensure_future(self._tend(desk))
        try:
            await self._until_ended(FAULTS_S, required=False)
            self._calm_down()
            await self._until_ended(CALM_S, required=True)
        finally:
            tasks = [*workers, chaos, tending]
            for task in tasks:
                task.cancel()
            for result in await asyncio.gather(*tasks, return_exceptions=True):
                self._note(result)
            for process in tuple(self.processes):
                await self.close(process)
            self.virtual_s = loop.time()
            gc.collect()  # so that an error that nobody looked at is heard of
            look_again(self)

    def _unheard(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """An error that nobody looked at is an error of the kernel's, but for those of the dead."""
        error = context.get("exception")
        if isinstance(error, SimulatedCrash):
            return
        trace = traceback.extract_tb(error.__traceback__)[-4:] if error is not None else ()
        places = " < ".join(f"{Path(f.filename).name}:{f.lineno}" for f in reversed(trace))
        self.findings.append(f"nobody heard of: {context.get('message')} {error!r} at {places}")

    def _note(self, result: object) -> None:
        if isinstance(result, Exception):
            self.findings.append(f"the simulation met {type(result).__name__}: {result}")

    def _calm_down(self) -> None:
        self.plan.calm = True
        self.calm_us = VirtualClock(self.processes[0].loop).now_us()
        self.plan.rates = CALM
        for process in self.processes:
            process.writer.limit_pages(None)

    # Workers

    async def _worker(self, number: int) -> None:
        """Drives all runs in one process after the other."""
        life = 0
        while True:
            life += 1
            process = self.open(f"worker-{number}.{life}")
            drives = [
                asyncio.ensure_future(self._keep(process, program, second=number > 0))
                for program in self.programs
            ]
            try:
                await process.died.wait()
            finally:
                for drive in drives:
                    drive.cancel()
                await asyncio.gather(*drives, return_exceptions=True)
            holder = process.holder
            self.dead_holders.add(holder)
            self.died[process.name_in_events] = VirtualClock(process.loop).now_us()
            await self.close(process)
            if self.plan.rng.random() < 0.5:
                self.dead.add(holder)  # else its leases end by time
                self.known_dead.add(process.name_in_events)
            await asyncio.sleep(self.plan.rng.choice((0.0, 1.0, 40.0)))

    async def _keep(self, process: Process, program: Program, *, second: bool) -> None:
        """Drive one run whenever it has not ended, until the process dies."""
        rng = self.plan.rng
        await asyncio.sleep(rng.uniform(0.0, 3.0))
        # Who restarts a program starts its run again, whatever became of it; changed code would begin anew.
        first = not program.changes_s
        while process.alive:
            if first or not await self._has_ended(process, program.run_id):
                first = False
                if second and self.plan.chance(self.plan.rates.steal):
                    self._steal(process)
                await asyncio.wait([process.start(self._drive(process, program))])
            await asyncio.sleep(rng.uniform(0.2, 6.0))

    def _steal(self, process: Process) -> None:
        """Take every other worker for dead for a moment, although it lives."""
        for other in self.processes:
            if other is not process and other.name != "desk":
                self.plan.count("worker taken for dead")
                self.dead.add(other.holder)
                asyncio.get_running_loop().call_later(1.0, self.dead.discard, other.holder)

    async def _drive(self, process: Process, program: Program) -> None:
        performer = Performer(process, program, limited=self.faults)
        try:
            await performer.drive()
        except Flow:
            pass
        except ArtelierError as error:
            self.plan.counts[f"drive ended by {error.code}"] += 1
        except TimeoutError:
            self.plan.counts["drive ended by timeout"] += 1

    async def _has_ended(self, process: Process, run_id: str) -> bool:
        try:
            runs = process.kernel.for_tenant(TENANT)
            shown = await runs.show(await runs.goes_on_as(run_id))
        except (NotFound, ArtelierError):
            return False
        # What a cancelled run holds comes back when it is opened, once its dead process' lease is over.
        return shown["status"] in FINAL and run_id not in await self._holding(process)

    async def _holding(self, process: Process) -> set[str]:
        rows = await process.kernel.store.query(
            "SELECT account FROM accounts WHERE account LIKE 'hold:%' AND balance > 0"
        )
        return {account.removeprefix("hold:") for (account,) in rows}

    # People and chaos

    async def _tend(self, desk: Process) -> None:
        while True:
            await asyncio.sleep(self.plan.rng.uniform(0.2, 2 * DESK_S))
            await desk.start(self.operator.round(desk))
            self.heads.append(await desk.kernel.head())

    async def _chaos(self, desk: Process) -> None:
        """Troubles that come by time."""
        plan = self.plan
        for program in self.programs:
            if plan.chance(plan.rates.cancel):
                asyncio.get_running_loop().call_later(
                    plan.rng.uniform(1.0, 100.0), self._cancel, desk, program.run_id
                )
        while not plan.calm:
            await asyncio.sleep(1.0)
            if plan.chance(plan.rates.commands):
                await desk.start(self.operator.meddle(desk))
            if plan.chance(plan.rates.locks):
                await plan.rng.choice((self._lock, self._tighten))()
            if plan.rates.crash_gap and plan.chance(0.01):
                for process in self.processes[1:2]:
                    process.crash("any time")

    def _cancel(self, desk: Process, run_id: str) -> None:
        if not self.plan.calm and desk.alive:
            desk.start(self.operator.cancel(desk, run_id))

    async def _lock(self) -> None:
        """Another program holds the database locked."""
        self.plan.count("locked")
        with engine().locked(self.path):
            await asyncio.sleep(self.plan.rng.uniform(0.5, 8.0))

    async def _tighten(self) -> None:
        """The disk is nearly full for a while."""
        self.plan.count("tight disk")
        for process in self.processes:
            process.writer.limit_pages(self.plan.rng.randint(0, 3))
        await asyncio.sleep(self.plan.rng.uniform(1.0, 10.0))
        for process in self.processes:
            process.writer.limit_pages(None)

    # The end

    async def _until_ended(self, within_s: float, *, required: bool) -> None:
        loop = asyncio.get_running_loop()
        end = loop.time() + within_s
        started_s = time.thread_time()
        while loop.time() < end:
            await asyncio.sleep(1.0)
            if not await self._unended():
                return
            if time.thread_time() - started_s > CPU_S_MAX:
                self.findings.append(f"{CPU_S_MAX} seconds of CPU were not enough")
                break
        if required:
            self.findings.append(f"not everything has ended: {await self._unended()}")

    async def _unended(self) -> dict[str, str]:
        """Runs that have not ended, or that a person would still retry; with status and reason."""
        desk = self.processes[0]
        found: dict[str, str] = {}
        rows = {
            run: (status, reason)
            for run, status, reason in await desk.kernel.store.query(
                "SELECT run, status, reason FROM runs WHERE tenant = ?", (TENANT,)
            )
        }
        for program in self.programs:
            rows.setdefault(program.run_id, ("never started", ""))
        waited_us = VirtualClock(desk.loop).now_us() - self.calm_us
        holding = await self._holding(desk) if waited_us < HOLDS_S * 1_000_000 else set[str]()
        for run, (status, reason) in rows.items():
            over = (
                status in FINAL
                and run not in holding
                and not (status == "failed" and self.operator.may_retry(run, reason))
            )
            if not over:
                found[run] = f"{status} {reason}".strip()
        return found


def in_virtual_time(work: Callable[[], Awaitable[None]], findings: list[str]) -> None:
    """Run a simulation to its end in a loop of its own. Errors of the simulated are findings."""
    loop = VirtualLoop()
    loop.set_task_factory(task_factory)
    asyncio.set_event_loop(loop)
    try:
        loop.run_until_complete(_as_coroutine(work))
    except Stuck as error:
        findings.append(f"stuck: {error}")
    finally:
        loop.shut()
        asyncio.set_event_loop(None)


async def _as_coroutine(work: Callable[[], Awaitable[None]]) -> None:
    await work()
