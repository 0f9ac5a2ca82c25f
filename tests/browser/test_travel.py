"""The past: every view follows the slider, nothing can be changed there, and a run forks from it."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import LivedIn, Shot, SignIn
from tests.browser.hand import Hand

pytestmark = pytest.mark.slow


def test_the_past_is_shown_everywhere_and_a_fork_begins_in_it(
    lived_in: LivedIn, sign_in: SignIn, shot: Shot
) -> None:
    page, mission = sign_in(lived_in.server.link()), lived_in.mission
    hand = Hand(page)
    made = [
        hand.node("Artifact", hand.title(hand.get("tasks", f"{mission}/{slug}")["outputs"][0]))
        for slug in ("figures", "report")
    ]
    for one in made:
        expect(one).to_be_visible()
    hand.choose("agent", "Analyst")

    timeline = hand.tab("Timeline")
    first = next(one for one in hand.events("decision.taken") if "figures" in one["stream"])
    slider = timeline.get_by_role("slider", name="Position in time")
    slider.fill(str(first["position"] - 1))  # the slider counts events from 0
    expect(page.get_by_text("You are looking at the past")).to_be_visible()
    for one in made:
        expect(one).to_have_count(0)
    expect(hand.node("Task", "figures")).to_have_accessible_name(re.compile("active"))
    expect(hand.node("Task", "report")).to_have_accessible_name(re.compile("pending"))
    goal = page.get_by_role("textbox", name="Goal", exact=True)
    expect(goal).to_be_disabled()
    expect(goal).to_have_attribute("placeholder", re.compile("past"))
    expect(hand.inspector.get_by_role("application", name="Policy bias")).to_have_attribute(
        "aria-disabled", "true"
    )
    hand.tab("Decisions")
    expect(hand.console.get_by_text("1 decision")).to_be_visible()
    shot(page, "travel-past")

    hand.tab("Timeline")
    known = {run["id"] for run in hand.items("runs")}
    timeline.get_by_role("combobox", name="Run to fork").select_option(f"{mission}/figures")
    timeline.get_by_role("button", name=re.compile("Fork")).click()
    expect(page.get_by_text("You are looking at the past")).to_be_hidden()
    fork_id = next(run["id"] for run in hand.items("runs") if run["id"] not in known)
    hand.until("runs", fork_id, status=("completed", "failed"))
    fork = hand.get("runs", fork_id)
    assert fork["status"] == "completed", fork
    shot(page, "travel-fork")
    steps = {one["key"] for one in hand.get("runs", fork_id, "steps")["items"]}
    assert "c2/decision" in steps
