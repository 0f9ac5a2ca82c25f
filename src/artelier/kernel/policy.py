"""The rules that a kernel enforces on every run, the one test of a grant, and a loop's restrictions."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple, Protocol, cast

from artelier.errors import InvalidRequest
from artelier.kernel.events import ToolReconciled
from artelier.kernel.rates import NO_RATES, Rates, check_rates
from artelier.ports.pii import Detector
from artelier.ports.tool import ToolPort
from artelier.tokens import canonical_name

if TYPE_CHECKING:
    from artelier.kernel.history.step_history import ForkEffects
    from artelier.pii.scrubber import Scrubber

SECONDS_MAX = 100 * 366 * 86_400
"""A hundred years."""

RISKS = {"low": 0, "medium": 1, "high": 2}
"""Risk classes of tools, by how much can go wrong."""


def check_risk(risk: object) -> str | None:
    """A risk class or None. Errors: `InvalidRequest`."""
    if risk is None or (isinstance(risk, str) and risk in RISKS):
        return risk
    raise InvalidRequest("not a risk class", expected=", ".join(RISKS), got=repr(risk)[:80])


def lower_risk(*risks: str | None) -> str | None:
    """The lowest of several thresholds, which is the strictest; None only if all are."""
    given = [risk for risk in risks if risk is not None]
    return min(given, key=RISKS.__getitem__, default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """Budgets and grants always hold."""

    pii: bool = False
    """Whether personal data is replaced by placeholders wherever it enters; needs ARTELIER_VAULT_KEY."""
    detectors: tuple[Detector, ...] | None = None
    """What is looked for; None for the shipped detectors."""
    patterns: Mapping[str, str] = field(default_factory=dict[str, str])
    """More to look for: kinds such as `EMPLOYEE` and regular expressions."""
    approve_risk: str | None = None
    """Risk class of tools from which on a person must approve: `medium`, `high` or None."""
    result_bytes_max: int = 64 * 1024
    """Larger tool results are shown to models as a preview with a ref."""
    reply_bytes_max: int = 32 * 1024 * 1024
    """A larger model reply is an error of that call."""
    attempts_max: int = 4
    backoff_s: float = 0.5
    """First wait between attempts; doubles, at most 30 s."""
    model_timeout_s: float = 600.0
    funds_wait_s: float = 60.0
    """How long a call waits for money that siblings hold."""
    parallel_max: int = 16
    """Tool calls of one reply, and branches of a gather, at work at once."""
    models: tuple[str, ...] | None = None
    """Patterns of the models that may be called at all, such as `openai:*`; None for every one."""
    rates: Rates = field(default_factory=lambda: NO_RATES)
    """Requests and tokens a minute, by provider or pattern of models, over all tenants and processes."""

    def __post_init__(self) -> None:
        """Errors: `InvalidRequest`."""
        for name in ("model_timeout_s", "backoff_s", "funds_wait_s"):
            check_seconds(name, getattr(self, name))
        for name in ("attempts_max", "parallel_max", "result_bytes_max", "reply_bytes_max"):
            _check_count(name, getattr(self, name))
        object.__setattr__(self, "approve_risk", check_risk(self.approve_risk))
        object.__setattr__(self, "rates", check_rates(self.rates))
        if self.models is not None:
            object.__setattr__(self, "models", check_models(self.models))

    def allows_model(self, name: str) -> bool:
        """Return True if the list of allowed models has this canonical name."""
        return self.models is None or is_granted(self.models, name)

    def looked_for(self) -> tuple[Detector, ...]:
        """The detectors of personal data. Errors: `InvalidRequest` for a pattern that is none."""
        from artelier.pii.detectors import builtin_detectors, pattern

        found = builtin_detectors() if self.detectors is None else self.detectors
        return (*found, *(pattern(kind, text) for kind, text in self.patterns.items()))

    @classmethod
    def local(cls) -> Policy:
        """Budgets, grants and approvals; personal data is not looked for. The default."""
        return cls()

    @classmethod
    def enforced(cls) -> Policy:
        """Return the `local` policy with personal data replaced and high-risk tools approved by a person."""
        return cls(pii=True, approve_risk="high")


def check_seconds(name: str, value: object) -> None:
    """Refuse what is no length of time, such as NaN, which would be no limit. Errors: `InvalidRequest`."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not 0 <= cast(float, value) <= SECONDS_MAX:
        raise InvalidRequest(name, expected="a number of seconds from 0 to 100 years", got=repr(value)[:80])


