"""Bringing a task's run to its end, in whatever process, and what came of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from artelier.agents.artifact_tools import keep_result, read_artifact_tool
from artelier.agents.loop_registry import kit_of
from artelier.errors import InvalidRequest, NotFound, RunStopped, RunSuspended
from artelier.ids import OPERATOR
from artelier.kernel import Limits, Run, RunCore, run_row
from artelier.kernel.queries.content import shown_json
from artelier.kernel.queries.tenants import run_key
from artelier.kernel.run.context import ResultStore, is_final
from artelier.kernel.tenants.registry import TenantScope
from artelier.loops.cycle import check_workspace, code_missing, go, has_ended, read_recorded_job
from artelier.missions.queries import task_end
from artelier.missions.status import status_of
from artelier.missions.task.actions import DELEGATE, delegate_tool
from artelier.missions.task.loop_state import LOOP, TaskJob, TaskResult
from artelier.missions.task.task_loop import TaskLoop
from artelier.ports.tool import ToolPort
from artelier.tools.client_tool import stored_client_tools

OWN_TOOLS = frozenset(("read_artifact", DELEGATE))
"""Tools that the loop brings itself."""


async def drive_task(
    desk: TenantScope,
    task_id: str,
    job: TaskJob | None = None,
    *,
    on_wait: str = "await",
    parent: Run | None = None,
    parent_step: str | None = None,
    limits: Limits | None = None,
    ended_parent: str = "",
    params: Mapping[str, Any] | None = None,
) -> TaskResult:
    """Start a task's run, or go on where it stopped; one that has ended just gives its result.

    `desk` is the kernel bound to the tenant, `task_id` also the id of a fork of a task's run. `job` is for a
    run that may not have begun: what is recorded comes first. `ended_parent`: its mission, if that has ended.
    `params`: those of a new run's model calls.
    Errors: `LeaseHeld` if another process drives it; `NotFound`; `InvalidRequest` where code is needed that
    is not here; `RunSuspended` and `RunStopped` if it has a parent, which waits with it;
    `StoreUnavailable`. What goes wrong with the task is the result's `reason`.
    """
    stored = await recorded_job(desk, task_id)
    if (job := stored or job) is None:
        raise NotFound(f"no run works on task {task_id!r}", hint="Give it to its agent first.")
    if not await has_ended(desk.services, desk.id, task_id):
        if stored is not None and (needed := await code_needed(desk, task_id)) is not None:
            raise needed
        work = _drive(
            desk,
            task_id,
            job,
            on_wait=on_wait,
            parent=parent,
            parent_step=parent_step,
            limits=limits,
            is_new=stored is None,
            ended_parent=ended_parent,
            params=params,
        )
        try:
            await go(desk.services, desk.id, task_id, work)
        except (RunSuspended, RunStopped):
            if parent is not None:
                raise
    return await result_of(desk, task_id)


async def _drive(
    desk: TenantScope,
    task_id: str,
    job: TaskJob,
    *,
    on_wait: str,
    parent: Run | None,
    parent_step: str | None,
    limits: Limits | None,
    is_new: bool,
    ended_parent: str,
    params: Mapping[str, Any] | None,
) -> None:
    if is_new:
        desk.services.model(job.model)  # a missing key is said at the door, and no run fails of it
    else:
        await check_workspace(desk.services, desk.id, task_id, job.workspace)
    key_id = await run_key(desk.services.store, desk.id, job.mission) if job.mission else None
    opened = desk.run(
        task_id,
        loop=LOOP,
        agent=job.agent,
        model=job.model,
        goal=job.content().goal,
        settings=job.settings(),
        from_snapshot=True,
        tools=kit(desk, job),
        limits=limits,
        on_wait="suspend" if on_wait == "return" else on_wait,
        principal=job.agent,
        parent=parent,
        parent_step=parent_step,
        ended_parent=ended_parent,
        params=params,
        scopes=job.scopes,
        key_id=key_id,
    )
    async with opened as run:
        if is_final(run.status):
            return
        run.core.store_result = _results_of(desk, job)
        row = await run_row(desk.services.store, desk.id, task_id)
        loop = TaskLoop(run, job, desk=desk, is_fork=row.origin is not None)
        await loop.drive(opened.snapshot)


def kit(desk: TenantScope, job: TaskJob) -> dict[str, ToolPort]:
    """The tools of a task's run by name: the workspace's, else the kernel's, its own, and its client's.

    Errors: `NotFound` if the workspace is gone.
    """
    own = (read_artifact_tool(desk.services, principal=job.agent), delegate_tool(desk, job, drive=drive_task))
    brought = stored_client_tools(job.client_tools)
    return kit_of(desk.services, desk.id, job.workspace, *own, *brought, host_tools=job.host_tools)


def _results_of(desk: TenantScope, job: TaskJob) -> ResultStore:
    """Keeps large tool results, and what they show, as artifacts that nobody but the agent and people may
    read."""

    async def store(core: RunCore, key: str, content: bytes, /, *, media_type: str = "") -> str:
        artifacts = desk.as_principal(job.agent).artifacts
        access = {"allow": {"read": [OPERATOR]}}
        return await keep_result(artifacts, core, key, content, media_type=media_type, access=access)

    return store


async def recorded_job(desk: TenantScope, run_id: str) -> TaskJob | None:
    """Return what a task's run was asked to do; None if it never began. Errors: `InvalidRequest` for
    others.
    """
    return await read_recorded_job(
        desk.services,
        desk.id,
        run_id,
        loop=LOOP,
        job=TaskJob.from_stored,
        other=lambda loop: InvalidRequest(
            f"run {run_id!r} works on no task", got=loop, hint="Give the task another id."
        ),
    )


async def code_needed(desk: TenantScope, run_id: str) -> InvalidRequest | None:
    """Return why only the program that started a task's run can go on with it; None if anybody can.

    Errors: `NotFound`.
    """
    job = await recorded_job(desk, run_id)
    if job is None:
        raise NotFound(f"no run {run_id!r}")
    return await code_missing(
        desk.services,
        desk.id,
        run_id,
        what="task",
        workspace=job.workspace,
        own=OWN_TOOLS.union(one["name"] for one in job.client_tools),
        hint="Make the task anew here, with a workspace of this machine.",
        host_tools=job.host_tools,
    )


async def result_of(desk: TenantScope, task_id: str) -> TaskResult:
    """Return how a task stands, from the log. Errors: `NotFound`."""
    services = desk.services
    row = await run_row(services.store, desk.id, task_id)
    end = await task_end(desk, task_id)
    stored: Any = await shown_json(services, desk.id, row.result)
    result = cast("dict[str, Any]", stored) if isinstance(stored, dict) else {}
    message = await shown_json(services, desk.id, row.message)
    text = result.get("text") or (message if isinstance(message, str) else "")
    return TaskResult(
        task=task_id,
        status=status_of(end.ended, row.status),
        run_status=row.status,
        reason=end.reason or row.reason or "",
        outputs=end.outputs,
        iterations=end.iterations,
        text=text,
    )


async def replay_task(run: Run, settings: dict[str, Any]) -> None:
    """Drive a replay: every step returns what was recorded, nothing is called."""
    row = await run_row(run.core.services.store, run.tenant_id, run.id)
    await TaskLoop(run, TaskJob.from_stored(settings), is_fork=row.origin is not None).drive()
