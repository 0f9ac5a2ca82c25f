"""The page of a goal: its answer first, else the cause and what helps; its figures are the server's."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from artelier import Kernel, ModelReply, ModelRequest, Price
from artelier.errors import External, ModelRefusedCall, RateLimited
from artelier_offline import OfflineModel
from tests.browser.axe import Audit
from tests.browser.conftest import SALES, LivedIn, Shot, SignIn
from tests.browser.hand import FIGURES, GOAL, Hand
from tests.browser.inside import Gate, inside, offline

pytestmark = pytest.mark.slow

WEATHER = "What is the weather in Lisbon?"
SIZES = ((1440, 900), (1024, 768), (390, 844))


def test_the_answer_comes_first_with_its_evidence(tmp_path: Path, sign_in: SignIn, shot: Shot) -> None:
    with inside(tmp_path, offline(), workspace=str(SALES)) as server:
        page = sign_in(server.link())
        hand, audit = Hand(page), Audit(page)
        hand.plan().get_by_role("button", name="Launch").click()
        answer = page.get_by_role("article", name="Answer")
        for figure in FIGURES:
            expect(answer).to_contain_text(figure)
        expect(page.get_by_role("status").filter(has_text="done")).to_contain_text("judged 2 of 2 criteria")
        expect(
            page.get_by_role("complementary", name="Evidence").get_by_role("listitem").first
        ).to_be_visible()
        goal = hand.get("missions", hand.mission())
        how = page.get_by_role("complementary", name="How it came about")
        expect(how.get_by_role("listitem")).to_have_count(len(goal["tasks"]))
        audit.look("a goal that is done")
        fits(page, shot, "goal-done")
        audit.verdict()

        deep = sign_in(server.link())
        page_of_goal = Hand(deep).open_goal(hand.mission())
        expect(page_of_goal.get_by_role("article", name="Answer")).to_contain_text(FIGURES[0])


def test_a_blocked_goal_says_why_and_leads_to_one_that_works(
    tmp_path: Path, sign_in: SignIn, shot: Shot
) -> None:
    with inside(tmp_path, offline(), workspace=str(SALES)) as server:
        page = sign_in(server.link())
        hand, audit = Hand(page), Audit(page)
        hand.plan(WEATHER).get_by_role("button", name="Launch").click()
        card = page.get_by_role("region", name="Where it stands")
        expect(card.get_by_role("heading", name=re.compile("Blocked"))).to_be_visible()
        blocked = hand.get("missions", hand.mission())
        assert blocked["status"] == "blocked"
        expect(card).to_contain_text(blocked["message"])
        audit.look("a blocked goal")
        suggested = re.search(r"try: (.+?[?])", blocked["message"])
        assert suggested is not None
        ask = card.get_by_role("button", name=f"Ask: {suggested[1]}")
        retry = card.get_by_role("button", name=re.compile("^Retry"))
        accent = "one => getComputedStyle(one).backgroundColor"
        assert ask.evaluate(accent) != retry.evaluate(accent)  # One of them is the primary one, and first.
        assert ask.bounding_box()["y"] < retry.bounding_box()["y"]  # pyright: ignore[reportOptionalSubscript]
        _no_words_of_the_future(page)
        fits(page, shot, "goal-blocked")

        ask.click()
        expect(page.get_by_role("textbox", name="Goal", exact=True)).to_have_value(suggested[1])
        page.get_by_role("navigation", name="Goals").get_by_role("link").first.click()
        card.get_by_role("button", name="Ask in other words").click()
        field = page.get_by_role("textbox", name="Goal", exact=True)
        expect(field).to_be_focused()
        expect(field).to_have_value(WEATHER)
        hand.plan().get_by_role("button", name="Launch").click()
        expect(page.get_by_role("article", name="Answer")).to_contain_text(FIGURES[0])
        goals = page.get_by_role("navigation", name="Goals").get_by_role("listitem")
        expect(goals).to_have_count(2)
        expect(goals.first).to_contain_text("done")
        expect(goals.last).to_contain_text("blocked")
        audit.verdict()


def test_a_budget_that_was_reached_is_raised_and_the_goal_is_done(
    tmp_path: Path, sign_in: SignIn, shot: Shot
) -> None:
    gate = Gate()
    prices = {"offline": Price(input=Decimal(2), output=Decimal(2))}
    with inside(tmp_path, offline(gate, prices=prices), workspace=str(SALES)) as server:
        page = sign_in(server.link())
        hand, audit = Hand(page), Audit(page)
        dialog = hand.plan()
        gate.hold()
        dialog.get_by_role("button", name="Launch").click()
        mission = hand.mission()
        hand.until("runs", f"{mission}/figures", status="running")
        hand.post("runs", mission, "limit", body={"unit": "usd", "cap": "0.03"})
        gate.open()
        hand.until("runs", f"{mission}/figures", status="budget_exhausted")

        card = page.get_by_role("region", name="Where it stands")
        expect(card.get_by_role("heading", name="Budget reached")).to_be_visible()
        expect(card).to_contain_text("The limit is that of the whole goal. The next step may cost up to $0.0")
        audit.look("a budget that was reached")
        _no_words_of_the_future(page)
        fits(page, shot, "goal-budget")
        amount = card.get_by_role("textbox", name="Raise to, in dollars")
        told = re.search(r"may cost up to \$(0\.\d+)", card.inner_text())
        spent = Decimal(hand.get("missions", mission)["cost_microusd"]) / 1_000_000
        assert told is not None
        assert Decimal(amount.input_value()) >= spent + Decimal(told[1]), "what it proposes suffices"
        amount.fill("0.03")
        expect(card.get_by_role("button", name="Raise and go on")).to_be_disabled()
        expect(card).to_contain_text("Its limit is $0.030; raise it above that.")
        amount.fill("9")
        card.get_by_role("button", name="Raise and go on").click()
        hand.until("missions", mission, status="completed")
        expect(page.get_by_role("article", name="Answer")).to_contain_text(FIGURES[0])
        _figures_are_the_servers(hand, mission)
        audit.verdict()


def test_an_address_of_no_goal_shows_none(lived_in: LivedIn, sign_in: SignIn) -> None:
    page = sign_in(lived_in.server.link())

    for screen in ("goals", "canvas"):
        page.goto(f"{lived_in.server.address}/{screen}/nobody")
        main = page.get_by_role("main")
        expect(main).to_contain_text("There is no such goal")
        expect(main.get_by_role("link", name="See all goals")).to_be_visible()


class _Limited(OfflineModel):
    """Refuses its second and third call for its rate."""

    def __init__(self) -> None:
        super().__init__()
        self._calls = 0

    async def complete(self, request: ModelRequest, /) -> ModelReply:
        self._calls += 1
        if self._calls in (2, 3):
            raise RateLimited("slow down", retry_after_s=4)
        return await super().complete(request)


def test_a_rate_limit_is_told_with_its_attempts(tmp_path: Path, sign_in: SignIn, shot: Shot) -> None:
    def opened(path: Path) -> Kernel:
        return Kernel.open(path, models={"offline": _Limited()}, environ={})

    with inside(tmp_path, opened, workspace=str(SALES)) as server:
        page = sign_in(server.link())
        hand = Hand(page)
        hand.plan().get_by_role("button", name="Launch").click()
        work = page.get_by_role("region", name="At work now")
        expect(work).to_contain_text("429, the provider's rate limit")
        expect(work).to_contain_text("attempt 2 of 4")
        shot(page, "goal-rate-limited")
        mission = hand.mission()
        hand.until("missions", mission, status="completed")
        expect(page.get_by_role("article", name="Answer")).to_contain_text(FIGURES[0])
        _figures_are_the_servers(hand, mission)


class Moody(OfflineModel):
    """Fails with what a journey lays before it, first things first; its gate can hold a reply back."""

    def __init__(self, gate: Gate) -> None:
        super().__init__(pace_s=1, clock=gate)
        self.failures: list[External] = []

    async def complete(self, request: ModelRequest, /) -> ModelReply:
        if self.failures:
            raise self.failures.pop(0)
        return await super().complete(request)


def moody(model: Moody) -> Callable[[Path], Kernel]:
    prices = {"offline": Price(input=Decimal(2), output=Decimal(2))}

    def opened(path: Path) -> Kernel:
        return Kernel.open(path, models={"offline": model}, prices=prices, environ={})

    return opened


def test_a_task_that_failed_is_retried_and_the_goal_is_completed_at_its_true_cost(
    tmp_path: Path, sign_in: SignIn, shot: Shot
) -> None:
    gate = Gate()
    model = Moody(gate)
    with inside(tmp_path, moody(model), workspace=str(SALES)) as server:
        page = sign_in(server.link())
        hand, audit = Hand(page), Audit(page)
        dialog = hand.plan()
        gate.hold()
        dialog.get_by_role("button", name="Launch").click()
        mission = hand.mission()
        hand.until("runs", f"{mission}/figures", status="running")
        model.failures.append(ModelRefusedCall("the provider refuses this"))
        gate.open()
        hand.until("missions", mission, status="failed")

        card = page.get_by_role("region", name="Where it stands")
        expect(card.get_by_role("heading", name="The provider refused")).to_be_visible()
        spent = hand.get("missions", mission)["cost_microusd"]
        assert spent > 0
        audit.look("a goal that failed")
        fits(page, shot, "goal-failed")
        card.get_by_role("button", name="Retry figures").click()
        hand.until("missions", mission, status="completed")
        expect(page.get_by_role("article", name="Answer")).to_contain_text(FIGURES[0])
        assert hand.get("missions", mission)["cost_microusd"] > spent
        _figures_are_the_servers(hand, mission)
        audit.verdict()


def test_a_provider_that_hangs_is_marked_and_its_rate_limits_are_counted(
    tmp_path: Path, sign_in: SignIn, shot: Shot
) -> None:
    gate = Gate()
    model = Moody(gate)
    with inside(tmp_path, moody(model), workspace=str(SALES)) as server:
        page = sign_in(server.link())
        hand = Hand(page)
        dialog = hand.plan()
        gate.hold()
        dialog.get_by_role("button", name="Launch").click()
        mission = hand.mission()
        work = page.get_by_role("region", name="At work now")
        expect(work).to_contain_text("Analyst is deciding")
        page.clock.set_system_time(time.time() + 41)  # Forty seconds pass for who looks on.
        expect(work).to_contain_text("No sign of life for 4")
        shot(page, "goal-hangs")
        page.clock.set_system_time(time.time())
        model.failures += [RateLimited("slow down", retry_after_s=3) for _ in range(2)]
        gate.open()
        expect(work).to_contain_text("429, the provider's rate limit")
        expect(work).to_contain_text("attempt 3 of 4")
        shot(page, "goal-limited-twice")
        hand.until("missions", mission, status="completed")
        expect(page.get_by_role("article", name="Answer")).to_contain_text(FIGURES[0])
        expect(work).to_have_count(0)
        _figures_are_the_servers(hand, mission)


def test_ten_goals_have_a_canvas_each(tmp_path: Path, sign_in: SignIn, shot: Shot) -> None:
    with inside(tmp_path, offline(), workspace=str(SALES)) as server:
        page = sign_in(server.link())
        hand = Hand(page)
        missions = [f"goal-{number}" for number in range(10)]
        for mission in missions:
            hand.post("god-mode", "plan", body={"goal": GOAL, "mission_id": mission}, wait=60)
            hand.post("god-mode", mission, "launch")
        for mission in missions:
            hand.until("missions", mission, status="completed")
        for mission in (missions[0], missions[-1]):
            page.goto(f"{server.address}/canvas/{mission}")
            expect(hand.node("Agent")).to_have_count(2)
            expect(hand.node("Task")).to_have_count(2)
        shot(page, "goal-canvas")
        page.goto(f"{server.address}/canvas?all=1")
        page.get_by_role("button", name="Show everything").click()
        page.goto(server.address)
        expect(page.get_by_role("navigation", name="Goals").get_by_role("listitem")).to_have_count(10)


def _figures_are_the_servers(hand: Hand, mission: str) -> None:
    """Cost and counts of the page, after whatever was tried again."""
    goal = hand.get("missions", mission)
    how = hand.page.get_by_role("complementary", name="How it came about")
    done = sum(task["status"] == "done" for task in goal["tasks"])
    expect(how).to_contain_text(f"{done} of {len(goal['tasks'])}")
    micro = goal["cost_microusd"]
    digits = 2 if micro == 0 or micro >= 10_000_000 else 3 if micro >= 1_000 else 6
    expect(how).to_contain_text(f"${micro / 1_000_000:.{digits}f}")


def _no_words_of_the_future(page: Page) -> None:
    """What a goal has come to stands beside no word about what it would do next."""
    notes = page.get_by_role("region", name="Notifications")
    expect(notes.get_by_text(re.compile("[Ll]aunched|begin|goes on|worked on"))).to_have_count(0)


_MEETS = """() => document.querySelector("main").getBoundingClientRect().bottom
    === document.querySelector("nav[aria-label=Screens]").getBoundingClientRect().top"""
"""Whether the screen's content ends where the bar of the screens begins."""


