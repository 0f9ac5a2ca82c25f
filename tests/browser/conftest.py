"""Journeys of people in a real browser over a real server; without Chromium skipped, except in CI."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, expect, sync_playwright

from artelier_lab.bench.server.browser import ARGUMENTS, chromium
from tests.browser.hand import Hand
from tests.browser.inside import Inside, inside, offline
from tests.browser.served import WAIT_S, Served
from tests.repository.sources import ROOT
from tests.verification import verify_database

SALES = ROOT / "examples" / "data" / "sales"


class SignIn(Protocol):
    """A new page in a browser profile of its own, signed in by a link."""

    def __call__(self, link: str) -> Page: ...


class Shot(Protocol):
    """Keeps a picture of a page, if `ARTELIER_SHOTS` names a folder for them."""

    def __call__(self, page: Page, name: str) -> None: ...


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    path = chromium()
    missing = [
        what
        for what, is_there in (
            ("Chromium (apt-get install chromium, or ARTELIER_CHROMIUM=path)", path is not None),
            ("the page (make setup)", (ROOT / "src/artelier/server/static/index.html").exists()),
        )
        if not is_there
    ]
    if missing:
        told = f"needs {' and '.join(missing)}"
        if os.environ.get("CI"):
            pytest.fail(told)
        pytest.skip(told)
    expect.set_options(timeout=WAIT_S * 1_000)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=[*ARGUMENTS])
        yield browser
        browser.close()


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    """A server over the example workspace, not started yet."""
    server = Served(tmp_path, workspace=SALES)
    yield server
    told = server.stop()
    assert "Traceback" not in told, told


@dataclass(frozen=True, slots=True)
class LivedIn:
    """A server that has something for every screen to show."""

    server: Inside
    mission: str
    """That is completed."""


@pytest.fixture(scope="session")
def lived_in(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LivedIn]:
    """One for all journeys that look, or add what the others do not mind."""
    folder = tmp_path_factory.mktemp("lived-in")
    with inside(folder, offline(), workspace=str(SALES)) as server:
        context = _context(browser)
        page = context.new_page()
        page.goto(server.link())
        hand = Hand(page)
        hand.post("worlds", body={"id": "town", "template": "market", "seed": 3})
        hand.post("worlds", "town", "tick", body={"count": 3})
        hand.post("sessions", body={"id": "hello"})
        hand.post("sessions", "hello", "turns", body={"text": "Hello."})
        mission = hand.launch()
        hand.until("missions", mission, status="completed")
        context.close()
        yield LivedIn(server, mission)
    assert not verify_database(folder / "state.db")


def _context(browser: Browser) -> BrowserContext:
    """A profile of its own, where nothing moves and patience is long."""
    context = browser.new_context(
        viewport={"width": 1440, "height": 900}, color_scheme="dark", reduced_motion="reduce"
    )
    context.set_default_timeout(WAIT_S * 1_000)
    return context


@pytest.fixture
def sign_in(browser: Browser) -> Iterator[SignIn]:
    """At the end no page may have told of a mistake of its own."""
    contexts: list[BrowserContext] = []
    mistakes: list[str] = []

    def sign_in(link: str) -> Page:
        context = _context(browser)
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: mistakes.append(str(error)))
        page.on("console", lambda message: _listen(message, mistakes))
        page.goto(link)
        return page

    yield sign_in
    for context in contexts:
        context.close()
    assert not mistakes, "the page told of mistakes:\n" + "\n".join(mistakes)


def _listen(message: ConsoleMessage, mistakes: list[str]) -> None:
    """Answers of the server that are refusals, and a server that is away, are no mistakes of the page."""
    if message.type == "error" and "Failed to load resource" not in message.text:
        mistakes.append(message.text)


@pytest.fixture
def shot() -> Shot:
    folder = os.environ.get("ARTELIER_SHOTS")

    def shot(page: Page, name: str) -> None:
        if folder:
            page.screenshot(path=Path(folder) / f"{name}.png")

    return shot
