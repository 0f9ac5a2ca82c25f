"""The events of a world. All of them stand in the world's own stream, but for `artifact.charged` of prompts.

What an agent does in a tick is one event: that of the artifact it changes, with an `act`, or one of those
here that have one. `at_us` is the tick.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from artelier.artifacts.events import Act
from artelier.errors import Conflict
from artelier.ledger import Moving
from artelier.log import BlobRef, EventData, Stream, event


def world_space(world: str) -> str:
    return f"world:{world}"


def reader_of(world: str) -> str:
    """The principal as whom a world reads what the main space grants to it."""
    return f"world:{world}"


def world_stream(tenant: str, world: str) -> Stream:
    return Stream(tenant, world_space(world), f"world:{world}")


def agent_stream(tenant: str, world: str, agent: str) -> Stream:
    """Return what an agent's prompts cost: each charge is in the batch of its request, whatever comes
    first.
    """
    return Stream(tenant, world_space(world), f"agent:{agent}")


# The world itself


class WorldStatus(StrEnum):
    """The status of a world.

        (made) ──► active ◄──► ticking
                     ▲│           │
              resume ││ pause     │ paused meanwhile: this tick is dropped
                     │▼           │
                   paused ◄───────┘

    `active` and `paused` are stored, by the view alone; `ticking` is a world of this process between the
    read of its state and the commit of the tick. To pause a paused world, or to resume an active one, is
    recorded and changes nothing.
    """

    ACTIVE = "active"
    TICKING = "ticking"
    PAUSED = "paused"

    @classmethod
    def of(cls, *, paused: bool) -> WorldStatus:
        """Return the status that a row says."""
        return cls.PAUSED if paused else cls.ACTIVE

    @property
    def successors(self) -> frozenset[WorldStatus]:
        """The statuses that may follow."""
        return _SUCCESSORS[self]

    def follow(self, status: WorldStatus, *, world: str) -> WorldStatus:
        """Return `status` if it may follow. Errors: `Conflict`: a paused world passes no tick."""
        if status not in self.successors:
            raise Conflict(f"world {world} is {self}", hint="Resume it first.")
        return status


_SUCCESSORS = {
    WorldStatus.ACTIVE: frozenset(WorldStatus),
    WorldStatus.TICKING: frozenset({WorldStatus.ACTIVE, WorldStatus.PAUSED}),
    WorldStatus.PAUSED: frozenset({WorldStatus.ACTIVE, WorldStatus.PAUSED}),
}


@event("world.made")
class WorldMade(EventData, frozen=True, kw_only=True, omit_defaults=True):
    """A world begins, at tick 0."""

    seed: int
    config: BlobRef
    """JSON of its settings."""


@event("world.configured")
class WorldConfigured(EventData, frozen=True, kw_only=True, omit_defaults=True):
    """Other settings hold from the next tick on."""

    config: BlobRef


@event("world.paused")
class WorldPaused(EventData, frozen=True, kw_only=True, omit_defaults=True):
    """No tick begins until it is resumed."""


@event("world.resumed")
class WorldResumed(EventData, frozen=True, kw_only=True, omit_defaults=True):
    """Ticks may begin again."""


@event("world.forking")
class WorldForking(EventData, frozen=True, kw_only=True, omit_defaults=True):
    """A long history begins to be copied for a fork, which nobody finds before `world.forked` (in the
    tenant's stream).
    """

    world: str
    parent: str
    tick: int


@event("world.forked")
class WorldForked(EventData, frozen=True, kw_only=True, omit_defaults=True):
    """A world was branched off another one (in the tenant's stream)."""

    world: str
    parent: str
    tick: int
    changed: tuple[str, ...] = ()
    """Artifacts that have another content right after it."""


class Ancestor(msgspec.Struct, frozen=True):
    """A world whose history another one shares, up to a tick; its runs hold the prompts of that time."""

    world: str
    tick: int


@event("world.imported")
class WorldImported(EventData, frozen=True, kw_only=True, omit_defaults=True):
    """A world came out of a file, with all its events (in the tenant's stream)."""

    world: str
    origin: str
    """What it was called where it was exported."""
    tenant: str
    """Whose it was."""
    tick: int
    sha256: str
    """Of the file without its seal."""
    parent: str = ""
    """Of a world that had been forked: off which one, and at which tick."""
    forked_at: int = 0
    ancestors: tuple[Ancestor, ...] = ()
    """The nearest first."""


@event("event.injected")
class EventInjected(EventData, frozen=True, kw_only=True, omit_defaults=True):
    """Something happened that all agents, or those named, learn of in the next tick."""

    text: BlobRef
    to: tuple[str, ...] = ()


@event("shock.applied")
class ShockApplied(Moving, frozen=True, kw_only=True, omit_defaults=True):
    """A scheduled shock moved money; what it tells the agents is an `event.injected`."""

    name: str


@event("tick.passed")
class TickPassed(EventData, frozen=True, kw_only=True, omit_defaults=True):
    """The last event of a tick: its number and what came of it."""

    tick: int
    acted: int
    """Agents that took a step."""
    rejected: int = 0


# Agents


@event("agent.joined")
class AgentJoined(Moving, frozen=True, kw_only=True, omit_defaults=True):
    """The agent artifact of this id acts from the next tick on; the posting is its first scrip."""

    agent: str
    model: str = ""
    """The model that the world's file names for it."""


@event("agent.left")
class AgentLeft(EventData, frozen=True, kw_only=True, omit_defaults=True):
    """It acts no longer. What it owns stays."""

    agent: str


@event("action.taken")
class ActionTaken(Moving, frozen=True, kw_only=True, omit_defaults=True):
    """An action that changed no artifact: noop, read, search, transfer."""

    act: Act


@event("action.rejected")
class ActionRejected(Moving, frozen=True, kw_only=True, omit_defaults=True):
    """Nothing happened: it was malformed, not allowed, not paid for, or there was nothing to act on."""

    act: Act
    code: str
    """Of the error, such as `access_denied`."""
    reason: BlobRef
    """A sentence for the agent's next prompt."""


@event("reflex.fell_through")
class ReflexFell(EventData, frozen=True, kw_only=True, omit_defaults=True):
    """A reflex gave no action; the model was asked instead."""

    agent: str
    why: str
    """`none`, `timeout`, `memory`, `error`, `wrong_type`, `malformed`, `unusable`; or why it was not
    read: `missing`, `deleted`, `denied`, `no_funds`."""
    reason: BlobRef | None = None
    wall: dict[str, str] = {}
    """Contracts that ended by the wall clock while it was read."""


@event("agent.moved")
class AgentMoved(EventData, frozen=True, kw_only=True, omit_defaults=True):
    """A state of the workflow was left or chosen; `to` holds from the next tick on."""

    agent: str
    origin: str
    to: str
    how: str
    reason: BlobRef | None = None
    """What a model said, or why its reply could not be used."""
    refused: bool = False
    step: str = ""
    """Key of the model step that chose."""
    tokens: int = 0
    """Of that step, in and out."""
    wall: dict[str, str] = {}
    """Contracts that ended by the wall clock while this was decided."""


@event("condition.unknown_name")
class UnknownName(EventData, frozen=True, kw_only=True, omit_defaults=True):
    """Names in the conditions of a workflow that no fact has; they counted as false."""

    agent: str
    state: str
    names: tuple[str, ...]


@event("message.sent")
class MessageSent(Moving, frozen=True, kw_only=True, omit_defaults=True):
    """A text that another agent sees at its next tick."""

    act: Act
    to: str
    text: BlobRef


# Market


@event("offer.made")
class OfferMade(Moving, frozen=True, kw_only=True, omit_defaults=True):
    """An artifact is for sale. If it is sold itself, `artifact.transferred` to the escrow stands before."""

    act: Act
    offer: str
    artifact: str
    version: int
    seller: str
    price: int
    sells: str
    """`ownership`, `copy` or `licence`."""
    to: str = ""
    """The only one who may accept; empty: anybody."""
    uses: int | None = None
    ticks: int | None = None
    royalty_percent: int = 0
    preview: BlobRef | None = None
    """JSON: title, summary, statistics of use."""


@event("offer.accepted")
class OfferAccepted(Moving, frozen=True, kw_only=True, omit_defaults=True):
    """Sold: the postings pay for it. A copy was written, or the artifact transferred, just before."""

    act: Act
    offer: str
    artifact: str
    buyer: str
    seller: str
    price: int
    sells: str
    got: str = ""
    """The artifact that the buyer has now; empty for a licence."""
    uses: int | None = None
    until_tick: int | None = None
    """Of a licence: the last tick in which it holds."""
    royalty_percent: int = 0
    """Of what the copy earns, to the owner of `artifact`."""


@event("offer.cancelled")
class OfferCancelled(Moving, frozen=True, kw_only=True, omit_defaults=True):
    """Taken back by its seller, or void; what was in escrow was transferred back just before."""

    offer: str
    act: Act | None = None


@event("bid.placed")
class BidPlaced(Moving, frozen=True, kw_only=True, omit_defaults=True):
    """A sealed bid for the scoring slot of the round; the amount is held. It replaces an earlier one."""

    act: Act
    artifact: str
    amount: int


@event("auction.closed")
class AuctionClosed(Moving, frozen=True, kw_only=True, omit_defaults=True):
    """The end of a mint round: bids are given back, the price is shared out, scrip is minted.

    The income of services goes back to the mint in the same postings.
    """

    round: int
    winner: str = ""
    artifact: str = ""
    price: int = 0
    """The second highest bid."""
    score: int = 0
    """0 to 100."""
    minted: int = 0
    """Paid to the winner by the mint: new scrip, or under rules 2 fees first."""
    duplicate: bool = False


@event("fees.shared")
class FeesShared(Moving, frozen=True, kw_only=True, omit_defaults=True):
    """The earnings of services went to the mint, and what it does not need went back to those who paid it."""


# Memory stores


@event("entry.added")
class EntryAdded(Moving, frozen=True, kw_only=True, omit_defaults=True):
    """A memory store has one more entry; that is no new version."""

    store: str
    entry: str
    """`mem_` and 8 hex digits."""
    text: BlobRef
    tags: BlobRef | None = None
    """JSON list."""
    importance: int
    """In millionths."""
    vector: BlobRef
    """32-bit floats, little endian."""
    embedder: str = "hashing"
    """Who made the vector: only vectors of one embedder are compared."""
    mark: BlobRef
    """A digest of what the text says, by which one that says the same is found."""
    tick: int | None = None
    """When the original of a copied entry was added; None: this tick."""
    act: Act | None = None


@event("entry.removed")
class EntryRemoved(Moving, frozen=True, kw_only=True, omit_defaults=True):
    """An entry is gone: pruned, or taken out."""

    store: str
    entry: str
    why: str


ACTING = (ActionTaken, ActionRejected, MessageSent, OfferMade, OfferAccepted, BidPlaced)
"""Events of this module that always carry the act of an agent."""

MOVING: tuple[type[Moving], ...] = (
    *ACTING,
    AgentJoined,
    ShockApplied,
    OfferCancelled,
    AuctionClosed,
    FeesShared,
    EntryAdded,
    EntryRemoved,
)
"""What the ledger's view must follow."""
