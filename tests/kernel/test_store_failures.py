"""Disks fill up, files are locked, processes go: a run says so, loses nothing, and goes on later."""

from __future__ import annotations

import asyncio
import random
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from artelier import Kernel, Run, RunSuspended, ToolContext, tool
from artelier.errors import (
    Conflict,
    CorruptStore,
    LeaseHeld,
    NewerSchema,
    NotFound,
    StoreClosed,
    StoreFull,
    StoreLocked,
)
from artelier.log import Batch, Fence, LeaseRequest, run_stream
from artelier.testing import ManualClock, ScriptedModel
from tests.kernel.stage import (
    ACME,
    EAGER,
    PRICE,
    World,
    ask,
    assert_conserved,
    billed,
    drive,
    echo,
    open_kernel,
    play,
    result_of,
    user,
)


def _pay(world: World) -> Any:
    @tool(side_effect=True)
    async def pay(ctx: ToolContext) -> str:
        """Pay."""
        world.done.append(ctx.idempotency_key)
        return "paid"

    return pay


@tool(side_effect=False)
async def look() -> str:
    """Look."""
    return "seen"


async def _code(run: Run) -> Any:
    said = [await ask(run, "a"), await ask(run, "b")]
    looked = (await run.step_tool("look")).value
    paid = (await run.step_tool("pay")).value
    return [*said, looked, paid, await ask(run, "c")]


class Disk:
    """A fault hook under which the disk is full from the n-th commit on, until somebody tidies up."""

    def __init__(self, full_at: int) -> None:
        self.full_at = full_at
        self.commits = 0

    def __call__(self, point: str) -> None:
        if point == "commit.before":
            self.commits += 1
            if self.commits >= self.full_at:
                raise StoreFull("the disk is full; nothing was written")


@pytest.mark.parametrize("full_at", range(3, 12))
def test_a_run_survives_a_full_disk_at_any_commit(tmp_path: Path, full_at: int) -> None:
    async def scenario() -> None:
        disk, world = Disk(full_at), World()
        model = ScriptedModel(lambda r: billed(f"re: {r.messages[-1].text}"), price=PRICE)
        tools = [look, _pay(world)]
        with open_kernel(tmp_path, model, tools=tools, fault=disk) as kernel:
            runs = kernel.for_tenant(ACME)
            try:
                status = await drive(runs, _code)
            except NotFound:
                status = "never began"
            disk.full_at = 10**6
            if status != "completed":
                assert status in ("never began", "running: store_full", "pending: store_full")
                status = await drive(runs, _code)
            if status == "unknown_outcome":
                assert world.done == ["acme/r:4"]
                await runs.reconcile("r", "4", succeeded="paid")
                status = await drive(runs, _code)
            assert status == "completed"
            assert await result_of(runs) == ["re: a", "re: b", "seen", "paid", "re: c"]
            assert world.done == ["acme/r:4"]
            await assert_conserved(kernel, "acme")
            assert await kernel.store.query("SELECT count(*) FROM leases") == [(0,)]

    play(scenario())


def test_a_disk_that_is_really_full_is_reported_by_its_name(tmp_path: Path) -> None:
    async def scenario() -> None:
        with open_kernel(tmp_path, ScriptedModel(lambda _: "x" * 10)) as kernel:
            store: Any = kernel.store
            runs = kernel.for_tenant()
            await runs.state()
            (pages,) = store._write_db.execute("PRAGMA page_count").fetchone()

            async def fills(run: Run) -> None:
                for number in range(200):
                    await run.step("n", lambda n=number: random.Random(n).randbytes(2000).hex())
                    await run.core.writer.commit()

            store._write_db.execute(f"PRAGMA max_page_count = {pages + 40}")
            assert await drive(runs, fills) == "running: store_full"
            store._write_db.execute("PRAGMA max_page_count = 1000000")
            assert await drive(runs, fills) == "completed"

    play(scenario())


def test_a_locked_database_is_reported_and_the_run_goes_on_afterwards(tmp_path: Path) -> None:
    async def scenario() -> None:
        with open_kernel(tmp_path, tools=[look, _pay(World())]) as kernel:
            store: Any = kernel.store
            store._write_db.execute("PRAGMA busy_timeout = 20")
            runs = kernel.for_tenant()
            other = sqlite3.connect(tmp_path / "s.db", isolation_level=None)
            with pytest.raises(StoreLocked, match="locked by another process"):
                async with runs.run("r") as run:
                    await ask(run, "a")
                    other.execute("BEGIN IMMEDIATE")
                    await ask(run, "b")
            other.execute("ROLLBACK")
            other.close()
            assert await drive(runs, _code) == "completed"

    play(scenario())


def test_a_kernel_that_is_closed_under_a_run_leaves_it_resumable(tmp_path: Path) -> None:
    async def scenario() -> None:
        kernel = open_kernel(tmp_path, clock=ManualClock())
        with pytest.raises(StoreClosed):
            async with kernel.run("r") as run:
                await ask(run, "a")
                await run.core.writer.commit()
                kernel.close()
                await ask(run, "b")
        clock, model = ManualClock(), echo()
        clock.advance(60)
        with open_kernel(tmp_path, model, clock=clock, tools=[look, _pay(World())]) as kernel:
            assert await drive(kernel.for_tenant(), _code) == "completed"
            assert [request.messages[-1].text for request in model.requests] == ["b", "c"]

    play(scenario())