def _check_count(name: str, value: object) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 < value < 1 << 53:
        raise InvalidRequest(name, expected="a whole number from 1", got=repr(value)[:80])


def check_models(patterns: object) -> tuple[str, ...]:
    """Patterns of model names, canonical where they are names. Errors: `InvalidRequest`."""
    from artelier.tokens.model_info import canonical_name

    if isinstance(patterns, str) or not isinstance(patterns, Iterable):
        raise InvalidRequest(
            "allowed models are a list of patterns",
            expected="such as ('openai:*', 'offline')",
            got=repr(patterns)[:80],
        )
    return tuple(
        pattern if any(char in pattern for char in "*?[") else canonical_name(pattern)
        for pattern in check_grants(cast("Iterable[object]", patterns))
    )


def is_granted(grants: Iterable[str], grant: str) -> bool:
    """Return True if a grant is covered by one of the patterns (`*` and `?` as in file names).

    A grant of several names with spaces between them needs all of them.
    """
    held = tuple(grants)
    return all(any(fnmatchcase(one, pattern) for pattern in held) for one in grant.split())


def may_use_model(grants: Iterable[str], model: str) -> bool:
    """Models are open unless some grant speaks of models."""
    patterns = [grant for grant in grants if grant.startswith("models:")]
    return not patterns or is_granted(patterns, f"models:{model}")


GRANT_CHARS_MAX = 200


def check_grants(grants: object) -> tuple[str, ...]:
    """Grants in order, each once. Errors: `InvalidRequest` for one text, and for what is no text."""
    if isinstance(grants, str) or not isinstance(grants, Iterable):
        raise InvalidRequest(
            "grants are a set of patterns", expected="such as {'tools:*'}", got=repr(grants)[:80]
        )
    found: set[str] = set()
    for grant in cast("Iterable[object]", grants):
        if not isinstance(grant, str) or not 0 < len(grant) <= GRANT_CHARS_MAX:
            raise InvalidRequest(
                "a grant is a pattern",
                expected=f"1-{GRANT_CHARS_MAX} characters, such as 'tools:*'",
                got=repr(grant)[:80],
            )
        found.add(grant)
    return tuple(sorted(found))


NO_MODELS = "models:"
"""A grant that speaks of models and names none."""


def covers(grants: Iterable[str], pattern: str) -> bool:
    """Return True if one of the grants allows all that a pattern allows; in doubt, no.

    Stars are tried as nothing and as more than all `?` of a grant can stand for.
    """
    held = [grant for grant in grants if grant == pattern or "[" not in grant]
    if pattern in held:
        return True
    one = re.sub(r"\[[^]]*\]|\?", "\0", pattern)
    texts = [one.replace("*", stars) for stars in ("", "\0" * (GRANT_CHARS_MAX + 1))]
    return any(all(fnmatchcase(text, grant) for text in texts) for grant in held)


def narrow(parent: Iterable[str], child: Iterable[str]) -> tuple[str, ...]:
    """Return what both sides grant: a child never gains, and a wish for more than the parent has gets what it
    has.

    Since models are open unless a grant speaks of them, silence of either side is filled from the other.
    """
    have, wanted = tuple(parent), tuple(child)
    of_parent = [grant for grant in have if grant.startswith("models:")]
    of_child = [grant for grant in wanted if grant.startswith("models:")]
    kept = [
        grant for grant in wanted if covers(have, grant) or (not of_parent and grant.startswith("models:"))
    ]
    kept.extend(grant for grant in have if grant not in kept and covers(wanted, grant))
    if not of_child:
        kept.extend(grant for grant in of_parent if grant not in kept)
    elif not any(grant.startswith("models:") for grant in kept):
        kept.append(NO_MODELS)
    return tuple(kept)


class ScrubberOf(Protocol):
    """The scrubber of a tenant."""

    def __call__(self, tenant: str, /) -> Scrubber: ...


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
