"""The deciders of a world: rule agents of the host, trusted functions all, and runs that ask models."""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from artelier.artifacts.content import decode_content
from artelier.errors import ArtelierError, CorruptStore, InvalidConfig, NotFound
from artelier.world.actions import Action, Noop, Rejected, action_from
from artelier.world.agent import AgentRow, AgentSpec, is_agents_own, read_agent
from artelier.world.examples.rules import POLICIES as SHIPPED
from artelier.world.kernel_adapter import Runs
from artelier.world.tick.agent_facts import Sight
from artelier.world.tick.tick_context import Scene, Thought

# --------------------------------------------------------------------------- agent spec cache
# Agent artifacts as they were read, by content: an agent that did not change is not read again.


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


# --------------------------------------------------------------------------- deciders


Policy = Callable[[dict[str, Any]], Any]
"""From the facts of an agent to an action: an `Action`, its JSON object, or None for none."""


class PolicyFailed(ArtelierError):
    """A rule agent of the host raised; nothing of the tick is recorded."""

    code = "policy_failed"

    def __init__(self, name: str, agent: str, tick: int, error: Exception) -> None:
        at = traceback.extract_tb(error.__traceback__)[-1]
        super().__init__(
            f"rule agent {name} raised {type(error).__name__}: {error}"[:400],
            got=f"for {agent} in tick {tick}, in {at.filename}:{at.lineno}",
            hint="Mend the rule and pass the tick again; nothing of it was recorded.",
        )


class Policies:
    """Rule agents by the name that agent artifacts give: those of the shipped worlds, and the host's."""

    def __init__(self, given: Mapping[str, Policy] | None = None) -> None:
        """Errors: `InvalidConfig` for what cannot be called, or waits."""
        self._given = {**SHIPPED, **(given or {})}
        self._names: dict[str, str] = {}
        for name, policy in self._given.items():
            if not callable(cast(object, policy)) or inspect.iscoroutinefunction(policy):
                raise InvalidConfig(
                    f"policy {name!r}", expected="a plain function of the facts", got=repr(policy)[:80]
                )
            version = getattr(policy, "version", 1)
            self._names[name] = f"{name}@{version}"

    def __contains__(self, name: str) -> bool:
        return name in self._given

    async def decide(self, name: str, row: AgentRow, sight: Sight) -> Thought:
        """Return what the rule says; for a name that nobody registered a rejection, and no model is asked.

        Errors: `PolicyFailed` for a rule that raises: that is the host's mistake, and is not hidden.
        """
        policy = self._given.get(name)
        if policy is None:
            action = Rejected(f"this world has no rule agent {name[:80]!r} now")
            return Thought(agent=row.id, action=action, source="host", code="unknown_policy")
        facts = await sight.facts(row)
        try:
            action = _action(policy(facts))
        except Exception as error:
            raise PolicyFailed(name, row.id, sight.scene.tick, error) from error
        return Thought(agent=row.id, action=action, source="policy", key=self._names[name])


@dataclass(frozen=True, slots=True, kw_only=True)
class Cast:
    """The deciders of a world: rule agents of the host, artifacts read once, runs for models."""

    policies: Policies
    specs: Specs
    runs: Runs


def _action(wanted: object) -> Action | Rejected:
    if isinstance(wanted, Action):
        return wanted
    if wanted is None:
        return Noop()
    return action_from(wanted)
