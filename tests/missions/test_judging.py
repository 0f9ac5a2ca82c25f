"""People accept and reject outputs: an event with their name, above any evaluator's verdict."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from artelier import Kernel, ModelRequest
from artelier.agents import Worker
from artelier.errors import Conflict, InvalidRequest, NotFound
from artelier.log import run_stream
from artelier.missions.task.loop_state import TaskJob
from tests.missions.mission_stage import (
    FORK,
    LINE,
    MISSION,
    Team,
    launched,
    opened,
    planned,
    replayed,
    statuses,
)
from tests.missions.task_stage import DONE, approve, play, reject, text_of, write

OUT = "m1/out-a@1"


def stubborn(**scripts: Any) -> Team:
    """A task whose evaluator never says yes."""
    plan = planned({"slug": "a", "max_iterations": 2}, {"slug": "end", "after": ["a"]})
    return Team(plan, judge=_against("a"), scripts={"a": [write("Out a"), DONE], **scripts})


def _against(slug: str) -> Any:
    def judge(request: Any) -> Any:
        return reject(request) if f" of {slug}." in text_of(request) else approve(request)

    return judge


async def judged(kernel: Kernel) -> list[Any]:
    return [event async for event in kernel.events() if event.kind == "output.judged"]


def test_an_accepted_output_makes_its_task_done_and_frees_what_waits_for_it(tmp_path: Path) -> None:
    async def scenario() -> None:
        with opened(tmp_path, stubborn()) as kernel:
            desk = kernel.for_tenant("acme")
            before = await launched(desk)
            shown = await desk.tasks.judge("m1/a", accepted=True, note="Checked.", by="user:kim")
            freed = statuses(await desk.mission(MISSION))
            await Worker(kernel, kernel.services).once()
            goal = await desk.mission(MISSION)

            assert (before["status"], statuses(before)) == ("failed", {"a": "failed", "end": "blocked"})
            assert (shown["status"], shown["reason"]) == ("done", "accepted")
            (said,) = shown["judged"]
            assert (said["output"], said["accepted"], said["by"]) == (OUT, True, "user:kim")
            assert said["note"] == "Checked."
            assert freed == {"a": "done", "end": "pending"}
            assert (goal["status"], goal["reason"], goal["message"]) == ("completed", "", "")
            assert goal["outputs"] == ["m1/out-end@1"]
            assert goal["text"].startswith("# The letter of end")
            (event,) = await judged(kernel)
            assert (event.actor, event.stream.local) == ("user:kim", "artifact:m1/a")
            assert "Checked." not in str(event.plain())

    play(scenario())


def test_a_rejected_output_fails_its_task_and_its_agent_reads_why_when_it_is_retried(tmp_path: Path) -> None:
    team = Team(LINE, scripts={"figures": [write("Out"), DONE, write("Out")]})

    async def scenario() -> None:
        with opened(tmp_path, team) as kernel:
            desk = kernel.for_tenant("acme")
            first = await launched(desk)
            note = "Bergen is missing."
            shown = await desk.tasks.judge("m1/figures", accepted=False, note=note, by="user:kim")
            failed = await desk.mission(MISSION)
            await desk.tasks.retry("m1/figures", by="user:kim")
            working = await desk.mission(MISSION)
            await desk.tasks.start("m1/figures")
            goal = await desk.mission(MISSION)
            task = await desk.tasks.show("m1/figures")

            assert (shown["status"], shown["reason"]) == ("failed", "rejected")
            assert (failed["status"], failed["reason"]) == ("failed", "tasks_failed")
            assert "figures was rejected by a person." in failed["message"]
            assert working["status"] == "running"
            assert (goal["status"], statuses(goal)["figures"]) == ("completed", "done")
            assert task["outputs"] == ["m1/out@2"]
            # The same version is not judged again: only a new one can pass.
            assert [one["void"] for one in task["iterations"]] == ["", "rejected", ""]
            assert any(note in text_of(request) for request in team.requests)
            assert goal["cost_microusd"] == sum(one["cost_microusd"] for one in goal["tasks"]) + (
                first["cost_microusd"] - sum(one["cost_microusd"] for one in first["tasks"])
            )
            for run in (MISSION, "m1/figures", "m1/letter"):
                assert (await replayed(kernel, "acme", run)).status == "completed"

    play(scenario())


class Stubborn(Team):
    """Its agents write the same again, whatever was rejected."""

    def _answer(self, request: ModelRequest) -> Any:
        answer = super()._answer(request)
        return answer.partition(" Written anew")[0] if isinstance(answer, str) else answer


def test_a_task_that_was_done_stays_done_where_what_it_waited_for_was_rejected(tmp_path: Path) -> None:
    """The mission said that it was blocked, and the list of tasks that it was done."""
    judges = [reject]
    team = Stubborn(LINE, judge=lambda request: judges[-1](request))

    async def blocks(kernel: Kernel) -> int:
        return sum(e.kind == "task.blocked" for e in await kernel.store.read(run_stream("acme", MISSION)))

    async def scenario() -> None:
        with opened(tmp_path, team) as kernel:
            desk = kernel.for_tenant("acme")
            assert statuses(await launched(desk)) == {"figures": "failed", "letter": "blocked"}
            judges.append(approve)
            await desk.retry(MISSION)
            await desk.drive_mission(MISSION)
            assert statuses(await desk.mission(MISSION)) == {"figures": "done", "letter": "done"}
            before = await blocks(kernel)

            for _ in range(2):
                await desk.tasks.judge("m1/figures", accepted=False, by="user:kim")
                await desk.retry(MISSION)
                result = await desk.drive_mission(MISSION)

                assert statuses(await desk.mission(MISSION)) == {"figures": "failed", "letter": "done"}
                assert result.status == "failed" and result.text.startswith("1 of 2 tasks was not done: fig")
                assert await blocks(kernel) == before
                assert (await replayed(kernel, "acme", MISSION)).status == "failed"

            await desk.tasks.judge("m1/figures", accepted=True, by="user:kim")
            assert (await desk.mission(MISSION))["status"] == "completed"

    play(scenario())


def test_the_last_word_of_people_holds(tmp_path: Path) -> None:
    async def scenario() -> None:
        with opened(tmp_path, Team(LINE)) as kernel:
            desk = kernel.for_tenant("acme")
            await launched(desk)
            for accepted, by in ((False, "user:kim"), (True, "user:ana"), (False, "user:kim")):
                await desk.tasks.judge("m1/letter", accepted=accepted, by=by)
            shown = await desk.tasks.show("m1/letter")

            assert shown["status"] == "failed"
            assert [(one["accepted"], one["by"]) for one in shown["judged"]] == [
                (False, "user:kim"),
                (True, "user:ana"),
                (False, "user:kim"),
            ]

    play(scenario())


def test_what_cannot_be_judged_is_refused_and_says_why(tmp_path: Path) -> None:
    team = Team(FORK, scripts={"a": [DONE]}, judge=reject)

    async def scenario() -> None:
        with opened(tmp_path, team) as kernel:
            desk = kernel.for_tenant("acme")
            await desk.plan("The goal.", mission_id=MISSION, model="m")
            await desk.launch(MISSION)
            await desk.drive_mission(MISSION)
            with pytest.raises(NotFound, match="no task"):
                await desk.tasks.judge("m1/none", accepted=True)
            with pytest.raises(NotFound, match="has no output"):
                await desk.tasks.judge("m1/b", accepted=True, output="m1/out-a@1")
            with pytest.raises(Conflict, match="made no output"):
                await desk.tasks.judge("m1/a", accepted=False)
            await desk.tasks.retry("m1/b")
            with pytest.raises(Conflict, match="somebody works on"):
                await desk.tasks.judge("m1/b", accepted=True)
            assert await judged(kernel) == []

    play(scenario())


def test_a_done_task_is_not_retried_unless_its_output_is_rejected(tmp_path: Path) -> None:
    async def scenario() -> None:
        with opened(tmp_path, stubborn()) as kernel:
            desk = kernel.for_tenant("acme")
            await launched(desk)
            await desk.tasks.judge("m1/a", accepted=True)
            with pytest.raises(Conflict, match="is done"):
                await desk.tasks.retry("m1/a")

    play(scenario())


class Copyist(Team):
    """A team whose agent of the figures writes these texts, in order."""

    def __init__(self, *texts: str) -> None:
        super().__init__(
            planned({"slug": "figures", "max_iterations": 2}), scripts={"figures": [write("Out")]}
        )
        self.texts = list(texts)

    def _answer(self, request: Any) -> Any:
        answer = super()._answer(request)
        return self.texts.pop(0) if self.asked[-1][0] == "content" else answer


FIRST = "# Figures\n\nOslo sold more than every other city."
OTHER = "# Figures\n\nOslo sold more than Bergen did."


def test_a_copy_of_what_a_person_rejected_does_not_pass_and_other_content_does(tmp_path: Path) -> None:
    async def scenario() -> None:
        with opened(tmp_path, Copyist(FIRST, f"{FIRST}\n", OTHER)) as kernel:
            desk = kernel.for_tenant("acme")
            await launched(desk)
            note = "Bergen is missing."
            await desk.tasks.judge("m1/figures", accepted=False, note=note, by="user:kim")
            await desk.tasks.retry("m1/figures", by="user:kim")
            await desk.tasks.start("m1/figures")
            task = await desk.tasks.show("m1/figures")

            assert (task["status"], task["outputs"]) == ("done", ["m1/out@3"])
            first, copy, other = task["iterations"]
            assert (first["passed"], copy["passed"], other["passed"]) == (True, False, True)
            assert copy["void"] == "rejected"
            (fault,) = copy["verdict"]["faults"]
            assert fault["found"] == [f"equal to version 1, which user:kim rejected: {note}"]
            assert (await replayed(kernel, "acme", "m1/figures")).status == "completed"

    play(scenario())


def test_a_copy_of_what_was_rejected_passes_once_a_person_has_accepted_that_content(tmp_path: Path) -> None:
    async def scenario() -> None:
        with opened(tmp_path, Copyist(FIRST, FIRST, FIRST, OTHER, FIRST)) as kernel:
            desk = kernel.for_tenant("acme")
            await launched(desk)
            await desk.tasks.judge("m1/figures", accepted=False, by="user:kim")
            await desk.tasks.retry("m1/figures")
            await desk.tasks.start("m1/figures")
            failed = await desk.tasks.show("m1/figures")
            accepted = await desk.tasks.judge("m1/figures", accepted=True, by="user:ana")

            assert (failed["status"], failed["reason"]) == ("failed", "max_iterations")
            assert failed["outputs"] == ["m1/out@3"]
            assert (accepted["status"], accepted["reason"]) == ("done", "accepted")
            from artelier.missions.task.evaluation import rejected_in

            assert await rejected_in(desk, ["m1/figures"], ["m1/out@2"]) == []

    play(scenario())


def test_a_run_from_before_rejections_were_heeded_keeps_its_rules() -> None:
    settings = TaskJob(
        task="t", definition={"goal": "g", "success_criteria": "c"}, agent="a", model="m"
    ).settings()

    assert TaskJob.from_stored(settings).heeds
    assert not TaskJob.from_stored({**settings, "rules": 2}).heeds
    assert TaskJob.from_stored({**settings, "rules": 2}).advises


@pytest.mark.parametrize(
    "wrong",
    [
        {"accepted": "yes"},
        {"accepted": None},
        {"accepted": 1},
        {"by": ""},
        {"by": " "},
        {"by": "system"},
        {"by": "agent:x"},
        {"by": None},
    ],
)
def test_only_a_person_judges_and_only_with_yes_or_no(tmp_path: Path, wrong: dict[str, Any]) -> None:
    async def scenario() -> None:
        with opened(tmp_path, Team(LINE)) as kernel:
            desk = kernel.for_tenant("acme")
            await launched(desk)
            with pytest.raises(InvalidRequest) as refused:
                await desk.tasks.judge("m1/letter", **{"accepted": True, "by": "user:kim"} | wrong)
            assert refused.value.expected and refused.value.got
            assert not (await desk.tasks.show("m1/letter"))["judged"]

    play(scenario())
