"""Agent artifacts as they were read, by content: an agent that did not change is not read again."""

from __future__ import annotations

from collections.abc import Iterable

from artelier.artifacts.content import decode_content
from artelier.errors import CorruptStore, NotFound
from artelier.world.agent import AgentRow, AgentSpec, is_agents_own, read_agent
from artelier.world.tick.tick_context import Scene

SPECS_MAX = 200_000
"""Contents that are remembered."""


class Specs:
    """The specifications of the agents of a world."""

    def __init__(self) -> None:
        self._known: dict[str, AgentSpec] = {}

    async def preload(self, scene: Scene, agents: Iterable[AgentRow]) -> None:
        await scene.stage.preload(row.id for row in agents)

    async def of(self, scene: Scene, agent: str, *, at_start: bool = False) -> AgentSpec:
        """An agent whose artifact is gone, unreadable or another's has nothing to think with.

        `at_start`: as it stood when the tick began; what an agent configures holds from the next one on.
        """
        standing = await (scene.stage if at_start else scene.working).standing(agent)
        if not is_agents_own(standing, agent) or standing.at is None:
            return AgentSpec()
        ref = standing.at.content
        known = self._known.get(ref)
        if known is not None:
            return known
        try:
            spec = read_agent(decode_content(standing.at.media, await scene.working.blob(ref)))
        except (NotFound, CorruptStore):
            spec = AgentSpec()
        if len(self._known) >= SPECS_MAX:
            self._known.clear()
        self._known[ref] = spec
        return spec
