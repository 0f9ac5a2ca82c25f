"""Bringing a mission's run to its end, in whatever process, and what came of it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from artelier.agents.artifact_tools import read_artifact_tool
from artelier.agents.loop_registry import kit_of
from artelier.agents.run_config import agent_result
from artelier.artifacts.media.inspection import MediaFacts
from artelier.errors import Conflict, InvalidRequest, NotFound, RunStopped, RunSuspended
from artelier.ids import check_run_id
from artelier.kernel import AgentResult, Limits, Run
from artelier.kernel.control_stream import finish_cancelled
from artelier.kernel.run.context import is_final
from artelier.kernel.steps.call_media import inspect_for_model
from artelier.kernel.tenants.registry import TenantScope
from artelier.loops.cycle import check_workspace, code_missing, go, has_ended, read_recorded_job
from artelier.missions.definition import check_name
from artelier.missions.plan.mission_loop import MissionLoop
from artelier.missions.plan.planner import ID_CHARS_MAX, LOOP, MissionJob
from artelier.ports.tool import ToolPort
from artelier.tools.client_tool import stored_client_tools

_MISSION = re.compile(rf"[A-Za-z0-9._:/-]{{1,{ID_CHARS_MAX}}}")


def check_mission_id(value: str) -> str:
    """Errors: `InvalidRequest` for what no mission can be called."""
    if not _MISSION.fullmatch(value):
        check_run_id(value)
        raise InvalidRequest(
            "invalid mission id",
            expected=f"1-{ID_CHARS_MAX} characters of A-Z a-z 0-9 . _ : / -",
            got=repr(value)[:200],
            hint="What belongs to a mission is named after it.",
        )
    if not {"", ".", ".."}.isdisjoint(value.split("/")):
        raise InvalidRequest(
            "invalid mission id",
            expected="parts between `/` that are neither empty nor `.` nor `..`",
            got=repr(value)[:200],
            hint="Paths of pages and files would lead elsewhere.",
        )
    return check_name(value, what="a mission")


async def conduct(
    desk: TenantScope,
    mission: str,
    job: MissionJob | None = None,
    *,
    on_wait: str = "await",
    limits: Limits | None = None,
    until_launch: bool = False,
    by: str = "",
    subject: str = "",
    key_id: int | None = None,
    params: Mapping[str, Any] | None = None,
    attachments: Sequence[bytes] = (),
) -> AgentResult:
    """Start a mission's run, or go on where it stopped; one that has ended just gives its result.

    `job` is for a run that may not have begun; what is recorded comes first. With `until_launch`, a drive
    ends as soon as a person is asked. `by` asked for it, and it is about `subject`, if it begins now;
    `key_id` is the subject's key of what it goes on from. `params` are those of its model calls,
    `attachments` the images, sounds, PDFs and texts that a new one is shown with its goal.
    Errors: `LeaseHeld` if another process drives it, `NotFound`, `StoreUnavailable`; `InvalidRequest` where
    code is needed; what goes wrong in the mission is the result's `reason`.
    """
    stored = await recorded_job(desk, mission)
    if (job := stored or job) is None:
        raise NotFound(f"no mission {mission!r}")
    message = ""
    if stored is not None:
        await finish_cancelled(desk.services, desk.id, mission)
    if not await has_ended(desk.services, desk.id, mission):
        if stored is not None and (needed := await code_needed(desk, mission)) is not None:
            raise needed
        on_wait = "suspend" if on_wait == "return" or until_launch else on_wait
        work = _drive(
            desk,
            mission,
            job,
            limits=limits,
            on_wait=on_wait,
            by=by,
            subject=subject,
            key_id=key_id,
            params=params,
            attachments=attachments,
        )
        with suppress(RunSuspended, RunStopped):  # how it stands is in the log
            message = await go(desk.services, desk.id, mission, work)
    return await agent_result(desk.services, desk.id, mission, message=message)


async def _drive(
    desk: TenantScope,
    mission: str,
    job: MissionJob,
    *,
    limits: Limits | None,
    on_wait: str,
    by: str,
    subject: str,
    key_id: int | None,
    params: Mapping[str, Any] | None,
    attachments: Sequence[bytes],
) -> None:
    shown: list[MediaFacts] = []
    if await recorded_job(desk, mission) is None:
        # A missing key is said at the door, and no run fails of it.
        (name, port), *_ = map(desk.services.model, job.models)
        shown = await inspect_for_model(attachments, model=name, port=port)
    else:
        await check_workspace(desk.services, desk.id, mission, job.workspace)
    opened = desk.run(
        mission,
        loop=LOOP,
        model=job.model,
        goal=job.goal,
        settings=job.to_stored(),
        attachments=tuple(shown),
        limits=limits,
        tools=kit(desk, job.workspace, job.host_tools, job.client_tools),
        on_wait=on_wait,
        principal=f"mission:{mission}",
        by=by,
        subject=subject,
        key_id=key_id,
        params=params,
    )
    async with opened as run:
        if is_final(run.status):
            return
        stored = await recorded_job(desk, mission)
        await MissionLoop(run, stored or job, desk=desk).drive()


def kit(
    desk: TenantScope,
    workspace: str,
    host_tools: Sequence[str],
    client_tools: Sequence[Mapping[str, Any]] = (),
) -> dict[str, ToolPort]:
    """The tools that a mission's agents may be given, by name."""
    own = (read_artifact_tool(desk.services), *stored_client_tools(client_tools))
    return kit_of(desk.services, desk.id, workspace, *own, host_tools=host_tools)


async def recorded_job(desk: TenantScope, mission: str) -> MissionJob | None:
    """Return what a run was asked to do; None if it never began. Errors: `Conflict` for a run of another
    loop.
    """
    return await read_recorded_job(
        desk.services,
        desk.id,
        mission,
        loop=LOOP,
        job=MissionJob.from_stored,
        other=lambda loop: Conflict(
            f"run {mission!r} is no mission", got=loop, hint="Give the mission another id."
        ),
    )


async def code_needed(desk: TenantScope, mission: str) -> InvalidRequest | None:
    """Return why only the program that started a mission can go on with it; None if anybody can."""
    job = await recorded_job(desk, mission)
    if job is None:
        raise NotFound(f"no mission {mission!r}")
    return await code_missing(
        desk.services,
        desk.id,
        mission,
        what="mission",
        workspace=job.workspace,
        own=("read_artifact", *(one["name"] for one in job.client_tools)),
        hint="Plan it anew here: `artelier do GOAL --workspace DIR`.",
        host_tools=job.host_tools,
    )


async def replay_mission(run: Run, settings: dict[str, Any]) -> None:
    """Drive a replay: every step returns what was recorded, nothing is called."""
    await MissionLoop(run, MissionJob.from_stored(settings)).drive()
