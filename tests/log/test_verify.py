"""Verification finds what was changed, removed, reordered or cut off, and names it."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from artelier.errors import ArtelierError, CorruptStore, NewerSchema, NotFound
from artelier.log import GENESIS, Batch, RawDraft, Report, SqliteStore, StreamAppend, make_blob, verify_store
from artelier.testing.conformance.stage import batch, noted_draft, stream
from artelier.testing.conformance.view import TALLY

Tamper = Callable[[sqlite3.Connection], object]


async def _fill(store: SqliteStore) -> None:
    """Three streams of two tenants in five commits, with content small and large."""
    key = await store.data_key("acme")
    small, large = make_blob("acme", key, b"small"), make_blob("acme", key, b"large " * 999)
    await store.append(
        Batch(
            appends=(
                StreamAppend(stream("run:a"), (noted_draft(1), noted_draft(2, content=small[0])), 0),
                StreamAppend(stream("run:b"), (noted_draft(3),), 0),
            ),
            blobs=(small[1], large[1]),
        )
    )
    await store.append(batch("run:a", 4, 5))
    await store.append(batch("run:c", 6, tenant="other"))
    await store.append(Batch(appends=(StreamAppend(stream("run:b"), (noted_draft(7, content=large[0]),)),)))
    await store.append(batch("run:a", 8))


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("original") / "state.db"
    store = SqliteStore(path, (TALLY,))
    try:
        asyncio.run(_fill(store))
    finally:
        store.close()
    return path


def check(path: Path, *, head: str | None = None) -> Report:
    return verify_store(path, (TALLY,), head=head)


def tampered(original: Path, folder: Path, *statements: str | Tamper) -> Path:
    """A copy of the store, changed by somebody who does not ask the log."""
    path = folder / "state.db"
    shutil.copyfile(original, path)
    db = sqlite3.connect(path, isolation_level=None)
    try:
        for statement in statements:
            changed = statement(db) if callable(statement) else db.execute(statement).rowcount
            assert changed != 0, f"nothing was changed by {statement}"
    finally:
        db.close()
    return path


def test_an_untouched_store_verifies_and_says_what_it_holds(original: Path) -> None:
    report = check(original)

    assert report.findings == []
    assert (report.events, report.streams, report.blobs, report.commits) == (8, 3, 2, 5)
    assert (report.views, report.unchecked) == (["conformance_tally"], [])
    assert report.truncation == "not excluded"


EVENT_2 = "WHERE position = 2"
CHANGES = [
    # -- events: the second of `run:a`, and the whole of its row
    (f"UPDATE events SET position = 99 {EVENT_2}", "position 2 is missing"),
    (f"UPDATE events SET stream = 99 {EVENT_2}", "event at position 2 belongs to no stream"),
    (f"UPDATE events SET stream = 3 {EVENT_2}", "acme/main/run:a: event 2 is missing"),
    (f"UPDATE events SET seq = 99 {EVENT_2}", "acme/main/run:a: event 2 is missing"),
    (f"UPDATE events SET kind = 'conformance.grown' {EVENT_2}", "run:a: event 2 (conformance.g"),
    (f"UPDATE events SET version = 2 {EVENT_2}", "run:a: event 2 (conformance.noted) is not what"),
    (f"UPDATE events SET data = '{{\"number\":9}}' {EVENT_2}", "run:a: event 2 (conformance.noted"),
    (f"UPDATE events SET data = 'no \"b:' {EVENT_2}", "acme/main/run:a: event 2 (conformance.noted"),
    (f"UPDATE events SET data = '' {EVENT_2}", "acme/main/run:a: event 2 (conformance.noted)"),
    (f"UPDATE events SET data = CAST(x'ff' AS TEXT) {EVENT_2}", "run:a: event 2 (conformance.note"),
    (f"UPDATE events SET at_us = at_us + 1 {EVENT_2}", "run:a: event 2 (conformance.noted) is not"),
    (f"UPDATE events SET actor = 'eve' {EVENT_2}", "run:a: event 2 (conformance.noted) is not what"),
    (f"UPDATE events SET actor = CAST(x'ff' AS TEXT) {EVENT_2}", "run:a: event 2 (conformance.note"),
    (f"UPDATE events SET cause = 'run:x@1' {EVENT_2}", "run:a: event 2 (conformance.noted) is not"),
    (f"UPDATE events SET hash = zeroblob(32) {EVENT_2}", "run:a: event 2 (conformance.noted) is not"),
    (f"UPDATE events SET hash = x'' {EVENT_2}", "run:a: event 2 (conformance.noted) is not what"),
    # the newest of all, which no later event holds in place
    ("UPDATE events SET actor = 'eve' WHERE position = 8", "run:a: event 5 (conformance.noted)"),
    ("UPDATE events SET hash = zeroblob(32) WHERE position = 8", "acme/main/run:a: event 5"),
    # -- events removed: first, middle, last
    ("DELETE FROM events WHERE position = 1", "acme/main/run:a: event 1 is missing"),
    (f"DELETE FROM events {EVENT_2}", "acme/main/run:a: event 2 is missing"),
    ("DELETE FROM events WHERE position = 8", "events up to position 8 were committed, 7 are there"),
    ("DELETE FROM events WHERE stream = 3", "other/main/run:c: every event of this stream is miss"),
    ("DELETE FROM events", "events up to position 8 were committed, 0 are there"),
    # -- streams
    ("UPDATE streams SET tenant = 'evil' WHERE id = 1", "commit of positions 1-3 does not match"),
    ("UPDATE streams SET space = 'world:w' WHERE id = 1", "commit of positions 1-3 does not match"),
    ("UPDATE streams SET name = 'run:z' WHERE id = 1", "acme/main/run:z: event 1"),
    ("UPDATE streams SET name = CAST(x'ff' AS TEXT) WHERE id = 1", "event 1 (conformance.noted)"),
    ("UPDATE streams SET id = 99 WHERE id = 3", "event at position 6 belongs to no stream"),
    ("DELETE FROM streams WHERE id = 3", "event at position 6 belongs to no stream"),
    ("INSERT INTO streams VALUES (9, 'acme', 'main', 'run:q')", "acme/main/run:q: every event of"),
    # -- commits
    ("UPDATE commits SET first_position = 5 WHERE first_position = 4", "commit row for position 4"),
    ("UPDATE commits SET last_position = 4 WHERE first_position = 4", "positions 4-4 does not match"),
    ("UPDATE commits SET last_position = 6 WHERE first_position = 4", "positions 4-6 does not match"),
    ("UPDATE commits SET last_position = 9 WHERE first_position = 8", "up to position 9 were commit"),
    ("UPDATE commits SET root = zeroblob(32) WHERE first_position = 4", "positions 4-5 does not mat"),
    ("UPDATE commits SET root = zeroblob(32) WHERE first_position = 8", "positions 8-8 does not mat"),
    ("DELETE FROM commits WHERE first_position = 1", "the commit row for position 1 is missing"),
    ("DELETE FROM commits WHERE first_position = 4", "the commit row for position 4 is missing"),
    ("DELETE FROM commits WHERE first_position = 8", "events after position 7 belong to no commit"),
    ("DELETE FROM commits", "events after position 0 belong to no commit"),
    ("INSERT INTO commits VALUES (9, 9, zeroblob(32))", "commit of positions 9-9 does not match"),
    # -- blobs
    ("UPDATE blobs SET tenant = 'other' WHERE rowid = 1", "event 2 names content that is missing"),
    ("UPDATE blobs SET name = zeroblob(32) WHERE rowid = 1", "is not what was written"),
    ("UPDATE blobs SET key_id = NULL WHERE rowid = 1", "of acme is not what was written"),
    ("UPDATE blobs SET key_id = 99 WHERE rowid = 1", "there never was a key 99"),
    ("UPDATE blobs SET key_id = -1 WHERE rowid = 1", "there never was a key -1"),
    ("UPDATE blobs SET codec = 1 WHERE rowid = 1", "cannot be decompressed"),
    ("UPDATE blobs SET codec = 0 WHERE rowid = 2", "of acme: a blob has the wrong size"),
    ("UPDATE blobs SET codec = 7 WHERE rowid = 1", "of acme: unknown blob codec"),
    ("UPDATE blobs SET size = size + 1 WHERE rowid = 1", "of acme: a blob has the wrong size"),
    ("UPDATE blobs SET size = size + 1 WHERE rowid = 2", "of acme: a blob has the wrong size"),
    ("UPDATE blobs SET size = size - 1 WHERE rowid = 2", "of acme: a blob has the wrong size"),
    ("UPDATE blobs SET size = -5 WHERE rowid = 2", "of acme: a blob cannot be decompressed"),
    ("UPDATE blobs SET size = 9223372036854775807 WHERE rowid = 2", "a blob cannot be decompressed"),
    ("UPDATE blobs SET content = x'78' WHERE rowid = 1", "of acme: a blob has the wrong size"),
    ("UPDATE blobs SET content = x'736d616c6d' WHERE rowid = 1", "of acme is not what was written"),
    ("UPDATE blobs SET content = x'00ff' WHERE rowid = 2", "a blob cannot be decompressed"),
    ("DELETE FROM blobs WHERE rowid = 1", "run:a: event 2 names content that is missing: b:"),
    ("DELETE FROM blobs WHERE rowid = 2", "run:b: event 2 names content that is missing: b:"),
    ("UPDATE keys SET secret = zeroblob(32)", "of acme is not what was written"),
    # -- views
    ("UPDATE conformance_tallies SET tenant = 'x' WHERE stream = 'run:a'", "conformance_tallies dif"),
    ("UPDATE conformance_tallies SET stream = 'x' WHERE stream = 'run:a'", "conformance_tallies dif"),
    ("UPDATE conformance_tallies SET events = 9 WHERE stream = 'run:a'", "conformance_tallies diffe"),
    ("UPDATE conformance_tallies SET total = 9 WHERE stream = 'run:a'", "conformance_tallies differ"),
    ("DELETE FROM conformance_tallies WHERE stream = 'run:c'", "conformance_tallies lacks a row"),
    ("DELETE FROM conformance_tallies WHERE stream = 'run:a'", "conformance_tallies differs from"),
    ("INSERT INTO conformance_tallies VALUES ('z', 'z', 1, 1)", "conformance_tallies has an extra"),
    ("DROP TABLE conformance_tallies", "table conformance_tallies is missing"),
    ("ALTER TABLE conformance_tallies ADD COLUMN x", "conformance_tallies has other columns"),
    ("ALTER TABLE conformance_tallies RENAME COLUMN total TO x", "conformance_tallies has other"),
]


@pytest.mark.corrupts
@pytest.mark.parametrize(("statement", "finding"), CHANGES)
def test_a_changed_or_removed_row_is_found_and_named(
    original: Path, tmp_path: Path, statement: str, finding: str
) -> None:
    """Hole 12."""
    report = check(tampered(original, tmp_path, statement))

    assert any(finding in text for text in report.findings), report.findings


def _swap(table: str, columns: str, one: int, two: int) -> Tamper:
    """Exchange some columns of two rows, whatever unique index stands in between."""

    def swap(db: sqlite3.Connection) -> int:
        read = f"SELECT {columns} FROM {table} WHERE rowid = ?"
        values = [db.execute(read, (row,)).fetchone() for row in (one, two)]
        names = columns.split(", ")
        assign = ", ".join(f"{name} = ?" for name in names)
        park = {"seq": -1, "position": -1, "first_position": -1, "name": b"", "stream": 77}
        parked = [park.get(name, value) for name, value in zip(names, values[0], strict=True)]
        for row, new in ((one, parked), (two, values[0])):
            db.execute(f"UPDATE {table} SET {assign} WHERE rowid = ?", (*new, row))
        row = -1 if names[0] in ("position", "first_position") else one
        return db.execute(f"UPDATE {table} SET {assign} WHERE rowid = ?", (*values[1], row)).rowcount

    return swap


WHOLE = "stream, seq, kind, version, data, at_us, actor, cause, hash"
SWAPS = [
    (_swap("events", "data", 1, 2), "run:a: event 1 (conformance.noted) is not what was written"),
    (_swap("events", "data, hash", 1, 2), "run:a: event 1 (conformance.noted) is not what was"),
    (_swap("events", "hash", 1, 3), "acme/main/run:a: event 1 (conformance.noted) is not what"),
    (_swap("events", "seq", 4, 5), "acme/main/run:a: event 3 is missing or out of order"),
    (_swap("events", WHOLE, 4, 5), "acme/main/run:a: event 3 is missing or out of order"),
    # Whole rows of different streams: each chain still holds, the order of the commit does not.
    (_swap("events", WHOLE, 2, 3), "the commit of positions 1-3 does not match its events"),
    (_swap("events", WHOLE, 6, 7), "the commit of positions 6-6 does not match its events"),
    (_swap("commits", "root", 4, 8), "the commit of positions 4-5 does not match its events"),
    (_swap("blobs", "content", 1, 2), "of acme: a blob has the wrong size"),
    (_swap("blobs", "codec, size, content", 1, 2), "is not what was written"),
    (_swap("blobs", "name", 1, 2), "is not what was written"),
]


@pytest.mark.corrupts
@pytest.mark.parametrize(("swap", "finding"), SWAPS)
def test_reordered_rows_are_found_and_named(
    original: Path, tmp_path: Path, swap: Tamper, finding: str
) -> None:
    report = check(tampered(original, tmp_path, swap))

    assert any(finding in text for text in report.findings), report.findings


CUT_OFF = (
    "DELETE FROM events WHERE position = 8",
    "DELETE FROM commits WHERE first_position = 8",
    "UPDATE conformance_tallies SET events = 4, total = 12 WHERE stream = 'run:a'",
)
"""The newest commit, so that nothing left behind tells of it."""


def test_a_cut_off_end_is_found_with_a_head_and_not_excluded_without(original: Path, tmp_path: Path) -> None:
    """Hole 12."""
    head = check(original).head
    path = tampered(original, tmp_path, *CUT_OFF)

    without, given = check(path), check(path, head=head)

    assert (without.findings, without.truncation) == ([], "not excluded")
    assert (given.ok, given.truncation) == (False, "not excluded")
    assert f"the given head {head} is not in this database" in given.findings[0]


def test_an_older_head_excludes_truncation_of_what_it_covers(original: Path, tmp_path: Path) -> None:
    older = check(tampered(original, tmp_path, *CUT_OFF)).head

    for head in (older, check(original).head, GENESIS.hex()):
        report = check(original, head=head)
        assert (report.findings, report.truncation) == ([], "excluded")


@pytest.mark.parametrize("head", ["", "x", "00", "ff" * 32, "é"])
def test_a_head_that_never_was_is_a_finding(original: Path, head: str) -> None:
    assert not check(original, head=head).ok


def test_an_event_of_another_version_is_verified_and_its_views_are_named(tmp_path: Path) -> None:
    path = tmp_path / "state.db"

    async def fill(store: SqliteStore) -> None:
        unknown = RawDraft("conformance.unknown", 7, b'{"a":1}', 0, "tester")
        await store.append(Batch(appends=(StreamAppend(stream("run:a"), (unknown, noted_draft(1))),)))

    store = SqliteStore(path, (TALLY,))
    asyncio.run(fill(store))
    store.close()

    report = check(path)
    assert (report.findings, report.events, report.views) == ([], 2, [])
    assert report.unchecked == ["view conformance_tally: unknown event conformance.unknown version 7"]


@pytest.mark.corrupts
def test_an_event_that_does_not_fit_its_own_schema_is_a_finding(tmp_path: Path) -> None:
    """A programmer's mistake, since drafts are not checked: the views can never be rebuilt."""
    path = tmp_path / "state.db"

    async def fill(store: SqliteStore) -> None:
        await store.append(batch("run:a", True))

    store = SqliteStore(path, (TALLY,))
    asyncio.run(fill(store))
    store.close()

    assert "does not fit its schema" in check(path).findings[0]


