"""The decisions of one wave of agents, side by side: reflexes first, then prompts, then models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from artelier.artifacts import Ref
from artelier.artifacts.events import ArtifactCharged
from artelier.errors import InvalidRequest
from artelier.world.actions import Noop, Rejected
from artelier.world.agent import AgentSpec, WorldAgentRow, is_agents_own
from artelier.world.deciders import Cast, allows, not_allowed
from artelier.world.events import ReflexFell
from artelier.world.mind.billed_reads import BilledReader, position
from artelier.world.mind.model_calls import all_of, answer, pay_alone, thought_of
from artelier.world.mind.prompt_builder import ModelRequestDraft, build_request
from artelier.world.mind_artifacts import (
    Reading,
    ReflexJob,
    ReflexOutcome,
    facts_of,
    run_reflexes,
    with_position,
)
from artelier.world.tick.agent_facts import Purse, Sight, refused_calls
from artelier.world.tick.tick_context import DecisionNote, Scene, Thought

# --------------------------------------------------------------------------- reflex runner
# Reflexes of a world's agents: code that may act before any model is asked, for the price of reading it.
# A reflex that gives no action is an event, and the model is asked instead.


REFERENCE = "reflex_artifact_id"

AT_ONCE = 200
"""Agents whose facts are held in memory together."""


class _ReadyReflex(NamedTuple):
    """A reflex that was read, and what it will be given."""

    agent: str
    reading: Reading
    facts: dict[str, Any]
    wall: dict[str, str]


async def reflexes(
    scene: Scene, sight: Sight, rows: Sequence[WorldAgentRow], cast: Cast
) -> tuple[dict[str, Thought], dict[str, tuple[DecisionNote, ...]]]:
    """Thoughts of the agents whose reflex acted, and for the others what fell through.

    Agents without a reflex are in neither. What somebody else's reflex costs to read is durable and taken
    off before this returns. Cost: about half a millisecond of an agent, no model and no money.
    """
    return await _Reflexes(scene, sight, cast).of(rows)


class _Reflexes:
    def __init__(self, scene: Scene, sight: Sight, cast: Cast) -> None:
        self.scene = scene
        self.sight = sight
        self.cast = cast
        self.purse = Purse(scene)
        self.acted: dict[str, Thought] = {}
        self.fell: dict[str, tuple[DecisionNote, ...]] = {}
        self.charges: dict[str, list[ArtifactCharged]] = {}

    async def of(
        self, rows: Sequence[WorldAgentRow]
    ) -> tuple[dict[str, Thought], dict[str, tuple[DecisionNote, ...]]]:
        named: list[tuple[WorldAgentRow, AgentSpec]] = []
        for row in rows:
            spec = await self.cast.specs.of(self.scene, row.id)
            if spec.ref(REFERENCE) is not None:
                named.append((row, spec))
        for start in range(0, len(named), AT_ONCE):
            await self._some(named[start : start + AT_ONCE])
        await self._pay()
        return self.acted, self.fell

    async def _some(self, named: Sequence[tuple[WorldAgentRow, AgentSpec]]) -> None:
        scene = self.scene
        await self._preload(named)
        ready: list[_ReadyReflex] = []
        for row, spec in named:
            reader = BilledReader(scene, row.id, self.purse)
            reader.agreed = spec.agreed
            reading = await reader.read(spec.references[REFERENCE], action="read", why="reflex")
            if reader.charges:
                self.charges[row.id] = reader.charges
            if isinstance(reading, Reading):
                ready.append(_ReadyReflex(row.id, reading, await self.sight.facts(row), reader.wall))
            else:
                self._fall(row.id, reading, wall=reader.wall)
        scene.stage.forget_contents()
        if scene.interpreter is None:
            for one in ready:
                self._fall(one.agent, "unusable", "this world has no sandbox", wall=one.wall)
            return
        allowed = scene.config.actions
        jobs = [ReflexJob(one.reading.content, one.facts, allowed) for one in ready]
        for one, outcome in zip(ready, await run_reflexes(scene.interpreter, jobs), strict=True):
            self._take(one, outcome)

    async def _preload(self, named: Sequence[tuple[WorldAgentRow, AgentSpec]]) -> None:
        """Two queries for all, instead of three for each."""
        stage = self.scene.stage
        ids = [id_ for _, spec in named if (id_ := _id_of(spec.references[REFERENCE]))]
        await stage.preload(ids)
        standings = [await self.scene.working.standing(id_) for id_ in ids]
        codes = [one.at.content for one in standings if one is not None and one.at is not None]
        await stage.preload_contents([*codes, *(row.last_result for row, _ in named)])

    def _take(self, one: _ReadyReflex, outcome: ReflexOutcome) -> None:
        if outcome.action is None:
            self._fall(one.agent, outcome.why, outcome.detail, wall=one.wall)
            return
        self.acted[one.agent] = Thought(
            agent=one.agent,
            action=outcome.action,
            source="reflex",
            key=one.reading.ref,
            facts=_facts_for_transition(one.facts),
            wall=one.wall,
        )

    def _fall(self, agent: str, why: str, detail: str = "", *, wall: dict[str, str]) -> None:
        if not detail:
            self.fell[agent] = (DecisionNote(data=ReflexFell(agent=agent, why=why, wall=wall)),)
            return
        reason, blob = self.scene.keep(detail)
        fell = ReflexFell(agent=agent, why=why, reason=reason, wall=wall)
        self.fell[agent] = (DecisionNote(data=fell, blobs=(blob,)),)

    async def _pay(self) -> None:
        scene = self.scene
        await pay_alone(scene, self.charges, key=f"t{scene.tick}/reflex")
        if self.charges:
            paid = await scene.stage.read_paid()
            scene.take_paid(paid, agents=self.charges, steps=("reflex",))


def _id_of(ref: str) -> str:
    """The id that a ref names; empty for what is no ref of this world."""
    try:
        return Ref.parse(ref).id
    except InvalidRequest:
        return ""


def _facts_for_transition(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a transition may know, from what the reflex was given."""
    return facts_of(
        agent_id=facts["agent_id"],
        tick=facts["tick"],
        balance=facts["balance"],
        my_artifacts=facts["my_artifacts"],
        last_action=facts["last_action"],
    )


