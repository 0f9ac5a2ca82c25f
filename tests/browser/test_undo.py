"""What an ended run did outside is undone from its page, also when nobody knows what became of a call."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from artelier import Kernel, ToolContext, tool
from tests.browser.axe import Audit
from tests.browser.conftest import Shot, SignIn
from tests.browser.inside import inside, offline

pytestmark = pytest.mark.slow


class Agency:
    """Its line breaks while the hotel is cancelled for the first time."""

    def __init__(self) -> None:
        self.booked: list[str] = []
        self.calls = 0

    def tools(self) -> list[Any]:
        async def cancel(arguments: dict[str, Any], result: Any, ctx: ToolContext) -> None:
            self.calls += 1
            self.booked.remove(arguments["what"])
            if arguments["what"] == "hotel":
                raise ConnectionError("the line is dead")

        @tool(side_effect=True, compensate=cancel)
        async def book(what: str) -> int:
            """Book a part of a trip."""
            self.booked.append(what)
            return len(self.booked)

        @tool(side_effect=True)
        async def post(card: str) -> str:
            """Send a card."""
            return f"sent {card}"

        return [book, post]


async def _travel(path: Path, agency: Agency) -> None:
    with Kernel.open(path, tools=agency.tools(), environ={}) as kernel:
        async with kernel.run("trip") as run:
            await run.step_tool("book", {"what": "train"}, key="train")
            await run.step_tool("book", {"what": "hotel"}, key="hotel")
            await run.step_tool("post", {"card": "greetings"}, key="card")
            run.finish("all is booked")


def test_an_ended_run_is_undone_and_an_unknown_outcome_is_settled_first(
    tmp_path: Path, sign_in: SignIn, shot: Shot
) -> None:
    agency = Agency()
    with ThreadPoolExecutor(1) as thread:  # the browser's driver has a loop in this one
        thread.submit(lambda: asyncio.run(_travel(tmp_path / "state.db", agency))).result()
    with inside(tmp_path, offline(tools=agency.tools())) as server:
        page = sign_in(server.link())
        audit = Audit(page)
        page.goto(f"{server.address}/runs/trip")
        page.get_by_role("button", name="Undo", exact=True).click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_role("textbox", name="Why (optional)").fill("no tickets")
        dialog.get_by_role("button", name="Undo it").click()

        expect(dialog).to_contain_text("Nobody knows whether a call was undone")
        audit.look("an unknown outcome")
        shot(page, "undo-unknown")
        assert agency.booked == ["train"] and agency.calls == 1
        dialog.get_by_role("button", name="Settle outcome").click()
        dialog.get_by_role("combobox", name="What became of it").select_option("It succeeded")
        dialog.get_by_role("button", name="Settle", exact=True).click()
        expect(dialog).to_be_hidden()

        page.get_by_role("button", name="Undo", exact=True).click()
        dialog.get_by_role("button", name="Undo it").click()
        expect(dialog.get_by_role("list", name="Undone", exact=True)).to_contain_text("train")
        expect(dialog.get_by_role("list", name="Not undone")).to_contain_text("card")
        expect(dialog).to_contain_text("no tool of this server says how")
        audit.look("what was undone")
        shot(page, "undone")
        dialog.get_by_role("button", name="Close").first.click()
        expect(page.get_by_role("main")).to_contain_text("done")
        audit.verdict()
    assert agency.booked == [] and agency.calls == 2
