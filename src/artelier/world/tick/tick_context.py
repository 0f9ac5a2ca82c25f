"""One tick as its actions see it: the state they are decided over, and what they have in common.

`Scene` belongs to the tick, `ActionStep` to one action of it. A step works in a working state of its own,
which the scene takes over when the action is done and drops when it is refused.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from artelier.artifacts import (
    Act,
    Artifacts,
    Bill,
    Call,
    Decisions,
    Gate,
    Interpreter,
    MemorySearch,
    Ref,
    Service,
    Tree,
    Verdict,
    Working,
    account_of,
    in_scope,
    judge,
)
from artelier.artifacts.content import canonical_json
from artelier.artifacts.queries import Standing
from artelier.log import Blob, BlobRef, DataKey, EventData, make_blob
from artelier.log.contract import Names
from artelier.money import SCRIP
from artelier.world.actions import Action
from artelier.world.agent import AgentRow
from artelier.world.config import WorldConfig
from artelier.world.tick.agent_decision import Thought
from artelier.world.tick.tick_diff import Changed
from artelier.world.tick.world_state import ESCROW, PaidSteps, WorldStage


class Scene:
    """A tick at work."""

    def __init__(
        self,
        *,
        world: str,
        tick: int,
        config: WorldConfig,
        stage: WorldStage,
        key: DataKey,
        agents: Mapping[str, AgentRow],
        interpreter: Interpreter | None,
        services: Mapping[str, Service],
        search_memory: MemorySearch | None = None,
        main: Artifacts | None = None,
        names: Names | None = None,
    ) -> None:
        """`agents` are those that act, in the order of their joining; `key` names the tenant's blobs.

        `main` reads what the tenant's main space grants to this world, as the principal `world:<id>`.
        """
        self.world = world
        self.tick = tick
        self.config = config
        self.stage = stage
        self.key = key
        self.agents = agents
        self.interpreter = interpreter
        self.services = services
        self.search_memory = search_memory
        self.main = main
        self.names = names
        """Looks for personal data in what actions call things, if somebody does."""
        self.working = Working(stage)
        self.working.at_us = tick
        self.decisions = Decisions(facts={"tick": tick})
        """What contracts have said in this tick; nobody asks them with these bounds: see `asks`."""
        self.changed = Changed(stage, self.working)
        self.models: frozenset[str] = frozenset()
        """Canonical names of the models that agents ask as the tick begins."""
        self._taken: set[tuple[str, str]] = set()
        self.stored: dict[str, int] = {}
        """Bytes that agents store more, or less, since the tick before."""
        self.computing = asyncio.Semaphore(4)
        """Code steps at once: a little above the workers of the sandbox's pool."""
        self.counter = 0
        """For ids of what is made in this tick."""
        self._stood: dict[str, Standing | None] = {}
        """What actions of this wave have changed, as it stood when the wave began."""
        self.unseen_offers: set[str] = set()
        """Offers made in this wave: nobody who acts in it has seen them."""

    def begin_wave(self) -> None:
        """Take what stands now as what the thoughts of the next wave see."""
        self._stood.clear()
        self.unseen_offers.clear()

    async def absorb(self, done: Working) -> None:
        """Take over what an action has changed; what stood before it stays known to `seen`."""
        for id_ in done.standings:
            if id_ not in self._stood:
                self._stood[id_] = await self.working.standing(id_)
        self.working.absorb(done)

    async def standing_seen(self, id: str) -> Standing | None:
        """Return an artifact as it stood when this wave thought; None for one that was not there."""
        return self._stood[id] if id in self._stood else await self.working.standing(id)

    async def price_seen(self, agent: str, id: str, *actions: str) -> int:
        """Return what accesses cost an agent in the state that its thought saw; 0 if it saw no price."""
        stood = await self.standing_seen(id)
        if stood is None or stood.deleted or stood.owner in (agent, ESCROW):
            return 0
        return sum(Bill.posted_price(action, stood) for action in actions)

    @property
    def tenant(self) -> str:
        return self.stage.tenant

    @property
    def space(self) -> str:
        return self.stage.space

    def fresh_id(self, prefix: str) -> str:
        """`offer-41-3`: the third thing made in tick 41. Same seed, same ids."""
        self.counter += 1
        return f"{prefix}-{self.tick}-{self.counter}"

    def balance(self, principal: str) -> int:
        """Scrip of a principal now, what this tick has changed included."""
        side = (account_of(principal), SCRIP)
        return self.stage.balance_now(principal) + self.working.deltas.get(side, 0)

    def keep(self, value: str | Any) -> tuple[BlobRef, Blob]:
        """The reference and blob of text, or of anything else as JSON; the blob goes with its event."""
        content = value.encode() if isinstance(value, str) else canonical_json(value)
        return make_blob(self.tenant, self.key, content)

    def take_paid(
        self,
        paid: Iterable[PaidSteps],
        *,
        agents: Collection[str] | None = None,
        steps: Collection[str] | None = None,
    ) -> None:
        """Take up what prompts have paid: it is durable, and no longer there to be spent.

        Shapes: of all `agents` and `steps` (`reflex`, `workflow`, `model`, `transition`) unless said
        otherwise. When a tick is passed again after a crash, what its later steps have paid already must not
        be seen earlier.
        """
        taken: set[tuple[str, str]] = set()
        for one in paid:
            step = (one.agent, one.step)
            if step in self._taken or (agents is not None and one.agent not in agents):
                continue
            if steps is not None and one.step.rpartition("/")[2] not in steps:
                continue
            taken.add(step)
            self.working.shift({(one.account, one.asset): one.moved})
        self._taken |= taken

    def asks(self) -> Decisions:
        """Return decisions for one prompt, reading or action of one agent: own bounds, shared knowledge."""
        return self.decisions.apart()

    def sees(self, agent: str, other: str) -> bool:
        """Return True if the network lets `agent` see what `other` says and offers."""
        network = self.config.network
        return network is None or agent == other or other in network.get(agent, ())


