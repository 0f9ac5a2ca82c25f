"""The events of artifacts. Content, metadata and interfaces are blobs; ids, kinds and rights are inline.

Outside worlds each artifact has a stream `artifact:<id>`; in a world the same events stand in the world's
stream, so every one names its artifact.
"""

from __future__ import annotations

import msgspec

from artelier.artifacts.access import Access, AccessPrices
from artelier.ids import MAIN_SPACE
from artelier.ledger import Moving
from artelier.log import BlobRef, EventData, Stream, event


class Act(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The step of an agent of a world that ended in this event; its actor is the agent."""

    n: int = 0
    """Its place in the order of the tick."""
    action: str
    """Such as `write`."""
    source: str = "model"
    """Who decided: `model`, `reflex`, `policy` or `host`."""
    step: str = ""
    """Key of the model step in the agent's run; for a policy its `name@version`."""
    ref: str = ""
    """What it was about: a ref, the id of an offer, or of another agent."""
    tokens: int = 0
    """Of its model steps in this tick, in and out."""
    reasoning: BlobRef | None = None
    result: BlobRef | None = None
    """What the agent sees of it in its next tick, as text or JSON; None: nothing but that it succeeded."""
    wall: dict[str, str] = {}
    """Contracts that ended by the wall clock while the agent thought and acted: another time they may not.
    Those of an invocation are in its event."""


def artifact_stream(tenant: str, space: str, id_: str) -> Stream:
    """Return where the events of an artifact stand: in a world all of them in the world's own stream."""
    if space != MAIN_SPACE:
        return Stream(tenant, space, space)
    return Stream(tenant, space, f"artifact:{id_}")


def money_stream(tenant: str, space: str) -> Stream:
    """Return where transfers between principals of a space stand."""
    return Stream(tenant, space, f"tenant:{tenant}" if space == MAIN_SPACE else space)


@event("artifact.written")
class ArtifactWritten(Moving, frozen=True, kw_only=True, omit_defaults=True):
    """A new version. Creator and owner are what they were; the first version makes them."""

    id: str
    kind: str
    version: int
    """From 1, without gaps."""
    content: BlobRef
    media: str
    """`text`, `json` or `bytes`."""
    size_bytes: int
    creator: str
    owner: str
    access: Access
    prices: AccessPrices = AccessPrices()
    interface: BlobRef | None = None
    metadata: BlobRef | None = None
    derived_from: tuple[str, ...] = ()
    run_id: str | None = None
    step: str | None = None
    act: Act | None = None


@event("artifact.deleted")
class ArtifactDeleted(Moving, frozen=True, kw_only=True, omit_defaults=True):
    """A tombstone: no version is readable, the id stays taken."""

    id: str
    act: Act | None = None


@event("artifact.transferred")
class ArtifactTransferred(Moving, frozen=True, kw_only=True, omit_defaults=True):
    """A new owner; what was paid for it stands in the same event."""

    id: str
    giver: str
    to: str
    access: Access | None = None
    """The policy from now on; None leaves it."""
    act: Act | None = None


@event("artifact.pruned")
class ArtifactPruned(Moving, frozen=True, kw_only=True, omit_defaults=True):
    """Retention: versions below `kept_from` are not readable any more."""

    id: str
    kept_from: int


@event("artifact.charged")
class ArtifactCharged(Moving, frozen=True, kw_only=True, omit_defaults=True):
    """Somebody paid for an access, or used up one of a licence."""

    id: str
    version: int
    action: str
    payer: str
    licence: str = ""
    """The licence that covered the access; then its price was none."""
    step: str = ""
    """Key of the model step whose prompt holds the content, in the run of the payer."""


@event("artifact.held")
class ArtifactHeld(Moving, frozen=True, kw_only=True, omit_defaults=True):
    """The price of an invocation was set aside before it began."""

    id: str
    hold: str
    """Names this hold; the `artifact.invoked` that settles or releases it says so."""
    caller: str
    payer: str
    amount: int
    until_us: int
    """From when on anybody may release it: the invocation cannot be at work any more."""


@event("artifact.invoked")
class ArtifactInvoked(Moving, frozen=True, kw_only=True, omit_defaults=True):
    """An executable artifact ran to an end; the postings settle its price, or release it."""

    id: str
    version: int
    caller: str
    outcome: str
    """`done`, or `failed`: then nothing of what it did was kept."""
    reason: str = ""
    """Why it failed."""
    arguments: BlobRef | None = None
    result: BlobRef | None = None
    """Its result, or what it said when it failed."""
    price: int = 0
    payer: str = ""
    hold: str = ""
    calls: int = 0
    """Calls of the host over the whole tree."""
    wall: dict[str, str] = {}
    """What ended by the wall clock, by its place in the tree; a replay ends it there again."""
    act: Act | None = None


@event("group.joined")
class GroupJoined(EventData, frozen=True, kw_only=True):
    """A principal became a member of a group; from now on lists that name the group mean it too."""

    group: str
    """Id of the group's artifact, in whose stream this stands."""
    principal: str


@event("group.left")
class GroupLeft(EventData, frozen=True, kw_only=True):
    """A principal is no member any more."""

    group: str
    principal: str


GROUPING: tuple[type[EventData], ...] = (GroupJoined, GroupLeft)
"""Events in the stream of a group's artifact that move no money."""

MOVING: tuple[type[Moving], ...] = (
    ArtifactWritten,
    ArtifactDeleted,
    ArtifactTransferred,
    ArtifactPruned,
    ArtifactCharged,
    ArtifactHeld,
    ArtifactInvoked,
)
"""What the ledger's view must follow."""
