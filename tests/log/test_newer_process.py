"""A process that holds an older version of a view writes nothing more once a newer one has the store."""

from __future__ import annotations

import asyncio
import dataclasses
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from artelier.errors import NewerSchema, UnknownEvent
from artelier.log import SqliteStore, View, verify_store
from artelier.log.sqlite.schema import SCHEMA_VERSION
from artelier.testing.conformance.stage import batch, settle_all, stream
from artelier.testing.conformance.view import TALLY, total

NEWER = dataclasses.replace(TALLY, version=TALLY.version + 1)
MORE = View(name="conformance_more", version=1, tables=(), schema=())

UPGRADE = """
import asyncio, dataclasses, sys
from artelier.log import SqliteStore
from artelier.log.sqlite.schema import SCHEMA_VERSION
from artelier.testing.conformance.stage import batch
from artelier.testing.conformance.view import TALLY
async def main():
    newer = dataclasses.replace(TALLY, version=TALLY.version + 1)
    store = SqliteStore(sys.argv[1], (newer,))
    await store.append(batch("run:newer", 1))
    store.close()
asyncio.run(main())
"""


def upgraded_by_a_process(path: Path) -> None:
    subprocess.run([sys.executable, "-c", UPGRADE, str(path)], check=True, timeout=60)


def upgraded_here(path: Path) -> None:
    SqliteStore(path, (NEWER,)).close()


def given_a_new_view(path: Path) -> None:
    SqliteStore(path, (TALLY, MORE)).close()


def given_a_new_schema(path: Path) -> None:
    db = sqlite3.connect(path)
    db.execute("PRAGMA user_version = 99")
    db.close()


@pytest.mark.parametrize(
    "upgrade", [upgraded_by_a_process, upgraded_here, given_a_new_view, given_a_new_schema]
)
def test_a_process_with_older_views_refuses_to_write(tmp_path: Path, upgrade: Callable[[Path], None]) -> None:
    path = tmp_path / "state.db"

    async def story() -> None:
        store = SqliteStore(path, (TALLY,))
        await store.append(batch("run:a", 1))
        before = await store.root()
        upgrade(path)
        there = await store.root()

        refused = await settle_all(store.submit_all([batch("run:a", 1), batch("run:b", 1)]))
        with pytest.raises(NewerSchema):  # also what is no event: leases, keys
            await store.data_key("a-new-tenant")
        with pytest.raises(NewerSchema):  # and it does not get used to it
            await store.append(batch("run:a", 1))

        assert [type(one) for one in refused] == [NewerSchema, NewerSchema]
        assert await store.root() == there
        assert (await store.head(stream("run:a")))[0] == 1  # it can still be read
        assert await total(store, "run:a") == 1
        assert there[0] >= before[0]
        store.close()
        if upgrade is given_a_new_schema:
            return
        with_more = (TALLY, MORE) if upgrade is given_a_new_view else (NEWER,)
        if upgrade is not given_a_new_view:
            with pytest.raises(UnknownEvent):
                SqliteStore(path, (TALLY,))
        assert verify_store(path, with_more).findings == []

    asyncio.run(story())
    if upgrade is given_a_new_schema:
        db = sqlite3.connect(path)
        db.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
        db.close()


def test_processes_of_one_version_write_by_turns(tmp_path: Path) -> None:
    path = tmp_path / "state.db"

    async def story() -> None:
        one, other = SqliteStore(path, (TALLY,)), SqliteStore(path, (TALLY,))
        for _ in range(3):
            await one.append(batch("run:a", 1))
            await other.append(batch("run:b", 1))
        assert (await one.root())[0] == 6
        one.close()
        other.close()

    asyncio.run(story())
