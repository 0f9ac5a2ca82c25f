"""The people: they answer questions, settle unknown outcomes by the bank's books, raise limits, retry.

What they answer is a function of the question, so that a run gets the same answers with faults and without.
In the phase with faults they also make trouble: they pause, stop, inject, cancel, and say things twice.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Sequence
from typing import Any, cast

from artelier.app import TenantKernel
from artelier.errors import Conflict, LeaseHeld, NotFound, StoreUnavailable
from artelier.kernel.queries.reports import OpenQuestion
from artelier_lab.torture.outside import Outside
from artelier_lab.torture.perform import CAUGHT, TENANT, of
from artelier_lab.torture.plan import Plan
from artelier_lab.torture.process import Process
from artelier_lab.torture.script import Program

RETRIES_MAX = 12
"""How often a person retries a run whose failure may pass, before giving it up."""

FINAL = ("completed", "failed", "cancelled")


def asked_of(run: str, step: str) -> str:
    """The idempotency key of a step: what a fork undoes for the run that it goes on for has that run's."""
    owner, _, _ = step.rpartition(":")
    return f"{TENANT}/{owner if owner.startswith(of(run)) else run}:{step}"


class Operator:
    """Looks at the runs through a kernel of its own, and does what they wait for."""

    def __init__(self, seed: int, *, plan: Plan, outside: Outside, programs: Sequence[Program]) -> None:
        self._seed = seed
        self._plan = plan
        self._outside = outside
        self._names = [name for program in programs for name in program.names]
        self._changing = {program.run_id for program in programs if program.changes_s}
        self._top = [program.run_id for program in programs]
        self._raised = 1
        self.retries: dict[str, int] = {}
        self.cancelled: set[str] = set()
        """Runs that somebody asked to cancel."""
        self.capped: set[str] = set()
        """Runs that somebody gave a cap when they may have used more already."""
        self.stopped: set[str] = set()
        """Runs whose call in flight somebody asked to stop."""

    async def round(self, desk: Process) -> None:
        """One look at everything."""
        for name in [*self._names, *await self._forks(desk)]:
            await self._met(self._look_after(desk, name))
        if self._plan.calm:
            await self._clear_orphans(desk)

    async def _forks(self, desk: Process) -> list[str]:
        """Runs in which others go on."""
        if not self._changing:
            return []
        rows = await desk.kernel.store.query("SELECT run FROM runs WHERE run LIKE '%.drift-%'")
        return [run for (run,) in rows]

    async def _met(self, command: Awaitable[Any]) -> None:
        """Do something; what it meets (locks, leases, other people, runs not begun) is no trouble."""
        try:
            await command
        except NotFound:
            return
        except (Conflict, LeaseHeld, StoreUnavailable) as error:
            self._plan.count(f"command met {error.code}")

    async def _look_after(self, desk: Process, name: str) -> None:
        runs = desk.kernel.for_tenant(TENANT)
        shown = await runs.show(name)
        status, reason = shown["status"], shown["reason"]
        if status in FINAL:
            for step in shown["unknown_outcomes"]:
                if step.endswith("/undo"):  # of a child, which its parent takes back
                    await self._met(self._settle(runs, name, step))
            if status == "failed" and self.may_retry(name, reason):
                self.retries[name] = self.retries.get(name, 0) + 1
                await runs.retry(name)
            return
        for approval in shown["approvals"]:
            await self._met(self._answer(runs, name, approval))
        for step in shown["unknown_outcomes"]:
            await self._met(self._settle(runs, name, step))
        await self._met(self._signal(desk, runs, name))
        if status == "budget_exhausted":
            await self._raise_limits(desk, runs, name)
        elif status == "paused" and self._plan.calm:
            await runs.resume(name)

    def may_retry(self, name: str, reason: str) -> bool:
        """Return True if a failure may pass: what the agent would go on after fails again for good."""
        return reason not in CAUGHT and self.retries.get(name, 0) < RETRIES_MAX

    def _rng(self, what: str) -> random.Random:
        return random.Random(f"{self._seed} {what}")

    async def _answer(self, runs: TenantKernel, name: str, approval: OpenQuestion) -> None:
        details: dict[str, Any] = approval["details"]
        called: Any = details.get("arguments")
        arguments = cast("dict[str, Any]", called) if isinstance(called, dict) else {}
        op = details.get("op") or arguments.get("op") or approval["step"]
        choice = self._rng(f"approve {op}").choice(("approve", "approve", "deny", "edit"))
        edited: Any = None
        if choice == "edit" and "amount" in arguments:
            edited = {"op": arguments["op"], "amount": 1}
        elif choice == "edit":
            edited = {"instead": "this"}
        for _ in range(2 if self._plan.chance(self._plan.rates.commands) else 1):
            await runs.approve(
                name, approval["step"], deny=choice == "deny", arguments=edited, note="so it is"
            )

    async def _settle(self, runs: TenantKernel, name: str, step: str) -> None:
        """Look at the books and say what they say."""
        key = asked_of(name, step)
        found = self._outside.transfers.get(key)
        if found is not None and found.in_flight:
            return  # nobody can say yet
        if found is not None and found.applied:
            await runs.reconcile(name, step, succeeded=found.receipt)
            return
        # Said before it is done: a repetition that a person decided on is none too many.
        self._outside.decisions[key] += 1
        try:
            await runs.reconcile(name, step, retry=True)
        except LeaseHeld:
            raise  # it stands, and is obeyed later
        except Conflict:
            self._outside.decisions[key] -= 1
            raise

    async def _signal(self, desk: Process, runs: TenantKernel, name: str) -> None:
        """Send what a run waits for; some of its branches may wait while others work."""
        rows = await desk.kernel.store.query(
            "SELECT w.name FROM waits w JOIN runs r ON r.id = w.run"
            " WHERE r.tenant = ? AND r.run = ? AND w.name <> '' ORDER BY w.key",
            (TENANT, name),
        )
        for (signal,) in rows:
            for _ in range(2 if self._plan.chance(self._plan.rates.commands) else 1):
                await runs.signal(name, signal, {"from": "operator"})

    async def _raise_limits(self, desk: Process, runs: TenantKernel, name: str) -> None:
        """Lift what is in the way: a cap of the run, or the tenant's budget."""
        rows = await desk.kernel.store.query(
            "SELECT unit FROM limits WHERE tenant = ? AND scope = ? AND cap IS NOT NULL",
            (TENANT, f"run:{name}"),
        )
        for (unit,) in rows:
            await runs.limit(name, unit=unit, cap=None)
        shown = await desk.kernel.tenants.show(TENANT)
        if shown["budget_usd"] is not None:
            more = float(shown["budget_usd"]) + 0.05 * self._raised
            self._raised += 1  # each time more: some requests are large
            await desk.kernel.tenants.update(TENANT, budget_usd=f"{more:.6f}")

    # Trouble

    async def meddle(self, desk: Process) -> None:
        """Do something to a run that nobody needs."""
        runs, rng = desk.kernel.for_tenant(TENANT), self._plan.rng
        name = rng.choice(self._top)
        verb = rng.choice(("pause", "resume", "stop", "inject", "signal", "limit", "retry"))
        try:
            if verb == "inject":
                await runs.inject(name, "hurry {{ up }}")
            elif verb == "signal":
                await runs.signal(name, rng.choice(("go", "other")), {"n": 1})
            elif verb == "limit":
                self.capped.add(name)
                await runs.limit(name, unit="steps", cap=rng.choice((1, 10, 1000)))
            else:
                if verb == "stop":
                    self.stopped.add(name)
                await getattr(runs, verb)(name)
            self._plan.count(f"command {verb}")
        except (NotFound, Conflict, StoreUnavailable) as error:
            self._plan.count(f"{verb} met {error.code}")

    async def cancel(self, desk: Process, name: str) -> None:
        self.cancelled.add(name)
        try:
            await desk.kernel.for_tenant(TENANT).cancel(name, note="enough")
            self._plan.count("command cancel")
        except (NotFound, Conflict, StoreUnavailable) as error:
            self._plan.count(f"cancel met {error.code}")

    async def _clear_orphans(self, desk: Process) -> None:
        """Cancel children whose parent has ended for good without them."""
        runs = desk.kernel.for_tenant(TENANT)
        for name in self._names:
            parent = name.partition("::")[0]
            if parent == name:
                continue
            try:
                above = await runs.show(parent)
                ended = above["status"] in FINAL and not (
                    above["status"] == "failed" and self.may_retry(parent, above["reason"])
                )
                if ended and (await runs.show(name))["status"] not in FINAL:
                    await runs.cancel(name, note="its parent has ended")
                    self.cancelled.add(name)
            except (NotFound, Conflict, StoreUnavailable):
                continue
