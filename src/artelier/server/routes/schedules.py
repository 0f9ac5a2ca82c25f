"""`/schedules`: what is started at fixed times, and what became of each time."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import Query

from artelier.agents.schedules.queries import ScheduleDetail
from artelier.server.deps import Actor, Desk, Setup, Who, with_shown_workspace, workspace_of
from artelier.server.routes import resource
from artelier.server.security.identity import Identity
from artelier.server.wire import runs
from artelier.server.wire import schedules as wire
from artelier.server.wire.base import AfterNumber, Limit, Nothing, Page

router = resource("schedules")


@router.get("", operation_id="schedules_list")
async def list_(
    desk: Desk,
    who: Who,
    status: Annotated[Literal["active", "paused"] | None, Query(description="Only those.")] = None,
    after: AfterNumber = 0,
    limit: Limit = 100,
) -> Page[wire.ScheduleLine]:
    """Schedules in the order of their making."""
    found = await desk.schedules.list(status=status, after=after, limit=limit)
    found["items"] = [with_shown_workspace(one, desk=desk, who=who) for one in found["items"]]
    return Page[wire.ScheduleLine].model_validate(found)


@router.post("", status_code=201, operation_id="schedules_add")
async def add(
    desk: Desk, by: Actor, who: Who, settings: Setup, asked: wire.ScheduleNew
) -> wire.ScheduleShown:
    """Work on a goal at each time from now on."""
    given = asked.model_dump(exclude={"id", "model", "workspace"})
    folder = workspace_of(asked.workspace, desk=desk, who=who)
    made = await desk.schedules.add(
        asked.id, **given, model=asked.model or settings.model, workspace=folder, by=by
    )
    return _show_schedule(made, desk, who)


@router.get("/{id}", operation_id="schedules_show")
async def show(desk: Desk, who: Who, id: str) -> wire.ScheduleShown:
    """A schedule with its next time and its newest runs."""
    return _show_schedule(await desk.schedules.get(id), desk, who)


@router.patch("/{id}", operation_id="schedules_change")
async def change(desk: Desk, by: Actor, who: Who, id: str, asked: wire.ScheduleChange) -> wire.ScheduleShown:
    """Change what a schedule starts, and when; its runs stay as they are."""
    given = asked.given_fields()
    if "workspace" in given:
        given["workspace"] = workspace_of(asked.workspace, desk=desk, who=who)
    return _show_schedule(await desk.schedules.change(id, **given, by=by), desk, who)


@router.delete("/{id}", operation_id="schedules_remove")
async def remove(desk: Desk, by: Actor, id: str) -> wire.Removed:
    """Let a schedule be gone; its runs stay."""
    await desk.schedules.remove(id, by=by)
    return wire.Removed(id=id)


@router.post("/{id}/pause", operation_id="schedules_pause")
async def pause(desk: Desk, by: Actor, who: Who, id: str, asked: runs.Note) -> wire.ScheduleShown:
    """Fire no more until it is resumed; runs that are at work go on."""
    return _show_schedule(await desk.schedules.pause(id, by=by, note=asked.note), desk, who)


@router.post("/{id}/resume", operation_id="schedules_resume")
async def resume(desk: Desk, by: Actor, who: Who, id: str, asked: Nothing) -> wire.ScheduleShown:
    """Fire again from now on; what passed meanwhile is not made up for."""
    return _show_schedule(await desk.schedules.resume(id, by=by), desk, who)


@router.post("/{id}/fire", operation_id="schedules_fire")
async def fire(desk: Desk, by: Actor, id: str, asked: Nothing) -> wire.Fired:
    """Fire now, outside of its times; the worker starts the run."""
    return wire.Fired.model_validate(await desk.schedules.fire(id, by=by))


def _show_schedule(found: ScheduleDetail, desk: Desk, who: Identity) -> wire.ScheduleShown:
    return wire.ScheduleShown.model_validate(with_shown_workspace(found, desk=desk, who=who))
