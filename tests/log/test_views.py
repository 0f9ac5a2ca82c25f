"""Views: what becomes of an event that more than one handler wants."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from artelier.log import Batch, Draft, SqliteStore, StreamAppend, View, run_stream, verify_store
from artelier.testing.conformance.view import TALLY, Noted
from artelier.world.events import MessageSent, WorldPaused


def test_several_handlers_of_one_kind_run_in_the_order_of_registering() -> None:
    """The later one once replaced the earlier one, and what that showed was silently missing."""
    view = View(name="both", version=1, tables=(), schema=())
    seen: list[str] = []

    @view.on(MessageSent, WorldPaused)
    def first(event: Any, tx: Any) -> None:
        seen.append(f"first {event}")

    @view.on(MessageSent)
    def second(event: Any, tx: Any) -> None:
        seen.append(f"second {event}")

    view.handlers[MessageSent](cast(Any, "sent"), cast(Any, None))
    view.handlers[WorldPaused](cast(Any, "paused"), cast(Any, None))

    assert seen == ["first sent", "second sent", "first paused"]


LATER = replace(TALLY, indexes=("CREATE INDEX IF NOT EXISTS tally_later ON conformance_tallies(total)",))
"""The view as a later version has it: with an index more."""


def _made(path: Path) -> None:
    """A store of the earlier version, with an event."""

    async def write() -> None:
        store = SqliteStore(path, [TALLY])
        draft = Draft(Noted(number=3), 1, "operator")
        await store.append(Batch(appends=[StreamAppend(run_stream("acme", "r"), [draft])]))
        store.close()

    asyncio.run(write())


def _indexes(path: Path) -> set[str]:
    with closing(sqlite3.connect(path)) as db:
        return {name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'index'")}


def test_an_index_that_came_later_is_made_at_open_and_rebuilds_nothing(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    _made(path)
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        (root,) = db.execute(
            "SELECT rootpage FROM sqlite_master WHERE name = 'conformance_tallies'"
        ).fetchone()

    assert verify_store(path, [LATER]).ok, "a store that was not opened yet lacks it rightly"
    SqliteStore(path, [LATER]).close()

    assert "tally_later" in _indexes(path)
    with closing(sqlite3.connect(path)) as db:
        assert db.execute(
            "SELECT rootpage FROM sqlite_master WHERE name = 'conformance_tallies'"
        ).fetchone() == (root,)
    assert verify_store(path, [LATER]).ok
    SqliteStore(path, [LATER]).close()
    SqliteStore(tmp_path / "new.db", [LATER]).close()
    assert "tally_later" in _indexes(tmp_path / "new.db")


@pytest.mark.corrupts
def test_another_index_of_that_name_is_found(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    _made(path)
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE INDEX tally_later ON conformance_tallies(stream)")

    said = "table conformance_tallies: the index tally_later is not as it was made"
    assert verify_store(path, [LATER]).findings == [said]
