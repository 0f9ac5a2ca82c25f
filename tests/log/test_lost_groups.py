"""A group that is lost with a full disk takes with it what was queued to build on it."""

from __future__ import annotations

import asyncio
import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest

from artelier.errors import Exhausted, InvalidEvent, StoreFull, StoreUnavailable
from artelier.log import (
    Batch,
    Draft,
    EventData,
    Fence,
    LeaseRequest,
    SqliteStore,
    Stream,
    StreamAppend,
    Tx,
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


def test_a_batch_that_follows_a_lost_one_is_refused_until_the_lease_is_taken_anew(tmp_path: Path) -> None:
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


def test_a_batch_that_builds_on_a_refused_one_is_refused_and_what_stands_alone_is_not(tmp_path: Path) -> None:
    """Both were queued before the first was refused. Of the second alone, the log would have a hole."""

    def refuse(tx: Tx) -> None:
        raise InvalidEvent("a view refused a row")

    def poor(tx: Tx) -> None:
        raise Exhausted("the limit is reached")

    async def scenario() -> list[int]:
        store = SqliteStore(tmp_path / "s.db", ())
        receipt = await store.append(Batch(acquire=lease()))
        fence = Fence(stream=RUN, token=receipt.lease_token or 0)
        first, optional, second = (replace(noted(n, fence), builds=True) for n in (1, 2, 3))
        told = store.submit_all(
            [
                replace(optional, guard=poor, is_optional=True),
                replace(first, guard=refuse),
                second,
                noted(4, fence),
            ]
        )
        results = await asyncio.gather(*told, return_exceptions=True)
        assert [type(one) for one in results[:2]] == [Exhausted, InvalidEvent]
        assert isinstance(results[2], StoreUnavailable)
        receipt = await store.append(Batch(acquire=lease()))
        again = Fence(stream=RUN, token=receipt.lease_token or 0)
        await store.append(replace(noted(5, again), builds=True))
        kept = [event.plain()["n"] for event in await store.read(RUN)]
        store.close()
        return kept

    assert asyncio.run(scenario()) == [4, 5]


def test_what_a_limit_may_refuse_takes_nothing_with_it(tmp_path: Path) -> None:
    def poor(tx: Tx) -> None:
        raise Exhausted("the limit is reached")

    async def scenario() -> list[int]:
        store = SqliteStore(tmp_path / "s.db", ())
        receipt = await store.append(Batch(acquire=lease()))
        fence = Fence(stream=RUN, token=receipt.lease_token or 0)
        refused = replace(noted(1, fence), builds=True, is_optional=True, guard=poor)
        told = store.submit_all([refused, replace(noted(2, fence), builds=True)])
        results = await asyncio.gather(*told, return_exceptions=True)
        assert isinstance(results[0], Exhausted)
        kept = [event.plain()["n"] for event in await store.read(RUN)]
        store.close()
        return kept

    assert asyncio.run(scenario()) == [2]


def test_nobody_is_told_of_a_position_that_a_lost_group_would_have_had(tmp_path: Path) -> None:
    """Whoever was told of it did not look again when another commit took that position."""
    disk, told = FullDisk(), list[int]()

    async def scenario() -> None:
        other = SqliteStore(tmp_path / "s.db", ())
        store = SqliteStore(tmp_path / "s.db", (), fault=disk)
        store.listen(lambda position, abroad: told.append(position))
        await other.append(Batch(appends=[StreamAppend(RUN, [Draft(Noted(n=1), 1, "me")])]))
        disk.full = True
        elsewhere = Stream("acme", "main", "run:other")
        with pytest.raises(StoreFull):
            await store.append(Batch(appends=[StreamAppend(elsewhere, [Draft(Noted(n=2), 1, "me")])]))
        other.close()
        store.close()

    asyncio.run(scenario())
    assert set(told) == {1}
