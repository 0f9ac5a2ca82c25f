"""The step from one state to the next, after the action's result is known: a pure function, and its event."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import msgspec

from artelier.artifacts.ref import safe_repr
from artelier.world.actions import NoObject, one_object
from artelier.world.mind_artifacts.prompt import BUILT_IN
from artelier.world.mind_artifacts.template import as_text, clip
from artelier.world.mind_artifacts.workflow import MindState, Workflow, WorkflowBranch, WorkflowStep

# --------------------------------------------------------------------------- prompt variables
# The facts for an agent's prompts, conditions and reflexes: one mapping of JSON data, by value.


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


def _short(value: object) -> object:
    if value is None or isinstance(value, bool | int | float):
        return value
    text = as_text(value)
    clipped = clip(text, limit_bytes=VALUE_BYTES_MAX)
    return clipped.text if clipped.is_cut else value


# --------------------------------------------------------------------------- transition


REASON_CHARS_MAX = 300


How = Literal["auto", "condition", "llm", "none", "state_gone", "begun"]


class Transition(msgspec.Struct, frozen=True, kw_only=True):
    """The transition of the state in one tick; data for an event."""

    origin: str
    to: str
    how: How
    """`none`: the state has no step or no way out; `state_gone`: the workflow was edited."""
    reason: str = ""
    """Of an LLM, or why a reply or a condition could not be used. Bounded; words of a model."""
    refused: bool = False
    """A transition was asked of a model, and its reply could not be used: the agent stays."""
    unknown_names: tuple[str, ...] = ()
    """Names in conditions that no fact has: each is reported as `condition.unknown_name`."""
    condition: str = ""
    """The one that held."""

    @property
    def is_move(self) -> bool:
        return self.origin != self.to


class TransitionAnswer(NamedTuple):
    """The model's reply to the question for a transition: its text, or the reason for having none."""

    text: str = ""
    failed: str = ""


class StateChoice(NamedTuple):
    """A state that a model chose."""

    state: str
    reason: str


class NoChoice(NamedTuple):
    """The reason why a reply chooses nothing."""

    reason: str


def parse_choice(text: str, *, states: Sequence[str]) -> StateChoice | NoChoice:
    """Return what a model's reply chooses: `{"next_state", "reason"?}`, plain, fenced or wrapped in prose.

    Cost: O(n); never raises, whatever the text.
    """
    if not text.strip():
        return NoChoice("the reply is empty")
    found = one_object(text)
    if isinstance(found, NoObject):
        return NoChoice(found.reason[:REASON_CHARS_MAX])
    state, reason = found.get("next_state"), found.get("reason")
    if not isinstance(state, str):
        return NoChoice("the reply names no `next_state`")
    if state not in states:
        return NoChoice(f"unknown state {safe_repr(state)}"[:REASON_CHARS_MAX])
    return StateChoice(state, reason[:REASON_CHARS_MAX] if isinstance(reason, str) else "")


def begin(workflow: Workflow, state: MindState | None) -> tuple[MindState, Transition | None]:
    """Return where a tick starts: the first time, or when the workflow lost the state, at `initial_state`."""
    first = workflow.initial_state
    if state is None:
        return MindState(state=first), Transition(origin="", to=first, how="begun")
    if state.state in workflow.states:
        return state, None
    moved = MindState(state=first, failure_count=state.failure_count)
    return moved, Transition(origin=state.state, to=first, how="state_gone")


def next_state(
    workflow: Workflow, state: MindState, facts: Mapping[str, Any], reply: TransitionAnswer | None = None
) -> tuple[MindState, Transition]:
    """The state for the next tick, chosen after the action, and the event that tells about it.

    Shapes: `facts` as of `prompt_variables.facts_of`, with the outcome of this tick's action under
    `last_action`;
    `reply` is what a model said, where `asks_model` holds. Its absence there counts as a failed reply.
    Never raises; whatever cannot be decided stays in the state.
    """
    if state.state not in workflow.states:
        moved, event = begin(workflow, state)
        assert event is not None, "a state that is gone always moves"
        failures = failures_after(state.failure_count, facts.get("last_action"))
        return msgspec.structs.replace(moved, failure_count=failures), event
    stayed = _stay(state, facts)
    event = _choose(workflow, stayed, _facts(workflow, stayed, facts), reply)
    if not event.is_move:
        return stayed, event
    return MindState(state=event.to, failure_count=stayed.failure_count), event


