"""A group that is lost with a full disk takes with it what was queued to build on it."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path

import pytest

from artelier.errors import StoreFull, StoreUnavailable
from artelier.log import (
    Batch,
    Draft,
    EventData,
    Fence,
    LeaseRequest,
    SqliteStore,
    Stream,
    StreamAppend,
    event,
)

RUN = Stream("acme", "main", "run:r")


@event("lostgroup.noted")
class Noted(EventData, frozen=True, kw_only=True, omit_defaults=True):
    n: int


class FullDisk:
    """Refuses one commit as a full disk would."""

    def __init__(self) -> None:
        self.full = False

    def __call__(self, point: str) -> None:
        if point == "commit.before" and self.full:
            self.full = False
            error = sqlite3.OperationalError("database or disk is full")
            error.sqlite_errorcode = sqlite3.SQLITE_FULL
            raise error


def noted(n: int, fence: Fence) -> Batch:
    return Batch(appends=[StreamAppend(RUN, [Draft(Noted(n=n), 1, "me")])], fence=fence)


def lease(holder: str = "me") -> LeaseRequest:
    return LeaseRequest(stream=RUN, holder=holder, now_us=1, ttl_us=1_000)


def test_a_batch_that_follows_a_lost_one_is_refused_until_the_lease_is_taken_anew(
    tmp_path: Path,
) -> None:
    disk = FullDisk()

    async def scenario() -> list[int]:
        store = SqliteStore(tmp_path / "s.db", (), fault=disk)
        receipt = await store.append(Batch(acquire=lease()))
        fence = Fence(stream=RUN, token=receipt.lease_token or 0)
        await store.append(noted(1, fence))
        disk.full = True
        with pytest.raises(StoreFull):
            await store.append(noted(2, fence))
        with pytest.raises(StoreUnavailable, match="earlier batch of run:r was lost"):
            await store.append(noted(3, fence))
        receipt = await store.append(Batch(acquire=lease()))
        again = Fence(stream=RUN, token=receipt.lease_token or 0)
        await store.append(noted(4, again))
        kept = [event.plain()["n"] for event in await store.read(RUN)]
        store.close()
        return kept

    assert asyncio.run(scenario()) == [1, 4]
