"""The transitions of workflows after the actions of a tick: unconditional, by condition, or by a model.

The state is chosen when the result of the action is known, and holds from the next tick on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from artelier.artifacts import Act
from artelier.errors import CorruptStore, NotFound
from artelier.log import BlobRef
from artelier.world.actions import Rejected
from artelier.world.events import ActionRejected, AgentMoved, UnknownName
from artelier.world.mind.billed_reads import BilledReader
from artelier.world.mind.model_calls import all_of
from artelier.world.mind.spending_limit import Purse
from artelier.world.mind.transition_call import TransitionRequest, choose, question
from artelier.world.mind_artifacts import (
    MindState,
    Reading,
    Transition,
    Workflow,
    asks_model,
    facts_of,
    memory_facts,
    next_state,
    way_asked,
    with_position,
)
from artelier.world.tick.agent_decision import Thought
from artelier.world.tick.agent_facts import decode_result
from artelier.world.tick.deciders import Cast
from artelier.world.tick.tick_context import Scene

MEMORY = "working_memory_artifact_id"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Mover:
    """An agent that may leave its state."""

    thought: Thought
    workflow: Workflow
    state: MindState
    facts: Mapping[str, Any]
    """With what came of the action."""
    wall: dict[str, str]
    """Contracts that ended by the wall clock while it is decided where it goes."""

    @property
    def asks(self) -> bool:
        """True if a model chooses. A reflex asks none, nor does an agent that was kept from asking."""
        asks = asks_model(self.workflow, self.state, self.facts)
        return asks and self.thought.source in ("model", "workflow")


async def move(scene: Scene, thoughts: Sequence[Thought], cast: Cast, done: Mapping[str, bool]) -> None:
    """Move the workflow of each agent on, and write what became of it.

    Shapes: `thoughts` have a workflow and stand in the order of the tick; `done` says whose action was done.
    Errors: `Flow` when a model cannot be asked before the host has done something.
    """
    movers = await _movers(scene, thoughts, cast, done)
    purse = Purse(scene)
    asking: list[TransitionRequest] = []
    for one in movers:
        if one.asks:
            spec = await cast.specs.of(scene, one.thought.agent, at_start=True)
            way = way_asked(one.workflow, one.state, one.facts)
            ref = way.ask if way is not None else None
            reader = BilledReader(scene, one.thought.agent, purse)
            placed = with_position(one.facts, one.workflow, _position_seen(one))
            facts = {**placed, **one.thought.computed}
            asking.append(await question(reader, spec, ref, one.state.state, facts))
            one.wall.update(reader.wall)
    answers = dict(
        zip(
            (one.agent for one in asking),
            await all_of(lambda one: choose(scene, cast.runs, one), asking),
            strict=True,
        )
    )
    for one in movers:
        answer = answers.get(one.thought.agent)
        if answer is None and asks_model(one.workflow, one.state, one.facts):
            continue  # it stays, and nobody was asked
        _, moved = next_state(one.workflow, one.state, one.facts, answer.reply if answer else None)
        step, tokens = (answer.step, answer.tokens) if answer else ("", 0)
        await _write(scene, one, moved, step=step, tokens=tokens)


async def _write(scene: Scene, one: _Mover, moved: Transition, *, step: str, tokens: int) -> None:
    """The events of one transition. One that was asked of a model is always one: it has cost something."""
    agent = one.thought.agent
    if moved.unknown_names:
        unknown = UnknownName(agent=agent, state=moved.origin, names=moved.unknown_names)
        await scene.working.apply(unknown, actor=agent)
    if not (moved.is_move or moved.refused or step or moved.reason or one.wall):
        return
    event = AgentMoved(
        agent=agent,
        origin=moved.origin,
        to=moved.to,
        how=moved.how,
        refused=moved.refused,
        step=step,
        tokens=tokens,
        wall=one.wall,
    )
    if not moved.reason:
        await scene.working.apply(event, actor=agent)
        return
    reason, blob = scene.keep(moved.reason)
    event = msgspec.structs.replace(event, reason=reason)
    await scene.working.apply(event, actor=agent, blobs=(blob,))


def _position_seen(one: _Mover) -> MindState:
    """The place as the model is told: this tick counts, as it does for conditions."""
    failed = one.facts["last_action_success"] is False
    return msgspec.structs.replace(
        one.state,
        ticks_in_state=one.state.ticks_in_state + 1,
        failure_count=one.state.failure_count + 1 if failed else 0,
    )


# Facts after the action


async def _movers(
    scene: Scene, thoughts: Sequence[Thought], cast: Cast, done: Mapping[str, bool]
) -> list[_Mover]:
    acts = _acts(scene, {thought.agent for thought in thoughts})
    await scene.changed.catch_up()
    movers: list[_Mover] = []
    for thought in thoughts:
        workflow, state = thought.workflow, thought.state
        if workflow is None or state is None:
            continue
        if workflow.is_decided_before_action:
            if not isinstance(thought.action, Rejected):
                movers.append(_as_it_was(thought, workflow, state))
            continue
        agent, mode = thought.agent, workflow.step(state.state).mode
        own, wall = dict[str, Any](), dict[str, str]()
        if mode != "auto":
            own, wall = await _own_facts(scene, thought, cast)
        act = acts.get(agent)
        last = {
            "type": act.action if act else None,
            "success": done[agent],
            "result": await _result(scene, act.result if act else None),
        }
        facts = facts_of(
            agent_id=agent,
            tick=scene.tick,
            balance=scene.balance(agent),
            my_artifacts=scene.changed.owned_ids(agent),
            last_action=last,
            recent_memories=str(thought.facts.get("recent_memories", "none")),
            own={**own, **thought.computed},
        )
        movers.append(_Mover(thought=thought, workflow=workflow, state=state, facts=facts, wall=wall))
    return movers


def _as_it_was(thought: Thought, workflow: Workflow, state: MindState) -> _Mover:
    """Return a mover that decides on what was known before its action."""
    facts = {**thought.facts, **thought.computed}
    return _Mover(thought=thought, workflow=workflow, state=state, facts=facts, wall={})


def _acts(scene: Scene, agents: Iterable[str]) -> dict[str, Act]:
    """Return what each agent did, with what it sees of it: its newest event of this tick that has an act."""
    wanted, found = set(agents), dict[str, Act]()
    for change in reversed(scene.working.changes):  # those of this wave stand last
        if not wanted:
            break
        act: Act | None = getattr(change.data, "act", None)
        if act is None or change.actor not in wanted:
            continue
        if isinstance(change.data, ActionRejected):
            act = msgspec.structs.replace(act, result=change.data.reason)
        found[change.actor] = act
        wanted.discard(change.actor)
    return found


async def _result(scene: Scene, ref: BlobRef | None) -> Any:
    if ref is None:
        return None
    try:
        return decode_result(await scene.working.blob(ref))
    except (NotFound, CorruptStore):
        return None


async def _own_facts(scene: Scene, thought: Thought, cast: Cast) -> tuple[Mapping[str, Any], dict[str, str]]:
    """Return what the agent says of itself: as it is now, if that is its own or free; else as its prompt had
    it.

    And what ended by the wall clock while it was read.
    """
    spec = await cast.specs.of(scene, thought.agent, at_start=True)
    ref = spec.ref(MEMORY)
    if ref is None:
        return {}, {}
    # A purse of its own, of which nothing is spent: what costs something was paid for by the prompt.
    reader = BilledReader(scene, thought.agent)
    reading = await reader.read(ref, action="read", why="working_memory")
    if isinstance(reading, Reading) and not reader.charges:
        return memory_facts(reading.content), reader.wall
    is_gone = reading in ("missing", "deleted")
    return {} if is_gone else thought.facts, reader.wall
