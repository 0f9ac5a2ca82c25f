"""The stage on which a store is tested: batches, ways to open it and ways to expect a refusal."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

from artelier.errors import ArtelierError
from artelier.log import Batch, BlobRef, Draft, Receipt, Store, Stream, StreamAppend, View
from artelier.testing.conformance.view import TALLY, Noted

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
