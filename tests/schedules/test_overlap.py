"""What becomes of a time while an earlier run has not ended, and of a schedule that fails."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from artelier import Kernel
from artelier.agents import Worker
from artelier.agents.schedules.dispatcher import ELSEWHERE_US, fire_due
from artelier.agents.schedules.queries import due_schedules, waiting_firings
from artelier.agents.schedules.recurrence import OPEN_MAX
from artelier.errors import Conflict, MissingKey
from tests.schedules.stage import TENANT, Stage, play

HOUR_S = 3_600


@asynccontextmanager
async def held(stage: Stage) -> AsyncGenerator[str]:
    """The first run of the schedule, kept at its model call until the block is left."""
    stage.model.holds = asyncio.Event()
    stage.clock.advance(HOUR_S)
    driving = asyncio.ensure_future(stage.worker.once())
    while not stage.model.asked:
        await asyncio.sleep(0)
    try:
        yield (await stage.last_run())["run_id"]
    finally:
        stage.model.holds.set()
        stage.model.holds = None
        await driving


async def looks(stage: Stage) -> None:
    """An hour passes and a worker looks at the schedules."""
    stage.clock.advance(HOUR_S)
    await fire_due(stage.kernel.services)


def test_schedules_and_firings_of_a_tenant_come_before_the_second_of_another(tmp_path: Path) -> None:
    async def scenario() -> None:
        with Stage(tmp_path) as stage:
            store = stage.kernel.store
            for number in range(5):
                await stage.add(f"many-{number}")
            few = stage.kernel.for_tenant("few").schedules
            await few.add("one", goal="Say done.", model="m", solo=True, every="1h")
            stage.clock.advance(HOUR_S)
            now_us = stage.kernel.services.clock.now_us()
            due = await due_schedules(store, now_us, tenant=None, limit=2)
            assert {one.tenant for one in due} == {TENANT, "few"}

            await fire_due(stage.kernel.services)
            assert len(await waiting_firings(store, tenant=None, limit=10)) == 6
            first = await waiting_firings(store, tenant=None, limit=2)
            assert {tenant for tenant, _ in first} == {TENANT, "few"}

    play(scenario())


def test_a_time_is_skipped_while_a_run_goes_on(tmp_path: Path) -> None:
    async def scenario() -> None:
        with Stage(tmp_path) as stage:
            await stage.add(overlap="skip")
            async with held(stage) as run:
                await looks(stage)
                with pytest.raises(Conflict, match="has not ended"):
                    await stage.desk.schedules.fire("s")

            assert await stage.kinds() == ["added", "fired", "skipped"]
            _, data = (await stage.events())[-1]
            assert (data["reason"], data["run"]) == ("overlap", run)
            assert await stage.passes(HOUR_S) == 1

    play(scenario())


def test_one_time_waits_for_the_run_to_end_and_the_next_are_skipped(tmp_path: Path) -> None:
    async def scenario() -> None:
        with Stage(tmp_path) as stage:
            await stage.add(overlap="queue")
            async with held(stage) as run:
                await looks(stage)
                assert (await stage.events())[-1][1]["behind"] == run
                await looks(stage)
                with pytest.raises(Conflict, match="has not ended"):
                    await stage.desk.schedules.fire("s")

            assert await stage.passes(0) == 1
            kinds = await stage.kinds()
            assert kinds == ["added", "fired", "queued", "skipped", "fired"]
            assert await stage.runs() == ["2026-03-28T13:00:00", "2026-03-28T14:00:00"]
            assert (await stage.desk.schedules.get("s"))["queued_us"] is None

    play(scenario())


def test_a_queued_time_outlives_a_change_of_its_schedule(tmp_path: Path) -> None:
    """Also one of its times: it was due before."""

    async def scenario() -> None:
        with Stage(tmp_path) as stage:
            await stage.add(overlap="queue")
            async with held(stage):
                await looks(stage)
                queued = (await stage.desk.schedules.get("s"))["queued_us"]
                await stage.desk.schedules.change("s", budget_usd="0.50")
                await stage.desk.schedules.change("s", every="7d")
                assert (await stage.desk.schedules.get("s"))["queued_us"] == queued is not None

            assert await stage.passes(0) == 1
            assert await stage.runs() == ["2026-03-28T13:00:00", "2026-03-28T14:00:00"]
            assert (await stage.desk.schedules.get("s"))["queued_us"] is None

    play(scenario())


def test_a_queued_time_outlives_the_process(tmp_path: Path) -> None:
    async def scenario() -> None:
        with Stage(tmp_path) as stage:
            await stage.add(overlap="queue", catch_up="none")
            async with held(stage):
                await looks(stage)
        stage.clock.advance(600)
        with Stage(tmp_path, clock=stage.clock) as again:
            assert await again.passes(0) == 1, "it was no absence"
            assert await again.runs() == ["2026-03-28T13:00:00", "2026-03-28T14:00:00"]

    play(scenario())


def test_firing_by_hand_queues_where_times_do(tmp_path: Path) -> None:
    async def scenario() -> None:
        with Stage(tmp_path) as stage:
            await stage.add(overlap="queue")
            async with held(stage):
                stage.clock.advance(1)
                assert (await stage.desk.schedules.fire("s"))["queued"]

            assert await stage.passes(0) == 1

    play(scenario())


def test_an_earlier_run_is_cancelled_for_the_next(tmp_path: Path) -> None:
    async def scenario() -> None:
        with Stage(tmp_path) as stage:
            await stage.add(overlap="cancel_running")
            async with held(stage) as run:
                await looks(stage)
                starting = asyncio.ensure_future(Worker(stage.kernel, stage.kernel.services).once())
                while (await stage.desk.show(run))["status"] != "cancelled":
                    await asyncio.sleep(0)
            await starting

            _, data = (await stage.events())[-1]
            assert data["cancels"] == [run]
            shown = await stage.desk.schedules.get("s")
            assert [one["status"] for one in shown["runs"]] == ["completed", "cancelled"]
            assert shown["failures"] == 0, "it was cancelled, it has not failed"

    play(scenario())


def test_what_waits_for_its_start_is_not_cancelled_but_skipped_for(tmp_path: Path) -> None:
    async def scenario() -> None:
        with Stage(tmp_path) as stage:
            await stage.add(overlap="cancel_running")
            await looks(stage)
            await looks(stage)

            assert await stage.kinds() == ["added", "fired", "skipped"]
            assert await stage.passes(0) == 1

    play(scenario())


def test_a_crash_after_the_cancel_cancels_nothing_twice(tmp_path: Path) -> None:
    async def scenario() -> None:
        with Stage(tmp_path) as stage:
            await stage.add(overlap="cancel_running")
            async with held(stage) as run:
                await looks(stage)
                await stage.desk.cancel(run)

            assert await stage.passes(0) == 1
            shown = await stage.desk.schedules.get("s")
            assert [one["status"] for one in shown["runs"]] == ["completed", "cancelled"]

    play(scenario())


def test_runs_may_go_on_side_by_side_up_to_a_bound(tmp_path: Path) -> None:
    async def scenario() -> None:
        with Stage(tmp_path) as stage:
            await stage.add(overlap="allow")
            for _ in range(OPEN_MAX + 2):
                await looks(stage)

            shown = await stage.desk.schedules.get("s")

            assert (shown["firings"], shown["skipped"]) == (OPEN_MAX, 2)
            assert shown["last_skip"] == "too_many"

    play(scenario())


# Failures


def test_a_schedule_that_fails_goes_on_and_says_so(tmp_path: Path) -> None:
    async def scenario() -> None:
        with Stage(tmp_path) as stage:
            await stage.add()
            stage.model.refuses = True
            await stage.passes(HOUR_S)
            await stage.passes(HOUR_S)

            shown = await stage.desk.schedules.get("s")
            assert (shown["status"], shown["failures"]) == ("active", 2)
            assert (await stage.last_run())["status"] == "failed"
            assert (await stage.last_run())["reason"]

            stage.model.refuses = False
            await stage.passes(HOUR_S)
            assert (await stage.desk.schedules.get("s"))["failures"] == 0

    play(scenario())


def test_so_many_failures_in_a_row_pause_it(tmp_path: Path) -> None:
    async def scenario() -> None:
        with Stage(tmp_path) as stage:
            await stage.add(max_failures=2)
            stage.model.refuses = True
            await stage.passes(HOUR_S)
            await stage.passes(HOUR_S)
            await stage.passes(0)

            shown = await stage.desk.schedules.get("s")
            assert (shown["status"], shown["reason"]) == ("paused", "failures")
            assert (await stage.events())[-1] == ("schedule.paused", {"reason": "failures"})
            assert await stage.passes(5 * HOUR_S) == 0

            shown = await stage.desk.schedules.resume("s")
            assert (shown["status"], shown["failures"]) == ("active", 0)
            assert await stage.passes(HOUR_S) == 1

    play(scenario())


def test_a_run_that_is_reopened_counts_as_open_again(tmp_path: Path) -> None:
    async def scenario() -> None:
        with Stage(tmp_path) as stage:
            await stage.add()
            stage.model.refuses = True
            await stage.passes(HOUR_S)
            run = (await stage.last_run())["run_id"]
            stage.model.refuses = False

            await stage.desk.retry(run)

            shown = await stage.desk.schedules.get("s")
            assert (shown["failures"], (await stage.last_run())["is_open"]) == (0, True)
            await looks(stage)
            assert (await stage.kinds())[-1] == "skipped"
            assert await stage.passes(0) == 1
            assert (await stage.last_run())["status"] == "completed"

    play(scenario())


def test_a_run_that_cannot_be_started_is_a_failure_with_its_reason(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()

    async def scenario() -> None:
        with Stage(tmp_path) as stage:
            await stage.add(workspace=str(folder))
            folder.rmdir()
            await stage.passes(HOUR_S)

            shown = await stage.desk.schedules.get("s")
            assert await stage.kinds() == ["added", "fired", "failed"]
            assert (shown["failures"], (await stage.last_run())["status"]) == (1, "failed")
            assert (await stage.last_run())["reason"] == "not_found"
            assert "is not there" in ((await stage.last_run())["message"] or "")
            folder.mkdir()
            assert await stage.passes(HOUR_S) == 1
            assert (await stage.last_run())["status"] == "completed"

    play(scenario())


def test_a_firing_waits_for_a_worker_that_has_its_model_but_not_for_ever(tmp_path: Path) -> None:
    async def scenario() -> None:
        with Stage(tmp_path) as stage:
            await stage.add(every="1h")
            stage.clock.advance(HOUR_S)
            with Kernel.open(tmp_path / "state.db", clock=stage.clock, environ={}) as poor:
                worker = Worker(poor, poor.services)
                await worker.once()
                assert (await stage.last_run())["status"] == "pending"

                assert await stage.passes(0) == 1
                assert (await stage.last_run())["status"] == "completed"

                stage.clock.advance(HOUR_S)
                await worker.once()
                stage.clock.advance(ELSEWHERE_US / 1_000_000)
                await worker.once()
            last = await stage.last_run()
            assert (last["status"], last["reason"]) == ("failed", MissingKey.code)

    play(scenario())


def test_a_firing_that_waits_outlives_its_schedule(tmp_path: Path) -> None:
    async def scenario() -> None:
        with Stage(tmp_path) as stage:
            await stage.add()
            await looks(stage)
            await stage.desk.schedules.remove("s")

            assert await stage.passes(0) == 1
            assert (await stage.desk.show("s/20260328T130000Z"))["status"] == "completed"
            assert await stage.passes(5 * HOUR_S) == 0

            await stage.add()
            assert (await stage.desk.schedules.get("s"))["firings"] == 0

    play(scenario())


def test_a_removed_schedule_whose_run_cannot_start_says_so(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()

    async def scenario() -> None:
        with Stage(tmp_path) as stage:
            await stage.add(workspace=str(folder))
            await looks(stage)
            await stage.desk.schedules.remove("s")
            folder.rmdir()
            await stage.passes(0)

            assert await stage.kinds() == ["added", "fired", "removed", "failed"]
            assert await stage.passes(0) == 0

    play(scenario())
