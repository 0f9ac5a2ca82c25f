"""The restrictions of a loop on its run: tools, tools without a person's approval, runs below it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from artelier.kernel.events import ToolReconciled
from artelier.kernel.policy import RISKS, Policy, check_risk, lower_risk
from artelier.ports.tool import ToolPort
from artelier.tokens import canonical_name

if TYPE_CHECKING:
    from artelier.kernel.history.recorded_calls import ForkEffects


class VisibleTools(NamedTuple):
    """Under what a list of visible tools was made."""

    grants: tuple[str, ...]
    """The tenant's."""
    barred: tuple[str, ...]
    risk_max: str | None


class ToolBounds:
    """Part of a run at work. Nothing here is recorded: a loop sets it from what it has journaled."""

    effects: ForkEffects | None = None
    """What holds for it as a fork, or as a run below one; None for others. From `run.forked`."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self._barred: dict[str, str] = {}
        self._approve_risk: str | None = None
        self._risk_max: str | None = None
        self._depth_max: int | None = None
        self._depth_left: int | None = None
        self.redispatched: Counter[str] = Counter()
        """How often a probe has had a step entered again, by key."""
        self.charged = defaultdict[str, Counter[int]](Counter)
        """By key, how many spends of each amount its call was charged for, in whichever of its tries."""
        self.reconciled: dict[str, ToolReconciled] = {}
        """What people have said in this drive of steps whose outcome was unknown."""

    def replacement_of(self, name: str) -> str:
        """Return the tool or model to use where this one is named: a fork may have another in its place."""
        if self.effects is None:
            return name
        given = self.effects.replaced
        return given.get(name) or given.get(canonical_name(name), name)

    @property
    def _stand_ins(self) -> Collection[str]:
        """The names used in place of others; they are on, even if a name itself has a replacement."""
        return () if self.effects is None else self.effects.replaced.values()

    @property
    def barred(self) -> Mapping[str, str]:
        """Tools that are off for this run, and why; set by its loop. They are not listed, and refused."""
        return MappingProxyType(self._barred)

    @barred.setter
    def barred(self, why: Mapping[str, str]) -> None:
        self._barred = dict(sorted(why.items()))

    @property
    def risk_max(self) -> str | None:
        """The highest risk class of tools that are on; None for all. Set by the run's loop."""
        return self._risk_max

    @risk_max.setter
    def risk_max(self, risk: str | None) -> None:
        self._risk_max = check_risk(risk)

    @property
    def approve_risk(self) -> str | None:
        """Risk class from which on a person must approve: a loop can only be stricter than the policy."""
        return lower_risk(self.policy.approve_risk, self._approve_risk)

    @approve_risk.setter
    def approve_risk(self, risk: str | None) -> None:
        self._approve_risk = check_risk(risk)

    @property
    def depth_max(self) -> int | None:
        """Generations of runs that may be started below this one; None for any. A loop can only be stricter
        than the run above it."""
        given = [depth for depth in (self._depth_max, self._depth_left) if depth is not None]
        return min(given, default=None)

    @depth_max.setter
    def depth_max(self, depth: int | None) -> None:
        self._depth_max = depth

    def take_depth_of(self, parent: ToolBounds) -> None:
        """Take over the depth that the parent run leaves to this one."""
        self._depth_left = None if parent.depth_max is None else max(0, parent.depth_max - 1)

    def why_off(self, tool: ToolPort) -> str | None:
        """Return why the run must not use a tool that is granted to it; None if it may."""
        if (why := self._barred.get(tool.name)) is not None:
            return why
        other = self.replacement_of(tool.name)
        if other != tool.name and tool.name not in self._stand_ins:
            return f"{other} stands in its place in this fork"
        if self._risk_max is not None and RISKS[tool.risk] > RISKS[self._risk_max]:
            return f"tools of risk {tool.risk} are off"
        return None
