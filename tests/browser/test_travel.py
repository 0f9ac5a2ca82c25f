"""The past: every view follows the slider, nothing can be changed there, and a run forks from it."""

from __future__ import annotations

import re
from decimal import Decimal
from pathlib import Path

import pytest
from msgspec.structs import replace
from playwright.sync_api import Page, expect

from artelier import Kernel, ModelReply, ModelRequest, Price
from artelier_offline import OfflineModel
from tests.browser.axe import Audit
from tests.browser.conftest import SALES, LivedIn, Shot, SignIn
from tests.browser.hand import Hand
from tests.browser.inside import inside
from tests.browser.test_goal_page import fits

pytestmark = pytest.mark.slow


def test_the_past_is_shown_everywhere_and_a_fork_begins_in_it(
    lived_in: LivedIn, sign_in: SignIn, shot: Shot
) -> None:
    page = sign_in(lived_in.server.link())
    hand = Hand(page)
    mission = hand.launch()  # the newest one, which the canvas shows
    hand.until("missions", mission, status="completed")
    made = [
        hand.node("Artifact", hand.title(hand.get("tasks", f"{mission}/{slug}")["outputs"][0]))
        for slug in ("figures", "report")
    ]
    for one in made:
        expect(one).to_be_visible()
    hand.choose("agent", "Analyst", of=mission)

    timeline = hand.tab("Timeline")
    decisions = hand.events("decision.taken")
    first = next(one for one in decisions if f"{mission}/figures" in one["stream"])
    slider = timeline.get_by_role("slider", name="Position in time")
    slider.fill(str(first["position"] - 1))  # the slider counts events from 0
    expect(page.get_by_text("You are looking at the past")).to_be_visible()
    for one in made:
        expect(one).to_have_count(0)
    expect(hand.node("Task", "figures")).to_have_accessible_name(re.compile("active"))
    expect(hand.node("Task", "report")).to_have_accessible_name(re.compile("pending"))
    goal = page.get_by_role("textbox", name="Goal", exact=True)
    expect(goal).to_be_disabled()
    expect(goal).to_have_attribute("placeholder", re.compile("past"))
    expect(hand.inspector.get_by_role("application", name="Policy bias")).to_have_attribute(
        "aria-disabled", "true"
    )
    hand.tab("Decisions")
    count = sum(one["position"] <= first["position"] for one in decisions)
    words = re.compile(rf"^{count} decisions?$")
    expect(hand.console.get_by_text(words)).to_be_visible()
    shot(page, "travel-past")

    hand.tab("Timeline")
    known = {run["id"] for run in hand.items("runs")}
    timeline.get_by_role("combobox", name="Run to fork").select_option(f"{mission}/figures")
    timeline.get_by_role("button", name=re.compile("Fork")).click()
    expect(page.get_by_text("You are looking at the past")).to_be_hidden()
    fork_id = next(run["id"] for run in hand.items("runs") if run["id"] not in known)
    hand.until("runs", fork_id, status=("completed", "failed"))
    fork = hand.get("runs", fork_id)
    assert fork["status"] == "completed", fork
    shot(page, "travel-fork")
    steps = {one["key"] for one in hand.get("runs", fork_id, "steps")["items"]}
    assert "c2/decision" in steps


class _Loud(OfflineModel):
    """Writes what the offline model writes, with an exclamation."""

    async def complete(self, request: ModelRequest, /) -> ModelReply:
        reply = await super().complete(replace(request, model="offline"))
        if reply.text.startswith("# "):
            return replace(reply, text=f"{reply.text}\n\nHurrah!\n")
        return reply


def test_two_futures_of_one_step_are_read_side_by_side(tmp_path: Path, sign_in: SignIn, shot: Shot) -> None:
    models = {"offline": OfflineModel(), "loud": _Loud()}
    prices = dict.fromkeys(models, Price(input=Decimal(2), output=Decimal(2)))

    def opened(path: Path) -> Kernel:
        return Kernel.open(path, models=models, prices=prices, environ={})

    with inside(tmp_path, opened, workspace=str(SALES)) as server:
        page = sign_in(server.link())
        hand, audit = Hand(page), Audit(page)
        mission = hand.launch()
        hand.until("missions", mission, status="completed")
        run = f"{mission}/figures"
        page.goto(f"{server.address}/runs/{run.replace('/', '%2F')}")
        page.get_by_role("table", name="Steps").get_by_role("row").filter(has_text="c5/content").click()
        page.get_by_role("button", name="Fork from this step").click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_role("combobox", name="What is changed").select_option(label="The model")
        dialog.get_by_role("textbox", name="Another model").fill("loud")
        dialog.get_by_role("button", name="Fork", exact=True).click()

        both = page.get_by_role("region", name="Both futures")
        fork = both.get_by_role("region", name="The fork")
        expect(fork).to_contain_text("done")
        expect(page.get_by_role("main")).to_contain_text("Changed: model loud")
        expect(page.get_by_role("main")).to_contain_text("They decide the same")
        expect(both).to_contain_text("their texts differ")
        texts = both.get_by_role("article")
        expect(texts.first).not_to_contain_text("Hurrah!")
        expect(texts.last).to_contain_text("Hurrah!")
        made = next(one["id"] for one in hand.items("runs") if one["origin"] == run)
        assert hand.get("runs", made)["changes"] == {"model": "loud"}
        for id_, name in ((run, "As it was"), (made, "The fork")):
            head = both.get_by_role("region", name=name)
            cost = hand.get("runs", id_)["total_cost_microusd"]
            expect(head).to_contain_text(f"${cost / 1_000_000:.3f}")
            expect(head).to_contain_text(f"{len(hand.get('tasks', id_)['iterations'])} decisions")
        audit.look("two futures")
        fits(page, shot, "futures")
        _steer_a_fork(page, hand, audit, shot, run)
        audit.verdict()


def _steer_a_fork(page: Page, hand: Hand, audit: Audit, shot: Shot, run: str) -> None:
    """Another fork, which differs by where the puck stands; by keys alone."""
    agent = hand.get("tasks", run)["assigned_agent_id"]
    before = hand.get("steering", agent)
    known = {one["id"] for one in hand.items("runs")}
    page.get_by_role("main").get_by_role("link", name="Back to the run").click()
    page.get_by_role("button", name="Fork", exact=True).click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("combobox", name="What is changed").select_option(label="The steering of its agent")
    pad = dialog.get_by_role("application", name="Policy bias")
    expect(dialog.get_by_role("button", name="Fork", exact=True)).to_be_disabled()
    pad.press("Shift+ArrowRight")
    pad.press("Shift+ArrowDown")
    pad.press("Tab")  # it rests
    audit.look("a fork with another steering")
    fits(page, shot, "fork-steering")
    page.set_viewport_size({"width": 390, "height": 844})
    box = dialog.bounding_box()
    assert box is not None and box["x"] >= 0 and box["x"] + box["width"] <= 390, box
    page.set_viewport_size({"width": 1440, "height": 900})
    dialog.get_by_role("button", name="Fork", exact=True).press("Enter")

    main = page.get_by_role("main")
    expect(main).to_contain_text("Changed: steering, exploratory 0.75 · thorough 0.25")
    made = next(one["id"] for one in hand.items("runs") if one["id"] not in known)
    hand.until("runs", made, status=("completed", "failed"))
    assert hand.get("runs", made)["changes"]["steering"]["xy"] == {"x": 0.75, "y": 0.25}
    after = hand.get("steering", agent)
    assert (after["version"], after["xy"]) == (before["version"], before["xy"])
