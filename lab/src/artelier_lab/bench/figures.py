"""Figures, the bounds they must keep, and the small arithmetic of measuring."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The target of a figure. Exactly one bound is given."""

    at_most: float | None = None
    at_least: float | None = None

    def met(self, value: float) -> bool:
        if self.at_most is not None:
            return value <= self.at_most
        assert self.at_least is not None
        return value >= self.at_least

    def wire(self) -> dict[str, float]:
        if self.at_most is not None:
            return {"at_most": self.at_most}
        assert self.at_least is not None
        return {"at_least": self.at_least}


def judge(
    figures: Mapping[str, float], targets: Mapping[str, Target], *, unjudged: Sequence[str] = ()
) -> dict[str, dict[str, Any]]:
    """`{figure: {at_most | at_least, met}}`; `met` is None for figures measured at another size."""
    return {
        name: {**target.wire(), "met": None if name in unjudged else target.met(figures[name])}
        for name, target in targets.items()
        if name in figures
    }


def median(values: Sequence[float]) -> float:
    return float(statistics.median(values))


def rounded(value: float, digits: int = 4) -> float:
    """Round to significant digits: more of them would be noise."""
    return float(f"{value:.{digits}g}")