def _stay(state: MindState, facts: Mapping[str, Any]) -> MindState:
    return MindState(
        state=state.state,
        ticks_in_state=state.ticks_in_state + 1,
        failure_count=failures_after(state.failure_count, facts.get("last_action")),
    )


def _facts(workflow: Workflow, state: MindState, facts: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the facts of a transition: what was known before the action stands, whatever the action did."""
    placed = with_position(facts, workflow, state)
    return {**placed, **facts} if workflow.is_decided_before_action else placed


def asks_model(workflow: Workflow, state: MindState, facts: Mapping[str, Any] | None = None) -> bool:
    """Return whether the way out of this state is chosen by a model, with these facts."""
    return way_asked(workflow, state, facts or {}) is not None


def way_asked(workflow: Workflow, state: MindState, facts: Mapping[str, Any]) -> WorkflowBranch | None:
    """Return the way out by which a model is asked; None if nobody asks one."""
    if state.state not in workflow.states:
        return None
    known = _facts(workflow, _stay(state, facts), facts)
    return workflow.step(state.state).asking(known, strict=workflow.is_decided_before_action)


def failures_after(count: int, last_action: object) -> int:
    """Failures in a row, with the newest action counted; an action without an outcome changes nothing."""
    success: object = None
    if isinstance(last_action, Mapping):
        success = last_action.get("success")  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType] - compared by identity only
    if success is True:
        return 0
    return count + 1 if success is False else count


def _choose(
    workflow: Workflow, state: MindState, facts: Mapping[str, Any], reply: TransitionAnswer | None
) -> Transition:
    here, step = state.state, workflow.step(state.state)
    strict = workflow.is_decided_before_action
    asked = step.asking(facts, strict=strict)
    if step.mode == "condition" and asked is None:
        return _by_condition(step, facts, strict=strict)
    if step.mode == "auto":
        return Transition(origin=here, to=step.to or here, how="auto" if step.to else "none")
    if reply is None or reply.failed:
        why = reply.failed if reply is not None else "no model was asked"
        return _refuse(here, f"the reply failed: {why}")
    choice = parse_choice(reply.text, states=workflow.states)
    if isinstance(choice, NoChoice):
        return _refuse(here, choice.reason)
    needed = asked.allowed.get(choice.state) if asked is not None else None
    if needed and not any(one.check(facts, strict=strict).holds for one in needed):
        texts = " or ".join(one.text for one in needed)
        return _refuse(here, f"the state {choice.state} is not open now: {texts}")
    return Transition(origin=here, to=choice.state, how="llm", reason=choice.reason)


def _by_condition(step: WorkflowStep, facts: Mapping[str, Any], *, strict: bool) -> Transition:
    unknown: dict[str, None] = {}
    errors: list[str] = []
    for branch in step.branches:
        verdict = branch.condition.check(facts, strict=strict)
        unknown.update(dict.fromkeys(verdict.unknown))
        if verdict.error and not (strict and verdict.unknown):  # those are an event already
            errors.append(f"{branch.condition.text[:80]}: {verdict.error}")
        if verdict.holds:
            return Transition(
                origin=step.state,
                to=branch.to,
                how="condition",
                unknown_names=tuple(unknown),
                condition=branch.condition.text,
                reason="; ".join(errors)[:REASON_CHARS_MAX],
            )
    return Transition(
        origin=step.state,
        to=step.state,
        how="condition",
        unknown_names=tuple(unknown),
        reason="; ".join(errors)[:REASON_CHARS_MAX],
    )


def _refuse(here: str, reason: str) -> Transition:
    return Transition(origin=here, to=here, how="llm", reason=reason[:REASON_CHARS_MAX], refused=True)
