"""What a flood of one tenant does to the others of an event loop: they run in between."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable
from pathlib import Path

from artelier.log import (
    Batch,
    Draft,
    EventData,
    Receipt,
    SqliteStore,
    Stream,
    StreamAppend,
    TenantTurns,
    event,
)
from artelier.log.rate_windows import AT_ONCE
from artelier.log.writer_queue import SHARED_ROWS_MAX, WriterJob, WriterQueue

FLOOD = 100


@event("tenantturns.noted")
class Noted(EventData, frozen=True, kw_only=True, omit_defaults=True):
    n: int


def noted(tenant: str, n: int) -> Batch:
    stream = Stream(tenant, "main", f"run:{n}")
    return Batch(appends=[StreamAppend(stream, [Draft(Noted(n=n), 1, "me")])])


async def counted_each_pass(count: list[str], most: int) -> list[int]:
    """Return by how much a list grew in each pass of the loop, until it has so many."""
    grew, before = list[int](), 0
    while len(count) < most:
        await asyncio.sleep(0)
        grew.append(len(count) - before)
        before = len(count)
    return grew


def test_a_tenant_has_a_few_turns_in_a_pass_and_all_of_them_in_its_order() -> None:
    async def scenario() -> tuple[list[int], list[str]]:
        turns, done = TenantTurns(), list[str]()

        async def one(tenant: str, number: int) -> None:
            await turns.take(tenant)
            done.append(f"{tenant}{number}")

        flood = [asyncio.ensure_future(one("a", number)) for number in range(FLOOD)]
        other = asyncio.ensure_future(one("b", 0))
        grew = await counted_each_pass(done, FLOOD + 1)
        await asyncio.gather(*flood, other)
        return grew, done

    grew, done = asyncio.run(scenario())

    assert max(grew) <= 2 * AT_ONCE
    assert done.index("b0") <= 2 * AT_ONCE
    assert [one for one in done if one != "b0"] == [f"a{number}" for number in range(FLOOD)]


def test_who_gives_up_while_he_waits_takes_no_turn_of_the_others() -> None:
    async def scenario() -> list[int]:
        turns, done = TenantTurns(), list[int]()

        async def one(number: int) -> None:
            await turns.take("a")
            done.append(number)

        tasks = [asyncio.ensure_future(one(number)) for number in range(3 * AT_ONCE)]
        await asyncio.sleep(0)
        tasks[2 * AT_ONCE].cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return done

    expected = [number for number in range(3 * AT_ONCE) if number != 2 * AT_ONCE]
    assert asyncio.run(scenario()) == expected


def test_a_commit_of_many_runs_wakes_a_few_of_each_tenant_in_a_pass(tmp_path: Path) -> None:
    async def scenario() -> tuple[list[int], list[str]]:
        store, done = SqliteStore(tmp_path / "s.db", ()), list[str]()

        async def one(tenant: str, waiting: Awaitable[Receipt]) -> None:
            await waiting
            done.append(tenant)

        try:
            tenants = [*["a"] * FLOOD, "b"]
            group = store.submit_all([noted(tenant, number) for number, tenant in enumerate(tenants)])
            tasks = [asyncio.ensure_future(one(*each)) for each in zip(tenants, group, strict=True)]
            grew = await counted_each_pass(done, len(tasks))
            await asyncio.gather(*tasks)
        finally:
            store.close()
        return grew, done

    grew, done = asyncio.run(scenario())

    assert max(grew) <= 2 * AT_ONCE
    assert done.index("b") <= 2 * AT_ONCE


def large(tenant: str, number: int) -> Batch:
    drafts = [Draft(Noted(n=number), 1, "me")] * (SHARED_ROWS_MAX + 1)
    return Batch(appends=[StreamAppend(Stream(tenant, "main", "run:large"), drafts)])


def test_a_batch_waits_for_one_large_batch_of_another_tenant_at_most(tmp_path: Path) -> None:
    async def scenario() -> list[Receipt]:
        store = SqliteStore(tmp_path / "s.db", ())
        try:
            asked = [
                *(large("a", number) for number in range(4)),
                *(noted("b", number) for number in range(4)),
            ]
            return await asyncio.gather(*store.submit_all(asked))
        finally:
            store.close()

    receipts = asyncio.run(scenario())

    size = SHARED_ROWS_MAX + 1
    assert [one.seqs for one in receipts[:4]] == [(size,), (2 * size,), (3 * size,), (4 * size,)]
    assert [one.position for one in receipts[4:]] == [size + 1, size + 2, size + 3, size + 4]


def test_the_batches_of_a_tenant_keep_their_order_among_those_of_others(tmp_path: Path) -> None:
    async def scenario() -> list[Receipt]:
        store = SqliteStore(tmp_path / "s.db", ())
        try:
            asked = [batch for number in range(9) for batch in (noted("a", number), large("a", number))]
            asked[4:4] = [noted("b", number) for number in range(700)]
            return await asyncio.gather(*store.submit_all(asked))
        finally:
            store.close()

    receipts = asyncio.run(scenario())

    others = [one.position for one in receipts[4:704]]
    own = [one.position for one in (*receipts[:4], *receipts[704:])]
    assert own == sorted(own)
    assert others == sorted(others)


def test_after_a_large_batch_small_ones_go_first_for_as_long_as_it_took() -> None:
    async def scenario() -> list[list[str]]:
        queue, taken = WriterQueue(), list[list[str]]()

        def take() -> list[WriterJob]:
            group = queue.take() or []
            taken.append([f"{job.tenant}{job.rows}" for job in group])
            return group

        queue.put([WriterJob(noted("b", 0), None), *(WriterJob(large("a", n), None) for n in range(3))])
        queue.end(take(), began_s=time.monotonic())
        queue.end(take(), began_s=time.monotonic() - 0.9)  # a long one, right after one of somebody else
        queue.put([WriterJob(noted("b", 1), None)])
        queue.end(take(), began_s=time.monotonic())
        queue.stop()
        take()
        return taken

    size = SHARED_ROWS_MAX + 1
    assert asyncio.run(scenario()) == [["b1"], [f"a{size}"], ["b1"], [f"a{size}"]]
