"""The handle `desk.tasks`: making tasks, looking at them, working on them, ending and reopening them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, cast

from artelier.agents.run_config import agent_result
from artelier.agents.schedules.queries import check_startable
from artelier.artifacts import Provenance
from artelier.chat.session.commands import give, give_in_order, resume_run
from artelier.errors import Conflict, InvalidRequest, NotFound, RunStopped, RunSuspended
from artelier.ids import MAIN_SPACE, OPERATOR, fresh_secret
from artelier.kernel import AgentResult, Limits, commands, control_stream, run_row
from artelier.kernel.commands import Given
from artelier.kernel.history.fork_lineage import changes_of, lineage
from artelier.kernel.run.context import is_final
from artelier.kernel.run_limits import encode_limits
from artelier.kernel.tenants.registry import TenantScope
from artelier.log import Batch, Draft, EventData, StreamAppend, Tx
from artelier.missions import events as ev
from artelier.missions.definition import (
    ITERATIONS_DEFAULT,
    ITERATIONS_MAX,
    TaskContent,
    check_name,
    template,
    validate_form,
)
from artelier.missions.plan.launch import task_made, with_event
from artelier.missions.plan.planner import LOOP, MissionJob
from artelier.missions.queries import (
    TaskStanding,
    judgements_of,
    mission_in,
    needed_by,
    runs_of_task,
    standing_of,
    standings,
    task_object,
    task_page,
)
from artelier.missions.reports import TaskDetail, TaskPage
from artelier.missions.status import GOAL_REASONS, TaskStatus, goal_status
from artelier.missions.steering_document import guidance, steering_of
from artelier.missions.task.context_sources import steering_now
from artelier.missions.task.evaluation import judge_output
from artelier.missions.task.loop_state import LOOP as TASK
from artelier.missions.task.loop_state import TaskJob, agent_content, counted_from, counts_anew, task_job
from artelier.missions.view import DEPENDENCY_FAILED, REJECTED

UNSAID: Any = object()


class Tasks:
    """The tasks of a tenant. `by` is who acts, as events say it."""

    def __init__(self, desk: TenantScope) -> None:
        self._desk = desk

    # Making and changing

    async def create(
        self,
        *,
        goal: str,
        success_criteria: str,
        assigned_agent_id: str | None = None,
        inputs: Sequence[str] = (),
        depends_on: Sequence[str] = (),
        max_iterations: int = ITERATIONS_DEFAULT,
        id: str | None = None,
        checks: Sequence[Any] = (),
        only_checks: bool = False,
        mission: str = "",
        model: str = "",
        workspace: str = "",
        by: str = OPERATOR,
    ) -> TaskDetail:
        """Make a task; what `show` says of it. A worker begins with it as soon as it has an agent and what
        it depends on is done; one of a mission that is at work is taken up by that.

        `model` and `workspace` are for a task of its own whose agent names no model. `mission` must have
        been launched and not have ended.
        Errors: `InvalidRequest` with all mistakes; `NotFound` for an agent or a task that it depends on;
        `VersionConflict` if the id is taken; `Conflict` for a mission that takes no more tasks.
        """
        content = validate_form(
            TaskContent,
            {
                "goal": goal,
                "success_criteria": success_criteria,
                "inputs": list(inputs),
                "assigned_agent_id": assigned_agent_id,
                "depends_on": list(depends_on),
                "max_iterations": max_iterations,
                "checks": list(checks),
                "only_checks": only_checks,
            },
            what="the task",
        )
        task = check_name(_new_task_id(id, goal=goal, mission=mission), what="a task")
        await self._check_references(task, content)
        desk = self._desk
        await desk.state()
        about = {
            "model": model,
            "workspace": workspace and self._desk.services.workspaces.check(desk.id, workspace),
        }
        append, blobs = await task_made(
            desk,
            task,
            content,
            mission=mission,
            by=by,
            provenance=Provenance(run_id=mission or task),
            metadata={name: value for name, value in about.items() if value},
        )
        guard = _takes_tasks(desk.id, mission) if mission else None
        await desk.services.store.append(Batch(appends=[append], blobs=blobs, guard=guard))
        return await self.show(task)

    async def change(
        self,
        id: str,
        *,
        assigned_agent_id: str | None = UNSAID,
        success_criteria: str = UNSAID,
        inputs: Sequence[str] = UNSAID,
        depends_on: Sequence[str] = UNSAID,
        max_iterations: int = UNSAID,
        by: str = OPERATOR,
    ) -> TaskDetail:
        """Change a task that is not being worked on; what `show` says of it.

        Errors: `Conflict` for one that is active or done; those of `create`.
        """
        given = {
            "assigned_agent_id": assigned_agent_id,
            "success_criteria": success_criteria,
            "inputs": inputs,
            "depends_on": depends_on,
            "max_iterations": max_iterations,
        }
        wanted = {
            name: list(value) if isinstance(value, tuple | list) else value
            for name, value in given.items()
            if value is not UNSAID
        }
        standing = await standing_of(self._desk, id)
        if standing.status in ("active", "done", "cancelled"):
            raise Conflict(
                f"task {id!r} is {standing.status}, so it is not changed",
                got=standing.status,
                expected="a task that is pending, blocked or failed",
                hint="Pause or cancel its run first." if standing.status == "active" else None,
            )
        await self._desk.services.store.append(await self.plan_change(id, wanted, by=by))
        return await self.show(id)

    async def plan_change(self, id: str, wanted: Mapping[str, Any], *, by: str) -> Batch:
        """Return the batch that changes fields of a task. Errors: see `change`."""
        artifacts = self._desk.as_principal(OPERATOR).artifacts.by(by)
        stored = await artifacts.read(id)
        content = validate_form(
            TaskContent, {**cast("dict[str, Any]", stored.content), **wanted}, what="the task"
        )
        await self._check_references(id, content)
        if "max_iterations" in wanted:
            await _check_steering(self._desk, id, content.max_iterations)
        agent = content.assigned_agent_id or ""
        append, blobs, _ = await artifacts.plan_write(
            id,
            content=content.model_dump(mode="json"),
            expected_version=stored.version,
            access={"allow": {"read": [agent] if agent else []}},
        )
        event = ev.TaskChanged(
            task=id,
            agent=agent,
            depends_on=tuple(content.depends_on),
            inputs=tuple(content.inputs),
            max_iterations=content.max_iterations,
        )
        guard = partial(_check_unbegun, tenant=self._desk.id, task=id)
        return Batch(appends=[with_event(self._desk, append, event, by=by)], blobs=blobs, guard=guard)

    async def cancel(self, id: str, *, by: str = OPERATOR, note: str = "") -> TaskDetail:
        """End a task for good; what `show` says of it. Errors: `NotFound`; `Conflict` if it has ended."""
        standing = await standing_of(self._desk, id)
        if standing.run_status is not None and not is_final(standing.run_status):
            await self._desk.cancel(id, by=by, note=note)
        elif standing.run_status is None and standing.status.can_become(TaskStatus.CANCELLED):
            guard = partial(_check_unbegun, tenant=self._desk.id, task=id)
            try:
                await self._append_to_task(id, ev.TaskCancelled(task=id), by=by, guard=guard)
            except TaskBegunMeanwhile:
                await self._desk.cancel(id, by=by, note=note)
        else:
            raise Conflict(f"task {id!r} has ended", got=standing.status)
        return await self.show(id)

    async def retry(self, id: str, *, max_iterations: int | None = None, by: str = OPERATOR) -> TaskDetail:
        """Let a task that failed, was blocked or was cancelled before it began be worked on again; what
        `show` says of it. `start`, or a worker, then does it, and goes on with what waits for it.

        `max_iterations` is its limit from now on: of those that it had before an end of its own none counts,
        of those before an error that ended it all do. A retry that is refused changes nothing.

        A task of a mission that has ended stays its child: it counts in the mission's cost and limits.
        Errors: `NotFound`; `Conflict` while its mission is at work, and for a task that is neither.
        """
        standing = await standing_of(self._desk, id)
        if standing.mission_status is not None and not is_final(standing.mission_status):
            raise Conflict(
                f"mission {standing.mission!r} is at work and decides about its tasks itself",
                got=standing.mission_status,
                hint="Retry the task when the mission has ended.",
            )
        if standing.reason == DEPENDENCY_FAILED and await self._waits_in_vain(id):
            raise Conflict(
                f"task {id!r} depends on a task that is not done",
                got=standing.reason,
                hint="Retry that one, or change what this one depends on.",
            )
        await self._desk.state()
        self._desk.keep_alive()
        beside = control_stream.NOTHING
        if max_iterations is not None:
            beside = await self.plan_change(id, {"max_iterations": max_iterations}, by=by)
        if standing.status == "pending" and standing.alone and standing.mission:
            # Free already: what it depends on was retried.
            if max_iterations is not None:
                await self._desk.services.store.append(beside)
        elif standing.status == "failed" and standing.reason == REJECTED:
            await redo(self._desk, standing, by=by, beside=beside)
        elif standing.status != "done" and standing.run_status == "failed":
            await give_in_order(self._desk, id, [Given(verb="retry")], by=by, beside=beside)
        elif standing.status == "blocked" and standing.run_status == "budget_exhausted":
            await give_in_order(self._desk, id, [Given(verb="resume")], by=by, beside=beside)
        elif standing.run_status is None and standing.status.can_become(TaskStatus.PENDING):
            reopened = ev.TaskReopened(task=id)
            if max_iterations is None:
                await self._append_to_task(id, reopened, by=by)
            else:
                appends = [with_event(self._desk, one, reopened, by=by) for one in beside.appends]
                await self._desk.services.store.append(replace(beside, appends=appends))
        else:
            hint = "Make a new task." if standing.run_status == "cancelled" else None
            raise Conflict(
                f"task {id!r} is {standing.status}",
                expected="a task that failed or was blocked",
                got=standing.run_status or standing.status,
                hint=hint,
            )
        return await self.show(id)

    async def judge(
        self, id: str, *, accepted: bool, output: str | None = None, note: str = "", by: str = OPERATOR
    ) -> TaskDetail:
        """Accept or reject an output of a task that has ended, the newest if none is named; what `show`
        says of it. A task whose output is accepted is done; one whose output is rejected has failed, and
        its agent reads the note when it is retried.

        Errors: `NotFound`; `Conflict` while it or its mission is worked on, and if it has made nothing.
        """
        await judge_output(self._desk, id, accepted=accepted, output=output, note=note, by=by)
        return await self.show(id)

    async def start(self, id: str, *, on_wait: str = "await") -> AgentResult:
        """Work on a task until it has an end or waits; of one that has ended, its result.

        Errors: `NotFound`; `Conflict` if it depends on tasks that are not done, or belongs to a mission that
        is at work; `LeaseHeld` if another process works on it.
        """
        return await worked_on(self._desk, id, on_wait=on_wait)

    # Looking

    async def list(
        self,
        *,
        mission: str | None = None,
        agent: str | None = None,
        status: str | None = None,
        after: int = 0,
        limit: int = 100,
        chars_max: int | None = None,
    ) -> TaskPage:
        """Return tasks in the order of their making.

        The page ends with the one with which their goals have `chars_max` characters.
        """

        return await task_page(
            self._desk,
            mission=mission,
            agent=agent,
            status=status,
            after=after,
            limit=limit,
            chars_max=chars_max,
        )

    async def show(self, id: str) -> TaskDetail:
        """Return a task with its definition, where it stands, and its iterations. Errors: `NotFound`."""

        return await task_object(self._desk, id)

    # Inside

    async def _check_references(self, task: str, content: TaskContent) -> None:
        if content.assigned_agent_id:
            check_name(content.assigned_agent_id, what="an agent")
            await agent_content(self._desk, content.assigned_agent_id)
        for before in content.depends_on:
            await standing_of(self._desk, before)
        await self._check_circle(task, content.depends_on)

    async def _check_circle(self, task: str, depends_on: Sequence[str]) -> None:
        seen: set[str] = set()
        waiting = list(depends_on)
        while waiting:
            before = waiting.pop()
            if before == task:
                raise InvalidRequest(f"task {task!r} would wait for itself", got=str(depends_on)[:200])
            if before not in seen:
                seen.add(before)
                waiting += await needed_by(self._desk, before)

    async def _append_to_task(
        self,
        id: str,
        event: ev.TaskCancelled | ev.TaskReopened,
        *,
        by: str,
        guard: Callable[[Tx], None] | None = None,
    ) -> None:
        """An event on the task's stream, whoever else writes there."""
        from artelier.artifacts.events import artifact_stream

        draft = Draft(event, self._desk.services.clock.now_us(), by)
        append = StreamAppend(artifact_stream(self._desk.id, MAIN_SPACE, id), [draft])
        await self._desk.services.store.append(Batch(appends=[append], guard=guard))

    async def _waits_in_vain(self, task: str) -> bool:
        """Return True if a task depends on one that will not be done."""
        for before in await needed_by(self._desk, task):
            if (await standing_of(self._desk, before)).status.keeps_waiting:
                return True
        return False


