"""Moving the puck changes what the next decision is asked, and what is decided."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.conftest import Shot, SignIn
from tests.browser.hand import Hand
from tests.browser.served import Served

pytestmark = pytest.mark.slow


def test_moving_the_puck_changes_the_next_request_and_the_actions(
    served: Served, sign_in: SignIn, shot: Shot
) -> None:
    page = sign_in(served.start("--pace", "0.5"))
    hand = Hand(page)
    mission = hand.launch()
    task, agent = f"{mission}/figures", f"{mission}/analyst"
    inspector = hand.choose("agent", "Analyst")
    controls = inspector.get_by_role("group", name="Selected agent")
    controls.get_by_role("button", name="Pause").click()
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


def test_the_safety_slider_is_driven_by_keys_and_kept(
    served: Served, sign_in: SignIn, shot: Shot
) -> None:
    """What calls then wait for is proved where tools of each risk are called (missions)."""
    page = sign_in(served.start("--pace", "0.5"))
    hand = Hand(page)
    mission = hand.launch()
    task, agent = f"{mission}/figures", f"{mission}/analyst"
    inspector = hand.choose("agent", "Analyst")
    controls = inspector.get_by_role("group", name="Selected agent")
    controls.get_by_role("button", name="Pause").click()
    hand.until("runs", task, status="paused")
    expect(controls.get_by_role("button", name="Stop")).to_be_enabled()

    version = hand.get("steering", agent)["version"]
    safety = inspector.get_by_role("slider", name="Safety")
    safety.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Tab")
    expect(safety).to_have_attribute("aria-valuetext", re.compile("medium and high"))
    told = inspector.get_by_role("status").filter(has_text=f"Version {version + 1}")
    expect(told).to_be_visible()
    saved = hand.get("steering", agent)["sliders"]
    assert saved["safety"] == "approve_medium", saved
    shot(page, "steering-safety")


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
