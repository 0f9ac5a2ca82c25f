"""The content of a file beside runs: the part that only another package knows.

The kernel knows runs and artifacts. A file may be about more. Whoever exports and imports such files tells
the kernel which other events may stand in the streams of artifacts, which other streams exist, what they
must say, and what importing them does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from artelier.ids import MAIN_SPACE
from artelier.kernel.export.archive import Header
from artelier.kernel.run.services import Services
from artelier.log import Blob, EventData, Stream, Tx


class Arrival(NamedTuple):
    """The additions of an import to the batch that holds the file's own events."""

    events: Sequence[EventData] = ()
    """For the tenant's stream, after the history."""
    blobs: Sequence[Blob] = ()
    guard: Callable[[Tx], None] | None = None
    """Refuses the batch; see `Batch.guard`."""


NOTHING = Arrival()


class Belongings(Protocol):
    """Checks the lines of one file as they come. Every refusal is an `InvalidExport`."""

    @property
    def kinds(self) -> frozenset[str]:
        """Kinds of events that may stand in streams of artifacts beside those of artifacts."""
        ...

    @property
    def may_meet_runs(self) -> bool:
        """True if runs of the file that are here already, event for event, are left out, not refused."""
        return False

    def gives_way(self, local: str) -> bool:
        """Return True if a stream of the file is left out where the tenant has its own of that name."""
        return False

    def has_stream(self, local: str) -> bool:
        """Return True if a stream is none of the kernel's and belongs here."""
        return False

    def take_own(self, local: str, seq: int, data: EventData, *, at_us: int) -> None:
        """Check the next event of such a stream."""

    def home(self, tenant: str, local: str) -> Stream:
        """Return where such a stream goes in the tenant that imports it."""
        return Stream(tenant, MAIN_SPACE, local)

    def take(self, artifact: str, seq: int, data: EventData) -> None:
        """Check the next event of an artifact, of whatever kind."""
        ...

    def wants(self, name: bytes) -> bool:
        """Return True if `content` must see the content of this name; asked after all events."""
        ...

    def content(self, name: bytes, content: bytes) -> None:
        """Check a piece of content."""
        ...

    def owns(self, artifact: str) -> bool:
        """Return True if an artifact belongs here although no run of the file has written it."""
        ...

    def end(self) -> None:
        """Check what only the whole file can tell."""
        ...

    async def arrival(self, services: Services, tenant: str, header: Header, sha256: str) -> Arrival:
        """Return what an import into this tenant brings about. Errors: `Conflict` if there is no room for
        it.
        """
        ...
