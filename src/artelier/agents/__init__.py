"""Built-in loops: the autonomous agent, and going on with runs that nobody drives."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

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


def __getattr__(name: str) -> object:
    # Lazy, because the public Kernel needs one name of this package and must open fast.
    if name in _MOVED:
        import warnings

        home = _MOVED[name]
        warnings.warn(f"artelier.agents.{name} is now {home}.{name}", DeprecationWarning, stacklevel=2)
        return getattr(import_module(home), name)
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
