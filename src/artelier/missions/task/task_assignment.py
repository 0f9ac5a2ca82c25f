"""The job of a task's run: its definition, its agent, and the tools both may use, as they stand now."""

from __future__ import annotations

from typing import Any, cast

from artelier.errors import InvalidRequest, NotFound
from artelier.ids import OPERATOR
from artelier.missions.actor_names import check_name
from artelier.missions.definition import AgentContent, TaskContent, validate_form
from artelier.missions.task.task_config import TaskJob


async def task_job(
    desk: Any, task: str, *, model: str = "", workspace: str = "", mission: str = ""
) -> TaskJob:
    """The job of a task that begins now.

    Of the models, the agent's own comes first, then the mission's, then that which the task was made with.
    Errors: `NotFound`; `InvalidRequest` for a task without an agent or a model.
    """
    artifacts = desk.as_principal(OPERATOR).artifacts
    stored = await artifacts.read(task)
    content = validate_form(TaskContent, stored.content, what=f"task {task}")
    if not content.assigned_agent_id:
        raise InvalidRequest(
            f"task {task!r} is assigned to nobody",
            expected="an agent",
            hint="Assign it: tasks.change(id, assigned_agent_id=...).",
        )
    agent_id = check_name(content.assigned_agent_id, what="an agent")
    agent = await agent_content(desk, agent_id)
    kept = cast("dict[str, Any]", dict(stored.metadata or {}))
    name = agent.model or model or str(kept.get("model") or "")
    if not name:
        raise InvalidRequest(
            f"agent {agent_id!r} has no model",
            expected="one of its own, or one of the task's",
            hint="Give the agent one, or create the task with model=....",
        )
    window = desk.services.window_of(name)
    groups = await artifacts.groups_of(agent_id)
    return TaskJob(
        task=task,
        definition=content.model_dump(mode="json"),
        agent=agent_id,
        name=agent.name,
        role=agent.role,
        model=name,
        mission=mission,
        steering=agent.steering_artifact_id or "",
        memory=agent.memory_artifact_id or "",
        tools=tuple(agent.tools),
        workspace=workspace or str(kept.get("workspace") or ""),
        window_tokens=window.context_tokens,
        max_output_tokens=window.max_output_tokens,
        scopes=(f"agent:{agent_id}", *(f"membrane:{group}" for group in groups)),
    )


async def agent_content(desk: Any, agent_id: str) -> AgentContent:
    """An agent as missions know it. Errors: `NotFound`; `InvalidRequest` for what is no agent."""
    artifact = await desk.as_principal(OPERATOR).artifacts.read(agent_id)
    if artifact.kind != "agent":
        raise NotFound(f"no agent {agent_id!r}", got=f"an artifact of kind {artifact.kind}")
    known = AgentContent.model_fields
    stored = cast("dict[str, Any]", artifact.content)
    # An agent of another making may say more than concerns a mission.
    content = {key: value for key, value in stored.items() if key in known}
    content.setdefault("name", agent_id[:80])
    return validate_form(AgentContent, content, what=f"agent {agent_id}")
