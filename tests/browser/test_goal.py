"""From a goal to its finished report, seen as a person sees it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.axe import Audit
from tests.browser.conftest import SALES, Shot, SignIn
from tests.browser.hand import FIGURES, Hand
from tests.browser.inside import inside, offline
from tests.browser.served import Served
from tests.browser.test_goal_page import fits

pytestmark = pytest.mark.slow


def test_a_goal_becomes_a_report_with_the_right_figures(served: Served, sign_in: SignIn, shot: Shot) -> None:
    page = sign_in(served.start())
    hand = Hand(page)

    dialog = hand.plan()
    expect(dialog).to_contain_text(re.compile(r"About \d+ calls of models"))
    shot(page, "goal-plan")
    analyst = dialog.get_by_role("group", name="Agent analyst")
    analyst.get_by_role("textbox", name="Name").fill("Ines")
    report = dialog.get_by_role("group", name="Task report")
    criteria = report.get_by_role("textbox", name="It is done when")
    criteria.fill(criteria.input_value() + "\n- It says something about North.")
    expect(dialog).to_contain_text("you have changed it since")
    dialog.get_by_role("button", name="Launch").click()

    expect(hand.node("Agent", "Ines")).to_be_visible()
    live = hand.tab("Live stream")
    stream, sought = live.get_by_role("listbox", name="Events"), live.get_by_role("searchbox")
    for word in ("decision", "query_sql", "artifact", "evaluate"):
        sought.fill(word)  # a long stream shows the rows at its end
        expect(stream.get_by_role("option").filter(has_text=word).first).to_be_visible()
    sought.fill("")
    expect(hand.node("Task", "report")).to_have_accessible_name(re.compile("done"))
    mission = hand.mission()
    shown = hand.get("missions", mission)
    assert [agent["name"] for agent in shown["plan"]["agents"]] == ["Ines", "Writer"]
    assert "about North" in hand.get("tasks", f"{mission}/report")["success_criteria"]

    _prompt_is_the_bytes_that_were_sent(hand, mission)
    shot(page, "goal-context")
    made = hand.get("tasks", f"{mission}/report")["outputs"][0]
    inspector = hand.choose("artifact", hand.title(made))
    for figure in FIGURES:
        expect(inspector).to_contain_text(figure)
    shot(page, "goal-report")


def _prompt_is_the_bytes_that_were_sent(hand: Hand, mission: str) -> None:
    """The context inspector on the first decision of the report."""
    decisions = hand.tab("Decisions")
    row = decisions.get_by_role("row").filter(has_text="create_artifact").filter(has_text="report")
    row.first.click()
    context = decisions.get_by_role("region", name="Context of a model step")
    expect(context.get_by_role("list", name="Sections of the prompt")).to_contain_text("criteria")
    context.get_by_role("button", name="Exact text").click()
    context.get_by_role("button", name="Show bytes").click()
    sent = hand.text("runs", f"{mission}/report", "prompt", step="c1/decision")
    assert context.locator("pre").text_content() == sent
    assert "about North" in sent


def test_a_plan_is_drawn_and_what_an_agent_could_not_read_is_told_before_the_launch(
    tmp_path: Path, sign_in: SignIn, shot: Shot
) -> None:
    with inside(tmp_path, offline(), workspace=str(SALES)) as server:
        page = sign_in(server.link())
        hand, audit = Hand(page), Audit(page)
        dialog = hand.plan()
        graph = dialog.get_by_role("application", name="Plan as a graph")
        expect(graph.get_by_role("group", name="Task figures, Analyst")).to_be_visible()
        line = graph.get_by_role("group", name="report begins after figures")
        expect(line).to_have_count(1)
        audit.look("a plan as a graph")
        fits(page, shot, "plan-graph")

        room = dialog.get_by_role("group", name="Membrane shared")
        if not room.count():
            dialog.get_by_role("button", name="Add a membrane").click()
            room = dialog.get_by_role("group", name="Membrane shared")
            room.get_by_role("textbox", name="Name").fill("Shared")
        room.get_by_role("checkbox", name="Writer").uncheck()
        hidden = graph.get_by_role("group", name=re.compile("but cannot read what it makes"))
        expect(hidden).to_have_count(1)
        dialog.get_by_role("button", name="Launch").click()
        expect(dialog.get_by_role("alert")).to_contain_text("could not read what figures makes")
        shot(page, "plan-unreachable")

        hidden.focus()
        page.keyboard.press("Delete")
        expect(graph.get_by_role("group", name=re.compile("begins after"))).to_have_count(0)
        ends = graph.locator(".react-flow__handle")
        _pull(page, ends.nth(1), ends.nth(2))
        expect(hidden).to_have_count(1)
        room.get_by_role("checkbox", name="Writer").check()
        expect(line).to_have_count(1)
        dialog.get_by_role("button", name="Launch").click()
        expect(dialog).to_be_hidden()
        mission = hand.mission()
        hand.until("missions", mission, status="completed")
        assert hand.get("missions", mission)["plan"]["tasks"][1]["depends_on"] == ["figures"]
        audit.verdict()


def _pull(page: Page, start: Locator, end: Locator) -> None:
    for place, act in ((start, page.mouse.down), (end, page.mouse.up)):
        box = place.bounding_box()
        assert box is not None
        page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2, steps=6)
        act()
