"""Makes missions and tasks known to whoever goes on with runs: `artelier resume`, workers, the server.

Imported with the handle, so it loads nothing heavy before a run of these loops is at hand.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from artelier.agents.launch import Launch, checked_settings, register_launch
from artelier.agents.loop_registry import BuiltIn, register_loop
from artelier.errors import InvalidRequest, NotFound
from artelier.kernel import AgentResult, Limits, Run
from artelier.kernel.run.services import Services

if TYPE_CHECKING:
    from artelier.missions.plan.planner import MissionJob

MISSION, TASK = "mission", "task"

_DUE = """
SELECT t.tenant, t.task, l.holder, l.expires_us, l.expires_uptime_us FROM tasks t INDEXED BY tasks_alone
  LEFT JOIN runs r ON r.tenant = t.tenant AND r.run = t.task
  LEFT JOIN runs m ON m.tenant = t.tenant AND m.run = t.mission
  LEFT JOIN runs p ON p.tenant = r.tenant AND p.run = r.parent
  LEFT JOIN leases l ON l.stream = t.tenant || '/main/run:' || t.task
 WHERE t.alone = 1 AND t.ended = '' AND t.agent <> ''
   AND (m.run IS NULL OR m.status IN ('completed', 'failed', 'cancelled'))
   AND (r.run IS NULL
     OR (r.parent IS NOT NULL AND p.status IN ('completed', 'failed', 'cancelled')
       AND (r.status IN ('pending', 'running') OR (r.status = 'waiting'
         AND EXISTS (SELECT 1 FROM waits w WHERE w.run = r.id AND w.until_us <= ?)))))
   AND NOT EXISTS (SELECT 1 FROM task_dependencies d
     LEFT JOIN tasks b ON b.tenant = d.tenant AND b.task = d.before
     WHERE d.tenant = t.tenant AND d.task = t.task AND coalesce(b.ended, '') <> 'done')
   AND NOT EXISTS (SELECT 1 FROM imports i WHERE i.tenant = t.tenant AND i.run = t.task)
 ORDER BY t.position LIMIT ?
"""
"""Tasks that nobody has begun and that wait for nothing, and those of ended missions that were reopened."""


async def due(services: Services, limit: int) -> list[tuple[str, str]]:
    """Tasks as (tenant, id) that a worker can drive on their own."""
    now_us = services.clock.now_us()
    rows = await services.store.query(_DUE, (now_us, limit))
    return [(tenant, task) for tenant, task, holder, *end in rows if not services.is_driving(holder, end)]


async def _resume_mission(kernel: Any, tenant: Any, run_id: str, on_wait: str) -> AgentResult:
    from artelier.missions.mission.mission_runner import conduct

    return await conduct(kernel.for_tenant(tenant), run_id, on_wait=on_wait)


async def _resume_task(kernel: Any, tenant: Any, run_id: str, on_wait: str) -> AgentResult:
    from artelier.missions.task.task_handle import worked_on

    return await worked_on(kernel.for_tenant(tenant), run_id, on_wait=on_wait)


async def _begin_task(kernel: Any, tenant: Any, run_id: str, on_wait: str) -> AgentResult | None:
    from artelier.missions.task.task_status import standing_of

    desk = kernel.for_tenant(tenant)
    try:
        await standing_of(desk, run_id)
    except NotFound:
        return None
    return await _resume_task(kernel, tenant, run_id, on_wait)


async def _mission_needs(kernel: Any, tenant: Any, run_id: str) -> InvalidRequest | None:
    from artelier.missions.mission.mission_runner import code_needed

    return await code_needed(kernel.for_tenant(tenant), run_id)


async def _task_needs(kernel: Any, tenant: Any, run_id: str) -> InvalidRequest | None:
    from artelier.missions.task.task_runner import code_needed

    return await code_needed(kernel.for_tenant(tenant), run_id)


async def _replay_mission(run: Run, settings: dict[str, Any]) -> None:
    from artelier.missions.mission.mission_runner import replay_mission

    await replay_mission(run, settings)


async def _replay_task(run: Run, settings: dict[str, Any]) -> None:
    from artelier.missions.task.task_runner import replay_task

    await replay_task(run, settings)


def _check_mission(desk: Any, settings: dict[str, Any]) -> dict[str, Any]:
    given = checked_settings(
        settings, loop=MISSION, needed={"goal": str, "model": str}, free={"workspace": str, "plan": dict}
    )
    desk.services.model(given["model"])
    job = _job_of(desk, given)
    return {name: value for name, value in job.settings().items() if name != "auto_launch"}


async def _start_mission(
    kernel: Any,
    tenant: Any,
    run_id: str,
    settings: dict[str, Any],
    limits: Limits | None,
    on_wait: str,
    key_id: int | None,
) -> AgentResult:
    from artelier.missions.mission.mission_runner import conduct

    desk = kernel.for_tenant(tenant)
    job = _job_of(desk, desk.services.escape_placeholders(desk.id, settings))
    return await conduct(desk, run_id, job, on_wait=on_wait, limits=limits, key_id=key_id)


def _job_of(desk: Any, settings: dict[str, Any]) -> MissionJob:
    from artelier.missions.plan.commands import mission_job

    return mission_job(
        desk,
        settings["goal"],
        model=settings["model"],
        workspace=settings.get("workspace", ""),
        auto_launch=True,
        plan=settings.get("plan"),
    )


def register() -> None:
    """Twice is as once."""
    register_launch(MISSION, Launch(check=_check_mission, start=_start_mission))
    register_loop(MISSION, BuiltIn(resume=_resume_mission, replay=_replay_mission, needs=_mission_needs))
    register_loop(
        TASK, BuiltIn(resume=_resume_task, replay=_replay_task, needs=_task_needs, due=due, begin=_begin_task)
    )
