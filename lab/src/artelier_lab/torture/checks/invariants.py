"""The invariants at the end of every simulation: one small checker per promise."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any, Protocol

import msgspec

from artelier.errors import ArtelierError
from artelier.kernel import Renderer
from artelier.kernel.events import ContextAssembled
from artelier.kernel.run.services import LEASE_TTL_US
from artelier.kernel.run.status import DRIFTED
from artelier.ledger import DEBT
from artelier_lab.torture.checks.audit import Audit, drift_of
from artelier_lab.torture.checks.money import AttemptsAreBilled, OverrunsAreDebt, excess_of
from artelier_lab.torture.operator import FINAL, asked_of
from artelier_lab.torture.perform import TENANT, Performer, of
from artelier_lab.torture.programs.probes import ProbesRepeatNoEffect
from artelier_lab.torture.script import Op, Program


class Invariant(Protocol):
    """A promise and how to see that it was kept."""

    name: str

    async def check(self, audit: Audit) -> list[str]:
        """Return what is wrong; nothing, if the promise was kept."""
        ...


class LogIsTruth:
    """Chains, commits and content verify; every view is what the log gives; no printed head is lost."""

    name = "I1, I2: the log is the truth"

    async def check(self, audit: Audit) -> list[str]:
        report = audit.desk.kernel.verify()
        roots = {root.hex() for (root,) in audit.rows("SELECT root FROM commits")}
        lost = [head for head in audit.simulation.heads if head not in roots and set(head) != {"0"}]
        unchecked = [f"nobody checks {name}" for name in report.unchecked]
        return [*report.findings, *unchecked, *(f"head {head} is gone" for head in lost[:3])]


class MoneyIsConserved:
    """Per tenant and asset all accounts add up to zero, only sources owe, and nothing is held at the end."""

    name = "I3: money is conserved"

    async def check(self, audit: Audit) -> list[str]:
        found: list[str] = []
        sums: Counter[tuple[str, str]] = Counter()
        for tenant, account, asset, balance in audit.rows(
            "SELECT tenant, account, asset, balance FROM accounts"
        ):
            sums[tenant, asset] += balance
            if balance < 0 and not account.startswith(("source:", "mint:")):
                found.append(f"{account} of {tenant} is {balance} {asset}")
            if account.startswith("hold:") and balance:
                found.append(f"{account} of {tenant} still holds {balance} {asset}")
        found += [f"{asset} of {tenant} adds up to {n}" for (tenant, asset), n in sums.items() if n]
        for scope, unit, reserved in audit.rows(
            "SELECT scope, unit, reserved FROM limits WHERE reserved <> 0"
        ):
            found.append(f"{reserved} {unit} of {scope} are still reserved")
        return found


class HistoryIsWhole:
    """No run records what builds on something that it has lost: an outcome has its request before it."""

    name = "I2: histories are whole"

    async def check(self, audit: Audit) -> list[str]:
        found: list[str] = []
        known: set[tuple[str, str, str]] = set()
        for run, kind, data in audit.events(*_REQUESTS, *_BUILDS_ON):
            if kind in _REQUESTS:
                known.add((run, kind, data["key"]))
            elif (run, _BUILDS_ON[kind], data["key"]) not in known:
                found.append(f"{run} has {kind} of {data['key']} without {_BUILDS_ON[kind]}")
        steps = {
            (run, data["key"])
            for run, _, data in audit.events(
                "model.completed", "tool.completed", "tool.refused", "tool.reconciled"
            )
        }
        for run, ref in audit.rows(
            "SELECT r.run, m.ref FROM messages m JOIN runs r ON r.id = m.run WHERE m.form IN ('r', 't')"
        ):
            if (run, ref) not in steps:
                found.append(f"{run} shows the outcome of {ref}, which it does not have")
        return found


_REQUESTS = ("model.requested", "tool.requested", "approval.requested", "wait.started")
_BUILDS_ON = {
    "model.completed": "model.requested",
    "model.failed": "model.requested",
    "tool.completed": "tool.requested",
    "tool.unresolved": "tool.requested",
    "tool.reconciled": "tool.requested",
    "approval.given": "approval.requested",
    "wait.ended": "wait.started",
}


class StepsHappenOnce:
    """A completed step has one outcome; a side effect was dispatched once per decision, and done as told."""

    name = "I4: steps happen once"

    async def check(self, audit: Audit) -> list[str]:
        found = list(audit.simulation.outside.violations)
        outcomes: Counter[tuple[str, str]] = Counter()
        for run, _, data in audit.events(
            "model.completed",
            "tool.completed",
            "tool.refused",
            "step.completed",
            "approval.given",
            "wait.ended",
        ):
            # A reply that did not fit its schema is a failure, which a retry asks again.
            outcomes[run, data["key"]] += not data.get("invalid")
        for run, _, data in audit.events("tool.reconciled"):
            outcomes[run, data["key"]] += data["answer"] != "retry"
        found += [f"{run} {key} has {n} outcomes" for (run, key), n in outcomes.items() if n > 1]
        for key, transfer in audit.simulation.outside.transfers.items():
            allowed = 1 + audit.simulation.outside.decisions[key]
            if transfer.applied > allowed:
                found.append(f"{key} was paid {transfer.applied} times, decided {allowed} times")
        return found + self._unpaid(audit)

    def _unpaid(self, audit: Audit) -> list[str]:
        """A tool that says it has paid has paid, and what it did not say is known to nobody."""
        found: list[str] = []
        names = {(run, data["key"]): data["name"] for run, _, data in audit.events("tool.requested")}
        for run, kind, data in audit.events("tool.completed", "tool.reconciled"):
            if names.get((run, data["key"])) not in ("pay", "wire", "risky", "vouch", "order"):
                continue
            succeeded = not data.get("is_error") and data.get("answer", "succeeded") == "succeeded"
            transfer = audit.simulation.outside.transfers.get(asked_of(run, data["key"]))
            if succeeded and (transfer is None or not transfer.applied):
                found.append(f"{run} {data['key']}: {kind} says paid, the bank does not")
        return found


class PromptsRender:
    """Every prompt that an adapter got can be rendered again, byte for byte."""

    name = "I6: prompts render"

    async def check(self, audit: Audit) -> list[str]:
        found: list[str] = []
        services = audit.desk.kernel.services
        rendered: dict[str, set[bytes]] = defaultdict(set)
        asked: set[tuple[str, str]] = set()
        for name, data in audit.rows(
            "SELECT s.name, e.data FROM events e JOIN streams s ON s.id = e.stream"
            " WHERE e.kind = 'context.assembled' ORDER BY e.position"
        ):
            run = name.removeprefix("run:")
            event = msgspec.json.decode(data, type=ContextAssembled)
            asked.add((run, event.key))
            try:
                renderer = await Renderer.open(services, TENANT, run)
                rendered[run].add((await renderer.render_event(event)).canonical())
            except ArtelierError as error:
                found.append(f"a prompt of {run}:{event.key} does not render: {error}")
        runs = audit.desk.kernel.for_tenant(TENANT)
        for run, key, status in audit.rows(
            "SELECT r.run, s.key, s.status FROM steps s JOIN runs r ON r.id = s.run WHERE s.kind = 'model'"
        ):
            if status in ("cancelled", "timed_out") and (run, key) not in asked:
                continue  # on its way to the model
            try:
                shown = (await runs.render(run, key)).canonical()
            except ArtelierError as error:
                found.append(f"{run}:{key} does not render: {error}")
                continue
            if shown not in rendered[run]:
                found.append(f"{run}:{key} renders to something that was never recorded")
        for run, requests in audit.simulation.outside.received.items():
            for tag, body in requests:
                if body not in rendered[run]:
                    found.append(f"the prompt of {tag} was sent and cannot be rendered")
        return found


class LimitsHold:
    """Nobody spends beyond a limit but for what calls in flight were billed beyond their maximum."""

    name = "I7: limits hold"

    async def check(self, audit: Audit) -> list[str]:
        found: list[str] = []
        balances = dict(audit.rows("SELECT account, balance FROM accounts WHERE tenant = ?", TENANT))
        (budget,) = audit.rows("SELECT budget FROM tenants WHERE tenant = ?", TENANT)[0]
        debt = -balances.get(DEBT, 0)
        spent = balances.get("spent", 0)
        if budget is not None and spent - debt > budget:
            found.append(f"spent {spent} with a debt of {debt}; the budget is {budget}")
        excess = excess_of(audit)
        for scope, unit, cap, used in audit.rows(
            "SELECT scope, unit, cap, used FROM limits WHERE tenant = ? AND cap IS NOT NULL", TENANT
        ):
            if scope.removeprefix("run:") in audit.simulation.operator.capped:
                continue
            if used > cap and unit in ("usd", "steps") and used - cap > excess:
                found.append(f"{scope} used {used} of {cap} {unit}")
        billed = sum(cost for (cost,) in audit.rows("SELECT cost FROM runs"))
        if billed != spent:
            found.append(f"runs cost {billed}, but {spent} were spent")
        return found


class EndsAreHonest:
    """Every run ends; completed means that its code came to its end; nothing is left open behind it."""

    name = "I12: ends are honest"

    async def check(self, audit: Audit) -> list[str]:
        simulation = audit.simulation
        found = list(simulation.findings)
        for program in simulation.programs:
            if program.run_id not in audit.ended:
                found.append(f"{program.run_id} was never started")
        for name, ended in audit.ended.items():
            if ended.status not in FINAL:
                found.append(f"{name} is {ended.status} {ended.reason}")
            if ended.reason == DRIFTED and f"{of(name)}.drift-{_next(name)}" in audit.ended:
                continue  # it goes on as that
            if ended.status == "cancelled" and not self._is_cancelled(audit, name):
                found.append(f"{name} is cancelled, and nobody cancelled it")
        waits = audit.rows("SELECT r.run, w.key FROM waits w JOIN runs r ON r.id = w.run")
        found += [f"{run} has ended and still waits at {key}" for run, key in waits]
        # A lease that could not be given back is not renewed either.
        ends_us = simulation.calm_us + LEASE_TTL_US
        for stream, holder, expires_us in audit.rows("SELECT stream, holder, expires_us FROM leases"):
            if holder not in simulation.dead_holders and expires_us > ends_us:
                found.append(f"{stream} is still leased")
        return found

    def _is_cancelled(self, audit: Audit, name: str) -> bool:
        """Return True if a person ended this run, or one that it is part of."""
        asked = {of(one.partition("::")[0]) for one in audit.simulation.operator.cancelled}
        parents: dict[str, str | None] = dict(audit.rows("SELECT run, parent FROM runs"))
        at: str | None = name
        while at is not None:
            if of(at.partition("::")[0]) in asked:
                return True
            at = parents.get(at)
        return False


class CancellationsHold:
    """Cancelled steps have an outcome when the run's code has come to its end, and are not asked again."""

    name = "cancelled steps have an outcome"

    async def check(self, audit: Audit) -> list[str]:
        found: list[str] = []
        cut: set[tuple[str, str]] = set()
        for run, kind, data in audit.events(
            "step.cancelled", "step.timed_out", "model.requested", "tool.retried", "wait.started"
        ):
            if kind.startswith("step."):
                if (run, data["key"]) in cut:
                    found.append(f"{run} has cancelled {data['key']} twice")
                cut.add((run, data["key"]))
            elif (run, data["key"]) in cut:
                found.append(f"{run} asks for {data['key']} again, which its code has cancelled")
        for run, key, kind, status in audit.rows(
            "SELECT r.run, s.key, s.kind, s.status FROM steps s JOIN runs r ON r.id = s.run"
            " WHERE r.status = 'completed' AND r.loop = '' AND s.kind IN ('model', 'wait')"
            " AND s.status IN ('requested', 'open') AND r.origin IS NULL"
        ):
            found.append(f"{run} is completed, and its {kind} step {key} is {status}")
        return found


