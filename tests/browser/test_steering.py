"""Moving the puck changes what the next decision is asked, and what is decided."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from artelier import Kernel, ModelRequest
from artelier.testing import ScriptedModel
from artelier.tools import workspace_tools
from tests.browser.conftest import SALES, Shot, SignIn
from tests.browser.hand import Hand
from tests.browser.inside import Gate, inside, offline
from tests.missions.task_stage import approve, decide, text_of, title_of, write

pytestmark = pytest.mark.slow


def test_moving_the_puck_changes_the_next_request_and_the_actions(
    tmp_path: Path, sign_in: SignIn, shot: Shot
) -> None:
    gate = Gate()
    with inside(tmp_path, offline(gate), workspace=str(SALES)) as server:
        _move_the_puck(sign_in(server.link()), gate, shot)


def _move_the_puck(page: Page, gate: Gate, shot: Shot) -> None:
    hand = Hand(page)
    mission = hand.launch(gate=gate)
    task, agent = f"{mission}/figures", f"{mission}/analyst"
    inspector = hand.choose("agent", "Analyst")
    controls = inspector.get_by_role("group", name="Selected agent")
    controls.get_by_role("button", name="Pause").click()
    gate.open()
    hand.until("runs", task, status="paused")
    standing = hand.get("steering", agent)
    first = standing["from_iteration"][0]["iteration"]

    pad = inspector.get_by_role("application", name="Policy bias")
    pad.focus()
    for key in ("Shift+ArrowRight", "Shift+ArrowRight", "Shift+ArrowUp", "Shift+ArrowUp"):
        page.keyboard.press(key)
    expect(inspector).to_contain_text(f"Takes effect at iteration {first} of figures")
    expect(
        inspector.get_by_role("status").filter(has_text=f"Version {standing['version'] + 1}")
    ).to_be_visible()
    saved = hand.get("steering", agent)
    assert saved["xy"] == {"x": 1.0, "y": 1.0}
    shot(page, "steering-keys")

    page.keyboard.press("Tab")  # what one steps over loses nothing
    controls.get_by_role("button", name="Resume").click()
    hand.until("tasks", task, status=("done", "failed"))
    explored = [one["decision"]["action"] for one in hand.get("tasks", task)["iterations"]]
    old, new = _request(hand, task, first - 1), _request(hand, task, first)
    assert old["policy"] != new["policy"]
    assert saved["policy"]["text"].splitlines()[0] in new["policy"]
    assert old["temperature"] < new["temperature"]

    _drag_to_the_corner(page, pad)
    expect(
        inspector.get_by_role("status").filter(has_text=f"Version {standing['version'] + 2}")
    ).to_be_visible()
    assert hand.get("steering", agent)["policy"]["words_target"] < saved["policy"]["words_target"]
    shot(page, "steering-pointer")
    plain = _unsteered(hand)
    assert explored.count("use_tool") > plain.count("use_tool"), (explored, plain)


def test_from_the_safety_slider_on_a_call_waits_for_a_person(
    tmp_path: Path, sign_in: SignIn, shot: Shot
) -> None:
    desk = tmp_path / "desk"
    desk.mkdir()
    tools = [one for one in workspace_tools(desk) if one.name == "write_file"]  # of medium risk

    def opened(path: Path) -> Kernel:
        return Kernel.open(path, models={"m": ScriptedModel(_clerk)}, tools=tools, environ={})

    with inside(tmp_path, opened, model="m") as server:
        hand = Hand(sign_in(server.link()))
        hand.post("agents", body={"id": "team/clerk", "name": "Clerk", "model": "m"})
        _note(hand, "first")
        hand.until("tasks", "tasks/first", status="done")
        assert (desk / "first.txt").exists()
        assert not hand.events("approval.requested")

        _let_medium_risk_ask(hand)
        shot(hand.page, "steering-safety")
        _note(hand, "second")
        review = hand.page.get_by_role("button", name="Review", exact=True)
        waiting = hand.page.get_by_role("listitem").filter(has=review)
        expect(waiting).to_contain_text("write_file")
        assert not (desk / "second.txt").exists()
        shot(hand.page, "steering-safety-waits")
        waiting.get_by_role("button", name="Approve", exact=True).click()
        hand.until("tasks", "tasks/second", status="done")
        assert (desk / "second.txt").exists()


def _let_medium_risk_ask(hand: Hand) -> None:
    """By keys alone."""
    inspector = hand.choose("agent", "Clerk")
    version = hand.get("steering", "team/clerk")["version"]
    safety = inspector.get_by_role("slider", name="Safety")
    safety.focus()
    for key in ("ArrowRight", "ArrowRight", "Tab"):
        hand.page.keyboard.press(key)
    expect(safety).to_have_attribute("aria-valuetext", re.compile("medium and high"))
    told = inspector.get_by_role("status").filter(has_text=f"Version {version + 1}")
    expect(told).to_be_visible()
    saved = hand.get("steering", "team/clerk")["sliders"]
    assert saved["safety"] == "approve_medium", saved


def _clerk(request: ModelRequest) -> Any:
    """Notes a figure in a file, then reports."""
    title, told = title_of(request), text_of(request)
    if title == "Verdict":
        return approve(request)
    if title == "content":
        return "# Note\n\nWhat was asked for stands in the file."
    if "Result of iteration 1" in told:
        return write()
    name = "second.txt" if "second" in told else "first.txt"
    return decide("use_tool", tool="write_file", input={"path": name, "text": "4711"})


def _note(hand: Hand, slug: str) -> None:
    hand.post(
        "tasks",
        body={
            "id": f"tasks/{slug}",
            "goal": f"Note the {slug} figure.",
            "assigned_agent_id": "team/clerk",
            "success_criteria": "- It says where the figure is noted.",
        },
    )


def _unsteered(hand: Hand) -> list[str]:
    """What is decided for the same goal where nobody steers."""
    mission = hand.launch()
    hand.until("tasks", f"{mission}/figures", status=("done", "failed"))
    found = hand.get("tasks", f"{mission}/figures")["iterations"]
    return [one["decision"]["action"] for one in found]


def _request(hand: Hand, task: str, n: int) -> dict[str, Any]:
    """What steering makes of a decision's request: words and parameters."""
    step = f"c{n}/decision"
    sent = json.loads(hand.text("runs", task, "prompt", step=step))
    told = "\n".join(str(message.get("content")) for message in sent["messages"])
    policy = re.findall(r"## Policy\n(.*?)(?=\n## |\Z)", told, re.DOTALL)[-1]
    params = hand.get("runs", task, "manifest", step=step)["params"]
    return {"policy": policy, **params}


def _drag_to_the_corner(page: Page, pad: Locator) -> None:
    """From where the puck is to focused and terse, with a pointer."""
    box = pad.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] - 20, box["y"] + 20)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2, steps=4)
    page.mouse.move(box["x"] + 1, box["y"] + box["height"] - 1, steps=4)
    page.mouse.up()
