"""Every screen passes axe in both themes and on a phone, and a goal needs no pointer."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import expect

from artelier.server.security.users import Users, password_hash
from tests.browser.axe import Audit
from tests.browser.conftest import LivedIn, Shot, SignIn
from tests.browser.hand import FIGURES, GOAL, Hand
from tests.browser.inside import inside, offline
from tests.browser.served import Served

pytestmark = pytest.mark.slow

SCREENS = (
    "Canvas",
    "Goals",
    "Chat",
    "World",
    "Artifacts",
    "Runs",
    "Memory",
    "Skills",
    "Schedules",
    "Market",
    "Costs",
    "Settings",
)
SIZES = ((1440, 900), (1024, 768), (390, 844))
TABS = ("Live stream", "Context", "Decisions", "Ledger", "Timeline")


def test_every_screen_passes_axe(lived_in: LivedIn, sign_in: SignIn, shot: Shot) -> None:
    page = sign_in(lived_in.server.link())
    hand, audit = Hand(page), Audit(page)
    expect(hand.node("Task", "report")).to_be_visible()
    for tab in TABS:
        expect(hand.tab(tab)).to_be_visible()
        audit.look(f"console {tab}")
    made = hand.title(hand.get("tasks", f"{lived_in.mission}/report")["outputs"][0])
    for kind, name in (("agent", "Analyst"), ("task", "report"), ("artifact", made)):
        inspector = hand.choose(kind, name)
        tabs = inspector.get_by_role("tab").all()
        for tab in tabs:
            tab.click()
            expect(inspector.get_by_role("tabpanel")).to_be_visible()
            audit.look(f"{kind}, {tab.inner_text()}")
        if not tabs:
            audit.look(kind)
    page.keyboard.press("Control+k")
    audit.look("palette")
    page.keyboard.press("Escape")
    for screen in SCREENS[1:]:
        hand.go(screen)
        audit.look(screen)
        shot(page, f"screen-{screen.lower()}")
    hand.go("Settings").get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    expect(page.get_by_role("textbox", name="Goal", exact=True)).to_have_count(0)
    audit.look("signed out")
    audit.verdict()


def test_a_phone_gets_lists_and_no_screen_is_too_wide(lived_in: LivedIn, sign_in: SignIn, shot: Shot) -> None:
    page = sign_in(lived_in.server.link())
    hand, audit = Hand(page), Audit(page)
    page.set_viewport_size({"width": 390, "height": 844})
    page.reload()

    main = page.get_by_role("main")
    hand.go("Overview")
    expect(main.get_by_text("Analyst").first).to_be_visible()
    expect(page.get_by_role("application", name="Canvas")).to_have_count(0)
    too_wide: list[str] = []
    for screen in ("Overview", *SCREENS[1:]):
        hand.go(screen)
        if page.evaluate("document.documentElement.scrollWidth") > 390:
            too_wide.append(screen)
        audit.look(screen)
        shot(page, f"phone-{screen.lower()}")
    assert not too_wide

    hand.go("Overview")
    page.get_by_role("button", name="Open the console").click()
    expect(hand.console.get_by_role("tab", name="Live stream")).to_be_visible()
    audit.look("console on a phone")
    expect(main.get_by_text("Analyst").first).not_to_be_in_viewport()
    hand.go("Overview")
    expect(hand.console.get_by_role("tab", name="Live stream")).to_have_count(0)
    main.get_by_text("Analyst").first.click()
    expect(hand.inspector).to_be_visible()
    audit.look("inspector on a phone")
    page.get_by_role("button", name="Back to the screen").click()
    expect(hand.inspector).to_be_hidden()
    audit.verdict()


def test_who_signs_in_by_password_is_told_what_went_wrong(
    tmp_path: Path, sign_in: SignIn, shot: Shot
) -> None:
    ada = {"name": "ada", "role": "operator", "tenants": ["default"]}
    users = Users.parse({"users": [{**ada, "password": password_hash("correct horse")}]})
    with inside(tmp_path, offline(), users=users) as server:
        page = sign_in(server.address)
        hand, audit = Hand(page), Audit(page)
        expect(page.get_by_role("textbox", name="Name")).to_be_visible()
        audit.look("sign in")
        shot(page, "sign-in")
        page.set_viewport_size({"width": 390, "height": 844})
        assert page.evaluate("document.documentElement.scrollWidth") <= 390

        hand.tab_to("Name")
        page.keyboard.type("ada")
        page.keyboard.press("Tab")
        page.keyboard.type("wrong horse")
        page.keyboard.press("Enter")
        expect(page.get_by_role("alert")).not_to_be_empty()
        audit.look("a wrong password, on a phone")
        shot(page, "phone-sign-in")

        page.get_by_role("textbox", name="Password").fill("correct horse")
        page.keyboard.press("Enter")
        expect(page.get_by_role("navigation", name="Screens")).to_be_visible()
        hand.go("Settings")
        expect(page.get_by_role("main")).to_contain_text("ada")
        audit.look("settings of who signed in")
        audit.verdict()


def test_a_goal_needs_no_pointer(served: Served, sign_in: SignIn, shot: Shot) -> None:
    page = sign_in(served.start())
    hand, audit = Hand(page), Audit(page)
    expect(page.get_by_text("Nobody works yet")).to_be_visible()
    audit.look("nothing there yet")

    hand.tab_to("Goal")
    page.keyboard.type(GOAL)
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog", name="Plan")
    expect(dialog.get_by_role("button", name="Launch")).to_be_enabled()
    audit.look("plan")
    hand.tab_to("Launch")
    page.keyboard.press("Enter")
    expect(dialog).to_be_hidden()
    answer = page.get_by_role("article", name="Answer")
    expect(answer).to_contain_text(FIGURES[0])
    audit.look("the goal's answer")
    hand.tab_to("Canvas")
    page.keyboard.press("Enter")
    expect(hand.node("Task", "report")).to_have_accessible_name(re.compile("done"))

    mission = hand.mission()
    made = hand.title(hand.get("tasks", f"{mission}/report")["outputs"][0])
    hand.tab_to("Find on the canvas")
    page.keyboard.type(made[:30])
    expect(page.get_by_role("listbox", name="Found").get_by_role("option").first).to_be_visible()
    page.keyboard.press("Enter")
    expect(hand.inspector).to_contain_text(FIGURES[0])

    hand.tab_to("Live stream")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    expect(hand.console.get_by_role("tab", name="Decisions")).to_be_focused()
    expect(hand.console.get_by_role("tabpanel", name="Decisions")).to_contain_text("use_tool")
    shot(page, "keyboard")
    audit.verdict()


def test_no_screen_scrolls_the_page_and_every_screen_has_its_name_in_the_rail(
    lived_in: LivedIn, sign_in: SignIn, shot: Shot
) -> None:
    page = sign_in(lived_in.server.link())
    hand = Hand(page)
    scrolls: list[str] = []
    for width, height in SIZES:
        page.set_viewport_size({"width": width, "height": height})
        for screen in ("Goals", "Overview" if width < 768 else "Canvas", *SCREENS[2:]):
            hand.go(screen)
            size = page.evaluate(
                "[document.documentElement.scrollWidth, document.documentElement.scrollHeight]"
            )
            if size != [width, height]:
                scrolls.append(f"{screen} at {width}x{height}: {size}")
            shot(page, f"size-{screen.lower()}-{width}")
        rail = page.get_by_role("navigation", name="Screens")
        assert "Goals" in rail.inner_text() and "Chat" in rail.inner_text()
    assert not scrolls


def test_the_focus_goes_where_the_eye_goes(lived_in: LivedIn, sign_in: SignIn, shot: Shot) -> None:
    page = sign_in(lived_in.server.link())
    hand = Hand(page)
    hand.go("Canvas")
    page.get_by_role("button", name="Close the console").click()
    expect(hand.console.get_by_role("tab")).to_have_count(0)
    page.reload()
    expect(page.get_by_role("button", name="Open the console")).to_be_visible()
    page.keyboard.press("Control+j")
    expect(hand.console.get_by_role("tab", name="Live stream")).to_be_focused()

    page.keyboard.press("Control+k")
    page.keyboard.type("new goal")
    page.keyboard.press("Enter")
    expect(page.get_by_role("textbox", name="Goal", exact=True)).to_be_focused()

    page.keyboard.press("Control+k")
    page.keyboard.type("Analyst")
    page.get_by_role("listbox", name="Results").get_by_role("option").first.click()
    expect(page.locator("[data-inspector]")).to_be_focused()
    expect(hand.inspector).to_contain_text("Analyst")

    hand.go("Runs")
    rows = page.get_by_role("table", name="Runs").get_by_role("row")
    assert sum(row.get_attribute("tabindex") == "0" for row in rows.all()) == 1
