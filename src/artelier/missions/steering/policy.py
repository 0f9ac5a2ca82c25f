"""The policy that a puck on the XY pad sets: constraints on the choice of actions, in words and parameters.

Pure: the same steering always gives the same policy. The words are in `templates/steering-1.md`; other words
are another file with another number.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from artelier.missions.shipped_texts import template
from artelier.missions.steering.document import Steering

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
