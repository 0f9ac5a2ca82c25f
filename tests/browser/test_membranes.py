"""An agent that is dragged out of a membrane reads nothing of it any more."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.conftest import SALES, Shot, SignIn
from tests.browser.hand import Hand
from tests.browser.inside import Gate, inside, offline

pytestmark = pytest.mark.slow


def test_an_agent_that_is_dragged_out_loses_what_is_shared(
    tmp_path: Path, sign_in: SignIn, shot: Shot
) -> None:
    gate = Gate()
    with inside(tmp_path, offline(gate), workspace=str(SALES)) as server:
        _leave(sign_in(server.link()), gate, shot)


def test_nothing_overlaps_after_a_drag_and_the_tasks_of_an_agent_go_with_it(
    tmp_path: Path, sign_in: SignIn, shot: Shot
) -> None:
    with inside(tmp_path, offline(), workspace=str(SALES)) as server:
        page = sign_in(server.link())
        hand = Hand(page)
        hand.until("missions", hand.launch(), status="completed")
        analyst, task = hand.node("Agent", "Analyst"), hand.node("Task", "figures")
        others = page.get_by_role("application", name="Canvas").get_by_role("group")
        expect(hand.node("Artifact")).to_have_count(2)
        apart = _gap(analyst, task)

        _drag(page, analyst, onto=hand.node("Artifact").first)

        shot(page, "canvas-after-drag")
        there = [
            _box(one) for one in others.all() if (one.get_attribute("aria-label") or "")[:8] != "Membrane"
        ]
        assert len(there) == 6
        for number, one in enumerate(there):
            assert not [other for other in there[number + 1 :] if _overlap(one, other)]
        assert _gap(analyst, task) == pytest.approx(apart, abs=1)
        page.reload()
        expect(analyst).to_be_visible()
        assert _gap(analyst, task) == pytest.approx(apart, abs=1)


def _box(node: Locator) -> tuple[float, float, float, float]:
    box = node.bounding_box()
    assert box is not None
    return box["x"], box["y"], box["width"], box["height"]


def _gap(one: Locator, other: Locator) -> tuple[float, float]:
    """From the corner of one to that of the other, in widths of the first: the view may be zoomed."""
    (x, y, width, _), (other_x, other_y, *_) = _box(one), _box(other)
    return (other_x - x) / width * 100, (other_y - y) / width * 100


def _overlap(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    (x, y, wide, high), (other_x, other_y, other_wide, other_high) = one, other
    return x < other_x + other_wide and other_x < x + wide and y < other_y + other_high and other_y < y + high


def _drag(page: Page, node: Locator, *, onto: Locator) -> None:
    (x, y, wide, high), (to_x, to_y, *_) = _box(node), _box(onto)
    page.mouse.move(x + wide / 2, y + high / 2)
    page.mouse.down()
    page.mouse.move(to_x + wide / 2 + 9, to_y + high / 2 + 9, steps=8)
    page.mouse.up()


def _leave(page: Page, gate: Gate, shot: Shot) -> None:
    hand = Hand(page)
    mission = hand.launch(gate=gate)
    page.get_by_role("button", name="Pause all").click()
    gate.open()
    hand.until("runs", mission, status="paused")
    writer, membrane = f"{mission}/writer", f"{mission}/shared"
    hand.post(
        "artifacts", body={"id": "canary", "kind": "document", "content": "A canary.", "access": "private"}
    )
    hand.post("membranes", membrane, "share", body={"artifact": "canary"})
    assert "canary" in _next_prompt(hand, writer)

    room = hand.node("Membrane", "Shared")
    _drag_out(page, hand.node("Agent", "Writer"), room)
    page.get_by_text("Writer left Shared").wait_for()
    shot(page, "membrane-left")
    assert writer not in hand.get("membranes", membrane)["members"]
    assert "canary" not in _next_prompt(hand, writer)

    page.get_by_role("button", name="Undo").click()
    page.get_by_text("Writer joined Shared").wait_for()
    assert "canary" in _next_prompt(hand, writer)

    hand.choose("agent", "Writer")
    page.get_by_role("button", name=re.compile("^Leave")).click()
    page.get_by_role("menuitem", name="Shared").click()
    expect(room).to_have_accessible_name(re.compile("1 members?, 1 shared"))
    page.get_by_role("button", name="Resume all").click()
    hand.until("tasks", f"{mission}/report", status=("done", "blocked", "failed"))
    assert _prompts(hand, f"{mission}/figures", "canary")
    assert not _prompts(hand, f"{mission}/report", "canary")


def _prompts(hand: Hand, run: str, words: str) -> list[str]:
    """Steps of a run whose prompt had the words."""
    if run not in {one["id"] for one in hand.items("runs")}:
        return []
    steps = [one["key"] for one in hand.get("runs", run, "steps")["items"] if one["kind"] == "model"]
    return [step for step in steps if words in hand.text("runs", run, "prompt", step=step)]


def _next_prompt(hand: Hand, agent: str) -> str:
    found = hand.get("agents", agent, "next-prompt")
    assert found["prompt"] is not None, found["why"]
    return json.dumps(found["prompt"])


def _drag_out(page: Page, node: Locator, room: Locator) -> None:
    """Past the left edge of the membrane."""
    inner, outer = node.bounding_box(), room.bounding_box()
    assert inner is not None and outer is not None
    x, y = inner["x"] + inner["width"] / 2, inner["y"] + inner["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x - 40, y, steps=4)
    page.mouse.move(outer["x"] - inner["width"], y, steps=6)
    page.mouse.up()