async def worked_on(
    desk: TenantScope, task: str, *, on_wait: str = "await", params: Mapping[str, Any] | None = None
) -> AgentResult:
    """Drive a task's run on its own; `params` are those of a new one's calls. Errors: see `Tasks.start`."""
    from artelier.missions.task.task_runner import drive_task

    standing = await check_start(desk, task)
    begun = standing.run_status is not None
    if not begun or not is_final(cast(str, standing.run_status)):
        job, above = None, ""
        if not begun:
            job = await job_of(desk, standing)
            above = standing.mission if standing.mission_status is not None else ""
        with suppress(RunSuspended, RunStopped):  # how it stands is in the log
            await drive_task(desk, task, job, on_wait=on_wait, ended_parent=above, params=params)
    return await agent_result(desk.services, desk.id, task)


async def check_start(desk: TenantScope, task: str) -> TaskStanding:
    """Return where a task stands that may be worked on now, or has ended. Errors: see `Tasks.start`."""
    standing = await standing_of(desk, task)
    if standing.run_status is None:
        await _check_startable(desk, standing)
    elif not is_final(standing.run_status):
        _check_own(standing)
    return standing


async def job_of(desk: TenantScope, standing: TaskStanding) -> TaskJob:
    """Return what a task's run would be asked to do, if it began now. Errors: those of `task_job`."""
    mission = await _mission_job(desk, standing.mission)
    if mission is None:
        return await task_job(desk, standing.task, mission=standing.mission)
    return await task_job(
        desk,
        standing.task,
        mission=standing.mission,
        model=mission.model,
        workspace=mission.workspace,
        host_tools=mission.host_tools,
        looks=mission.looks,
        client_tools=mission.client_tools,
        attachments=mission.attachments,
        fallbacks=mission.fallbacks,
    )


