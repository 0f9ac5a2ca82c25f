"""A schedule fires each of its times once, as an event and a run, whatever happens in between."""

from __future__ import annotations

import asyncio
import struct
import zoneinfo
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from artelier.agents import Worker
from artelier.agents.schedules.dispatcher import fire_due
from artelier.errors import Conflict, InvalidRequest, NotFound
from artelier.testing import ManualClock
from tests.schedules.stage import MINUTE_S, TENANT, Stage, play, us, utc

HOUR_S = 3_600


def test_each_time_is_an_event_and_a_run(tmp_path: Path) -> None:
    async def scenario() -> None:
        with Stage(tmp_path) as stage:
            await stage.add(every="1h")

            driven = [await stage.passes(HOUR_S) for _ in range(3)]

            assert driven == [1, 1, 1]
            assert await stage.kinds() == ["added", "fired", "fired", "fired"]
            assert sorted(stage.reported) == [
                "s/20260328T130000Z",
                "s/20260328T140000Z",
                "s/20260328T150000Z",
            ]
            assert {one.status for one in stage.reported.values()} == {"completed"}
            assert (await stage.desk.show("s/20260328T130000Z"))["goal"] == "Say done."

    play(scenario())


def test_nothing_fires_before_its_time_or_twice(tmp_path: Path) -> None:
    async def scenario() -> None:
        with Stage(tmp_path) as stage:
            await stage.add(every="1h")

            assert [await stage.passes(s) for s in (HOUR_S - 1, 1, 0, 0)] == [0, 1, 0, 0]
            assert stage.model.asked == 1

    play(scenario())


def test_a_goal_is_worked_on_by_a_plan(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "sales.csv").write_text("region,amount\nNorth,3\nSouth,4\n")

    async def scenario() -> None:
        with Stage(tmp_path) as stage:
            await stage.add(
                goal="Sum the amount by region",
                model="offline",
                solo=False,
                workspace=str(folder),
                budget_usd="0.50",
            )
            await stage.passes(HOUR_S)

            run = "s/20260328T130000Z"
            mission = await stage.desk.mission(run)
            assert mission["status"] == "completed"
            assert {task["status"] for task in mission["tasks"]} == {"done"}
            caps = await stage.kernel.store.query(
                "SELECT cap FROM limits WHERE scope = ? AND unit = 'usd'", (f"run:{run}",)
            )
            assert caps == [(500_000,)]

    play(scenario())


def test_who_fired_and_why_is_in_the_log(tmp_path: Path) -> None:
    async def scenario() -> None:
        with Stage(tmp_path) as stage:
            await stage.add(by="user:ada")
            await stage.passes(HOUR_S)
            stage.clock.advance(1)
            await stage.desk.schedules.fire("s", by="user:eve")

            shown = await stage.desk.schedules.get("s")

            assert shown["created_by"] == "user:ada"
            assert [(one["by"], one["asked"]) for one in shown["runs"]] == [
                ("user:eve", True),
                ("schedule:s", False),
            ]

    play(scenario())


def test_a_crash_between_firing_and_start_starts_the_run_on_the_next_look(tmp_path: Path) -> None:
    async def scenario() -> None:
        with Stage(tmp_path) as stage:
            await stage.add()
            stage.clock.advance(HOUR_S)
            assert await fire_due(stage.kernel.services) == 1
            assert (await stage.last_run())["status"] == "pending"
        with Stage(tmp_path, clock=stage.clock) as again:
            assert await again.passes(0) == 1

            assert await again.kinds() == ["added", "fired"]
            assert (await again.last_run())["status"] == "completed"

    play(scenario())


def test_a_firing_that_waits_can_be_started_by_a_person(tmp_path: Path) -> None:
    from artelier.agents import resume_run

    async def scenario() -> None:
        with Stage(tmp_path) as stage:
            await stage.add()
            fired = await stage.desk.schedules.fire("s")

            result = await resume_run(stage.kernel, TENANT, str(fired["run_id"]))

            assert (result.status, await stage.passes(0)) == ("completed", 0)

    play(scenario())


