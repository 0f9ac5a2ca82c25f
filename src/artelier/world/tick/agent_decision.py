"""The result of an agent's thinking: what it wants, and its position in the workflow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from artelier.log import Blob, EventData
from artelier.world.actions import Action, Rejected

if TYPE_CHECKING:
    from artelier.world.mind_artifacts import MindState, Workflow


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionNote:
    """An event about the thinking itself, and the blobs that it names."""

    data: EventData
    blobs: tuple[Blob, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Thought:
    """One agent's decision of one tick."""

    agent: str
    action: Action | Rejected
    source: str
    """`model`, `reflex`, `policy`, `workflow` where that asks no model, `host` for whom it keeps from it."""
    key: str = ""
    """Of the model step; `name@version` of a policy."""
    code: str = "invalid_action"
    """Why there is no action, if it is `Rejected`: such as `model_failed`, `limit_reached`."""
    tokens: int = 0
    """Of its model step, in and out."""
    notes: tuple[DecisionNote, ...] = ()
    """Stand before the action: a reflex that fell through, a workflow that began."""
    workflow: Workflow | None = None
    state: MindState | None = None
    wall: Mapping[str, str] = field(default_factory=dict[str, str])
    """Contracts that ended by the wall clock while it was made."""
    facts: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """What it knew; the transition adds what came of the action."""
    computed: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """What the code of its workflow has computed in this tick."""
