"""Built-in loops: the autonomous agent, and going on with runs that nobody drives."""

from artelier.agents.autonomous import AutonomousAgent, agent_result, drive
from artelier.agents.loops import resume_run, workspace_agent
from artelier.agents.worker import Worker

__all__ = [
    "AutonomousAgent",
    "Worker",
    "agent_result",
    "drive",
    "resume_run",
    "workspace_agent",
]