@pytest.mark.corrupts
def test_a_row_that_should_not_be_there_ends_the_run_with_a_clear_reason(tmp_path: Path) -> None:
    async def scenario() -> None:
        with open_kernel(tmp_path) as kernel:
            runs = kernel.for_tenant()
            with pytest.raises(Conflict, match="already recorded"):
                async with runs.run("r") as run:
                    await ask(run, "a")
                    await run.core.writer.commit()
                    db = sqlite3.connect(tmp_path / "s.db")
                    with db:
                        db.execute("INSERT INTO steps SELECT run, '2', 'model', 'completed', 9, 9 FROM steps")
                    db.close()
                    await ask(run, "b")
            shown = await runs.show("r")
            assert (shown["status"], shown["reason"]) == ("failed", "step_conflict")
            assert await kernel.store.query("SELECT count(*) FROM leases") == [(0,)]

    play(scenario())


@pytest.mark.corrupts
@pytest.mark.parametrize(
    "damage",
    [
        "DELETE FROM messages WHERE n = 1",
        "UPDATE messages SET form = 'r', ref = '1' WHERE n = 1",
        "UPDATE blobs SET content = zeroblob(length(content))",
        "UPDATE steps SET completed = NULL WHERE key = '1'",
    ],
)
def test_a_damaged_prompt_is_not_rendered_as_if_it_were_whole(tmp_path: Path, damage: str) -> None:
    async def scenario() -> None:
        with open_kernel(tmp_path) as kernel:
            runs = kernel.for_tenant()
            async with runs.run("r") as run:
                talk = run.conversation()
                talk.append(user("one"))
                talk.append(await run.step_model(model="m", messages=talk))
                await run.step_model(model="m", messages=talk)
        db = sqlite3.connect(tmp_path / "s.db")
        with db:
            db.execute(damage)
        db.close()
        with open_kernel(tmp_path) as kernel:
            with pytest.raises(CorruptStore):
                await kernel.for_tenant().render("r", "2")

    play(scenario())


def test_a_command_to_a_run_whose_driver_does_not_react_stands_until_it_does(tmp_path: Path) -> None:
    async def scenario() -> None:
        clock = ManualClock()
        with open_kernel(tmp_path, clock=clock) as kernel:
            runs = kernel.for_tenant()
            with pytest.raises(RunSuspended):
                async with runs.run("r", on_wait="suspend") as run:
                    await run.approve("?")
            stream = run_stream("default", "r")
            lease = LeaseRequest(stream=stream, holder="elsewhere", now_us=clock.now_us(), ttl_us=10**9)
            receipt = await kernel.store.append(Batch(acquire=lease))
            told = asyncio.create_task(runs.pause("r"))
            while not told.done():
                await asyncio.sleep(0.001)
                clock.advance(0.5)
            with pytest.raises(LeaseHeld, match="has not reacted"):
                await told
            assert (await runs.show("r"))["status"] == "waiting_approval"
            fence = Fence(stream=stream, token=receipt.lease_token or 0)
            await kernel.store.append(Batch(release=fence))
            assert await drive(runs, lambda run: run.approve("?"), on_wait="suspend") == "paused"

    play(scenario())


def test_single_steps_work_without_a_block_and_the_run_stays_resumable(tmp_path: Path) -> None:
    async def scenario() -> None:
        model = echo()
        with open_kernel(tmp_path, model, tools=[look]) as kernel:
            messages = [user("a")]
            first = await kernel.step_model(run_id="r", model="m", messages=messages, tenant="t")
            seen = await kernel.step_tool("look", run_id="r", tenant="t")
            assert (first.text, seen.value) == ("re: a", "seen")
            with pytest.raises(LeaseHeld):
                async with kernel.run("r", tenant="t"):
                    pass
            await kernel.aclose()
        with open_kernel(tmp_path, model, tools=[look]) as kernel:
            runs = kernel.for_tenant("t")
            assert (await runs.show("r"))["status"] == "pending"
            again = await kernel.step_model(run_id="r", model="m", messages=messages, tenant="t")
            assert (again.text, again.replayed) == ("re: a", True)
            assert len(model.requests) == 1
            await kernel.aclose()

    play(scenario())


def test_a_store_that_cannot_be_one_is_refused_and_not_changed(tmp_path: Path) -> None:
    def refused(path: Path, error: type[Exception], *content: str) -> None:
        db = sqlite3.connect(path)
        for statement in content:
            db.execute(statement)
        db.commit()
        db.close()
        before = path.read_bytes()
        with pytest.raises(error):
            Kernel.open(path)
        assert path.read_bytes() == before

    refused(tmp_path / "other.sqlite", CorruptStore, "CREATE TABLE recipes(name TEXT)")
    with open_kernel(tmp_path, policy=EAGER) as kernel:
        assert kernel.verify().ok
    refused(tmp_path / "s.db", NewerSchema, "PRAGMA user_version = 99")
    (tmp_path / "s.db").unlink()
    (tmp_path / "text.sqlite").write_text("no database " * 100)
    with pytest.raises(CorruptStore):
        Kernel.open(tmp_path / "text.sqlite")
