"""The run of a mission: plan, launch, then the tasks as child runs, side by side, until each has an end.

What the loop does next depends on its own stream alone: plans, answers and the end of each task are recorded
there. So a resume, a replay and another process come to the same.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple, cast

import msgspec

from artelier.errors import ArtelierError, Conflict, LeaseHeld, RunStopped, RunSuspended
from artelier.ids import OPERATOR
from artelier.kernel import Approval, Run
from artelier.kernel.control_stream import heed_cap
from artelier.kernel.events import LimitSet
from artelier.kernel.prompt.manifest import encode_json
from artelier.kernel.queries.runs import is_reopened_after, used_below
from artelier.kernel.run.context import RunCore
from artelier.kernel.run.status import FINAL
from artelier.ledger.queries import scope_limits
from artelier.log import Blob
from artelier.loops.cycle import when_free
from artelier.missions import events as ev
from artelier.missions.definition import Plan
from artelier.missions.membranes import Membranes
from artelier.missions.plan.launch import PlanEstimate, estimate_plan, prepare_launch
from artelier.missions.plan.planner import MissionJob, PlanInvalid, make_plan, mistakes_of
from artelier.missions.queries import (
    TaskStanding,
    dependencies_in,
    fresh_tasks,
    needed_by,
    report_of,
    standing_of,
)
from artelier.missions.reports import AddedTask
from artelier.missions.status import ONCE_MORE, TASKS_FAILED, TaskStatus
from artelier.missions.task.loop_state import task_job
from artelier.missions.task.task_runner import drive_task
from artelier.missions.view import DEPENDENCY_FAILED

QUESTION = "Launch this plan?"
LAUNCH = "launch"
"""Key of the step in which a person answers."""

ANSWERS_MAX = 20
"""Edited plans that cannot be launched, until the mission gives up."""

AT_ONCE_MAX = 8
"""Tasks of one mission at work at once (a guess: providers limit more than that)."""

REOPENED_MAX = 3
"""How often a mission that is retried has a task try again that failed of itself; more is to be said to the
task (a guess: three more times all of its iterations show whether anything has changed)."""

OF_ITSELF = frozenset(("max_iterations", "stuck", "decision_invalid"))
"""Failures that are nobody else's: another attempt costs as much, and mostly comes to the same."""

LOOK_S = 0.2
"""How often a mission looks for tasks that were added, and for children that only wait."""

WAITING = ("waiting_approval", "unknown_outcome", "budget_exhausted", "waiting", "paused", "pending")
"""Statuses of children that hold a mission up, the one that is told first."""


class RecordedEnd(msgspec.Struct, frozen=True, kw_only=True):
    """The end of a task, as its mission records it and gives it as a result."""

    status: str
    reason: str
    outputs: tuple[str, ...]
    """Refs."""


def _recorded_end(task: TaskStanding) -> RecordedEnd:
    return RecordedEnd(status=task.status, reason=task.reason, outputs=tuple(task.outputs))


class Placed(NamedTuple):
    """A task as the loop knows it."""

    id: str
    depends_on: tuple[str, ...]