# --------------------------------------------------------------------------- decision


async def think(
    scene: Scene, sight: Sight, agents: Sequence[WorldAgentRow], cast: Cast
) -> dict[str, Thought]:
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
        else:
            thought = await _not_allowed(scene, row, cast)
        if thought is not None:
            placed = await _with_place(BilledReader(scene, row.id, purse), row, thought, cast)
            thoughts[row.id] = _with_notes(placed, fell)
    asking = [row for row in living if row.id not in thoughts]
    prompts = await _prompts(scene, sight, asking, cast, purse)
    for one in prompts:
        if one.instead is not None:
            thoughts[one.agent] = _with_notes(await _think_unasked(scene, one), fell)
    prompts = [one for one in prompts if one.instead is None]
    answers = await all_of(lambda one: answer(scene, cast.runs, one), prompts)
    return thoughts | {one.agent: _with_notes(one, fell) for one in answers}


async def _not_allowed(scene: Scene, row: WorldAgentRow, cast: Cast) -> Thought | None:
    """Return the rejection of an agent whose model the world does not allow; None for all others."""
    model = (await cast.specs.of(scene, row.id)).model
    if not model or allows(scene.config, model):
        return None
    action = Rejected(str(not_allowed(scene.config, model)))
    return Thought(agent=row.id, action=action, source="host", code="model_not_allowed")


async def _living(
    scene: Scene, agents: Sequence[WorldAgentRow]
) -> tuple[list[WorldAgentRow], dict[str, Thought]]:
    """The agents that have an artifact of their own to think with; the others do nothing."""
    living: list[WorldAgentRow] = []
    idle: dict[str, Thought] = {}
    for row in agents:
        if not is_agents_own(await scene.working.standing(row.id), row.id):
            idle[row.id] = Thought(agent=row.id, action=Noop(), source="host")
        else:
            living.append(row)
    return living, idle


async def _prompts(
    scene: Scene, sight: Sight, rows: Sequence[WorldAgentRow], cast: Cast, purse: Purse
) -> list[ModelRequestDraft]:
    """The prompt of each agent, no account of which pays more than it has.

    They are made side by side, each as if it alone cost something; where a contract makes one account pay
    for many, whoever comes later in the order of the tick and finds it empty has its prompt made again.
    """

    async def make(row: WorldAgentRow, shared: Purse | None = None) -> ModelRequestDraft:
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


async def _with_place(reader: BilledReader, row: WorldAgentRow, thought: Thought, cast: Cast) -> Thought:
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
