"""What can be asked of schedules, what is refused, and what stays between tenants."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from artelier import Kernel, Limits
from artelier.agents.launch import Launch, register_launch
from artelier.agents.loop_registry import resume_run
from artelier.errors import ArtelierError, Conflict, InvalidRequest, NotFound, UnknownModel
from artelier.kernel import AgentResult
from tests.schedules.stage import Stage, play, utc

HOUR_S = 3_600


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"goal": ""}, "the goal is empty"),
        ({"goal": "  \n"}, "the goal is empty"),
        ({"goal": "x" * 100_001}, "the goal is too long"),
        ({"goal": "\ud800"}, "not UTF-8"),
        ({"goal": None}, "needs something to do"),
        ({"goal": 5}, "goal"),
        ({"model": None}, "needs a model"),
        ({"model": "no:such"}, "no:such"),
        ({"workspace": "/no/such/folder"}, "is not there"),
        ({"budget_usd": "0"}, "no run could take a step"),
        ({"budget_usd": "-1"}, "not an amount"),
        ({"limits": Limits(usd="0")}, "no run could take a step"),
        ({"overlap": "pile_up"}, "overlap"),
        ({"catch_up": "all"}, "catch_up"),
        ({"max_failures": -1}, "max_failures"),
        ({"max_failures": True}, "max_failures"),
        ({"every": None}, "either a cron line or an interval"),
        ({"every": "0s"}, "not an interval"),
        ({"cron": "* * *", "every": None}, "not a cron line"),
        ({"cron": "* * * * *", "every": None, "timezone": "Mars"}, "unknown time zone"),
        ({"settings": {}}, "settings without a loop"),
        ({"loop": "mission", "settings": {}}, "in its settings"),
    ],
)
@pytest.mark.parametrize("solo", [True, False])
def test_what_cannot_work_is_refused_at_once(
    tmp_path: Path, options: dict[str, Any], said: str, solo: bool
) -> None:
    async def scenario() -> None:
        with Stage(tmp_path) as stage:
            wanted: dict[str, Any] = {"every": "1h", "goal": "x", "model": "m", "solo": solo}
            with pytest.raises(ArtelierError, match=said):
                await stage.desk.schedules.add("s", **{**wanted, **options})
            assert (await stage.desk.schedules.list())["items"] == []

    play(scenario())


@pytest.mark.parametrize("name", ["", "a b", "a/b", "ä", "-a", ".a", "a" * 41, "a#b", None, 5])
def test_a_name_is_one_that_runs_can_be_named_after(tmp_path: Path, name: Any) -> None:
    async def scenario() -> None:
        with Stage(tmp_path) as stage:
            with pytest.raises(InvalidRequest, match="invalid name of a schedule"):
                await stage.add(name)

    play(scenario())


@pytest.mark.parametrize(
    ("loop", "settings"),
    [
        ("task", {}),
        ("nothing", {}),
        ("agent", {}),
        ("agent", {"prompt": "x"}),
        ("agent", {"prompt": "x", "model": 5}),
        ("agent", {"prompt": "x", "model": "m", "surprise": 1}),
        ("agent", {"prompt": "x", "model": "m", "max_iterations": 0}),
        ("agent", {"prompt": "x", "model": "m", "max_iterations": True}),
        ("mission", {"goal": "x", "model": "m", "plan": {"agents": "none"}}),
        ("mission", {"goal": "x", "model": "m", "auto_launch": False}),
    ],
)
def test_settings_of_a_loop_are_checked(tmp_path: Path, loop: str, settings: Any) -> None:
    async def scenario() -> None:
        with Stage(tmp_path) as stage:
            with pytest.raises(InvalidRequest):
                await stage.add(loop=loop, settings=settings)

    play(scenario())


def test_a_program_can_schedule_a_loop_with_its_settings(tmp_path: Path) -> None:
    async def scenario() -> None:
        with Stage(tmp_path) as stage:
            settings = {"prompt": "Say done.", "model": "m", "max_iterations": 3}
            await stage.add(loop="agent", settings=settings)
            await stage.passes(HOUR_S)

            shown = await stage.desk.schedules.get("s")
            assert (shown["loop"], (await stage.last_run())["status"]) == ("agent", "completed")
            with pytest.raises(UnknownModel):
                await stage.add("t", loop="agent", settings={**settings, "model": ""})

    play(scenario())


def test_a_program_can_bring_a_loop_that_schedules_start(tmp_path: Path) -> None:
    began: list[tuple[str, Any]] = []

    def check(desk: Any, settings: dict[str, Any]) -> dict[str, Any]:
        return {**settings, "checked": True}

    async def start(
        kernel: Any, tenant: Any, run_id: str, settings: Any, limits: Any, on_wait: str, key_id: Any
    ) -> AgentResult:
        began.append((run_id, settings))
        async with kernel.for_tenant(tenant).run(run_id, loop="mine", limits=limits) as run:
            run.finish("fine")
        return AgentResult(status="completed", run_id=run_id)

    register_launch("mine", Launch(check=check, start=start))

    async def scenario() -> None:
        with Stage(tmp_path) as stage:
            await stage.add(loop="mine", settings={"n": 1}, limits=Limits(steps=5))
            await stage.passes(HOUR_S)

            assert began == [("s/20260328T130000Z", {"n": 1, "checked": True})]
            with pytest.raises(InvalidRequest, match="settings of its own"):
                await stage.desk.schedules.change("s", goal="x")
            with pytest.raises(InvalidRequest, match="JSON data"):
                await stage.add("t", loop="mine", settings={"n": object()})

    play(scenario())


def test_one_name_is_one_schedule(tmp_path: Path) -> None:
    async def scenario() -> None:
        with Stage(tmp_path) as stage:
            outcomes = await asyncio.gather(*(stage.add() for _ in range(5)), return_exceptions=True)

            assert sum(isinstance(one, Conflict) for one in outcomes) == 4
            assert await stage.kinds() == ["added"]

    play(scenario())


def test_schedules_are_listed_by_pages(tmp_path: Path) -> None:
    async def scenario() -> None:
        with Stage(tmp_path) as stage:
            for number in range(5):
                await stage.add(f"s{number}")
            await stage.desk.schedules.pause("s3")
            door = stage.desk.schedules

            first = await door.list(limit=2)
            second = await door.list(limit=2, after=first["next"] or 0)
            last = await door.list(limit=2, after=second["next"] or 0)

            pages = [[one["id"] for one in page["items"]] for page in (first, second, last)]
            assert pages == [["s0", "s1"], ["s2", "s3"], ["s4"]]
            assert last["next"] is None
            paused = await door.list(status="paused")
            assert [one["id"] for one in paused["items"]] == ["s3"]
            with pytest.raises(InvalidRequest, match="status"):
                await door.list(status="odd")

    play(scenario())


def test_what_is_not_there_is_said(tmp_path: Path) -> None:
    async def scenario() -> None:
        with Stage(tmp_path) as stage:
            await stage.kernel.for_tenant("other").schedules.add("theirs", every="1h", goal="x", model="m")
            door = stage.desk.schedules
            for ask in (door.get, door.pause, door.resume, door.remove, door.fire, door.change):
                with pytest.raises(NotFound, match="no schedule 'theirs'"):
                    await ask("theirs")
            with pytest.raises(NotFound):
                await resume_run(stage.kernel, "acme", "theirs/20260328T130000Z")

    play(scenario())


def test_pause_and_resume_are_said_once(tmp_path: Path) -> None:
    async def scenario() -> None:
        with Stage(tmp_path) as stage:
            await stage.add()
            door = stage.desk.schedules
            with pytest.raises(Conflict, match="not paused"):
                await door.resume("s")
            with pytest.raises(InvalidRequest, match="note too long"):
                await door.pause("s", note="x" * 10_001)
            await door.pause("s", by="user:ada", note="until monday")
            with pytest.raises(Conflict, match="paused already"):
                await door.pause("s")

            assert await stage.kinds() == ["added", "paused"]

    play(scenario())


# Changing


def test_a_change_holds_for_all_firings_to_come(tmp_path: Path) -> None:
    async def scenario() -> None:
        with Stage(tmp_path) as stage:
            await stage.add(every="1h", budget_usd="1")
            before = await stage.desk.schedules.get("s")

            after = await stage.desk.schedules.change(
                "s", goal="Say more.", budget_usd=None, overlap="allow", max_failures=3
            )

            assert after["next_due_us"] == before["next_due_us"], "its times stay"
            assert (after["goal"], after["budget_usd"]) == ("Say more.", None)
            assert (after["overlap"], after["max_failures"]) == ("allow", 3)
            await stage.passes(HOUR_S)
            run = (await stage.last_run())["run_id"]
            assert (await stage.desk.show(run))["goal"] == "Say more."

    play(scenario())


def test_times_can_be_changed_from_one_kind_to_the_other(tmp_path: Path) -> None:
    async def scenario() -> None:
        with Stage(tmp_path) as stage:
            await stage.add(every="1h")
            door = stage.desk.schedules

            lined = await door.change("s", cron="0 9 * * *", timezone="Europe/Berlin")
            moved = await door.change("s", timezone="UTC")
            spaced = await door.change("s", every="5m")

            assert (lined["every"], utc(lined["next_due_us"])) == (None, "2026-03-29T07:00:00")
            assert utc(moved["next_due_us"]) == "2026-03-29T09:00:00"
            assert (spaced["cron"], utc(spaced["next_due_us"])) == (None, "2026-03-28T12:05:00")

    play(scenario())


@pytest.mark.parametrize(
    "options",
    [
        {"goal": ""},
        {"model": ""},
        {"workspace": "/no/such"},
        {"budget_usd": "0"},
        {"every": "x"},
        {"overlap": "x"},
        {"cron": None, "every": None},
        {"timezone": "Mars"},
        {"max_failures": None},
    ],
)
def test_a_change_that_cannot_work_changes_nothing(tmp_path: Path, options: Any) -> None:
    async def scenario() -> None:
        with Stage(tmp_path) as stage:
            await stage.add(cron="0 9 * * *", budget_usd="1")
            before = await stage.desk.schedules.get("s")
            with pytest.raises(ArtelierError):
                await stage.desk.schedules.change("s", **options)

            assert await stage.desk.schedules.get("s") == before

    play(scenario())


def test_a_paused_schedule_that_is_changed_stays_paused(tmp_path: Path) -> None:
    async def scenario() -> None:
        with Stage(tmp_path) as stage:
            await stage.add(every="1h")
            await stage.desk.schedules.pause("s")
            changed = await stage.desk.schedules.change("s", every="1m")

            assert (changed["status"], changed["next_due_us"]) == ("paused", None)
            assert await stage.passes(HOUR_S) == 0
            resumed = await stage.desk.schedules.resume("s")
            assert utc(resumed["next_due_us"]) == "2026-03-28T13:01:00"

    play(scenario())


def test_people_and_firings_at_once_lose_nothing(tmp_path: Path) -> None:
    async def scenario() -> None:
        with Stage(tmp_path) as stage:
            await stage.add(every="1m", overlap="allow")
            door = stage.desk.schedules
            for number in range(10):
                stage.clock.advance(60)
                await asyncio.gather(
                    door.change("s", goal=f"Say {number}."),
                    stage.worker.once(),
                    door.change("s", max_failures=number),
                )

            shown = await door.get("s")
            assert (shown["goal"], shown["max_failures"]) == ("Say 9.", 9)
            assert (await stage.kinds()).count("changed") == 20

    play(scenario())


def test_no_text_of_a_person_stands_in_an_event(tmp_path: Path) -> None:
    async def scenario() -> None:
        with Stage(tmp_path) as stage:
            await stage.add(goal="find the SECRET-GOAL")
            await stage.passes(HOUR_S)
            await stage.desk.schedules.pause("s", note="SECRET-NOTE")
            rows = await stage.kernel.store.query("SELECT data FROM events")
            tables = await stage.kernel.store.query("SELECT * FROM schedules")
            firings = await stage.kernel.store.query("SELECT * FROM schedule_firings")

            assert "SECRET" not in f"{rows} {tables} {firings}"

    play(scenario())


def test_schedules_come_back_from_the_log_alone(tmp_path: Path) -> None:
    async def scenario() -> None:
        with Stage(tmp_path) as stage:
            await stage.add("a", overlap="queue")
            await stage.add("b", max_failures=1)
            stage.model.refuses = True
            await stage.passes(HOUR_S)
            await stage.passes(0)
            await stage.desk.schedules.remove("a")

            report = stage.kernel.verify()

            assert (report.findings, "schedules" in report.views) == ([], True)

    play(scenario())


def test_a_reserved_name_is_no_agents(tmp_path: Path) -> None:
    async def scenario() -> None:
        with Kernel.open(tmp_path / "state.db", environ={}) as kernel:
            with pytest.raises(InvalidRequest, match="the name is reserved"):
                await kernel.for_tenant().create_agent("schedule:s", name="S", model="offline")

    play(scenario())
