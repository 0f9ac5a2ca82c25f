"""`verify` holds what is gone against what the erasure events say: no more is gone, and no less."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from artelier.app import VIEWS
from artelier.cli import main
from artelier.log import Report, erasure, verify_store
from artelier.log.blobs import Erasing, Wiped
from artelier.log.event import GENESIS, commit_root, event_hash
from artelier.log.sqlite.connection import SqliteDatabase
from tests.erasure.test_subjects import KEY, SEALED, WORDS, opened, serve
from tests.kernel.stage import play

ANA, BEN = "customer-ana", "customer-ben"
Tamper = Callable[[sqlite3.Connection], object]


def served(folder: Path, environ: dict[str, str], *, erase: str | None = ANA) -> str:
    """Make a database with two subjects, of whom one is erased; the head before that."""
    heads: list[str] = []

    async def scenario() -> None:
        with opened(folder, environ) as kernel:
            desk = kernel.for_tenant("acme")
            await serve(desk, "of-ana", WORDS[0], subject=ANA)
            await serve(desk, "of-ben", WORDS[1], subject=BEN)
            await serve(desk, "of-nobody", "quartz")
            heads.append(await kernel.head())
            if erase is not None:
                await desk.erase(subject=erase, by="user:eva")

    play(scenario())
    return heads[0]


def checked(folder: Path, tamper: Tamper, *, head: str | None = None) -> Report:
    with closing(sqlite3.connect(folder / "s.db", isolation_level=None)) as db:
        tamper(db)
    return verify_store(folder / "s.db", VIEWS, head=head)


def key_of(db: sqlite3.Connection, run: str) -> int:
    [(key_id,)] = db.execute(
        "SELECT k.key_id FROM keyed k JOIN runs r ON r.id = k.run WHERE r.run = ?", (run,)
    )
    return key_id


def drop_key(db: sqlite3.Connection, run: str) -> None:
    db.execute("DELETE FROM keys WHERE key_id = ?", (key_of(db, run),))


def erase_quietly(db: sqlite3.Connection, run: str) -> None:
    """What an erasure does, without the event."""
    key_id = key_of(db, run)
    db.execute("UPDATE blobs SET content = x'', codec = 4 WHERE key_id = ?", (key_id,))
    db.execute("DELETE FROM keys WHERE key_id = ?", (key_id,))


def chain_again(db: sqlite3.Connection) -> None:
    """Make all chains and commits fit the events, as a forger would."""
    heads: dict[int, bytes] = {}
    hashes: list[tuple[bytes, bytes]] = []
    rows = db.execute(
        "SELECT e.position, e.stream, s.tenant || '/' || s.space || '/' || s.name, s.name, e.seq,"
        " e.kind, e.version, e.data, e.at_us, e.actor, e.cause FROM events e"
        " JOIN streams s ON s.id = e.stream ORDER BY e.position"
    ).fetchall()
    for position, stream, name, local, seq, kind, version, data, at_us, actor, cause in rows:
        heads[stream] = event_hash(
            heads.get(stream, GENESIS),
            stream=local,
            seq=seq,
            kind=kind,
            version=version,
            data=data.encode(),
            at_us=at_us,
            actor=actor,
            cause=cause,
        )
        hashes.append((heads[stream], name.encode()))
        db.execute("UPDATE events SET hash = ? WHERE position = ?", (heads[stream], position))
    db.execute("DELETE FROM commits")
    db.execute("INSERT INTO commits VALUES (1, ?, ?)", (len(rows), commit_root(GENESIS, hashes)))


def reword_erasure(db: sqlite3.Connection, **fields: object) -> None:
    """Change what the erasure event says, with all chains made to fit."""
    [(position, data)] = db.execute(
        "SELECT position, data FROM events WHERE kind = 'content.erased'"
    ).fetchall()
    said = {**json.loads(data), **fields}
    kept = {name: value for name, value in sorted(said.items()) if value is not None}
    text = json.dumps(kept, separators=(",", ":"))
    db.execute("UPDATE events SET data = ? WHERE position = ?", (text, position))
    chain_again(db)


@SEALED
def test_verify_accepts_an_erasure_of_a_subject_and_of_all(tmp_path: Path, environ: dict[str, str]) -> None:
    head = served(tmp_path, environ)

    async def all_of_it() -> None:
        with opened(tmp_path, environ) as kernel:
            assert kernel.verify().ok
            await kernel.for_tenant("acme").erase()
            await serve(kernel.for_tenant("acme"), "afterwards", "quartz")

    play(all_of_it())
    report = checked(tmp_path, lambda db: None, head=head)

    assert report.findings == [] and report.truncation == "excluded"
    assert not [text for text in report.unchecked if "older version" in text]


@pytest.mark.corrupts
@SEALED
def test_verify_finds_a_key_that_was_deleted_by_hand(tmp_path: Path, environ: dict[str, str]) -> None:
    served(tmp_path, environ)

    report = checked(tmp_path, lambda db: drop_key(db, "of-ben"))

    assert [text for text in report.findings if "no erasure names it" in text]


@pytest.mark.corrupts
@SEALED
def test_verify_finds_an_erasure_that_nobody_recorded(tmp_path: Path, environ: dict[str, str]) -> None:
    served(tmp_path, environ, erase=None)

    report = checked(tmp_path, lambda db: erase_quietly(db, "of-ben"))

    assert [text for text in report.findings if "no erasure names it" in text]


@pytest.mark.corrupts
def test_verify_finds_an_erasure_that_reaches_further_than_it_says(tmp_path: Path) -> None:
    served(tmp_path, KEY)

    report = checked(tmp_path, lambda db: reword_erasure(db, keys=[]))

    assert [text for text in report.findings if "no erasure names it" in text]


@pytest.mark.corrupts
def test_verify_finds_an_event_that_names_a_key_which_is_there(tmp_path: Path) -> None:
    served(tmp_path, KEY)

    def forge(db: sqlite3.Connection) -> None:
        reword_erasure(db, keys=[key_of(db, "of-ana"), key_of(db, "of-ben")])

    report = checked(tmp_path, forge)

    assert [text for text in report.findings if "and it is here" in text]


@pytest.mark.corrupts
def test_verify_finds_a_forged_erasure_of_all_that_would_cover_a_lost_key(tmp_path: Path) -> None:
    served(tmp_path, KEY)

    def forge(db: sqlite3.Connection) -> None:
        reword_erasure(db, whole=True, upto_key=key_of(db, "of-ben"))
        drop_key(db, "of-ben")

    report = checked(tmp_path, forge)

    assert [text for text in report.findings if "and it is here" in text]  # the tenant's own key


@pytest.mark.corrupts
def test_verify_finds_a_reworded_erasure_by_a_head_from_before(tmp_path: Path) -> None:
    served(tmp_path, KEY)

    async def later() -> str:
        with opened(tmp_path, KEY) as kernel:
            return await kernel.head()

    head: list[str] = []

    async def keep() -> None:
        head.append(await later())

    play(keep())

    def forge(db: sqlite3.Connection) -> None:
        erase_quietly(db, "of-ben")
        reword_erasure(db, keys=[key_of(db, "of-ana"), key_of(db, "of-ben")])

    assert not [text for text in checked(tmp_path, forge).findings if "key" in text]
    report = verify_store(tmp_path / "s.db", VIEWS, head=head[0])
    assert [text for text in report.findings if "is not in this database" in text]


@pytest.mark.corrupts
def test_verify_finds_content_that_was_only_said_to_be_erased(tmp_path: Path) -> None:
    served(tmp_path, {}, erase=None)
    contents: list[tuple[object, ...]] = []

    def look(db: sqlite3.Connection) -> None:
        contents.extend(
            db.execute("SELECT codec, content, name FROM blobs WHERE key_id = ?", (key_of(db, "of-ana"),))
        )

    checked(tmp_path, look)

    async def erase() -> None:
        with opened(tmp_path, {}) as kernel:
            await kernel.for_tenant("acme").erase(subject=ANA)

    play(erase())
    report = checked(
        tmp_path,
        lambda db: db.executemany("UPDATE blobs SET codec = ?, content = ? WHERE name = ?", contents),
    )

    assert [text for text in report.findings if "its content is still in the file" in text]


@pytest.mark.corrupts
def test_verify_finds_a_value_that_the_vault_has_lost(tmp_path: Path) -> None:
    served(tmp_path, KEY)

    def lose(db: sqlite3.Connection) -> None:
        db.execute("INSERT INTO vault VALUES ('acme', '<EMAIL_AAAAAA>', x'01', 0, 1, NULL)")

    report = checked(tmp_path, lose)

    assert [text for text in report.findings if "has lost 1 values" in text]


@pytest.mark.corrupts
def test_an_erasure_by_an_older_version_is_counted_as_unchecked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its event has no `upto_key`: what a whole tenant's reached is not known, what it named is."""
    served(tmp_path, KEY)

    def of_subject(db: sqlite3.Connection) -> None:
        reword_erasure(db, upto_key=None)

    def of_all(db: sqlite3.Connection) -> None:
        for run in ("of-ben",):
            erase_quietly(db, run)
        reword_erasure(db, upto_key=None, whole=True)

    assert not [text for text in checked(tmp_path, of_subject).findings if "key" in text]
    report = checked(tmp_path, of_all)

    assert not [text for text in report.findings if "key" in text]
    assert [text for text in report.unchecked if "under 1 missing keys" in text]
    capsys.readouterr()
    main(["verify", "--db", str(tmp_path / "s.db")])
    assert "under 1 missing keys" in " ".join(capsys.readouterr().out.split())


@pytest.mark.corrupts
def test_verify_finds_a_planted_erasure_that_takes_a_key_too_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bug of a writer, not of a tamperer: chains, commits and the event are all as they were written."""
    wipe = erasure.wipe

    def greedy(db: SqliteDatabase, wanted: Erasing) -> Wiped:
        done = wipe(db, wanted)
        erase_quietly(db.db, "of-ben")
        return done

    monkeypatch.setattr(erasure, "wipe", greedy)

    served(tmp_path, KEY)

    report = checked(tmp_path, lambda db: None)
    assert [text for text in report.findings if "no erasure names it" in text] == report.findings


def test_an_event_says_who_erased_and_up_to_which_key(tmp_path: Path) -> None:
    served(tmp_path, KEY)
    with closing(sqlite3.connect(tmp_path / "s.db")) as db:
        [(actor, data)] = db.execute(
            "SELECT actor, data FROM events WHERE kind = 'content.erased'"
        ).fetchall()
        newest = db.execute("SELECT max(key_id) FROM keys WHERE length(secret) > 0").fetchone()[0]

    assert actor == "user:eva"
    assert json.loads(data)["upto_key"] == newest
    assert len(json.loads(data)["keys"]) == 1
