"""A goal that stands as failed can be retried, and a task that ran out of budget can be taken up again."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest

from artelier import Kernel, Limits, Price
from artelier.errors import Conflict, InvalidRequest, ModelRefusedCall
from artelier.log import control_stream, run_stream
from tests.missions.mission_stage import LINE, MISSION, Team, launched, opened, replayed, statuses
from tests.missions.task_stage import DONE, approve, play, reject, text_of, write

NOTE = "Bergen is missing."


def test_retry_of_a_mission_makes_anew_what_a_person_rejected_after_its_run_had_ended(tmp_path: Path) -> None:
    team = Team(LINE, scripts={"letter": [write("Out"), write("Out")]})

    async def scenario() -> None:
        with opened(tmp_path, team) as kernel:
            desk = kernel.for_tenant("acme")
            first = await launched(desk)
            await desk.tasks.judge("m1/letter", accepted=False, note=NOTE, by="user:kim")
            failed = await desk.mission(MISSION)
            await desk.retry(MISSION, by="user:kim")
            await desk.drive_mission(MISSION)
            goal = await desk.mission(MISSION)

            assert (first["status"], failed["status"], failed["run_status"]) == (
                "completed",
                "failed",
                "completed",
            )
            assert (goal["status"], statuses(goal)) == ("completed", {"figures": "done", "letter": "done"})
            assert (first["outputs"], goal["outputs"]) == (["m1/out@1"], ["m1/out@2"])
            assert goal["text"] != first["text"]
            assert team.count("Decision", "figures") == 1  # what was done is not made again
            assert any(NOTE in text_of(request) for request in team.requests)
            for run in (MISSION, "m1/figures", "m1/letter"):
                assert (await replayed(kernel, "acme", run)).status == "completed"

    play(scenario())


def test_a_mission_whose_goal_stands_as_completed_is_not_retried(tmp_path: Path) -> None:
    async def scenario() -> None:
        with opened(tmp_path, Team(LINE)) as kernel:
            desk = kernel.for_tenant("acme")
            await launched(desk)
            with pytest.raises(Conflict, match="only a failed run"):
                await desk.retry(MISSION)

    play(scenario())


def test_a_mission_that_failed_is_not_retried_once_a_person_has_accepted_what_it_made(tmp_path: Path) -> None:
    team = Team(LINE, judge=reject, scripts={"figures": [write("Out"), DONE]})

    async def scenario() -> None:
        with opened(tmp_path, team) as kernel:
            desk = kernel.for_tenant("acme")
            failed = await launched(desk)
            for task in ("m1/figures", "m1/letter"):
                if task == "m1/letter":
                    team.judge = approve
                    await desk.tasks.retry(task, by="user:kim")
                    await desk.tasks.start(task)
                else:
                    await desk.tasks.judge(task, accepted=True, by="user:kim")
            goal = await desk.mission(MISSION)

            assert (failed["status"], goal["status"], goal["run_status"]) == ("failed", "completed", "failed")
            with pytest.raises(Conflict, match="stands as completed"):
                await desk.retry(MISSION)

    play(scenario())


def test_a_task_that_ran_out_of_budget_is_retried_when_its_limit_is_raised(tmp_path: Path) -> None:
    price = Price(input=Decimal(50), output=Decimal(100))
    team = Team(LINE, scripts={"letter": [write("Out"), DONE, write("Out")]})

    async def scenario() -> None:
        with opened(tmp_path, team, prices={"m": price}) as kernel:
            desk = kernel.for_tenant("acme")
            await launched(desk)
            await desk.tasks.judge("m1/letter", accepted=False, note=NOTE, by="user:kim")
            await desk.tasks.retry("m1/letter")
            await desk.limit(MISSION, unit="usd", cap="0")
            await desk.tasks.start("m1/letter")
            blocked = await desk.tasks.show("m1/letter")
            with pytest.raises(Conflict, match="has not ended: its budget is used up"):
                await desk.tasks.judge("m1/letter", accepted=True, by="user:kim")
            await desk.limit(MISSION, unit="usd", cap="900")
            again = await desk.tasks.retry("m1/letter")
            await desk.tasks.start("m1/letter")
            done = await desk.tasks.show("m1/letter")

            assert (blocked["status"], blocked["reason"]) == ("blocked", "budget_exhausted")
            assert (again["status"], done["status"]) == ("active", "done")

    play(scenario())


def test_retry_of_a_mission_goes_on_with_a_task_that_ran_out_of_budget(tmp_path: Path) -> None:
    price = Price(input=Decimal(50), output=Decimal(100))
    team = Team(LINE, scripts={"letter": [write("Out"), DONE, write("Out")]})

    async def scenario() -> None:
        with opened(tmp_path, team, prices={"m": price}) as kernel:
            desk = kernel.for_tenant("acme")
            await launched(desk)
            await desk.tasks.judge("m1/letter", accepted=False, note=NOTE, by="user:kim")
            await desk.tasks.retry("m1/letter")
            await desk.limit(MISSION, unit="usd", cap="0")
            await desk.tasks.start("m1/letter")
            before = await desk.mission(MISSION)
            await desk.limit(MISSION, unit="usd", cap="900")
            await desk.retry(MISSION)
            await desk.drive_mission(MISSION)

            assert (before["status"], before["run_status"]) == ("blocked", "completed")
            assert (await desk.mission(MISSION))["status"] == "completed"
            assert (await replayed(kernel, "acme", MISSION)).status == "completed"

    play(scenario())


async def heads(kernel: Kernel) -> list[int]:
    streams = run_stream("acme", MISSION), control_stream("acme", MISSION)
    return [(await kernel.store.head(stream))[0] for stream in streams]


def test_a_mission_refuses_a_note_that_it_would_not_read(tmp_path: Path) -> None:
    """It was recorded, the mission was reopened, and nobody was told."""

    async def scenario() -> None:
        with opened(tmp_path, Team(ModelRefusedCall("no"), LINE)) as kernel:
            desk = kernel.for_tenant("acme")
            await desk.plan("The goal.", mission_id=MISSION, model="m")
            before = await heads(kernel)

            for wish in (
                desk.resume(MISSION, note="Only 2025 counts.", limits=Limits(usd="5.00")),
                desk.inject(MISSION, "Only 2025 counts."),
            ):
                with pytest.raises(Conflict, match="reads no notes") as refused:
                    await wish
                assert "artelier resume TASK --note" in str(refused.value.hint)
            with pytest.raises(InvalidRequest, match="no limit max_iterations"):
                await desk.resume(MISSION, max_iterations=30)

            assert await heads(kernel) == before

    play(scenario())


def test_a_refused_command_names_what_goes_on_with_a_failed_mission(tmp_path: Path) -> None:
    """It named a note, which a mission does not read."""

    async def scenario() -> None:
        with opened(tmp_path, Team(ModelRefusedCall("no"), LINE)) as kernel:
            desk = kernel.for_tenant("acme")
            await desk.plan("The goal.", mission_id=MISSION, model="m")

            for command in (desk.cancel, desk.pause, desk.resume):
                with pytest.raises(Conflict, match="has ended") as refused:
                    await command(MISSION)
                assert refused.value.hint == f"Try again what failed: artelier retry {MISSION}"

            await desk.retry(MISSION)
            await desk.drive_mission(MISSION, on_wait="return")
            assert (await desk.mission(MISSION))["status"] == "waiting_approval"

    play(scenario())
