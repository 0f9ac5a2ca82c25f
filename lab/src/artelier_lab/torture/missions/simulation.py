"""The mission of one seed: a plan, its launch, and tasks side by side, under crashes at any commit.

What is planned, decided, written and judged is a function of the seed and of the question, so a mission comes
to the same whatever goes wrong on the way. `missions_checks.py` has the promises.
"""

from __future__ import annotations

import asyncio
import random
import re
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from artelier.agents import Worker
from artelier.errors import ArtelierError, Conflict, Flow, NotFound, StoreUnavailable
from artelier.kernel.queries.reports import OpenQuestion
from artelier.missions.definition import ITERATIONS_MAX
from artelier.models.scripted import ScriptedModel
from artelier.ports.model import Delta, ModelReply, ModelRequest
from artelier_lab.torture.checks.audit import Audit
from artelier_lab.torture.checks.oracle import PRICE, Oracle
from artelier_lab.torture.engine import engine
from artelier_lab.torture.missions.checks import MISSION, Made, made_in, mission_invariants
from artelier_lab.torture.operator import FINAL, Operator
from artelier_lab.torture.outside import Outside
from artelier_lab.torture.perform import TENANT
from artelier_lab.torture.process import Process, current
from artelier_lab.torture.script import Program
from artelier_lab.torture.simulation import Simulation, in_virtual_time
from artelier_lab.torture.trial import Verdict, endings

GOAL = "Find out which city sold most."
FAILURES_MAX = 2
"""Tries of a call that fail: a step tries it more often than that by itself."""

FOR_GOOD = ("missing_input", "dependency_failed", "tasks_failed", "max_iterations", "plan_invalid")
"""Why a task fails again when it is tried again."""

_ABOUT = re.compile(r"The (?:goal|criteria) of ([a-z]+)\.")
_ITERATION = re.compile(r"Iteration (\d+) of \d+")
_OUTPUT = re.compile(r'<data source="([^"]+)" trust="untrusted">\n(.*?)\n</data>', re.DOTALL)


POSTPONED = "The outputs are not judged yet"


class DrawnTask(NamedTuple):
    """A task and what its agent will decide; the last decision is repeated."""

    after: tuple[str, ...]
    decisions: tuple[str, ...]
    is_rejected: bool
    """Whether the first version of what it writes is not good enough."""


def draw_mission(seed: int) -> dict[str, DrawnTask]:
    """Tasks by slug, each after those that it depends on."""
    rng = random.Random(f"missions {seed}")
    found: dict[str, DrawnTask] = {}
    for slug in ("figures", "map", "letter")[: rng.randint(2, 3)]:
        before = tuple(one for one in found if rng.random() < 0.5)
        work = tuple(rng.choice(("analyze", "look", "pay")) for _ in range(rng.randint(0, 2)))
        # Not "stuck": what others write meanwhile is news, so when that happens is a matter of time.
        last = "write" if rng.random() < 0.85 else "give_up"
        found[slug] = DrawnTask(before, (*work, last), rng.random() < 0.3)
    return found


