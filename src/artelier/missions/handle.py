"""The operations of a tenant's kernel on missions: plans, launches, tasks, the agents of missions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from artelier.agents.launch import Launch, checked_settings, register_launch
from artelier.agents.loop_registry import BuiltIn, register_loop
from artelier.artifacts import Kind, register_kind
from artelier.artifacts.content import Media
from artelier.errors import InvalidArtifact, InvalidRequest, NotFound
from artelier.kernel import AgentResult, Limits, Run
from artelier.kernel.queries.runs import DueLook
from artelier.kernel.run.services import Services
from artelier.ports.model_params import check_params

if TYPE_CHECKING:
    from artelier.kernel import AgentResult, Limits
    from artelier.kernel.tenants.registry import TenantScope
    from artelier.log import EventData
    from artelier.missions.membranes import Membranes
    from artelier.missions.plan.planner import MissionJob
    from artelier.missions.reports import AgentDetail, AgentReport, MissionDetail, MissionPage, PlannedMission
    from artelier.missions.task.task_handle import Tasks


class MissionsHandle:
    """Methods of `TenantKernel`."""

    # Missions

    async def plan(
        self: TenantScope,
        goal: str,
        *,
        mission_id: str | None = None,
        model: str | None = None,
        fallbacks: Sequence[str] = (),
        workspace: str = "",
        auto_launch: bool = False,
        budget_usd: str | None = None,
        plan: Mapping[str, Any] | None = None,
        limits: Limits | None = None,
        by: str = "operator",
        subject: str = "",
        at_most: bool = False,
        params: Mapping[str, Any] | None = None,
        attachments: Sequence[bytes] = (),
        client_tools: Sequence[Mapping[str, Any]] = (),
        on_wait: str = "await",
    ) -> PlannedMission:
        """Take a goal apart, where nothing is launched yet.

        `fallbacks`: models that its planner, tasks and evaluators ask in turn when theirs fails.
        With `auto_launch` it is launched and driven to its end. `plan` is one of your own, which no model
        is asked for. `budget_usd` caps the mission with all that belongs to it; with `at_most`, so does the
        estimate of its plan from the launch on, which is only about what it may cost otherwise. `subject`:
        whom it is about; what its runs store and write is erased with that. `params`: those of its model
        calls, such as `{"temperature": 0.2}`, which then stands over that of steering. `attachments`: images,
        sounds, PDFs and texts that a new mission's planner, tasks and evaluators are shown. `client_tools`:
        definitions `{name, description, parameters}` of tools that whoever asked runs: each call is a
        question of its task, answered with `approve(..., arguments={"content": ...})`. `on_wait="return"`
        returns from a mission that was launched when it waits.
        Errors: `InvalidRequest`, also for a plan with mistakes; `UnknownModel`, `MissingKey`; `Conflict` if
        a run has this id.
        """
        from artelier.missions.plan.commands import plan_mission

        return await plan_mission(
            self,
            goal,
            mission_id=mission_id,
            model=model,
            fallbacks=fallbacks,
            workspace=workspace,
            auto_launch=auto_launch,
            budget_usd=budget_usd,
            plan=plan,
            limits=limits,
            by=by,
            subject=subject,
            at_most=at_most,
            params=params,
            attachments=attachments,
            client_tools=client_tools,
            on_wait=on_wait,
        )

    async def launch(
        self: TenantScope, mission_id: str, plan: Mapping[str, Any] | None = None, *, by: str = "operator"
    ) -> MissionDetail:
        """Say yes to a mission's plan, or to an edited one; what `mission` says of it. Whoever drives runs
        (`drive_mission`, `artelier resume`, a worker) then goes on with it.

        Errors: `InvalidRequest` that names all mistakes of an edited plan; `Conflict` if it was launched or
        has ended; `NotFound`.
        """
        from artelier.missions.plan.commands import launch_mission

        return await launch_mission(self, mission_id, plan, by=by)

    async def drive_mission(self: TenantScope, mission_id: str, *, on_wait: str = "await") -> AgentResult:
        """Go on with a mission until it ends or waits; of one that has ended, its result.

        Errors: `NotFound`; `LeaseHeld` if another process drives it; `InvalidRequest` where code is needed.
        """
        from artelier.missions.plan.mission_runner import conduct

        return await conduct(self, mission_id, on_wait=on_wait)

    async def missions(
        self: TenantScope,
        *,
        status: str | None = None,
        after: int = 0,
        limit: int = 100,
        newest_first: bool = False,
    ) -> MissionPage:
        """Return missions in the order of their start, or the newest first."""
        from artelier.missions.plan.commands import mission_page

        return await mission_page(self, status=status, after=after, limit=limit, newest_first=newest_first)

    async def mission(self: TenantScope, mission_id: str) -> MissionDetail:
        """Return a mission with its plan, agents, tasks, membranes and outputs. Errors: `NotFound`."""
        from artelier.missions.plan.commands import mission_object

        return await mission_object(self, mission_id)

    async def resume(
        self: TenantScope,
        run_id: str,
        *,
        note: str = "",
        limits: Limits | None = None,
        max_iterations: int | None = None,
        stuck_after: int | None = None,
        by: str = "operator",
    ) -> EventData:
        """Let a run go on that is paused or out of budget, or reopen a failed one; nobody has to drive it.

        With a `note`, which its agent reads next, or a raised limit a failed run is reopened: it keeps all
        that it has done and paid for. Without one it stays failed (`retry` tries its failed step again).
        `limits` sets the run's own caps; `max_iterations` and `stuck_after` are those of its loop.
        Units:  `max_iterations` counts from the run's beginning. With a note alone, it counts anew; so does
        what the run ended by. `limits.wall_s` counts from the run's beginning as well.
        Errors: `Conflict` for a run that has ended otherwise, is not paused, or is a turn of a chat;
        `InvalidRequest` for a limit that is used up already, or that its loop does not have.
        """
        from artelier.missions.task.task_handle import resume_or_reopen

        loop_limits = {"max_iterations": max_iterations, "stuck_after": stuck_after}
        return await resume_or_reopen(self, run_id, note=note, limits=limits, loop_limits=loop_limits, by=by)

    async def retry(self: TenantScope, run_id: str, *, by: str = "operator") -> EventData:
        """Reopen a failed run: its failed steps are executed again. A mission has failed when its goal stands
        as failed or blocked, whatever its run has ended as; what a person rejected in it is made anew.

        Errors: `NotFound`; `Conflict`, also for a turn of a chat.
        """
        from artelier.missions.task.task_handle import retry_run

        return await retry_run(self, run_id, by=by)

    # Tasks and agents

    @property
    def tasks(self: TenantScope) -> Tasks:
        """Making tasks, looking at them, working on them: `desk.tasks.create(...)`."""
        from artelier.missions.task.task_handle import Tasks

        return Tasks(self)

    @property
    def membranes(self: TenantScope) -> Membranes:
        """Shared pools of context: `desk.membranes.join(...)`."""
        from artelier.missions.membranes import Membranes

        return Membranes(self)

    async def run_agent(
        self: TenantScope, agent_id: str, *, on_wait: str = "await", params: Mapping[str, Any] | None = None
    ) -> list[AgentResult]:
        """Work on the pending tasks of an agent that can begin, in order; their results.

        `params`: those of the model calls of tasks that begin now, laid over those of their mission.
        Errors: `NotFound`; `InvalidRequest` for a parameter that there is not.
        """
        from artelier.missions.mission_agents import run_agent

        return await run_agent(self, agent_id, on_wait=on_wait, params=check_params(params or {}))

    async def create_agent(
        self: TenantScope,
        id: str,
        *,
        name: str,
        role: str = "",
        model: str | None = None,
        tools: Sequence[str] = (),
        budget_usd: str | None = None,
        by: str = "operator",
    ) -> AgentDetail:
        """Make an agent that tasks can be assigned to; what `mission_agent` says of it.

        Errors: `InvalidRequest`; `UnknownModel`, `MissingKey`; `VersionConflict` if the id is taken.
        """
        from artelier.missions.mission_agents import create_agent

        return await create_agent(
            self, id, name=name, role=role, model=model, tools=tools, budget_usd=budget_usd, by=by
        )

    async def agents_of(self: TenantScope, mission_id: str) -> list[AgentReport]:
        """Return the agents of a mission."""
        from artelier.missions.mission_agents import agents_of

        return await agents_of(self, mission_id)

    async def mission_agent(self: TenantScope, agent_id: str) -> AgentDetail:
        """Return an agent with its tools, steering, membranes and budget. Errors: `NotFound`."""
        from artelier.missions.mission_agents import agent_object

        return await agent_object(self, agent_id)


async def check_fork(desk: TenantScope, run_id: str, *, at: int | None, changes: Any) -> None:
    """Errors: `Conflict` for a mission from after its launch: its tasks are runs that no fork shares; those
    of a steering that the run could not go by.
    """
    from artelier.missions.plan.commands import check_fork as check

    await check(desk, run_id, at=at, changes=changes)


MISSION, TASK = "mission", "task"


async def due(services: Services, look: DueLook) -> list[tuple[str, str]]:
    """Tasks as (tenant, id) that a worker can drive on their own."""
    from artelier.missions.queries import due_tasks

    return await due_tasks(services.store, look)


async def _resume_mission(kernel: Any, tenant: Any, run_id: str, on_wait: str) -> AgentResult:
    from artelier.missions.plan.mission_runner import conduct

    return await conduct(kernel.for_tenant(tenant), run_id, on_wait=on_wait)


async def _resume_task(kernel: Any, tenant: Any, run_id: str, on_wait: str) -> AgentResult:
    from artelier.missions.task.task_handle import worked_on

    return await worked_on(kernel.for_tenant(tenant), run_id, on_wait=on_wait)


async def _begin_task(kernel: Any, tenant: Any, run_id: str, on_wait: str) -> AgentResult | None:
    from artelier.missions.queries import standing_of

    desk = kernel.for_tenant(tenant)
    try:
        await standing_of(desk, run_id)
    except NotFound:
        return None
    return await _resume_task(kernel, tenant, run_id, on_wait)


async def _mission_needs(kernel: Any, tenant: Any, run_id: str) -> InvalidRequest | None:
    from artelier.missions.plan.mission_runner import code_needed

    return await code_needed(kernel.for_tenant(tenant), run_id)


async def _task_needs(kernel: Any, tenant: Any, run_id: str) -> InvalidRequest | None:
    from artelier.missions.task.task_runner import code_needed

    return await code_needed(kernel.for_tenant(tenant), run_id)


async def _replay_mission(run: Run, settings: dict[str, Any]) -> None:
    from artelier.missions.plan.mission_runner import replay_mission

    await replay_mission(run, settings)


async def _replay_task(run: Run, settings: dict[str, Any]) -> None:
    from artelier.missions.task.task_runner import replay_task

    await replay_task(run, settings)


def _check_mission(desk: TenantScope, settings: dict[str, Any]) -> dict[str, Any]:
    given = checked_settings(
        settings, loop=MISSION, needed={"goal": str, "model": str}, free={"workspace": str, "plan": dict}
    )
    desk.services.model(given["model"])
    job = _job_of(desk, given)
    return {name: value for name, value in job.to_stored().items() if name != "auto_launch"}


async def _start_mission(
    kernel: Any,
    tenant: Any,
    run_id: str,
    settings: dict[str, Any],
    limits: Limits | None,
    on_wait: str,
    key_id: int | None,
) -> AgentResult:
    from artelier.missions.plan.mission_runner import conduct

    desk = kernel.for_tenant(tenant)
    job = _job_of(desk, desk.services.escape_placeholders(desk.id, settings))
    return await conduct(desk, run_id, job, on_wait=on_wait, limits=limits, key_id=key_id)


def _job_of(desk: TenantScope, settings: dict[str, Any]) -> MissionJob:
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


_JSON: frozenset[Media] = frozenset(("json",))


def register_steering() -> None:
    """Twice is once. Stored artifacts are not touched: an older one with mistakes stays readable."""
    register_kind(
        Kind(
            name="steering",
            media=_JSON,
            check=_check,
            default_access="private",
            lasting="Its limits hold while it stands. Change it: null puts a default back.",
        ),
        replace=True,
    )


def _check(content: object) -> None:
    from artelier.missions.steering_document import Steering

    try:
        Steering.parse(content)
    except InvalidRequest as error:
        raise InvalidArtifact(
            error.message, expected=error.expected, got=error.got, hint=error.hint
        ) from None


register()
register_steering()
