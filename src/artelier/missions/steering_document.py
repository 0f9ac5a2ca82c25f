"""Steering: where the puck stands, hard limits, and which tools are on; of an agent or of a membrane.

Limits are kept by the kernel: `apply` sets them on a run, budgets are caps of the scopes `agent:<id>` and
`membrane:<id>`. Documents are kept in `<agent or membrane>/steering`, whose versions say who changed what,
and when.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType
from typing import Any, NamedTuple, cast

import msgspec

from artelier.artifacts import Artifact, Artifacts
from artelier.artifacts.queries import find_kind
from artelier.errors import Conflict, InvalidRequest, NotFound, SequenceConflict, VersionConflict
from artelier.ids import MAIN_SPACE, OPERATOR
from artelier.kernel import RunCore
from artelier.kernel.run_limits import cap_changed, count_also, plan_cap
from artelier.kernel.tenants.registry import TenantScope
from artelier.log import Batch, StreamAppend
from artelier.missions.definition import template
from artelier.missions.task.readings import SeenTool
from artelier.money import format_usd, parse_usd
from artelier.ports.tool import ToolPort

SAFETY = ("open", "approve_high", "approve_medium", "read_only")
"""From the laxest to the strictest. `open` is as the tenant's policy says."""

APPROVE_RISK = {"approve_high": "high", "approve_medium": "medium", "read_only": "medium"}
"""Risk class from which on a person must approve, besides what the tenant's policy says."""

ITERATIONS = (1, 20)
DEPTH = (0, 5)
OUTPUT_BYTES = (1_000, 1_000_000)
"""Least and most of a slider."""

TOOLS_MAX = 500
NAME_CHARS_MAX = 200
LABEL_CHARS_MAX = 40
MISTAKES_MAX = 20
"""Of one steering that are named; the rest is counted."""

_BUDGET = re.compile(r"[0-9]{1,9}(\.[0-9]{1,6})?")

AXES = (("focused", "exploratory"), ("terse", "thorough"))