class MissionOracle(Oracle):
    """Planner, agents and evaluator in one."""

    def __init__(self, seed: int, outside: Outside, tasks: dict[str, DrawnTask]) -> None:
        super().__init__(seed, outside)
        self._books = outside
        self._tasks = tasks
        self._says = ScriptedModel(self._answer, price=PRICE)

    async def complete(self, request: ModelRequest, /) -> ModelReply:
        process = current.get()
        assert process is not None, "a model is called outside every process"
        what, slug, n = self._question(request)
        run_id = f"{MISSION}/{slug}" if slug else MISSION
        await process.enter("model", run_id, None)
        tag = f"{run_id}|{what}|{n}"
        self._books.received[run_id].append((tag, request.canonical()))
        await asyncio.sleep(process.plan.rng.uniform(0.05, 8.0))
        process.check_alive()
        left = self._books.failures.get(tag)
        left = process.plan.failures(most=FAILURES_MAX) if left is None else left
        self._books.failures[tag] = max(0, left - 1)
        if left:
            process.plan.count("model fails at first")
            raise TimeoutError("no answer")
        return await self._says.complete(request)

    async def stream(self, request: ModelRequest, /) -> AsyncIterator[Delta | ModelReply]:
        yield await self.complete(request)

    def _question(self, request: ModelRequest) -> tuple[str, str, int]:
        """Return what is asked, of which task, in which iteration."""
        what = str((request.output_schema or {}).get("title", "content"))
        text = "\n".join(message.text for message in request.messages)
        if what == "Plan":
            return what, "", 0
        about, numbers = _ABOUT.search(text), _ITERATION.findall(text)
        assert about is not None, "a prompt is about no task"
        return what, about[1], int(numbers[-1]) if numbers else 0

    def _answer(self, request: ModelRequest) -> Any:
        what, slug, n = self._question(request)
        if what == "Plan":
            return self._plan()
        drawn, heard = self._tasks[slug], _heard(request)
        n -= heard  # what a note was read in is no work
        if what == "Verdict":
            return _verdict(request, is_rejected=drawn.is_rejected)
        if what == "content":
            return f"# About {slug}\n\nOslo sold more than every other city{' at last' * n}."
        if heard and _is_heard_last(request) and drawn.decisions[-1] == "write":
            return {"action": "complete_task", "reason": "The note changes nothing."}
        return _decision(slug, drawn.decisions[min(n, len(drawn.decisions)) - 1])

    def _plan(self) -> dict[str, Any]:
        return {
            "agents": [{"slug": f"by-{slug}", "name": slug.title()} for slug in self._tasks],
            "tasks": [
                {
                    "slug": slug,
                    "goal": f"The goal of {slug}.",
                    "agent": f"by-{slug}",
                    "success_criteria": f"The criteria of {slug}.",
                    "depends_on": list(task.after),
                    "max_iterations": ITERATIONS_MAX,
                }
                for slug, task in self._tasks.items()
            ],
        }


def _heard(request: ModelRequest) -> int:
    """Return how often an evaluation was put off for a note that nobody had read."""
    return sum(message.text.count(POSTPONED) for message in request.messages)


def _is_heard_last(request: ModelRequest) -> bool:
    """Return whether nothing was decided since an evaluation was put off."""
    replies = [at for at, message in enumerate(request.messages) if message.role == "assistant"]
    since = request.messages[replies[-1] :] if replies else request.messages
    return any(POSTPONED in message.text for message in since)


def _decision(slug: str, kind: str) -> dict[str, Any]:
    reason = {"reason": "It is next."}
    if kind == "write":
        more = {"artifact_type": "markdown", "target": f"On {slug}"}
        return {"action": "create_artifact", **more, **reason}
    if kind == "give_up":
        return {"action": "complete_task", "target": "sales of Bergen", **reason}
    if kind == "analyze":
        return {"action": kind, **reason}
    return {"action": "use_tool", "tool": kind, "input": {"op": slug, "amount": 3}, **reason}


def _verdict(request: ModelRequest, *, is_rejected: bool) -> dict[str, Any]:
    outputs = _OUTPUT.findall(request.messages[-1].text)
    if is_rejected and all(ref.endswith("@1") for ref, _ in outputs):
        return _judged(False, [], "It says too little.")
    return _judged(True, [{"ref": ref, "quote": text.splitlines()[-1]} for ref, text in outputs])


def _judged(met: bool, evidence: list[dict[str, str]], missing: str = "") -> dict[str, Any]:
    one = {"criterion": "It is good.", "met": met, "evidence": evidence, "missing": missing}
    return {"criteria": [one], "summary": "judged"}


class MissionPeople(Operator):
    """People who launch the plan as it is, and otherwise do what they do with other runs."""

    async def round(self, desk: Process) -> None:
        rows = await desk.kernel.store.query("SELECT run FROM runs ORDER BY id")
        self._names = self._top = [run for (run,) in rows]
        if MISSION in self.cancelled:
            self.cancelled.update(self._names)
        await super().round(desk)

    def may_retry(self, name: str, reason: str) -> bool:
        return reason not in FOR_GOOD and super().may_retry(name, reason)

    async def _answer(self, runs: Any, name: str, approval: OpenQuestion) -> None:
        await runs.approve(name, approval["step"], note="so it is")

    async def meddle(self, desk: Process) -> None:
        """Interrupt the mission or one of its tasks."""
        if not self._top:
            return
        runs, rng = desk.kernel.for_tenant(TENANT), self._plan.rng
        name, verb = rng.choice(self._top), rng.choice(("pause", "resume", "stop", "inject"))
        try:
            await getattr(runs, verb)(name, **({"note": "hurry"} if verb == "inject" else {}))
            self._plan.count(f"command {verb}")
        except (NotFound, Conflict, StoreUnavailable) as error:
            self._plan.count(f"{verb} met {error.code}")


