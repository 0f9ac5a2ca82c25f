"""The transitions of workflows after the actions of a tick: unconditional, by condition, or by a model.

The state is chosen when the result of the action is known, and holds from the next tick on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec

from artelier.artifacts import Act
from artelier.artifacts.events import ArtifactCharged
from artelier.context import Section, Source, assemble
from artelier.errors import (
    ContextTooLong,
    CorruptStore,
    Flow,
    MissingKey,
    NotFound,
    Refused,
    RunEnded,
    UnknownModel,
)
from artelier.kernel import Prompt
from artelier.log import BlobRef
from artelier.world.actions import Rejected
from artelier.world.agent import AgentSpec
from artelier.world.deciders import Cast
from artelier.world.events import ActionRejected, AgentMoved, UnknownName
from artelier.world.kernel_adapter import Runs
from artelier.world.mind import prompt_sections
from artelier.world.mind.billed_reads import BilledReader, invoice
from artelier.world.mind.model_calls import REASON_CHARS_MAX, all_of, ask_within
from artelier.world.mind.prompt_sections import template
from artelier.world.mind_artifacts import (
    MindState,
    Reading,
    Transition,
    TransitionAnswer,
    Workflow,
    asks_model,
    built_in,
    facts_of,
    memory_facts,
    next_state,
    way_asked,
    with_position,
)
from artelier.world.tick.agent_facts import Purse, decode_result
from artelier.world.tick.tick_context import Scene, Thought

# --------------------------------------------------------------------------- transition call
# Asking a model where a workflow goes: its prompt, what that costs, and the reply or why there is none.


SHIPPED = "transition_base"


class TransitionRequest(NamedTuple):
    """A request that an agent is about to make; nothing of it is recorded or paid yet."""

    agent: str
    model: str
    sections: tuple[Section, ...]
    charges: list[ArtifactCharged]

    def prompt(self, budget_tokens: int) -> tuple[Prompt, list[ArtifactCharged]]:
        """The prompt within a window, and the charges for what is in it."""
        prompt = assemble(self.sections, budget_tokens=budget_tokens)
        is_out = any(one.tag == "transition" for one in prompt.dropped if one.why.startswith("over_"))
        charges = [] if is_out else self.charges
        return msgspec.structs.replace(prompt, prices=invoice(charges)), charges


class TransitionReply(NamedTuple):
    """The result of a request."""

    reply: TransitionAnswer
    step: str = ""
    """Key of the model step; empty if there was none."""
    tokens: int = 0


async def question(
    reader: BilledReader, spec: AgentSpec, ref: str | None, state: str, facts: Mapping[str, Any]
) -> TransitionRequest:
    """The prompt by which a state is left: the one that the workflow names, else the shipped one.

    Shapes: `facts` with the place in the workflow, and with the outcome of the action.
    """
    reading = None
    reader.agreed = spec.agreed
    if ref is not None:
        reading = await reader.read(ref, why="transition", adopted=True)
    values = _values(facts)
    said = prompt_sections.say(values, reading, shipped=SHIPPED)
    sections = [
        Section(tag="rules", text=template("rules-1").render({}), pinned=True, sources=("world",)),
        *prompt_sections.left_out("transition", said.skipped),
        Section(
            tag="transition",
            text=said.text,
            role="user",
            priority=90,
            sources=(Source(ref=said.source, why=f"leaving state {state}"),),
        ),
    ]
    if "available_states" not in said.uses:
        # Whoever writes such a prompt may not know how it is to be answered.
        text = template("choice-1").render(values)
        sections.append(Section(tag="choice", text=text, role="user", pinned=True, sources=("world",)))
    return TransitionRequest(
        reader.agent, spec.model or reader.scene.config.model, tuple(sections), reader.charges
    )


async def choose(scene: Scene, runs: Runs, asked: TransitionRequest) -> TransitionReply:
    """Ask, once; a call that fails for good is a reply that says why.

    Errors: `Flow` when the host has to do something: give money, resume the run.
    """
    key = f"t{scene.tick}/transition"
    try:
        text, tokens = await ask_within(scene, runs, asked.agent, asked.model, asked.prompt, key=key)
        return TransitionReply(TransitionAnswer(text=text), key, tokens)
    except (Refused, RunEnded, UnknownModel, MissingKey, ContextTooLong) as error:
        return TransitionReply(_failed_reply(error))  # not even asked: nothing is recorded or paid
    except Flow:
        raise
    except Exception as error:
        # As for actions: what the log has as the end of the step stands; all else is a fault of ours.
        if not await runs.has_failed(asked.agent, key):
            raise
        return TransitionReply(_failed_reply(error), key)


def _failed_reply(error: Exception) -> TransitionAnswer:
    return TransitionAnswer(failed=" ".join(str(error).split())[:REASON_CHARS_MAX])


def _values(facts: Mapping[str, Any]) -> dict[str, object]:
    """Return what the template may show; what others may have written is data even in the middle of it."""
    own = {name: prompt_sections.result_text(value) for name, value in facts.items()}
    memories = facts[prompt_sections.MEMORIES]
    result = prompt_sections.result_text(facts[prompt_sections.RESULT])
    return {**own, **built_in(facts), prompt_sections.RESULT: result, prompt_sections.MEMORIES: memories}


# --------------------------------------------------------------------------- workflow transitions


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


async def _result(scene: Scene, ref: BlobRef | None) -> object:
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
