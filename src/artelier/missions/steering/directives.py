"""The guidance that steering gives one iteration: policy in words, model parameters, kernel bounds."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, cast

from artelier.kernel import RunCore
from artelier.kernel.run_limits import count_also
from artelier.missions.definition import template
from artelier.missions.steering.document import Steering, apply, effective

OUTPUT_BYTES = 65_536
OUTPUT_TOKENS_MIN = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Guidance:
    """Steering as one iteration goes by it. Without any, nothing is asked for beyond the task."""

    text: str = ""
    temperature: float | None = None
    iterations: int | None = None
    """At most; None is what the task says."""
    delegation_depth: int = 0
    output_bytes: int = OUTPUT_BYTES
    breadth: int | None = None
    """Tools that are listed at most; None is all that are on."""
    refs: tuple[str, ...] = ()
    """Of the steering artifacts, with their versions."""

    def policy(self, *, iterations: int) -> str:
        """Return the policy for the prompt: the wishes, and the limits in words."""
        limits = template("limits-1").format(iterations=iterations, output_bytes=self.output_bytes)
        return f"{self.text}\n\n{limits}".strip()

    def output_tokens(self, most: int) -> int:
        """Return the output tokens for content: enough for its allowed bytes, at three bytes a token."""
        return min(most, max(OUTPUT_TOKENS_MIN, self.output_bytes // 3))


def select_tools(
    tools: Sequence[Mapping[str, Any]], *, breadth: int | None, first: Sequence[str], words: str
) -> list[Mapping[str, Any]]:
    """Return which of the tools that are on stand in the prompt, in the order that they came in.

    `first` are those that the agent was planned with or has used; `words` are the task's.
    """
    if breadth is None or len(tools) <= breadth:
        return list(tools)
    said = words.casefold()

    def rank(index: int) -> tuple[int, int]:
        name = str(tools[index]["name"])
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
    """For the prompt."""
    temperature: float
    alternatives: int
    """Actions to weigh before one is chosen."""
    breadth: int | None
    """Tools that are listed at most, those first that the task names or that were used; None for all."""
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


def guidance_of(reading: Any, core: RunCore) -> Guidance:
    """Steering as it was read, with what a fork has changed; from now on the run's core keeps to it, and
    counts in the membranes that its agent has joined.

    Without any, nothing is asked for beyond the task, and nothing is off.
    Errors: `InvalidRequest` if what a fork changes is no steering.
    """
    count_also(core, joined_scopes(reading))
    steering = steering_of(reading, core.changes)
    if steering is not None:
        room = core.result_bytes_max
        apply(core, steering)
        core.result_bytes_max = min(room, core.result_bytes_max)
    return guidance(reading, steering)


def joined_scopes(reading: Any) -> list[tuple[str, str]]:
    """The (scope, unit) pairs in which an agent counts for membranes that it joined since its run began."""
    found: list[list[str]] = cast("dict[str, Any]", reading or {}).get("counters") or []
    return [(scope, unit) for scope, unit in found]


def steering_of(reading: Any, changes: Mapping[str, Any]) -> Steering | None:
    """Return what a reading comes to; None if nobody has steered. Errors: as of `guidance_of`."""
    own, shared = _read(reading)
    if own is None and not shared and changes.get("steering") is None:
        return None
    return effective(
        None if own is None else Steering.parse(own[1]),
        [Steering.parse(content) for _, content in shared],
        changes,
    )


def guidance(reading: Any, steering: Steering | None) -> Guidance:
    """A steering as an iteration goes by it."""
    if steering is None:
        return Guidance()
    own, shared = _read(reading)
    policy = bias(steering)
    return Guidance(
        text=policy.text,
        temperature=policy.temperature,
        iterations=steering.iterations,
        delegation_depth=steering.delegation_depth,
        output_bytes=steering.output_bytes,
        breadth=policy.breadth,
        refs=tuple(str(ref) for ref, _ in [*([] if own is None else [own]), *shared]),
    )


def _read(reading: Any) -> tuple[list[Any] | None, list[list[Any]]]:
    found = cast("dict[str, Any]", reading or {})
    return found.get("agent"), found.get("membranes") or []
