"""Real processes and real `kill -9`: a small agent is killed at random times until it has come to its end."""

from __future__ import annotations

import asyncio
import json
import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from artelier.app import Kernel
from artelier_lab.torture.agent import RUN, UNKNOWN, SlowModel, paid, receipt, tools_of
from artelier_lab.torture.trial import Verdict

KILLS_MAX = 15
"""After so many kills the agent is left alone; it must end then."""

STARTS_MAX = 60
LIFE_S_MAX = 0.12
"""An undisturbed agent takes about this long once its kernel is open."""

PATIENCE_S = 60.0


class _Trial:
    """One agent on one file."""

    def __init__(self, seed: int, folder: Path) -> None:
        self.seed = seed
        self.path = folder / "state.db"
        self.books = folder / "books.txt"
        self.rng = random.Random(f"real {seed}")
        self.verdict = Verdict(seed=seed)
        self.decisions: Counter[str] = Counter()

    def found(self, invariant: str, what: str) -> None:
        self.verdict.findings.append((invariant, what))

    def to_the_end(self) -> Any:
        """Start and kill the agent until it has ended; its result."""
        for _ in range(STARTS_MAX):
            killing = self.verdict.counts["kill -9"] < KILLS_MAX
            code, output, errors = self._life(killing=killing)
            if code == 0:
                return json.loads(output)
            if code == UNKNOWN:
                self.verdict.counts["unknown outcome"] += 1
                asyncio.run(self._settle())
            elif code > 0:
                self.found("I12: ends are honest", f"the agent ended with {code}: {errors[-2000:]}")
                return None
        self.found("I12: ends are honest", f"the agent has not ended after {STARTS_MAX} starts")
        return None

    def _life(self, *, killing: bool) -> tuple[int, str, str]:
        command = [
            sys.executable,
            "-m",
            "artelier_lab.torture.agent",
            str(self.path),
            str(self.books),
            str(self.seed),
        ]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as agent:
            assert agent.stdout is not None and agent.stderr is not None
            ready = agent.stdout.readline()
            if killing and ready:
                time.sleep(self.rng.uniform(0.0, LIFE_S_MAX))
                if agent.poll() is None:
                    agent.kill()
                    self.verdict.counts["kill -9"] += 1
            output, errors = agent.communicate(timeout=PATIENCE_S)
            return agent.returncode, output, errors

    async def _settle(self) -> None:
        """Look at the books, as an operator does, and say what became of each payment."""
        with Kernel.open(
            self.path, models={"m": SlowModel()}, tools=tools_of(self.books), environ={}
        ) as kernel:
            runs = kernel.for_tenant()
            for step in (await runs.show(RUN))["unknown_outcomes"]:
                key = f"default/{RUN}:{step}"
                if key in paid(self.books):
                    await runs.reconcile(RUN, step, succeeded=receipt(key))
                else:
                    self.decisions[key] += 1
                    await runs.reconcile(RUN, step, retry=True)

    def check(self, result: Any, expected: Any) -> None:
        if result != expected:
            self.found("results are the same as without faults", f"{result} instead of {expected}")
        for key, times in Counter(paid(self.books)).items():
            if times > 1 + self.decisions[key]:
                self.found("I4: steps happen once", f"{key} was paid {times} times")
        with Kernel.open(self.path, models={"m": SlowModel()}, environ={}) as kernel:
            for finding in kernel.verify().findings:
                self.found("I1, I2: the log is the truth", finding)
            status = asyncio.run(kernel.for_tenant().show(RUN))["status"]
            self.verdict.statuses[status] += 1
            self.verdict.commits = kernel.store.commits
        if status != "completed":
            self.found("I12: ends are honest", f"the run is {status}")


def try_real(seed: int, folder: Path) -> Verdict:
    """Judge one seed with real processes; databases and books are left in `folder`."""
    started_s = time.perf_counter()
    quiet = folder / "quiet"
    quiet.mkdir(exist_ok=True)
    undisturbed = _Trial(seed, quiet)
    undisturbed.verdict.counts["kill -9"] = KILLS_MAX
    expected = undisturbed.to_the_end()
    trial = _Trial(seed, folder)
    result = trial.to_the_end()
    if result is not None:
        trial.check(result, expected)
    trial.verdict.wall_s = time.perf_counter() - started_s
    return trial.verdict
