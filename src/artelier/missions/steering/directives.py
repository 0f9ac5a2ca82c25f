"""The guidance that steering gives one iteration: policy in words, model parameters, kernel bounds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from artelier.missions.shipped_texts import template

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
