"""What was erased is in no byte of the file, its log or its free pages, and the file is not written anew."""

from __future__ import annotations

import asyncio
import random
import re
import sqlite3
from collections.abc import Awaitable, Callable, Generator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from artelier.errors import StoreLocked
from artelier.log import Batch, DataKey, Erasing, SqliteStore, erasure, make_blob
from artelier.log.blobs import Secret
from artelier.log.rows import contents
from artelier.log.sqlite import store as sqlite_store
from artelier.log.sqlite.connection import SqliteDatabase
from artelier.log.sqlite.store import open_connection
from artelier.testing.conformance.erasure import keep_content, key_id_of, record
from artelier.testing.conformance.view import TALLY
from tests.log.older_schemas import take_back

CANARY = re.compile(rb"[cvs]\d{6}")
"""Of content, a value or a subject, with its number."""


def canary(kind: str, number: int) -> str:
    return f"{kind}{number:06d}"


def bytes_of(path: Path) -> bytes:
    return b"".join(file.read_bytes() for file in path.parent.glob(f"{path.name}*"))


def times_written_anew(path: Path) -> int:
    """Return a number of the file's header that moves each time that the whole file is written."""
    with closing(sqlite3.connect(path)) as db:
        return db.execute("PRAGMA schema_version").fetchone()[0]


def tell(path: Path, story: Callable[[SqliteStore], Awaitable[None]]) -> None:
    async def scenario() -> None:
        store = SqliteStore(path, (TALLY,))
        try:
            await story(store)
        finally:
            store.close()

    asyncio.run(scenario())