@pytest.mark.corrupts
@pytest.mark.parametrize(
    ("statement", "named"),
    [
        ("DROP INDEX events_by_stream", "table events lacks the index events_by_stream"),
        ("DROP INDEX blobs_by_name", "table blobs lacks the index blobs_by_name"),
        (
            "DROP INDEX events_by_stream; CREATE INDEX events_by_stream ON events(stream, seq)",
            "table events: the index events_by_stream is not as it was made",
        ),
        (
            "CREATE TRIGGER quiet AFTER INSERT ON events BEGIN SELECT 1; END",
            "table events has a foreign trigger quiet",
        ),
        ("CREATE UNIQUE INDEX one ON events(at_us, position)", "table events has a foreign index one"),
        ("ALTER TABLE events ADD COLUMN more TEXT", "table events: the table events is not as it was made"),
        ("DROP TABLE conformance_tallies", "table conformance_tallies is missing"),
    ],
)
def test_a_changed_schema_is_found_and_named(
    original: Path, tmp_path: Path, statement: str, named: str
) -> None:
    path = tampered(original, tmp_path, lambda db: db.executescript(statement))

    findings = check(path).findings

    assert any(named in finding for finding in findings), findings


@pytest.mark.corrupts
@pytest.mark.parametrize("table", ["commits", "blobs", "keys", "view_versions"])
def test_a_store_that_lacks_a_table_of_the_log_is_corrupt(original: Path, tmp_path: Path, table: str) -> None:
    path = tampered(original, tmp_path, lambda db: db.executescript(f"DROP TABLE {table}"))

    with pytest.raises(CorruptStore, match=table):
        check(path)


