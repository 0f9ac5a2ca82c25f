"""The check after every test sees a damaged database; otherwise it would prove nothing."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from types import ModuleType

import pytest

from artelier.ledger import ledger_view
from artelier.log import SqliteStore, View
from tests.repository.sources import ROOT
from tests.verification import is_store, verify_database, views_of

LEDGER = ledger_view([], [])


def make_store(path: Path) -> Path:
    SqliteStore(path, [LEDGER]).close()
    return path


def execute(path: Path, sql: str) -> None:
    db = sqlite3.connect(path)
    db.execute(sql)
    db.commit()
    db.close()


def test_a_sound_store_verifies(tmp_path: Path) -> None:
    path = make_store(tmp_path / "state.db")

    assert is_store(path)
    assert verify_database(path, known=[LEDGER]) == []


@pytest.mark.corrupts
def test_a_view_that_differs_from_the_log_is_found(tmp_path: Path) -> None:
    path = make_store(tmp_path / "state.db")
    execute(path, "INSERT INTO accounts VALUES ('t', 'main', 'alice', 'usd', 5)")

    assert any("accounts" in finding for finding in verify_database(path, known=[LEDGER]))


@pytest.mark.corrupts
def test_an_event_that_was_not_appended_is_found(tmp_path: Path) -> None:
    path = make_store(tmp_path / "state.db")
    execute(path, "INSERT INTO streams VALUES (1, 't', 'main', 'run:r1')")

    assert verify_database(path, known=[]) != []


@pytest.mark.corrupts
def test_a_store_that_cannot_be_read_is_found(tmp_path: Path) -> None:
    path = make_store(tmp_path / "state.db")
    execute(path, "PRAGMA user_version = 9999")

    assert len(verify_database(path, known=[LEDGER])) == 1


def test_other_files_are_no_stores(tmp_path: Path) -> None:
    (tmp_path / "noise.db").write_bytes(b"no database at all" * 100)
    execute(tmp_path / "other.db", "CREATE TABLE events(id)")

    assert not is_store(tmp_path / "noise.db")
    assert not is_store(tmp_path / "other.db")


def test_views_are_found_alone_and_in_lists() -> None:
    module = ModuleType("planted")
    other = View(name="other", version=1, tables=(), schema=())
    vars(module).update(LEDGER=LEDGER, VIEWS=(other,), names=["x"], number=3)

    assert list(views_of([module])) == [LEDGER, other]


def test_the_check_fails_a_test_that_leaves_a_damaged_store(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same file twice: once unmarked, once marked as damaging on purpose."""
    body = """
        import sqlite3
        import pytest
        from artelier.log import SqliteStore

        def damage(path):
            SqliteStore(path, []).close()
            db = sqlite3.connect(path)
            db.execute("INSERT INTO streams VALUES (1, 't', 'main', 'run:r1')")
            db.commit()
            db.close()

        def test_unmarked(tmp_path):
            damage(tmp_path / "deep.db")

        @pytest.mark.corrupts
        def test_marked(tmp_path):
            damage(tmp_path / "deep.db")
        """
    pytester.makeini("[pytest]\nmarkers = corrupts: damages on purpose")
    pytester.makepyfile(body)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))

    outcome = pytester.runpytest_subprocess("-p", "tests.conftest", "-p", "no:cacheprovider")

    outcome.assert_outcomes(passed=2, errors=1)
    outcome.stdout.fnmatch_lines(["*a database does not verify*", "deep.db: *"])