async def _mission_job(desk: TenantScope, mission: str) -> MissionJob | None:
    """Return what the mission of a task was asked to do; None for a task of its own."""
    if not mission:
        return None
    from artelier.missions.plan.mission_runner import recorded_job

    return await recorded_job(desk, mission)


async def _check_startable(desk: TenantScope, standing: TaskStanding) -> None:
    """Errors: `Conflict` for a task that is not to be begun now."""
    _check_own(standing)
    if standing.status != "pending":
        raise Conflict(
            f"task {standing.task!r} is {standing.status}",
            got=standing.reason or standing.status,
            hint="Retry it first." if standing.status.can_become(TaskStatus.PENDING) else None,
        )
    for before in await needed_by(desk, standing.task):
        status = (await standing_of(desk, before)).status
        if status != "done":
            raise Conflict(f"task {standing.task!r} waits for {before!r}", expected="done", got=status)


def _check_own(standing: TaskStanding) -> None:
    """Errors: `Conflict` for a task that a run above it drives."""
    if standing.mission_status is not None and not is_final(standing.mission_status):
        raise Conflict(
            f"task {standing.task!r} is driven by its mission, which is {standing.mission_status}",
            hint=f"Resume that: artelier resume {standing.mission}",
        )


class TaskBegunMeanwhile(Conflict):
    """Somebody has begun to work on the task."""


