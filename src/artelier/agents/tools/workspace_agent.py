"""The agent of `artelier do`: the shipped tools over one folder."""

from __future__ import annotations

from typing import Any

from artelier.agents.autonomous import AutonomousAgent
from artelier.agents.run_request import Kernels
from artelier.kernel.run.services import Services
from artelier.ports.tool import ToolPort
from artelier.tools.http.http_json import NAME as OUTSIDE
from artelier.tools.workspace.toolset import workspace_tools


def tools_of(services: Services, tenant: str, workspace: str) -> list[ToolPort] | None:
    """Return the shipped tools over a workspace; None if the run brings tools of its own code.

    Here, and nowhere else, a run gets the tools that touch files. Errors: `AccessDenied` for a folder that is
    not the tenant's; `NotFound` if it is gone.
    """
    if not workspace:
        return None
    root = services.workspaces.check(tenant, workspace)
    outside = [services.tools[OUTSIDE]] if OUTSIDE in services.tools else []
    shared = services.workspaces.is_confined
    return [*workspace_tools(root, is_confined=shared), *outside]


def workspace_agent(
    kernel: Kernels, workspace: str, *, tenant: Any = None, max_iterations: int | None = None
) -> AutonomousAgent:
    """Return the agent of `artelier do`: the shipped tools over one folder."""
    runs = kernel.for_tenant(tenant)
    return AutonomousAgent(
        kernel=kernel,
        tools=tools_of(runs.services, runs.id, workspace),
        max_iterations=max_iterations,
        agent_id="analyst",
    )
