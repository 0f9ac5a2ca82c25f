"""Built-in loops: the autonomous agent, and going on with runs that nobody drives."""

from __future__ import annotations

from typing import TYPE_CHECKING

from artelier.ports.lazy_names import load_on_use

if TYPE_CHECKING:
    from artelier.agents.autonomous import AutonomousAgent
    from artelier.agents.launch import workspace_agent
    from artelier.agents.loop_registry import replay_run, resume_run
    from artelier.agents.run_config import agent_result
    from artelier.agents.stream import (
        ApprovalAnswered,
        ApprovalAsked,
        ModelAnswered,
        NoteGiven,
        ToolCalled,
        ToolReturned,
    )
    from artelier.agents.sub_agents import SubAgentFactory
    from artelier.agents.worker import Worker

__all__ = [
    "ApprovalAnswered",
    "ApprovalAsked",
    "AutonomousAgent",
    "ModelAnswered",
    "NoteGiven",
    "SubAgentFactory",
    "ToolCalled",
    "ToolReturned",
    "Worker",
    "agent_result",
    "replay_run",
    "resume_run",
    "workspace_agent",
]

_HOMES = {
    "ApprovalAnswered": "stream",
    "ApprovalAsked": "stream",
    "AutonomousAgent": "autonomous",
    "ModelAnswered": "stream",
    "NoteGiven": "stream",
    "ToolCalled": "stream",
    "ToolReturned": "stream",
    "SubAgentFactory": "sub_agents",
    "Worker": "worker",
    "agent_result": "run_config",
    "replay_run": "loop_registry",
    "resume_run": "loop_registry",
    "workspace_agent": "launch",
}

_MOVED = {"Chat": "artelier.chat"}
"""Names that were here; they load with a warning that names their package."""

# Lazy, because the public Kernel needs one name of this package and must open fast.
__getattr__ = load_on_use(__name__, _HOMES, moved=_MOVED)
