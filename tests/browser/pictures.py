"""Makes the pictures of README and docs from a real server: `python -m tests.browser.pictures`."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Browser, Page, ViewportSize, expect, sync_playwright

from artelier_lab.bench.server.browser import ARGUMENTS, chromium
from tests.browser.conftest import SALES
from tests.browser.hand import Hand
from tests.browser.served import WAIT_S, Served
from tests.repository.sources import ROOT

FOLDER = ROOT / "docs" / "pictures"
BYTES_MAX = 250_000
SIZE: ViewportSize = {"width": 1440, "height": 900}


def main() -> int:
    """Write them all; the number of those that are too large."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    expect.set_options(timeout=WAIT_S * 1_000)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        served = Served(Path(folder), "--pace", "1", workspace=SALES)
        browser = playwright.chromium.launch(executable_path=chromium(), args=[*ARGUMENTS])
        try:
            _take(browser, served.start())
        finally:
            browser.close()
            served.stop()
    sizes = {path.name: path.stat().st_size for path in sorted(FOLDER.glob("*.png"))}
    for name, size in sizes.items():
        print(f"{size:>8}  {name}")  # noqa: T201
    return sum(size > BYTES_MAX for size in sizes.values())


def _take(browser: Browser, link: str) -> None:
    context = browser.new_context(viewport=SIZE, color_scheme="dark", reduced_motion="reduce")
    context.set_default_timeout(WAIT_S * 1_000)
    page = context.new_page()
    page.goto(link)
    hand = Hand(page)
    dialog = hand.plan()
    _keep(page, "plan")
    dialog.get_by_role("button", name="Launch").click()
    expect(hand.node("Artifact").first).to_be_visible()
    inspector = hand.choose("agent", "Analyst")
    expect(inspector.get_by_role("application", name="Policy bias")).to_be_visible()
    page.get_by_role("button", name="Show everything").click()
    _keep(page, "mission-control-dark")
    page.emulate_media(color_scheme="light", reduced_motion="reduce")
    _keep(page, "mission-control-light")
    page.emulate_media(color_scheme="dark", reduced_motion="reduce")
    _steering(hand)
    hand.until("missions", hand.mission(), status="completed")
    _context(hand)
    page.keyboard.press("Control+i")  # the whole room for the screens that follow
    page.keyboard.press("Control+j")
    _chat(hand)
    _world(hand)


def _steering(hand: Hand) -> None:
    pad = hand.inspector.get_by_role("application", name="Policy bias")
    pad.focus()
    hand.page.keyboard.press("Shift+ArrowRight")
    hand.page.keyboard.press("ArrowUp")
    hand.page.keyboard.press("ArrowUp")
    expect(hand.inspector.get_by_role("status").filter(has_text="Version 2")).to_be_visible()
    _keep(hand.page, "steering")


def _context(hand: Hand) -> None:
    decisions = hand.tab("Decisions")
    decisions.get_by_role("row").filter(has_text="create_artifact").first.click()
    sections = decisions.get_by_role("list", name="Sections of the prompt")
    expect(sections).to_contain_text("criteria")
    _keep(hand.page, "context")


def _chat(hand: Hand) -> None:
    char = {"name": "Mira", "description": "Mira is a ranger of the north."}
    hand.post("sessions", body={"id": "talk", "user": "Kim", "char": char})
    hand.go("Chat").get_by_role("link", name="talk").first.click()
    chat = hand.page.get_by_role("region", name="Chat talk")
    for number, text in enumerate(("Good morning, Mira.", "We ride north."), start=1):
        chat.get_by_role("textbox", name="What you say").fill(text)
        hand.page.keyboard.press("Enter")
        turn = chat.get_by_role("article", name=f"Turn {number}")
        expect(turn.get_by_role("button", name="Reply again")).to_be_enabled()
    _keep(hand.page, "chat")


def _world(hand: Hand) -> None:
    hand.post("worlds", body={"id": "town", "template": "market", "seed": 3})
    hand.post("worlds", "town", "tick", body={"count": 20})
    hand.go("World").get_by_role("link", name="town").first.click()
    world = hand.page.get_by_role("region", name="World town")
    expect(world.get_by_role("heading", level=2)).to_contain_text("tick 20")
    world.get_by_role("tab", name="Money").click()
    expect(world.get_by_role("tabpanel", name="Money").get_by_role("figure").first).to_be_visible()
    _keep(hand.page, "world")


def _keep(page: Page, name: str) -> None:
    for toast in page.get_by_role("button", name="Dismiss").all():
        toast.click()
    page.screenshot(path=FOLDER / f"{name}.png")


if __name__ == "__main__":
    sys.exit(main())