def test_notes_cover_nothing_on_a_phone(lived_in: LivedIn, sign_in: SignIn, shot: Shot) -> None:
    page = sign_in(lived_in.server.link())
    page.set_viewport_size({"width": 390, "height": 844})
    main = Hand(page).open_goal(lived_in.mission)
    page.route("**/accept", lambda route: route.abort())
    for _ in range(2):
        page.get_by_role("button", name="Accept", exact=True).click()
        expect(page.get_by_role("button", name="Accept", exact=True)).to_be_enabled()
    notes = page.get_by_role("region", name="Notifications")
    expect(notes.get_by_role("button", name="Dismiss")).to_have_count(2)
    shot(page, "notes-390")
    screens = page.get_by_role("navigation", name="Screens")

    def edges(place: Locator) -> tuple[float, float]:
        box = place.bounding_box()
        assert box is not None
        return box["y"], box["y"] + box["height"]

    top, bottom = edges(notes)
    assert bottom - top > 80  # Both of them can be read.
    assert edges(main)[1] <= top
    assert bottom <= edges(screens)[0]
    assert edges(screens)[1] == 844
    for _ in range(2):
        notes.get_by_role("button", name="Dismiss").first.click()
    expect(notes.get_by_role("button")).to_have_count(0)
    page.wait_for_function(_MEETS)  # the room of notes is given back with the next frame


def fits(page: Page, shot: Shot, name: str) -> None:
    """No size makes the page itself scroll; a picture of each in both themes."""
    for width, height in SIZES:
        page.set_viewport_size({"width": width, "height": height})
        wide, high = page.evaluate(
            "[document.documentElement.scrollWidth, document.documentElement.scrollHeight]"
        )
        assert (wide, high) == (width, height), f"{name} at {width}x{height} scrolls: {wide}x{high}"
        for theme in ("dark", "light"):
            page.emulate_media(color_scheme=theme, reduced_motion="reduce")
            shot(page, f"{name}-{theme}-{width}")
    page.set_viewport_size({"width": SIZES[0][0], "height": SIZES[0][1]})