def _check_unbegun(tx: Tx, *, tenant: str, task: str) -> None:
    """Check that nobody works on a task. Errors: `Conflict`."""
    status = runs_of_task(tx, tenant, task).own
    if status is not None and not is_final(status) and status != "budget_exhausted":
        raise TaskBegunMeanwhile(
            f"task {task!r} is being worked on",
            got=status,
            expected="a task that is pending, blocked or failed",
            hint="Pause or cancel its run first.",
        )


async def _check_steering(desk: TenantScope, task: str, most: int) -> None:
    """Errors: `Conflict` if steering allows a task that has begun fewer iterations than a person does."""
    from artelier.missions.task.task_runner import recorded_job

    if (job := await recorded_job(desk, task)) is None:
        return
    reading = await steering_now(desk, job)
    changes = await changes_of(desk.services, await lineage(desk.services, desk.id, task))
    guided = guidance(reading, steering_of(reading, changes))
    allowed = guided.iterations_for(most, begun_with=job.content().max_iterations)
    if allowed < most:
        raise Conflict(
            f"steering of {job.agent!r} allows task {task!r} fewer iterations",
            expected=f"at most {allowed}",
            got=most,
            hint=f"Raise its `iterations` first: PATCH /api/v1/steering/{job.agent}, or Mission Control.",
        )


