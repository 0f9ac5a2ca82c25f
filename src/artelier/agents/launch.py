"""Starting runs of built-in loops from data alone, as schedules do.

A package that brings a loop registers how its settings are checked and how a run of it starts. The
loop `agent` is registered here.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from artelier.agents.autonomous import LOOP, AutonomousAgent
from artelier.agents.run_config import Wanted
from artelier.errors import InvalidRequest
from artelier.kernel import AgentResult, Limits
from artelier.kernel.run.services import Services
from artelier.kernel.tenants.registry import TenantRef, TenantScope, TenantScopes
from artelier.loops.cycle import check_host_tools
from artelier.loops.cycle import host_tools as all_host_tools
from artelier.ports.tool import ToolPort
from artelier.tools.built_in import workspace_tools
from artelier.tools.http_json import NAME as OUTSIDE

GOAL_CHARS_MAX = 100_000
"""A longer goal belongs into a file of the workspace."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """The functions that check and start a run of one loop, for a caller who knows only its settings."""

    check: Callable[[TenantScope, dict[str, Any]], dict[str, Any]]
    """`(desk, settings)`: them, complete, as JSON data. Errors: what would keep a run from starting."""
    start: Callable[
        [TenantScopes, TenantRef, str, dict[str, Any], Limits | None, str, int | None], Awaitable[AgentResult]
    ]
    """`(kernel, tenant, run_id, settings, limits, on_wait, key_id)`: start the run, or go on with it.

    Settings are as somebody gave them: with values, and look-alikes of placeholders as they were typed.
    `key_id` is the subject's key that they are stored under, which the run shares."""


_LAUNCHES: dict[str, Launch] = {}


def register_launch(loop: str, launch: Launch) -> None:
    """Make a loop one that schedules can start."""
    _LAUNCHES[loop] = launch


def launch_of(loop: str) -> Launch:
    """Errors: `InvalidRequest` for a loop that only code can start."""
    found = _LAUNCHES.get(loop)
    if found is None:
        raise InvalidRequest(
            "no loop of this name can be started from settings alone",
            got=repr(loop)[:80],
            expected=" or ".join(sorted(_LAUNCHES)),
        )
    return found


def checked_settings(
    settings: Mapping[str, Any], *, loop: str, needed: Mapping[str, type], free: Mapping[str, type]
) -> dict[str, Any]:
    """Settings of the right types, and no others. Errors: `InvalidRequest` that names the first wrong one."""
    known = {**needed, **free}
    for name in (*needed, *settings):
        kind = known.get(name)
        value = settings.get(name)
        if kind is None or not isinstance(value, kind) or isinstance(value, bool):
            wanted = "nothing of this name" if kind is None else f"a value of type {kind.__name__}"
            raise InvalidRequest(
                f"settings of loop {loop}: {str(name)[:80]}", expected=wanted, got=repr(value)[:80]
            )
    return dict(settings)


def check_goal(goal: str) -> None:
    """Errors: `InvalidRequest` for a goal that is empty, too long or cannot be stored."""
    if not goal.strip():
        raise InvalidRequest("the goal is empty", expected="what to find out or make")
    if len(goal) > GOAL_CHARS_MAX:
        raise InvalidRequest(
            "the goal is too long",
            expected=f"at most {GOAL_CHARS_MAX:,} characters",
            got=f"{len(goal):,}",
            hint="Put it into a file of the workspace and refer to it.",
        )
    if any("\ud800" <= char <= "\udfff" for char in goal):
        raise InvalidRequest("the goal is not UTF-8 text", got=ascii(goal)[:80])


# One agent, without a plan


def _check_agent(desk: TenantScope, settings: dict[str, Any]) -> dict[str, Any]:
    given = checked_settings(
        settings,
        loop=LOOP,
        needed={"prompt": str, "model": str},
        free={"workspace": str, "max_iterations": int},
    )
    check_goal(given["prompt"])
    desk.services.model(given["model"])
    if given.get("workspace"):
        given["workspace"] = desk.services.workspaces.check(desk.id, given["workspace"])
    if given.get("max_iterations", 1) < 1:
        raise InvalidRequest("max_iterations", expected="a whole number from 1", got=given["max_iterations"])
    return given


async def _start_agent(
    kernel: TenantScopes,
    tenant: TenantRef,
    run_id: str,
    settings: dict[str, Any],
    limits: Limits | None,
    on_wait: str,
    key_id: int | None,
) -> AgentResult:

    workspace = cast(str, settings.get("workspace", ""))
    agent = workspace_agent(kernel, workspace, tenant=tenant, max_iterations=settings.get("max_iterations"))
    wanted = Wanted(
        run_id=run_id,
        tenant=tenant,
        model=settings["model"],
        prompt=settings["prompt"],
        on_wait=on_wait,
        limits=limits,
        artifact=f"reports/{run_id}",
        workspace=workspace,
        key_id=key_id,
    )
    return await agent.start(wanted)


register_launch(LOOP, Launch(check=_check_agent, start=_start_agent))


# The agent of `artelier do`: the shipped tools over one folder


def tools_of(
    services: Services, tenant: str, workspace: str, *, host_tools: Sequence[str] = ()
) -> list[ToolPort] | None:
    """Return the shipped tools over a workspace; None if the run brings tools of its own code.

    Here, and nowhere else, a run gets the tools that touch files. `host_tools`: names of tools of the kernel
    that the run was started with beside them. Errors: `AccessDenied` for a folder that is not the tenant's;
    `NotFound` if it is gone; `InvalidRequest` for tools that this process was not given.
    """
    if not workspace:
        return None
    check_host_tools(services, host_tools, what="this run")
    root = services.workspaces.check(tenant, workspace)
    outside = [services.tools[OUTSIDE]] if OUTSIDE in services.tools else []
    shared = services.workspaces.is_confined
    shipped = [*workspace_tools(root, is_confined=shared), *outside]
    return [*shipped, *(services.tools[name] for name in host_tools)]


def workspace_agent(
    kernel: TenantScopes, workspace: str, *, tenant: TenantRef = None, max_iterations: int | None = None
) -> AutonomousAgent:
    """Return the agent of `artelier do`: the shipped tools over one folder."""
    runs = kernel.for_tenant(tenant)
    return AutonomousAgent(
        kernel=kernel,
        tools=tools_of(runs.services, runs.id, workspace, host_tools=all_host_tools(runs.services)),
        max_iterations=max_iterations,
        agent_id="analyst",
    )
