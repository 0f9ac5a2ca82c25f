"""Pages that were left hold no connection, of which a browser has six to a host."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import LivedIn, SignIn

pytestmark = pytest.mark.slow

SCREENS = ("memory", "skills", "market", "costs", "settings", "chat", "world", "runs", "artifacts")


def test_many_addresses_in_one_tab_all_load(lived_in: LivedIn, sign_in: SignIn) -> None:
    address = lived_in.server.address
    page = sign_in(lived_in.server.link())

    for screen in SCREENS:
        page.goto(f"{address}/{screen}")
        expect(page.get_by_text("spent / budget")).to_be_visible()
        expect(page.get_by_text("Loading")).to_have_count(0)
    page.go_back()

    expect(page).to_have_url(f"{address}/{SCREENS[-2]}")
    expect(page.get_by_role("navigation").first).to_be_visible()
