"""One seed, judged: the same programs without faults, then with them, then the invariants."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from artelier_lab.torture.checks.audit import Audit, Ended
from artelier_lab.torture.checks.forks import ForksDoNothing
from artelier_lab.torture.checks.invariants import INVARIANTS, Invariant
from artelier_lab.torture.engine import engine
from artelier_lab.torture.perform import TENANT
from artelier_lab.torture.programs.probes import LATE, draw_payments
from artelier_lab.torture.programs.sagas import OrdersAreTakenBack, draw_sagas
from artelier_lab.torture.script import Program
from artelier_lab.torture.simulation import Simulation, in_virtual_time


@dataclass(slots=True, kw_only=True)
class Verdict:
    """The findings and counts of one seed."""

    seed: int
    findings: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    """(invariant, what is wrong)"""
    counts: Counter[str] = field(default_factory=Counter[str])
    """Faults, by kind."""
    statuses: Counter[str] = field(default_factory=Counter[str])
    calls: Counter[str] = field(default_factory=Counter[str])
    commits: int = 0
    events: int = 0
    virtual_s: float = 0.0
    wall_s: float = 0.0

    def add(self, other: Verdict) -> None:
        """Take over what another trial of the same seed showed."""
        self.findings += other.findings
        for mine, more in (
            (self.counts, other.counts),
            (self.statuses, other.statuses),
            (self.calls, other.calls),
        ):
            mine.update(more)
        self.commits += other.commits
        self.events += other.events
        self.virtual_s += other.virtual_s
        self.wall_s += other.wall_s


async def endings(simulation: Simulation) -> dict[str, Ended]:
    """Return how all runs of a simulation have ended."""
    desk = simulation.open("desk")
    try:
        runs = desk.kernel.for_tenant(TENANT)
        names = [name for (name,) in await desk.kernel.store.query("SELECT run FROM runs")]
        shown = {name: await runs.show(name) for name in names}
    finally:
        await simulation.close(desk)
    return {
        name: Ended(status=run["status"], reason=run["reason"], result=run["result"])
        for name, run in shown.items()
    }


def simulate(
    seed: int, path: Path, *, faults: bool, programs: list[Program] | None = None, late: float | None = None
) -> tuple[Simulation, dict[str, Ended]]:
    """Run one simulation to its end."""
    simulation = Simulation(seed, path, faults=faults, programs=programs, late=late)
    ended: dict[str, Ended] = {}

    async def whole() -> None:
        await simulation.run()
        ended.update(await endings(simulation))

    in_virtual_time(whole, simulation.findings)
    return simulation, ended


def try_seed(seed: int, folder: Path) -> Verdict:
    """Judge one seed; its databases are left in `folder`."""
    invariants = (*INVARIANTS, ForksDoNothing())
    return _judged(seed, folder / f"{seed}.db", None, invariants)


def try_sagas(seed: int, folder: Path) -> Verdict:
    """Judge the same seed by runs that undo what they have done."""
    invariants = (*INVARIANTS, OrdersAreTakenBack())
    return _judged(seed, folder / f"{seed}-sagas.db", draw_sagas(seed), invariants)


def try_payments(seed: int, folder: Path) -> Verdict:
    """Judge the same seed by runs that pay where the outside can be asked what became of it."""
    path = folder / f"{seed}-payments.db"
    return _judged(seed, path, draw_payments(seed), INVARIANTS, late=LATE)


def _judged(
    seed: int,
    path: Path,
    programs: list[Program] | None,
    invariants: Sequence[Invariant],
    *,
    late: float | None = None,
) -> Verdict:
    started_s = time.perf_counter()
    verdict = Verdict(seed=seed)
    quiet_path = path.with_name(f"{path.stem}-quiet.db")
    quiet, expected = simulate(seed, quiet_path, faults=False, programs=programs)
    simulation, ended = simulate(seed, path, faults=True, programs=programs, late=late)
    verdict.findings += [("without faults", text) for text in quiet.findings]

    async def check() -> None:
        desk = simulation.open("desk")
        with engine().reading(path) as db:
            audit = Audit(simulation=simulation, desk=desk, db=db, ended=ended, expected=expected)
            for invariant in invariants:
                verdict.findings += [(invariant.name, text) for text in await invariant.check(audit)]
            verdict.events = audit.rows("SELECT count(*) FROM events")[0][0]
        await simulation.close(desk)

    own: list[str] = []
    in_virtual_time(check, own)
    verdict.findings += [("the checks themselves", text) for text in own]
    verdict.counts = simulation.plan.counts
    verdict.calls = simulation.outside.calls
    verdict.statuses = Counter(ending.status for ending in ended.values())
    verdict.commits = simulation.commits
    verdict.virtual_s = simulation.virtual_s
    verdict.wall_s = time.perf_counter() - started_s
    return verdict
