"""Journeys of people in a real browser over a real server; without Chromium skipped, except in CI."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from tests.browser.served import WAIT_S, Served
from tests.repository.sources import ROOT

SALES = ROOT / "examples" / "data" / "sales"

ARGUMENTS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--force-color-profile=srgb",
]  # fmt: skip


def chromium() -> str | None:
    """Where a Chromium is, if there is one."""
    named = os.environ.get("ARTELIER_CHROMIUM")
    names = ("chromium", "chromium-browser", "google-chrome")
    return named or next((path for name in names if (path := shutil.which(name))), None)


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
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    """A server over the example workspace, not started yet."""
    server = Served(tmp_path, workspace=SALES)
    yield server
    server.stop()


@pytest.fixture
def sign_in(browser: Browser) -> Iterator[Callable[..., Page]]:
    """A new page in a browser profile of its own, signed in by a link."""
    contexts: list[BrowserContext] = []

    def sign_in(link: str, *, theme: str = "dark", width: int = 1440, height: int = 900) -> Page:
        context = browser.new_context(
            viewport={"width": width, "height": height},
            color_scheme="light" if theme == "light" else "dark",
            reduced_motion="reduce",
        )
        contexts.append(context)
        context.set_default_timeout(WAIT_S * 1_000)
        page = context.new_page()
        page.goto(link)
        return page

    yield sign_in
    for context in contexts:
        context.close()


@pytest.fixture
def shot(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[Page, str], Path]:
    """Keep a picture of a page: in `ARTELIER_SHOTS` if that names a folder, else beside the database."""
    folder = Path(os.environ.get("ARTELIER_SHOTS") or tmp_path / "shots")

    def shot(page: Page, name: str) -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{name}.png"
        page.screenshot(path=path)
        return path

    return shot
