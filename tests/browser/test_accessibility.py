"""Every screen passes axe in both themes and on a phone, and a goal needs no pointer."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.axe import Audit
from tests.browser.conftest import Shot, SignIn
from tests.browser.hand import FIGURES, GOAL, Hand
from tests.browser.served import Served

pytestmark = pytest.mark.slow

SCREENS = (
    "Canvas", "Chat", "World", "Artifacts", "Runs", "Memory", "Skills", "Market", "Costs",
    "Settings",
)  # fmt: skip
TABS = ("Live stream", "Context", "Decisions", "Ledger", "Timeline")


def lived_in(hand: Hand) -> str:
    """A server that has something for every screen to show; the mission."""
    hand.post("worlds", body={"id": "town", "template": "market", "seed": 3})
    hand.post("worlds", "town", "tick", body={"count": 3})
    hand.post("sessions", body={"id": "talk"})
    hand.post("sessions", "talk", "turns", body={"text": "Hello."})
    mission = hand.launch()
    hand.until("missions", mission, status="completed")
    return mission


@pytest.mark.parametrize("theme", ["dark", "light"])
def test_every_screen_passes_axe(served: Served, sign_in: SignIn, shot: Shot, theme: str) -> None:
    page = sign_in(served.start(), theme=theme)
    hand, audit = Hand(page), Audit(page)
    expect(page.get_by_text("Nobody works yet")).to_be_visible()
    audit.look("nothing there yet")
    dialog = hand.plan()
    audit.look("plan")
    dialog.get_by_role("button", name="Discard").click()
    expect(dialog).to_be_hidden()
    mission = lived_in(hand)

    for tab in TABS:
        expect(hand.tab(tab)).to_be_visible()
        audit.look(f"console {tab}")
    made = hand.title(hand.get("tasks", f"{mission}/report")["outputs"][0])
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
        shot(page, f"screen-{screen.lower()}-{theme}")
    audit.verdict()


def test_a_phone_gets_lists_and_no_screen_is_too_wide(
    served: Served, sign_in: SignIn, shot: Shot
) -> None:
    link = served.start()
    hand = Hand(sign_in(link))
    lived_in(hand)
    hand.page.set_viewport_size({"width": 390, "height": 844})
    page, audit = hand.page, Audit(hand.page)
    page.reload()

    main = page.get_by_role("main")
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
    page.get_by_role("button", name="Close the console").click()
    main.get_by_text("Analyst").first.click()
    expect(hand.inspector).to_be_visible()
    audit.look("inspector on a phone")
    page.get_by_role("button", name="Back to the screen").click()
    expect(hand.inspector).to_be_hidden()
    audit.verdict()


@pytest.mark.parametrize("theme", ["dark", "light"])
def test_what_waits_for_a_person_and_the_way_in_pass_axe(
    served: Served, sign_in: SignIn, tmp_path: Path, theme: str
) -> None:
    (tmp_path / "artelier.toml").write_text('[policy]\napprove_risk = "low"\n', "utf-8")
    page = sign_in(served.start(), theme=theme)
    hand, audit = Hand(page), Audit(page)
    page.get_by_role("textbox", name="Goal", exact=True).fill("Which region sold most?")
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Review", exact=True).click()
    expect(page.get_by_role("dialog").get_by_role("textbox", name="Note")).to_be_visible()
    audit.look("approval")
    page.keyboard.press("Escape")

    hand.go("Settings").get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    expect(page.get_by_role("textbox", name="Goal", exact=True)).to_have_count(0)
    audit.look("signed out")
    audit.verdict()


def test_a_goal_needs_no_pointer(served: Served, sign_in: SignIn, shot: Shot) -> None:
    page = sign_in(served.start())
    hand = Hand(page)

    _tab_to(page, "Goal")
    page.keyboard.type(GOAL)
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog", name="Plan")
    expect(dialog.get_by_role("button", name="Launch")).to_be_enabled()
    _tab_to(page, "Launch")
    page.keyboard.press("Enter")
    expect(dialog).to_be_hidden()
    expect(hand.node("Task", "report")).to_have_accessible_name(re.compile("done"))

    mission = hand.mission()
    made = hand.title(hand.get("tasks", f"{mission}/report")["outputs"][0])
    _tab_to(page, "Find on the canvas")
    page.keyboard.type(made[:30])
    expect(page.get_by_role("listbox", name="Found").get_by_role("option").first).to_be_visible()
    page.keyboard.press("Enter")
    expect(hand.inspector).to_contain_text(FIGURES[0])

    _tab_to(page, "Live stream")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    expect(hand.console.get_by_role("tab", name="Decisions")).to_be_focused()
    expect(hand.console.get_by_role("tabpanel", name="Decisions")).to_contain_text("use_tool")
    shot(page, "keyboard")


def _tab_to(page: Page, name: str, *, presses_max: int = 120) -> None:
    """Press Tab until what is called so has the focus."""
    for _ in range(presses_max):
        page.keyboard.press("Tab")
        focused = page.locator(":focus")
        if focused.count() and focused.aria_snapshot().splitlines()[0].find(f'"{name}"') >= 0:
            return
    raise AssertionError(f"{name} cannot be reached by Tab")
