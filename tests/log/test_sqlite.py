"""What SQLite alone can do to a store: full disks, locks, foreign files, dying processes."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import warnings
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path

import pytest

from artelier.errors import ArtelierError, CorruptStore, NewerSchema, StoreFull, StoreLocked, StoreUnavailable
from artelier.log import Batch, Receipt, SqliteStore, StreamAppend, make_blob, verify_store
from artelier.log.sqlite import connection
from artelier.testing.conformance.stage import batch, noted_draft, settle_all, stream
from artelier.testing.conformance.view import TALLY, total
from tests.log.older_schemas import take_back


def tell(path: Path, story: Callable[[SqliteStore], Awaitable[None]]) -> None:
    async def told() -> None:
        store = SqliteStore(path, (TALLY,))
        try:
            await story(store)
        finally:
            store.close()

    asyncio.run(told())


def test_concurrent_appends_share_commits(tmp_path: Path) -> None:
    async def story(store: SqliteStore) -> None:
        before = store.commits
        await asyncio.gather(*(store.append(batch(f"run:{n}", 1)) for n in range(200)))

        assert store.commits - before <= 20

    tell(tmp_path / "state.db", story)


def test_large_content_is_compressed_and_small_is_not(tmp_path: Path) -> None:
    async def story(store: SqliteStore) -> None:
        key = await store.data_key("acme")
        contents = (b"a" * 100, b"a" * 100_000, os.urandom(100_000))
        await store.append(Batch(blobs=[make_blob("acme", key, c)[1] for c in contents]))

        rows = await store.query("SELECT size, codec, length(content) FROM blobs ORDER BY rowid")
        assert rows[0] == (100, 0, 100)
        assert rows[1][1] == 1 and rows[1][2] < 1_000
        assert rows[2] == (100_000, 0, 100_000)

    tell(tmp_path / "state.db", story)


def test_a_full_disk_refuses_whole_batches_and_passes(tmp_path: Path) -> None:
    async def story(store: SqliteStore) -> None:
        await store.append(batch("run:a", 1))
        pages = store._write_db.execute("PRAGMA page_count").fetchone()[0]
        store._write_db.execute(f"PRAGMA max_page_count = {pages + 2}")
        key = await store.data_key("acme")
        _, blob = make_blob("acme", key, os.urandom(100_000))
        huge = Batch(appends=(StreamAppend(stream("run:a"), (noted_draft(5),)),), blobs=(blob,))

        results = await settle_all(store.submit_all([batch("run:b", 1), huge, batch("run:c", 1)]))

        assert {type(result) for result in results} == {StoreFull}
        assert (await store.head(stream("run:a")))[0] == 1
        assert await total(store, "run:a") == 1
        store._write_db.execute("PRAGMA max_page_count = 1000000")
        assert isinstance(await store.append(huge), Receipt)
        assert await store.blob("acme", blob.name) == blob.content
        assert (await store.root())[0] == 2

    tell(tmp_path / "state.db", story)


def test_a_file_that_may_not_grow_loses_nothing_that_was_confirmed(tmp_path: Path) -> None:
    """A real limit of the system, in a process of its own: writes fail half-way through a batch."""
    path = tmp_path / "state.db"
    code = f"""
import asyncio, os, resource, signal
from artelier.errors import StoreUnavailable
from artelier.log import Batch, SqliteStore, StreamAppend, make_blob
from artelier.testing.conformance.stage import noted_draft, stream
from artelier.testing.conformance.view import TALLY
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
async def main():
    store = SqliteStore({str(path)!r}, (TALLY,))
    key = await store.data_key("acme")
    resource.setrlimit(resource.RLIMIT_FSIZE, (600_000, resource.RLIM_INFINITY))
    confirmed, refused = 0, 0
    for n in range(40):
        blob = make_blob("acme", key, os.urandom(30_000))[1]
        part = StreamAppend(stream("run:a"), (noted_draft(1),))
        try:
            await store.append(Batch(appends=(part,), blobs=(blob,)))
            confirmed += 1
        except StoreUnavailable:
            refused += 1
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    await store.append(Batch(appends=(StreamAppend(stream("run:a"), (noted_draft(1),), confirmed),)))
    store.close()
    print(confirmed, refused)
asyncio.run(main())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    confirmed, refused = map(int, done.stdout.split())
    assert confirmed > 0 and refused > 0
    report = verify_store(path, (TALLY,))
    assert (report.findings, report.events, report.blobs) == ([], confirmed + 1, confirmed)


def test_a_locked_database_says_so_and_works_again_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "BUSY_TIMEOUT_S", 0.05)
    path = tmp_path / "state.db"

    async def story(store: SqliteStore) -> None:
        await store.append(batch("run:a", 1))
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        try:
            for _ in range(2):
                with pytest.raises(StoreLocked, match="locked by another process"):
                    await store.append(batch("run:a", 2, expected=1))
            assert (await store.head(stream("run:a")))[0] == 1  # readers do not wait
            with pytest.raises(StoreLocked):
                await store.data_key("acme")
        finally:
            other.execute("ROLLBACK")
            other.close()

        assert (await store.append(batch("run:a", 2, expected=1))).seqs == (2,)

    tell(path, story)