class Persons:
    """Subjects with content and values, of whom some are erased."""

    def __init__(self, store: SqliteStore, seed: int) -> None:
        self.store, self._rng = store, random.Random(seed)
        self._made = 0
        self._alive: dict[int, DataKey] = {}
        self.erased: set[int] = set()

    async def add(self) -> None:
        number = self._made = self._made + 1
        rng, tenant = self._rng, "acme"
        key = self._alive[number] = await self.store.data_key(tenant, canary("s", number))
        word = canary("c", number).encode()
        blobs = list[bytes]()
        for _ in range(rng.randrange(1, 4)):
            size = rng.choice((rng.randrange(900), rng.randrange(900, 4_000), rng.randrange(30_000)))
            # In random bytes it is not compressed away.
            blobs.append(b"".join(rng.randbytes(40) + word for _ in range(1 + size // 47)))
        sealed = canary("v", number).encode() * rng.randrange(1, 30)
        value = Secret(tenant, f"<P{number}>", rng.randbytes(32), 0, key.key_id, sealed)
        made = [make_blob(tenant, key, content)[1] for content in blobs]
        await self.store.append(Batch(blobs=(made[0]._replace(vault=(value,)), *made[1:])))

    async def erase(self, count: int) -> None:
        for number in self._rng.sample(sorted(self._alive), min(count, len(self._alive))):
            key_id = self._alive.pop(number).key_id
            assert key_id is not None
            wanted = Erasing(tenant="acme", keys=(key_id,), placeholders=(f"<P{number}>",))
            await self.store.erase(wanted, record=record(wanted))
            self.erased.add(number)

    def found(self) -> set[int]:
        """Return the erased whose canary is in some byte."""
        return {int(one[1:]) for one in CANARY.findall(bytes_of(self.store.path))} & self.erased


@pytest.mark.parametrize("seed", range(4))
def test_many_erasures_leave_no_byte_and_do_not_write_the_file_anew(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)

    async def story(store: SqliteStore) -> None:
        persons = Persons(store, seed)
        await store.data_key("acme")
        anew = times_written_anew(store.path)
        for _ in range(12):
            for _ in range(rng.randrange(1, 40)):
                await persons.add()
            await persons.erase(rng.randrange(25))
            assert await store.shred(brief=True)
            assert persons.found() == set()
        assert len(persons.erased) > 50
        assert times_written_anew(store.path) == anew

    tell(tmp_path / "s.db", story)


@pytest.mark.parametrize("how", ("gc", "grow", "old"))
def test_where_rows_were_moved_the_file_is_written_anew_once(tmp_path: Path, how: str) -> None:
    path, persons = tmp_path / "s.db", list[Persons]()

    async def fill(store: SqliteStore) -> None:
        persons.append(Persons(store, 7))
        for _ in range(60):
            await persons[0].add()

    async def erase(store: SqliteStore) -> None:
        persons[0].store = store
        anew = times_written_anew(path)
        for _ in range(3):
            await persons[0].erase(5)
            assert await store.shred()
            assert persons[0].found() == set()
        assert times_written_anew(path) == anew + 1

    tell(path, fill)
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        if how == "gc":
            db.execute("DELETE FROM blobs WHERE rowid % 3 = 0")
        elif how == "grow":
            for change in ("content || content", "substr(content, 1, length(content) / 2)"):
                db.execute(f"UPDATE blobs SET content = CAST({change} AS BLOB) WHERE rowid % 3 = 0")
        else:
            take_back(db, 6)
    tell(path, erase)


@contextmanager
def counted_keys(path: Path) -> Generator[Callable[[], int]]:
    """Count the rows of keys that are written from here on."""
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("CREATE TABLE written(key_id)")
        db.execute(
            "CREATE TRIGGER count_written AFTER INSERT ON keys"
            " BEGIN INSERT INTO written VALUES (new.key_id); END"
        )
        yield lambda: db.execute("SELECT count(*) FROM written").fetchone()[0]
        db.execute("DROP TRIGGER count_written")
        db.execute("DROP TABLE written")


@pytest.mark.parametrize("is_moved", (False, True))
def test_an_erasure_writes_no_key_of_others_anew_unless_rows_were_moved(
    tmp_path: Path, is_moved: bool
) -> None:
    """With 440,000 keys, the deletion of two turns held all writers for 0.4 s."""

    async def story(store: SqliteStore) -> None:
        persons = Persons(store, 5)
        for _ in range(50):
            await persons.add()
        if is_moved:
            with closing(sqlite3.connect(store.path, isolation_level=None)) as db:
                db.execute("UPDATE keys SET secret = CAST(secret || secret AS BLOB) WHERE key_id % 3 = 0")
        with counted_keys(store.path) as count:
            for _ in range(3):
                await persons.erase(2)
                assert await store.shred(brief=True)
            # Each erasure moves the counter of keys by a row.
            assert count() == 6 + (52 if is_moved else 0)
        assert persons.found() == set()

    tell(tmp_path / "s.db", story)


def test_a_key_and_what_it_takes_with_it_are_found_without_passing_over_others(tmp_path: Path) -> None:
    steps = list[int]()

    async def story(store: SqliteStore) -> None:
        many = await store.data_key("many")
        await store.part_keys("many", many, count=3_000)
        blobs = [make_blob("many", many, b"%d" % n)[1] for n in range(3_000)]
        key = await store.data_key("acme", canary("s", 1))
        await store.append(Batch(blobs=(*blobs, make_blob("acme", key, b"content")[1])))
        assert key.key_id is not None
        with open_connection(store.path) as db:
            assert isinstance(db, SqliteDatabase)
            db.db.set_progress_handler(lambda: steps.append(1), 10)
            assert contents.find_key(db, "acme", [canary("s", 1)])
            assert contents.find_key(db, "acme", ()) is None
            assert contents.find_key(db, "many", ())
            db.begin()
            assert erasure.wipe(db, Erasing(tenant="acme", keys=(key.key_id,))).blobs == 1
            db.rollback()

    tell(tmp_path / "s.db", story)
    assert len(steps) < 100


def test_a_large_file_is_not_written_anew_beside_other_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_store, "ANEW_BYTES_MAX", 50_000)

    async def story(store: SqliteStore) -> None:
        persons = Persons(store, 3)
        for _ in range(40):
            await persons.add()
        await persons.erase(3)
        assert await store.shred(brief=True)
        with closing(sqlite3.connect(store.path)) as db, db:
            db.execute("DELETE FROM blobs WHERE rowid % 3 = 0")

        assert not await store.shred(brief=True)

        assert await store.shred(compact=True)
        assert await store.shred(brief=True)
        assert persons.found() == set()

    tell(tmp_path / "s.db", story)


def test_of_many_at_once_one_does_it_for_all(tmp_path: Path) -> None:
    instants = list[str]()

    async def story() -> None:
        store = SqliteStore(tmp_path / "s.db", (TALLY,), fault=instants.append)
        try:
            await keep_content(store, b"content", subject="anna")
            wanted = Erasing(tenant="acme", keys=(await key_id_of(store, "anna"),))
            await store.erase(wanted, record=record(wanted))
            assert all(await asyncio.gather(*(store.shred() for _ in range(12))))
        finally:
            store.close()

    asyncio.run(story())
    assert 1 <= instants.count("shred.before") <= 2


def test_writers_go_on_while_a_reader_holds_the_log(tmp_path: Path) -> None:
    """The log cannot be cut while somebody reads it; whoever writes then waits a moment at a time."""

    async def story(store: SqliteStore) -> None:
        await keep_content(store, b"content", subject="anna")
        with closing(sqlite3.connect(store.path, isolation_level=None)) as reader:
            reader.execute("BEGIN")
            reader.execute("SELECT count(*) FROM events").fetchone()
            await keep_content(store, b"later")
            waiting = asyncio.create_task(store.shred(timeout_s=3))
            written = 0
            while not waiting.done():
                await keep_content(store, f"content {written}".encode())
                written += 1
            with pytest.raises(StoreLocked):
                await waiting
        # Not at once after the end of the wait, as it would be if one long wait held the writers.
        assert written > 5

    tell(tmp_path / "s.db", story)
