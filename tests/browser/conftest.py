"""Journeys of people in a real browser over a real server; without Chromium skipped, except in CI."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import pytest
from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Page,
    expect,
    sync_playwright,
)

from artelier.testing.bench.server_browser import ARGUMENTS, chromium
from tests.browser.served import WAIT_S, Served
from tests.repository.sources import ROOT

SALES = ROOT / "examples" / "data" / "sales"


class SignIn(Protocol):
    """A new page in a browser profile of its own, signed in by a link."""

    def __call__(
        self, link: str, *, theme: str = "dark", width: int = 1440, height: int = 900
    ) -> Page: ...


class Shot(Protocol):
    """Keeps a picture of a page: in `ARTELIER_SHOTS` if that names a folder, else beside the database."""

    def __call__(self, page: Page, name: str) -> Path: ...


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
    server.stop()


@pytest.fixture
def sign_in(browser: Browser) -> Iterator[SignIn]:
    """At the end no page may have told of a mistake of its own."""
    contexts: list[BrowserContext] = []
    mistakes: list[str] = []

    def sign_in(link: str, *, theme: str = "dark", width: int = 1440, height: int = 900) -> Page:
        context = browser.new_context(
            viewport={"width": width, "height": height},
            color_scheme="light" if theme == "light" else "dark",
            reduced_motion="reduce",
        )
        contexts.append(context)
        context.set_default_timeout(WAIT_S * 1_000)
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
def shot(tmp_path: Path) -> Shot:
    folder = Path(os.environ.get("ARTELIER_SHOTS") or tmp_path / "shots")

    def shot(page: Page, name: str) -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{name}.png"
        page.screenshot(path=path)
        return path

    return shot
