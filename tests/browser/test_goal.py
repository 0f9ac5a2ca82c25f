"""From a goal to its finished report, seen as a person sees it."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Shot, SignIn
from tests.browser.hand import FIGURES, Hand
from tests.browser.served import Served

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