class MissionLoop:
    """One mission at work. `desk` is the kernel bound to the tenant; None in a replay."""

    def __init__(self, run: Run, job: MissionJob, *, desk: Any = None) -> None:
        self._run = run
        self._job = job
        self._desk = desk
        self._tasks: dict[str, Placed] = {}
        self._ended: dict[str, TaskStanding] = {}
        self._working: dict[str, asyncio.Task[TaskStanding]] = {}
        self._held: dict[str, RunSuspended] = {}
        """Tasks whose run waits and is driven no more in this drive."""
        self._stop: BaseException | None = None
        """Why nothing new is begun: raised when what is at work has come to rest."""
        self._attempts: dict[str, int] = {}
        """How often each task has come to an end in this mission."""
        self._redone = 0
        """How often a task that was done has been made anew, because a person rejected it."""
        self._pages = 0
        """Lists of tasks that were added while the mission was at work."""

    @property
    def _is_live(self) -> bool:
        return self._run.core.actor is not None

    async def drive(self) -> None:
        """Drive the mission to its end. Errors: `RunSuspended`, `RunStopped`; those of the store."""
        await self._run.core.history.knows("")  # read it whole, before anything runs side by side
        try:
            plan = await make_plan(self._run, self._job)
        except PlanInvalid as invalid:
            self._run.fail("plan_invalid", str(invalid))
            return
        tasks = await self._launch(plan)
        if tasks is None:
            return
        for task in tasks:
            self._tasks[task.id] = task
        try:
            await self._work()
        finally:
            await self._let_go()
        await self._finish()

    # Planning and launching

    async def _launch(self, plan: dict[str, Any]) -> list[Placed] | None:
        """The tasks as they were launched; None if there will be none."""
        shown = await self._run.receipt(ev.MissionPlanned, self._make_planned(plan), key="planned")
        edited, by = False, OPERATOR
        if not self._job.auto_launch:
            answer = await self._answer(plan, shown)
            if answer is None:
                return None
            plan, edited, by = answer
        names = [schema.name for schema in self._run.core.visible_tools()]
        cost = shown.cost
        if self._job.at_most and edited:
            guess = await self._run.step("estimate", self._estimate, plan, key="estimate")
            cost = guess[1]
        if self._job.at_most and cost is None:
            self._run.fail("unknown_price", "the plan cannot be held to its estimate: a price is unknown")
            return None

        async def make(key: str) -> tuple[ev.MissionLaunched, list[Blob]]:
            launch = await prepare_launch(
                self._desk,
                self._run.id,
                Plan.model_validate(plan),
                key=key,
                tools=names,
                edited=edited,
                by=by,
                budget=cost if self._job.at_most else None,
            )
            if launch.event.budget is not None:
                await self._limit(launch.event.budget)
            for append in launch.appends:  # nothing waits from here on: it is one batch
                self._run.core.writer.note_aside(append, [])
            return launch.event, launch.blobs

        done = await self._run.receipt(ev.MissionLaunched, make, key="launched")
        if self._is_live:
            await self._run.core.writer.commit()  # its tasks are looked for in the log
        found = Plan.model_validate(plan)
        await self._run.step("arranged", self._arrange, found, by, key="arranged")
        mission = self._run.id
        assert len(done.tasks) == len(found.tasks)
        return [
            Placed(f"{mission}/{task.slug}", tuple(f"{mission}/{one}" for one in task.depends_on))
            for task in found.tasks
        ]

    def _make_planned(
        self, plan: dict[str, Any]
    ) -> Callable[[str], Awaitable[tuple[ev.MissionPlanned, list[Blob]]]]:
        core = self._run.core

        async def make(key: str) -> tuple[ev.MissionPlanned, list[Blob]]:
            found, guess = Plan.model_validate(plan), await self._estimate(plan)
            ref, blob = core.keep(encode_json(found.model_dump(mode="json")))
            event = ev.MissionPlanned(
                key=key, plan=ref, calls=guess.calls, cost=guess.cost_microusd, is_limit=self._job.at_most
            )
            return event, [blob]

        return make

    async def _estimate(self, plan: dict[str, Any]) -> PlanEstimate:
        core, found = self._run.core, Plan.model_validate(plan)
        job = self._job
        return await estimate_plan(core.services, core.tenant.id, found, model=job.model, media=job.media)

    async def _limit(self, budget: int) -> None:
        """Cap the goal at what planning has cost and its plan may cost, in the batch of the launch.

        A cap that is lower already stays.
        """
        core, scope = self._run.core, f"run:{self._run.id}"
        await core.writer.commit()  # what planning has cost
        used = (await used_below(core.services.store, core.tenant.id, core.run_id))["usd"]
        limits = await scope_limits(core.store, core.tenant.id, scope)
        before = next((one.cap for one in limits if one.unit == "usd"), None)
        if before is None or used + budget < before:
            event = LimitSet(scope=scope, unit="usd", cap=used + budget, used=used)
            core.writer.note(event)
            heed_cap(core.services, core.tenant.id, event, started_us=core.started_us)

    async def _answer(
        self, plan: dict[str, Any], shown: ev.MissionPlanned
    ) -> tuple[dict[str, Any], bool, str] | None:
        """The plan that a person wants, whether it was edited, and who it was; None if nobody wants one."""
        estimate: dict[str, Any] = {"calls": shown.calls, "cost_microusd": shown.cost}
        if shown.is_limit:
            estimate["is_limit"] = True
        problem = ""
        for number in range(1, ANSWERS_MAX + 1):
            key = LAUNCH if number == 1 else f"{LAUNCH}/{number}"
            details: dict[str, Any] = {"plan": plan, "estimate": estimate}
            if problem:
                details["problem"] = problem
            answer = await self._run.approve(QUESTION, details, key=key)
            if not answer:
                await self._end_denied(answer)
                return None
            if answer.decision == "approve":
                return plan, number > 1, answer.by
            wanted = _plan_in(answer.arguments)
            names = [schema.name for schema in self._run.core.visible_tools()]
            wrong = await self._run.step(
                "check",
                partial(mistakes_of, self._run.core.services, wanted, tools=names),
                key=f"{key}/check",
            )
            if not wrong:
                return cast("dict[str, Any]", wanted), True, answer.by
            problem = "; ".join(wrong)[:2_000]
        self._run.fail("plan_invalid", f"{ANSWERS_MAX} plans could not be launched: {problem}")
        return None

    async def _end_denied(self, answer: Approval) -> None:
        """A plan that nobody wants ends the mission as a cancel does."""
        if self._is_live:
            with suppress(Conflict):
                await self._desk.cancel(self._run.id, by=answer.by, note=answer.note)
            await self._run.core.boundary()
        raise RunStopped(self._run.id, reason="cancelled")

    async def _arrange(self, plan: Plan, by: str) -> list[str]:
        """Caps and shares that are no artifact of the mission's own; what could not be done, in words."""
        mission, left = self._run.id, list[str]()
        budgets = [(f"agent:{mission}/{one.slug}", one.budget_usd) for one in plan.agents]
        budgets += [(f"membrane:{mission}/{one.slug}", one.budget_usd) for one in plan.membranes]
        for scope, budget in budgets:
            if budget is not None:
                await self._desk.cap(scope, unit="usd", cap=budget, by=by)
        membranes = Membranes(self._desk)
        for one in plan.membranes:
            for artifact in one.shared:
                try:
                    await membranes.share(f"{mission}/{one.slug}", artifact, by)
                except Conflict:
                    continue  # shared before a crash
                except ArtelierError as error:
                    left.append(f"{artifact}: {error.message}"[:500])
        return left

    # Working

    async def _work(self) -> None:
        await self._load_added()
        while True:
            await self._begin_what_can()
            if not self._working:
                if self._stop is not None:
                    raise self._stop
                if await self._take_up_added() or await self._let_held_go_on():
                    continue
                if self._held:
                    raise self._waits()
                return
            done, _ = await asyncio.wait(
                self._working.values(),
                timeout=LOOK_S if self._is_live else None,
                return_when=asyncio.FIRST_COMPLETED,
            )
            for task in [id_ for id_, work in self._working.items() if work in done]:
                self._take(task, self._working.pop(task))
            if not done and self._stop is None:
                await self._take_up_added()
                await self._let_held_go_on()
            if not done:
                self._leave_waiting()

    def _take(self, task: str, work: asyncio.Task[TaskStanding]) -> None:
        """Note how a task came out of this drive. Others at work come to rest by themselves: whatever stops
        the mission stops them too, and to tear a side effect would leave its outcome unknown."""
        try:
            self._ended[task] = work.result()
        except RunSuspended as suspended:
            if suspended.run_id == task:
                self._held[task] = suspended
            else:
                self._stop = self._stop or suspended
        except (ArtelierError, RunStopped) as stopped:
            self._stop = self._stop or stopped

    async def _begin_what_can(self) -> None:
        """Start every task whose dependencies are done, and block those that can never start."""
        changed = self._stop is None
        while changed:
            changed = False
            for task in list(self._tasks.values()):
                if task.id in self._ended or task.id in self._working or task.id in self._held:
                    continue
                before = [self._ended.get(one) for one in task.depends_on]
                failed = next((one for one in before if one and one.status != "done"), None)
                if failed is None and not (all(before) and len(self._working) < AT_ONCE_MAX):
                    continue
                if await self._depends_otherwise(task):
                    changed = True
                elif failed is not None:
                    kept = await self._kept_done(task)
                    self._ended[task.id] = kept or await self._block_until_known(task, failed.task)
                    changed = True
                else:
                    self._working[task.id] = asyncio.ensure_future(self._work_on(task))

    async def _depends_otherwise(self, task: Placed) -> bool:
        """Return True if somebody has changed what a task waits for since it was taken up; journaled."""
        if not self._is_live:
            return False
        now = tuple(await needed_by(self._desk, task.id))
        if set(now) == set(task.depends_on):
            return False
        self._pages += 1
        await self._take_up(f"tasks/{self._pages}", [{"task": task.id, "depends_on": list(now)}])
        return True

    async def _kept_done(self, task: Placed) -> TaskStanding | None:
        """Return the end of a task that was done before what it depends on came to be not done; else None.

        It stays done: what it made is there, unless a person has rejected that since.
        """
        found, attempt = None, 1
        while await self._knows(f"task/{self._slug(task.id)}/{attempt}"):
            found, attempt = await self._end_of(task, attempt), attempt + 1
        if found is not None and found.status == "done" and self._is_live:
            found = await self._end_of(task, attempt)
        if found is None or found.status != "done":
            return None
        await self._pass_blocks(task)
        return found

    async def _end_of(self, task: Placed, attempt: int) -> TaskStanding:
        """Return where a task stands after an attempt; journaled."""
        key = f"task/{self._slug(task.id)}/{attempt}"
        found = msgspec.convert(await self._run.step("task", self._standing, task.id, key=key), RecordedEnd)
        return TaskStanding(task.id, TaskStatus(found.status), found.reason, found.outputs)

    async def _block_until_known(self, task: Placed, by: str) -> TaskStanding:
        if not await self._pass_blocks(task):
            await self._block(task, by, f"blocked/{self._slug(task.id)}/1")
        return TaskStanding(task.id, TaskStatus.BLOCKED, DEPENDENCY_FAILED, ())

    async def _pass_blocks(self, task: Placed) -> int:
        """Pass over the blocks of a task from before its mission was reopened; return how many."""
        number = 0
        while await self._knows(f"blocked/{self._slug(task.id)}/{number + 1}"):
            number += 1
            await self._block(task, "", f"blocked/{self._slug(task.id)}/{number}")
        return number

    async def _block(self, task: Placed, by: str, key: str) -> None:
        async def make(full: str) -> tuple[ev.TaskBlocked, list[Blob]]:
            return ev.TaskBlocked(key=full, task=task.id, reason=DEPENDENCY_FAILED, by=by), []

        await self._run.receipt(ev.TaskBlocked, make, key=key)

    async def _work_on(self, task: Placed) -> TaskStanding:
        """The end of a task: the recorded one, or what driving it comes to."""
        await self._pass_blocks(task)
        slug, attempt = self._slug(task.id), 1
        while True:
            key = f"task/{slug}/{attempt}"
            is_recorded = await self._knows(key)
            if not is_recorded:
                await self._drive(task)
            ended = await self._end_of(task, attempt)
            again = await self._knows(f"task/{slug}/{attempt + 1}")
            if not again and is_recorded and self._is_live:
                again = await self._wanted_again(ended, attempt)
            if not again:
                self._attempts[task.id] = attempt
                return ended
            self._redone += ended.status == "done"
            attempt += 1

    async def _drive(self, task: Placed) -> None:
        """Let the task's run come to its end. Errors: `RunSuspended` naming it, if it waits."""
        run, desk = self._run, self._desk
        await run.core.boundary()
        found = await standing_of(desk, task.id)
        if found.status in ("cancelled", "done") and not found.is_open:
            return  # nobody had begun with it, or a person has accepted what it made
        if await self._failed_before_reopening(task.id):
            with suppress(Conflict):
                await desk.retry(task.id, by="kernel")
        job = await task_job(
            desk,
            task.id,
            model=run.core.model_override or self._job.model,
            workspace=self._job.workspace,
            host_tools=self._job.host_tools,
            mission=run.id,
            looks=self._job.looks,
            client_tools=self._job.client_tools,
            attachments=self._job.attachments,
            fallbacks=self._job.fallbacks,
        )
        drive = partial(drive_task, desk, task.id, job, on_wait="await", parent=run, parent_step="launched")
        try:
            await when_free(run.core, drive)
        except LeaseHeld:
            pass  # others can be worked on meanwhile
        except RunStopped:
            await run.core.boundary()  # the mission was cancelled, or only this task
        except RunSuspended as suspended:
            if suspended.run_id == run.id:
                raise
        standing = await standing_of(desk, task.id)
        if standing.run_status is None or standing.is_open:
            status = standing.run_status or "pending"
            raise RunSuspended(task.id, status=status, reason=standing.run_reason)

    async def _standing(self, task: str) -> RecordedEnd:
        return _recorded_end(await standing_of(self._desk, task))

    async def _wanted_again(self, ended: TaskStanding, attempt: int) -> bool:
        """Return True if a task that had ended is to be tried once more: somebody has retried it, or its
        mission.
        """
        now = await standing_of(self._desk, ended.task)
        if (now.status, now.outputs) != (ended.status, ended.outputs):
            return True
        if ended.reason in OF_ITSELF and attempt > REOPENED_MAX:
            return False
        return await self._failed_before_reopening(ended.task)

    async def _failed_before_reopening(self, task: str) -> bool:
        """Return True if a task's run failed before somebody reopened the mission, which asks for it
        again.
        """
        tenant = self._run.tenant_id
        return await is_reopened_after(self._run.core.services.store, tenant, self._run.id, task)

    # Children that wait, and tasks that are added

    def _leave_waiting(self) -> None:
        """Under `on_wait="return"`, give up children in process as soon as none of them can go on."""
        core = self._run.core
        if core.on_wait != "suspend":
            return
        below = [child for child in _below(core) if child.actor is not None]
        if below and all(_is_waiting(child) for child in below):
            for child in below:
                child.on_wait = "suspend"
                child.announce()

    async def _let_held_go_on(self) -> bool:
        """Take up again what somebody has answered since it was left, such as an unknown outcome."""
        freed = [
            task
            for task in self._held
            if (await standing_of(self._desk, task)).run_status in ("pending", *FINAL)
            and self._held[task].status != "pending"
        ]
        for task in freed:
            del self._held[task]
        return bool(freed)

    def _waits(self) -> RunSuspended:
        """Return what to raise when nothing can go on: the child that a person or a limit holds up first."""

        def rank(held: RunSuspended) -> int:
            return WAITING.index(held.status) if held.status in WAITING else len(WAITING)

        return min(self._held.values(), key=rank)

    async def _take_up_added(self) -> bool:
        """Take up tasks that were created for this mission meanwhile, or wait for others now; journaled."""
        if not self._is_live:
            return False
        new = await fresh_tasks(self._desk, self._run.id, known=self._tasks)
        waiting = [
            task
            for task in self._tasks.values()
            if task.id not in self._ended and task.id not in self._working and task.id not in self._held
        ]
        now = await dependencies_in(self._desk, self._run.id) if waiting else {}
        new += [
            AddedTask(task=task.id, depends_on=now.get(task.id, []))
            for task in waiting
            if set(now.get(task.id, [])) != set(task.depends_on)
        ]
        if not new:
            return False
        self._pages += 1
        await self._take_up(f"tasks/{self._pages}", new)
        return True

    async def _load_added(self) -> None:
        while await self._knows(f"tasks/{self._pages + 1}"):
            self._pages += 1
            await self._take_up(f"tasks/{self._pages}", [])

    async def _take_up(self, key: str, new: list[AddedTask]) -> None:
        for item in await self._run.step("tasks", lambda: new, key=key):
            self._tasks[item["task"]] = Placed(item["task"], tuple(item["depends_on"]))

    async def _let_go(self) -> None:
        """Nothing that this loop began outlives it."""
        for work in self._working.values():
            work.cancel()
        if self._working:
            await asyncio.gather(*self._working.values(), return_exceptions=True)

    # The end

    async def _finish(self) -> None:
        tasks = {id_: _recorded_end(one) for id_, one in sorted(self._ended.items())}
        bad = {id_: one for id_, one in tasks.items() if one.status != "done"}
        # One that waits for a task outside of the mission is worked on without it.
        known = [task for task in self._tasks.values() if task.id in self._ended]
        needed = {one for task in known for one in task.depends_on}
        last = [task.id for task in known if task.id not in needed]
        outputs = [ref for id_ in last for ref in self._ended[id_].outputs]
        output = {"tasks": msgspec.to_builtins(tasks)}
        result: dict[str, Any] = {"text": "", "output": output, "artifact": "", "outputs": outputs}
        if bad:
            await self._report(outputs, is_new=False)
            said = ", ".join(f"{self._slug(id_)} {one.status} ({one.reason})" for id_, one in bad.items())
            for id_, one in bad.items():
                if one.reason in OF_ITSELF and self._attempts.get(id_, 0) > REOPENED_MAX:
                    said += f"; to try {self._slug(id_)} {ONCE_MORE}{id_}`"
            self._run.fail(
                TASKS_FAILED,
                f"{len(bad)} of {len(tasks)} tasks {'was' if len(bad) == 1 else 'were'} not done: {said}",
                result=result,
            )
            return
        result["text"] = await self._report(outputs)
        result["artifact"] = outputs[-1] if outputs else ""
        self._run.finish(result)

    async def _report(self, outputs: list[str], *, is_new: bool = True) -> str:
        """Return the newest report, or only meet those of earlier ends in the record."""
        text = ""
        for number in range(self._redone + 1):
            key = f"report/{number}" if number else "report"
            if (is_new and number == self._redone) or await self._knows(key):
                text = await self._run.step("report", report_of, self._desk, outputs, key=key)
        return text

    # Small things

    def _slug(self, task: str) -> str:
        return task.removeprefix(f"{self._run.id}/").replace("/", ".")

    async def _knows(self, key: str) -> bool:
        return await self._run.core.history.knows(key)


def _plan_in(arguments: object) -> object:
    """The plan of an edited answer, which may come with what it was shown with."""
    if not isinstance(arguments, Mapping):
        return arguments
    given = cast("Mapping[str, Any]", arguments)
    return given["plan"] if "plan" in given and "tasks" not in given else given


def _below(core: RunCore) -> list[RunCore]:
    """Runs at work in this process below a run."""
    scope = f"run:{core.run_id}"
    return [
        one
        for one in tuple(core.services.active.values())
        if isinstance(one, RunCore)
        and one is not core
        and one.tenant.id == core.tenant.id
        and scope in one.scopes
    ]


def _is_waiting(core: RunCore) -> bool:
    """Return True if a run can do nothing until a person, a signal or a time lets it."""
    return core.paused or core.status in ("waiting", "waiting_approval") or core.suspended is not None
