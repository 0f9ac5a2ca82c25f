"""The step cycle that every mode shares: what differs between modes is in `Parts`, never in the loop."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from artelier.kernel import ModelResult, Prompt

StateT = TypeVar("StateT")
ActionT = TypeVar("ActionT")


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome(Generic[ActionT]):
    """The outcome of an action. `value` is None for a reply that acts on nothing."""

    value: ActionT | None = None


Hook = Callable[[StateT], Awaitable[StateT]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts(Generic[StateT, ActionT]):
    """One mode of the cycle: each part is a function of the state, and journals what it does."""

    assemble: Callable[[StateT], Awaitable[Prompt]]
    model: Callable[[StateT, Prompt], Awaitable[ModelResult]]
    act: Callable[[StateT, ModelResult], Awaitable[Outcome[ActionT]]]
    transition: Callable[[StateT, ModelResult | None, Outcome[ActionT]], Awaitable[StateT]]
    commit: Callable[[StateT], None]
    reflex: Callable[[StateT], Awaitable[Outcome[ActionT] | None]] | None = None
    """May act before any model is asked; then the cycle asks none."""
    before: tuple[Hook[Any], ...] = field(default=())
    after: tuple[Hook[Any], ...] = field(default=())


async def cycle(state: StateT, parts: Parts[StateT, ActionT]) -> StateT:
    """One cycle: reflex, operations before, prompt, model, action, operations after, transition, commit.

    Errors: whatever a part raises; nothing of an unfinished cycle is committed as finished.
    """
    result: ModelResult | None = None
    outcome = await parts.reflex(state) if parts.reflex is not None else None
    if outcome is None:
        for hook in parts.before:
            state = await hook(state)
        prompt = await parts.assemble(state)
        result = await parts.model(state, prompt)
        outcome = await parts.act(state, result)
    for hook in parts.after:
        state = await hook(state)
    state = await parts.transition(state, result, outcome)
    parts.commit(state)
    return state
