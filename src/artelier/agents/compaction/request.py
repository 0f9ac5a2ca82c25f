"""The wishes of a person about a run's compactions; they reach the loop as a signal."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from artelier.context import CompactionStrategy
from artelier.errors import InvalidRequest

ASKED = "artelier.compaction"
"""Name of the signal: `{undo: bool, policy: {...} | null}`."""


def checked_wish(*, undo: bool, policy: CompactionStrategy | None) -> dict[str, Any]:
    """Return what to signal as `ASKED`. Errors: `InvalidRequest` if nothing is wished."""
    if not undo and policy is None:
        raise InvalidRequest("nothing to do", expected="undo, or another strategy")
    return {"undo": undo, "policy": None if policy is None else asdict(policy)}
