"""A tool's call that a person must allow: denied, edited and approved."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from artelier import Kernel, ModelRequest, Policy
from artelier.testing import ScriptedModel
from artelier.tools.built_in import ask_tool
from tests.browser.axe import Audit
from tests.browser.conftest import SALES, Shot, SignIn
from tests.browser.hand import Hand
from tests.browser.inside import inside, offline
from tests.missions.task_stage import approve, decide, title_of, write

pytestmark = pytest.mark.slow

SEEN_WITHIN_MS = 5_000
"""From an answer to its effect on the page. One second alone; tests share their cores with others."""


def test_calls_are_denied_edited_and_approved(tmp_path: Path, sign_in: SignIn, shot: Shot) -> None:
    opened = offline(policy=Policy(approve_risk="low"))
    with inside(tmp_path, opened, workspace=str(SALES)) as server:
        hand = Hand(sign_in(server.link()))
        mission = _launch_when_it_may_look(hand)
        _answer_three_calls(hand, shot)
        _look_at_the_end(hand, f"{mission}/figures", shot)


def _launch_when_it_may_look(hand: Hand) -> str:
    """Already the look at the files of the workspace is asked for; the mission."""
    page = hand.page
    planning = page.get_by_role("textbox", name="Goal", exact=True)
    planning.fill("Which region sold most? Write a report.")
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Approve", exact=True).click()
    page.get_by_role("dialog", name="Plan").get_by_role("button", name="Launch").click()
    return hand.mission()


def _answer_three_calls(hand: Hand, shot: Shot) -> None:
    page = hand.page
    dialog, review = (page.get_by_role("dialog"), page.get_by_role("button", name="Review", exact=True))
    waiting = page.get_by_role("listitem").filter(has=review)
    expect(waiting).to_contain_text("describe_tables")
    waiting.get_by_role("button", name="Approve", exact=True).click()

    expect(waiting).to_contain_text("query_sql")
    review.click()
    arguments = dialog.get_by_role("textbox", name="Arguments")
    asked = json.loads(arguments.input_value())
    audit = Audit(page)
    audit.look("approval")
    audit.verdict()
    shot(page, "approval")
    arguments.fill("{ no JSON")
    expect(dialog.get_by_role("button", name=re.compile("Approve"))).to_be_disabled()
    arguments.fill(json.dumps({**asked, "sql": f"{asked['sql']} /* 4711 */"}))
    dialog.get_by_role("button", name="Approve with changes").click()
    expect(dialog).to_be_hidden()

    review.click()
    dialog.get_by_role("textbox", name="Note").fill("Not this one.")
    dialog.get_by_role("button", name="Deny").click()
    expect(dialog).to_be_hidden()


def _look_at_the_end(hand: Hand, task: str, shot: Shot) -> None:
    """What was denied is told to the agent, which says that it cannot go on without."""
    hand.until("tasks", task, status="blocked")
    found = hand.get("tasks", task)
    assert found["reason"] == "missing_input", found
    inspector = hand.choose("task", "figures")
    expect(inspector.get_by_role("status").filter(has_text="blocked").first).to_be_visible()
    expect(inspector.get_by_role("region", name="Steps")).to_contain_text("Not this one")
    shot(hand.page, "approval-denied")

    given = [one for one in hand.events("approval.given") if one["stream"] == f"run:{task}"]
    assert [one["data"]["decision"] for one in given] == ["approve", "edit", "deny"]
    assert {one["actor"] for one in given} == {"operator"}
    steps = found["iterations"]
    refused = next(n for n, one in enumerate(steps, start=1) if one["is_error"])
    assert steps[refused - 1]["decision"]["tool"] == "query_sql"
    told = hand.text("runs", task, "prompt", step=f"c{refused + 1}/decision")
    assert "Not this one." in told


def _asks_first(request: ModelRequest) -> Any:
    """A model that asks a person before it writes."""
    title = title_of(request)
    if title == "Verdict":
        return approve(request)
    if title == "content":
        return "# Sales\n\nThey went well in the third quarter."
    if "Result of iteration 1" in "\n".join(message.text for message in request.messages):
        return write()
    return decide("use_tool", tool="ask_person", input={"question": "Which quarter is meant?"})


def test_an_open_question_is_answered_in_words_and_seen_at_once(
    tmp_path: Path, sign_in: SignIn, shot: Shot
) -> None:
    def opened(path: Path) -> Kernel:
        return Kernel.open(path, models={"m": ScriptedModel(_asks_first)}, tools=[ask_tool()], environ={})

    with inside(tmp_path, opened, model="m") as server:
        page = sign_in(server.link())
        hand, audit = Hand(page), Audit(page)
        hand.post("agents", body={"id": "team/asker", "name": "Asker", "model": "m"})
        body = {"id": "tasks/ask", "goal": "Report on sales.", "success_criteria": "- It is good."}
        hand.post("tasks", body={**body, "assigned_agent_id": "team/asker"})
        waiting = page.get_by_role("region", name="Waiting for a person")
        expect(waiting).to_contain_text("Which quarter is meant?")
        audit.look("an open question")
        shot(page, "open-question")
        page.keyboard.press("Control+k")
        page.keyboard.type("answer what waits")
        page.keyboard.press("Enter")
        field = waiting.get_by_role("textbox", name="Your answer to Asker")
        expect(field).to_be_focused()
        page.keyboard.type("The third.")
        page.keyboard.press("Enter")
        expect(waiting).to_have_count(0, timeout=SEEN_WITHIN_MS)
        hand.until("tasks", "tasks/ask", status="done")
        assert "The third." in hand.text("runs", "tasks/ask", "prompt", step="c2/decision")
        audit.verdict()
