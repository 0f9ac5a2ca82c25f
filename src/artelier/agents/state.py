"""The state of the autonomous loop: all that a resume needs, of the same size at any age."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from artelier.errors import CorruptStore

STUCK_AFTER = 3
"""Equal calls with equal results in a row that end a run: two may be chance, three are a loop."""


class AgentState(msgspec.Struct, frozen=True, kw_only=True):
    """Where the loop stands after a cycle."""

    cycle: int = 0
    """Cycles completed."""
    messages: int = 0
    """Messages in the conversation."""
    repairs: int = 0
    """Repair turns in a row."""
    repeated: int = 0
    """How often in a row the same calls gave the same results."""
    seen: str = ""
    """Digest of the last calls and results."""
    status: str = "running"
    """`running`, `completed` or `failed`."""
    reason: str = ""

    def stored(self) -> dict[str, Any]:
        return msgspec.to_builtins(self)

    @classmethod
    def restored(cls, state: Mapping[str, Any] | None) -> AgentState:
        """Errors: `CorruptStore` if the stored state is not one of this loop."""
        if state is None:
            return cls()
        try:
            return msgspec.convert(dict(state), cls)
        except msgspec.ValidationError as error:
            raise CorruptStore(f"the stored state of an agent cannot be read: {error}") from None
