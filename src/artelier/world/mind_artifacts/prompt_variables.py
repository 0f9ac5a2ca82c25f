"""The facts for an agent's prompts, conditions and reflexes: one mapping of JSON data, by value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from artelier.world.mind_artifacts.prompt import BUILT_IN
from artelier.world.mind_artifacts.template import as_text
from artelier.world.mind_artifacts.truncation import clip

if TYPE_CHECKING:
    from artelier.world.mind_artifacts.workflow import MindState, Workflow

STUCK_TICKS = 5
"""Ticks in one state from which on an agent counts as stuck."""


VALUE_BYTES_MAX = 8_000
"""Of one value in a prompt: the result of an action can be a whole artifact."""


def facts_of(
    *,
    agent_id: str,
    tick: int,
    balance: int,
    my_artifacts: Sequence[str] = (),
    recent_memories: str = "none",
    last_action: Mapping[str, Any] | None = None,
    own: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The facts of one agent at one moment; `with_position` adds where it is in its workflow.

    Shapes: `last_action` is `{type, success, result}` with JSON data; `own` are the `facts` of the
    working memory. What an agent says of itself never hides what the world says of it.
    """
    last = {"type": None, "success": None, "result": None, **(last_action or {})}
    return {
        **(own or {}),
        "agent_id": agent_id,
        "tick": tick,
        "balance": balance,
        "my_artifacts": list(my_artifacts),
        "recent_memories": recent_memories,
        "last_action": last,
        "last_action_type": last["type"],
        "last_action_success": last["success"],
        "last_action_result": last["result"],
    }


def with_position(
    facts: Mapping[str, Any], workflow: Workflow | None, state: MindState | None
) -> dict[str, Any]:
    """The facts and the place in the workflow; without a workflow an agent has no state."""
    ticks = state.ticks_in_state if state else 0
    failures = state.failure_count if state else 0
    return {
        **facts,
        "current_state": state.state if state else None,
        "available_states": list(workflow.states) if workflow else [],
        "ticks_in_state": ticks,
        "failure_count": failures,
        "consecutive_failures": failures,
        "stuck": ticks >= STUCK_TICKS,
    }


def built_in(facts: Mapping[str, Any]) -> dict[str, Any]:
    """The values of the built-in variables of prompts, long ones cut to `VALUE_BYTES_MAX`."""
    return {name: _short(facts[name]) for name in BUILT_IN if name in facts}


def _short(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float):
        return value
    text = as_text(value)
    clipped = clip(text, limit_bytes=VALUE_BYTES_MAX)
    return clipped.text if clipped.is_cut else value
