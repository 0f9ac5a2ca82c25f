"""Ends of tasks are told apart, and a claim is no end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from artelier import Kernel, ModelRequest
from artelier.errors import ModelRefusedCall
from artelier.testing import ScriptedModel
from tests.browser.conftest import Shot, SignIn
from tests.browser.hand import Hand
from tests.browser.inside import inside
from tests.missions.task_stage import DONE, REPORT, approve, look, sales_of, title_of, write

pytestmark = pytest.mark.slow

WORDS = {
    "writes": ("done with evidence", "A passed evaluation says so"),
    "claims": ("failed by a limit", "without meeting the criteria"),
    "breaks": ("failed by an error", "model"),
    "waits": ("blocked", "may not read it"),
}


def _answer(request: ModelRequest) -> Any:
    """What each agent's model says: by whose goal the prompt holds."""
    told = "\n".join(message.text for message in request.messages)
    title = title_of(request)
    if "breaks" in told:
        raise ModelRefusedCall("the provider is on fire")
    if title == "Verdict":
        return approve(request)
    if title == "content":
        return REPORT
    if "claims" in told:
        return DONE
    return write() if "Result of iteration 1" in told else look()


def _opened(path: Path) -> Kernel:
    return Kernel.open(path, models={"m": ScriptedModel(_answer)}, tools=[sales_of], environ={})


def test_four_ends_of_a_task_are_told_apart(tmp_path: Path, sign_in: SignIn, shot: Shot) -> None:
    with inside(tmp_path, _opened, model="m") as there:
        page = sign_in(there.link())
        hand = Hand(page)
        for slug in ("writes", "claims", "breaks"):
            hand.post("agents", body={"id": f"team/{slug}", "name": slug.capitalize(), "model": "m"})
            _task(hand, slug)
        secret = {"id": "secret", "kind": "document", "content": "No.", "access": "private"}
        hand.post("artifacts", body=secret)
        _task(hand, "waits", agent="team/writes", inputs=["secret"])
        wanted = {"writes": "done", "claims": "failed", "breaks": "failed", "waits": "blocked"}
        for slug, status in wanted.items():
            hand.until("tasks", f"tasks/{slug}", status=status)

        found = {slug: hand.get("tasks", f"tasks/{slug}") for slug in wanted}
        assert found["claims"]["reason"] == "max_iterations"
        assert found["waits"]["reason"] == "missing_input"
        assert found["breaks"]["reason"] not in ("", "max_iterations")
        assert found["writes"]["iterations"][-1]["verdict"]["criteria"][0]["evidence"]
        for slug, words in WORDS.items():
            inspector = hand.choose("task", slug)
            for said in words:
                expect(inspector.get_by_role("status").filter(has_text=said).first).to_be_visible()
            shot(page, f"end-{slug}")


def _task(hand: Hand, slug: str, *, agent: str = "", **more: Any) -> None:
    hand.post(
        "tasks",
        body={
            "id": f"tasks/{slug}",
            "goal": f"One that {slug}.",
            "assigned_agent_id": agent or f"team/{slug}",
            "success_criteria": "- It names the amount that Oslo sold.",
            "max_iterations": 2,
            **more,
        },
    )