def test_a_firing_that_could_not_be_started_names_what_starts_another_one(tmp_path: Path) -> None:
    """Its run was not found, although the schedule shows it, and nothing said how to go on."""
    from artelier.agents import resume_run

    async def scenario() -> None:
        folder = tmp_path / "files"
        folder.mkdir()
        with Stage(tmp_path) as stage:
            await stage.add(workspace=str(folder))
            folder.rmdir()
            await stage.passes(HOUR_S)
            failed = await stage.last_run()
            assert (failed["status"], failed["is_begun"]) == ("failed", False)

            for again in (
                lambda: stage.desk.retry(failed["run_id"]),
                lambda: resume_run(stage.kernel, TENANT, failed["run_id"]),
            ):
                with pytest.raises(NotFound, match="could not be started: not_found") as refused:
                    await again()
                assert str(refused.value.hint).endswith(": artelier schedule fire s")

            folder.mkdir()
            stage.clock.advance(1)
            await stage.desk.schedules.fire("s")
            await stage.passes(0)
            assert (await stage.last_run())["status"] == "completed"
            assert (await stage.desk.schedules.get("s"))["failures"] == 0

    play(scenario())


def test_two_workers_fire_one_time_once(tmp_path: Path) -> None:
    async def scenario() -> None:
        clock = ManualClock(start_us=us("2026-03-28T12:00:00"))
        with Stage(tmp_path, clock=clock) as stage, Stage(tmp_path, clock=clock) as other:
            for number in range(10):
                await stage.add(f"s{number}", every="1m")
            for _ in range(3):
                clock.advance(MINUTE_S)
                await asyncio.gather(*(one.worker.once() for one in (stage, other, stage, other)))
                await stage.worker.once()  # what one of them had in hand

            for number in range(10):
                assert await stage.kinds(f"s{number}") == ["added", "fired", "fired", "fired"]
            assert stage.model.asked + other.model.asked == 30

    play(scenario())


def test_a_thousand_schedules_that_are_not_due_cost_a_look_nothing(tmp_path: Path) -> None:
    async def scenario() -> None:
        with Stage(tmp_path) as stage:
            await stage.add("near", every="1h")
            plan = await stage.kernel.store.query(
                "EXPLAIN QUERY PLAN SELECT schedule FROM schedules INDEXED BY schedules_due"
                " WHERE look_us <= ? ORDER BY look_us, position LIMIT 100",
                (stage.clock.now_us(),),
            )

            assert "USING INDEX schedules_due (look_us<?)" in str(plan)
            assert await fire_due(stage.kernel.services) == 0

    play(scenario())


def test_more_schedules_than_one_look_takes_fire_all(tmp_path: Path) -> None:
    async def scenario() -> None:
        with Stage(tmp_path) as stage:
            names = [f"s{number}" for number in range(130)]
            await asyncio.gather(*(stage.add(name) for name in names))
            stage.clock.advance(HOUR_S)

            counts = [await fire_due(stage.kernel.services) for _ in range(3)]

            assert counts == [100, 30, 0]

    play(scenario())


def test_a_worker_of_one_tenant_fires_only_for_that(tmp_path: Path) -> None:
    async def scenario() -> None:
        with Stage(tmp_path) as stage:
            await stage.add("mine")
            await stage.kernel.for_tenant("other").schedules.add(
                "theirs", every="1h", goal="x", model="m", solo=True
            )
            stage.clock.advance(HOUR_S)

            driven = await Worker(stage.kernel, stage.kernel.services, tenant="other").once()

            assert driven == 1
            assert (await stage.desk.schedules.get("mine"))["firings"] == 0
            assert [one["id"] for one in (await stage.desk.schedules.list())["items"]] == ["mine"]

    play(scenario())


# Absence