def test_tables_that_no_view_owns_are_named(original: Path, tmp_path: Path) -> None:
    path = tampered(original, tmp_path, "CREATE TABLE stray(x)")

    assert check(path).unchecked == ["stray"]
    assert "conformance_tallies" in verify_store(original, ()).unchecked


def test_content_that_looks_like_a_reference_is_no_damage(tmp_path: Path) -> None:
    path = tmp_path / "state.db"

    async def fill(store: SqliteStore) -> None:
        odd = RawDraft("conformance.unknown", 1, b'{"a":"b:' + b"*" * 43 + b'"}', 0, "tester")
        await store.append(Batch(appends=(StreamAppend(stream("run:a"), (odd,)),)))

    store = SqliteStore(path, ())
    asyncio.run(fill(store))
    store.close()

    assert verify_store(path, ()).findings == []


@pytest.mark.corrupts
def test_an_index_that_disagrees_with_its_table_is_found(original: Path, tmp_path: Path) -> None:
    """Reads go through indexes: a lie there shows other events than the chain holds."""

    def forge(db: sqlite3.Connection) -> int:
        page = db.execute("SELECT rootpage FROM sqlite_master WHERE name = 'events_by_stream'")
        forged = db.execute("SELECT rootpage FROM sqlite_master WHERE name = 'commits'")
        pages = (page.fetchone()[0], forged.fetchone()[0])
        size = db.execute("PRAGMA page_size").fetchone()[0]
        path = db.execute("PRAGMA database_list").fetchone()[2]
        with open(path, "r+b") as file:
            file.seek((pages[0] - 1) * size)
            index = bytearray(file.read(size))
            cell = int.from_bytes(index[8:10], "big")
            index[cell + 4] ^= 2  # one key of the index, nothing of the table
            file.seek((pages[0] - 1) * size)
            file.write(index)
        return 1

    report = check(tampered(original, tmp_path, forge))

    assert any("events_by_stream" in text for text in report.findings), report.findings


