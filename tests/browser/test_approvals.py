"""A tool's call that a person must allow: denied, edited and approved."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Shot, SignIn
from tests.browser.hand import Hand
from tests.browser.served import Served

pytestmark = pytest.mark.slow


def test_calls_are_denied_edited_and_approved(
    served: Served, sign_in: SignIn, shot: Shot, tmp_path: Path
) -> None:
    (tmp_path / "artelier.toml").write_text('[policy]\napprove_risk = "low"\n', "utf-8")
    page = sign_in(served.start())
    hand = Hand(page)
    planning = page.get_by_role("textbox", name="Goal", exact=True)
    planning.fill("Which region sold most? Write a report.")
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog")
    review = page.get_by_role("button", name="Review", exact=True)
    expect(review.or_(dialog.get_by_role("button", name="Launch")).first).to_be_visible()
    if review.count():  # already the look at the files of the workspace is asked for
        page.get_by_role("button", name="Approve", exact=True).click()
    launch = page.get_by_role("dialog", name="Plan").get_by_role("button", name="Launch")
    launch.click()
    mission = hand.mission()

    waiting = page.get_by_role("listitem").filter(has=review)
    expect(waiting).to_contain_text("describe_tables")
    waiting.get_by_role("button", name="Approve", exact=True).click()

    expect(waiting).to_contain_text("query_sql")
    review.click()
    arguments = dialog.get_by_role("textbox", name="Arguments")
    asked = json.loads(arguments.input_value())
    shot(page, "approval")
    arguments.fill("{ no JSON")
    expect(dialog.get_by_role("button", name=re.compile("Approve"))).to_be_disabled()
    arguments.fill(json.dumps({**asked, "sql": "SELECT 4711 AS answer"}))
    dialog.get_by_role("button", name="Approve with changes").click()
    expect(dialog).to_be_hidden()
    stream = hand.tab("Live stream").get_by_role("listbox", name="Events")
    expect(stream.get_by_role("option").filter(has_text="4711").first).to_be_visible()

    review.click()
    dialog.get_by_role("textbox", name="Note").fill("Not this one.")
    dialog.get_by_role("button", name="Deny").click()
    expect(dialog).to_be_hidden()
    task = f"{mission}/figures"
    hand.until("tasks", task, status=("done", "failed"))
    given = [one for one in hand.events("approval.given") if one["stream"] == f"run:{task}"]
    assert [one["data"]["decision"] for one in given] == ["approve", "edit", "deny"]
    assert {one["actor"] for one in given} == {"operator"}
    steps = hand.get("tasks", task)["iterations"]
    refused = next(n for n, one in enumerate(steps, start=1) if one["is_error"])
    assert steps[refused - 1]["decision"]["tool"] == "query_sql"
    told = hand.text("runs", task, "prompt", step=f"c{refused + 1}/decision")
    assert "Not this one." in told