def _next(name: str) -> int:
    return drift_of(name) + 1 if ".drift-" in name else 1


class ActsAreAttributed:
    """Each event says who did it; each effect of a command names the command."""

    name = "I13: acts are attributed"

    async def check(self, audit: Audit) -> list[str]:
        found: list[str] = []
        commands = {
            f"{name}@{seq}": actor
            for name, seq, actor in audit.rows(
                "SELECT s.name, e.seq, e.actor FROM events e JOIN streams s ON s.id = e.stream"
                " WHERE s.name LIKE 'control:%' OR s.name LIKE 'run:%'"
            )
        }
        for name, seq, kind, actor, cause in audit.rows(
            "SELECT s.name, e.seq, e.kind, e.actor, e.cause FROM events e"
            " JOIN streams s ON s.id = e.stream WHERE s.name LIKE 'run:%'"
        ):
            where = f"{name}@{seq} ({kind})"
            if not actor:
                found.append(f"{where} was done by nobody")
            if cause is not None and cause not in commands:
                found.append(f"{where} was caused by {cause}, which is not there")
            elif cause is not None and commands[cause] != actor:
                found.append(f"{where} was done by {actor}, asked by {commands[cause]}")
        return found


class ResultsAreTheSame:
    """A run ends as it would have without faults."""

    name = "results are the same as without faults"

    async def check(self, audit: Audit) -> list[str]:
        found: list[str] = []
        operator = audit.simulation.operator
        for program in audit.simulation.programs:
            name = program.run_id
            ended, expected = audit.newest(name), audit.expected.get(name)
            if ended is None or expected is None or ended.status == "cancelled":
                continue
            if name in operator.stopped and _streams(program):
                continue  # a stopped stream keeps what came
            if name in audit.simulation.outside.denied:
                continue  # a tool has failed that would not have without faults
            if (ended.status, ended.result) != (expected.status, expected.result):
                found.append(
                    f"{name} is {ended.status} {ended.reason} with {_short(ended.result)};"
                    f" without faults {expected.status} {expected.reason}"
                    f" with {_short(expected.result)}"
                )
        return found