@given(data=st.data())
@pytest.mark.corrupts
def test_a_flipped_bit_is_found_or_changes_nothing(
    original: Path, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    content = bytearray(original.read_bytes())
    place = data.draw(st.integers(0, len(content) - 1), label="byte")
    content[place] ^= 1 << data.draw(st.integers(0, 7), label="bit")
    path = tmp_path_factory.mktemp("flipped") / "state.db"
    path.write_bytes(content)

    try:
        report = check(path)
    except ArtelierError:
        return
    if report.ok and not report.unchecked:
        assert _all_rows(path) == _all_rows(original)


def _all_rows(path: Path) -> list[list[tuple[object, ...]]]:
    db = sqlite3.connect(path)
    try:
        tables = ("streams", "events", "commits", "blobs", "conformance_tallies")
        return [db.execute(f"SELECT * FROM {table} ORDER BY 1, 2").fetchall() for table in tables]
    finally:
        db.close()


@pytest.mark.corrupts
def test_what_is_no_store_is_a_clear_error(original: Path, tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        check(tmp_path / "missing.db")
    with pytest.raises(NotFound):
        check(tmp_path)
    empty, text = tmp_path / "empty.db", tmp_path / "text.db"
    empty.write_bytes(b"")
    text.write_text("not a database " * 100)
    for path in (empty, text):
        with pytest.raises(CorruptStore):
            check(path)
    with pytest.raises(NewerSchema):
        check(tampered(original, tmp_path, "PRAGMA user_version = 99"))


def test_verifying_writes_nothing(original: Path) -> None:
    before = original.read_bytes()

    check(original)

    assert original.read_bytes() == before
