"""Pause, resume and stop for everything that is at work, in the tenant or in one mission."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import Annotated, Any

from fastapi import Query

from artelier.errors import Conflict
from artelier.kernel.queries.runs import open_roots, paused_runs
from artelier.server.deps import Actor, Desk
from artelier.server.routes import resource
from artelier.server.routes.missions.mission_common import check_mission
from artelier.server.wire import runs as wire
from artelier.server.wire.base import ID_CHARS_MAX, Page

router = resource("runs")

Mission = Annotated[str | None, Query(max_length=ID_CHARS_MAX, description="Only this one and its tasks.")]


async def _command_runs(desk: Any, verb: str, ids: Iterable[str], **command: Any) -> Page[wire.Effect]:
    """Runs that ended meanwhile, or did already what they are told, are left out."""
    effects: list[wire.Effect] = []
    for run_id in ids:
        with suppress(Conflict):
            event = await getattr(desk, verb)(run_id, **command)
            queued = bool(getattr(event, "queued", False))
            effects.append(wire.Effect(run_id=run_id, effect=event.KIND, queued=queued))
    return Page[wire.Effect](items=effects)


AT_ONCE_MAX = 1_000
"""Runs that one request reaches."""


@router.post("/pause-all", operation_id="runs_pause_all")
async def pause_all(desk: Desk, by: Actor, asked: wire.Note, mission: Mission = None) -> Page[wire.Effect]:
    """Let every run hold after its step at hand, with all that it drives."""
    await check_mission(desk, mission)
    ids = await _unpaused(desk, mission)
    return await _command_runs(desk, "pause", ids, by=by, note=asked.note)


@router.post("/resume-all", operation_id="runs_resume_all")
async def resume_all(desk: Desk, by: Actor, mission: Mission = None) -> Page[wire.Effect]:
    """Let every paused run go on."""
    await check_mission(desk, mission)
    ids = await paused_runs(desk.services.store, desk.id, within=mission, limit=AT_ONCE_MAX)
    return await _command_runs(desk, "resume", ids, by=by)


@router.post("/stop-all", operation_id="runs_stop_all")
async def stop_all(desk: Desk, by: Actor, asked: wire.Note, mission: Mission = None) -> Page[wire.Effect]:
    """Pause every run now, calls in flight cancelled; what was produced is kept with its cost."""
    await check_mission(desk, mission)
    ids = await _unpaused(desk, mission)
    return await _command_runs(desk, "stop", ids, by=by, note=asked.note)


async def _unpaused(desk: Desk, mission: str | None) -> list[str]:
    """Return the open runs that no open run above them drives and that are not paused."""
    found = await open_roots(desk.services.store, desk.id, within=mission, limit=AT_ONCE_MAX)
    return [run for run, status in found if status != "paused"]
