"""Going on with a run of a built-in loop in any process, from what its first event says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from artelier.agents.autonomous import (
    LOOP,
    AutonomousAgent,
    Job,
    Kernels,
    agent_result,
    drive,
    slug,
)
from artelier.agents.reading import read_artifact_tool
from artelier.errors import InvalidRequest, NotFound
from artelier.kernel import AgentResult, Run, run_row
from artelier.kernel.core import is_final
from artelier.kernel.queries import blob_json
from artelier.kernel.services import Services
from artelier.ports.tool import ToolPort
from artelier.tools.workspace import workspace_tools


def tools_of(services: Services, workspace: str) -> list[ToolPort] | None:
    """The shipped tools over a workspace; None if the run brings tools of its own code.

    Errors: `NotFound` if the folder is gone.
    """
    if not workspace:
        return None
    root = Path(workspace)
    if not root.is_dir():
        raise NotFound(f"the workspace {workspace!r} is not there", hint="Name an existing folder.")
    return [*workspace_tools(root), read_artifact_tool(services)]


def workspace_agent(
    kernel: Kernels, workspace: str, *, max_iterations: int = 20
) -> AutonomousAgent:
    """The agent of `artelier do`: the shipped tools over one folder."""
    services = kernel.for_tenant().services
    return AutonomousAgent(
        kernel=kernel,
        tools=tools_of(services, workspace),
        max_iterations=max_iterations,
        agent_id="analyst",
    )


async def settings_of(kernel: Kernels, tenant: Any, run_id: str) -> dict[str, Any]:
    """What a built-in loop was asked to do. Errors: `NotFound`; `InvalidRequest` for hand-written runs."""
    runs = kernel.for_tenant(tenant)
    row = await run_row(runs.services, runs.id, run_id)
    if row["loop"] != LOOP:
        raise InvalidRequest(
            f"run {run_id!r} is driven by code of its own",
            hint="Run that code again: `artelier run FILE:FUNCTION --run-id RUN`.",
        )
    return await blob_json(runs.services, runs.id, row["settings"]) or {}


async def resume_run(
    kernel: Kernels, tenant: Any, run_id: str, *, on_wait: str = "await"
) -> AgentResult:
    """Drive a run of a built-in loop to its end, or return its result if it has ended.

    Errors: `NotFound`; `InvalidRequest` for a hand-written run, or if its tools come from code.
    """
    settings = await settings_of(kernel, tenant, run_id)
    runs = kernel.for_tenant(tenant)
    row = await run_row(runs.services, runs.id, run_id)
    if is_final(row["status"]):
        return await agent_result(runs, run_id)
    workspace = settings["workspace"]
    if not workspace and row["tools"] is not None and not runs.services.tools:
        raise InvalidRequest(
            f"the tools of run {run_id!r} come from code that is not loaded here",
            hint="Resume it from the program that started it.",
        )
    agent = AutonomousAgent(
        kernel=kernel, identity=settings["identity"], tools=tools_of(runs.services, workspace),
        max_iterations=settings["max_iterations"], agent_id=row["agent"],
    )  # fmt: skip
    return await agent.run(
        run_id=run_id, tenant=tenant, model=settings["model"], prompt=settings["prompt"],
        output_schema=settings["output_schema"], on_wait=on_wait,
        artifact=_artifact_of(settings["artifact"], run_id, is_fork=row["origin"] is not None),
        workspace=workspace,
    )  # fmt: skip


def _artifact_of(artifact: str, run_id: str, *, is_fork: bool) -> str:
    """Where the result goes: a fork's never becomes a version of its origin's."""
    return f"{artifact}/{slug(run_id)}"[:128] if artifact and is_fork else artifact


async def replay_run(run: Run, settings: dict[str, Any]) -> None:
    """Drive a replay: every step returns what was recorded, nothing is called."""
    await drive(run, Job(**settings))
