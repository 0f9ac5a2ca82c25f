"""The stage on which a store is tested: event kinds, a view, and ways to open it and to expect a refusal."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

from artelier.errors import ArtelierError, InvalidArguments
from artelier.log import (
    Applied,
    Batch,
    BlobRef,
    Draft,
    EventData,
    Receipt,
    Store,
    Stream,
    StreamAppend,
    Tx,
    View,
    event,
    upcaster,
)


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


ErrorT = TypeVar("ErrorT", bound=BaseException)
T = TypeVar("T")


class Caught(Generic[ErrorT]):
    """The error that a block raised."""

    error: ErrorT


@contextmanager
def refuses(kind: type[ErrorT]) -> Generator[Caught[ErrorT]]:
    """The block must raise `kind`. Errors: `AssertionError` if it does not."""
    caught: Caught[ErrorT] = Caught()
    try:
        yield caught
    except kind as error:
        caught.error = error
    else:
        raise AssertionError(f"expected {kind.__name__}, nothing was refused")


def stream(local: str, *, tenant: str = "acme", space: str = "main") -> Stream:
    return Stream(tenant, space, local)


def noted_draft(number: int = 1, *, content: BlobRef | None = None) -> Draft:
    return Draft(Noted(number=number, content=content), 1_000, "tester")


def batch(local: str, *numbers: int, expected: int | None = None, tenant: str = "acme") -> Batch:
    """Events of these numbers for one stream."""
    drafts = tuple(noted_draft(number) for number in numbers)
    return Batch(appends=(StreamAppend(stream(local, tenant=tenant), drafts, expected),))


async def settle_all(awaitables: Sequence[Awaitable[Receipt]]) -> list[Receipt | ArtelierError]:
    """Return what became of each batch."""
    results = await asyncio.gather(*awaitables, return_exceptions=True)
    for result in results:
        if not isinstance(result, Receipt | ArtelierError):
            raise AssertionError(f"neither a receipt nor a clear error: {result!r}")
    return [result for result in results if isinstance(result, Receipt | ArtelierError)]


class StoreHarness:
    """The way to open an implementation. A suite inherits it; see `StoreConformance`."""

    def make_store(self, where: str, views: Sequence[View]) -> Store:
        """Open the store at a place, which may hold one already."""
        raise NotImplementedError

    def tell(
        self, where: str, *stories: Callable[[Store], Awaitable[Any]], views: Sequence[View] = (TALLY,)
    ) -> None:
        """Run stories one after the other, each over the store opened anew."""
        for story in stories:
            asyncio.run(self._run_story(where, story, views))

    async def _run_story(
        self, where: str, story: Callable[[Store], Awaitable[T]], views: Sequence[View]
    ) -> T:
        store = self.make_store(where, views)
        try:
            return await story(store)
        finally:
            store.close()
