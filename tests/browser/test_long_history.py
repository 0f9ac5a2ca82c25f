"""A page that is opened on a long log: it begins with the server's state, and the past comes when asked for.

"Long" begins at a few hundred events here; `artelier bench server` opens the page on 60,000.
"""

from __future__ import annotations

import asyncio
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from playwright.sync_api import Page, Route, expect

from artelier import Kernel
from artelier.server.graph import keeper
from artelier_lab.bench.server.goals import AGENTS, goal_model, work_on_goals
from tests.browser.conftest import Shot, SignIn
from tests.browser.hand import Hand
from tests.browser.inside import inside, offline

pytestmark = pytest.mark.slow

GOALS = 2


@pytest.fixture
def worked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the database of goals that are done, of which a page reads the newest events only."""
    monkeypatch.setattr(keeper, "CHECKPOINT_EVENTS", 100)
    monkeypatch.setattr(keeper, "WINDOW_EVENTS", 100)

    async def work() -> None:
        kernel = Kernel.open(tmp_path / "state.db", models={"scripted": goal_model()}, environ={})
        await work_on_goals(kernel, goals=GOALS)
        await kernel.aclose()

    # In a thread of its own: the driver of the browser has a loop in this one.
    with ThreadPoolExecutor(1) as pool:
        pool.submit(lambda: asyncio.run(work())).result()
    return tmp_path


def _pictures(page: Page, shot: Shot, name: str) -> None:
    for theme in ("light", "dark"):
        page.emulate_media(color_scheme=theme)
        shot(page, f"{name}-{theme}")


def test_a_long_log_is_shown_whole_and_its_past_can_be_gone_to(
    worked: Path, sign_in: SignIn, shot: Shot
) -> None:
    with inside(worked, offline(), has_worker=False) as server:
        page = sign_in(server.link())
        hand = Hand(page)
        head = hand.get("events", limit=1)["head"]
        page.goto(f"{server.address}/overview")
        expect(page.get_by_role("heading", name=re.compile("Tasks"))).to_contain_text(str(GOALS * AGENTS))
        expect(hand.node("Agent")).to_have_count(AGENTS)
        expect(hand.console.get_by_text(f"{head:,} events")).to_be_visible()

        # The past: of the events that are here, then of earlier ones.
        timeline = hand.tab("Timeline")
        further = timeline.get_by_role("button", name="Go further back")
        expect(timeline.get_by_text("older ones are on the server")).to_be_visible()
        slider = timeline.get_by_role("slider", name="Position in time")
        here = int(slider.get_attribute("max") or 0)
        assert 0 < here < head - 1
        further.click()
        expect(further).to_be_hidden()
        assert int(slider.get_attribute("max") or 0) == head - 1
        begun = next(one for one in hand.events("task.begun") if one["stream"] == "run:goal-1/t0")
        slider.fill(str(begun["position"] - 1))
        expect(page.get_by_text("You are looking at the past")).to_be_visible()
        expect(hand.node("Task", "t0")).to_have_accessible_name(re.compile("active"))
        expect(hand.node("Task", "t9")).to_have_accessible_name(re.compile("pending"))
        _pictures(page, shot, "long-past")
        page.get_by_role("button", name="Back to now").first.click()
        expect(hand.node("Task", "t9")).to_have_accessible_name(re.compile("done"))


def test_a_run_from_before_the_events_of_the_page_has_its_whole_history(
    worked: Path, sign_in: SignIn, shot: Shot
) -> None:
    with inside(worked, offline(), has_worker=False) as server:
        page = sign_in(server.link())
        page.goto(f"{server.address}/runs/goal-0%2Ft0")
        page.get_by_role("tab", name="Events").first.click()
        table = page.get_by_role("table", name="Events of the run")
        expect(table.get_by_role("cell", name="run.started")).to_be_visible()
        _pictures(page, shot, "long-run")


def test_controls_wait_until_the_page_is_live(worked: Path, sign_in: SignIn) -> None:
    held: list[Route] = []
    with inside(worked, offline(), has_worker=False) as server:
        page = sign_in(server.link())
        page.route("**/api/v1/graph*", lambda route: held.append(route))
        page.reload()
        goal = page.get_by_role("textbox", name="Goal", exact=True)
        expect(goal).to_be_disabled()
        expect(goal).to_have_attribute("placeholder", re.compile("read"))
        assert held
        for route in held:
            route.continue_()
        page.unroute("**/api/v1/graph*")
        expect(goal).to_be_enabled()
