"""One tick: every agent thinks, the actions are decided in a seeded order, one batch makes all of it durable.

The way of a tick: what agents know is read from the end of the tick before; rule agents and reflexes act on
it, the others ask their models, each in a run of its own; the actions are decided one after another over a
working state; workflows move on; then everything is appended to the world's stream at once. A crash before
that leaves the tick undone, and what models have answered is found again in their runs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from artelier.artifacts import account_of
from artelier.errors import Conflict, SequenceConflict
from artelier.ledger import Posting
from artelier.log import Batch, Draft, Store, StreamAppend
from artelier.money import SCRIP
from artelier.world import mind, mint
from artelier.world.actions import Action
from artelier.world.actions.effects import perform
from artelier.world.agent import WorldAgentRow
from artelier.world.deciders import Cast
from artelier.world.events import EventInjected, ShockApplied, TickPassed, world_stream
from artelier.world.tick.agent_facts import Sight, in_order
from artelier.world.tick.tick_context import Scene, Thought

# --------------------------------------------------------------------------- shocks
# Shocks: changes to a world from outside, at a tick that its settings name.


SOURCE = "source:world"
"""The account that issues what worlds begin with; what it owes is what it has issued."""


async def strike(scene: Scene) -> None:
    """Apply the shocks of this tick, before anybody acts."""
    for shock in scene.config.shocks:
        if shock.tick != scene.tick:
            continue
        agents = [agent for agent in dict.fromkeys(shock.to or scene.agents) if agent in scene.agents]
        postings: list[Posting] = []
        for agent in agents if shock.pay else ():
            account = account_of(agent)
            if shock.pay > 0:
                postings.append(Posting(SOURCE, account, SCRIP, shock.pay))
            elif taken := min(-shock.pay, scene.balance(agent)):
                postings.append(Posting(account, SOURCE, SCRIP, taken))
        if postings:
            await scene.working.apply(ShockApplied(name=shock.name, postings=tuple(postings)), actor="world")
        if shock.message:
            ref, blob = scene.keep(shock.message)
            news = EventInjected(text=ref, to=tuple(shock.to))
            await scene.working.apply(news, actor="world", blobs=(blob,))


# --------------------------------------------------------------------------- tick


WORLD = "world"
"""Who acts in events that nobody decided."""

AT_ONCE = 100
"""Rule agents whose last results are read together: a query for many, and memory for few. After so many
everybody else in the event loop has a turn."""


THINKING = ("reflex", "workflow", "model")
"""Steps of a tick that are paid for before the actions."""


class Passed(NamedTuple):
    """The result of a tick."""

    tick: int
    acted: int
    rejected: int


async def pass_tick(scene: Scene, cast: Cast, store: Store, *, head: int) -> tuple[Passed, int]:
    """Pass the scene's tick; `head` is the seq that it builds on. What came of it, and the new head.

    Errors: `Conflict` if somebody else has written to this world meanwhile: nothing of the tick is there.
    """
    order = in_order(list(scene.agents.values()), seed=scene.config.seed, tick=scene.tick)
    await strike(scene)
    sight = await Sight.of(scene)
    rejected = 0
    for wave in waves(scene, order):
        rejected += await _wave(scene, sight, cast, wave)
    # Of agents that have left, or ask no more, since a tick that broke off.
    scene.take_paid(await scene.stage.read_paid())
    await mint.close_round(scene)
    passed = Passed(scene.tick, len(order), rejected)
    event = TickPassed(tick=passed.tick, acted=passed.acted, rejected=passed.rejected)
    await scene.working.apply(event, actor=WORLD)
    return passed, await _append(scene, store, head)


def waves(scene: Scene, order: Sequence[WorldAgentRow]) -> list[list[WorldAgentRow]]:
    """Return who thinks at the same time. Within a wave, nobody sees what another one of it does."""
    config = scene.config
    if config.activation == "random":
        return [[row] for row in order]
    if config.activation == "staged":
        stage_of: dict[str, int] = {}
        for number, stage in enumerate(config.stages):
            for agent in stage:
                stage_of.setdefault(agent, number)  # whoever is named twice acts once
        groups: list[list[WorldAgentRow]] = [[] for _ in range(len(config.stages) + 1)]
        for row in order:
            groups[stage_of.get(row.id, -1)].append(row)
        return [group for group in groups if group]
    return [list(order)] if order else []


async def _wave(scene: Scene, sight: Sight, cast: Cast, wave: Sequence[WorldAgentRow]) -> int:
    """Think, act, move on; how many actions were rejected."""
    await scene.changed.catch_up()
    scene.begin_wave()
    thoughts: dict[str, Thought] = {}
    others: list[WorldAgentRow] = []
    for start in range(0, len(wave), AT_ONCE):
        if start:
            await asyncio.sleep(0)
        others += await _by_rule(sight, cast, wave[start : start + AT_ONCE], thoughts)
    if others:
        thoughts |= await mind.think(scene, sight, others, cast)
        thinking = {row.id for row in others}
        scene.take_paid(await scene.stage.read_paid(), agents=thinking, steps=THINKING)
    await scene.stage.preload(_targets(thoughts.values()))
    rejected = 0
    done: dict[str, bool] = {}
    for n, row in enumerate(wave):
        if n % AT_ONCE == AT_ONCE - 1:
            await asyncio.sleep(0)  # a society leaves others their turn
        thought = thoughts[row.id]
        for note in thought.notes:
            await scene.working.apply(note.data, actor=row.id, blobs=note.blobs)
        done[row.id] = await perform(scene, thought, n=n)
        rejected += not done[row.id]
    moving = [thoughts[row.id] for row in others if thoughts[row.id].workflow is not None]
    if moving:
        await mind.move(scene, moving, cast, done)
        movers = {thought.agent for thought in moving}
        scene.take_paid(await scene.stage.read_paid(), agents=movers)
    return rejected


async def _by_rule(
    sight: Sight, cast: Cast, rows: Sequence[WorldAgentRow], thoughts: dict[str, Thought]
) -> list[WorldAgentRow]:
    """Add what rule agents want to `thoughts`; the agents that think otherwise."""
    scene, others = sight.scene, list[WorldAgentRow]()
    await cast.specs.preload(scene, rows)
    await scene.stage.preload_contents(row.last_result for row in rows)
    for row in rows:
        spec = await cast.specs.of(scene, row.id)
        if spec.policy:
            thoughts[row.id] = await cast.policies.decide(spec.policy, row, sight)
        else:
            others.append(row)
    scene.stage.forget_contents()
    return others


def _targets(thoughts: Iterable[Thought]) -> Iterable[str]:
    """Ids of artifacts that the actions will ask for."""
    for thought in thoughts:
        action = thought.action
        if isinstance(action, Action):
            ref = getattr(action, "artifact_id", None) or getattr(action, "ref", None)
            if isinstance(ref, str):
                yield ref.partition("#")[0].partition("@")[0]


async def _append(scene: Scene, store: Store, head: int) -> int:
    stream = world_stream(scene.tenant, scene.world)
    drafts = [Draft(change.data, scene.tick, change.actor) for change in scene.working.changes]
    append = StreamAppend(stream, drafts, head)
    try:
        receipt = await store.append(Batch(appends=(append,), blobs=scene.working.blobs))
    except SequenceConflict as conflict:
        raise Conflict(
            f"world {scene.world} was changed by somebody else during tick {scene.tick};"
            " nothing of the tick was recorded",
            expected=f"event {head} to be the newest",
            got=conflict.got,
            hint="Pass the tick again; what models have answered is not asked again.",
        ) from conflict
    return receipt.seqs[0]
