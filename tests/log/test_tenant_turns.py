"""What a flood of one tenant does to the others of an event loop: they run in between."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path
from time import sleep

import pytest

from artelier.errors import Conflict
from artelier.log import (
    Batch,
    Draft,
    Erasing,
    EventData,
    LeaseEnd,
    Receipt,
    SqliteStore,
    Stream,
    StreamAppend,
    TenantTurns,
    Wiped,
    erasure,
    event,
    writer_queue,
)
from artelier.log.database import Database
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


@pytest.mark.parametrize("group_s", (writer_queue.GROUP_S, 0.0), ids=("together", "one by one"))
def test_a_batch_of_two_tenants_keeps_its_place_among_the_batches_of_both(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, group_s: float
) -> None:
    """The batches of the second tenant overtook it: an event stood before one that was appended earlier."""
    monkeypatch.setattr(writer_queue, "GROUP_S", group_s)

    async def scenario() -> list[Receipt]:
        store = SqliteStore(tmp_path / "s.db", ())
        try:
            both = Batch(appends=[*noted("a", 2).appends, *noted("b", 2).appends])
            asked = [noted("b", 0), noted("a", 0), noted("a", 1), both, noted("b", 3), noted("a", 3)]
            return await asyncio.gather(*store.submit_all(asked))
        finally:
            store.close()

    positions = [one.position for one in asyncio.run(scenario())]

    assert positions[0] < positions[3] < positions[4]
    assert positions[1] < positions[2] < positions[3] < positions[5]


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


def told_while_the_writer_waits(
    path: Path, ask: Callable[[SqliteStore], Sequence[Awaitable[object]]], *, gate: threading.Event
) -> list[int]:
    """Return the numbers of questions in the order of their answers; the writer stands until then."""

    async def scenario() -> list[int]:
        store, told = SqliteStore(path, ()), list[int]()

        async def one(number: int, answer: Awaitable[object]) -> None:
            await answer
            told.append(number)

        def wait(tx: object) -> None:
            assert gate.wait(30)

        try:
            standing = asyncio.ensure_future(store.append(Batch(guard=wait)))
            await asyncio.sleep(0)
            tasks = [asyncio.create_task(one(*each)) for each in enumerate(ask(store))]
            await asyncio.sleep(0)
            gate.set()
            await asyncio.gather(standing, *tasks)
        finally:
            store.close()
        return told

    return asyncio.run(scenario())


@pytest.mark.parametrize("is_refused", (False, True))
def test_a_group_ends_when_its_time_is_over_and_the_rest_keeps_its_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_refused: bool
) -> None:
    monkeypatch.setattr(writer_queue, "GROUP_S", 0.0)
    commits = list[int]()

    async def scenario() -> list[Receipt]:
        store, gate = SqliteStore(tmp_path / "s.db", ()), threading.Event()

        def wait(tx: object) -> None:
            assert gate.wait(30)
            if is_refused:
                raise Conflict("refused")

        try:
            standing = asyncio.ensure_future(store.append(Batch(guard=wait)))
            asked = [
                *(noted("a", number) for number in range(3)),
                *(noted("b", number) for number in range(3)),
            ]
            group = store.submit_all(asked)
            await asyncio.sleep(0)
            gate.set()
            with suppress(Conflict):
                await standing
            receipts = await asyncio.gather(*group)
            commits.append(store.commits)
            return receipts
        finally:
            store.close()

    receipts = asyncio.run(scenario())

    assert commits == [7]
    assert [one.position for one in receipts] == [1, 3, 5, 2, 4, 6]


def test_what_a_tenant_asks_the_writer_does_not_stand_before_a_sign_of_life(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer_queue, "GROUP_S", 0.0)

    def ask(store: SqliteStore) -> list[Awaitable[object]]:
        return [*(store.gone_key("a") for _ in range(9)), store.renew("me", until=LeaseEnd(1, 1))]

    assert told_while_the_writer_waits(tmp_path / "s.db", ask, gate=threading.Event()).index(9) <= 1


def test_an_erasure_is_measured_while_the_writer_is_at_work(tmp_path: Path) -> None:
    """It only reads; one that waited for the writer would hold it up for as long as it counts."""

    async def scenario() -> bool:
        store, gate = SqliteStore(tmp_path / "s.db", ()), threading.Event()

        def wait(tx: object) -> None:
            gate.wait(10)

        try:
            standing = asyncio.ensure_future(store.append(Batch(guard=wait)))
            await asyncio.sleep(0)
            await asyncio.gather(*(store.measure(Erasing(tenant="a", whole=True)) for _ in range(20)))
            is_standing = not standing.done()
            gate.set()
            await standing
            return is_standing
        finally:
            store.close()

    assert asyncio.run(scenario())


def test_erasures_of_a_tenant_are_measured_one_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_once, most = list[str](), list[int]()

    def measure(db: Database, wanted: Erasing) -> Wiped:
        at_once.append(wanted.tenant)
        most.append(at_once.count(wanted.tenant))
        sleep(0.001)
        at_once.remove(wanted.tenant)
        return Wiped()

    monkeypatch.setattr(erasure, "measure", measure)

    async def scenario() -> None:
        store = SqliteStore(tmp_path / "s.db", ())
        try:
            await asyncio.gather(*(store.measure(Erasing(tenant=tenant)) for tenant in "ab" * 20))
        finally:
            store.close()

    asyncio.run(scenario())
    assert len(most) == 40 and max(most) == 1
