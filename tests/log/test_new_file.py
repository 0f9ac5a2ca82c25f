"""A new file has all its tables at once, and is what one is whose tables were made in it."""

from __future__ import annotations

import asyncio
import os
import shutil
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from artelier.errors import StoreUnavailable
from artelier.log import SqliteStore, View
from artelier.log.sqlite.schema import make_file
from artelier.testing.conformance.stage import batch
from artelier.testing.conformance.view import TALLY

SETTINGS = ("user_version", "application_id", "journal_mode", "page_size", "encoding", "integrity_check")


def facts(path: Path) -> tuple[Any, ...]:
    """Everything in an empty store but its name."""
    db = sqlite3.connect(path)
    try:
        settings = [db.execute(f"PRAGMA {name}").fetchall() for name in SETTINGS]
        schema = db.execute("SELECT * FROM sqlite_master ORDER BY rowid").fetchall()
        return settings, schema, db.execute("SELECT rowid, * FROM view_versions").fetchall()
    finally:
        db.close()


def opened(path: Path) -> Path:
    SqliteStore(path, (TALLY,)).close()
    return path


def appended(path: Path, count: int) -> int:
    async def story() -> int:
        store = SqliteStore(path, (TALLY,))
        try:
            for number in range(count):
                await store.append(batch(f"run:{number}", 1))
            return (await store.query("SELECT count(*) FROM events"))[0][0]
        finally:
            store.close()

    return asyncio.run(story())


@pytest.mark.skipif(not hasattr(os, "O_TMPFILE"), reason="files without a name are of Linux")
def test_a_file_that_was_made_whole_is_one_whose_tables_were_made_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_file(tmp_path / "whole.db", (TALLY,), is_synced=True)
    made = facts(tmp_path / "whole.db")
    monkeypatch.delattr(os, "O_TMPFILE")

    assert facts(opened(tmp_path / "step-by-step.db")) == made
    assert facts(opened(tmp_path / "whole.db")) == made
    assert appended(tmp_path / "whole.db", 3) == 3


def test_a_store_that_is_there_stays_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    assert appended(path, 2) == 2
    before = path.read_bytes()

    make_file(path, (TALLY,), is_synced=True)

    assert path.read_bytes() == before
    assert [one.name for one in tmp_path.iterdir()] == ["state.db"]


def test_the_log_of_a_file_that_is_gone_does_not_come_back(tmp_path: Path) -> None:
    """Its pages would fit into a file with the same tables."""
    path = tmp_path / "state.db"

    async def story() -> None:
        store = SqliteStore(path, (TALLY,))
        await store.append(batch("run:1", 1))
        shutil.copy(f"{path}-wal", tmp_path / "kept")
        store.close()

    asyncio.run(story())
    path.unlink()
    shutil.move(tmp_path / "kept", f"{path}-wal")

    assert appended(path, 0) == 0


def test_of_several_that_open_a_new_store_at_once_all_have_the_same(tmp_path: Path) -> None:
    for number in range(5):
        path = tmp_path / f"{number}.db"
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(opened, [path] * 8))
        assert appended(path, 1) == 1


def test_a_view_that_cannot_be_made_is_told_as_it_was(tmp_path: Path) -> None:
    broken = View(name="broken", version=1, tables=("t",), schema=("CREATE TABLE t(",))

    with pytest.raises(StoreUnavailable, match="incomplete input"):
        SqliteStore(tmp_path / "state.db", (broken,))
