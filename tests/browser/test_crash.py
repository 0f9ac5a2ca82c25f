"""A call that is stopped, and a server that is killed: the browser goes on where it was."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Shot, SignIn
from tests.browser.hand import FIGURES, Hand
from tests.browser.served import Served

pytestmark = pytest.mark.slow


def test_a_stopped_mission_goes_on_after_the_server_was_killed(
    served: Served, sign_in: SignIn, shot: Shot
) -> None:
    page = sign_in(served.start("--pace", "1"))
    hand = Hand(page)
    mission = hand.launch()
    everything = page.get_by_role("group", name="All runs")
    expect(hand.node("Agent", "Analyst")).to_have_accessible_name(re.compile("asks offline"))

    everything.get_by_role("button", name="Stop").click()  # in the middle of a call
    hand.until("runs", f"{mission}/figures", status="paused")
    expect(hand.node("Agent", "Analyst")).to_have_accessible_name(re.compile("paused"))
    before = hand.get("tasks", f"{mission}/figures")["iterations"]
    served.kill()
    expect(page.get_by_text(re.compile("Reconnecting|No connection"))).to_be_visible()
    shot(page, "crash-away")

    served.start("--pace", "0")  # the last one counts: nothing has to be caught in the middle any more
    page.reload()
    expect(hand.node("Agent", "Analyst")).to_have_accessible_name(re.compile("paused"))
    assert hand.get("tasks", f"{mission}/figures")["iterations"] == before
    everything.get_by_role("button", name="Resume all").click()
    hand.until("missions", mission, status="completed")
    expect(hand.node("Task", "report")).to_have_accessible_name(re.compile("done"))
    made = hand.get("tasks", f"{mission}/report")["outputs"][0]
    inspector = hand.choose("artifact", hand.title(made))
    for figure in FIGURES:
        expect(inspector).to_contain_text(figure)


def test_a_page_misses_nothing_while_the_server_is_away(served: Served, sign_in: SignIn, shot: Shot) -> None:
    page = sign_in(served.start("--pace", "1"))
    hand = Hand(page)
    mission = hand.launch()
    stream = hand.tab("Live stream").get_by_role("listbox", name="Events")
    expect(stream.get_by_role("option").filter(has_text="decision").first).to_be_visible()

    served.kill()
    banner = page.get_by_text(re.compile("Reconnecting|No connection"))
    expect(banner).to_be_visible()
    served.start("--pace", "0")

    expect(banner).to_be_hidden()
    hand.until("missions", mission, status="completed")
    expect(hand.node("Task", "report")).to_have_accessible_name(re.compile("done"))
    there = len(hand.items("events", limit="1000"))
    expect(hand.console).to_contain_text(f"{there} events")
