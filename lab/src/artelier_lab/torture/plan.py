"""The misfortunes that a seed has drawn, and the time of the next one."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """The rates of faults. A rate is a chance per occasion; 0 is never."""

    crash_gap: int
    """A crash comes after 1 to this many fault points; 0 for none."""
    crashes_max: int
    full: float
    """Per commit: the disk is full."""
    transient: float
    """Per model or tool call: it fails in a passing way, once or several times."""
    late: float
    """Per side effect: the outside does it, and says so too late or never."""
    slow_commit: float
    steal: float
    """Per look of the second worker: it takes a run over from a living one."""
    commands: float
    """Per second: somebody pauses, resumes, stops, injects."""
    cancel: float
    """Per run: somebody cancels it at some time."""
    locks: float
    """Per second: another program holds the database locked, or the disk gets tight."""
    workers: int


def draw_rates(rng: random.Random) -> Rates:
    """A seed has some sorts of faults and not others, so that each sort is also seen alone."""

    def sometimes(chance: float, value: float) -> float:
        return value if rng.random() < chance else 0.0

    return Rates(
        crash_gap=rng.choice((0, 8, 20, 60, 60)),
        crashes_max=rng.choice((2, 6, 12)),
        full=sometimes(0.3, 0.03),
        transient=sometimes(0.6, 0.25),
        late=sometimes(0.6, 0.3),
        slow_commit=sometimes(0.5, 0.3),
        steal=sometimes(0.4, 0.2),
        commands=sometimes(0.5, 0.15),
        cancel=sometimes(0.3, 0.2),
        locks=sometimes(0.3, 0.05),
        workers=rng.choice((1, 1, 2)),
    )


CALM = Rates(
    crash_gap=0,
    crashes_max=0,
    full=0,
    transient=0,
    late=0,
    slow_commit=0,
    steal=0,
    commands=0,
    cancel=0,
    locks=0,
    workers=1,
)


class Plan:
    """Draws the faults of one simulation. In the calm phase there are none."""

    def __init__(self, seed: int, *, faults: bool) -> None:
        self.rng = random.Random(f"faults {seed}")
        self.rates = draw_rates(self.rng) if faults else CALM
        self.calm = not faults
        self.workers = self.rates.workers
        self.counts: Counter[str] = Counter()
        """What was done to the system, by kind."""
        self._crashes = 0
        self._gap = self._next_gap()

    def _next_gap(self) -> int:
        gap = self.rates.crash_gap
        return self.rng.randint(1, gap) if gap and self._crashes < self.rates.crashes_max else 0

    def count(self, what: str) -> None:
        self.counts[what] += 1

    def chance(self, rate: float) -> bool:
        """Return True if a misfortune of that rate happens now."""
        return not self.calm and rate > 0 and self.rng.random() < rate

    def at(self, process: str, point: str) -> str:
        """Return what happens at a fault point: `crash`, `full` or nothing."""
        if self.calm or process == "desk":
            return ""
        if self._gap:
            self._gap -= 1
            if not self._gap:
                self._crashes += 1
                self._gap = self._next_gap()
                return "crash"
        if point == "commit.before" and self.chance(self.rates.full):
            self.count("disk full")
            return "full"
        return ""

    def commit_delay_s(self) -> float:
        """Return how long a commit is in the making: others join its group meanwhile."""
        return self.rng.uniform(0.001, 0.2) if self.chance(self.rates.slow_commit) else 0.0

    def failures(self, *, most: int) -> int:
        """Return how many tries of a call fail before one succeeds."""
        return self.rng.randint(1, most) if self.chance(self.rates.transient) else 0
