"""The events of artifacts. Content, metadata and interfaces are blobs; ids, kinds and rights are inline.

Outside worlds each artifact has a stream `artifact:<id>`; in a world the same events stand in the world's
stream, so every one names its artifact.
"""

from __future__ import annotations

from artelier.artifacts.access import Access
from artelier.artifacts.bill import Prices
from artelier.ledger import Moving
from artelier.log import BlobRef, Stream, event


def artifact_stream(tenant: str, space: str, id_: str) -> Stream:
    return Stream(tenant, space, f"artifact:{id_}")


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
    prices: Prices = Prices()
    interface: BlobRef | None = None
    metadata: BlobRef | None = None
    derived_from: tuple[str, ...] = ()
    run_id: str | None = None
    step: str | None = None


@event("artifact.deleted")
class ArtifactDeleted(Moving, frozen=True, kw_only=True, omit_defaults=True):
    """A tombstone: no version is readable, the id stays taken."""

    id: str


@event("artifact.transferred")
class ArtifactTransferred(Moving, frozen=True, kw_only=True, omit_defaults=True):
    """A new owner; what was paid for it stands in the same event."""

    id: str
    giver: str
    to: str


@event("artifact.pruned")
class ArtifactPruned(Moving, frozen=True, kw_only=True, omit_defaults=True):
    """Retention: versions below `kept_from` are not readable any more."""

    id: str
    kept_from: int


@event("artifact.charged")
class ArtifactCharged(Moving, frozen=True, kw_only=True, omit_defaults=True):
    """Somebody paid for an access."""

    id: str
    version: int
    action: str
    payer: str


MOVING: tuple[type[Moving], ...] = (
    ArtifactWritten,
    ArtifactDeleted,
    ArtifactTransferred,
    ArtifactPruned,
    ArtifactCharged,
)
"""What the ledger's view must follow."""