def test_a_writer_waits_for_another_process_that_is_quick(tmp_path: Path) -> None:
    path = tmp_path / "state.db"

    async def story(store: SqliteStore) -> None:
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        waiting = asyncio.ensure_future(store.append(batch("run:a", 1)))
        await asyncio.sleep(0.05)
        assert not waiting.done()
        other.execute("ROLLBACK")
        other.close()

        assert (await waiting).seqs == (1,)

    tell(path, story)


def _make_newer(path: Path) -> None:
    SqliteStore(path, (TALLY,)).close()
    db = sqlite3.connect(path)
    db.execute("PRAGMA user_version = 99")
    db.close()


def _make_foreign(path: Path) -> None:
    db = sqlite3.connect(path)
    db.execute("CREATE TABLE somebody_elses(x)")
    db.commit()
    db.close()


def _make_text(path: Path) -> None:
    path.write_text("Dear diary, " * 1000)


def _cut_in_half(path: Path) -> None:
    SqliteStore(path, (TALLY,)).close()
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2 + 100])


@pytest.mark.corrupts
@pytest.mark.parametrize(
    ("make", "error"),
    [
        (_make_newer, NewerSchema),
        (_make_foreign, CorruptStore),
        (_make_text, CorruptStore),
        (_cut_in_half, CorruptStore),
    ],
)
def test_what_is_no_store_of_ours_is_refused_and_left_as_it_was(
    tmp_path: Path, make: Callable[[Path], None], error: type[ArtelierError]
) -> None:
    path = tmp_path / "state.db"
    make(path)
    before = path.read_bytes()

    for _ in range(2):
        with pytest.raises(error):
            SqliteStore(path, (TALLY,))

    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["state.db"]


def test_a_place_that_cannot_hold_a_file_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for place in (tmp_path, tmp_path / "file" / "state.db", "/proc/nothing/state.db"):
        with pytest.raises(StoreUnavailable):
            SqliteStore(place, ())


def test_a_memory_store_leaves_nothing_behind(tmp_path: Path) -> None:
    store = SqliteStore(":memory:", (TALLY,))
    path = store.path
    assert path.exists()

    store.close()

    assert not path.parent.exists()


@pytest.mark.parametrize("point", ["commit.before", "commit.after"])
def test_an_error_around_the_commit_reaches_every_waiter_and_no_more(tmp_path: Path, point: str) -> None:
    armed = [False]

    def fault(here: str) -> None:
        if armed[0] and here == point:
            armed[0] = False
            raise OSError("the disk is gone")

    async def story() -> None:
        store = SqliteStore(tmp_path / "state.db", (TALLY,), fault=fault)
        heard: list[int] = []
        try:
            await store.append(batch("run:a", 1))
            store.listen(lambda position, abroad: heard.append(position))
            armed[0] = True
            waiting = store.submit_all([batch("run:a", 1), batch("run:b", 1)])
            results = await asyncio.gather(*waiting, return_exceptions=True)
            assert [type(result) for result in results] == [OSError, OSError]

            kept = 0 if point == "commit.before" else 1
            assert (await store.head(stream("run:a")))[0] == 1 + kept
            assert all(position <= 1 + 2 * kept for position in heard)
            receipt = await store.append(batch("run:a", 1, expected=1 + kept))
            assert receipt.position == 2 + 2 * kept
        finally:
            store.close()

    asyncio.run(story())


WRITER = """
import asyncio, sys
from artelier.log import SqliteStore
from artelier.testing.conformance.stage import batch
from artelier.testing.conformance.view import TALLY
async def main():
    store = SqliteStore(sys.argv[1], (TALLY,))
    print("open", flush=True)
    for n in range(10**6):
        receipt = await store.append(batch("run:" + sys.argv[2], 1, 1))
        print(receipt.seqs[0], flush=True)
asyncio.run(main())
"""


@pytest.mark.slow
def test_what_was_confirmed_survives_kill_9(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    for turn in range(3):
        process = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(path), "a"], stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(30 + turn)]
        process.send_signal(signal.SIGKILL)
        lines += process.stdout.read().split("\n")
        process.stdout.close()
        assert process.wait() == -signal.SIGKILL
        confirmed = max(int(line) for line in lines if line.strip().isdigit())

        async def story(store: SqliteStore, least: int = confirmed) -> None:
            seq, _ = await store.head(stream("run:a"))
            assert seq >= least and seq % 2 == 0
            assert await total(store, "run:a") == seq

        tell(path, story)
        assert verify_store(path, (TALLY,)).findings == []


