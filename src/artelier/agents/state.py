"""The state of the autonomous loop: all that a resume needs, of the same size at any age."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from artelier.context import Estimator
from artelier.errors import CorruptStore
from artelier.kernel.events import RunReopened
from artelier.log import BlobRef

STUCK_AFTER = 3
"""Equal calls with equal results in a row that end a run, unless it says otherwise: two may be chance, three
are a loop."""

SKILLS_MAX = 32
"""Skills loaded at once; the oldest makes room, and may be loaded again."""


class LoadedSkill(msgspec.Struct, frozen=True, array_like=True):
    """A skill that the model has loaded."""

    name: str
    tool: str
    """What `use_skill` of it calls; empty for instructions only."""
    value: BlobRef
    """What `load_skill` returned."""
    message: int
    """Number of the message that shows it."""


class AgentState(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The state of the loop after a cycle."""

    cycle: int = 0
    """Cycles completed."""
    messages: int = 0
    """Messages in the conversation."""
    shown: int = 1
    """Number of the first message that stands verbatim in the prompt."""
    summary: BlobRef | None = None
    """What stands for the messages before it."""
    trust: str = "trusted"
    """Of the summary."""
    compaction: str = ""
    """Key of the newest receipt that stands."""
    hold: int = 0
    """After an undo: no compaction for the sake of length before there are so many messages."""
    policy: BlobRef | None = None
    """Settings of the strategy that a person chose; else the run's own."""
    estimate: Estimator = Estimator()
    skills: tuple[LoadedSkill, ...] = ()
    reads: dict[str, BlobRef] = {}
    """Newest readings of what prompts depend on, by name."""
    passed: tuple[str, ...] = ()
    """Tools of the acceptance gates whose last call passed."""
    repairs: int = 0
    """Repair turns in a row."""
    repeated: int = 0
    """How often in a row the same calls gave the same results."""
    seen: str = ""
    """Digest of the last calls and results."""
    iterations_from: int = 0
    """The cycle behind which iterations are counted: a person had the run go on there."""
    raised: dict[str, int] = {}
    """Limits that a person has raised since the run began: `max_iterations`, `stuck_after`."""
    status: str = "running"
    """`running`, `completed` or `failed`."""
    reason: str = ""

    def to_stored(self) -> dict[str, Any]:
        return msgspec.to_builtins(self)

    @classmethod
    def from_stored(cls, state: Mapping[str, Any] | None) -> AgentState:
        """Errors: `CorruptStore` if the stored state is not one of this loop."""
        if state is None:
            return cls()
        try:
            return msgspec.convert(dict(state), cls)
        except msgspec.ValidationError as error:
            raise CorruptStore(f"the stored state of an agent cannot be read: {error}") from None

    def reopen(self, event: RunReopened) -> AgentState:
        """Return the state in which a failed run goes on: what the event resets begins anew."""
        state = self.replace(raised={**self.raised, **event.limits}) if event.limits else self
        if "max_iterations" in event.limits:
            state = state.replace(iterations_from=0)
        if "iterations" in event.resets:
            state = state.replace(iterations_from=self.cycle)
        if "repeated" in event.resets:
            state = state.replace(repeated=0, seen="")
        if "repairs" in event.resets:
            state = state.replace(repairs=0)
        if event.resets or event.limits:
            state = state.replace(status="running", reason="")
        return state

    def replace(self, **fields: Any) -> AgentState:
        return msgspec.structs.replace(self, **fields)
