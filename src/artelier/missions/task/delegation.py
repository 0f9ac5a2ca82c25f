"""The tool with which a task hands a part of its work to a child task: a run below its own, judged like any.

Its outputs become inputs of the task. The child's id comes from the step that asked for it, so a call that is
entered again goes on with the same child.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from artelier.artifacts import Artifacts
from artelier.errors import NotFound, RunStopped, ToolFailed
from artelier.ids import OPERATOR
from artelier.kernel import Run, RunCore, find_driver
from artelier.log import Batch
from artelier.loops.run_control import go_below
from artelier.missions.definition import TEXT_CHARS_MAX, TaskContent, validate_form
from artelier.missions.shipped_texts import template
from artelier.missions.task.task_config import TaskJob, TaskResult
from artelier.ports.tool import ToolContext
from artelier.tools import Tool

DELEGATE = "delegate_task"

Drive = Callable[..., Awaitable[TaskResult]]
"""As `task_runner.drive_task`, which this module must not import: a task's run has this tool."""

TEXT_CHARS = 4_000
"""Of the child's newest output that the answer holds; the whole of it becomes an input."""


def delegate_tool(desk: Any, job: TaskJob, *, drive: Drive) -> Tool[..., Any]:
    """`delegate_task(goal, success_criteria)` for a task's run; `drive` ends the child."""

    async def delegate(goal: str, success_criteria: str, ctx: ToolContext) -> dict[str, Any]:
        core = find_driver(desk.services, ctx.tenant_id, ctx.run_id)
        if core is None:
            raise NotFound(f"run {ctx.run_id!r} is not driven here, so it takes no children")
        if max(len(goal), len(success_criteria)) > TEXT_CHARS_MAX or not goal.strip():
            raise ToolFailed("a task needs a goal", expected=f"1-{TEXT_CHARS_MAX} characters")
        step = ctx.idempotency_key.rpartition(":")[2]
        number = step.partition("/")[0].removeprefix("c")
        child = _child_of(job, f"{ctx.run_id}/{number}", goal, success_criteria)
        await _make_artifact(desk, child)
        return await _drive_child(desk, child, core, step, drive=drive)

    # It may be entered again: the child's own log says what is done already.
    return Tool(
        delegate,
        name=DELEGATE,
        description=template("delegate-1"),
        side_effect=True,
        idempotent=True,
        risk="low",
        trust="untrusted",
        acts_in_store=True,
    )


def _child_of(job: TaskJob, task: str, goal: str, criteria: str) -> TaskJob:
    """The same agent, at a part of its work, with what its parent began with."""
    content = validate_form(
        TaskContent,
        {
            "goal": goal,
            "success_criteria": criteria,
            "assigned_agent_id": job.agent,
            "parent": job.task,
            "max_iterations": job.content().max_iterations,
            "inputs": job.content().inputs,
        },
        what="a task that is delegated",
    )
    return replace(job, task=task, definition=content.model_dump(mode="json"), mission="")


async def _make_artifact(desk: Any, child: TaskJob) -> None:
    """The child's artifact, unless an earlier entry has made it."""
    from artelier.missions.plan.launch import task_made

    artifacts: Artifacts = desk.as_principal(OPERATOR).artifacts
    try:
        await artifacts.read(child.task)
    except NotFound:
        append, blobs = await task_made(desk, child.task, child.content(), mission="", by=child.agent)
        await desk.services.store.append(Batch(appends=(append,), blobs=blobs))


async def _drive_child(
    desk: Any, child: TaskJob, core: RunCore, step: str, *, drive: Drive
) -> dict[str, Any]:
    """Return what came of the child. Errors: `ToolFailed`; `RunSuspended` while it has no end."""

    def begin() -> Awaitable[TaskResult]:
        return drive(desk, child.task, child, on_wait=core.on_wait, parent=Run(core), parent_step=step)

    try:
        result = await go_below(core, child.task, begin)
    except RunStopped:
        await core.boundary()  # the task itself was cancelled, or only this part of it
        raise ToolFailed("the task was cancelled by a person") from None
    if result.status != "done":
        raise ToolFailed(
            f"the task is not done: it is {result.status}",
            got=result.reason or None,
            hint=result.text[:500] or None,
        )
    return {"task": child.task, "outputs": list(result.outputs), "text": result.text[:TEXT_CHARS]}