def test_after_an_absence_one_run_stands_for_all_missed_times(tmp_path: Path) -> None:
    async def scenario() -> None:
        with Stage(tmp_path) as stage:
            await stage.add(every="1m")

            assert await stage.passes(30 * MINUTE_S + 30) == 1

            [(_, _), (kind, data)] = await stage.events()
            assert (kind, utc(data["due_us"]), data["missed"]) == (
                "schedule.fired",
                "2026-03-28T12:30:00",
                29,
            )
            assert await stage.passes(30) == 1
            assert await stage.runs() == ["2026-03-28T12:30:00", "2026-03-28T12:31:00"]

    play(scenario())


def test_missed_times_can_be_left_out(tmp_path: Path) -> None:
    async def scenario() -> None:
        with Stage(tmp_path) as stage:
            await stage.add(every="1h", catch_up="none")

            assert await stage.passes(5 * HOUR_S + 600) == 0
            assert await stage.passes(HOUR_S - 600 + 5) == 1, "a little late is not missed"

            shown = await stage.desk.schedules.get("s")
            assert await stage.kinds() == ["added", "skipped", "fired"]
            assert (shown["skipped"], shown["last_skip"]) == (1, "missed")

    play(scenario())


def test_a_clock_that_goes_back_fires_nothing_again(tmp_path: Path) -> None:
    async def scenario() -> None:
        with Stage(tmp_path) as stage:
            await stage.add(every="1h")
            await stage.passes(2 * HOUR_S)
        back = ManualClock(start_us=us("2026-03-28T12:30:00"))
        with Stage(tmp_path, clock=back) as again:
            driven = [await again.passes(1_800) for _ in range(5)]

            assert driven == [0, 0, 0, 0, 1]
            assert await again.runs() == ["2026-03-28T14:00:00", "2026-03-28T15:00:00"]

    play(scenario())


def test_a_schedule_that_is_made_again_never_takes_a_run_that_is_there(tmp_path: Path) -> None:
    async def scenario() -> None:
        with Stage(tmp_path) as stage:
            await stage.add(every="1h")
            await stage.passes(HOUR_S)
            await stage.desk.schedules.remove("s")
        back = ManualClock(start_us=us("2026-03-28T12:00:00"))
        with Stage(tmp_path, clock=back) as again:
            await again.add(every="1h")

            assert await again.passes(HOUR_S) == 0
            assert (await again.kinds())[-1] == "skipped"
            shown = await again.desk.schedules.get("s")
            assert (shown["last_skip"], shown["firings"]) == ("run_exists", 0)

    play(scenario())


def test_a_run_of_somebody_else_under_that_id_is_left_alone(tmp_path: Path) -> None:
    async def scenario() -> None:
        with Stage(tmp_path) as stage:
            await stage.add(every="1h")
            async with stage.desk.run("s/20260328T130000Z") as run:
                run.finish("mine")

            assert await stage.passes(HOUR_S) == 0
            assert (await stage.desk.show("s/20260328T130000Z"))["result"] == "mine"
            assert (await stage.desk.schedules.get("s"))["last_skip"] == "run_exists"

    play(scenario())


def test_a_year_forward_and_back_again_fires_once_for_it_and_nothing_twice(tmp_path: Path) -> None:
    year_s = 365 * 24 * HOUR_S

    async def scenario() -> None:
        with Stage(tmp_path) as stage:
            await stage.add(every="1h")
            await stage.add("walled", cron="30 2 * * *", timezone="Europe/Berlin")
            await stage.passes(HOUR_S)
            assert await stage.passes(year_s) == 2
            [_, _, (_, data)] = await stage.events()
            assert data["missed"] == 1_000, "counted so far, and no further"
            [_, (_, data)] = await stage.events("walled")
            assert (utc(data["due_us"]), data["missed"]) == ("2027-03-28T01:00:00", 364)
        back = ManualClock(start_us=us("2026-03-28T13:30:00"))
        with Stage(tmp_path, clock=back) as again:
            assert [await again.passes(30 * 24 * HOUR_S) for _ in range(5)] == [0] * 5
            shown = await again.desk.schedules.get("s")
            assert utc(shown["next_due_us"]) == "2027-03-28T14:00:00"
            await again.desk.schedules.pause("s")
            await again.desk.schedules.resume("s")
            assert await again.passes(HOUR_S) == 1, "resumed, it goes by the clock that is"
            runs = await again.runs()
            assert len(runs) == len(set(runs)) == 3

    play(scenario())


