"""Reflexes of a world's agents: code that may act before any model is asked, for the price of reading it.

A reflex that gives no action is an event, and the model is asked instead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from artelier.artifacts import Ref
from artelier.artifacts.events import ArtifactCharged
from artelier.errors import InvalidRequest
from artelier.world.agent import AgentRow, AgentSpec
from artelier.world.events import ReflexFell
from artelier.world.mind.billed_reads import BilledReader
from artelier.world.mind.model_calls import pay_alone
from artelier.world.mind.spending_limit import Purse
from artelier.world.mind_artifacts import Reading, ReflexJob, ReflexOutcome, facts_of, run_reflexes
from artelier.world.tick.agent_decision import DecisionNote, Thought
from artelier.world.tick.agent_facts import Sight
from artelier.world.tick.deciders import Cast
from artelier.world.tick.tick_context import Scene

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
    scene: Scene, sight: Sight, rows: Sequence[AgentRow], cast: Cast
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
        self, rows: Sequence[AgentRow]
    ) -> tuple[dict[str, Thought], dict[str, tuple[DecisionNote, ...]]]:
        named: list[tuple[AgentRow, AgentSpec]] = []
        for row in rows:
            spec = await self.cast.specs.of(self.scene, row.id)
            if spec.ref(REFERENCE) is not None:
                named.append((row, spec))
        for start in range(0, len(named), AT_ONCE):
            await self._some(named[start : start + AT_ONCE])
        await self._pay()
        return self.acted, self.fell

    async def _some(self, named: Sequence[tuple[AgentRow, AgentSpec]]) -> None:
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

    async def _preload(self, named: Sequence[tuple[AgentRow, AgentSpec]]) -> None:
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
