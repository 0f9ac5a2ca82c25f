"""The decisions of one wave of agents, side by side: reflexes first, then prompts, then models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from artelier.world.actions import Noop, Rejected
from artelier.world.agent import AgentRow, is_agents_own
from artelier.world.mind.billed_reads import BilledReader
from artelier.world.mind.model_calls import all_of, answer, pay_alone, thought_of
from artelier.world.mind.prompt_builder import ModelRequestDraft, build_request
from artelier.world.mind.reflex_runner import reflexes
from artelier.world.mind.spending_limit import Purse
from artelier.world.mind.workflow_state import position
from artelier.world.mind_artifacts import with_position
from artelier.world.models import allows, not_allowed
from artelier.world.tick.agent_decision import DecisionNote, Thought
from artelier.world.tick.agent_facts import Sight
from artelier.world.tick.deciders import Cast
from artelier.world.tick.resource_limits import refused_calls
from artelier.world.tick.tick_context import Scene


async def think(scene: Scene, sight: Sight, agents: Sequence[AgentRow], cast: Cast) -> dict[str, Thought]:
    """Return what each agent wants. Shapes: `agents` have no rule agent of the host; each gets a thought.

    Errors: `Flow`, when a model cannot be asked before the host has done something.
    """
    living, thoughts = await _living(scene, agents)
    acted, fell = await reflexes(scene, sight, living, cast)
    purse = Purse(scene)
    rows = {row.id: row for row in living}
    for agent, thought in acted.items():
        thoughts[agent] = await _with_place(BilledReader(scene, agent, purse), rows[agent], thought, cast)
    refused = await refused_calls(scene)
    for row in living:
        if row.id in acted:
            continue
        if row.id in refused:
            action = Rejected(refused[row.id])
            thought = Thought(agent=row.id, action=action, source="host", code="limit_reached")
            placed = await _with_place(BilledReader(scene, row.id, purse), row, thought, cast)
            thoughts[row.id] = _with_notes(placed, fell)
        elif (rejected := await _not_allowed(scene, row, cast)) is not None:
            placed = await _with_place(BilledReader(scene, row.id, purse), row, rejected, cast)
            thoughts[row.id] = _with_notes(placed, fell)
    asking = [row for row in living if row.id not in thoughts]
    prompts = await _prompts(scene, sight, asking, cast, purse)
    for one in prompts:
        if one.instead is not None:
            thoughts[one.agent] = _with_notes(await _think_unasked(scene, one), fell)
    prompts = [one for one in prompts if one.instead is None]
    answers = await all_of(lambda one: answer(scene, cast.runs, one), prompts)
    return thoughts | {one.agent: _with_notes(one, fell) for one in answers}


async def _not_allowed(scene: Scene, row: AgentRow, cast: Cast) -> Thought | None:
    """Return the rejection of an agent whose model the world does not allow; None for all others."""
    model = (await cast.specs.of(scene, row.id)).model
    if not model or allows(scene.config, model):
        return None
    action = Rejected(str(not_allowed(scene.config, model)))
    return Thought(agent=row.id, action=action, source="host", code="model_not_allowed")


async def _living(scene: Scene, agents: Sequence[AgentRow]) -> tuple[list[AgentRow], dict[str, Thought]]:
    """The agents that have an artifact of their own to think with; the others do nothing."""
    living: list[AgentRow] = []
    idle: dict[str, Thought] = {}
    for row in agents:
        if not is_agents_own(await scene.working.standing(row.id), row.id):
            idle[row.id] = Thought(agent=row.id, action=Noop(), source="host")
        else:
            living.append(row)
    return living, idle


async def _prompts(
    scene: Scene, sight: Sight, rows: Sequence[AgentRow], cast: Cast, purse: Purse
) -> list[ModelRequestDraft]:
    """The prompt of each agent, no account of which pays more than it has.

    They are made side by side, each as if it alone cost something; where a contract makes one account pay
    for many, whoever comes later in the order of the tick and finds it empty has its prompt made again.
    """

    async def make(row: AgentRow, shared: Purse | None = None) -> ModelRequestDraft:
        reader = BilledReader(scene, row.id, shared or purse.copy())
        return await build_request(reader, sight, await cast.specs.of(scene, row.id), row)

    made: list[ModelRequestDraft] = []
    for row, first in zip(rows, await all_of(make, rows), strict=True):
        postings = [posting for charge in first.charges for posting in charge.postings]
        if purse.covers(postings):
            purse.take(postings)
            made.append(first)
        else:
            made.append(await make(row, purse))
    return made


async def _think_unasked(scene: Scene, wanted: ModelRequestDraft) -> Thought:
    """Return the thought of an agent whose workflow asks no model for an action, paid for what was read."""
    await pay_alone(scene, {wanted.agent: wanted.charges}, key=f"t{scene.tick}/workflow")
    assert wanted.instead is not None
    return thought_of(wanted, wanted.instead, source="workflow", code="code_failed")


async def _with_place(reader: BilledReader, row: AgentRow, thought: Thought, cast: Cast) -> Thought:
    """A thought that no model had, with its place in the workflow, so that this goes on."""
    if thought.workflow is not None:
        return thought
    scene = reader.scene
    at = await position(reader, await cast.specs.of(scene, row.id), row)
    await pay_alone(scene, {row.id: reader.charges}, key=f"t{scene.tick}/workflow")
    wall = {**thought.wall, **reader.wall}
    if at.workflow is None:
        return replace(thought, wall=wall)
    facts = with_position(thought.facts, at.workflow, at.state)
    return replace(
        thought,
        workflow=at.workflow,
        state=at.state,
        facts=facts,
        wall=wall,
        notes=(*thought.notes, *at.notes),
    )


def _with_notes(thought: Thought, fell: Mapping[str, tuple[DecisionNote, ...]]) -> Thought:
    return replace(thought, notes=(*fell.get(thought.agent, ()), *thought.notes))