def test_a_thousand_schedules_that_are_due_at_once_start_a_run_each(tmp_path: Path) -> None:
    async def scenario() -> None:
        with Stage(tmp_path) as stage:
            names = [f"s{number}" for number in range(1_000)]
            await asyncio.gather(*(stage.add(name) for name in names))
            stage.clock.advance(HOUR_S)

            counts = [await fire_due(stage.kernel.services) for _ in range(11)]

            assert counts == [100] * 10 + [0]
            rows = await stage.kernel.store.query(
                "SELECT count(*), count(DISTINCT run) FROM schedule_firings WHERE open = 1"
            )
            assert rows == [(1_000, 1_000)]

    play(scenario())


def test_a_time_zone_that_this_machine_lost_stops_no_other_schedule(tmp_path: Path) -> None:
    zones = tmp_path / "zones"
    (zones / "Test").mkdir(parents=True)
    (zones / "Test/Lost").write_bytes(
        b"TZif" + bytes(16) + struct.pack(">6l", 0, 0, 0, 0, 1, 4) + struct.pack(">lbb", 0, 0, 0) + b"UTC\0"
    )

    async def scenario() -> None:
        with Stage(tmp_path) as stage:
            await stage.add("lost", cron="0 * * * *", timezone="Test/Lost")
            await stage.add("other", every="1h")
            (zones / "Test/Lost").unlink()
            ZoneInfo.clear_cache()

            assert await stage.passes(HOUR_S) == 1, "left to a worker that knows the zone"
            assert await stage.kinds("lost") == ["added"]
            assert await stage.passes(HOUR_S) == 1

            shown = await stage.desk.schedules.get("lost")
            assert (shown["status"], shown["reason"]) == ("paused", "unknown_zone")
            with pytest.raises(InvalidRequest, match="install tzdata"):
                await stage.desk.schedules.resume("lost")
            await stage.desk.schedules.change("lost", timezone="Europe/Berlin")
            await stage.desk.schedules.resume("lost")
            assert await stage.passes(HOUR_S) == 2

    before = zoneinfo.TZPATH
    zoneinfo.reset_tzpath(to=[str(zones), *before])
    try:
        play(scenario())
    finally:
        zoneinfo.reset_tzpath(to=before)
        ZoneInfo.clear_cache()


# By hand


def test_a_paused_schedule_fires_by_hand_alone(tmp_path: Path) -> None:
    async def scenario() -> None:
        with Stage(tmp_path) as stage:
            await stage.add(every="1h")
            await stage.desk.schedules.pause("s", note="not now")
            assert await stage.passes(3 * HOUR_S) == 0

            await stage.desk.schedules.fire("s")

            assert await stage.passes(0) == 1
            shown = await stage.desk.schedules.resume("s")
            assert (shown["status"], utc(shown["next_due_us"])) == ("active", "2026-03-28T16:00:00")
            assert await stage.passes(0) == 0, "what passed while it was paused is not made up for"

    play(scenario())


def test_one_second_fires_once_by_hand(tmp_path: Path) -> None:
    async def scenario() -> None:
        with Stage(tmp_path) as stage:
            await stage.add(overlap="allow")
            await stage.desk.schedules.fire("s")

            with pytest.raises(Conflict, match="has fired for this second already"):
                await stage.desk.schedules.fire("s")

            assert await stage.kinds() == ["added", "fired"]

    play(scenario())


def test_two_people_who_fire_at_once_fire_once(tmp_path: Path) -> None:
    async def scenario() -> None:
        with Stage(tmp_path) as stage:
            await stage.add(overlap="allow")

            outcomes = await asyncio.gather(
                *(stage.desk.schedules.fire("s") for _ in range(5)), return_exceptions=True
            )

            assert sum(isinstance(one, dict) for one in outcomes) == 1
            assert sum(isinstance(one, Conflict) for one in outcomes) == 4

    play(scenario())
