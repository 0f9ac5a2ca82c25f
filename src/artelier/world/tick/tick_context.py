"""One tick as its actions see it: the state they are decided over, and what they have in common.

`Scene` belongs to the tick, `ActionStep` to one action of it. A step works in a working state of its own,
which the scene takes over when the action is done and drops when it is refused.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec

from artelier.artifacts import (
    AccessVerdict,
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
    Stage,
    Tree,
    Working,
    account_of,
    in_scope,
    judge,
)
from artelier.artifacts.content import canonical_json
from artelier.artifacts.events import ArtifactDeleted, ArtifactTransferred, ArtifactWritten
from artelier.artifacts.queries import Standing
from artelier.errors import CorruptStore, InvalidRequest, NotFound
from artelier.log import Blob, BlobRef, DataKey, EventData, make_blob
from artelier.log.contract import Names
from artelier.money import SCRIP
from artelier.world.actions import Action, Rejected
from artelier.world.agent import WorldAgentRow
from artelier.world.config import WorldConfig
from artelier.world.events import OfferAccepted, OfferCancelled, OfferMade
from artelier.world.queries.market import OfferFact, OfferPreview, ShownOffer
from artelier.world.tick.world_state import ESCROW, PaidSteps, WorldStage

if TYPE_CHECKING:
    from artelier.world.mind_artifacts import MindState, Workflow


# --------------------------------------------------------------------------- agent decision
# The result of an agent's thinking: what it wants, and its position in the workflow.


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionNote:
    """An event about the thinking itself, and the blobs that it names."""

    data: EventData
    blobs: tuple[Blob, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Thought:
    """One agent's decision of one tick."""

    agent: str
    action: Action | Rejected
    source: str
    """`model`, `reflex`, `policy`, `workflow` where that asks no model, `host` for whom it keeps from it."""
    key: str = ""
    """Of the model step; `name@version` of a policy."""
    code: str = "invalid_action"
    """Why there is no action, if it is `Rejected`: such as `model_failed`, `limit_reached`."""
    tokens: int = 0
    """Of its model step, in and out."""
    notes: tuple[DecisionNote, ...] = ()
    """Stand before the action: a reflex that fell through, a workflow that began."""
    workflow: Workflow | None = None
    state: MindState | None = None
    wall: Mapping[str, str] = field(default_factory=dict[str, str])
    """Contracts that ended by the wall clock while it was made."""
    facts: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """What it knew; the transition adds what came of the action."""
    computed: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """What the code of its workflow has computed in this tick."""


# --------------------------------------------------------------------------- tick diff
# The changes that the actions of a tick have made so far, for the agents that think later in it.
# Each change of the working state is read once, whatever the number of waves.


class Changed:
    """The artifacts that changed hands and the offers that were made or closed since the tick began."""

    def __init__(self, stage: WorldStage, working: Working) -> None:
        self._stage = stage
        self._working = working
        self._read = 0
        """Changes of the working state that are taken up."""
        self._owner: dict[str, str] = {}
        """Of artifacts that were changed: who owns them now; empty for deleted ones."""
        self._gained: dict[str, set[str]] = {}
        self._lost: dict[str, set[str]] = {}
        self.made: dict[str, OfferFact] = {}
        """Offers of this tick that are open, as facts, in their order."""
        self.closed: set[str] = set()
        """Offers of earlier ticks that are not open any more."""

    async def catch_up(self) -> None:
        """Take up what is new. Cost: O(what is new)."""
        changes = self._working.changes
        for number in range(self._read, len(changes)):
            data = changes[number].data
            if isinstance(data, ArtifactWritten | ArtifactTransferred | ArtifactDeleted):
                await self._take_owner(data.id)
            elif isinstance(data, OfferMade):
                self.made[data.offer] = await self._fact(data)
            elif isinstance(data, OfferCancelled) or (
                isinstance(data, OfferAccepted) and data.sells == "ownership"
            ):
                if self.made.pop(data.offer, None) is None:
                    self.closed.add(data.offer)
        self._read = len(changes)

    def owned_ids(self, principal: str) -> Sequence[str]:
        """Ids of what a principal owns now, sorted. Cost: O(1) for one that has neither got nor lost any."""
        before = self._stage.owned_ids(principal)
        gained, lost = self._gained.get(principal), self._lost.get(principal)
        if not gained and not lost:
            return before
        return sorted({*before, *(gained or ())} - (lost or set()))

    async def _take_owner(self, id: str) -> None:
        standing = await self._working.standing(id)
        assert standing is not None, "it was changed"
        now = "" if standing.deleted else standing.owner
        was = self._stage.seen.get(id)
        first = was.owner if was is not None and not was.deleted else ""
        before = self._owner.get(id, first)
        self._owner[id] = now
        for sides, owner in ((self._gained, before), (self._lost, first)):
            sides.get(owner, set[str]()).discard(id)
        if now != first:
            for sides, owner in ((self._gained, now), (self._lost, first)):
                if owner:
                    sides.setdefault(owner, set()).add(id)

    async def _fact(self, made: OfferMade) -> OfferFact:
        standing = await self._working.standing(made.artifact)
        kind = standing.kind if standing is not None else ""
        return await offer_fact(self._working, made, kind=kind)


async def offer_fact(stage: Stage, made: OfferMade | ShownOffer, *, kind: str) -> OfferFact:
    """Return what agents are told of an offer; a preview that cannot be read says nothing."""
    told = OfferPreview()
    if made.preview is not None:
        with suppress(NotFound, CorruptStore, InvalidRequest, msgspec.DecodeError):
            told = msgspec.json.decode(await stage.blob(made.preview), type=OfferPreview)
    return OfferFact(
        offer=made.offer,
        artifact=made.artifact,
        kind=kind,
        seller=made.seller,
        price=made.price,
        sells=made.sells,
        to=made.to,
        royalty_percent=made.royalty_percent,
        title=told.title,
        summary=told.summary,
        users=told.users,
        access=told.access,
    )


# --------------------------------------------------------------------------- tick context


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
        agents: Mapping[str, WorldAgentRow],
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

    async def judge(self, ref: Ref, action: str, *, price_max: int | None = None) -> AccessVerdict:
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
