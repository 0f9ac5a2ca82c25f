"""Pages that were left hold no connection, of which a browser has six to a host."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.browser.served import Served

pytestmark = pytest.mark.slow

SCREENS = ("memory", "skills", "market", "costs", "settings", "chat", "world", "runs", "artifacts")


def test_many_addresses_in_one_tab_all_load(served: Served, sign_in: Callable[..., Page]) -> None:
    page = sign_in(served.start())

    for screen in SCREENS:
        page.goto(f"{served.address}/{screen}")
        expect(page.get_by_text("spent / budget")).to_be_visible()
        expect(page.get_by_text("Loading")).to_have_count(0)
    page.go_back()

    expect(page).to_have_url(f"{served.address}/{SCREENS[-2]}")
    expect(page.get_by_role("navigation").first).to_be_visible()
