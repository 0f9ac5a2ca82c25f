"""A page whose server is not there: it says that it waits, and is whole again without a reload by hand."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Route, expect

from tests.browser.axe import Audit
from tests.browser.conftest import LivedIn, Shot, SignIn
from tests.browser.hand import Hand
from tests.browser.served import Served
from tests.browser.test_goal_page import fits

pytestmark = pytest.mark.slow

BROKEN = re.compile("does not answer|cannot be shown|There is no such|Failed to fetch")


def test_a_first_visit_waits_for_a_server_that_starts(lived_in: LivedIn, sign_in: SignIn, shot: Shot) -> None:
    page = sign_in(lived_in.server.link())
    audit = Audit(page)
    waiting = page.get_by_role("heading", name="Waiting for the server")

    # The page is there from a cache or a proxy, the server behind it is not.
    page.route("**/api/v1/**", lambda route: route.abort())
    page.goto(f"{lived_in.server.address}/goals/{lived_in.mission}")
    expect(waiting).to_be_visible()
    expect(page.get_by_role("alert")).to_have_count(0)
    audit.look("no server yet")
    fits(page, shot, "waiting")
    page.unroute("**/api/v1/**")
    expect(page.get_by_role("article", name="Answer")).to_be_visible()
    expect(waiting).to_have_count(0)

    # It answers, and reads for long what happened so far.
    held: list[Route] = []
    page.route("**/api/v1/graph*", lambda route: held.append(route))
    page.goto(f"{lived_in.server.address}/runs/{lived_in.mission}")
    expect(page.get_by_text("The server reads what happened so far")).to_be_visible()
    expect(page.get_by_text(BROKEN)).to_have_count(0)
    expect(page.get_by_text("$0.00")).to_have_count(0)
    audit.look("what happened is being read")
    fits(page, shot, "reading")

    # It goes away over that: nothing that is not known yet is called missing or old.
    page.route("**/api/v1/graph*", lambda route: route.fulfill(status=502, body="<html>Bad gateway</html>"))
    for route in held:
        route.abort()
    expect(page.get_by_text("The server does not answer yet")).to_be_visible()
    expect(page.get_by_text("There is no such run")).to_have_count(0)
    shot(page, "waiting-again")
    page.unroute("**/api/v1/graph*")
    expect(page.get_by_role("tab", name="Steps")).to_be_visible()
    expect(page.get_by_text("The server does not answer yet")).to_have_count(0)
    audit.verdict()


def test_a_plan_that_is_edited_outlives_the_server(served: Served, sign_in: SignIn, shot: Shot) -> None:
    page = sign_in(served.start())
    hand = Hand(page)
    dialog = hand.plan()
    name = dialog.get_by_role("textbox", name="Name", exact=True).first
    name.fill("Ada")
    served.kill()
    expect(page.get_by_text(re.compile("Reconnecting|No connection"))).to_be_visible()
    expect(dialog.get_by_role("button", name="Launch")).to_be_disabled()
    budget = dialog.get_by_role("textbox", name=re.compile("Budget")).first
    budget.fill("0.75")
    shot(page, "plan-away")

    served.start("--pace", "0")
    launch = dialog.get_by_role("button", name="Launch")
    expect(launch).to_be_enabled()
    expect(name).to_have_value("Ada")
    expect(budget).to_have_value("0.75")
    launch.click()
    expect(dialog).to_be_hidden()
    mission = hand.mission()
    hand.until("missions", mission, status="completed")
    launched = hand.get("missions", mission)
    assert "Ada" in {agent["name"] for agent in launched["agents"]}
    assert "0.75" in {agent["budget_usd"] for agent in launched["plan"]["agents"]}


def test_a_plan_that_is_edited_outlives_a_reload(lived_in: LivedIn, sign_in: SignIn, shot: Shot) -> None:
    page = sign_in(lived_in.server.link())
    hand, audit = Hand(page), Audit(page)
    dialog = hand.plan()
    name = dialog.get_by_role("textbox", name="Name", exact=True).first
    proposed = name.input_value()
    name.fill("Ada")
    page.reload()
    expect(name).to_have_value("Ada")
    kept = dialog.get_by_role("status").filter(has_text="shown with your changes")
    expect(kept).to_be_visible()
    audit.look("a plan that was edited before")
    fits(page, shot, "plan-kept")

    # Another person in a browser of their own has the plan as it was proposed.
    other = sign_in(lived_in.server.link())
    other.get_by_role("button", name="Review plan").first.click()
    elsewhere = other.get_by_role("dialog", name="Plan")
    expect(elsewhere.get_by_role("textbox", name="Name", exact=True).first).to_have_value(proposed)
    expect(elsewhere.get_by_text("shown with your changes")).to_have_count(0)

    dialog.get_by_role("button", name="Launch").click()
    expect(dialog).to_be_hidden()
    assert page.evaluate("Object.keys(sessionStorage).filter((key) => key.startsWith('artelier.plan'))") == []
    hand.until("missions", hand.mission(), status="completed")
    assert "Ada" in {agent["name"] for agent in hand.get("missions", hand.mission())["agents"]}
    audit.verdict()


def test_a_screen_that_was_not_loaded_yet_comes_when_the_server_is_back(
    served: Served, sign_in: SignIn, shot: Shot
) -> None:
    page = sign_in(served.start())
    expect(page.get_by_role("textbox", name="Goal", exact=True)).to_be_enabled()
    served.kill()
    page.get_by_role("navigation", name="Screens").get_by_role("link", name="Costs", exact=True).click()
    expect(page.get_by_text(re.compile("Reconnecting|No connection"))).to_be_visible()
    expect(page.get_by_role("alert")).to_have_count(0)
    shot(page, "screen-away")
    served.start()
    expect(page.get_by_role("main").get_by_role("heading", level=1)).to_be_visible()
    expect(page).to_have_url(re.compile("/costs$"))