def _in_a_fork(work: Callable[[], object]) -> None:
    """Do something in a forked process; it must end by itself, and well."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # threads are what this is about
        child = os.fork()
    if child == 0:
        code = 1
        try:
            signal.alarm(10)  # one that hangs is killed
            work()
            code = 0
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.parametrize("name", ["state.db", ":memory:"])
def test_a_fork_that_uses_its_parents_store_is_told_so_and_the_parent_goes_on(
    tmp_path: Path, name: str
) -> None:
    store = SqliteStore(name if name == ":memory:" else tmp_path / name, (TALLY,))

    async def refused() -> None:
        for use in (store.append(batch("run:a", 9)), store.data_key("new"), store.head(stream("run:a"))):
            with pytest.raises(StoreUnavailable, match="opened by the parent") as error:
                await use
            assert "spawn" in str(error.value.hint)
        with pytest.raises(StoreUnavailable, match="opened by the parent"):
            SqliteStore(store.path, (TALLY,))
        other = SqliteStore(tmp_path / "child.db", (TALLY,))
        await other.append(batch("run:c", 1))
        other.close()

    def in_child() -> None:
        asyncio.run(refused())
        store.close()
        store.close()

    async def append(*numbers: int) -> None:
        await store.append(batch("run:a", *numbers))

    asyncio.run(append(1, 2))
    with store._writer._queue._wake:  # pyright: ignore[reportPrivateUsage] - the worst moment to fork
        _in_a_fork(in_child)
    _in_a_fork(in_child)
    asyncio.run(append(3))
    assert verify_store(store.path, (TALLY,)).findings == []
    store.close()
    if name != ":memory:":
        _in_a_fork(lambda: SqliteStore(store.path, (TALLY,)).close())


_FORKS = """
import os, sys
from artelier.log import SqliteStore
store = SqliteStore(":memory:", ())
child = os.fork()
if child == 0:
    sys.exit(0)
os.waitpid(child, 0)
assert store.path.exists()
store.close()
assert not store.path.parent.exists()
"""


def test_a_fork_that_ends_takes_no_temporary_store_with_it() -> None:
    subprocess.run([sys.executable, "-c", _FORKS], check=True, timeout=30)


@pytest.mark.parametrize("turn", range(5))
def test_openers_of_a_fresh_file_at_once_share_it(tmp_path: Path, turn: int) -> None:
    path, start, failures = tmp_path / "state.db", threading.Barrier(6), list[BaseException]()

    def open_and_write() -> None:
        async def write(store: SqliteStore) -> None:
            for _ in range(3):
                await store.append(batch("run:x", 1))

        start.wait()
        try:
            tell(path, write)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=open_and_write) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert failures == []
    assert verify_store(path, (TALLY,)).events == 18


def _as_it_was(path: Path) -> None:
    """Take away what the fifth schema and those after it have brought."""
    with closing(sqlite3.connect(path)) as db:
        take_back(db, 4)


def test_an_older_store_lists_whose_its_events_are_commit_by_commit(tmp_path: Path) -> None:
    """Opening a large store waits for nothing; every commit lists some thousands of its events."""
    path = tmp_path / "s.db"

    async def fill(store: SqliteStore) -> None:
        for _ in range(4):
            for tenant in ("acme", "other"):
                events = [noted_draft(1) for _ in range(1_500)]
                await store.append(Batch(appends=[StreamAppend(stream("run:r", tenant=tenant), events)]))

    async def grow(store: SqliteStore) -> None:
        listed = list[int]()
        for n in range(4):
            await store.append(batch("run:late", n))
            listed += store.look("SELECT coalesce(max(last), 0) FROM tenant_positions")[0]
            own = await store.read_all(tenant="acme", limit=10_000)
            assert len(own) == 6_001 + n and all(one.stream.tenant == "acme" for one in own)
        assert listed == [5_000, 10_000, 12_003, 12_003]

    tell(path, fill)
    _as_it_was(path)
    assert verify_store(path, (TALLY,)).ok
    tell(path, grow)
    assert verify_store(path, (TALLY,)).ok


@pytest.mark.corrupts
@pytest.mark.parametrize(
    ("damage", "said"),
    [
        ("UPDATE tenant_positions SET tenant = 'other' WHERE first = 1", "position 1 is not of other"),
        ("UPDATE tenant_positions SET first = 2 WHERE first = 1", "position 1 is missing"),
        ("UPDATE tenant_positions SET last = last + 1", "is not of acme"),
    ],
)
def test_a_list_of_tenants_events_that_is_wrong_is_found(tmp_path: Path, damage: str, said: str) -> None:
    path = tmp_path / "s.db"

    async def fill(store: SqliteStore) -> None:
        await store.append(Batch(appends=[StreamAppend(stream("run:r"), [noted_draft(1)] * 600)]))

    tell(path, fill)
    assert verify_store(path, (TALLY,)).ok
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        assert db.execute(damage).rowcount == 1

    (finding,) = verify_store(path, (TALLY,)).findings
    assert finding.startswith("the list of tenants' events") and said in finding
