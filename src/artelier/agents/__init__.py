"""Built-in loops: the autonomous agent, and going on with runs that nobody drives."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from artelier.agents.autonomous import AutonomousAgent
    from artelier.agents.chat import Chat
    from artelier.agents.finish import agent_result
    from artelier.agents.loops import replay_run, resume_run
    from artelier.agents.stream_events import (
        ApprovalAnswered,
        ApprovalAsked,
        ModelAnswered,
        NoteGiven,
        ToolCalled,
        ToolReturned,
    )
    from artelier.agents.sub_agents import SubAgentFactory
    from artelier.agents.worker import Worker
    from artelier.agents.workspace import workspace_agent

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
    "ApprovalAnswered": "stream_events",
    "ApprovalAsked": "stream_events",
    "AutonomousAgent": "autonomous",
    "Chat": "chat",
    "ModelAnswered": "stream_events",
    "NoteGiven": "stream_events",
    "ToolCalled": "stream_events",
    "ToolReturned": "stream_events",
    "SubAgentFactory": "sub_agents",
    "Worker": "worker",
    "agent_result": "finish",
    "replay_run": "loops",
    "resume_run": "loops",
    "workspace_agent": "workspace",
}


def __getattr__(name: str) -> Any:
    # Lazy, because the public Kernel needs one name of this package and must open fast.
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
