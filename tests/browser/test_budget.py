"""A budget that is lowered by its slider stops the agent, and says so."""

from __future__ import annotations

import re
from decimal import Decimal
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from artelier import Price
from tests.browser.conftest import SALES, Shot, SignIn
from tests.browser.hand import Hand
from tests.browser.inside import Gate, inside, offline

pytestmark = pytest.mark.slow


def test_a_lower_budget_stops_the_agent_for_that_reason(tmp_path: Path, sign_in: SignIn, shot: Shot) -> None:
    gate = Gate()
    prices = {"offline": Price(input=Decimal(20), output=Decimal(20))}
    with inside(tmp_path, offline(gate, prices=prices), workspace=str(SALES)) as server:
        _steer_down(sign_in(server.link()), gate, shot)


def _steer_down(page: Page, gate: Gate, shot: Shot) -> None:
    hand = Hand(page)
    mission = hand.launch(gate=gate)
    inspector = hand.choose("agent", "Analyst")
    budget = inspector.get_by_role("slider", name="Budget")
    budget.focus()
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    expect(inspector).to_contain_text(re.compile(r"\$0\.01"))
    page.keyboard.press("Tab")
    expect(inspector.get_by_role("status").filter(has_text="Version 2")).to_be_visible()
    assert hand.get("steering", f"{mission}/analyst")["sliders"]["budget_usd"] == "0.01"
    gate.open()

    hand.until("runs", f"{mission}/figures", status="budget_exhausted")
    expect(hand.node("Agent", "Analyst")).to_have_accessible_name(re.compile("budget"))
    shot(page, "budget")
    postings = hand.get("ledger", "totals")
    assert postings
