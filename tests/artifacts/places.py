"""A store with the views of artifacts and money, and handles into it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from artelier.artifacts import (
    MOVING,
    Artifacts,
    Decisions,
    Interpreter,
    InvocationLimits,
    account_of,
    artifacts_view,
)
from artelier.ledger import MoneyTransferred, Moving, Posting, ledger_view
from artelier.log import Batch, Draft, SqliteStore, Stream, StreamAppend, event

T = TypeVar("T")


@event("test.funded")
class Funded(Moving, frozen=True, kw_only=True, omit_defaults=True):
    """Money out of nowhere, for tests of prices."""


LEDGER = ledger_view([*MOVING, MoneyTransferred, Funded], [])
VIEWS = (LEDGER, artifacts_view)


class HandClock:
    """Time that only a test moves."""

    def __init__(self) -> None:
        self.us = 1_000_000

    def now_us(self) -> int:
        return self.us

    async def sleep(self, seconds: float) -> None:
        self.us += int(seconds * 1_000_000)


class Place:
    """A store and who looks at it."""

    def __init__(self, store: SqliteStore) -> None:
        self.store = store
        self.clock = HandClock()
        self.interpreter: Interpreter | None = None

    def as_(
        self,
        principal: str,
        *,
        tenant: str = "acme",
        space: str = "main",
        main: Artifacts | None = None,
        decisions: Decisions | None = None,
        limits: InvocationLimits | None = None,
    ) -> Artifacts:
        return Artifacts(
            self.store,
            self.clock,
            tenant,
            space,
            principal,
            main=main,
            interpreter=self.interpreter,
            decisions=decisions,
            limits=limits,
        )

    async def fund(self, principal: str, amount: int, *, space: str = "main") -> None:
        posting = Posting("source:test", account_of(principal), "scrip", amount)
        draft = Draft(Funded(postings=(posting,)), 0, "test")
        stream = Stream("acme", space, "test:funds")
        await self.store.append(Batch(appends=(StreamAppend(stream, (draft,)),)))

    async def scrip(self, principal: str) -> int:
        rows = await self.store.query(
            "SELECT balance FROM accounts WHERE tenant = 'acme' AND account = ?", (account_of(principal),)
        )
        return rows[0][0] if rows else 0


@contextmanager
def place(path: Path) -> Iterator[Place]:
    store = SqliteStore(path / "state.db", VIEWS)
    try:
        yield Place(store)
    finally:
        store.close()


def in_place(
    path: Path, story: Callable[[Place], Awaitable[T]], *, interpreter: Interpreter | None = None
) -> T:
    """Run a story over a fresh store below `path`, which stays there to be verified."""

    async def tell() -> T:
        with place(path) as here:
            here.interpreter = interpreter
            return await story(here)

    return asyncio.run(tell())


async def total(here: Place) -> int:
    """The sum over all accounts, which no event may change."""
    rows = await here.store.query("SELECT COALESCE(SUM(balance), 0) FROM accounts")
    return rows[0][0]


async def held(here: Place) -> int:
    """Scrip that waits for the end of invocations."""
    rows = await here.store.query(
        "SELECT COALESCE(SUM(balance), 0) FROM accounts WHERE account LIKE 'hold:invoke:%'"
    )
    return rows[0][0]
