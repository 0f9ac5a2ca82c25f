"""What comes with a goal: planner, tasks and judges are shown it, it is stored once, and refused early."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from artelier import ModelRequest
from artelier.errors import ArtelierError, InvalidRequest, MediaNotTaken, NotFound
from artelier.ports.media import ATTACHMENTS_MAX, MediaRules, media_in
from artelier.testing import ScriptedMediaModel, ScriptedModel
from artelier.tokens.estimate import IMAGES, PDFS
from tests.media.samples import pdf, png
from tests.missions.mission_stage import LINE, MISSION, Team, launched, opened, planned, replayed, statuses
from tests.missions.task_stage import approve, play

IMAGES_AND_PDFS = MediaRules(types=IMAGES | PDFS, bound=lambda medium: 1_000)
ALONE = planned({"slug": "a"})
SALES = "Bergen sold goods for 8153 kroner."


class SeeingTeam(Team):
    """A team that takes media, and writes the same of each title."""

    def __init__(self, *plans: Any, content: str = "", rules: MediaRules | None = None, **more: Any) -> None:
        super().__init__(*plans, **more)
        self.content = content

        def answer(request: ModelRequest) -> Any:
            found = self._answer(request)
            return self.content if self.content and self.asked[-1][0] == "content" else found

        self.shown = ScriptedMediaModel(answer, rules=rules or IMAGES_AND_PDFS)
        self.model = self.shown if rules is None else ScriptedModel(answer)


def test_planner_tasks_and_judges_are_shown_what_came_with_the_goal(tmp_path: Path) -> None:
    team = SeeingTeam(LINE)

    async def scenario() -> None:
        with opened(tmp_path, team) as kernel:
            desk = kernel.for_tenant("acme")
            shown = await launched(desk, attachments=[png(5, 5), pdf("Revenue")], subject="customer-17")

            assert shown["status"] == "completed", shown["message"]
            assert [(one["media_type"], one["pixels"], one["pages"]) for one in shown["attachments"]] == [
                ("image/png", (5, 5), None),
                ("application/pdf", None, 1),
            ]
            calls = len(team.requests)
            for run in (MISSION, f"{MISSION}/figures"):
                assert (await replayed(kernel, "acme", run)).status == "completed"
            assert len(team.requests) == calls
            assert (await kernel.collect()).blobs == 0
            assert kernel.verify().ok
            await desk.erase(subject="customer-17")
            assert (await desk.mission(MISSION))["attachments"] == []
            assert png(5, 5) not in (tmp_path / "s.db").read_bytes()

    play(scenario())

    assert {what for what, _ in team.asked} == {"Plan", "Decision", "content", "Verdict"}
    kinds = [[one.kind for one in media_in(request.messages)] for request in team.requests]
    assert kinds == [["image", "pdf"]] * len(team.requests)
    assert set(team.shown.media) == {(png(5, 5), pdf("Revenue"))}


def test_another_process_goes_on_without_the_file(tmp_path: Path) -> None:
    first, second = SeeingTeam(LINE), SeeingTeam()

    async def scenario() -> None:
        with opened(tmp_path, first) as kernel:
            desk = kernel.for_tenant("acme")
            await launched(desk, attachments=[png(5, 5)], auto_launch=False)
            await desk.launch(MISSION)
        with opened(tmp_path, second) as kernel:
            result = await kernel.for_tenant("acme").drive_mission(MISSION)
            assert result.status == "completed", result.reason

    play(scenario())

    assert set(second.shown.media) == {(png(5, 5),)}


@pytest.mark.parametrize(
    ("content", "media"), [(SALES.encode(), MediaRules()), (pdf(SALES), MediaRules())], ids=["text", "pdf"]
)
def test_a_model_without_media_reads_the_text_and_its_figures_are_founded(
    tmp_path: Path, content: bytes, media: MediaRules
) -> None:
    team = SeeingTeam(ALONE, content=f"# Bergen\n\n{SALES}", rules=media)

    async def scenario() -> None:
        with opened(tmp_path, team) as kernel:
            shown = await launched(kernel.for_tenant("acme"), attachments=[content])
            assert statuses(shown) == {"a": "done"}, shown["message"]

    play(scenario())

    sent = ["\n".join(message.text for message in request.messages) for request in team.requests]
    assert all(SALES in one for one in sent)


def answered(is_fault: bool) -> Callable[[ModelRequest], Any]:
    """A judge that is asked about a figure, and says of it what the test wants."""

    def judge(request: ModelRequest) -> Any:
        if "unfounded_figure" not in "".join(message.text for message in request.messages):
            return approve(request)
        said = approve(request)
        evidence = [one for one in said["criteria"][0]["evidence"] if one["ref"] != "rules"]
        criteria = [{**said["criteria"][0], "evidence": evidence}]
        findings = [{"number": 1, "is_fault": is_fault, "why": "I looked."}]
        return {**said, "criteria": criteria, "findings": findings}

    return judge


@pytest.mark.parametrize(("is_fault", "status"), [(False, "done"), (True, "failed")])
def test_a_figure_of_an_image_is_for_the_judge_who_sees_it(
    tmp_path: Path, is_fault: bool, status: str
) -> None:
    plan = planned({"slug": "a", "max_iterations": 2})
    team = SeeingTeam(plan, content=f"# Bergen\n\n{SALES}", judge=answered(is_fault))

    async def scenario() -> None:
        with opened(tmp_path, team) as kernel:
            shown = await launched(kernel.for_tenant("acme"), attachments=[png(5, 5)])
            assert statuses(shown) == {"a": status}, shown["message"]

    play(scenario())


@pytest.mark.parametrize(
    ("contents", "rules", "error", "why"),
    [
        ([png()[:-6]], None, InvalidRequest, "this PNG is broken"),
        ([pdf("a", password="x")], None, InvalidRequest, "has a password"),
        ([b"\0"], None, InvalidRequest, "no image, sound, PDF or text"),
        ([b"x" * 400_001], None, InvalidRequest, "too long"),
        ([png()] * (ATTACHMENTS_MAX + 1), None, InvalidRequest, "too many attachments"),
        ([png()], MediaRules(), MediaNotTaken, "takes no image/png"),
    ],
)
def test_what_cannot_be_shown_is_refused_before_anything_is_recorded(
    tmp_path: Path, contents: list[bytes], rules: MediaRules | None, error: type[ArtelierError], why: str
) -> None:
    team = SeeingTeam(ALONE, rules=rules)

    async def scenario() -> None:
        with opened(tmp_path, team) as kernel:
            desk = kernel.for_tenant("acme")
            with pytest.raises(error, match=why):
                await launched(desk, attachments=contents)
            with pytest.raises(NotFound):
                await desk.mission(MISSION)

    play(scenario())

    assert team.requests == []
