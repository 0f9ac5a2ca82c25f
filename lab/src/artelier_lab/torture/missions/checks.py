"""The invariants of a mission at its end, beside those of every run."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from artelier.agents.loop_registry import replay_run, settings_of
from artelier.errors import ArtelierError
from artelier.log import blob_name
from artelier.log.blobs import unpack
from artelier_lab.torture.checks import invariants as every
from artelier_lab.torture.checks.audit import Audit, Ended
from artelier_lab.torture.engine import Reader
from artelier_lab.torture.perform import TENANT

MISSION = "m"

_BLOCKED_BY = (
    # Which of several failed first is left to time.
    "CASE WHEN EXISTS (SELECT 1 FROM task_dependencies d JOIN tasks b ON b.tenant = d.tenant"
    " AND b.task = d.before WHERE d.tenant = t.tenant AND d.task = t.task AND d.before = t.blocked_by"
    " AND b.ended IN ('failed', 'blocked', 'cancelled')) THEN 'a dependency' ELSE t.blocked_by END"
)
_TASKS = (
    f"SELECT t.task, t.agent, t.ended, t.reason, {_BLOCKED_BY}, t.outputs,"
    " coalesce(r.status, '')"
    " FROM tasks t LEFT JOIN runs r ON r.tenant = t.tenant AND r.run = t.task ORDER BY t.task"
)
_WRITTEN = (
    "SELECT s.name, e.data FROM events e JOIN streams s ON s.id = e.stream"
    " WHERE e.kind = 'artifact.written' ORDER BY s.name, e.seq"
)


@dataclass(slots=True, kw_only=True)
class Made:
    """The outcome of a mission, in words that are the same for the same outcome."""

    ended: dict[str, Ended] = field(default_factory=dict[str, Ended])
    tasks: list[tuple[Any, ...]] = field(default_factory=list[tuple[Any, ...]])
    versions: list[tuple[Any, ...]] = field(default_factory=list[tuple[Any, ...]])
    """Of artifacts: id, number, kind, owner, content."""


def made_in(db: Reader, made: Made) -> None:
    """Read it from the file."""
    made.tasks += db.execute(_TASKS).fetchall()
    for name, data in db.execute(_WRITTEN).fetchall():
        told = json.loads(data)
        text = _text(db, told.get("content"))
        made.versions.append((name, told["version"], told["kind"], told["owner"], text))


def _text(db: Reader, ref: str | None) -> str:
    """The content that a ref is of; refs of two stores differ, their content does not."""
    if ref is None:
        return ""
    sql = "SELECT codec, content, size FROM blobs WHERE name = ?"
    return unpack(*db.execute(sql, (blob_name(ref),)).fetchone()).decode()


class ComesToTheSame:
    """Tasks end as without faults, whatever notes they have read; each artifact has the same versions."""

    name = "it comes to the same as without faults"

    def __init__(self, made: Made, expected: Made) -> None:
        self.made = made
        self.expected = expected

    async def check(self, audit: Audit) -> list[str]:
        if MISSION in audit.simulation.operator.cancelled:
            return []  # it was to end early
        found = [
            f"{got} instead of {wanted}"
            for got, wanted in zip(self.made.tasks, self.expected.tasks, strict=False)
            if got != wanted
        ]
        if len(self.made.tasks) != len(self.expected.tasks):
            found.append(f"{len(self.made.tasks)} tasks instead of {len(self.expected.tasks)}")
        got, wanted = Counter(self.made.versions), Counter(self.expected.versions)
        found += [f"was written, and is too much: {one}" for one in (got - wanted).elements()]
        found += [f"was never written: {one}" for one in (wanted - got).elements()]
        ends = {run: ended.status for run, ended in self.made.ended.items()}
        expected = {run: ended.status for run, ended in self.expected.ended.items()}
        return [*found, *([f"runs are {ends} instead of {expected}"] if ends != expected else [])]


class InOrder:
    """Launched once; a task begins when all that it depends on is done, and each iteration decides once."""

    name = "tasks begin in order"

    async def check(self, audit: Audit) -> list[str]:
        found: list[str] = []
        before: dict[str, list[str]] = {}
        for task, other in audit.rows("SELECT task, before FROM task_dependencies"):
            before.setdefault(task, []).append(other)
        done: set[str] = set()
        counts: Counter[tuple[str, ...]] = Counter()
        for run, kind, data in audit.events(
            "mission.launched",
            "task.begun",
            "decision.taken",
            "decision.executed",
            "task.evaluated",
            "task.ended",
        ):
            counts[kind, run, str(data.get("iteration", data.get("key")))] += 1
            if kind == "task.begun" and (early := set(before.get(run, ())) - done):
                found.append(f"{run} has begun before {sorted(early)} were done")
            elif kind == "task.ended" and data["status"] == "done":
                done.add(run)
        launches = sum(n for (kind, *_), n in counts.items() if kind == "mission.launched")
        found += [f"launched {launches} times"] if launches > 1 else []
        return [*found, *(f"{' '.join(what)}: {n} times" for what, n in counts.items() if n > 1)]


class NothingUnjudged:
    """A task is done only by an evaluation that it has passed, whose verdict finds every criterion met."""

    name = "what is done was judged"

    async def check(self, audit: Audit) -> list[str]:
        found: list[str] = []
        passed: set[str] = set()
        for run, kind, data in audit.events("task.evaluated", "task.ended"):
            if kind == "task.evaluated" and data.get("passed"):
                passed.add(run)
                criteria = json.loads(_text(audit.db, data["verdict"]))["criteria"]
                if data.get("void") or not criteria or not all(one["met"] for one in criteria):
                    found.append(f"{run} has passed with {criteria}")
            elif kind == "task.ended" and data["status"] == "done" and run not in passed:
                found.append(f"{run} is done, and was never found good")
        return found


class MissionReplays:
    """Missions and tasks can be performed again: the same end, and nothing is called or written."""

    name = "replays are quiet"

    async def check(self, audit: Audit) -> list[str]:
        found: list[str] = []
        audit.simulation.outside.replaying = True
        before = len(audit.simulation.outside.violations)
        commits = audit.desk.kernel.store.commits
        for run, ended in audit.ended.items():
            if ended.status != "completed":
                continue
            try:
                got = await audit.desk.start(_replayed(audit, run))
            except ArtelierError as error:
                found.append(f"{run} cannot be replayed: {error!r}")
                continue
            if got != ended.status:
                found.append(f"{run} replays to {got}")
        if audit.desk.kernel.store.commits != commits:
            found.append("a replay wrote something")
        return found + audit.simulation.outside.violations[before:]


async def _replayed(audit: Audit, run: str) -> str:
    kernel = audit.desk.kernel
    settings = await settings_of(kernel, TENANT, run)
    done = await kernel.for_tenant(TENANT).replay(run, lambda one: replay_run(one, settings))
    return done.status


def mission_invariants(made: Made, expected: Made) -> Sequence[every.Invariant]:
    """Return the invariants of every run, and those of missions."""
    return (
        every.LogIsTruth(),
        every.HistoryIsWhole(),
        every.MoneyIsConserved(),
        every.StepsHappenOnce(),
        every.PromptsRender(),
        every.LimitsHold(),
        every.EndsAreHonest(),
        every.ActsAreAttributed(),
        InOrder(),
        NothingUnjudged(),
        ComesToTheSame(made, expected),
        MissionReplays(),
    )