Axes = tuple[tuple[str, str], tuple[str, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Steering:
    """Checked content of a steering artifact. What a document leaves out has these defaults."""

    x: float = 0.5
    y: float = 0.5
    axes: Axes = AXES
    """Names of the two ends of x and of y."""
    budget: int | None = None
    """Micro-dollars; None for none of its own."""
    iterations: int = 5
    delegation_depth: int = 1
    safety: str = "open"
    output_bytes: int = 65_536
    tools: Mapping[str, bool] = field(default_factory=lambda: MappingProxyType({}))
    """Tools that were switched; one that is not named is on."""

    @classmethod
    def parse(cls, value: object) -> Steering:
        """Parse an artifact's JSON. Errors: `InvalidRequest` that names all mistakes with their paths."""
        reader = _SteeringReader()
        found = reader.steering(value)
        if reader.mistakes:
            told = reader.mistakes[:MISTAKES_MAX]
            left = len(reader.mistakes) - len(told)
            raise InvalidRequest(
                "this is no steering: " + "; ".join(told) + (f"; and {left} more" if left else ""),
                mistakes=tuple(told),
            )
        return cls(**found)

    def content(self) -> dict[str, Any]:
        """Return the JSON of an artifact: `parse` gives the same back."""
        return {
            "xy": {"x": self.x, "y": self.y},
            "axes": {"x": list(self.axes[0]), "y": list(self.axes[1])},
            "sliders": {
                "budget_usd": None if self.budget is None else format_usd(self.budget),
                "iterations": self.iterations,
                "delegation_depth": self.delegation_depth,
                "safety": self.safety,
                "output_bytes": self.output_bytes,
            },
            "tools": dict(sorted(self.tools.items())),
        }

    def why_off(self, tool: ToolPort) -> str | None:
        """Return why an agent may not use a tool; None if steering has nothing against it."""
        if self.tools.get(tool.name) is False:
            return "switched off by steering"
        if self.safety == "read_only" and tool.side_effect:
            return "it has side effects, and steering allows reading only"
        if self.safety == "read_only" and tool.risk == "high":
            return "it is of high risk, and steering allows reading only"
        return None


def effective(
    agent: Steering | None, membranes: Sequence[Steering] = (), changes: Mapping[str, Any] | None = None
) -> Steering:
    """Return what holds for an agent: the strictest of each limit, off where a tool is off anywhere.

    The agent's puck counts, else the mean of its membranes'. `changes` are those of a fork: `steering` stands
    in for the agent's. Errors: `InvalidRequest` if that is none.
    """
    changed = (changes or {}).get("steering")
    own = agent if changed is None else Steering.parse(changed)
    all_ = [*([] if own is None else [own]), *membranes]
    if not all_:
        return Steering()
    x = _mean([one.x for one in membranes]) if own is None else own.x
    y = _mean([one.y for one in membranes]) if own is None else own.y
    budgets = [one.budget for one in all_ if one.budget is not None]
    names = sorted({name for one in all_ for name in one.tools})
    return Steering(
        x=x,
        y=y,
        axes=AXES if own is None else own.axes,
        budget=min(budgets, default=None),
        iterations=min(one.iterations for one in all_),
        delegation_depth=min(one.delegation_depth for one in all_),
        safety=max((one.safety for one in all_), key=SAFETY.index),
        output_bytes=min(one.output_bytes for one in all_),
        tools={name: all(one.tools.get(name, True) for one in all_) for name in names},
    )


def apply(core: RunCore, steering: Steering) -> None:
    """Have a run's kernel keep to a steering from its next step on, in place of what it kept to before."""
    off = {name: steering.why_off(tool) for name, tool in core.tools.items()}
    core.barred = {name: why for name, why in off.items() if why is not None}
    core.approve_risk = APPROVE_RISK.get(steering.safety)
    core.risk_max = "medium" if steering.safety == "read_only" else None
    core.depth_max = steering.delegation_depth
    core.result_bytes_max = min(core.policy.result_bytes_max, steering.output_bytes)


def _mean(values: Sequence[float]) -> float:
    return round(math.fsum(values) / len(values), 6)


class _SteeringReader:
    """Reads a document and collects what is wrong with it."""

    def __init__(self) -> None:
        self.mistakes: list[str] = []

    def steering(self, value: object) -> dict[str, Any]:
        found: dict[str, Any] = {}
        whole = self._object("", value, ("xy", "axes", "sliders", "tools"))
        puck = self._object("/xy", whole.get("xy", {}), ("x", "y"))
        for name in puck:
            found[name] = self._place(f"/xy/{name}", puck[name])
        if "axes" in whole:
            found["axes"] = self._axes(whole["axes"])
        found |= self._sliders(whole.get("sliders", {}))
        found["tools"] = self._tools(whole.get("tools", {}))
        return found

    def _wrong(self, path: str, expected: str, got: object) -> None:
        self.mistakes.append(f"{path or '/'} takes {expected}, not {_format_value(got)}")

    def _object(self, path: str, value: object, names: Collection[str]) -> dict[str, Any]:
        """The known keys of an object."""
        if not isinstance(value, Mapping):
            self._wrong(path, "an object", value)
            return {}
        given = cast(Mapping[object, Any], value)
        for strange in [key for key in given if key not in names]:
            self.mistakes.append(f"{path or '/'} has no {_format_value(strange)}, only {', '.join(names)}")
        return {str(key): given[key] for key in given if key in names}

    def _place(self, path: str, value: object) -> float:
        fits = isinstance(value, int | float) and not isinstance(value, bool)
        if fits and 0 <= cast(float, value) <= 1:  # so no NaN either
            return float(cast(float, value))
        self._wrong(path, "a number from 0 to 1", value)
        return 0.5

    def _axes(self, value: object) -> Axes:
        given = self._object("/axes", value, ("x", "y"))
        return (self._ends("x", given, AXES[0]), self._ends("y", given, AXES[1]))

    def _ends(self, axis: str, given: Mapping[str, Any], default: tuple[str, str]) -> tuple[str, str]:
        ends: Any = given.get(axis, default)
        if isinstance(ends, list | tuple):
            ends = tuple(cast("list[Any]", ends))
            if len(ends) == 2 and all(_is_label(name, LABEL_CHARS_MAX) for name in ends):
                return (ends[0], ends[1])
        self._wrong(f"/axes/{axis}", f"two names of 1-{LABEL_CHARS_MAX} characters", ends)
        return default

    def _sliders(self, value: object) -> dict[str, Any]:
        names = ("budget_usd", "iterations", "delegation_depth", "safety", "output_bytes")
        given = self._object("/sliders", value, names)
        found: dict[str, Any] = {}
        for name, (least, most) in (
            ("iterations", ITERATIONS),
            ("delegation_depth", DEPTH),
            ("output_bytes", OUTPUT_BYTES),
        ):
            if name in given:
                number = given[name]
                if type(number) is int and least <= number <= most:
                    found[name] = number
                else:
                    self._wrong(f"/sliders/{name}", f"a number from {least:,} to {most:,}", number)
        if "safety" in given:
            found["safety"] = given["safety"]
            if given["safety"] not in SAFETY:
                self._wrong("/sliders/safety", "one of " + ", ".join(SAFETY), given["safety"])
        budget = given.get("budget_usd")
        if isinstance(budget, str) and _BUDGET.fullmatch(budget):
            found["budget"] = parse_usd(budget)
        elif budget is not None:
            self._wrong("/sliders/budget_usd", 'dollars as text such as "0.60", or null', budget)
        return found

    def _tools(self, value: object) -> Mapping[str, bool]:
        if not isinstance(value, Mapping):
            self._wrong("/tools", "an object of names and true or false", value)
            return {}
        given = cast(Mapping[object, Any], value)
        if len(given) > TOOLS_MAX:
            self._wrong("/tools", f"at most {TOOLS_MAX} names", len(given))
            return {}
        for name, is_on in given.items():
            if not _is_label(name, NAME_CHARS_MAX):
                self._wrong("/tools", f"names of 1-{NAME_CHARS_MAX} printable characters", name)
            elif not isinstance(is_on, bool):
                self._wrong(f"/tools/{cast(str, name)[:40]}", "true or false", is_on)
        return MappingProxyType(dict(cast("Mapping[str, bool]", given)))


def _format_value(value: object) -> str:
    try:
        return repr(value)[:60]
    except (ValueError, RecursionError):  # a number of thousands of digits, lists without an end
        return type(value).__name__


def _is_label(value: object, chars_max: int) -> bool:
    return isinstance(value, str) and 1 <= len(value) <= chars_max and value.isprintable()


OUTPUT_BYTES_STANDARD = 65_536
OUTPUT_TOKENS_MIN = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Guidance:
    """Steering as one iteration goes by it. Without any, nothing is asked for beyond the task."""

    text: str = ""
    temperature: float | None = None
    iterations: int | None = None
    """At most; None is what the task says."""
    delegation_depth: int = 0
    output_bytes: int = OUTPUT_BYTES_STANDARD
    breadth: int | None = None
    """Tools that are listed at most; None is all that are on."""
    refs: tuple[str, ...] = ()
    """Of the steering artifacts, with their versions."""

    def iterations_for(self, asked: int, *, begun_with: int) -> int:
        """Return how many iterations a task may have that asks for `asked`, and began with `begun_with`.

        Steering that nobody has changed since it was made for the task yields to a limit that a person has
        raised since; any other is a limit of its own.
        """
        if self.iterations is None:
            return asked
        is_unchanged = all(ref.endswith("@1") for ref in self.refs) and self.iterations >= begun_with
        return asked if is_unchanged and asked > begun_with else min(asked, self.iterations)

    def policy(self, *, iterations: int) -> str:
        """Return the policy for the prompt: the wishes, and the limits in words."""
        limits = template("limits-1").format(iterations=iterations, output_bytes=self.output_bytes)
        return f"{self.text}\n\n{limits}".strip()

    def output_tokens(self, most: int) -> int:
        """Return the output tokens for content: enough for its allowed bytes, at three bytes a token."""
        return min(most, max(OUTPUT_TOKENS_MIN, self.output_bytes // 3))


def select_tools(
    tools: Sequence[SeenTool], *, breadth: int | None, first: Sequence[str], words: str
) -> list[SeenTool]:
    """Return which of the tools that are on stand in the prompt, in the order that they came in.

    `first` are those that the agent was planned with or has used; `words` are the task's.
    """
    if breadth is None or len(tools) <= breadth:
        return list(tools)
    said = words.casefold()

    def rank(index: int) -> tuple[int, int]:
        name = tools[index].name
        return (0 if name in first else 1 if name.casefold() in said else 2), index

    chosen = sorted(sorted(range(len(tools)), key=rank)[: max(1, breadth)])
    return [tools[index] for index in chosen]


LEVELS = 5
"""Steps of an axis: the puck at 0.5 stands on the middle one."""

TEMPERATURES = (0.0, 0.2, 0.4, 0.7, 1.0)
ALTERNATIVES = (1, 1, 2, 3, 4)
BREADTHS: tuple[int | None, ...] = (2, 4, 8, 16, None)
SOURCES = (1, 1, 2, 3, 4)
WORDS = (80, 150, 300, 600, 1_200)
"""By level. Guesses, to be measured with models; what counts is that each level asks for more."""

WORDING = "steering-1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bias:
    """Policy for one agent."""

    text: str
    """As it stands in prompts."""
    temperature: float
    alternatives: int
    """Actions to weigh before one is chosen."""
    breadth: int | None
    """Tools that are listed at most; None for all that are on."""
    sources_min: int
    words_target: int


def level(value: float) -> int:
    """The step of an axis that a number from 0 to 1 stands on, from 0."""
    return min(LEVELS - 1, int(value * (LEVELS - 1) + 0.5))


def bias(steering: Steering) -> Bias:
    """The policy that a steering asks for."""
    x, y = level(steering.x), level(steering.y)
    says = _wording()
    texts = [
        says[f"x{x}"].format(alternatives=ALTERNATIVES[x]),
        says[f"y{y}"].format(words=f"{WORDS[y]:,}", sources=SOURCES[y]),
    ]
    if steering.safety in says:
        texts.append(says[steering.safety])
    return Bias(
        text="\n\n".join(texts),
        temperature=TEMPERATURES[x],
        alternatives=ALTERNATIVES[x],
        breadth=BREADTHS[x],
        sources_min=SOURCES[y],
        words_target=WORDS[y],
    )


@lru_cache(maxsize=1)
def _wording() -> dict[str, str]:
    """The texts of the template by their headings; the lines of a paragraph are joined."""
    parts = re.split(r"^# (\w+)$", template(WORDING), flags=re.MULTILINE)[1:]
    return {name: " ".join(text.split()) for name, text in zip(parts[::2], parts[1::2], strict=True)}


class SteeringVersion(msgspec.Struct, frozen=True, array_like=True):
    """A version of steering: a pair in stored readings."""

    ref: str
    content: Any
    """As it is stored; `Steering.parse` reads it."""


class SteeringReading(msgspec.Struct, frozen=True, kw_only=True):
    """The steering of an agent and of its membranes at one moment, as a task journals it."""

    agent: SteeringVersion | None = None
    membranes: tuple[SteeringVersion, ...] = ()
    counters: tuple[tuple[str, str], ...] | msgspec.UnsetType = msgspec.UNSET
    """The (scope, unit) pairs in which the agent counts for membranes that it joined since its run began;
    given only if there are any."""


def guidance_of(reading: SteeringReading, core: RunCore) -> Guidance:
    """Steering as it was read, with what a fork has changed; from now on the run's core keeps to it, and
    counts in the membranes that its agent has joined.

    Without any, nothing is asked for beyond the task, and nothing is off.
    Errors: `InvalidRequest` if what a fork changes is no steering.
    """
    count_also(core, reading.counters or ())
    steering = steering_of(reading, core.changes)
    if steering is not None:
        room = core.result_bytes_max
        apply(core, steering)
        core.result_bytes_max = min(room, core.result_bytes_max)
    return guidance(reading, steering)


def steering_of(reading: SteeringReading, changes: Mapping[str, Any]) -> Steering | None:
    """Return what a reading comes to; None if nobody has steered. Errors: as of `guidance_of`."""
    own, shared = reading.agent, reading.membranes
    if own is None and not shared and changes.get("steering") is None:
        return None
    return effective(
        None if own is None else Steering.parse(own.content),
        [Steering.parse(one.content) for one in shared],
        changes,
    )


def guidance(reading: SteeringReading, steering: Steering | None) -> Guidance:
    """A steering as an iteration goes by it."""
    if steering is None:
        return Guidance()
    own, shared = reading.agent, reading.membranes
    policy = bias(steering)
    return Guidance(
        text=policy.text,
        temperature=policy.temperature,
        iterations=steering.iterations,
        delegation_depth=steering.delegation_depth,
        output_bytes=steering.output_bytes,
        breadth=policy.breadth,
        refs=tuple(one.ref for one in [*([] if own is None else [own]), *shared]),
    )


SUFFIX = "/steering"
KINDS = ("agent", "membrane")

ATTEMPTS_MAX = 5
"""Changes by others that a change without an expected version waits out."""

DEPTH_MAX = 8
"""Of a patch: steering itself has three levels."""


class StoredSteering(NamedTuple):
    """Steering as it stands."""

    about: str
    """The agent or membrane."""
    kind: str
    version: int
    """0: nobody has steered yet."""
    steering: Steering

    @property
    def id(self) -> str:
        return self.about + SUFFIX


@dataclass(frozen=True, slots=True, kw_only=True)
class SteeringView:
    """Steering of an agent or membrane, with what it comes to."""

    about: str
    """The agent or membrane."""
    version: int
    """0: nobody has steered yet."""
    steering: Steering
    in_force: Steering
    """As it comes out with the membranes of an agent."""

    @property
    def id(self) -> str:
        return self.about + SUFFIX

    @property
    def policy(self) -> Bias:
        """The wish that its puck stands for."""
        return bias(self.steering)


class SteeringStore:
    """Looking at steering and changing it. `desk` is the kernel bound to the tenant."""

    def __init__(self, desk: TenantScope) -> None:
        self._desk = desk

    async def show(self, id: str) -> SteeringView:
        """Steering of an agent or membrane, by its id or that of its steering.

        Errors: `NotFound`; `InvalidRequest` if it is about something else, or no steering.
        """
        return await self._describe(await self._read_stored(id))

    async def change(
        self, id: str, patch: Mapping[str, Any], *, by: str, expected_version: int | None = None
    ) -> SteeringView:
        """Write a new version with what the patch says (JSON merge patch: null puts a default back).

        It is in force from the next step on, in every process. A changed budget is the cap of the scope
        `agent:<id>` or `membrane:<id>` from the same instant on. Returns what `show` does.
        Errors: `InvalidRequest` naming all mistakes; `VersionConflict`; `NotFound`.
        """
        if not isinstance(cast(object, patch), Mapping):
            raise InvalidRequest("a patch is an object", got=type(patch).__name__)
        for _ in range(ATTEMPTS_MAX):
            kept = await self._read_stored(id)
            if expected_version is not None and expected_version != kept.version:
                raise VersionConflict(
                    f"{kept.id} was changed by somebody else",
                    expected=f"version {expected_version}",
                    got=f"version {kept.version}",
                    hint="Look at it again, then change it.",
                )
            changed = Steering.parse(_merge_patch(kept.steering.content(), patch))
            try:
                await self._write(kept, changed, by=by)
            except (SequenceConflict, VersionConflict):
                continue
            return await self.show(id)
        raise VersionConflict(
            f"{id}{SUFFIX} is changed by others all the time", hint="Try again in a moment."
        )

    async def _write(self, kept: StoredSteering, changed: Steering, *, by: str) -> None:
        """The new version and the cap that it sets, as one batch."""
        desk, services = self._desk, self._desk.services
        readers = [kept.about if kept.kind == "agent" else f"membrane:{kept.about}"]
        append, blobs, _ = await self._artifacts.by(by).plan_write(
            kept.id,
            kind="steering",
            content=changed.content(),
            expected_version=kept.version,
            access=None if kept.version else {"allow": {"read": readers}},
        )
        appends: list[StreamAppend] = [append]
        scope = f"{kept.kind}:{kept.about}"
        is_capped = changed.budget != kept.steering.budget
        if is_capped:
            cap = changed.budget
            appends.append(await plan_cap(services, desk.id, scope, unit="usd", cap=cap, by=by))
        await services.store.append(Batch(appends=appends, blobs=blobs))
        if is_capped:
            cap_changed(services, desk.id, scope)

    @property
    def _artifacts(self) -> Artifacts:
        return self._desk.as_principal(OPERATOR).artifacts

    async def _read_stored(self, id: str) -> StoredSteering:
        about = id.removesuffix(SUFFIX)
        subject = await self._artifacts.read(about)
        if subject.kind not in KINDS:
            raise InvalidRequest(f"{about} cannot be steered", expected=" or ".join(KINDS), got=subject.kind)
        artifact = await steering_at(self._desk, about + SUFFIX)
        if artifact is None:
            return StoredSteering(about, subject.kind, 0, Steering())
        return StoredSteering(about, subject.kind, artifact.version, Steering.parse(artifact.content))

    async def _describe(self, kept: StoredSteering) -> SteeringView:
        holds = kept.steering
        if kept.kind == "agent":
            holds = effective(kept.steering, await self._of_membranes(kept.about))
        return SteeringView(about=kept.about, version=kept.version, steering=kept.steering, in_force=holds)

    async def _of_membranes(self, agent: str) -> list[Steering]:
        found: list[Steering] = []
        for group in await self._artifacts.groups_of(agent):
            artifact = await steering_at(self._desk, group + SUFFIX)
            if artifact is not None:
                found.append(Steering.parse(artifact.content))
        return found


async def steering_at(desk: TenantScope, id: str) -> Artifact | None:
    """The newest steering under an id; None only where nobody has ever steered.

    Errors: `Conflict` for one that was deleted: its limits are unknown, and none would be laxer than them.
    """
    try:
        return await desk.as_principal(OPERATOR).artifacts.read(id)
    except NotFound:
        if await find_kind(desk.services.store, desk.id, MAIN_SPACE, id) is None:
            return None
    about = id.removesuffix(SUFFIX)
    raise Conflict(
        f"{id} was deleted: {about} may do nothing",
        expected="steering that can be read",
        got="none",
        hint=f"Go on with an agent of another id; from a membrane, let its members leave {about}.",
    )


def _merge_patch(document: object, patch: object, depth: int = 0) -> object:
    """A JSON merge patch (RFC 7396). Errors: `InvalidRequest` for one that is too deep."""
    if not isinstance(patch, Mapping):
        return patch
    if depth > DEPTH_MAX:
        raise InvalidRequest("a patch is too deep", expected=f"at most {DEPTH_MAX} levels")
    merged = dict(cast("dict[Any, Any]", document)) if isinstance(document, Mapping) else {}
    for name, value in cast("Mapping[Any, Any]", patch).items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = _merge_patch(merged.get(name), value, depth + 1)
    return merged
