"""`/tasks`: what is to be done, where it stands, and working on it."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query, Request

from artelier.missions.task.task_handle import check_start
from artelier.server.background_tasks import errands_of, key_of, send_work
from artelier.server.deps import Actor, Desk, Setup, Who, workspace_of
from artelier.server.routes import resource
from artelier.server.wire import missions as wire
from artelier.server.wire import runs
from artelier.server.wire.base import ID_CHARS_MAX, AfterNumber, Limit, Nothing, Page

router = resource("tasks")

Name = Annotated[str | None, Query(max_length=ID_CHARS_MAX)]


@router.get("", operation_id="tasks_list")
async def list_(
    desk: Desk,
    mission: Name = None,
    agent: Name = None,
    status: Annotated[str | None, Query(max_length=40)] = None,
    after: AfterNumber = 0,
    limit: Limit = 100,
) -> Page[wire.TaskLine]:
    """Tasks in the order of their making."""
    found = await desk.tasks.list(mission=mission, agent=agent, status=status, after=after, limit=limit)
    return Page[wire.TaskLine].model_validate(found)


@router.post("", status_code=201, operation_id="tasks_create")
async def create(desk: Desk, by: Actor, who: Who, settings: Setup, asked: wire.TaskNew) -> wire.TaskShown:
    """Make a task. It is begun as soon as it has an agent and what it depends on is done."""
    is_own = asked.mission is None
    folder = workspace_of(asked.workspace, desk=desk, who=who) if is_own else ""
    made = await desk.tasks.create(
        goal=asked.goal,
        success_criteria=asked.success_criteria,
        assigned_agent_id=asked.assigned_agent_id,
        inputs=asked.inputs,
        depends_on=asked.depends_on,
        max_iterations=asked.max_iterations,
        id=asked.id,
        checks=asked.checks,
        only_checks=asked.only_checks,
        mission=asked.mission or "",
        model=asked.model or (settings.model if is_own else ""),
        workspace=folder,
        by=by,
    )
    return wire.TaskShown.model_validate(made)


@router.get("/{id}", operation_id="tasks_show")
async def show(desk: Desk, id: str) -> wire.TaskShown:
    """A task with its criteria and its iterations."""
    return wire.TaskShown.model_validate(await desk.tasks.show(id))


@router.patch("/{id}", operation_id="tasks_change")
async def change(desk: Desk, by: Actor, id: str, asked: wire.TaskChange) -> wire.TaskShown:
    """Change a task that nobody works on: assign it, or change criteria, inputs and limits."""
    return wire.TaskShown.model_validate(await desk.tasks.change(id, **asked.given_fields(), by=by))


@router.get("/{id}/iterations", operation_id="tasks_iterations")
async def iterations(desk: Desk, id: str) -> wire.IterationList:
    """Return what was decided in each iteration, what came of it, and how it was judged."""
    return wire.IterationList.model_validate({"items": (await desk.tasks.show(id))["iterations"]})


@router.post("/{id}/start", status_code=202, operation_id="tasks_start")
async def start(request: Request, desk: Desk, id: str, asked: Nothing) -> wire.TaskShown:
    """Let its agent begin with it, or go on, while the answer is on its way."""
    await check_start(desk, id)
    key = key_of("task", desk, id)
    await send_work(errands_of(request.app), key, desk.tasks.start(id, on_wait="suspend"), desk, run_id=id)
    return wire.TaskShown.model_validate(await desk.tasks.show(id))


@router.post("/{id}/retry", operation_id="tasks_retry")
async def retry(desk: Desk, by: Actor, id: str, asked: Nothing) -> wire.TaskShown:
    """Let a task that failed, was blocked, or was cancelled before it began be worked on again."""
    return wire.TaskShown.model_validate(await desk.tasks.retry(id, by=by))


@router.post("/{id}/accept", operation_id="tasks_accept")
async def accept(desk: Desk, by: Actor, id: str, asked: wire.Judging) -> wire.TaskShown:
    """Accept an output of a task that has ended: it is done, whatever an evaluator has said."""
    told = await desk.tasks.judge(id, accepted=True, output=asked.output, note=asked.note, by=by)
    return wire.TaskShown.model_validate(told)


@router.post("/{id}/reject", operation_id="tasks_reject")
async def reject(desk: Desk, by: Actor, id: str, asked: wire.Judging) -> wire.TaskShown:
    """Reject an output of a task that has ended: it has failed; its agent reads the note when retried."""
    told = await desk.tasks.judge(id, accepted=False, output=asked.output, note=asked.note, by=by)
    return wire.TaskShown.model_validate(told)


@router.post("/{id}/cancel", operation_id="tasks_cancel")
async def cancel(desk: Desk, by: Actor, id: str, asked: runs.Note) -> wire.TaskShown:
    """End a task for good."""
    return wire.TaskShown.model_validate(await desk.tasks.cancel(id, by=by, note=asked.note))