def _takes_tasks(tenant: str, mission: str) -> Callable[[Tx], None]:
    """Refuses a batch for a mission that has not been launched, or has ended."""

    def guard(tx: Tx) -> None:
        found = mission_in(tx, tenant, mission)
        if found is None:
            raise NotFound(f"no mission {mission!r}")
        status, launched_us = found
        if status in ("completed", "failed", "cancelled"):
            raise Conflict(
                f"mission {mission!r} has ended and takes no more tasks",
                got=status,
                hint="Create the task without a mission.",
            )
        if launched_us is None:
            raise Conflict(
                f"mission {mission!r} was not launched yet", got=status, hint="Add the task to its plan."
            )

    return guard


def _new_task_id(id_: str | None, *, goal: str, mission: str) -> str:
    """The id of a new task. Errors: `InvalidRequest` for one that is not below its mission."""
    if id_ is None:
        words = "-".join(re.findall(r"[a-z0-9]+", goal.lower()))[:32].strip("-") or "task"
        return f"{mission or 'tasks'}/{words}-{fresh_secret(2).hex()}"
    if mission and not id_.startswith(f"{mission}/"):
        raise InvalidRequest(
            "a task of a mission is named after it", expected=f"{mission}/<slug>", got=id_[:128]
        )
    return id_


async def retry_run(desk: TenantScope, run_id: str, *, by: str) -> EventData:
    """Reopen a failed run, or a mission of which a task has failed or was rejected since its run ended.

    Errors: see `MissionsHandle.retry`.
    """
    await desk.state()
    desk.keep_alive()
    try:
        row = await run_row(desk.services.store, desk.id, run_id)
    except NotFound:
        await check_startable(desk.services.store, desk.id, run_id)
        raise
    key = ""
    if row.loop == LOOP and row.status in ("completed", "failed"):
        stands = await standings(desk, run_id)
        goal = goal_status(stands.values(), run_status=row.status)
        if stands and goal == "completed" and row.status == "failed":
            raise Conflict(
                f"the goal of mission {run_id!r} stands as completed: all its tasks are done",
                expected="a goal that failed or is blocked",
                got=goal,
            )
        if goal in GOAL_REASONS or goal == "running":  # the latter if one of its tasks was reopened
            for task, status in stands.items():
                if status == "failed":
                    await _redo_rejected(desk, task, by=by)
            key = commands.REJECTED if row.status == "completed" else ""
    return await give(desk, run_id, "retry", by=by, key=key)


