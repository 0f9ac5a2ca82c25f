"""Agents as the API shows them: who has runs or a memory here."""

from __future__ import annotations

from typing import Any

from artelier.server.wire.forms import Told


class AgentLine(Told):
    """An agent of a list."""

    agent: str
    runs: int
    last_run: str | None
    last_us: int | None
    """When its newest run began."""
    entries: int | None
    """Of its long-term memory; null if it has none."""
    cost_microusd: int
    """Of its own runs."""


class AgentSkill(Told):
    """A skill on an agent's card."""

    skill: str
    source: str | None
    origin: str | None
    hash: str
    status: str
    """`active`, `parked`, `refused`, `other` for another definition, `unknown`."""


class AgentShown(AgentLine):
    """An agent with its card."""

    sub_agents: list[str]
    card: dict[str, Any]
    """What an export would say of it now: prompts, tools, memory, skills."""
    written: str | None
    """Ref of the card as it was written last; null if it never was."""
    changes: int
    """How often its memory was changed."""
    skills: list[AgentSkill]
