"""The event kinds of the conformance suites, and the view that adds their numbers up."""

from __future__ import annotations

from typing import Any

from artelier.errors import InvalidArguments
from artelier.log import Applied, BlobRef, EventData, Store, Stream, Tx, View, event, upcaster


@event("conformance.noted")
class Noted(EventData, frozen=True, kw_only=True, omit_defaults=True):
    """A number, which the view adds up; a negative sum is refused."""

    number: int = 0
    content: BlobRef | None = None


@event("conformance.grown", version=2)
class Grown(EventData, frozen=True, kw_only=True, omit_defaults=True):
    """A kind whose first version called its field `size`."""

    size_bytes: int


@event("conformance.grown", version=1)
class GrownAsItWas(EventData, frozen=True, kw_only=True, omit_defaults=True):
    size: int


@upcaster("conformance.grown", 1)
def rename_size(data: dict[str, Any]) -> dict[str, Any]:
    return {"size_bytes": data["size"]}


TALLY = View(
    name="conformance_tally",
    version=1,
    tables=("conformance_tallies",),
    schema=(
        """CREATE TABLE conformance_tallies(
            tenant TEXT NOT NULL, stream TEXT NOT NULL, events INTEGER NOT NULL,
            total INTEGER NOT NULL, PRIMARY KEY(tenant, stream))""",
    ),
)


@TALLY.on(Noted)
def tally(applied: Applied, tx: Tx) -> None:
    data, stream = applied.data, applied.stream
    assert isinstance(data, Noted)
    if (total_in(tx, stream) or 0) + data.number < 0:
        raise InvalidArguments("the sum of a stream is never negative", got=data.number)
    tx.execute(
        "INSERT INTO conformance_tallies VALUES (?, ?, 1, ?) ON CONFLICT(tenant, stream)"
        " DO UPDATE SET events = conformance_tallies.events + 1,"
        " total = conformance_tallies.total + excluded.total",
        (stream.tenant, stream.local, data.number),
    )


def total_in(tx: Tx, stream: Stream) -> int | None:
    """Return the sum of a stream in a transaction; None if the view never saw the stream."""
    row = tx.one(
        "SELECT total FROM conformance_tallies WHERE tenant = ? AND stream = ?", (stream.tenant, stream.local)
    )
    return row[0] if row else None


async def total(store: Store, local: str, *, tenant: str = "acme") -> int | None:
    """Return what the view says of a stream; None if it never saw one."""
    rows = await store.query(
        "SELECT total FROM conformance_tallies WHERE tenant = ? AND stream = ?", (tenant, local)
    )
    return rows[0][0] if rows else None