async def _redo_rejected(desk: TenantScope, task: str, *, by: str) -> None:
    """Reopen a task of a mission whose output a person rejected; its loop knows nothing of that."""
    standing = await standing_of(desk, task)
    if standing.reason == REJECTED:
        await redo(desk, standing, by=by)


async def redo(desk: Any, standing: TaskStanding, *, by: str, beside: Batch = control_stream.NOTHING) -> None:
    """Reopen the run of a task whose output was rejected, and tell its agent why."""
    task = standing.task
    key = commands.REJECTED if standing.run_status == "completed" else ""
    retry = Given(verb="retry", key=key)
    await control_stream.give_in_order(desk.services, desk.id, task, [retry], by=by, beside=beside)
    judged = (await judgements_of(desk, [task]))[task][-1]
    said = f"{template('rejected-1')} {judged['output']}"
    await desk.inject(task, f"{said}\n\n{judged['note']}".strip(), by=by)


async def resume_or_reopen(
    desk: TenantScope,
    run_id: str,
    *,
    note: str,
    limits: Limits | None,
    loop_limits: Mapping[str, int | None],
    by: str,
) -> EventData:
    """Let a run go on, or reopen a failed one. Errors: see `MissionsHandle.resume`."""
    row = await run_row(desk.services.store, desk.id, run_id)
    most, beside = loop_limits.get("max_iterations"), control_stream.NOTHING
    if row.loop == LOOP:
        _refuse(loop_limits, tuple(loop_limits), what="a mission", hint=_LIMITS_OF_TASKS)
    elif row.loop == TASK:
        _refuse(loop_limits, ("stuck_after",), what="a task", hint=None)
        if most is not None:
            encode_limits(loop_limits)  # a number that a limit can be
            beside = await _raised_limit(desk, run_id, most, by=by)
    return await resume_run(
        desk, run_id, note=note, limits=limits, loop_limits=loop_limits, by=by, beside=beside
    )


_LIMITS_OF_TASKS = "Its tasks have: artelier tasks retry TASK --max-iterations N."


def _refuse(
    loop_limits: Mapping[str, int | None], names: Sequence[str], *, what: str, hint: str | None
) -> None:
    """Errors: `InvalidRequest` for a limit that a loop does not have."""
    for name in names:
        if loop_limits.get(name) is not None:
            raise InvalidRequest(f"{what} has no limit {name}", got=loop_limits[name], hint=hint)


async def _raised_limit(desk: TenantScope, task: str, most: int, *, by: str) -> Batch:
    """Return the batch that lets a task have `most` iterations, counted from its beginning.

    Errors: `Conflict` if it has had them; `InvalidRequest` for more than a task may have at a time.
    """
    tasks = Tasks(desk)
    shown, standing = await tasks.show(task), await standing_of(desk, task)
    had, before = shown["iteration_count"], await counted_from(desk, task)
    if standing.reason == REJECTED or counts_anew(standing.status, standing.reason, had):
        before = had
    if most <= had:
        raise Conflict(
            f"task {task!r} has used up that many iterations: they are counted from its beginning",
            expected=f"a number from {had + 1} to {before + ITERATIONS_MAX}",
            got=most,
        )
    if most > before + ITERATIONS_MAX:
        raise InvalidRequest(
            "max_iterations", expected=f"a whole number from {had + 1} to {before + ITERATIONS_MAX}", got=most
        )
    return await tasks.plan_change(task, {"max_iterations": most - before}, by=by)