class _Inline(ThreadPoolExecutor):
    """Does at once what would be done in a thread: in virtual time there is only one."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        done: Future[Any] = Future()
        try:
            done.set_result(fn(*args, **kwargs))
        except Exception as error:
            done.set_exception(error)  # of the caller, who waits for it
        return done


class MissionSimulation(Simulation):
    """A mission on one database file, in the hands of workers that die."""

    def __init__(self, seed: int, path: Path, *, faults: bool) -> None:
        super().__init__(seed, path, faults=faults)
        self.auto_launch = random.Random(f"launch {seed}").random() < 0.5
        self.programs = [Program(run_id=MISSION, ops=(), on_wait="suspend", limits={})]
        self.operator = MissionPeople(seed, plan=self.plan, outside=self.outside, programs=self.programs)
        self.oracle = MissionOracle(seed, self.outside, draw_mission(seed))
        self.tools = [one for one in self.tools if one.schema.name in ("look", "pay")]

    async def run(self) -> None:
        asyncio.get_running_loop().set_default_executor(_Inline())
        await super().run()

    async def _drive(self, process: Process, program: Program) -> None:
        """Ask for the mission, which goes on with what is there, then for what is due."""
        try:
            await process.kernel.for_tenant(TENANT).plan(
                GOAL, mission_id=MISSION, model="m", auto_launch=self.auto_launch
            )
            await Worker(process.kernel, process.kernel.services).once()
        except Flow:
            pass
        except ArtelierError as error:
            self.plan.counts[f"drive ended by {error.code}"] += 1

    async def _has_ended(self, process: Process, run_id: str) -> bool:
        """A worker looks on as long as anything is left to do, whether the mission has ended or not."""
        return not await self._unended()


def _played(seed: int, path: Path, *, faults: bool) -> tuple[MissionSimulation, Made]:
    simulation, made = MissionSimulation(seed, path, faults=faults), Made()

    async def whole() -> None:
        await simulation.run()
        made.ended.update(await endings(simulation))

    in_virtual_time(whole, simulation.findings)
    with engine().reading(path) as db:
        made_in(db, made)
    return simulation, made


def try_mission(seed: int, folder: Path) -> Verdict:
    """Judge one seed's mission; its databases are left in `folder`."""
    started_s = time.perf_counter()
    verdict, path = Verdict(seed=seed), folder / f"{seed}-mission.db"
    quiet, expected = _played(seed, folder / f"{seed}-mission-quiet.db", faults=False)
    simulation, made = _played(seed, path, faults=True)
    verdict.findings += [("mission: without faults", text) for text in quiet.findings]

    async def check() -> None:
        asyncio.get_running_loop().set_default_executor(_Inline())
        desk = simulation.open("desk")
        with engine().reading(path) as db:
            audit = Audit(simulation=simulation, desk=desk, db=db, ended=made.ended, expected=expected.ended)
            for invariant in mission_invariants(made, expected):
                verdict.findings += [
                    (f"mission: {invariant.name}", text) for text in await invariant.check(audit)
                ]
            verdict.events = audit.rows("SELECT count(*) FROM events")[0][0]
        await simulation.close(desk)

    late: list[str] = []
    in_virtual_time(check, late)
    verdict.findings += [("mission: the checks themselves", text) for text in late]
    verdict.counts = Counter({f"mission: {k}": n for k, n in simulation.plan.counts.items()})
    verdict.calls = Counter({f"mission: {k}": n for k, n in simulation.outside.calls.items()})
    is_over = made.ended.get(MISSION) is not None and made.ended[MISSION].status in FINAL
    verdict.statuses["mission ended"] += is_over
    verdict.commits, verdict.virtual_s = simulation.commits, simulation.virtual_s
    verdict.wall_s = time.perf_counter() - started_s
    return verdict
