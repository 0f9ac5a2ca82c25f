"""Bringing a mission's run to its end, in whatever process, and what came of it."""

from __future__ import annotations

import re
from typing import Any

from artelier.agents.finish import agent_result
from artelier.agents.loops import tools_of
from artelier.agents.reading import read_artifact_tool
from artelier.errors import (
    ArtelierError,
    Conflict,
    InvalidRequest,
    NotFound,
    RunStopped,
    RunSuspended,
)
from artelier.ids import check_run_id
from artelier.kernel import AgentResult, Limits, Run, run_row
from artelier.kernel.ancestry import is_imported, lineage
from artelier.kernel.core import is_final
from artelier.kernel.queries import blob_json
from artelier.missions.mission import MissionLoop
from artelier.missions.names import check_name
from artelier.missions.plan import ID_CHARS_MAX, LOOP, MissionJob
from artelier.ports.tool import ToolPort

_MISSION = re.compile(rf"[A-Za-z0-9._:/-]{{1,{ID_CHARS_MAX}}}")


def check_mission_id(value: str) -> str:
    """Errors: `InvalidRequest` for what no mission can be called."""
    if not _MISSION.fullmatch(value):
        check_run_id(value)
        raise InvalidRequest(
            "invalid mission id", expected=f"1-{ID_CHARS_MAX} characters of A-Z a-z 0-9 . _ : / -",
            got=repr(value)[:200], hint="What belongs to a mission is named after it.",
        )  # fmt: skip
    if not {"", ".", ".."}.isdisjoint(value.split("/")):
        raise InvalidRequest(
            "invalid mission id", expected="parts between `/` that are neither empty nor `.` nor `..`",
            got=repr(value)[:200], hint="Paths of pages and files would lead elsewhere.",
        )  # fmt: skip
    return check_name(value, what="a mission")


async def conduct(
    desk: Any, mission: str, job: MissionJob | None = None, *, on_wait: str = "await",
    limits: Limits | None = None, until_launch: bool = False,
) -> AgentResult:  # fmt: skip
    """Start a mission's run, or go on where it stopped; one that has ended just gives its result.

    `job` is for a run that may not have begun; what is recorded comes first. With `until_launch`, a drive
    ends as soon as a person is asked.
    Errors: `LeaseHeld` if another process drives it, `NotFound`, `StoreUnavailable`; `InvalidRequest` where
    code is needed; what goes wrong in the mission is the result's `reason`.
    """
    recorded = await recorded_job(desk, mission)
    if (job := recorded or job) is None:
        raise NotFound(f"no mission {mission!r}")
    message = ""
    if not await _has_ended(desk, mission):
        if recorded is not None and (needed := await code_needed(desk, mission)) is not None:
            raise needed
        try:
            await _driven(desk, mission, job, limits=limits,
                          on_wait="suspend" if on_wait == "return" or until_launch else on_wait)  # fmt: skip
        except (RunSuspended, RunStopped):
            pass  # how it stands is in the log
        except ArtelierError as error:
            if not await _has_ended(desk, mission):
                raise
            message = str(error)
    return await agent_result(desk.services, desk.id, mission, message=message)


async def _driven(
    desk: Any, mission: str, job: MissionJob, *, limits: Limits | None, on_wait: str
) -> None:
    if not await _exists(desk, mission):
        desk.services.model(job.model)  # a missing key is said at the door, and no run fails of it
    opened = desk.run(
        mission, loop=LOOP, model=job.model, goal=job.goal, settings=job.settings(), limits=limits,
        tools=kit(desk, job.workspace), on_wait=on_wait, principal=f"mission:{mission}",
    )  # fmt: skip
    async with opened as run:
        if is_final(run.status):
            return
        stored = await recorded_job(desk, mission)
        await MissionLoop(run, stored or job, desk=desk).drive()


def kit(desk: Any, workspace: str) -> dict[str, ToolPort]:
    """The tools that a mission's agents may be given, by name."""
    services = desk.services
    own = tools_of(services, workspace)
    table: dict[str, ToolPort] = {}
    for tool in [*(services.tools.values() if own is None else own), read_artifact_tool(services)]:
        table.setdefault(tool.name, tool)
    return table


async def recorded_job(desk: Any, mission: str) -> MissionJob | None:
    """What a run was asked to do; None if it never began. Errors: `Conflict` for a run of another loop."""
    try:
        row = await run_row(desk.services, desk.id, mission)
    except NotFound:
        return None
    if row["loop"] != LOOP:
        raise Conflict(
            f"run {mission!r} is no mission", got=row["loop"] or "a run of own code",
            hint="Give the mission another id.",
        )  # fmt: skip
    return MissionJob.restored(await blob_json(desk.services, desk.id, row["settings"]))


async def code_needed(desk: Any, mission: str) -> InvalidRequest | None:
    """Why only the program that started a mission can go on with it; None if anybody can."""
    services = desk.services
    job = await recorded_job(desk, mission)
    if job is None:
        raise NotFound(f"no mission {mission!r}")
    if job.workspace:
        for place in await lineage(services, desk.id, mission):
            if await is_imported(services, desk.id, place.run_id):
                return InvalidRequest(
                    f"mission {mission!r} comes from an imported file, which names files of this"
                    " machine",
                    hint="Plan it anew here: `artelier do GOAL --workspace DIR`.",
                )
        return None
    row = await run_row(services, desk.id, mission)
    listed: list[dict[str, Any]] = await blob_json(services, desk.id, row["tools"]) or []
    here = {*services.tools, "read_artifact"}
    missing = [str(item["name"]) for item in listed if item["name"] not in here]
    if missing and not services.tools:
        return InvalidRequest(
            f"the tools of mission {mission!r} come from code that is not loaded here",
            got=", ".join(missing)[:300], hint="Resume it from the program that started it.",
        )  # fmt: skip
    return None


async def replay_mission(run: Run, settings: dict[str, Any]) -> None:
    """Drive a replay: every step returns what was recorded, nothing is called."""
    await MissionLoop(run, MissionJob.restored(settings)).drive()


async def _exists(desk: Any, mission: str) -> bool:
    try:
        await run_row(desk.services, desk.id, mission)
    except NotFound:
        return False
    return True


async def _has_ended(desk: Any, mission: str) -> bool:
    return await _exists(desk, mission) and is_final(
        (await run_row(desk.services, desk.id, mission))["status"]
    )