class ActionStep:
    """One action of one agent: it changes `working`, and its last event carries `act()`."""

    def __init__(self, scene: Scene, thought: Thought, action: Action, *, n: int) -> None:
        """`action` is the thought's; `n` its place in the order of the tick."""
        self.scene = scene
        self.agent = thought.agent
        self.action = action
        self.working = Working(scene.working)
        self.thought = thought
        self.number = n
        self.decisions = scene.asks()
        self._invoked: Decisions | None = None

    def keep(self, value: str | Any) -> BlobRef:
        """Store text as it is, anything else as JSON."""
        ref, blob = self.scene.keep(value)
        self.working.hold(blob)
        return ref

    def act(self, *, ref: str = "", result: BlobRef | None = None) -> Act:
        """Return what this step says of itself in its last event."""
        reasoning = self.action.reasoning
        return Act(
            n=self.number,
            action=self.action.name,
            source=self.thought.source,
            step=self.thought.key,
            ref=ref,
            tokens=self.thought.tokens,
            reasoning=self.keep(reasoning) if reasoning else None,
            result=result,
            wall=self.wall,
        )

    @property
    def wall(self) -> dict[str, str]:
        """The contracts that ended by the wall clock for this agent until now, outside of invocations."""
        return {**self.thought.wall, **self.decisions.wall}

    @property
    def wall_in_all(self) -> dict[str, str]:
        """The same with what an invocation came upon, for when no event tells of that."""
        return {**self.wall, **(self._invoked.wall if self._invoked else {})}

    @property
    def gate(self) -> Gate:
        return Gate(self.working, self.scene.interpreter, self.decisions)

    async def apply(self, data: EventData, *, blobs: Sequence[Blob] = (), actor: str = "") -> None:
        """Take up an event. Errors: `InsufficientFunds`."""
        await self.working.apply(data, actor=actor or self.agent, blobs=blobs)

    async def judge(self, ref: Ref, action: str, *, price_max: int | None = None) -> Verdict:
        """Decide an access as the agent, by the one permission path. Every refusal is a value.

        Without `price_max` the agent agrees to the price that its thought saw.
        """
        if price_max is None:
            price_max = await self.price_seen(self.agent, action, ref.id)
        return await judge(self.working, self.gate, ref, action, self.agent, price_max=price_max)

    async def price_seen(self, principal: str, action: str, id: str, /) -> int | None:
        """Return the most that an access may cost without a cap; None: the price now.

        A program decides while it runs: what it sees is the present. So did everybody in older worlds.
        """
        if principal != self.agent or not self.scene.config.asks_consent:
            return None
        return await self.scene.price_seen(self.agent, id, action)

    def tree(self) -> Tree:
        """Return the tree of an invocation, with bounds of its own."""
        scene = self.scene
        self._invoked = scene.asks()
        return Tree(
            scene.interpreter,
            in_scope,
            decisions=self._invoked,
            search_memory=scene.search_memory,
            services=scene.services,
            prices_seen=self.price_seen,
            seed=f"{scene.config.seed}/{scene.tick}/{self.agent}",
        )

    def call(self, id: str, args: Mapping[str, Any], *, price_max: int | None = None) -> Call:
        return Call(caller=self.agent, id=id, args=args, price_max=price_max)
