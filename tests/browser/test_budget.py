"""A budget that is lowered by its slider stops the agent, and says so."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Shot, SignIn
from tests.browser.hand import Hand
from tests.browser.served import Served

pytestmark = pytest.mark.slow


def test_a_lower_budget_stops_the_agent_for_that_reason(
    served: Served, sign_in: SignIn, shot: Shot, tmp_path: Path
) -> None:
    prices = '[prices."offline"]\ninput = 20\noutput = 20\n'
    (tmp_path / "artelier.toml").write_text(prices, "utf-8")
    page = sign_in(served.start("--pace", "1"))
    hand = Hand(page)
    mission = hand.launch()
    inspector = hand.choose("agent", "Analyst")
    page.get_by_role("button", name="Pause all").click()
    hand.until("runs", mission, status="paused")

    budget = inspector.get_by_role("slider", name="Budget")
    budget.focus()
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    expect(inspector).to_contain_text(re.compile(r"\$0\.01"))
    page.keyboard.press("Tab")
    expect(inspector.get_by_role("status").filter(has_text="Version 2")).to_be_visible()
    assert hand.get("steering", f"{mission}/analyst")["sliders"]["budget_usd"] == "0.01"
    page.get_by_role("button", name="Resume all").click()

    hand.until("runs", f"{mission}/figures", status="budget_exhausted")
    expect(hand.node("Agent", "Analyst")).to_have_accessible_name(re.compile("budget"))
    shot(page, "budget")
    postings = hand.get("ledger", "totals")
    assert postings
