"""A world that is made, ticks, runs and pauses; two browsers see the same."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.browser.axe import Audit
from tests.browser.conftest import LivedIn, Shot, SignIn
from tests.browser.hand import Hand

pytestmark = pytest.mark.slow


def test_two_browsers_see_the_same_world_go_on(lived_in: LivedIn, sign_in: SignIn, shot: Shot) -> None:
    page = sign_in(lived_in.server.link())
    hand = Hand(page)
    main = hand.go("World")
    main.get_by_role("button", name="New world").first.click()
    dialog = page.get_by_role("dialog", name="New world")
    dialog.get_by_label("Name of the world").fill("village")
    dialog.get_by_label("Seed").fill("3")
    dialog.get_by_role("button", name="Make it").click()
    world = page.get_by_role("region", name="World village")
    heading = world.get_by_role("heading", level=2)
    expect(heading).to_contain_text("tick 0")

    context = page.context
    other = context.new_page()  # the same person, in another window
    other.goto(page.url)
    theirs = other.get_by_role("region", name="World village").get_by_role("heading", level=2)
    expect(theirs).to_contain_text("tick 0")

    time = world.get_by_role("group", name="Time of the world")
    time.get_by_role("button", name="Tick", exact=True).click()
    expect(heading).to_contain_text("tick 1")
    expect(theirs).to_contain_text("tick 1")

    time.get_by_label("How many ticks").fill("5")
    time.get_by_role("button", name="Run 5 ticks").click()
    for one in (heading, theirs):
        expect(one).to_contain_text("tick 6")
    shot(page, "world")

    world.get_by_role("tab", name="Graph").click()
    trades = [one["data"] for one in hand.items("worlds", "village", "events", kind="offer.accepted")]
    pairs = world.get_by_role("table", name="Who deals with whom").get_by_role("row")
    expect(pairs).to_have_count(1 + len({(one["seller"], one["buyer"]) for one in trades}))
    expect(world.get_by_role("img", name="Graph of trades and messages")).to_be_visible()
    audit = Audit(page)
    audit.look("the graph of a world")
    audit.verdict()
    shot(page, "world-graph")

    time.get_by_role("button", name="Pause").click()
    stands = other.get_by_role("region", name="World village").get_by_role("status")
    expect(stands.filter(has_text="Paused").first).to_be_visible()
    other_time = other.get_by_role("group", name="Time of the world")
    expect(other_time.get_by_role("button", name=re.compile("Run"))).to_be_disabled()
    other_time.get_by_role("button", name="Step").click()
    for one in (heading, theirs):
        expect(one).to_contain_text("tick 7")
    assert hand.get("worlds", "village")["tick"] == 7
    agents = {one["id"]: one["balance"] for one in hand.get("worlds", "village", "agents")["items"]}
    figures = hand.get("worlds", "village", "metrics")["items"]
    assert figures[-1]["balances"] == agents
