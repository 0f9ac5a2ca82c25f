"""The rules that a kernel enforces on every run: grants, the restrictions of loops, rates, workspaces."""

from __future__ import annotations

import os
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple, Protocol, cast

from artelier.errors import AccessDenied, InvalidConfig, InvalidRequest, NotFound
from artelier.ids import check_tenant
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


# --------------------------------------------------------------------------- workspaces
# Workspaces: the folders of this machine that the tools of each tenant may work on.
#
# Every tool that touches files gets its folder through `Workspaces.check`, and nowhere else. Paths are
# compared after links and `..` are resolved, so that a link in one tenant's folder leads nowhere else. Read
# next: `tools/workspace/files.py`, for how a path within a workspace is opened.

Path = str | os.PathLike[str]

FOLDER_MODE = 0o700
"""Permissions of a tenant's folder that is made here: other users of the machine have no business in it."""


class Workspaces:
    """The folders a tenant may use: any (one person's own machine), or those below a root of its own."""

    def __init__(
        self,
        *,
        roots: Mapping[str, Path] | None = None,
        base: Path | None = None,
        default: Path | None = None,
        is_confined: bool = False,
    ) -> None:
        """Describe the folders of all tenants.

        `roots` names a folder for each tenant. `base` holds one folder for each other tenant, named after it
        and made on first use; it is made itself where its parent is there. `default` is where new work
        happens if nobody names a folder, while tenants may use any. With `roots`, `base` or `is_confined`, a
        tenant without a folder of its own has no files.
        Errors: `InvalidConfig` if a folder is not there, or lies in that of another tenant.
        """
        self._base = None if base is None else _existing(_make_folder(base), "the folder of all workspaces")
        self._roots: dict[str, str] = {
            check_tenant(tenant): _existing(folder, f"the workspace of tenant {tenant}")
            for tenant, folder in (roots or {}).items()
        }
        self._default = "" if default is None else _existing(default, "the workspace")
        self.is_confined = is_confined or base is not None or bool(self._roots)
        if self.is_confined and self._default:
            raise InvalidConfig(
                "one workspace for all and one for each tenant exclude each other",
                expected="roots or base, or default",
                got="both",
            )
        self._check_apart()

    @property
    def default(self) -> str:
        """The folder of new work where tenants may use any; empty for none."""
        return self._default

    @property
    def folders(self) -> list[str]:
        """Every folder that agents may write in, as far as it is known without naming a tenant."""
        return [one for one in (self._base, self._default, *self._roots.values()) if one]

    def root(self, tenant: str) -> str:
        """Return the real path of a tenant's own folder; empty if it has none.

        Errors: `AccessDenied` if its place below `base` is a link or no folder.
        """
        if not self.is_confined:
            return self._default
        if tenant in self._roots:
            return self._roots[tenant]
        if self._base is None:
            return ""
        place = os.path.join(self._base, check_tenant(tenant))
        try:
            os.mkdir(place, FOLDER_MODE)
        except FileExistsError:
            pass
        except OSError as error:
            raise AccessDenied(
                f"the workspace of tenant {tenant} cannot be made: {error.strerror}",
                hint="Whoever runs this server makes the folder, named after the tenant.",
            ) from None
        # Exactly this name: where capital letters make no difference, two tenants would share a folder.
        is_own = tenant in os.listdir(self._base) and os.path.realpath(place) == place
        if not is_own or not os.path.isdir(place):
            raise AccessDenied(
                f"the workspace of tenant {tenant} is a link, or no folder",
                expected="a folder named after the tenant",
                hint="Name its folder with --workspace TENANT=DIR instead.",
            )
        return place

    def check(self, tenant: str, workspace: str) -> str:
        """Return the real path of a workspace that a tenant may use. A relative one starts at its folder.

        Errors: `AccessDenied` for one outside of the tenant's folder, whatever is there; `NotFound` for one
        that is not there. No message names a path of this machine.
        """
        root = self.root(tenant) if self.is_confined else ""
        place = os.path.realpath(os.path.join(root, workspace))
        if self.is_confined and not (root and is_within(place, root)):
            raise AccessDenied(
                f"the workspace is outside of the folder of tenant {tenant}"
                if root
                else f"tenant {tenant} has no folder for workspaces",
                expected="the tenant's own folder, or one in it",
                hint="Leave the workspace out; whoever runs the server sets --workspace TENANT=DIR.",
            )
        if not os.path.isdir(place):
            raise NotFound("the workspace is not there", hint="Name a folder that exists.")
        return place

    def is_denied(self, tenant: str, workspace: str) -> bool:
        """Return whether a stored workspace is not for this tenant, be it there or not."""
        try:
            self.check(tenant, workspace)
        except (AccessDenied, NotFound) as error:
            return isinstance(error, AccessDenied)
        return False

    def display_path(self, tenant: str, workspace: str) -> str:
        """Return a workspace as people are told of it who may not see paths of this machine."""
        if not workspace:
            return ""
        root = self._roots.get(tenant) or (self._base and os.path.join(self._base, tenant)) or ""
        if root and is_within(workspace, root):
            return os.path.relpath(workspace, os.path.dirname(root))
        return os.path.basename(workspace)

    def check_private(self, path: Path) -> None:
        """Check that a file of the server lies where no tool can read it. Errors: `InvalidConfig`."""
        place = os.path.realpath(path)
        roots = [*self._roots.values(), *([self._base] if self._base else [])]
        for root in roots if self.is_confined else ():
            if not is_within(place, root):
                continue
            parts = os.path.relpath(place, root).split(os.sep)
            is_shared = root == self._base and len(parts) == 1
            if is_shared or any(part.startswith(".") for part in parts):
                continue  # beside the tenants' folders, or hidden from every tool
            raise InvalidConfig(
                "a file of the server lies in the workspace of a tenant, whose tools would read it",
                got=str(path),
                hint="Keep it elsewhere, or in a folder whose name begins with a dot.",
            )

    def _check_apart(self) -> None:
        """Errors: `InvalidConfig` if one tenant's folder holds another's."""
        items = sorted(self._roots.items())
        for tenant, folder in items:
            for other, place in items:
                if other != tenant and is_within(place, folder):
                    raise _overlapping(tenant, other)
            own = os.path.join(self._base, tenant) if self._base else ""
            if self._base and (is_within(self._base, folder) or is_within(folder, self._base)):
                if not is_within(folder, own):
                    raise _overlapping(tenant, "every other tenant")


ANY_FOLDER = Workspaces()
"""Every tenant may use any folder: the default of a program that opens a kernel for itself."""


def is_within(place: str, root: str) -> bool:
    """Return whether a real path is a folder or lies in it."""
    return place == root or place.startswith(os.path.join(root, ""))


def _make_folder(folder: Path) -> Path:
    """Make a folder if it can be made: a fresh volume of a container is empty. `_existing` tells the rest."""
    with suppress(OSError):
        os.mkdir(folder, mode=FOLDER_MODE)
    return folder


def _existing(folder: Path, what: str) -> str:
    place = os.path.realpath(folder)
    if not os.path.isdir(place):
        raise InvalidConfig(f"{what} is no folder", got=str(folder), hint="Name one that exists.")
    return place


def _overlapping(tenant: str, other: str) -> InvalidConfig:
    return InvalidConfig(
        f"the workspace of tenant {tenant} holds that of {other}, or lies in it",
        expected="folders that are apart",
        hint="Give each tenant a folder of its own.",
    )
