"""Forks of the runs of a simulation: whatever becomes of them, nothing happens outside that nobody approved.

They are made when everything has ended, at a random event, and driven by processes that die. A fork's code
asks for what its origin asked for, so that recorded calls are there to be returned.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from typing import Any

from artelier.errors import ArtelierError, Flow
from artelier.kernel import Run
from artelier.log import run_stream
from artelier_lab.torture.checks.audit import Audit
from artelier_lab.torture.operator import FINAL
from artelier_lab.torture.perform import TENANT, Performer
from artelier_lab.torture.process import Process, SimulatedCrash
from artelier_lab.torture.script import Program

LIVES, DEATHS = 7, 2
"""Processes that drive a fork one after the other, and how many of them die."""

PAUSE_S = 200.0
"""Virtual seconds between two lives, so that what a fork waits for comes."""

FORKS_MAX = 2
"""Of one simulation: the time of a trial is in its faults."""


class ForkPerformer(Performer):
    """The code of a run as its fork runs it: what it asks for bears the name of the origin."""

    def __init__(self, process: Process, program: Program, *, fork: str) -> None:
        super().__init__(process, replace(program, run_id=fork, on_wait="suspend"), limited=False)
        self._fork, self._origin = fork, program.run_id

    def named(self, run: Run) -> str:
        return run.id.replace(self._fork, self._origin, 1)


class ForksDoNothing:
    """A fork under `recorded` or `stub` dispatches nothing, and returns each recorded call once."""

    name = "forks' effects"

    async def check(self, audit: Audit) -> list[str]:
        simulation, found = audit.simulation, list[str]()
        rng = random.Random(f"forks {simulation.seed}")
        simulation.outside.replaying = False
        simulation.outside.keys.clear()  # a fork does ask again what its origin has an answer to
        programs = [one for one in simulation.programs if not one.changes_s]
        for program in programs[:FORKS_MAX]:
            if program.run_id not in audit.ended:
                continue
            head, _ = await audit.desk.kernel.store.head(run_stream(TENANT, program.run_id))
            at = rng.choice((1, rng.randint(1, max(1, head // 3)), rng.randint(1, max(1, head - 1))))
            mode = rng.choice(("recorded", "recorded", "recorded", "stub"))
            try:
                fork = await audit.desk.start(
                    audit.desk.kernel.for_tenant(TENANT).fork(program.run_id, at=at, effects=mode)
                )
            except ArtelierError as error:
                found.append(f"{program.run_id} cannot be forked at {at}: {error!r}")
                continue
            for life in range(LIVES):
                await _lived(audit, program, fork, rng, dies=life < DEATHS)
                if not await _goes_on(audit, fork):
                    break
            found += [f"{text} ({mode}, at {at})" for text in _judged(audit, program.run_id, fork, at)]
        return [*found, *audit.desk.kernel.verify().findings]


async def _lived(audit: Audit, program: Program, fork: str, rng: random.Random, *, dies: bool) -> None:
    """Drive a fork in a process of its own, which may die on the way."""
    simulation = audit.simulation
    process = simulation.open(f"fork-{rng.random()}")
    performer = ForkPerformer(process, program, fork=fork)
    if dies:
        process.loop.call_later(rng.uniform(0.0, 1.5), process.crash, "fork")
    drive = process.start(performer.drive())
    await asyncio.wait([drive])
    if not drive.cancelled() and (error := drive.exception()) is not None:
        expected = ArtelierError | Flow | TimeoutError | SimulatedCrash
        if not isinstance(error, expected):
            raise error
    simulation.dead.add(process.holder)
    await simulation.close(process)


async def _goes_on(audit: Audit, fork: str) -> bool:
    """Answer what the program asks people, never what the fork may do; False when the fork has ended."""
    runs = audit.desk.kernel.for_tenant(TENANT)
    if (await runs.show(fork))["status"] in FINAL:
        return False
    for asked in await runs.approvals():
        if of_fork(asked["run_id"], fork) and "fork" not in (asked["details"] or {}):
            with suppress(ArtelierError):
                await runs.approve(asked["run_id"], step=asked["step"], by="user:kim")
    await asyncio.sleep(PAUSE_S)
    return True


def of_fork(run: str, fork: str) -> bool:
    """Return True for the fork and the runs below it."""
    return run == fork or run.startswith(f"{fork}::")


def _judged(audit: Audit, origin: str, fork: str, at: int) -> list[str]:
    outside = audit.simulation.outside
    mine = f"{TENANT}/{fork}"
    found = [
        f"{key} acted outside, which nobody approved"
        for key in {*outside.dispatched, *outside.board, *outside.transfers}
        if key.startswith((f"{mine}:", f"{mine}::"))
    ]
    returned: Counter[tuple[str, str]] = Counter()
    for run, _, data in audit.events("tool.completed"):
        mark: dict[str, Any] | None = data.get("recorded")
        if mark is not None and of_fork(run, fork):
            returned[mark["run"], mark["key"]] += 1
    found += [f"{fork} returned {run}:{key} {n} times" for (run, key), n in returned.items() if n > 1]
    before = {
        data["key"] for run, _, data in audit.events("tool.completed", "tool.reconciled") if run == origin
    } & {
        key
        for (key,) in audit.rows(
            "SELECT s.key FROM steps s JOIN runs r ON r.id = s.run WHERE r.run = ? AND s.completed <= ?",
            origin,
            at,
        )
    }
    found += [
        f"{fork} returned {key}, which it shares with its origin"
        for run, key in returned
        if run == origin and key in before
    ]
    audit.simulation.plan.counts["recorded calls returned"] += returned.total()
    return found
