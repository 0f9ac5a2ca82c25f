"""A schedule from its first line to its removal, by keyboard alone."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.axe import Audit
from tests.browser.conftest import SALES, Shot, SignIn
from tests.browser.hand import FIGURES, GOAL, Hand
from tests.browser.inside import inside, offline

pytestmark = pytest.mark.slow


def test_a_schedule_is_made_fired_and_removed_by_keyboard(
    tmp_path: Path, sign_in: SignIn, shot: Shot
) -> None:
    with inside(tmp_path, offline(), workspace=str(SALES)) as server:
        _journey(sign_in(server.link()), shot)


def _journey(page: Page, shot: Shot) -> None:
    hand, audit = Hand(page), Audit(page)
    hand.go("Schedules")
    audit.look("no schedule")

    hand.tab_to("New")
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog", name="New schedule")
    expect(dialog.get_by_role("textbox", name="Name")).to_be_focused()
    page.keyboard.type("nightly")
    _type(hand, "Goal", GOAL)
    _type(hand, "Cron line", "61 3 * * *")
    page.keyboard.press("Enter")
    line = dialog.get_by_role("textbox", name="Cron line")
    expect(line).to_have_attribute("aria-invalid", "true")
    expect(dialog).to_contain_text("Bad minute")
    audit.look("a cron line that is none")
    shot(page, "schedule-new")
    line.press("Control+a")
    page.keyboard.type("0 3 * * *")
    page.keyboard.press("Enter")
    view = page.get_by_role("region", name="nightly")
    expect(view).to_contain_text("0 3 * * *")

    for verb, becomes in (("Pause", "paused"), ("Resume", "active")):
        _press(hand, view, verb)
        expect(view).to_contain_text(becomes)
    _press(hand, view, "Fire now")
    run = view.get_by_role("link", name="nightly/")
    expect(run).to_be_visible()
    hand.until("runs", run.inner_text(), status="completed")
    expect(view.get_by_role("list", name="Runs")).to_contain_text("done")
    audit.look("a schedule that has fired")
    shot(page, "schedule")
    report = hand.get("runs", run.inner_text())["result"]
    assert FIGURES[0] in str(report)

    _on_a_phone(page, audit, shot)
    _press(hand, view, "Remove")
    hand.tab_to("Remove the schedule")
    page.keyboard.press("Enter")
    expect(page.get_by_text("No schedule is open")).to_be_visible()
    assert hand.items("schedules") == []
    assert hand.items("runs")[-1]["status"] == "completed"
    audit.verdict()


def _type(hand: Hand, field: str, text: str) -> None:
    hand.tab_to(field)
    hand.page.keyboard.type(text)


def _press(hand: Hand, view: Locator, button: str) -> None:
    expect(view.get_by_role("button", name=button)).to_be_enabled()
    hand.tab_to(button)
    hand.page.keyboard.press("Enter")


def _on_a_phone(page: Page, audit: Audit, shot: Shot) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    expect(page.get_by_role("link", name="All schedules")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    audit.look("a schedule on a phone")
    shot(page, "phone-schedule")
    page.set_viewport_size({"width": 1440, "height": 900})