class ReplaysAreQuiet:
    """A completed run can be performed again: the same value, and nothing is called or written."""

    name = "replays are quiet"

    async def check(self, audit: Audit) -> list[str]:
        found: list[str] = []
        audit.simulation.outside.replaying = True
        before = len(audit.simulation.outside.violations)
        commits = audit.desk.kernel.store.commits
        for program in audit.simulation.programs:
            ended = audit.newest(program.run_id)
            if ended is None or ended.status != "completed":
                continue
            performer = Performer(audit.desk, program, limited=False)
            try:
                value = await audit.desk.start(performer.drive())
            except (ArtelierError, TimeoutError) as error:
                found.append(f"{program.run_id} cannot be replayed: {error!r}")
                continue
            if value != ended.result:
                found.append(f"{program.run_id} replays to {_short(value)}")
        if audit.desk.kernel.store.commits != commits:
            found.append("a replay wrote something")
        return found + audit.simulation.outside.violations[before:]


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 2000 else f"{text[:2000]}..."


def _streams(program: Program) -> bool:
    def in_ops(ops: tuple[Op, ...]) -> bool:
        return any(op.options.get("stream") or any(in_ops(branch) for branch in op.branches) for op in ops)

    return in_ops(program.ops)


INVARIANTS: tuple[Invariant, ...] = (
    LogIsTruth(),
    HistoryIsWhole(),
    MoneyIsConserved(),
    StepsHappenOnce(),
    ProbesRepeatNoEffect(),
    PromptsRender(),
    LimitsHold(),
    OverrunsAreDebt(),
    AttemptsAreBilled(),
    EndsAreHonest(),
    CancellationsHold(),
    ActsAreAttributed(),
    ResultsAreTheSame(),
    ReplaysAreQuiet(),
)
