"""Built-in loops: the autonomous agent, and going on with runs that nobody drives."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from artelier.agents.autonomous import AutonomousAgent
    from artelier.agents.conversation.chat import Chat
    from artelier.agents.loop_registry import replay_run, resume_run
    from artelier.agents.run_result import agent_result
    from artelier.agents.stream.events import (
        ApprovalAnswered,
        ApprovalAsked,
        ModelAnswered,
        NoteGiven,
        ToolCalled,
        ToolReturned,
    )
    from artelier.agents.tools.sub_agents import SubAgentFactory
    from artelier.agents.tools.workspace_agent import workspace_agent
    from artelier.agents.worker import Worker

__all__ = [
    "ApprovalAnswered",
    "ApprovalAsked",
    "AutonomousAgent",
    "Chat",
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
    "ApprovalAnswered": "stream.events",
    "ApprovalAsked": "stream.events",
    "AutonomousAgent": "autonomous",
    "Chat": "conversation.chat",
    "ModelAnswered": "stream.events",
    "NoteGiven": "stream.events",
    "ToolCalled": "stream.events",
    "ToolReturned": "stream.events",
    "SubAgentFactory": "tools.sub_agents",
    "Worker": "worker",
    "agent_result": "run_result",
    "replay_run": "loop_registry",
    "resume_run": "loop_registry",
    "workspace_agent": "tools.workspace_agent",
}


def __getattr__(name: str) -> Any:
    # Lazy, because the public Kernel needs one name of this package and must open fast.
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
